"""StableHLO text of operations that move, repeat or slice elements."""

from effx import dtypes
from effx.ir.ops import shape as s
from effx.ir.ops.sizes import SizeValue
from effx.ir.program import Atom, Literal, Var
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.types import ArrayType, array_type
from effx.lower.text import sizes
from effx.lower.text.emit import Body, emits, integer_list

Inputs = tuple[Atom, ...]
Outputs = tuple[Var, ...]


def emit_line(body: Body, name: str, inputs: Inputs, outputs: Outputs, tail: str = "") -> str:
    """Writes `stablehlo.name operands tail : (types) -> type`."""
    operands = ", ".join(map(body.name, inputs))
    types = ", ".join([a.type.mlir for a in inputs])
    return body.line(f"stablehlo.{name} {operands}{tail} : ({types}) -> {outputs[0].type.mlir}")


@emits(s.BroadcastInDim)
def broadcast_in_dim(body: Body, op: s.BroadcastInDim, inputs: Inputs, outputs: Outputs) -> str:
    if type(inputs[0]) is Literal:
        return body.constant(inputs[0].value, outputs[0].type)
    return sizes.broadcast_in_dim(body, body.name(inputs[0]), inputs[0].type, outputs[0].type, op.dims)


@emits(s.Reshape)
def reshape(body: Body, op: s.Reshape, inputs: Inputs, outputs: Outputs) -> str:
    x, t, out = body.name(inputs[0]), inputs[0].type, outputs[0].type
    if x in body.stacks:
        axis, first, second = body.stacks[x]
        if axis and out.shape == (*t.shape[: axis - 1], 2 * t.shape[axis - 1], *t.shape[axis + 1 :]):
            return _interleave(
                body, first, second, t.with_shape((*t.shape[:axis], *t.shape[axis + 1 :])), out, axis - 1
            )
    reshaped = sizes.reshape(body, x, t, out)
    if (
        out.ndim == t.ndim + 1
        and 2 in out.shape
        and body.module.platform != "cpu"
        and not has_symbolic(t.shape)
        and t.size
    ):
        for axis in range(t.ndim):
            if out.shape == (*t.shape[:axis], t.shape[axis] // 2, 2, *t.shape[axis + 1 :]):
                body.pairs[reshaped] = axis, x, t
                break
    return reshaped


def _interleave(body: Body, first: str, second: str, t: ArrayType, out: ArrayType, axis: int) -> str:
    """Writes the elements of two arrays in turn along an axis, as a choice between both spread out.

    It is part of the kernels around it, where an axis of two elements would be written to memory, in a layout that a TPU
    stores 64 times as large.
    """
    stacked = t.with_shape((*t.shape[: axis + 1], 1, *t.shape[axis + 1 :]))
    zero, spread_out = body.constant(0, array_type(t.dtype)), []
    for i, x in enumerate((first, second)):
        low, high, interior = [0] * t.ndim, [0] * t.ndim, [0] * t.ndim
        low[axis], high[axis], interior[axis] = i, 1 - i, 1
        flat = sizes.reshape(body, x, stacked, t)
        spread_out.append(sizes.pad(body, flat, t, zero, out, low=low, high=high, interior=interior))
    index, mask = array_type(dtypes.int32, out.shape), array_type(dtypes.bool_, out.shape).mlir
    counted = sizes.iota(body, index, axis)
    parity = body.line(f"stablehlo.and {counted}, {body.constant(1, index)} : {index.mlir}")
    is_even = body.line(
        f"stablehlo.compare EQ, {parity}, {body.constant(0, index)}, SIGNED : ({index.mlir}, {index.mlir}) -> {mask}"
    )
    return body.line(f"stablehlo.select {is_even}, {spread_out[0]}, {spread_out[1]} : {mask}, {out.mlir}")


@emits(s.Transpose)
def transpose(body: Body, op: s.Transpose, inputs: Inputs, outputs: Outputs) -> str:
    return emit_line(body, "transpose", inputs, outputs, f", dims = {integer_list(op.perm)}")


@emits(s.Reverse)
def reverse(body: Body, op: s.Reverse, inputs: Inputs, outputs: Outputs) -> str:
    return body.line(
        f"stablehlo.reverse {body.name(inputs[0])}, dims = {integer_list(op.axes)} : {inputs[0].type.mlir}"
    )


@emits(s.Concatenate)
def concatenate(body: Body, op: s.Concatenate, inputs: Inputs, outputs: Outputs) -> str:
    t = outputs[0].type
    if not dtypes.is_sub_byte(t.dtype):
        joined = emit_line(body, "concatenate", inputs, outputs, f", dim = {op.axis}")
        is_stack = len(inputs) == 2 and all([x.type.shape[op.axis] == 1 for x in inputs])
        if (
            is_stack
            and body.module.platform != "cpu"
            and not (has_symbolic(t.shape) or dtypes.is_key(t.dtype))
            and t.size
        ):
            body.stacks[joined] = op.axis, body.name(inputs[0]), body.name(inputs[1])
        return joined
    # XLA:CPU ends the process on elements of less than a byte.
    pairs = [body.widened(x) for x in inputs]
    wide = array_type(pairs[0][1].dtype, t.shape)
    names, kinds = ", ".join([n for n, _ in pairs]), ", ".join([w.mlir for _, w in pairs])
    joined = body.line(f"stablehlo.concatenate {names}, dim = {op.axis} : ({kinds}) -> {wide.mlir}")
    return body.convert(joined, wide, t)


@emits(s.Pad)
def pad(body: Body, op: s.Pad, inputs: Inputs, outputs: Outputs) -> str:
    x, value = [body.name(a) for a in inputs]
    return sizes.pad(
        body, x, inputs[0].type, value, outputs[0].type, low=op.low, high=op.high, interior=op.interior
    )


@emits(s.Slice)
def slice_(body: Body, op: s.Slice, inputs: Inputs, outputs: Outputs) -> str:
    x, out = body.name(inputs[0]), outputs[0].type
    if x in body.pairs:
        axis, whole, t = body.pairs[x]
        if out.shape == (*t.shape[:axis], t.shape[axis] // 2, 1, *t.shape[axis + 1 :]):
            return _every_second(body, whole, t, out, axis, op.start[axis + 1])
    return sizes.static_slice(
        body, x, inputs[0].type, out, start=op.start, limit=op.limit, strides=op.strides
    )


def _every_second(body: Body, x: str, t: ArrayType, out: ArrayType, axis: int, first: int) -> str:
    """Writes every second element of an axis, the counterpart of `_interleave`."""
    half = t.with_shape((*t.shape[:axis], t.shape[axis] // 2, *t.shape[axis + 1 :]))
    starts, steps = [0] * t.ndim, [1] * t.ndim
    starts[axis], steps[axis] = first, 2
    return sizes.reshape(
        body, sizes.static_slice(body, x, t, half, start=starts, limit=t.shape, strides=steps), half, out
    )


@emits(s.DynamicSlice)
def dynamic_slice(body: Body, op: s.DynamicSlice, inputs: Inputs, outputs: Outputs) -> str:
    x, *starts = inputs
    index_names = [wide_index(body, a) for a in starts]
    return sizes.dynamic_slice(body, body.name(x), x.type, index_names, outputs[0].type)


@emits(s.DynamicUpdateSlice)
def dynamic_update_slice(body: Body, op: s.DynamicUpdateSlice, inputs: Inputs, outputs: Outputs) -> str:
    pairs = [(body.name(a), a.type) for a in inputs[:2]] + [wide_index(body, a) for a in inputs[2:]]
    operands = ", ".join([operand for operand, _ in pairs])
    types = ", ".join([t.mlir for _, t in pairs])
    return body.line(f"stablehlo.dynamic_update_slice {operands} : ({types}) -> {outputs[0].type.mlir}")


def wide_index(body: Body, atom: Atom) -> tuple[str, ArrayType]:
    """Returns the name and type of indices, widened to at least 32 bits.

    XLA counts the last valid start in the indices' own dtype. Where an axis is longer than that dtype
    holds, it wraps around, and the CPU backend then writes outside the array.
    """
    t = atom.type
    if dtypes.bits(t.dtype) >= 32:
        return body.name(atom), t
    wide = array_type(dtypes.int32, t.shape)
    return body.line(f"stablehlo.convert {body.name(atom)} : ({t.mlir}) -> {wide.mlir}"), wide


@emits(s.Iota)
def iota(body: Body, op: s.Iota, inputs: Inputs, outputs: Outputs) -> str:
    return sizes.iota(body, op.type, op.axis)


@emits(SizeValue)
def size(body: Body, op: SizeValue, inputs: Inputs, outputs: Outputs) -> str:
    return body.convert(sizes.write_size(body, op.size), sizes.INDEX, outputs[0].type.strong())
