"""StableHLO text of matrix products."""

import math

from effx import dtypes
from effx.errors import BackendError
from effx.ir.ops.linalg import PRESETS, Algorithm, DotGeneral
from effx.ir.program import Atom, Var
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.types import ArrayType, array_type
from effx.lower.text import sizes
from effx.lower.text.emit import Body, emits, integer_list
from effx.lower.text.sum_types import name_operands

# XLA refuses others, some of them by ending the process.
ON_CPU = (
    "F16_F16_F16",
    "BF16_BF16_F32",
    "BF16_BF16_F32_X3",
    "BF16_BF16_F32_X6",
    "F32_F32_F32",
    "F64_F64_F64",
)
FLOATS = {"f16": dtypes.float16, "bf16": dtypes.bfloat16, "f32": dtypes.float32, "f64": dtypes.float64}


@emits(DotGeneral)
def dot_general(body: Body, op: DotGeneral, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    out = outputs[0].type
    if len(op.precision) == 2:
        a, b = op.precision
        pairs, total = name_operands(body, op.name, inputs, out)
        if body.module.platform in ("cuda", "rocm") and inputs[0].type.kind in "biu":
            pairs = _prepare_integers(body, op, pairs, total)
            if pairs[0][1].kind == "f" and inputs[0].type.kind != "b":
                a = b = "HIGHEST"  # the default would round integers above 2^11
        names, types = zip(*pairs, strict=True)
        result = _emit_product(body, op, list(names), list(types), total, f"[{a}, {b}]")
        return body.convert(result, total, out)
    algorithm = op.precision
    if body.module.platform == "cpu" and algorithm not in [PRESETS[name] for name in ON_CPU]:
        known = [name for name, value in PRESETS.items() if value == algorithm]
        raise BackendError(
            f"dot_general: XLA has no algorithm {known[0] if known else algorithm} on CPUs, only {', '.join(ON_CPU)}"
        )
    names, types = zip(*[_convert_for_algorithm(body, x, algorithm) for x in inputs], strict=True)
    total = out if algorithm[2] == "any" else array_type(_float_dtype(algorithm[2]), out.shape)
    rounded = [
        dtypes.mlir_name(t.dtype) if p == "f8" else p for p, t in zip(algorithm[:2], types, strict=True)
    ]
    form = (
        f"[DEFAULT, DEFAULT], algorithm = <lhs_precision_type = {rounded[0]}, rhs_precision_type = {rounded[1]}, "
        f"accumulation_type = {dtypes.mlir_name(total.dtype)}, lhs_component_count = {algorithm[3]}, "
        f"rhs_component_count = {algorithm[4]}, num_primitive_operations = {algorithm[5]}, "
        f"allow_imprecise_accumulation = {'true' if algorithm[6] else 'false'}>"
    )
    result = _emit_product(body, op, list(names), list(types), total, form)
    if total.dtype == out.dtype:
        return result
    return body.line(f"stablehlo.convert {result} : ({total.mlir}) -> {out.mlir}")


# The integer units of GPUs sum so many products at a time.
UNIT = 4


def _prepare_integers(
    body: Body, op: DotGeneral, pairs: list[tuple[str, ArrayType]], total: ArrayType
) -> list[tuple[str, ArrayType]]:
    """Makes operands of integers or bools such as the compiler for GPUs gets right (jaxlib 0.11.2, on an H200).

    It refuses floating sums of bools, and ends the process on those of integers, which become floats first. Of bytes it
    gives twice the product where the number of terms of a sum is no multiple of 4, which zeros make it.
    """
    terms = tuple([pairs[0][1].shape[i] for i in op.lhs_contract])
    are_bytes = dtypes.bits(pairs[0][1].dtype) == 8 and pairs[0][1].kind in "iu"
    if total.kind in "fc" or (are_bytes and has_symbolic(terms)):
        dtype = total.dtype if total.kind in "fc" else dtypes.int32
        return [(body.convert(x, t, t.with_dtype(dtype)), t.with_dtype(dtype)) for x, t in pairs]
    if not are_bytes or not terms or not math.prod(terms) % UNIT:
        return pairs
    axes = op.lhs_contract[-1], op.rhs_contract[-1]
    return [_pad_to_unit(body, x, t, axis) for (x, t), axis in zip(pairs, axes, strict=True)]


def _pad_to_unit(body: Body, x: str, t: ArrayType, axis: int) -> tuple[str, ArrayType]:
    """Writes zeros behind the elements of an axis, up to a multiple of `UNIT`."""
    missing = -t.shape[axis] % UNIT
    out = t.with_shape((*t.shape[:axis], t.shape[axis] + missing, *t.shape[axis + 1 :]))
    none = [0] * t.ndim
    high = [missing if i == axis else 0 for i in range(t.ndim)]
    return sizes.pad(
        body, x, t, body.constant(0, array_type(t.dtype)), out, low=none, high=high, interior=none
    ), out


def _emit_product(
    body: Body, op: DotGeneral, names: list[str], types: list[ArrayType], out: ArrayType, precision: str
) -> str:
    batching = (
        f", batching_dims = {integer_list(op.lhs_batch)} x {integer_list(op.rhs_batch)}"
        if op.lhs_batch
        else ""
    )
    return body.line(
        f"stablehlo.dot_general {names[0]}, {names[1]}{batching}, "
        f"contracting_dims = {integer_list(op.lhs_contract)} x {integer_list(op.rhs_contract)}, precision = {precision} "
        f": ({types[0].mlir}, {types[1].mlir}) -> {out.mlir}"
    )


def _float_dtype(name: str) -> dtypes.DType:
    dtype = FLOATS.get(name)
    if dtype is None:
        raise BackendError(f"dot_general: no algorithm uses the dtype {name}, only {', '.join(FLOATS)}")
    return dtype


def _convert_for_algorithm(body: Body, x: Atom, algorithm: Algorithm) -> tuple[str, ArrayType]:
    """Converts an operand to a dtype from which XLA rounds it as the algorithm requires."""
    t, rounded, several = x.type, algorithm[0], algorithm[5] > 1
    if rounded == "f8":
        return body.name(x), t
    if rounded == "bf16" and not several:
        dtype = t.dtype if t.dtype in (dtypes.float32, dtypes.bfloat16) else dtypes.float32
    else:
        dtype = dtypes.float32 if several or rounded == "tf32" else _float_dtype(rounded)
    if dtype == t.dtype:
        return body.name(x), t
    storage_type = array_type(dtype, t.shape)
    return body.line(f"stablehlo.convert {body.name(x)} : ({t.mlir}) -> {storage_type.mlir}"), storage_type
