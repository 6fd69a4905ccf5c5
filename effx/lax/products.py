"""Matrix products in their general form."""

import enum
from collections.abc import Sequence
from typing import NamedTuple

from effx import dtypes
from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, broadcast_to, convert, promote_factors
from effx.array.shaping import reshape
from effx.dtypes import DTypeLike
from effx.errors import DTypeError, ShapeError
from effx.ir.ops.linalg import DotGeneral
from effx.lax.operands import int_tuple
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = [
    "DotAlgorithm", "DotAlgorithmPreset", "DotDimensionNumbers", "Precision", "PrecisionLike", "batch_matmul", "dot",
    "dot_general", "scaled_dot",
]  # fmt: skip


class Precision(enum.Enum):
    """The precision of products on accelerators; CPUs multiply in full precision.

    >>> Precision("high"), str(Precision.HIGH)
    (Precision.HIGH, 'HIGH')
    """

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


class DotAlgorithm(NamedTuple):
    """How a product is computed, given as its precision: what the operands are rounded to, and what sums are added up
    in.

    A platform has few of these, mostly those of `DotAlgorithmPreset`; others are refused when a program is compiled.
    The result has the operands' dtype or `preferred_element_type`, as ever.

    Attributes:
        lhs_precision_type, rhs_precision_type: the dtypes that the operands are rounded to.
        accumulation_type: the dtype in which products are added up.
        lhs_component_count, rhs_component_count: into how many parts each operand is split.
        num_primitive_operations: how many products of parts are computed, to reach a higher precision.
        allow_imprecise_accumulation: whether some sums may be less exact.

    >>> import numpy as np
    >>> x = np.ones(3, np.float16)
    >>> dot(x, x, precision=DotAlgorithm(np.float32, np.float32, np.float32))
    Array(3., dtype=float16)
    """

    lhs_precision_type: DTypeLike
    rhs_precision_type: DTypeLike
    accumulation_type: DTypeLike
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """The algorithms for products that some platform has, by the dtypes of lhs, of rhs and of the sums.

    `X3`, `X6` and `X9` are so many products of 16-bit parts, for the precision of a wider dtype. `FAST_ACCUM` allows
    less exact sums. CPUs have F16_F16_F16, BF16_BF16_F32 and its X3 and X6, which they compute exactly, F32_F32_F32 and
    F64_F64_F64.

    >>> import effx.lax as lax, effx.numpy as enp
    >>> x = enp.array([1.0, 2.0])
    >>> print(lax.dot(x, x, precision=lax.DotAlgorithmPreset.F32_F32_F32))
    5.0
    """

    DEFAULT = "DEFAULT"
    ANY_F8_ANY_F8_F32 = "ANY_F8_ANY_F8_F32"
    ANY_F8_ANY_F8_F32_FAST_ACCUM = "ANY_F8_ANY_F8_F32_FAST_ACCUM"
    ANY_F8_ANY_F8_ANY = "ANY_F8_ANY_F8_ANY"
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = "ANY_F8_ANY_F8_ANY_FAST_ACCUM"
    F16_F16_F16 = "F16_F16_F16"
    F16_F16_F32 = "F16_F16_F32"
    BF16_BF16_BF16 = "BF16_BF16_BF16"
    BF16_BF16_F32 = "BF16_BF16_F32"
    BF16_BF16_F32_X3 = "BF16_BF16_F32_X3"
    BF16_BF16_F32_X6 = "BF16_BF16_F32_X6"
    BF16_BF16_F32_X9 = "BF16_BF16_F32_X9"
    TF32_TF32_F32 = "TF32_TF32_F32"
    TF32_TF32_F32_X3 = "TF32_TF32_F32_X3"
    F32_F32_F32 = "F32_F32_F32"
    F64_F64_F64 = "F64_F64_F64"

    @property
    def accumulation_type(self) -> dtypes.DType | None:
        """The dtype in which products are added up; None if the algorithm leaves it open."""
        if self is DotAlgorithmPreset.DEFAULT:
            return None
        return _ACCUMULATION.get(self.value.split("_")[4 if "F8" in self.value else 2])

    @property
    def supported_lhs_types(self) -> tuple[dtypes.DType, ...] | None:
        """The dtypes from which lhs needs no conversion; None for any, or any of 8 bits."""
        kind = self.value.split("_")[0]
        if kind in ("DEFAULT", "ANY"):
            return None
        if kind == "TF32" or self.value[-2:] in ("X3", "X6", "X9"):
            return (dtypes.float32,)
        return (dtypes.bfloat16, dtypes.float32) if kind == "BF16" else (_ACCUMULATION[kind],)

    @property
    def supported_rhs_types(self) -> tuple[dtypes.DType, ...] | None:
        """As for lhs."""
        return self.supported_lhs_types

    def supported_output_types(
        self, lhs_dtype: DTypeLike, rhs_dtype: DTypeLike
    ) -> tuple[dtypes.DType, ...] | None:
        """Returns the dtypes that the product of such operands may have without a conversion; None for any.

        >>> DotAlgorithmPreset.F16_F16_F32.supported_output_types("float16", "float16")
        (dtype('float32'), dtype('float16'))
        """
        total = self.accumulation_type
        if total is None:
            return None
        if "F8" in self.value:
            return (total, dtypes.float16, dtypes.bfloat16, *_FLOAT8)
        operand_dtypes = {dtypes.as_dtype(lhs_dtype), dtypes.as_dtype(rhs_dtype)}
        short = {dtypes.float16, dtypes.bfloat16} if self.value in ("F16_F16_F32", "BF16_BF16_F32") else set()
        stored = [d for d in self.supported_lhs_types or () if d in short and operand_dtypes == {d}]
        return (total, *stored)


