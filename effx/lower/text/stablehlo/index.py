"""StableHLO text of gather and scatter."""

import attrs

from effx.ir.ops.index import Gather, Scatter
from effx.ir.program import Atom, Var
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.types import ArrayType, array_type
from effx.lower.text import sizes
from effx.lower.text.emit import Body, emits, integer_list
from effx.lower.text.stablehlo.shape import wide_index

Inputs = tuple[Atom, ...]
Outputs = tuple[Var, ...]


def _flag(value: bool) -> str:
    return "true" if value else "false"


@emits(Gather)
def gather(body: Body, op: Gather, inputs: Inputs, outputs: Outputs) -> str:
    x = inputs[0]
    indices, it = wide_index(body, inputs[1])
    operands, types, fixed = [body.name(x), indices], [x.type, it], ""
    if has_symbolic(op.slice_sizes):
        name, t = sizes.write_sizes(body, op.slice_sizes)
        operands, types = [*operands, name], [*types, t]
    else:
        fixed = f", slice_sizes = {_array(op.slice_sizes)}"
    return body.line(
        f'"stablehlo.{"" if fixed else "dynamic_"}gather"({", ".join(operands)}) '
        f"<{{dimension_numbers = #stablehlo.gather<"
        f"offset_dims = {integer_list(op.offset_dims)}, collapsed_slice_dims = {integer_list(op.collapsed)}, "
        f"operand_batching_dims = {integer_list(op.operand_batch)}, start_indices_batching_dims = "
        f"{integer_list(op.indices_batch)}, "
        f"start_index_map = {integer_list(op.start_index_map)}, index_vector_dim = {it.ndim - 1}>, "
        f"indices_are_sorted = {_flag(op.sorted)}{fixed}}}> "
        f": ({', '.join([t.mlir for t in types])}) -> {outputs[0].type.mlir}"
    )


def _array(values: tuple[int, ...]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def _as_vector(
    body: Body, op: Scatter, x: Atom, indices: ArrayType
) -> tuple[Scatter, str, ArrayType, str, ArrayType]:
    """Writes a scatter into rank 0 as one into a single element; XLA refuses several updates of rank 0."""
    vector = array_type(x.type.dtype, (1,))
    name = body.line(f"stablehlo.reshape {body.name(x)} : ({x.type.mlir}) -> {vector.mlir}")
    starts = array_type(indices.dtype, (*indices.shape[:-1], 1))
    return (
        attrs.evolve(op, inserted=(0,), start_index_map=(0,)),
        name,
        vector,
        body.constant(0, starts),
        starts,
    )


COMBINE = {"add": "add", "mul": "multiply", "min": "minimum", "max": "maximum"}


@emits(Scatter)
def scatter(body: Body, op: Scatter, inputs: Inputs, outputs: Outputs) -> str:
    x, _, updates = inputs
    indices, it = wide_index(body, inputs[1])
    name, t = body.name(x), x.type
    if not t.shape:
        op, name, t, indices, it = _as_vector(body, op, x, it)
    s = array_type(t.dtype).mlir
    if op.combiner == "set":
        region = f"^bb0(%old: {s}, %new: {s}):\n      stablehlo.return %new : {s}"
    else:
        region = (
            f"^bb0(%old: {s}, %new: {s}):\n      %both = stablehlo.{COMBINE[op.combiner]} %old, %new : {s}\n"
            f"      stablehlo.return %both : {s}"
        )
    result = body.line(
        f'"stablehlo.scatter"({name}, {indices}, {body.name(updates)}) <{{indices_are_sorted = {_flag(op.sorted)}, '
        f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {integer_list(op.window_dims)}, "
        f"inserted_window_dims = {integer_list(op.inserted)}, input_batching_dims = {integer_list(op.operand_batch)}, "
        f"scatter_indices_batching_dims = {integer_list(op.indices_batch)}, "
        f"scatter_dims_to_operand_dims = {integer_list(op.start_index_map)}, index_vector_dim = {it.ndim - 1}>, "
        f"unique_indices = {_flag(op.unique)}}}> ({{\n    {region}\n    }}) "
        f": ({t.mlir}, {it.mlir}, {updates.type.mlir}) -> {t.mlir}"
    )
    return result if x.type.shape else body.line(f"stablehlo.reshape {result} : ({t.mlir}) -> {x.type.mlir}")
