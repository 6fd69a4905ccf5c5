"""The options of a jitted function: static and donated arguments, shardings, device and compiler options."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from operator import index
from typing import final

import attrs

from effx.caching import exact_key
from effx.errors import TransformError
from effx.flag_values import CompileMode, check_compile_mode
from effx.lower.compile_options import EFFORTS, CompilerEffortLevel, CompilerOptions
from effx.lower.placement.backends import local_devices
from effx.lower.placement.shardings import Device, resolve_device
from effx.tracing.arguments import callable_name, function_signature, normalize_parameter_numbers
from effx.transforms.jit.shardings import JitShardings, jit_shardings, shared_device
from effx.tree.registry import PyTree


@final
class Inline(Enum):
    """Where the body of a jitted function becomes part of a jitted function that calls it.

    JAX_EARLY: where that is staged. JAX_LATE: where it is lowered. XLA_EARLY, XLA_LATE, AUTO: nowhere; XLA decides.

    >>> import effx
    >>> double = effx.jit(lambda x: 2 * x, inline=Inline.JAX_EARLY)
    >>> print(effx.make_jaxpr(double)(1.0).equations[0].op)
    Mul()
    """

    JAX_EARLY = "jax_early"
    JAX_LATE = "jax_late"
    XLA_EARLY = "xla_early"
    XLA_LATE = "xla_late"
    AUTO = "auto"


@final
@attrs.frozen(kw_only=True)
class Options:
    """The options of one jitted function."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()
    keep_unused: bool = False
    inline: Inline = Inline.AUTO
    device: Device | None = None
    compiler_options: CompilerOptions = ()
    compile: CompileMode | None = None
    shardings: "JitShardings | None" = None

    @property
    def needs_python_wrapper(self) -> bool:
        """Whether calls need a Python wrapper: to compare static arguments exactly, to mark donated arrays deleted."""
        return bool(
            self.static_argnums or self.static_argnames or self.donate_argnums or self.donate_argnames
        )

    def with_ref_contents(self) -> "Options":
        """Returns the options of the function that returns `(result, contents of the references)`."""
        shardings = self.shardings
        return (
            self
            if shardings is None
            else attrs.evolve(self, shardings=attrs.evolve(shardings, has_contents=True))
        )


def valid_argument_numbers(numbers: tuple[int, ...], count: int) -> set[int]:
    """Returns the argument numbers, as indices from 0, that exist in a call with `count` positional arguments."""
    return {n % count for n in numbers if -count <= n < count}


