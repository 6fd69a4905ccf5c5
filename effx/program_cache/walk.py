"""Hash everything that a function reaches: its code, the values that the code reads, callees, classes and values.

Each value enters the hash by its type and content. A value whose content is hidden or may differ next time is refused:
an incomplete key would give a wrong program, a refusal costs only time.

Mutable values count too, by their content at the time of the walk, since that is what tracing would read.
Members of users' classes count if any code reads their name. Objects of effx list what they reach in
`__reaches__`; frozen attrs classes need not.

Never: call users' code.
"""

import builtins
import functools
import hashlib
import operator
import re
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import numpy as np

from effx.array import Array, Box, HostArray
from effx.effects import Frame
from effx.flag_kinds import Flag, UserContext
from effx.flags import user_contexts
from effx.ir.types import ArrayType
from effx.lower.placement.concrete import ConcreteArray, is_on_several_devices
from effx.lower.placement.shardings import Device
from effx.lower.runtime.dispatch import FastFunction
from effx.program_cache import classes
from effx.program_cache.bytecode import Chain, code_reads
from effx.program_cache.trusted_modules import (
    is_denied,
    is_effx,
    is_genuine,
    is_library,
    is_pure_builtin,
    is_trusted,
)
from effx.tree.registry import PyTreeDef, declared_forms

__all__ = ["FunctionHasher", "Refusal"]

MAX_ARRAY_BYTES = 2**26  # bytes of arrays hashed by content
MAX_VALUES = 200_000  # values in all: a walk must not take longer than staging would


class Refusal(Exception):  # noqa: N818  no error
    """Why a function has no key."""


