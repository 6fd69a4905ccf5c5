"""`jit`: compile a function with XLA, once for each signature of arguments."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from effx.errors import check_function
from effx.flag_values import CompileMode
from effx.transforms.jit.function import Function, JitDecorator, Jitted
from effx.transforms.jit.options import Inline, make_options
from effx.tree.registry import PyTree

if TYPE_CHECKING:
    from effx.tracing.signatures import NoFunction

__all__ = ["jit"]

P = ParamSpec("P")
R = TypeVar("R")


class JitOptions(TypedDict, total=False):
    """The options of `jit`, for functions that pass them on."""

    in_shardings: PyTree
    out_shardings: PyTree
    static_argnums: int | Iterable[int] | None
    static_argnames: str | Iterable[str] | None
    donate_argnums: int | Iterable[int] | None
    donate_argnames: str | Iterable[str] | None
    keep_unused: bool
    inline: bool | Inline
    device: object
    backend: str | None
    compiler_options: Mapping[str, str | bool | int | float] | None
    compile: CompileMode | None
    abstracted_axes: PyTree


@overload
def jit(  # for `partial(jit, static_argnums=0)`, of whose overloads mypy takes the first; no argument matches it
    fun: "NoFunction",
) -> Jitted[..., PyTree]: ...
@overload
def jit(fun: Callable[P, R], **options: Unpack[JitOptions]) -> Jitted[P, R]: ...
@overload
def jit(fun: None = None, **options: Unpack[JitOptions]) -> JitDecorator: ...
def jit(
    fun: Callable[P, R] | None = None,
    *,
    in_shardings: PyTree = None,
    out_shardings: PyTree = None,
    static_argnums: "int | Iterable[int] | None" = None,
    static_argnames: "str | Iterable[str] | None" = None,
    donate_argnums: "int | Iterable[int] | None" = None,
    donate_argnames: "str | Iterable[str] | None" = None,
    keep_unused: bool = False,
    inline: bool | Inline = False,
    device: object = None,
    backend: str | None = None,
    compiler_options: "Mapping[str, str | bool | int | float] | None" = None,
    compile: CompileMode | None = None,
    abstracted_axes: PyTree = None,
) -> "Jitted[P, R] | JitDecorator":
    """Compiles a function with XLA: staged once for each signature of arguments, then run in C++.

    Args:
        fun: takes and returns pytrees of arrays. Without it, `jit(...)` is a decorator.
        in_shardings, out_shardings: the shardings of positional arguments and results: a NamedSharding, or a
            PartitionSpec of the mesh in force, for all; or a pytree of them that is a prefix of the tuple of dynamic
            arguments, or of the result. None leaves the sharding to the arguments and to the partitioner. A Format
            in place of a sharding asks for a layout too.
        static_argnums, static_argnames: static arguments, which are part of the program; hashable. A
            program is staged for each value. An argument that is named is static by position too, and one that is
            numbered by name, unless both are given.
        donate_argnums, donate_argnames: arguments whose memory results may reuse; using them
            afterwards is an error.
        keep_unused: True to pass arguments that the program does not read.
        inline: where the body becomes part of a function that calls this one: True, or `Inline.JAX_EARLY`, where that is
            staged; `Inline.JAX_LATE` where it is lowered. Otherwise it is called, and XLA decides.
        device: where to run; by default where the arguments are.
        backend: the platform to run on, if no device is given.
        compiler_options: options of XLA's compiler by name, or `"optimization_level"` with a `CompilerEffortLevel`
            or the name of one.
        compile: how much XLA optimizes on CPUs: `"full"`, by default; `"fast"`, which compiles sooner and runs slower;
            `"tiered"`, which compiles fast for the first call, and in full in a thread after 2 to 16 calls. None for
            the setting `compile`. An option in `compiler_options` counts more.
        abstracted_axes: names of sizes that vary, as `make_jaxpr` takes them: arrays are padded to powers of two, and
            compiled for these.

    Returns:
        The compiled function, with `.trace`, `.lower`, `.eval_shape` and `.clear_cache`.

    Raises:
        TransformError: static or donated arguments that do not exist or are not hashable.
        ValueError: `compile` is none of the three.
        BackendError: at the first call, a compiler option that XLA does not know.
        ShardingError: at the call, an array cannot be sharded so, or has another sharding already.
        DTypeError: an argument is neither an array nor static.
        NoRuleError: at a call, with `abstracted_axes`, an operation has no rule for padded arrays.

    >>> import effx, effx.numpy as enp
    >>> @effx.jit
    ... def selu(x, alpha=1.67, lmbda=1.05):
    ...     return lmbda * enp.where(x > 0, x, alpha * enp.exp(x) - alpha)
    >>> selu(enp.array([-1., 2.]))
    Array([-1.1084234,  2.1      ], dtype=float32)
    """
    if fun is None:
        return cast(
            "JitDecorator",
            partial(
                jit,
                in_shardings=in_shardings,
                out_shardings=out_shardings,
                static_argnums=static_argnums,
                static_argnames=static_argnames,
                donate_argnums=donate_argnums,
                donate_argnames=donate_argnames,
                keep_unused=keep_unused,
                inline=inline,
                device=device,
                backend=backend,
                compiler_options=compiler_options,
                compile=compile,
                abstracted_axes=abstracted_axes,
            ),
        )
    check_function(fun)
    options = make_options(
        fun,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,
        keep_unused=keep_unused,
        inline=inline,
        device=device,
        backend=backend,
        compiler_options=compiler_options,
        compile=compile,
        in_shardings=in_shardings,
        out_shardings=out_shardings,
    )
    if abstracted_axes is None:
        return Function(fun, options).make_jitted()
    from effx.transforms.jit.buckets import jit_bucketed  # symbolic sizes, which few functions have

    return jit_bucketed(fun, options, abstracted_axes)