_FLOAT8 = (
    dtypes.float8_e4m3fn, dtypes.float8_e5m2, dtypes.float8_e5m2fnuz, dtypes.float8_e4m3fnuz,
    dtypes.float8_e4m3b11fnuz,
)  # fmt: skip
_ACCUMULATION = {
    "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64,
}  # fmt: skip


PrecisionLike = (
    str | Precision | tuple[str, str] | tuple[Precision, Precision] | DotAlgorithm | DotAlgorithmPreset | None
)
Axes = Sequence[int]
DotDimensionNumbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]
"""((contracting axes of lhs, of rhs), (batch axes of lhs, of rhs))."""


def split_dot_numbers(what: str, numbers: DotDimensionNumbers) -> DotDimensionNumbers:
    """Returns contracting and batch axes, each a pair of those of lhs and rhs."""
    try:
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    except (TypeError, ValueError):
        raise ShapeError(
            f"{what} must be ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)), got {numbers!r}"
        ) from None
    return (lhs_contract, rhs_contract), (lhs_batch, rhs_batch)


def dot_general(
    lhs: Operand,
    rhs: Operand,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Multiplies, and sums over the contracting axes, for each index along the batch axes.

    Args:
        lhs, rhs: of any dtype; different ones are promoted. With `preferred_element_type` any two go together.
        dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`; the axes
            in each pair of lists have equal sizes.
        precision: for accelerators, one for both operands or a pair; or an algorithm: a `DotAlgorithm`, or a
            `DotAlgorithmPreset` or its name.
        preferred_element_type: the dtype of the sums and of the result.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        An array with the batch axes, then the other axes of lhs, then those of rhs.

    Raises:
        ShapeError: axes are out of range, repeat, or differ in size.

    >>> import numpy as np
    >>> a = np.arange(4, dtype=np.float32).reshape(2, 2)
    >>> dot_general(a, a, (((1,), (0,)), ((), ())))
    Array([[ 2.,  3.],
           [ 6., 11.]], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding, dot_general, lhs, rhs, dimension_numbers, precision, preferred_element_type
        )
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = split_dot_numbers(
        "dot_general: dimension_numbers", dimension_numbers
    )
    op = DotGeneral(
        int_tuple("lhs contracting axes", lhs_contract),
        int_tuple("rhs contracting axes", rhs_contract),
        int_tuple("lhs batch axes", lhs_batch),
        int_tuple("rhs batch axes", rhs_batch),
        arithmetic.resolve_precision(precision),
        arithmetic.resolve_preferred_dtype(preferred_element_type),
    )
    factors = as_operand(lhs), as_operand(rhs)
    return op(*promote_factors(*factors, preferred=preferred_element_type))


def dot(
    lhs: Operand,
    rhs: Operand,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: "DTypeLike | None" = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Returns the product of vectors and matrices.

    Args:
        lhs: `[n]` or `[m, n]`, of any dtype.
        rhs: `[n]` or `[n, k]`; dtypes are promoted.
        dimension_numbers: to contract other axes of arrays of any rank; see `dot_general`.
        precision: for accelerators, one for both operands or a pair; or an algorithm: a `DotAlgorithm`, or a
            `DotAlgorithmPreset` or its name.
        preferred_element_type: the dtype of the sums and of the result.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        A scalar, `[m]`, `[k]` or `[m, k]`.

    Raises:
        ShapeError: an operand has another rank, or sizes differ.

    >>> import numpy as np
    >>> dot(np.arange(3, dtype=np.float32), np.arange(3, dtype=np.float32))
    Array(5., dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding,
            dot,
            lhs,
            rhs,
            dimension_numbers=dimension_numbers,
            precision=precision,
            preferred_element_type=preferred_element_type,
        )
    if dimension_numbers is None:
        a, b = as_operand(lhs).type, as_operand(rhs).type
        if not (1 <= a.ndim <= 2 and 1 <= b.ndim <= 2):
            raise ShapeError(f"dot: operands must have one or two axes, got {a!r} and {b!r}; use dot_general")
        dimension_numbers = (((a.ndim - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Operand, rhs: Operand, precision: PrecisionLike = None) -> Array:
    """Returns a stack of matrix products.

    Args:
        lhs: `[*b, m, n]`.
        rhs: `[*b, n, k]`; dtypes are promoted.
        precision: for accelerators.

    Returns:
        An array `[*b, m, k]`.

    Raises:
        ShapeError: ranks differ or are below 2, or sizes differ.

    >>> import numpy as np
    >>> batch_matmul(np.ones((5, 2, 3)), np.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    a, b = as_operand(lhs), as_operand(rhs)
    n = a.type.ndim
    if n < 2 or b.type.ndim != n:
        raise ShapeError(
            f"batch_matmul: operands must have equal ranks of at least 2, got {a.type!r} and {b.type!r}"
        )
    batch = tuple(range(n - 2))
    return dot_general(a, b, (((n - 1,), (n - 2,)), (batch, batch)), precision)


def scaled_dot(
    lhs: Operand,
    rhs: Operand,
    *,
    lhs_scale: Operand | None = None,
    rhs_scale: Operand | None = None,
    dimension_numbers: DotDimensionNumbers | None = None,
    preferred_element_type: "DTypeLike | None" = None,
) -> Array:
    """Returns the product of `lhs * lhs_scale` and `rhs * rhs_scale`, where a scale is shared by a block along the
    contracted axes.

    Blocks are scaled, and products added up, in f32 or, of f64 operands, in f64.

    Args:
        lhs: `[m, k]` or `[b, m, k]`, of any floating dtype.
        rhs: `[k, n]` or `[b, k, n]`.
        lhs_scale: of lhs's shape, but along contracted axes smaller by a factor of at least 2; None for 1.
        rhs_scale: of rhs's shape, likewise.
        dimension_numbers: to contract other axes of arrays of any rank; see `dot_general`.
        preferred_element_type: the dtype of the result, bf16 by default.

    Returns:
        As of `dot_general`.

    Raises:
        ShapeError: shapes do not fit, or the operands have other ranks and there are no `dimension_numbers`.
        DTypeError: an operand is not floating.

    >>> import numpy as np
    >>> x, half = np.ones((1, 4), np.float32), np.array([[0.5, 1.0]], np.float32)
    >>> scaled_dot(x, x.T, lhs_scale=half, preferred_element_type=np.float32)
    Array([[3.]], dtype=float32)
    """
    a, b = as_operand(lhs), as_operand(rhs)
    if dimension_numbers is None:
        n = a.type.ndim
        if n not in (2, 3) or b.type.ndim != n:
            raise ShapeError(
                f"scaled_dot: operands must both have two or three axes, got {a.type!r} and {b.type!r}; "
                f"give dimension_numbers"
            )
        batch = tuple(range(n - 2))
        dimension_numbers = (((n - 1,), (n - 2,)), (batch, batch))
    (contract, rhs_contract), _ = dimension_numbers
    x = _scale_blocks("lhs", a, lhs_scale, tuple(contract))
    y = _scale_blocks("rhs", b, rhs_scale, tuple(rhs_contract))
    preferred = (
        dtypes.bfloat16
        if preferred_element_type is None
        else dtypes.canonicalize_requested(preferred_element_type)
    )
    return convert(dot_general(x, y, dimension_numbers), preferred)


def _scale_blocks(name: str, x: Array, scale: Operand | None, contract: tuple[int, ...]) -> Array:
    """Multiplies each block along the contracted axes by its scale."""
    t = x.type
    if t.kind != "f":
        raise DTypeError(f"scaled_dot: {name} must be floating, got {t!r}")
    wide = dtypes.float64 if t.dtype == dtypes.float64 else dtypes.float32
    value = convert(x, wide)
    if scale is None:
        return value
    factor = as_operand(scale)
    if factor.type.kind != "f":
        raise DTypeError(f"scaled_dot: {name}_scale must be floating, got {factor.type!r}")
    shape = factor.type.shape
    fits = len(shape) == t.ndim and all(
        [
            n == s if a not in contract else bool(s) and n % s == 0 and n // s >= 2
            for a, (n, s) in enumerate(zip(t.shape, shape, strict=False))
        ]
    )
    if not fits:
        raise ShapeError(
            f"scaled_dot: {name}_scale must have the shape of {name} {t!r}, but along the contracted axes {contract} "
            f"the size divided by at least 2, got {factor.type!r}"
        )
    blocks = [
        part for n, s in zip(t.shape, shape, strict=True) for part in ((s, n // s) if n != s else (n, 1))
    ]
    apart = [part for s in shape for part in (s, 1)]
    repeated = broadcast_to(reshape(convert(factor, wide), apart), tuple(blocks))
    return value * reshape(repeated, t.shape)
