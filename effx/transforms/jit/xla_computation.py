"""`xla_computation`: the XLA computation of a function, before XLA optimises it."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, ParamSpec, TypeAlias, overload

from effx.effects import isolated
from effx.errors import ShapeError, TransformError, TreeError, check_function
from effx.handlers.evaluate.lowering_passes import order_effects
from effx.ir.types import ArrayType
from effx.lower.placement.backends import default_device, platform_of
from effx.lower.placement.concrete import to_concrete
from effx.lower.text.computation import PartitionCounts, computation
from effx.lower.text.emit import PLATFORMS
from effx.lower.text.hlo import XlaComputation
from effx.tracing.arguments import normalize_argnums
from effx.tracing.axis_environments import AxisEnv, bind_axes, parse_axis_env
from effx.tracing.traces import trace
from effx.tracing.wrapping import wraps
from effx.transforms.jit.make_jaxpr import flatten_function, result_shapes
from effx.tree.prefixes import broadcast_prefix, prefix_errors
from effx.tree.registry import PyTree, flatten

__all__ = ["xla_computation"]

P = ParamSpec("P")

PartsTree: TypeAlias = PyTree
"""A tuple of ints, None, or a pytree prefix whose leaves are these."""

# Some platforms do not take more separate arguments.
TUPLE_ARGS_THRESHOLD = 100


@overload
def xla_computation(
    fun: Callable[P, object],
    static_argnums: "int | Iterable[int]" = (),
    axis_env: AxisEnv | None = None,
    in_parts: PartsTree = None,
    out_parts: PartsTree = None,
    backend: str | None = None,
    tuple_args: bool | None = False,
    instantiate_const_outputs: bool | None = None,
    return_shape: Literal[False] = False,
    donate_argnums: "int | Iterable[int]" = (),
) -> Callable[P, XlaComputation]: ...
@overload
def xla_computation(
    fun: Callable[P, object],
    static_argnums: "int | Iterable[int]" = (),
    axis_env: AxisEnv | None = None,
    in_parts: PartsTree = None,
    out_parts: PartsTree = None,
    backend: str | None = None,
    tuple_args: bool | None = False,
    instantiate_const_outputs: bool | None = None,
    *,
    return_shape: Literal[True],
    donate_argnums: "int | Iterable[int]" = (),
) -> Callable[P, tuple[XlaComputation, PyTree]]: ...
def xla_computation(
    fun: Callable[P, object],
    static_argnums: "int | Iterable[int]" = (),
    axis_env: AxisEnv | None = None,
    in_parts: PartsTree = None,
    out_parts: PartsTree = None,
    backend: str | None = None,
    tuple_args: bool | None = False,
    instantiate_const_outputs: bool | None = None,
    return_shape: bool = False,
    donate_argnums: "int | Iterable[int]" = (),
) -> Callable[P, XlaComputation | tuple[XlaComputation, PyTree]]:
    """Returns a function that builds `fun`'s XLA computation for example arguments, before XLA optimises it. Values
    that `fun` closes over are constants in it. Nothing is compiled or run, and the devices need not be present.

    Args:
        fun: takes and returns pytrees of arrays.
        static_argnums: static positional arguments, which are part of the computation.
        axis_env: names and sizes of axes that collectives in `fun` may name. The computation is for as many replicas
            as the product of the sizes; replicas along the last axis are adjacent.
        in_parts: the sharding of positional arguments over partitions: for each axis of an array the
            number of parts, as a tuple of ints, or None for an array that is replicated. One for
            all, or a pytree prefix of the arguments without the static ones.
        out_parts: the same for the result.
        backend: the platform, "cpu", "gpu", "cuda", "rocm" or "tpu"; None for the one that runs here.
        tuple_args: True to pass all arguments as one tuple; None to do so for more than 100 arguments.
        instantiate_const_outputs: results that do not depend on arguments are always part of the computation: True or
            None.
        return_shape: True to get a pair of the computation and the result's shapes and dtypes.
        donate_argnums: positional arguments whose memory results may reuse.

    Returns:
        A function of arguments, or of objects with their shapes and dtypes. It returns an `XlaComputation` with
        `as_hlo_text()`, `as_hlo_dot_graph()`, `as_serialized_hlo_module_proto()`, `name()` and `program_shape()`, whose
        result is a tuple.

    Raises:
        TransformError: an option is invalid, or arguments are both static and donated.
        TreeError: `in_parts` or `out_parts` is no prefix of the arguments or the result.
        ShapeError: parts do not fit an array's axes.
        BackendError: there is no such platform, or XLA refuses the program.

    >>> import effx, effx.numpy as enp
    >>> c = effx.xla_computation(lambda x: enp.sin(enp.cos(x)))(3.)
    >>> print(c.as_hlo_text())  # doctest: +ELLIPSIS
    HloModule xla_computation__lambda_, entry_computation_layout={(f32[])->(f32[])}
    <BLANKLINE>
    ENTRY main... {
      ... = f32[] parameter(0)
      ...= f32[] cosine(...)
      ...= f32[] sine(...)
      ROOT tuple... = (f32[]) tuple(...)
    }
    <BLANKLINE>
    """
    check_function(fun)
    axes = parse_axis_env("xla_computation", axis_env)
    if instantiate_const_outputs is not None and not instantiate_const_outputs:
        raise TransformError(
            "xla_computation: instantiate_const_outputs=False is not supported: results that do not depend on "
            "arguments are always part of the computation; leave it out"
        )

    @wraps(fun)
    def build_computation(
        *args: P.args, **kwargs: P.kwargs
    ) -> XlaComputation | tuple[XlaComputation, PyTree]:
        static = set(normalize_argnums("xla_computation", static_argnums, len(args)))
        donated = set(normalize_argnums("xla_computation", donate_argnums, len(args)))
        if static & donated:
            raise TransformError(
                f"xla_computation: arguments cannot be both static and donated: {sorted(static & donated)}"
            )
        function, types = flatten_function("xla_computation", fun, args, kwargs, tuple(sorted(static)))
        with bind_axes(axes):
            traced = trace(function, types)
        if traced.foreign:
            raise TransformError(
                f"xla_computation: {function.name} closes over a value of {traced.foreign[0].handler.describe()}, which a "
                f"computation cannot hold; pass it as an argument"
            )
        dynamic_numbers = [i for i in range(len(args)) if i not in static]
        sizes = [len(flatten(args[i])[0]) for i in dynamic_numbers]
        keyword_count = len(types) - sum(sizes)
        flags = [i in donated for i, n in zip(dynamic_numbers, sizes, strict=True) for _ in range(n)]
        positional = tuple([args[i] for i in dynamic_numbers])
        in_partitions, out_partitions = _flatten_parts(
            [
                ("in_parts", in_parts, positional, types[: len(types) - keyword_count]),
                ("out_parts", out_parts, traced.out_tree.unflatten(traced.out_types), traced.out_types),
            ]
        )
        if in_partitions or out_partitions:
            in_partitions += [None] * keyword_count
        with isolated():
            result = computation(
                order_effects(traced.program),
                [to_concrete(x) for x in traced.captured],
                _platform(backend),
                axes=axes,
                donated=[*flags, *[False] * keyword_count],
                in_parts=in_partitions,
                out_parts=out_partitions,
                tuple_args=len(types) > TUPLE_ARGS_THRESHOLD if tuple_args is None else tuple_args,
            )
        return (result, result_shapes(traced)) if return_shape else result

    return build_computation


def _platform(backend: str | None) -> str:
    if backend is None:
        return platform_of(default_device())
    if backend in PLATFORMS:
        return backend
    if backend != "gpu":
        raise TransformError(
            f"xla_computation: backend must be one of gpu, {', '.join(PLATFORMS)}, got {backend!r}"
        )
    return "rocm" if platform_of(default_device()) == "rocm" else "cuda"


def _is_parts(x: object) -> bool:
    return x is None or (isinstance(x, tuple) and bool(x) and all([isinstance(n, int) for n in x]))


def _flatten_parts(
    sides: Sequence[tuple[str, PartsTree, PyTree, Sequence[ArrayType]]],
) -> list[list[PartitionCounts]]:
    """Returns the parts of each array of the arguments and of the results; empty where nothing is partitioned.

    Args:
        sides: for arguments and results the option's name, its value, the tree of arrays, and their types.
    """
    if all([parts_tree is None for _, parts_tree, _, _ in sides]):
        return [[] for _ in sides]
    leaf_parts = [_leaf_parts(*side) for side in sides]
    counts = {math.prod(p) for parts in leaf_parts for p in parts if p is not None}
    if len(counts) > 1:
        raise TransformError(
            f"xla_computation: in_parts and out_parts must all have one number of partitions, got {sorted(counts)}"
        )
    return leaf_parts


def _leaf_parts(
    parameter: str, parts_tree: PartsTree, tree: PyTree, types: Sequence[ArrayType]
) -> list[PartitionCounts]:
    try:
        leaves = broadcast_prefix(parts_tree, tree, _is_parts)
    except TreeError:
        problems = prefix_errors(
            parts_tree,
            tree,
            _is_parts,
            parameter,
            "the arguments" if parameter == "in_parts" else "the result",
        )
        raise TreeError(f"xla_computation: {'; '.join(problems)}") from None
    parts: list[PartitionCounts] = []
    for leaf, t in zip(leaves, types, strict=True):
        if not _is_parts(leaf):
            raise TransformError(
                f"xla_computation: {parameter} must hold tuples of ints and None, got {leaf!r}"
            )
        if leaf is not None and (len(leaf) != t.ndim or min(leaf) < 1):
            raise ShapeError(
                f"xla_computation: {parameter} must give a positive number of parts for each axis, got {leaf} for {t!r}"
            )
        parts.append(None if leaf is None else (*leaf,))
    return parts
