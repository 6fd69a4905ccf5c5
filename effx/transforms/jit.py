"""`jit`: a function becomes a program, compiled once for each kind of arguments.

The object that users get is jaxlib's C++ function: on a hit it runs without Python. On a miss it
comes here, where the arguments' types choose a program. Outside of all handlers the program is
compiled and run; under handlers it is performed as a `Call`.

Never: interpret an operation.
"""

import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial, update_wrapper
from operator import index
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, final, overload

import attrs

from effx import flags
from effx.array import Array
from effx.effects import Frame, are_optional, current_frame, is_in_scope, isolated
from effx.errors import BackendError, TransformError, check_function, hide_internal_frames
from effx.handlers.evaluate import device_for
from effx.handlers.recursion.payloads import performs_once
from effx.handlers.stage import run_program, stage
from effx.ir.ops.control import Call, HigherOrder
from effx.ir.program import Program
from effx.ir.types import ArrayType
from effx.lower.backends import default_device, local_devices
from effx.lower.concrete import ConcreteArray, as_concrete
from effx.lower.dispatch import FastPath, fast_function, fast_path, reads_scalars
from effx.lower.parallel import spans_devices
from effx.lower.sharding import Device, device_name, device_of
from effx.lower.xla import Executable, compile_program
from effx.transforms.arguments import abstract, as_arrays, flatten_output, name_of, origin_of, signature_of
from effx.transforms.stages import Lowered, Traced
from effx.tree.registry import PyTree, PyTreeDef, flatten

__all__ = ["Jitted", "jit"]

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
Q = ParamSpec("Q")


class Jitted(Protocol[P, R_co]):
    """A function that `jit` compiled: called like the original, with ways to look inside."""

    __name__: str

    @overload
    def __get__(self, instance: None, owner: object = None, /) -> "Jitted[P, R_co]": ...
    @overload
    def __get__(
        self: "Jitted[Concatenate[S, Q], R_co]", instance: S, owner: object = None, /
    ) -> Callable[Q, R_co]: ...
    def __get__(self, instance: object, owner: object = None, /) -> Any:
        """Binds a jitted method to its object."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Calls the compiled function."""
        ...

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Traced:
        """Stages the function for arguments, or for things with their shapes and dtypes."""
        ...

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Stages and lowers to StableHLO."""
        ...

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Gives shapes and dtypes of the result without computing."""
        ...

    def clear_cache(self) -> None:
        """Forgets all programs of this function."""
        ...


@final
@attrs.frozen
class Options:
    """What a user chose for one jitted function."""

    static_argnums: tuple[int, ...]
    static_argnames: tuple[str, ...]
    donate_argnums: tuple[int, ...]
    donate_argnames: tuple[str, ...]
    keep_unused: bool
    inline: bool
    device: Device | None

    @property
    def needs_guard(self) -> bool:
        """Whether calls take a step in Python: to bury donated arrays, to explain unhashable arguments."""
        return bool(
            self.static_argnums or self.static_argnames or self.donate_argnums or self.donate_argnames
        )


@final
@attrs.define(eq=False)
class Entry:
    """One staged form of a function.

    Attributes:
        program: its first inputs are for `captured`.
        captured: what the function closed over.
        foreign: the handlers' frames among the captured values' owners.
        in_tree, out_tree: structures of the dynamic arguments and of the result.
        donated: for each dynamic leaf whether its memory may be reused.
        executables: by device and commitment.
    """

    program: Program
    captured: tuple[Array, ...]
    foreign: tuple[Frame, ...]
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    donated: tuple[bool, ...]
    executables: dict[tuple[Device, bool], Executable] = attrs.field(factory=dict)


def trace_settings() -> tuple[object, ...]:
    """Returns the flags, and what of the handlers around, that change what tracing gives."""
    return (
        performs_once(current_frame()),
        flags.enable_x64.value,
        flags.default_matmul_precision.value,
        flags.threefry_partitionable.value,
        flags.numpy_rank_promotion.value,
        flags.numpy_dtype_promotion.value,
    )