class FunctionHasher:
    """One walk from a function over everything it reaches.

    Attributes:
        arrays: the arrays reached, NumPy's too, in order; another process reaches arrays of the same content.
        requested_names: the attributes that code reads from any value.
        needs_all_members: whether code reads attributes with computed names.
        before_staging: whether nothing has been staged yet, so that caches of results must be empty.
        callables: what may have been staged: functions, and jitted forms of them.
    """

    def __init__(self, before_staging: bool = False) -> None:
        self.before_staging = before_staging
        self.hash = hashlib.sha256()
        self.arrays: list[Array | np.ndarray[Any, Any]] = []
        self.requested_names: set[str] = set()
        self.needs_all_members = False
        self._seen: dict[int, tuple[int, object]] = {}
        self._classes: list[tuple[int, type]] = []
        self._members: set[tuple[int, str]] = set()
        self._bytes, self._values = 0, 0
        self.callables: list[object] = []
        self._location = ""

    def digest(self) -> str:
        """Returns the hash, after adding the class members that code may read."""
        previous_count = -1
        while previous_count != len(self._members):
            previous_count = len(self._members)
            for index, cls in self._classes:  # grows during the loop
                for name in sorted(classes.class_members(cls)):
                    if (index, name) in self._members:
                        continue
                    if (
                        self.needs_all_members
                        or name in self.requested_names
                        or classes.is_protocol_member(name)
                    ):
                        self._members.add((index, name))
                        self.add_tagged("member", index, name)
                        self.add_named(f"{cls.__qualname__}.{name}", vars(cls)[name])
        return self.hash.hexdigest()

    def make_refusal(self, text: str) -> Refusal:
        """Returns the refusal for a value at the walk's current location."""
        return Refusal(f"{self._location} {text}" if self._location else text)

    def add_tagged(self, tag: str, *parts: object) -> None:
        """Adds a tag with texts, numbers and bytes, each preceded by its length."""
        self.hash.update(f"{len(parts)}{tag}:".encode())
        for part in parts:
            data = part if type(part) is bytes else str(part).encode(errors="surrogatepass")
            self.hash.update(f"{len(data)}:".encode())
            self.hash.update(data)

    def add_named(self, description: str, x: object) -> None:
        """Adds a value with a description of its location, for refusals."""
        outer_location, self._location = self._location, f"it reads {description}, which is"
        try:
            self.add_value(x)
        finally:
            self._location = outer_location

    def add_if_seen(self, x: object, tag: str) -> bool:
        """Returns whether a value was added before, and then adds its number; otherwise numbers it."""
        seen = self._seen.get(id(x))
        if seen is not None:
            self.add_tagged("again", seen[0])
            return True
        self._seen[id(x)] = len(self._seen), x  # kept alive, so that the id is not reused
        if (callable(x) or hasattr(type(x), "__reaches__")) and not isinstance(x, type):
            self.callables.append(x)
        self.add_tagged(tag)
        return False

    def add_value(self, x: object) -> None:
        """Adds any value.

        Raises:
            Refusal: its content is hidden.
        """
        self._values += 1
        if self._values > MAX_VALUES:
            raise self.make_refusal(f"one of more than {MAX_VALUES} values")
        add = _ADD_BY_TYPE.get(type(x))
        if add is not None:
            add(self, x)
        elif isinstance(x, type):
            self.add_class(x)
        else:
            self.add_other(x)

    def add_values(self, xs: Iterable[object]) -> None:
        items = list(xs)
        self.add_tagged("count", len(items))
        for x in items:
            self.add_value(x)

    # Plain values

    def add_plain(self, x: object) -> None:
        self.add_tagged(type(x).__name__, x if type(x) in (bytes, str) else repr(x))

    def add_integer(self, x: int) -> None:
        self.add_tagged("int", hex(x))  # however many digits

    def add_number(self, x: complex) -> None:
        self.add_tagged(type(x).__name__, x.real.hex(), x.imag.hex())

    def add_tuple(self, x: "tuple[object, ...]") -> None:
        self.add_tagged("tuple")
        self.add_values(x)

    def add_sequence(self, x: "list[object] | deque[object]") -> None:
        if not self.add_if_seen(x, type(x).__name__):
            self.add_values(x)
            if isinstance(x, deque):
                self.add_value(x.maxlen)

    def add_mapping(self, x: Mapping[object, object]) -> None:
        if not self.add_if_seen(x, type(x).__name__):
            if isinstance(x, defaultdict):
                self.add_value(x.default_factory)
            for key, value in x.items():
                self.add_value(key)
                self.add_value(value)
            self.add_tagged("end")

    def add_set(self, x: "set[object] | frozenset[object]") -> None:
        # Sets have no order: elements are added by order of their hashes, each from a separate walk without cycles.
        digests = []
        for element in x:
            inner = FunctionHasher(self.before_staging)
            inner._location = self._location
            inner.add_value(element)
            if inner.arrays or inner._classes:
                raise self.make_refusal("a set of what is no plain value")
            self.requested_names |= inner.requested_names
            self.needs_all_members = self.needs_all_members or inner.needs_all_members
            digests.append(inner.hash.digest())
        self.add_tagged(type(x).__name__, *sorted(digests))

    def add_dtype(self, x: "np.dtype[Any]") -> None:
        if x.hasobject:
            raise self.make_refusal(f"an array of objects ({x})")
        self.add_tagged("dtype", str(x), x.str, repr(x), x.type.__qualname__)

    def add_numpy(self, x: "np.ndarray[Any, Any] | np.generic") -> None:
        if self.add_if_seen(x, "numpy"):
            return
        self._count_bytes(x.nbytes)
        self.add_dtype(x.dtype)
        self.add_tagged("shape", type(x).__name__, x.shape, np.ascontiguousarray(x).tobytes())
        if isinstance(x, np.ndarray):
            self.arrays.append(x)

    def add_array(self, x: Array) -> None:
        """Adds an effx array: its device placement and its elements."""
        if isinstance(x, Box) or not isinstance(x, ConcreteArray | HostArray):
            raise self.make_refusal("a value of a transformation around")
        if self.add_if_seen(x, "array"):
            return
        t = x.type
        if isinstance(x, ConcreteArray):
            if x.is_deleted():
                raise self.make_refusal("a deleted array")
            if is_on_several_devices(x):
                raise self.make_refusal("an array on several devices")
            self.add_tagged("place", x.committed, str(x.device))
        self._count_bytes(t.size * t.dtype.itemsize)
        self.add_dtype(t.dtype)
        self.add_tagged("elements", t.shape, t.weak, np.ascontiguousarray(x.host("jit")).tobytes())
        self.arrays.append(x)

    def _count_bytes(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_ARRAY_BYTES:
            raise self.make_refusal(f"with others more than {MAX_ARRAY_BYTES >> 20} MiB of arrays")

    def add_treedef(self, x: PyTreeDef) -> None:
        """Adds a pytree structure, with the classes of its nodes and their static data."""
        self.add_tagged("tree")
        for kind, arity, data, cls, *_ in cast("Any", x).__getstate__()[1]:
            self.add_tagged("node", kind, arity)
            self.add_value(data)
            self.add_value(cls)

    # Functions

    def add_function(self, f: FunctionType) -> None:
        """Adds a function: a user's by its code and the values it reads, a trusted one by its name and closure."""
        if self.add_if_seen(f, "function"):
            return
        module, code = f.__globals__.get("__name__"), f.__code__
        if is_effx(f) or is_library(f):
            if is_denied(f"{module}.{code.co_qualname}") or is_denied(
                f"{str(module).partition('.')[0]}.{f.__name__}"
            ):
                raise self.make_refusal(f"{module}.{f.__name__}, which does more than compute")
            self.add_tagged("of", module, code.co_qualname, code.co_firstlineno)
            if isinstance(
                trace_method := getattr(f, "trace", None), MethodType
            ):  # by `jit`, with static or donated arguments
                self.add_value(trace_method.__self__)
            elif "<locals>" in code.co_qualname and vars(sys.modules[str(module)]).get(f.__name__) is not f:
                self._add_defaults(f)
                self._add_cells(f, [], str(module))
            return
        self.add_tagged("name", f.__name__, f.__qualname__)
        self.add_code(code)
        outer_location = self._location
        self._location = f.__qualname__
        try:
            reads = code_reads(code)
            if reads.refusal:
                raise self.make_refusal(reads.refusal)
            self.requested_names.update(reads.names)
            self.needs_all_members = self.needs_all_members or not {"format", "format_map", "*"}.isdisjoint(
                reads.names
            )
            self._add_defaults(f)
            self.add_named_values(vars(f))
            self._add_cells(f, reads.free, f.__qualname__)
            for chain in reads.globals:
                self._add_global(f, chain)
        finally:
            self._location = outer_location

    def _add_defaults(self, f: FunctionType) -> None:
        self.add_values(f.__defaults__ or ())
        self.add_named_values(f.__kwdefaults__ or {})

    def add_named_values(self, values: Mapping[str, object]) -> None:
        """Adds values under names, independent of their order."""
        self.add_tagged("names", *sorted(values))
        for name in sorted(values):
            self.add_value(values[name])

    def add_code(self, code: CodeType) -> None:
        """Adds code, without its location in its file."""
        self.add_tagged(
            "code",
            code.co_name,
            code.co_code,
            code.co_exceptiontable,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            code.co_cellvars,
            (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags),
        )
        self.add_values(code.co_consts)

    def add_registered_classes(self) -> None:
        """Adds users' pytree registrations of classes that are not users' own."""
        for cls in sorted(declared_forms.copy(), key=lambda cls: (cls.__module__, cls.__qualname__)):
            parts = declared_forms[cls]
            # effx registers its own classes when it loads them.
            is_effx_class = cls.__module__.partition(".")[0] == "effx" or any(
                [_is_effx_function(x) for x in parts]
            )
            if not is_effx_class and (is_trusted(cls.__module__) or cls.__module__ == "builtins"):
                self.add_tagged("registered", cls.__module__, cls.__qualname__)
                self.add_named(f"how {cls.__qualname__} is taken apart", parts)

    def _add_cells(self, f: FunctionType, chains: Iterable[Chain], owner: str) -> None:
        cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        chains_by_name: dict[str, list[Chain]] = {name: [] for name in cells}
        for chain in chains:
            chains_by_name[chain[0]].append(chain[1:])
        for name, cell in cells.items():
            self.add_tagged("cell", name)
            try:
                x = cell.cell_contents
            except ValueError:
                self.add_tagged("empty")
                continue
            if name == "origin" and type(x) is str and is_effx(f):
                continue  # a source location, for errors
            description = f"the variable `{name}` around {owner} ({type(x).__name__})"
            if isinstance(x, ModuleType):
                for rest in chains_by_name[name]:
                    self._add_module_attribute(x, rest, description)
            else:
                self.add_named(description, x)

    def _add_global(self, f: FunctionType, chain: Chain) -> None:
        name, rest = chain[0], chain[1:]
        self.add_tagged("global", name)
        if name in f.__globals__:
            x = f.__globals__[name]
            description = f"the global `{name}` ({type(x).__name__})"
            if isinstance(x, ModuleType):
                self._add_module_attribute(x, rest, description)
            else:
                self.add_named(f"{description} in {f.__qualname__}", x)
            return
        builtins_value = f.__globals__.get("__builtins__", builtins)
        space: dict[str, object] = (
            builtins_value if isinstance(builtins_value, dict) else vars(builtins_value)
        )
        if name not in space:
            self.add_tagged("missing")
            return
        if space[name] is not vars(builtins).get(name) or not isinstance(
            space[name], type | BuiltinFunctionType
        ):
            self.add_named(f"the builtin `{name}`", space[name])
            return
        if not is_pure_builtin(name) and not (name == "hash" and f.__name__ == "__hash__"):
            raise self.make_refusal(f"uses `{name}`, which does more than compute")
        self.needs_all_members = self.needs_all_members or name in ("getattr", "hasattr")

    def _add_module_attribute(self, module: ModuleType, chain: Chain, description: str) -> None:
        """Adds a module's attribute that code reads, through submodules."""
        path = module.__name__
        if is_trusted(path):
            self.add_tagged("trusted", path, *chain)
        for name in chain:
            path = f"{path}.{name}"
            if is_denied(path):
                raise self.make_refusal(f"reads `{path}`, which does more than compute")
            is_effx_module = module.__name__.partition(".")[0] == "effx"
            if name not in vars(module) and is_effx_module:
                return  # not loaded yet, so it is effx's own
            try:
                x = getattr(module, name) if is_trusted(module.__name__) else vars(module)[name]
            except (AttributeError, KeyError):
                self.add_tagged("missing", path)
                raise self.make_refusal(f"reads `{path}`, which is not there yet") from None
            if isinstance(x, ModuleType):
                if is_effx_module and not is_genuine(module, name, x):
                    self.add_tagged("other", x.__name__)
                module = x
                continue
            if is_effx_module and is_genuine(module, name, x):
                return
            self.add_named(f"`{path}` ({type(x).__name__})", x)
            return
        raise self.make_refusal(f"uses {description} as a value")

    def add_builtin(self, f: BuiltinFunctionType) -> None:
        owner = f.__self__
        if owner is not None and not isinstance(owner, ModuleType):
            self.add_tagged("bound", f.__name__)
            self.add_value(owner)
            return
        module = f.__module__
        if module == "builtins" and is_pure_builtin(f.__name__):
            self.add_tagged("builtin", f.__name__)
            self.needs_all_members = self.needs_all_members or f.__name__ in ("getattr", "hasattr")
            return
        if not is_trusted(module) or is_denied(f"{module}.{f.__name__}"):
            raise self.make_refusal(f"{module}.{f.__name__}, of which only its name is known")
        self.add_tagged("builtin", module, f.__name__)

    def add_method(self, f: MethodType) -> None:
        self.add_tagged("method")
        self.add_value(f.__func__)
        self.add_value(f.__self__)

    def add_descriptor(self, f: types.MethodDescriptorType) -> None:
        self.add_tagged("descriptor", f.__name__)
        self.add_value(f.__objclass__)

    def add_jitted(self, f: object) -> None:
        """Adds a jitted function."""
        if self.add_if_seen(f, "jitted"):
            return
        trace = getattr(f, "trace", None)
        if not isinstance(trace, MethodType):
            raise self.make_refusal("a compiled function without its source")
        self.add_value(trace.__self__)

    def add_partial(self, f: "functools.partial[object]") -> None:
        if not self.add_if_seen(f, "partial"):
            for part in (f.func, f.args, f.keywords, f.__dict__):
                self.add_value(part)

    def add_lru_cache(self, f: "functools._lru_cache_wrapper[object]") -> None:
        """Adds a function with `lru_cache`: earlier results may depend on other values of globals."""
        if self.before_staging and f.cache_info().currsize:
            raise self.make_refusal(
                f"{getattr(f, '__name__', 'a function')}, which remembers earlier results"
            )
        self.add_attributes(f, "__wrapped__")

    def add_attributes(self, x: object, *names: str) -> None:
        """Adds an object's attributes of these names."""
        if not self.add_if_seen(x, type(x).__name__):
            for name in names:
                self.add_value(getattr(x, name))

    # Classes and their instances

    def add_class(self, cls: "type[object]") -> None:
        """Adds a class: a user's by its bases and members, another by its name."""
        if self.add_if_seen(cls, "class"):
            return
        self.add_tagged("class", cls.__module__, cls.__qualname__)
        if cls.__module__ == "builtins":
            if not is_pure_builtin(cls.__name__) and cls not in classes.PLAIN_TYPES:
                raise self.make_refusal(f"the class {cls.__qualname__}")
            return
        if is_trusted(cls.__module__):
            self.needs_all_members = self.needs_all_members or cls in (
                operator.attrgetter,
                operator.methodcaller,
            )
            if is_denied(f"{cls.__module__}.{cls.__qualname__}"):
                raise self.make_refusal(
                    f"the class {cls.__module__}.{cls.__qualname__}, which does more than compute"
                )
            return
        reason = classes.refusal_reason(cls)
        if reason:
            raise self.make_refusal(f"the class {cls.__qualname__}, {reason}")
        self._classes.append((len(self._classes), cls))
        for base in cls.__bases__:
            self.add_class(base)
        self.add_values(classes.class_layout(cls))
        if issubclass(cls, Enum):
            for name, member in cls.__members__.items():
                self.add_tagged("member", name)
                self.add_value(member._value_)
                self.add_named_values(
                    {k: v for k, v in vars(member).items() if k not in classes.ENUM_MEMBER_ATTRIBUTES}
                )

    def add_other(self, x: object) -> None:
        """Adds an instance of any other class."""
        kind = type(x)
        if isinstance(x, Array):
            self.add_array(x)
        elif isinstance(x, np.generic):
            self.add_numpy(x)
        elif isinstance(x, np.dtype):
            self.add_dtype(x)
        elif isinstance(x, Enum):
            self.add_tagged("enum", x._name_)
            self.add_value(x._value_)
            self.add_class(kind)
        elif isinstance(x, functools.partial) and is_trusted(kind.__module__):
            self.add_tagged("class", kind.__qualname__)
            self.add_partial(x)
        elif isinstance(x, Device):
            self.add_tagged("device", x.platform, x.id)
        elif isinstance(x, Flag):
            self.add_tagged("flag", x.name)  # the values of all are part of the key
            if isinstance(x, UserContext):
                self.add_tagged("index", user_contexts.index(x))
        elif isinstance(x, Frame | ModuleType):
            raise self.make_refusal(f"a {kind.__name__}")
        elif kind.__module__ in ("typing", "types") and kind.__name__ in classes.TYPING_FORMS:
            self.add_tagged("form", repr(x))
        elif kind.__module__ == "operator":
            self.needs_all_members = True
            self.add_tagged("operator", kind.__name__)
            self.add_values(cast("Any", x).__reduce__()[1])
        elif kind.__module__ == "numpy" and kind.__name__ in ("ufunc", "_ArrayFunctionDispatcher"):
            name = f"{getattr(x, '__module__', None) or 'numpy'}.{x.__name__}"  # type: ignore[attr-defined]  # both have one
            if is_denied(name) or not is_trusted(name):
                raise self.make_refusal(f"{name}, which does more than compute")
            self.add_tagged("numpy", name)
        elif not self.add_if_seen(x, "instance"):
            self.add_instance(x)

    def add_instance(self, x: object) -> None:
        """Adds an object by its class and state."""
        kind = type(x)
        state = classes.instance_state(x)
        if state is None:
            raise self.make_refusal(f"or holds a {kind.__name__}, whose content does not show")
        self.add_class(kind)
        base = classes.builtin_content(x)
        if base is not None:
            self.add_value(base)
        self.add_named_values(state)


def _is_effx_function(x: object) -> bool:
    return isinstance(x, FunctionType) and is_effx(x) and x.__closure__ is None


AddValue = Callable[[FunctionHasher, Any], None]

_ADD_BY_TYPE: dict[type, AddValue] = {
    int: FunctionHasher.add_integer,
    **dict.fromkeys(
        (type(None), bool, str, bytes, type(...), type(NotImplemented), range), FunctionHasher.add_plain
    ),
    float: FunctionHasher.add_number,
    complex: FunctionHasher.add_number,
    tuple: FunctionHasher.add_tuple,
    list: FunctionHasher.add_sequence,
    deque: FunctionHasher.add_sequence,
    **dict.fromkeys(
        (dict, OrderedDict, defaultdict, Counter, types.MappingProxyType), FunctionHasher.add_mapping
    ),
    set: FunctionHasher.add_set,
    frozenset: FunctionHasher.add_set,
    slice: lambda walk, x: walk.add_tuple((slice, x.start, x.stop, x.step)),
    np.ndarray: FunctionHasher.add_numpy,
    CodeType: FunctionHasher.add_code,
    FunctionType: FunctionHasher.add_function,
    BuiltinFunctionType: FunctionHasher.add_builtin,
    MethodType: FunctionHasher.add_method,
    types.MethodDescriptorType: FunctionHasher.add_descriptor,
    types.WrapperDescriptorType: FunctionHasher.add_descriptor,
    types.ClassMethodDescriptorType: FunctionHasher.add_descriptor,
    types.MethodWrapperType: lambda walk, x: walk.add_tuple((x.__name__, x.__self__)),
    types.MemberDescriptorType: lambda walk, x: walk.add_tagged("slot", x.__name__),
    FastFunction: FunctionHasher.add_jitted,
    functools.partial: FunctionHasher.add_partial,
    functools._lru_cache_wrapper: FunctionHasher.add_lru_cache,
    functools.partialmethod: lambda walk, x: walk.add_attributes(x, "func", "args", "keywords"),
    functools.cached_property: lambda walk, x: walk.add_attributes(x, "func"),
    staticmethod: lambda walk, x: walk.add_attributes(x, "__func__"),
    classmethod: lambda walk, x: walk.add_attributes(x, "__func__"),
    property: lambda walk, x: walk.add_attributes(x, "fget", "fset", "fdel"),
    types.SimpleNamespace: lambda walk, x: walk.add_attributes(x, "__dict__"),
    re.Pattern: lambda walk, x: walk.add_attributes(x, "pattern", "flags"),
    ArrayType: lambda walk, x: walk.add_tagged("type", repr(x), x.weak),
    PyTreeDef: FunctionHasher.add_treedef,
}
