"""Typing, batching, samples and kernel calls that the operations on matrices share.

LAPACK's kernels for CPUs come with jaxlib; those of cuSOLVER and hipSOLVER are in the plugins, which have
the same names with other parameters.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from effx import dtypes
from effx.array import Array, reducing, triangles
from effx.array.arithmetic import conj, matmul, where
from effx.array.promotion import broadcast_to, convert
from effx.array.shaping import matrix_transpose, moveaxis, reshape
from effx.effects import Operation
from effx.errors import DTypeError, ShapeError, name_user_call
from effx.handlers.oracle.handler import Data
from effx.handling import (
    ArrayOperation,
    ArrayType,
    Atom,
    Body,
    TupleOperation,
    Var,
    Vmap,
    array_type,
    emits,
    lapack_target,
    materialize,
    vmap_rule,
)
from effx.ir.ops.base import check_arity
from effx.ir.passes.sharding_propagation import DimensionShardings, OperandShardings, sharding_rule
from effx.ir.passes.sharding_rules import shard_leading_axes
from effx.ir.values.scalars import scalar
from effx.lower.text import sizes
from effx.lower.text.foreign_calls import STRINGS, custom_call_text, string_text

__all__ = ["Data", "Factorization", "MatrixOperation"]

O = TypeVar("O", bound=Operation[object])  # noqa: E741 - the literature's name
Rule = Callable[[Body, O, tuple[Atom, ...], tuple[Var, ...]], "str | tuple[str, ...]"]
Axis = int | None
Options = Mapping[str, bool | np.integer]
"""A kernel's parameters."""

KERNEL_DTYPES = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)


class MatrixOperation(ArrayOperation):
    """An operation on matrices with one result; batch axes come first."""

    __slots__ = ()


class Factorization(TupleOperation):
    """An operation on matrices with several results; batch axes come first."""

    __slots__ = ()


@sharding_rule(MatrixOperation, Factorization)
def infer_matrix_sharding(op: object, shardings: OperandShardings) -> list[DimensionShardings]:
    """Sharded along batch axes; matrices are replicated."""
    return shard_leading_axes(
        max([t.ndim for t in shardings.types]) - 2, shardings, "and matrices must be whole"
    )