def axis_environment() -> tuple[tuple[Hashable, int], ...]:
    """Returns names and sizes of the axes that the current handlers bind, innermost first."""
    frame = current_frame()
    found = []
    while frame is not None:
        name = getattr(frame.handler, "axis_name", None)
        if name is not None:
            found.append((name, cast("int", getattr(frame.handler, "size", 0))))
        frame = frame.outer
    return tuple(found)


class Function(Generic[P, R]):
    """The Python side of one function that is staged for each kind of arguments.

    Attributes:
        what: the transformation, for errors.
        operation: how the staged program is performed where handlers are at work.
    """

    def __init__(
        self,
        fun: Callable[P, R],
        options: Options,
        what: str = "jit",
        operation: Callable[[Program], HigherOrder] = Call,
    ) -> None:
        self.fun = fun
        self.options = options
        self.what = what
        self.operation = operation
        self.name = name_of(fun)
        self.origin = origin_of(fun)
        self.entries: dict[Hashable, Entry] = {}

    # From arguments to a staged program

    def split(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object], tuple[Hashable, ...]]:
        """Parts the arguments into dynamic ones and a hashable key of the static ones."""
        o = self.options
        if not o.static_argnums and not o.static_argnames:
            return args, kwargs, ()
        count = len(args)
        static: list[tuple[Hashable, object]] = []
        places = set()
        for n in o.static_argnums:
            if not -count <= n < count:
                names = list(signature_of(self.fun).parameters) if signature_of(self.fun) else []  # type: ignore[union-attr]  # checked
                if n >= 0 and n < len(names) and (names[n] in kwargs or names[n] in o.static_argnames):
                    continue
                raise TransformError(
                    f"{self.what}: {self.name} was called with {count} positional arguments, fewer than "
                    f"static_argnums {o.static_argnums} needs"
                )
            places.add(n % count)
        static += [(n, args[n]) for n in sorted(places)]
        static += [(name, kwargs[name]) for name in o.static_argnames if name in kwargs]
        for where, value in static:
            try:
                hash(value)
            except TypeError:
                what = f"argument {where}" if isinstance(where, int) else f"argument {where!r}"
                raise TransformError(
                    f"{self.what}: static {what} of {self.name} must be hashable, "
                    f"got {value!r} of type {type(value).__name__}"
                ) from None
        dynamic = tuple([a for i, a in enumerate(args) if i not in places])
        named = {k: v for k, v in kwargs.items() if k not in o.static_argnames}
        # 1, 1.0 and True are equal but different static values.
        return dynamic, named, tuple([(where, type(value), value) for where, value in static])

    def merge(
        self, dynamic: tuple[object, ...], named: dict[str, object], static: tuple[Hashable, ...]
    ) -> tuple[list[object], dict[str, object]]:
        """Puts static arguments back in their places."""
        args, kwargs = list(dynamic), dict(named)
        for item in static:
            where, _, value = cast("tuple[Hashable, object, object]", item)
            if isinstance(where, int):
                args.insert(where, value)
            else:
                kwargs[cast("str", where)] = value
        return args, kwargs

    def donations(
        self, dynamic: tuple[object, ...], named: dict[str, object], count: int
    ) -> tuple[bool, ...]:
        """Says for each dynamic leaf whether the user donated it."""
        o = self.options
        if not o.donate_argnums and not o.donate_argnames:
            return (False,) * count
        places = [i for i in range(len(dynamic) + len(o.static_argnums)) if i not in o.static_argnums]
        flags: list[bool] = []
        for i, a in zip(places, dynamic, strict=False):
            flags += [i in o.donate_argnums] * len(flatten(a)[0])
        for key in sorted(named):
            flags += [key in o.donate_argnames] * len(flatten(named[key])[0])
        return tuple(flags)

    def entry(
        self,
        types: tuple[ArrayType, ...],
        tree: PyTreeDef,
        static: tuple[Hashable, ...],
        dynamic: tuple[object, ...],
        named: dict[str, object],
    ) -> Entry:
        """Returns the staged form for these types, staging it the first time."""
        key = (tree, types, static, trace_settings(), axis_environment())
        found = self.entries.get(key)
        if found is not None and all([is_in_scope(f) and f.live for f in found.foreign]):
            return found
        out_tree: PyTreeDef | None = None

        def body(arrays: list[Array]) -> Sequence[Array]:
            nonlocal out_tree
            inner, inner_named = tree.unflatten(arrays)
            args, kwargs = self.merge(inner, inner_named, static)
            results, out_tree = flatten_output(self.what, self.name, self.fun(*args, **kwargs))  # type: ignore[arg-type]  # the user's own arguments
            return results

        staged = stage(body, types, self.name, self.what, self.origin)
        assert out_tree is not None
        foreign = tuple({x.frame: None for x in staged.captured if x.frame is not None})
        found = self.entries[key] = Entry(
            staged.program,
            staged.captured,
            foreign,
            tree,
            out_tree,
            self.donations(dynamic, named, len(types)),
        )
        return found

    def prepare(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[Entry, list[Array], list[PyTree]]:
        """Finds the staged form for arguments, and the arguments' arrays."""
        dynamic, named, static = self.split(args, kwargs)
        leaves, tree = flatten((dynamic, named))
        arrays = as_arrays(self.what, leaves, (dynamic, named))
        entry = self.entry(tuple([x.type for x in arrays]), tree, static, dynamic, named)
        return entry, arrays, leaves

    # Running

    def miss(self, *args: Any, **kwargs: Any) -> tuple[R, FastPath | None, bool]:
        """What C++ calls for arguments that it has no compiled program for."""
        if flags.disable_jit.value:
            return self.fun(*args, **kwargs), None, False
        try:
            return self.run(args, kwargs)
        except Exception as error:
            hide_internal_frames(error)  # of this frame too: a bare raise adds none
            raise

    def run(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[R, FastPath | None, bool]:
        """Stages and compiles as far as needed, then computes the result."""
        entry, arrays, leaves = self.prepare(args, kwargs)
        if current_frame() is not None or entry.foreign or not are_optional(entry.program.effects):
            return self.perform(entry, arrays), None, False
        concrete = [as_concrete(x) for x in arrays]
        executable = self.executable(entry, concrete)
        for x in concrete:
            x._check_alive(self.name)
        settled = executable.takes_as_is(concrete)
        settled = settled and (all([type(x) is ConcreteArray for x in leaves]) or reads_scalars())
        result: R = entry.out_tree.unflatten(executable.run(concrete))
        return result, fast_path(executable, result) if settled else None, False

    def perform(self, entry: Entry, arrays: Sequence[Array]) -> R:
        """Performs the program as a call under the current handlers."""
        inputs = [*entry.captured, *arrays]
        if self.options.inline:
            results: Sequence[Array] = run_program(entry.program, inputs)
        else:
            results = self.operation(entry.program)(*inputs)
        result: R = entry.out_tree.unflatten(results)
        return result

    def executable(self, entry: Entry, arrays: list[ConcreteArray]) -> Executable:
        """Returns the compiled form for where the arrays lie, compiling it the first time."""
        # What runs on several devices chooses them itself.
        device, committed = (
            (default_device(), False) if spans_devices(entry.program) else device_for(self.name, arrays)
        )
        if self.options.device is not None:
            if committed and device != self.options.device:
                raise BackendError(
                    f"{self.what}: {self.name} is bound to {device_name(self.options.device)}, "
                    f"but an argument is committed to {device_name(device)}"
                )
            device, committed = self.options.device, True
        found = entry.executables.get((device, committed))
        if found is None:
            found = entry.executables[device, committed] = self.compile(entry, device, committed)
        return found

    def compile(self, entry: Entry, device: Device, committed: bool) -> Executable:
        """Compiles a staged form for a device."""
        with isolated():
            constants = [as_concrete(x) for x in entry.captured]
        return compile_program(
            entry.program,
            constants,
            device,
            donated=entry.donated,
            keep_unused=self.options.keep_unused,
            committed=committed,
        )

    def guard(self, fast: Callable[P, R]) -> Callable[P, R]:
        """Wraps the fast function where C++ alone would leave users with puzzles."""
        o = self.options

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                result = fast(*args, **kwargs)
            except ValueError:
                self.split(args, kwargs)  # C++ found an unhashable static argument: say which
                raise
            donated = [args[i] for i in o.donate_argnums if i < len(args)]
            donated += [kwargs[name] for name in o.donate_argnames if name in kwargs]
            for x in flatten(donated)[0]:
                if type(x) is ConcreteArray:
                    x.bury()
            return result

        return call

    # Looking inside

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Stages the function for arguments, or for things with their shapes and dtypes."""
        dynamic, named, static = self.split(args, kwargs)
        leaves, tree = flatten((dynamic, named))
        types = tuple([abstract(self.what, x) for x in leaves])
        with isolated():
            entry = self.entry(types, tree, static, dynamic, named)
        device = self.options.device
        return Traced(
            entry.program,
            entry.captured,
            entry.in_tree,
            entry.out_tree,
            self.name,
            lambda where: self.compile(entry, where, device is not None),
            entry.donated,
            self.options.keep_unused,
            device,
        )

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Stages and lowers to StableHLO."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Gives shapes and dtypes of the result without computing."""
        return self.trace(*args, **kwargs).out_info


def numbers_of(what: str, value: "int | Iterable[int] | None") -> tuple[int, ...]:
    """Returns argument numbers in order, each once; none for None."""
    if value is None:
        return ()
    try:
        return tuple(sorted({index(n) for n in (value if isinstance(value, Iterable) else (value,))}))
    except TypeError:
        raise TransformError(f"{what} must be an int or a sequence of ints, got {value!r}") from None


def _names(what: str, value: "str | Iterable[str] | None") -> tuple[str, ...]:
    names = () if value is None else (value,) if isinstance(value, str) else tuple(value)
    for n in names:
        if not isinstance(n, str):
            raise TransformError(f"jit: {what} must be a string or a sequence of strings, got {value!r}")
    return names


def _options(
    fun: Callable[..., object],
    static_argnums: "int | Iterable[int] | None",
    static_argnames: "str | Iterable[str] | None",
    donate_argnums: "int | Iterable[int] | None",
    donate_argnames: "str | Iterable[str] | None",
    keep_unused: bool,
    inline: bool,
    device: object,
    backend: str | None,
) -> Options:
    nums, names = (
        numbers_of("jit: static_argnums", static_argnums),
        _names("static_argnames", static_argnames),
    )
    donated, donated_names = (
        numbers_of("jit: donate_argnums", donate_argnums),
        _names("donate_argnames", donate_argnames),
    )
    signature = signature_of(fun)
    if signature is not None:
        nums, names = _match(signature, fun, "static", nums, names)
        donated, donated_names = _match(signature, fun, "donate", donated, donated_names)
    both = set(nums) & set(donated) or set(names) & set(donated_names)
    if both:
        raise TransformError(f"jit: arguments cannot be both static and donated: {sorted(map(str, both))}")
    where = device_of(device)
    if where is None and backend is not None:
        where = local_devices(backend)[0]
    return Options(nums, names, donated, donated_names, keep_unused, inline, where)


def _match(
    signature: inspect.Signature,
    fun: Callable[..., object],
    what: str,
    nums: tuple[int, ...],
    names: tuple[str, ...],
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Completes argument numbers by names and names by numbers, and checks both."""
    parameters = list(signature.parameters.values())
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    open_names = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for n in nums:
        if not variadic and not -len(positional) <= n < len(positional):
            raise TransformError(
                f"jit: {what}_argnums names argument {n}, but {name_of(fun)} takes {len(positional)} positional arguments"
            )
    for name in names:
        if not open_names and name not in signature.parameters:
            raise TransformError(
                f"jit: {what}_argnames names {name!r}, but {name_of(fun)} has no such parameter"
            )
    if not variadic:
        nums = tuple(n % len(positional) for n in nums)
    all_names = dict.fromkeys([*names, *[positional[n] for n in nums if 0 <= n < len(positional)]])
    all_nums = sorted({*nums, *[positional.index(name) for name in names if name in positional]})
    return tuple(all_nums), tuple(all_names)


@overload
def jit(
    fun: Callable[P, R],
    *,
    static_argnums: "int | Iterable[int] | None" = None,
    static_argnames: "str | Iterable[str] | None" = None,
    donate_argnums: "int | Iterable[int] | None" = None,
    donate_argnames: "str | Iterable[str] | None" = None,
    keep_unused: bool = False,
    inline: bool = False,
    device: object = None,
    backend: str | None = None,
) -> Jitted[P, R]: ...
@overload
def jit(
    fun: None = None,
    *,
    static_argnums: "int | Iterable[int] | None" = None,
    static_argnames: "str | Iterable[str] | None" = None,
    donate_argnums: "int | Iterable[int] | None" = None,
    donate_argnames: "str | Iterable[str] | None" = None,
    keep_unused: bool = False,
    inline: bool = False,
    device: object = None,
    backend: str | None = None,
) -> "Decorator": ...
def jit(
    fun: Callable[P, R] | None = None,
    *,
    static_argnums: "int | Iterable[int] | None" = None,
    static_argnames: "str | Iterable[str] | None" = None,
    donate_argnums: "int | Iterable[int] | None" = None,
    donate_argnames: "str | Iterable[str] | None" = None,
    keep_unused: bool = False,
    inline: bool = False,
    device: object = None,
    backend: str | None = None,
) -> "Jitted[P, R] | Decorator":
    """Compiles a function with XLA: staged once for each kind of arguments, then run in C++.

    Args:
        fun: takes and returns pytrees of arrays. Without it, `jit(...)` is a decorator.
        static_argnums, static_argnames: arguments that are part of the program; hashable. A
            program is staged for each value.
        donate_argnums, donate_argnames: arguments whose memory results may reuse; using them
            afterwards is an error.
        keep_unused: True to pass arguments that the program does not read.
        inline: True to put the body in the caller's place when an outer function is staged.
        device: where to run; by default where the arguments are.
        backend: the platform to run on, if no device is given.

    Returns:
        The compiled function, with `.trace`, `.lower`, `.eval_shape` and `.clear_cache`.

    Raises:
        TransformError: static or donated arguments that do not exist or are not hashable.
        DTypeError: an argument is no array and not static.

    >>> import effx, effx.numpy as enp
    >>> @effx.jit
    ... def selu(x, alpha=1.67, lmbda=1.05):
    ...     return lmbda * enp.where(x > 0, x, alpha * enp.exp(x) - alpha)
    >>> selu(enp.array([-1., 2.]))
    Array([-1.1084234,  2.1      ], dtype=float32)
    """
    if fun is None:
        return cast(
            "Decorator",
            partial(
                jit,
                static_argnums=static_argnums,
                static_argnames=static_argnames,
                donate_argnums=donate_argnums,
                donate_argnames=donate_argnames,
                keep_unused=keep_unused,
                inline=inline,
                device=device,
                backend=backend,
            ),
        )
    check_function("jit", fun)
    options = _options(
        fun,
        static_argnums,
        static_argnames,
        donate_argnums,
        donate_argnames,
        keep_unused,
        inline,
        device,
        backend,
    )
    return public_form(Function(fun, options))


def public_form(function: Function[P, R]) -> Jitted[P, R]:
    """Returns the C++ function that users get for a staged one."""
    fun, options = function.fun, function.options
    fast = fast_function(function.name, fun, function.miss, options.static_argnums, options.static_argnames)
    # jaxlib's C++ functions take attributes, as Python's do.
    public: Any = function.guard(fast) if options.needs_guard else fast
    update_wrapper(public, fun)
    public.trace = function.trace
    public.lower = function.lower
    public.eval_shape = function.eval_shape

    def clear_cache() -> None:
        function.entries.clear()
        fast._clear_cache()  # type: ignore[attr-defined]  # as above

    public.clear_cache = clear_cache
    return cast("Jitted[P, R]", public)


class Decorator(Protocol):
    """What `jit(...)` without a function gives."""

    def __call__(self, fun: Callable[P, R]) -> Jitted[P, R]:
        """Compiles the function with the options that were given."""
        ...
