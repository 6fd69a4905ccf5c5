"""Loops over the leading axis of arrays: `scan` and `map`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from typing_extensions import TypeVarTuple

from effx import dtypes, flags
from effx.array import Array, Box
from effx.array.promotion import convert_whole_float
from effx.array.shaping import concatenate, reshape, stack
from effx.errors import (
    ConcretizationError,
    RefGivenError,
    ShapeError,
    TransformError,
    TreeError,
    name_user_call,
)
from effx.handlers.evaluate.interpreter import iterate
from effx.ir.ops.control import Scan
from effx.ir.sizes.dimensions import as_size
from effx.ir.values.parameters import DT, Dims, N
from effx.lax.control.closures import (
    Leaf,
    LooseLeaf,
    LooseMany,
    LoosePair,
    LooseSingle,
    LooseTriple,
    array_types,
    arrays_of_first_carry,
    check_callable,
    check_next_carry,
    convert_to_types,
    flatten_to_arrays,
    infer_carry_types,
)
from effx.lax.control.unchanged import perform_scan
from effx.lax.shape import iota
from effx.lax.slicing import index_in_dim, slice_in_dim
from effx.tracing.arguments import callable_name, finalize_results, leaf_path
from effx.tracing.traces import FunctionTrace, Types, positional_tree, trace_cached
from effx.transforms.jit.stages import ShapeDtypeStruct
from effx.transforms.maps.vmap import vmap
from effx.tree.mapping import treedef_children, treedef_is_leaf
from effx.tree.registry import PyTree, PyTreeDef, flatten

if TYPE_CHECKING:
    from effx.transforms.refs.ref import Ref

__all__ = ["map", "scan"]

A = TypeVar("A")
C = TypeVar("C")
Single = TypeVar("Single", bound=LooseSingle)
Pair = TypeVar("Pair", bound=LoosePair)
Triple = TypeVar("Triple", bound=LooseTriple)
List = TypeVar("List", bound=list[PyTree])
Dict = TypeVar("Dict", bound=dict[PyTree, PyTree])
Many = TypeVar("Many", bound=LooseMany)
V = TypeVar("V")
Vs = TypeVarTuple("Vs")
X = TypeVar("X")
Y = TypeVar("Y")


@overload
def scan(
    f: Callable[[C, Array[DT, *Dims]], tuple[C, Array[V, *Vs]]],
    init: C,
    xs: Array[DT, N, *Dims],
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[C, Array[V, *tuple[Any, ...]]]: ...
@overload
def scan(  # type: ignore[overload-overlap]  # tuples of unknown length: of one function both results are right
    f: Callable[[C, X], tuple[C, Y]],
    init: C,
    xs: X,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[C, Y]: ...
@overload
def scan(
    f: Callable[[C, None], tuple[C, Y]],
    init: C,
    xs: None = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[C, Y]: ...
@overload
def scan(  # for rows that are annotated as numbers
    f: Callable[[C, Leaf], tuple[C, Y]],
    init: C,
    xs: Array,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[C, Y]: ...
@overload
def scan(  # from here on for functions of arrays called with numbers or NumPy arrays
    f: Callable[[PyTree, X], tuple[Leaf, Y]],
    init: LooseLeaf,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Leaf, Y]: ...
@overload
def scan(
    f: Callable[[PyTree, X], tuple[Single, Y]],
    init: LooseSingle,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Single, Y]: ...
@overload
def scan(
    f: Callable[[PyTree, X], tuple[Pair, Y]],
    init: LoosePair,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Pair, Y]: ...
@overload
def scan(
    f: Callable[[PyTree, X], tuple[Triple, Y]],
    init: LooseTriple,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Triple, Y]: ...
@overload
def scan(
    f: Callable[[PyTree, X], tuple[Many, Y]],
    init: LooseMany,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Many, Y]: ...
@overload
def scan(
    f: Callable[[tuple[A, ...], X], tuple[tuple[A, ...], Y]],
    init: tuple[PyTree, ...],
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[tuple[A, ...], Y]: ...
@overload
def scan(
    f: Callable[[PyTree, X], tuple[List, Y]],
    init: list[PyTree],
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[List, Y]: ...
@overload
def scan(
    f: Callable[[PyTree, X], tuple[Dict, Y]],
    init: dict[PyTree, PyTree],
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Dict, Y]: ...
def scan(
    f: Callable[[C, X], tuple[C, Y]],
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[C, Y]:
    """Loops over the leading axis of arrays with a carry, and stacks the outputs of the iterations.

    In Python::

        carry, ys = init, []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, stack(ys)

    Differentiable in both modes; reverse mode stores residuals of each iteration.

    Args:
        f: takes the carry and one slice of `xs`, returns the next carry, of the same structure, shapes and
            dtypes, and one slice of the output. May close over arrays.
        init: the first carry, a pytree of arrays. Python numbers in it take the dtypes that `f` returns.
        xs: a pytree of arrays `[length, ...]`; None, if f needs no input, with `length`.
        length: the number of iterations.
        reverse: True to go from the last slice to the first; outputs have the indices of their inputs.
        unroll: how many steps one iteration of the compiled loop runs; 0 or True for all.

    Returns:
        The last carry, and the outputs with a leading axis of `length`.

    Raises:
        ShapeError: leading axes differ from each other or from `length`, or the carry changes its shape.
        DTypeError: the carry changes its dtype.
        TreeError: `f` returns no pair, or the carry changes its structure.
        TransformError: no length, a negative `unroll`, or `f` is no function.

    >>> import effx.numpy as enp
    >>> scan(lambda total, x: (total + x, total), 0., enp.array([1., 2., 3.]))
    (Array(6., dtype=float32), Array([0., 1., 3.], dtype=float32))
    """
    check_callable("f", f)
    name = callable_name(f)
    try:
        arrays_and_tree = flatten_to_arrays("xs", xs)
    except RefGivenError:
        arrays_and_tree = None  # the rest runs outside of the clause, so that its errors have no context
    if arrays_and_tree is None:
        return _scan_over_refs(f, init, xs, length, reverse, unroll)
    slices, x_tree = arrays_and_tree
    carry, tree = flatten_to_arrays("init", init)
    steps = _check_length(xs, slices, length)
    unrolling = unroll_count(unroll, steps)
    if flags.disable_jit.value and steps:
        init = arrays_of_first_carry("init", init)
        return _run_scan_in_python(f, name, init, slices, x_tree, steps, reverse)
    rows = _row_types(slices)
    inputs = positional_tree(tree, x_tree)
    n = len(carry)

    def stage_body(types: Types) -> tuple[FunctionTrace, PyTreeDef, Types]:
        body_trace = trace_cached("scan", f, inputs, (*types, *rows))
        return body_trace, _split_body_result(name, body_trace.out_tree)[0], body_trace.out_types[:n]

    types, body = infer_carry_types(name, init, array_types(carry), stage_body)
    op = Scan(body.program, steps, len(body.captured), n, bool(reverse), unrolling)
    results = perform_scan(op, [*body.captured, *convert_to_types(carry, types), *slices])
    last, ys = body.out_tree.unflatten(finalize_results(results))
    return last, ys


def _scan_over_refs(
    f: Callable[[C, X], tuple[C, Y]],
    init: C,
    xs: PyTree,
    length: int | None,
    reverse: bool,
    unroll: int | bool,
) -> tuple[C, Y]:
    """Loops over rows of references as well, which f gets as views that it may write to."""
    from effx.transforms.refs.ref import empty_ref
    from effx.transforms.refs.ref_arguments import extract_refs, insert_refs  # rare, and not loaded before

    arrays, refs_or_none = extract_refs(xs)
    refs = [cast("Ref", x) for x in refs_or_none]
    sizes = [len(ref) for ref in refs] + [x.type.shape[0] for x in flatten_to_arrays("xs", arrays)[0][:1]]
    steps = sizes[0] if length is None else length
    for ref in refs:
        if len(ref) != steps:
            raise ShapeError(
                f"scan: the ref {ref.aval!r} in xs has a leading axis of {len(ref)}, but the length is {steps}"
            )

    def step(carry: C, row: tuple[Array, PyTree]) -> tuple[C, Y]:
        i, slices = row
        # Without iterations there is no row, but f is staged for one.
        rows = [ref.at[i] if steps else empty_ref(ShapeDtypeStruct(ref.shape[1:], ref.dtype)) for ref in refs]
        return f(carry, insert_refs(slices, rows))

    step.__name__ = callable_name(f)
    return scan(step, init, (iota(dtypes.int32, steps), arrays), steps, reverse, unroll)


def _row_types(slices: Sequence[Array]) -> Types:
    """Returns the types of one iteration's inputs."""
    return tuple([t.drop_first_axis() for t in array_types(slices)])


