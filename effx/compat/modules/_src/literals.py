"""`jax._src.literals`: quax converts Python numbers with a dtype, which effx has not: it keeps literals as they are."""

from effx.dtypes import DType

__all__ = ["TypedComplex", "TypedFloat", "TypedInt"]


class TypedInt(int):
    """An int with a dtype."""

    dtype: DType


class TypedFloat(float):
    """A float with a dtype."""

    dtype: DType


class TypedComplex(complex):
    """A complex number with a dtype."""

    dtype: DType