@vmap_rule(MatrixOperation)
def batch_matrix_operation(
    handler: Vmap, op: MatrixOperation, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    """The batch becomes one more batch axis."""
    return op(*[materialize(handler, x, a) for x, a in zip(values, axes, strict=True)]), 0


@vmap_rule(Factorization)
def batch_factorization(
    handler: Vmap, op: Factorization, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[tuple[Array, ...], tuple[Axis, ...]]:
    """The batch becomes one more batch axis."""
    results = op(*[materialize(handler, x, a) for x, a in zip(values, axes, strict=True)])
    return results, (0,) * len(results)


def batch_systems(
    handler: Vmap, op: MatrixOperation, values: tuple[Array, ...], axes: tuple[Axis, ...], left_side: bool
) -> tuple[Array, Axis]:
    """Batches systems a x = b, or x a = b: with one a for all, the batch elements are more columns, or rows, of b."""
    (a, b), (of_matrix, of_sides) = values, axes
    if of_matrix is not None or of_sides is None:
        return batch_matrix_operation(handler, op, values, axes)
    # The batch axis is right before the axis of the columns, or rows.
    side_axis = b.type.ndim - (2 if left_side else 3)
    moved = moveaxis(b, of_sides, side_axis)
    shape = moved.type.shape
    merged = reshape(
        moved, (*shape[:side_axis], shape[side_axis] * shape[side_axis + 1], *shape[side_axis + 2 :])
    )
    return reshape(op(a, merged), shape), side_axis


# --- typing ---------------------------------------------------------------------------------------


def check_matrix(
    t: ArrayType, operand_name: str = "operand", *, square: bool = False, function_name: str = ""
) -> None:
    """Checks that a type is of matrices, square ones if required, of a dtype that kernels take.

    Args:
        t: the type.
        operand_name: what errors call it.
        square: whether rows must be as long as columns.
        function_name: whose operand it is; by default the function's that the user called.
    """
    if t.dtype not in KERNEL_DTYPES:
        raise DTypeError(
            f"{function_name or name_user_call()}: {operand_name} must be f32, f64, c64 or c128, got {t!r}"
        )
    if t.ndim < 2:
        raise ShapeError(
            f"{function_name or name_user_call()}: {operand_name} must have at least two axes, got {t!r}"
        )
    if square and t.shape[-1] != t.shape[-2]:
        raise ShapeError(
            f"{function_name or name_user_call()}: {operand_name} must be square in its last two axes, got {t!r}"
        )


def check_system(op: Operation[object], types: tuple[ArrayType, ...]) -> tuple[ArrayType, ArrayType]:
    """Returns the types of a solver's operands, square matrices a and right-hand sides b of their dtype."""
    check_arity(op, types, 2)
    a, b = types
    check_matrix(a, "a", square=True, function_name=op.name)
    check_matrix(b, "b", function_name=op.name)
    if a.dtype != b.dtype:
        raise DTypeError(f"{op.name}: operand dtypes differ: a is {a!r}, b is {b!r}")
    return a, b


def real_type(t: ArrayType, *shape: int) -> ArrayType:
    """Returns the type of real arrays with the batch axes of a type of matrices."""
    return array_type(dtypes.real_dtype(t.dtype), (*t.shape[:-2], *shape))


# --- rules ----------------------------------------------------------------------------------------


def multiply(x: Array, y: Array) -> Array:
    """Returns the products of matrices in full precision."""
    return matmul(x, y, "highest")


def adjoint(x: Array) -> Array:
    """Returns the conjugate transposes."""
    return conj(matrix_transpose(x))


def eye(x: Array) -> Array:
    """Returns the unit matrix of the size of square matrices, and of their dtype."""
    return convert(triangles.band_mask(x.type.shape[-2:], 0, "EQ"), x.type.dtype)


def diagonal(x: Array) -> Array:
    """Returns the diagonals of square matrices."""
    on = broadcast_to(triangles.band_mask(x.type.shape[-2:], 0, "EQ"), x.type.shape)
    return reducing.sum(where(on, x, scalar(0, x.type.dtype, False)), -1)


def halve_diagonal(x: Array) -> Array:
    """Returns the lower triangle with its diagonal halved: L + L^H is the matrix again if that is Hermitian."""
    return triangles.tril(x) * (1.0 - 0.5 * eye(x))


def make_hermitian(x: Array, lower: bool = True) -> Array:
    """Returns the Hermitian matrices with the lower or upper triangles of x, the only part that kernels read."""
    part = halve_diagonal(x) if lower else adjoint(halve_diagonal(adjoint(x)))
    return part + adjoint(part)


# --- samples --------------------------------------------------------------------------------------


def _sample_normal(rng: np.random.Generator, t: ArrayType) -> Data:
    data = rng.normal(size=t.shape)
    return data + 1j * rng.normal(size=t.shape) if t.kind == "c" else data


def sample_regular(rng: np.random.Generator, t: ArrayType) -> Data:
    """Draws matrices that are far from singular: the diagonal is large."""
    data = _sample_normal(rng, t)
    return (
        (data + 3 * np.eye(t.shape[-2], t.shape[-1])).astype(t.dtype) if t.ndim > 1 else data.astype(t.dtype)
    )


def sample_positive(rng: np.random.Generator, t: ArrayType) -> Data:
    """Draws Hermitian matrices with positive eigenvalues that are far apart."""
    q = np.linalg.qr(_sample_normal(rng, t))[0]
    values = 1.0 + np.arange(t.shape[-1]) + rng.uniform(0, 0.3, t.shape[-1])
    data: Data = q * values @ np.conj(np.swapaxes(q, -1, -2))
    return np.asarray((data + np.conj(np.swapaxes(data, -1, -2))) / 2, t.dtype)


# --- kernels --------------------------------------------------------------------------------------

SOLVERS = {"cuda": "cusolver", "rocm": "hipsolver"}


def emits_kernel(*kinds: type[O]) -> Callable[[Rule[O]], Rule[O]]:
    """Registers an emission rule for all platforms that have kernels."""

    def register(rule: Rule[O]) -> Rule[O]:
        for platform in ("cpu", *SOLVERS):
            emits(*kinds, platform=platform)(rule)
        return rule

    return register


def is_on_cpu(body: Body) -> bool:
    """Says whether the module is for CPUs, where kernels take LAPACK's parameters."""
    return body.module.platform == "cpu"


def kernel_name(body: Body, lapack: str, solver: str, t: ArrayType) -> str:
    """Returns the name of the platform's kernel."""
    if is_on_cpu(body):
        return lapack_target(lapack, t.dtype)
    return f"{SOLVERS[body.module.platform]}_{solver}_ffi"


def lapack_option(text: str) -> np.uint8:
    """Returns an option in the form of LAPACK's kernels."""
    return np.uint8(ord(text))


def call_kernel(
    body: Body,
    name: str,
    inputs: Sequence[Atom],
    results: Sequence[ArrayType],
    attributes: Options,
    aliases: Mapping[int, int] | None = None,
    *,
    column_major: bool = True,
    batch: int | None = None,
) -> tuple[str, ...]:
    """Calls a kernel.

    Args:
        body: the function to write the call into.
        name: the kernel's.
        inputs: the operands.
        results: their types.
        attributes: the kernel's parameters.
        aliases: which result is written into which operand's memory.
        column_major: False for a kernel with row-major matrices.
        batch: the number of batch axes; by default those of the first operand if that is of matrices.
    """
    axes = inputs[0].type.ndim - 2 if batch is None else batch

    def layout(t: ArrayType) -> Sequence[int]:
        order = list(range(t.ndim - 1, -1, -1))
        if t.ndim - axes == 2 and column_major:
            order[:2] = order[1], order[0]
        return order

    layouts = [layout(x.type) for x in inputs], [layout(t) for t in results]
    return body.custom_call(name, inputs, results, attributes, *layouts, aliases=aliases)


def call_expanded(
    body: Body,
    target: str,
    operands: Sequence[tuple[str, ArrayType]],
    results: Sequence[ArrayType],
    config: str = "",
) -> tuple[str, ...]:
    """Calls a function of matrices that XLA's compiler replaces by instructions of its own, on TPUs.

    Args:
        body: the function to write the call into.
        target: the function's name. config: its parameters as one string.
        operands: their names and types.
        results: the types of the results.
    """
    names, types = zip(*operands, strict=True)
    text = custom_call_text(
        target, names, types, results, config=string_text(config), api_version=STRINGS, laid_out=False
    )
    return body.block(text, len(results))


def names_with_types(body: Body, inputs: Sequence[Atom]) -> list[tuple[str, ArrayType]]:
    """Returns the names and types of operands."""
    return [(body.name(x), x.type) for x in inputs]


def info_type(t: ArrayType) -> ArrayType:
    """Returns the type of kernels' status codes, one for each matrix."""
    return array_type(dtypes.int32, t.shape[:-2])


def nan_where_failed(
    body: Body, names: Sequence[str], types: Sequence[ArrayType], info: str, it: ArrayType, test: str = "EQ"
) -> tuple[str, ...]:
    """Returns the results, NaN for the matrices whose `info`, of type `it`, does not compare to 0 as required."""
    mask = array_type(dtypes.bool_, it.shape)
    zero = body.constant(0, it)
    ok = body.line(
        f"stablehlo.compare {test}, {info}, {zero}, SIGNED : ({it.mlir}, {it.mlir}) -> {mask.mlir}"
    )
    results: list[str] = []
    for name, t in zip(names, types, strict=True):
        wide, nan = array_type(dtypes.bool_, t.shape), body.constant(float("nan"), t)
        spread = sizes.broadcast_in_dim(body, ok, mask, wide, range(it.ndim))
        results.append(body.line(f"stablehlo.select {spread}, {name}, {nan} : {wide.mlir}, {t.mlir}"))
    return tuple(results)


def emit_empty_results(body: Body, outputs: Sequence[Var]) -> tuple[str, ...]:
    """Returns the results for matrices without elements, which kernels refuse: the first columns of unit matrices, of
    which only square factors have elements.
    """
    results: list[str] = []
    for t in [v.type for v in outputs]:
        zero = _emit_fill(body, 0, t)
        results.append(emit_triangle_mask(body, "EQ", _emit_fill(body, 1, t), zero, t) if t.size else zero)
    return tuple(results)


def _emit_fill(body: Body, value: int, t: ArrayType) -> str:
    scalar = t.with_shape(())
    return body.broadcast(body.constant(value, scalar), scalar, t)


def emit_triangle_mask(body: Body, test: str, x: str, otherwise: str, t: ArrayType) -> str:
    """Returns x where the index of the row compares to that of the column, and else another value."""
    it, mask = array_type(dtypes.int32, t.shape), array_type(dtypes.bool_, t.shape)
    rows, columns = [sizes.iota(body, it, t.ndim - i) for i in (2, 1)]
    chosen = body.line(
        f"stablehlo.compare {test}, {rows}, {columns}, SIGNED : ({it.mlir}, {it.mlir}) -> {mask.mlir}"
    )
    return body.line(f"stablehlo.select {chosen}, {x}, {otherwise} : {mask.mlir}, {t.mlir}")