def _split_body_result(name: str, tree: PyTreeDef) -> tuple[PyTreeDef, PyTreeDef]:
    """Returns the structures of the carry and of the output that a body returned."""
    children = [] if treedef_is_leaf(tree) else treedef_children(tree)
    if len(children) != 2:
        raise TreeError(f"scan: {name} must return a pair (carry, y), got {tree}")
    return children[0], children[1]


def _check_length(xs: PyTree, slices: list[Array], length: int | None) -> int:
    """Returns the number of iterations.

    Raises:
        ShapeError, TransformError: the inputs differ in it, or there are none and no `length`.
    """

    def say(i: int) -> str:
        return f"xs{leaf_path(xs, i)} {slices[i].type!r}"

    for i, x in enumerate(slices):
        if not x.type.shape:
            raise ShapeError(
                f"{name_user_call()}: inputs must have a leading axis to loop over, got {say(i)}"
            )
        if x.type.shape[0] != slices[0].type.shape[0]:
            raise ShapeError(
                f"{name_user_call()}: leading axes of the inputs differ: {say(0)} has {slices[0].type.shape[0]}, "
                f"{say(i)} has {x.type.shape[0]}"
            )
    if length is None:
        if not slices:
            raise TransformError(f"{name_user_call()}: without inputs it needs a length")
        return slices[0].type.shape[0]
    try:
        steps = as_size(convert_whole_float(length))
    except TypeError:
        untyped: object = length  # users' values need not have the annotated type
        kind = ConcretizationError if isinstance(untyped, Box) else TransformError
        raise kind(f"scan: length must be an int, got {length!r}") from None
    if steps < 0:
        raise ShapeError(f"scan: length must not be negative, got {steps}")
    if slices and slices[0].type.shape[0] != steps:
        raise ShapeError(
            f"scan: length is {steps}, but {say(0)} has a leading axis of {slices[0].type.shape[0]}"
        )
    return steps


