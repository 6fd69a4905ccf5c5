"""In which type a platform sums products, where the result has another one."""

from collections.abc import Sequence

from effx import dtypes
from effx.errors import BackendError
from effx.ir.program import Atom
from effx.ir.types import ArrayType
from effx.lower.text.emit import Body


def choose_sum_type(function_name: str, platform: str, operand: ArrayType, out: ArrayType) -> ArrayType:
    """Returns the type in which a platform's compiler can sum products of operands; the result is converted from it.

    The compilers for accelerators refuse floating sums that are narrower than operands of 64 bits or more, and complex sums
    of real products, on which that for TPUs ends the process (jaxlib 0.11.2, libtpu 0.0.52).

    Args:
        function_name: for errors. operand: the type of both operands, but for the shape. out: that of the result.

    Raises:
        BackendError: integers of 64 bits on TPUs.
    """
    wide_integers = [t for t in (operand, out) if t.kind in "iu" and t.dtype.itemsize == 8]
    if platform == "tpu" and wide_integers:
        raise BackendError(
            f"{function_name}: XLA sums no products of 64-bit integers on TPUs, got {wide_integers[0]!r}; convert them to "
            f"int32 or float32"
        )
    is_complex = operand.kind == "c"
    if platform == "cpu" or out.kind not in "fc" or (out.kind == "f" and is_complex):
        return out
    dtype = out.dtype if is_complex else dtypes.real_dtype(out.dtype)
    if operand.kind in "fc" and operand.dtype.itemsize > max(dtype.itemsize, 4):
        dtype = operand.dtype
    return out if dtype == out.dtype else out.with_dtype(dtype)


def name_operands(
    body: Body, function_name: str, inputs: Sequence[Atom], out: ArrayType
) -> tuple[list[tuple[str, ArrayType]], ArrayType]:
    """Returns the names and types of the operands of products, widened where XLA does not do it, and the type of the sum."""
    total = choose_sum_type(function_name, body.module.platform, inputs[0].type, out)
    # XLA widens elements of less than a byte itself, but leaves their layout as it is, and then refuses that.
    widen = dtypes.bits(out.dtype) >= 8
    pairs = [body.widened(x) if widen else (body.name(x), x.type) for x in inputs]
    return [_widen_complex_operand(body, x, t, total) for x, t in pairs], total


def _widen_complex_operand(body: Body, x: str, t: ArrayType, total: ArrayType) -> tuple[str, ArrayType]:
    """Returns an operand of products: complex numbers in the precision of the sum, which accelerators do not widen."""
    if body.module.platform == "cpu" or not t.kind == total.kind == "c" or t.dtype == total.dtype:
        return x, t
    wide = t.with_dtype(total.dtype)
    return body.convert(x, t, wide), wide