@final
class PositionalRoles(dict[int, tuple[set[int], set[int]]]):
    """The static and the donated argument numbers, by the number of positional arguments."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def __missing__(self, count: int) -> tuple[set[int], set[int]]:
        o = self.options
        self[count] = roles = (
            valid_argument_numbers(o.static_argnums, count),
            valid_argument_numbers(o.donate_argnums, count),
        )
        return roles


@final
class ExactStatic:
    """A static argument wrapped for C++, which compares by `==`: equal only for equal types and bits."""

    __slots__ = ("hash", "key", "value")

    def __init__(self, value: object) -> None:
        self.value = value
        self.key = exact_key(value)
        self.hash = hash(self.key)  # C++ hashes more than once, and hashing a model's structure is slow

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return type(other) is ExactStatic and self.hash == other.hash and self.key == other.key


def wrap_static_argument(x: object) -> object:
    """Wraps a static argument so that C++ compares it exactly."""
    if type(x) in (bool, int, str, type(None)):
        return x
    return ExactStatic(x)


def parse_argnums(parameter: str, value: "int | Iterable[int] | None") -> tuple[int, ...]:
    """Returns argument numbers in order without duplicates; none for None."""
    if value is None:
        return ()
    try:
        return tuple(sorted({index(n) for n in (value if isinstance(value, Iterable) else (value,))}))
    except TypeError:
        raise TransformError(f"{parameter} must be an int or a sequence of ints, got {value!r}") from None


def parse_argnames(parameter: str, value: "str | Iterable[str] | None") -> tuple[str, ...]:
    """Returns argument names; none for None."""
    names = () if value is None else (value,) if isinstance(value, str) else tuple(value)
    for n in names:
        if not isinstance(n, str):
            raise TransformError(f"{parameter} must be a string or a sequence of strings, got {value!r}")
    return names


def make_options(
    fun: Callable[..., object],
    *,
    static_argnums: "int | Iterable[int] | None",
    static_argnames: "str | Iterable[str] | None",
    donate_argnums: "int | Iterable[int] | None",
    donate_argnames: "str | Iterable[str] | None",
    keep_unused: bool,
    inline: bool | Inline,
    device: object,
    backend: str | None,
    compiler_options: "Mapping[str, str | bool | int | float] | None" = None,
    compile: CompileMode | None = None,
    in_shardings: PyTree = None,
    out_shardings: PyTree = None,
) -> Options:
    nums, names = (
        parse_argnums("jit: static_argnums", static_argnums),
        parse_argnames("jit: static_argnames", static_argnames),
    )
    donated, donated_names = (
        parse_argnums("jit: donate_argnums", donate_argnums),
        parse_argnames("jit: donate_argnames", donate_argnames),
    )
    signature = function_signature(fun)
    if signature is not None:
        nums, names = match_names_and_numbers(
            "jit", signature, fun, "static", nums, names, adds=None in (static_argnums, static_argnames)
        )
        donated, donated_names = match_names_and_numbers(
            "jit",
            signature,
            fun,
            "donate",
            donated,
            donated_names,
            adds=None in (donate_argnums, donate_argnames),
        )
    elif donated_names:
        raise TransformError(
            f"jit: donate_argnames needs the signature of {callable_name(fun)}, which has none; give donate_argnums"
        )
    overlap = set(nums) & set(donated) or set(names) & set(donated_names)
    if overlap:
        raise TransformError(f"jit: arguments cannot be both static and donated: {sorted(map(str, overlap))}")
    bound_device, shardings = resolve_device(device), jit_shardings(in_shardings, out_shardings)
    if shardings is not None and (bound_device is not None or backend is not None):
        raise TransformError("jit: give shardings or a device, not both")
    if (single_device := shared_device(shardings)) is not None:
        bound_device = single_device
    if bound_device is None and backend is not None:
        bound_device = local_devices(backend)[0]
    xla_options = parse_compiler_options("jit", compiler_options)
    mode = None if compile is None else check_compile_mode("jit: compile", compile)
    if not isinstance(inline, Inline):
        inline = Inline.JAX_EARLY if inline else Inline.AUTO
    return Options(
        static_argnums=nums,
        static_argnames=names,
        donate_argnums=donated,
        donate_argnames=donated_names,
        keep_unused=keep_unused,
        inline=inline,
        device=bound_device,
        compiler_options=xla_options,
        compile=mode,
        shardings=shardings,
    )


def parse_compiler_options(function_name: str, options: "Mapping[str, object] | None") -> CompilerOptions:
    """Returns XLA compiler options sorted by name.

    Raises:
        TransformError: they are no mapping of names to strings and numbers, or an effort level is invalid.
    """
    if options is None:
        return ()
    untyped: object = options  # users' values need not have the annotated type
    parsed: list[tuple[str, str | bool | int | float]] = []
    for name, value in sorted(options.items(), key=str) if isinstance(untyped, Mapping) else [(None, None)]:
        if not (isinstance(name, str) and isinstance(value, str | bool | int | float)):
            raise TransformError(
                f"{function_name}: compiler_options must be a mapping of names to strings, bools and numbers, got "
                f"{options!r}"
            )
        if name in EFFORTS and isinstance(value, str) and value in CompilerEffortLevel.__members__:
            value = CompilerEffortLevel[value]  # the level of that name
        if name in EFFORTS and not isinstance(value, CompilerEffortLevel):
            raise TransformError(
                f"{function_name}: compiler_options: {name} must be a CompilerEffortLevel or the name of one, got "
                f"{value!r} of type {type(value).__name__}"
            )
        parsed.append((name, value))
    return tuple(parsed)


def match_names_and_numbers(
    transform: str,
    signature: inspect.Signature,
    fun: Callable[..., object],
    role: str,
    nums: tuple[int, ...],
    names: tuple[str, ...],
    *,
    adds: bool = True,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Checks argument numbers and names, and adds the names of numbered arguments and the numbers of named ones.

    Args:
        transform: the transformation, for errors.
        signature, fun: the function whose arguments they are.
        role: what the arguments are, "static" or "donate".
        nums, names: as the user gives them.
        adds: False where the user gives both, and so says how each argument is passed.
    """
    parameters = list(signature.parameters.values())
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    open_names = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if not variadic:
        nums = normalize_parameter_numbers(f"{transform}: {role}_argnums", fun, nums, len(positional))
    for name in names:
        if (
            name in signature.parameters
            and signature.parameters[name].kind is inspect.Parameter.POSITIONAL_ONLY
        ):
            raise TransformError(
                f"{transform}: {role}_argnames names {name!r}, which {callable_name(fun)} takes by position only; "
                f"use {role}_argnums"
            )
        is_variadic = name in signature.parameters and signature.parameters[name].kind in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        )
        if is_variadic:
            raise TransformError(
                f"{transform}: {role}_argnames names {name!r}, in which {callable_name(fun)} takes any further arguments; "
                f"name single ones"
            )
        if not open_names and name not in signature.parameters:
            raise TransformError(
                f"{transform}: {role}_argnames names {name!r}, but {callable_name(fun)} has no such parameter"
            )
    if not adds:
        return tuple(sorted(set(nums))), tuple(dict.fromkeys(names))
    all_names = dict.fromkeys([*names, *[positional[n] for n in nums if 0 <= n < len(positional)]])
    all_nums = sorted({*nums, *[positional.index(name) for name in names if name in positional]})
    return tuple(all_nums), tuple(all_names)