def unroll_count(unroll: int | bool, steps: int) -> int:
    """Returns how many steps one iteration of the compiled loop runs.

    Raises:
        TransformError: it is no int, or negative.
    """
    if unroll is False:
        return 1
    if unroll is True or unroll == 0:
        return max(steps, 1)
    return check_positive_int("unroll", unroll)


def check_positive_int(name: str, value: int) -> int:
    """Returns a count as an int.

    Raises:
        TransformError: it is no int, or below 1.
    """
    try:
        n = as_size(value)
    except TypeError:
        raise TransformError(f"{name_user_call()}: {name} must be an int, got {value!r}") from None
    if n < 1:
        raise TransformError(f"{name_user_call()}: {name} must be at least 1, got {n}")
    return n


def _run_scan_in_python(
    f: Callable[[C, X], tuple[C, Y]],
    name: str,
    init: C,
    slices: list[Array],
    x_tree: PyTreeDef,
    steps: int,
    reverse: bool,
) -> tuple[C, Y]:
    """Runs the loop in Python, for debugging."""

    def step(i: int, carry: C) -> tuple[C, Y]:
        result = f(carry, x_tree.unflatten([index_in_dim(x, i, 0, keepdims=False) for x in slices]))
        _split_body_result(name, flatten(result)[1])
        return check_next_carry(name, init, carry, result[0]), result[1]

    first: C = init
    carry, outputs = iterate(step, first, steps, reverse)
    return carry, _stack_outputs(name, outputs)


