"""A key for everything that a function reaches: its code, what that code reads, and so on through callees, classes and
values.

Each value goes into the hash by its type and content. What cannot, because its content does not show or may be another
one the next time, is refused: a key that says too little would give a wrong program, a refusal costs time only.

Never: call what belongs to the user.
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
from effx.lower.placement.concrete import ConcreteArray, is_spread
from effx.lower.placement.shardings import Device
from effx.lower.runtime.dispatch import FastFunction
from effx.program_cache import classes
from effx.program_cache.bytecode import Chain, reads_of
from effx.program_cache.trusted_modules import denied, genuine, is_effx, is_library, is_trusted, pure_builtin
from effx.tree.registry import PyTreeDef, declared

__all__ = ["Refusal", "Walk"]

MOST = 2**26  # bytes of arrays that are compared by content
LONGEST = 200_000  # values in all: a walk must not take longer than staging would


class Refusal(Exception):  # noqa: N818  no error
    """Why no key says what a function computes."""


class Walk:
    """One walk from a function over what it reaches.

    Attributes:
        arrays: those that were met, NumPy's too, in order: what another process meets in their place has the same content.
        names: the attributes that code asks of any value.
        every: whether code asks for attributes whose names it computes.
        before: whether nothing has been staged yet, so that what remembers results must not hold any.
        callables: what may have been staged, functions and what `jit` and its like hold of them.
    """

    def __init__(self, before: bool = False) -> None:
        self.before = before
        self.hash = hashlib.sha256()
        self.arrays: list[Array | np.ndarray[Any, Any]] = []
        self.names: set[str] = set()
        self.every = False
        self._met: dict[int, tuple[int, object]] = {}
        self._classes: list[tuple[int, type]] = []
        self._members: set[tuple[int, str]] = set()
        self._bytes, self._values = 0, 0
        self.callables: list[object] = []
        self._place = ""

    def key(self) -> str:
        """Returns the hash, after the members of classes that code may ask for have been gone through."""
        before = -1
        while before != len(self._members):
            before = len(self._members)
            for index, cls in self._classes:  # grows meanwhile
                for name in sorted(classes.members(cls)):
                    if (index, name) in self._members:
                        continue
                    if self.every or name in self.names or classes.is_protocol(name):
                        self._members.add((index, name))
                        self.put("member", index, name)
                        self.at(f"{cls.__qualname__}.{name}", vars(cls)[name])
        return self.hash.hexdigest()

    def refuse(self, text: str) -> Refusal:
        """Returns the refusal for what was met where the walk is."""
        return Refusal(f"{self._place} {text}" if self._place else text)

    def put(self, tag: str, *parts: object) -> None:
        """Adds a tag with texts, numbers and bytes, each with its length before it."""
        self.hash.update(f"{len(parts)}{tag}:".encode())
        for part in parts:
            data = part if type(part) is bytes else str(part).encode(errors="surrogatepass")
            self.hash.update(f"{len(data)}:".encode())
            self.hash.update(data)

    def at(self, place: str, x: object) -> None:
        """Adds a value that a place holds, which a refusal names."""
        outer, self._place = self._place, f"it reads {place}, which is"
        try:
            self.value(x)
        finally:
            self._place = outer

    def again(self, x: object, tag: str) -> bool:
        """Says whether a value was met before, and adds which one it was; else counts it."""
        found = self._met.get(id(x))
        if found is not None:
            self.put("again", found[0])
            return True
        self._met[id(x)] = len(self._met), x  # kept alive, so that the id stays its own
        if (callable(x) or hasattr(type(x), "__reaches__")) and not isinstance(x, type):
            self.callables.append(x)
        self.put(tag)
        return False

    def value(self, x: object) -> None:
        """Adds any value.

        Raises:
            Refusal: its content does not show.
        """
        self._values += 1
        if self._values > LONGEST:
            raise self.refuse(f"one of more than {LONGEST} values")
        add = _ADD.get(type(x))
        if add is not None:
            add(self, x)
        elif isinstance(x, type):
            self.cls(x)
        else:
            self.other(x)

    def values(self, xs: Iterable[object]) -> None:
        listed = list(xs)
        self.put("count", len(listed))
        for x in listed:
            self.value(x)

    # Plain values

    def plain(self, x: object) -> None:
        self.put(type(x).__name__, x if type(x) in (bytes, str) else repr(x))

    def integer(self, x: int) -> None:
        self.put("int", hex(x))  # however many digits

    def number(self, x: complex) -> None:
        self.put(type(x).__name__, x.real.hex(), x.imag.hex())

    def fixed(self, x: "tuple[object, ...]") -> None:
        self.put("tuple")
        self.values(x)

    def sequence(self, x: "list[object] | deque[object]") -> None:
        if not self.again(x, type(x).__name__):
            self.values(x)
            if isinstance(x, deque):
                self.value(x.maxlen)

    def mapping(self, x: Mapping[object, object]) -> None:
        if not self.again(x, type(x).__name__):
            if isinstance(x, defaultdict):
                self.value(x.default_factory)
            for key, value in x.items():
                self.value(key)
                self.value(value)
            self.put("end")

    def unordered(self, x: "set[object] | frozenset[object]") -> None:
        # In no order of its own, so in that of the elements' hashes; these are walked apart, without cycles through them.
        found = []
        for element in x:
            inner = Walk(self.before)
            inner._place = self._place
            inner.value(element)
            if inner.arrays or inner._classes:
                raise self.refuse("a set of what is no plain value")
            self.names |= inner.names
            self.every = self.every or inner.every
            found.append(inner.hash.digest())
        self.put(type(x).__name__, *sorted(found))

    def dtype(self, x: "np.dtype[Any]") -> None:
        if x.hasobject:
            raise self.refuse(f"an array of objects ({x})")
        self.put("dtype", str(x), x.str, repr(x), x.type.__qualname__)

    def numpy(self, x: "np.ndarray[Any, Any] | np.generic") -> None:
        if self.again(x, "numpy"):
            return
        self._count(x.nbytes)
        self.dtype(x.dtype)
        self.put("shape", type(x).__name__, x.shape, np.ascontiguousarray(x).tobytes())
        if isinstance(x, np.ndarray):
            self.arrays.append(x)

    def array(self, x: Array) -> None:
        """Adds an array of effx's: where it lies and its elements."""
        if isinstance(x, Box) or not isinstance(x, ConcreteArray | HostArray):
            raise self.refuse("a value of a transformation around")
        if self.again(x, "array"):
            return
        t = x.type
        if isinstance(x, ConcreteArray):
            if x.is_deleted():
                raise self.refuse("an array that is gone")
            if is_spread(x):
                raise self.refuse("an array on several devices")
            self.put("place", x.committed, str(x.device))
        self._count(t.size * t.dtype.itemsize)
        self.dtype(t.dtype)
        self.put("elements", t.shape, t.weak, np.ascontiguousarray(x.host("jit")).tobytes())
        self.arrays.append(x)

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MOST:
            raise self.refuse(f"with others more than {MOST >> 20} MiB of arrays")

    def treedef(self, x: PyTreeDef) -> None:
        """Adds a structure, with the classes of its nodes and what they hold beside their children."""
        self.put("tree")
        for kind, arity, data, cls, *_ in cast("Any", x).__getstate__()[1]:
            self.put("node", kind, arity)
            self.value(data)
            self.value(cls)

    # Functions

    def function(self, f: FunctionType) -> None:
        """Adds a function: of the user's its code and what that reads, of a trusted package its name and its closure."""
        if self.again(f, "function"):
            return
        module, code = f.__globals__.get("__name__"), f.__code__
        if is_effx(f) or is_library(f):
            if denied(f"{module}.{code.co_qualname}") or denied(
                f"{str(module).partition('.')[0]}.{f.__name__}"
            ):
                raise self.refuse(f"{module}.{f.__name__}, which does more than compute")
            self.put("of", module, code.co_qualname, code.co_firstlineno)
            if isinstance(
                made := getattr(f, "trace", None), MethodType
            ):  # by `jit`, with static or donated arguments
                self.value(made.__self__)
            elif "<locals>" in code.co_qualname and vars(sys.modules[str(module)]).get(f.__name__) is not f:
                self._given(f)
                self._cells(f, [], str(module))
            return
        self.put("name", f.__name__, f.__qualname__)
        self.code(code)
        outer = self._place
        self._place = f.__qualname__
        try:
            found = reads_of(code)
            if found.refusal:
                raise self.refuse(found.refusal)
            self.names.update(found.names)
            self.every = self.every or not {"format", "format_map", "*"}.isdisjoint(found.names)
            self._given(f)
            self.names_of(vars(f))
            self._cells(f, found.free, f.__qualname__)
            for chain in found.globals:
                self._global(f, chain)
        finally:
            self._place = outer

    def _given(self, f: FunctionType) -> None:
        self.values(f.__defaults__ or ())
        self.names_of(f.__kwdefaults__ or {})

    def names_of(self, values: Mapping[str, object]) -> None:
        """Adds values under names, in whatever order they are."""
        self.put("names", *sorted(values))
        for name in sorted(values):
            self.value(values[name])

    def code(self, code: CodeType) -> None:
        """Adds code, but not where it stands in its file."""
        self.put(
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
        self.values(code.co_consts)

    def registered(self) -> None:
        """Adds how classes that are not the user's are taken apart, where a user said so."""
        for cls in sorted(declared.copy(), key=lambda cls: (cls.__module__, cls.__qualname__)):
            parts = declared[cls]
            # effx registers its own classes when it loads them.
            ours = cls.__module__.partition(".")[0] == "effx" or any([_is_ours(x) for x in parts])
            if not ours and (is_trusted(cls.__module__) or cls.__module__ == "builtins"):
                self.put("registered", cls.__module__, cls.__qualname__)
                self.at(f"how {cls.__qualname__} is taken apart", parts)

    def _cells(self, f: FunctionType, chains: Iterable[Chain], owner: str) -> None:
        held = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        asked: dict[str, list[Chain]] = {name: [] for name in held}
        for chain in chains:
            asked[chain[0]].append(chain[1:])
        for name, cell in held.items():
            self.put("cell", name)
            try:
                x = cell.cell_contents
            except ValueError:
                self.put("empty")
                continue
            if name == "origin" and type(x) is str and is_effx(f):
                continue  # where a user's function stands, for errors
            place = f"the variable `{name}` around {owner} ({type(x).__name__})"
            if isinstance(x, ModuleType):
                for rest in asked[name]:
                    self._module(x, rest, place)
            else:
                self.at(place, x)

    def _global(self, f: FunctionType, chain: Chain) -> None:
        name, rest = chain[0], chain[1:]
        self.put("global", name)
        if name in f.__globals__:
            x = f.__globals__[name]
            place = f"the global `{name}` ({type(x).__name__})"
            if isinstance(x, ModuleType):
                self._module(x, rest, place)
            else:
                self.at(f"{place} in {f.__qualname__}", x)
            return
        known = f.__globals__.get("__builtins__", builtins)
        space: dict[str, object] = known if isinstance(known, dict) else vars(known)
        if name not in space:
            self.put("missing")
            return
        if space[name] is not vars(builtins).get(name) or not isinstance(
            space[name], type | BuiltinFunctionType
        ):
            self.at(f"the builtin `{name}`", space[name])
            return
        if not pure_builtin(name) and not (name == "hash" and f.__name__ == "__hash__"):
            raise self.refuse(f"uses `{name}`, which does more than compute")
        self.every = self.every or name in ("getattr", "hasattr")

    def _module(self, module: ModuleType, chain: Chain, place: str) -> None:
        """Adds what is asked of a module, through modules in it."""
        path = module.__name__
        if is_trusted(path):
            self.put("trusted", path, *chain)
        for name in chain:
            path = f"{path}.{name}"
            if denied(path):
                raise self.refuse(f"reads `{path}`, which does more than compute")
            ours = module.__name__.partition(".")[0] == "effx"
            if name not in vars(module) and ours:
                return  # not loaded yet, so it will be effx's own
            try:
                x = getattr(module, name) if is_trusted(module.__name__) else vars(module)[name]
            except (AttributeError, KeyError):
                self.put("missing", path)
                raise self.refuse(f"reads `{path}`, which is not there yet") from None
            if isinstance(x, ModuleType):
                if ours and not genuine(module, name, x):
                    self.put("other", x.__name__)
                module = x
                continue
            if ours and genuine(module, name, x):
                return
            self.at(f"`{path}` ({type(x).__name__})", x)
            return
        raise self.refuse(f"uses {place} as a value")

    def builtin(self, f: BuiltinFunctionType) -> None:
        owner = f.__self__
        if owner is not None and not isinstance(owner, ModuleType):
            self.put("bound", f.__name__)
            self.value(owner)
            return
        module = f.__module__
        if module == "builtins" and pure_builtin(f.__name__):
            self.put("builtin", f.__name__)
            self.every = self.every or f.__name__ in ("getattr", "hasattr")
            return
        if not is_trusted(module) or denied(f"{module}.{f.__name__}"):
            raise self.refuse(f"{module}.{f.__name__}, of which only its name is known")
        self.put("builtin", module, f.__name__)

    def method(self, f: MethodType) -> None:
        self.put("method")
        self.value(f.__func__)
        self.value(f.__self__)

    def descriptor(self, f: types.MethodDescriptorType) -> None:
        self.put("descriptor", f.__name__)
        self.value(f.__objclass__)

    def jitted(self, f: object) -> None:
        """Adds a function that `jit` made."""
        if self.again(f, "jitted"):
            return
        trace = getattr(f, "trace", None)
        if not isinstance(trace, MethodType):
            raise self.refuse("a compiled function without its source")
        self.value(trace.__self__)

    def partial(self, f: "functools.partial[object]") -> None:
        if not self.again(f, "partial"):
            for part in (f.func, f.args, f.keywords, f.__dict__):
                self.value(part)

    def remembering(self, f: "functools._lru_cache_wrapper[object]") -> None:
        """Adds a function that remembers results: those of before may be of other globals than there are now."""
        if self.before and f.cache_info().currsize:
            raise self.refuse(f"{getattr(f, '__name__', 'a function')}, which remembers earlier results")
        self.held(f, "__wrapped__")

    def held(self, x: object, *names: str) -> None:
        """Adds what an object holds that does no more than hold it."""
        if not self.again(x, type(x).__name__):
            for name in names:
                self.value(getattr(x, name))

    # Classes and their instances

    def cls(self, cls: "type[object]") -> None:
        """Adds a class: of a user's its bases and members, of others its name."""
        if self.again(cls, "class"):
            return
        self.put("class", cls.__module__, cls.__qualname__)
        if cls.__module__ == "builtins":
            if not pure_builtin(cls.__name__) and cls not in classes.PLAIN:
                raise self.refuse(f"the class {cls.__qualname__}")
            return
        if is_trusted(cls.__module__):
            self.every = self.every or cls in (operator.attrgetter, operator.methodcaller)
            if denied(f"{cls.__module__}.{cls.__qualname__}"):
                raise self.refuse(
                    f"the class {cls.__module__}.{cls.__qualname__}, which does more than compute"
                )
            return
        reason = classes.refusal(cls)
        if reason:
            raise self.refuse(f"the class {cls.__qualname__}, {reason}")
        self._classes.append((len(self._classes), cls))
        for base in cls.__bases__:
            self.cls(base)
        self.values(classes.form(cls))
        if issubclass(cls, Enum):
            for name, member in cls.__members__.items():
                self.put("member", name)
                self.value(member._value_)
                self.names_of({k: v for k, v in vars(member).items() if k not in classes.OF_MEMBERS})

    def other(self, x: object) -> None:
        """Adds an instance of any other class."""
        kind = type(x)
        if isinstance(x, Array):
            self.array(x)
        elif isinstance(x, np.generic):
            self.numpy(x)
        elif isinstance(x, np.dtype):
            self.dtype(x)
        elif isinstance(x, Enum):
            self.put("enum", x._name_)
            self.value(x._value_)
            self.cls(kind)
        elif isinstance(x, functools.partial) and is_trusted(kind.__module__):
            self.put("class", kind.__qualname__)
            self.partial(x)
        elif isinstance(x, Device):
            self.put("device", x.platform, x.id)
        elif isinstance(x, Flag):
            self.put("flag", x.name)  # the values of all are part of the key
            if isinstance(x, UserContext):
                self.put("index", user_contexts.index(x))
        elif isinstance(x, Frame | ModuleType):
            raise self.refuse(f"a {kind.__name__}")
        elif kind.__module__ in ("typing", "types") and kind.__name__ in classes.FORMS:
            self.put("form", repr(x))
        elif kind.__module__ == "operator":
            self.every = True
            self.put("operator", kind.__name__)
            self.values(cast("Any", x).__reduce__()[1])
        elif kind.__module__ == "numpy" and kind.__name__ in ("ufunc", "_ArrayFunctionDispatcher"):
            name = f"{getattr(x, '__module__', None) or 'numpy'}.{x.__name__}"  # type: ignore[attr-defined]  # both have one
            if denied(name) or not is_trusted(name):
                raise self.refuse(f"{name}, which does more than compute")
            self.put("numpy", name)
        elif not self.again(x, "instance"):
            self.instance(x)

    def instance(self, x: object) -> None:
        """Adds an object by its class and what it holds."""
        kind = type(x)
        state = classes.state(x)
        if state is None:
            raise self.refuse(f"or holds a {kind.__name__}, whose content does not show")
        self.cls(kind)
        base = classes.content(x)
        if base is not None:
            self.value(base)
        self.names_of(state)


def _is_ours(x: object) -> bool:
    return isinstance(x, FunctionType) and is_effx(x) and x.__closure__ is None


Add = Callable[[Walk, Any], None]

_ADD: dict[type, Add] = {
    int: Walk.integer,
    **dict.fromkeys((type(None), bool, str, bytes, type(...), type(NotImplemented), range), Walk.plain),
    float: Walk.number,
    complex: Walk.number,
    tuple: Walk.fixed,
    list: Walk.sequence,
    deque: Walk.sequence,
    **dict.fromkeys((dict, OrderedDict, defaultdict, Counter, types.MappingProxyType), Walk.mapping),
    set: Walk.unordered,
    frozenset: Walk.unordered,
    slice: lambda walk, x: walk.fixed((slice, x.start, x.stop, x.step)),
    np.ndarray: Walk.numpy,
    CodeType: Walk.code,
    FunctionType: Walk.function,
    BuiltinFunctionType: Walk.builtin,
    MethodType: Walk.method,
    types.MethodDescriptorType: Walk.descriptor,
    types.WrapperDescriptorType: Walk.descriptor,
    types.ClassMethodDescriptorType: Walk.descriptor,
    types.MethodWrapperType: lambda walk, x: walk.fixed((x.__name__, x.__self__)),
    types.MemberDescriptorType: lambda walk, x: walk.put("slot", x.__name__),
    FastFunction: Walk.jitted,
    functools.partial: Walk.partial,
    functools._lru_cache_wrapper: Walk.remembering,
    functools.partialmethod: lambda walk, x: walk.held(x, "func", "args", "keywords"),
    functools.cached_property: lambda walk, x: walk.held(x, "func"),
    staticmethod: lambda walk, x: walk.held(x, "__func__"),
    classmethod: lambda walk, x: walk.held(x, "__func__"),
    property: lambda walk, x: walk.held(x, "fget", "fset", "fdel"),
    types.SimpleNamespace: lambda walk, x: walk.held(x, "__dict__"),
    re.Pattern: lambda walk, x: walk.held(x, "pattern", "flags"),
    ArrayType: lambda walk, x: walk.put("type", repr(x), x.weak),
    PyTreeDef: Walk.treedef,
}
