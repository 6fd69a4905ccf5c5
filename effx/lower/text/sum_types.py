"""In which type a platform sums products, where the result has another one."""

from collections.abc import Sequence

from effx import dtypes
from effx.errors import BackendError
from effx.ir.types import ArrayType
from effx.lower.text.emit import Body


def choose_sum_type(
    function_name: str, platform: str, operands: Sequence[ArrayType], out: ArrayType
) -> ArrayType:
    """Returns the type in which a platform's compiler can sum products of the operands; the result is converted from it.

    The compilers for accelerators refuse sums that are narrower than operands of 64 bits or more, and complex sums of real
    products, on which that for TPUs ends the process (jaxlib 0.11.2, libtpu 0.0.52).

    Raises:
        BackendError: integers of 64 bits on TPUs.
    """
    kinds = {t.kind for t in operands}
    wide_integers = [t for t in (*operands, out) if t.kind in "iu" and t.dtype.itemsize == 8]
    if platform == "tpu" and wide_integers:
        raise BackendError(
            f"{function_name}: XLA sums no products of 64-bit integers on TPUs, got {wide_integers[0]!r}; convert them to "
            f"int32 or float32"
        )
    if platform == "cpu" or out.kind not in "fc" or (out.kind == "f" and "c" in kinds):
        return out
    dtype = out.dtype if "c" in kinds else dtypes.real_dtype(out.dtype)
    wide = [t.dtype for t in operands if t.kind in "fc" and t.dtype.itemsize >= 8]
    return out.with_dtype(max(dtype, *wide, key=lambda dtype: dtype.itemsize) if wide else dtype)


def convert_complex_operands(
    body: Body, pairs: Sequence[tuple[str, ArrayType]], total: ArrayType
) -> list[tuple[str, ArrayType]]:
    """Converts complex operands to the type of a complex sum, which accelerators do not do themselves."""
    if body.module.platform == "cpu" or total.kind != "c":
        return list(pairs)
    converted = [(x, t, t.with_dtype(total.dtype) if t.kind == "c" else t) for x, t in pairs]
    return [(body.convert(x, t, new), new) for x, t, new in converted]