@overload
def map(
    f: Callable[[Array[DT, *Dims]], Array[V, *Vs]], xs: Array[DT, N, *Dims], *, batch_size: int | None = None
) -> Array[V, N, *Vs]: ...
@overload
def map(f: Callable[[X], Y], xs: X, *, batch_size: int | None = None) -> Y: ...
@overload
def map(f: Callable[[X], Y], xs: PyTree, *, batch_size: int | None = None) -> Y: ...
def map(f: Callable[[X], Y], xs: PyTree, *, batch_size: int | None = None) -> Y:
    """Applies a function to each slice along the leading axis, one after the other.

    Unlike `vmap` it needs memory for one slice at a time.

    Args:
        f: takes one slice of `xs`. May close over arrays.
        xs: a pytree of arrays `[n, ...]`.
        batch_size: how many slices to compute at once, by `vmap`; the remainder is computed last.

    Returns:
        The stacked results of `f`.

    Raises:
        ShapeError: leading axes differ.
        TransformError: `xs` has no arrays, `batch_size` is below 1, or `f` is no function.

    >>> import effx.numpy as enp
    >>> map(lambda x: x * x, enp.arange(5), batch_size=2)
    Array([ 0,  1,  4,  9, 16], dtype=int32)
    """
    check_callable("f", f)
    slices, tree = flatten_to_arrays("xs", xs)
    if not slices:
        raise TransformError("map: xs must hold at least one array")
    n = _check_length(xs, slices, None)
    inputs = positional_tree(tree)
    if batch_size is None:
        return _map_slices(f, inputs, slices, n, 0)
    size = check_positive_int("batch_size", batch_size)
    batches, rest = divmod(n, size)
    if batches == 0:
        return vmap(f)(xs) if n else _map_slices(f, inputs, slices, 0, 0)
    end = batches * size
    batched_slices = [reshape(slice_in_dim(x, 0, end), (batches, size, *x.type.shape[1:])) for x in slices]
    done = _map_slices(f, inputs, batched_slices, batches, size)
    leaves, out_tree = flatten(done)
    results = [reshape(y, (end, *y.type.shape[2:])) for y in leaves]
    if rest:
        left: Y = vmap(f)(tree.unflatten([slice_in_dim(x, end, n) for x in slices]))
        results = [concatenate((y, z)) for y, z in zip(results, flatten(left)[0], strict=True)]
    joined: Y = out_tree.unflatten(results)
    return joined


def _map_slices(
    f: Callable[[X], Y], inputs: PyTreeDef, slices: Sequence[Array], steps: int, batch_size: int
) -> Y:
    """Applies f, or f over batches, to each slice."""
    if flags.disable_jit.value and steps:
        step = vmap(f) if batch_size else f
        rows = [
            inputs.unflatten([index_in_dim(x, i, 0, keepdims=False) for x in slices]) for i in range(steps)
        ]
        stacked: Y = _stack_outputs(callable_name(f), [step(*args) for args, _ in rows])
        return stacked
    # Not looked up again by the function: values that it reads may have changed since.
    step = partial(vmap(f) if batch_size else f)
    body = trace_cached("map", step, inputs, _row_types(slices))
    op = Scan(body.program, steps, len(body.captured))
    result: Y = body.out_tree.unflatten(finalize_results(op(*body.captured, *slices)))
    return result


def _stack_outputs(name: str, outputs: Sequence[PyTree]) -> PyTree:
    """Stacks the outputs of iterations that ran in Python."""
    columns: list[list[Array]] = []
    tree: PyTreeDef | None = None
    for y in outputs:
        row, tree = flatten_to_arrays(f"the output of {name}", y)
        columns.append(row)
    assert tree is not None
    return tree.unflatten(finalize_results([stack(column) for column in zip(*columns, strict=True)]))
