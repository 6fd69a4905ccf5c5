"""Array types: dtype, shape, weakness and the axes along which values vary, interned so that equality is identity."""

from collections.abc import Hashable, Sequence
from math import prod
from typing import Any, final

import numpy as np

from effx import dtypes
from effx.dtypes import DType
from effx.errors import ShapeError
from effx.ir.dimensions import as_size, is_symbolic

Shape = tuple[int, ...]

Vma = frozenset[Hashable]
"""Names of axes: varying manual axes."""

INVARIANT: Vma = frozenset()

_interned: dict[tuple[DType, Shape, bool, Vma], "ArrayType"] = {}


def _kind(dtype: DType) -> str:
    # ml_dtypes' dtypes have NumPy's kind 'V'.
    if dtypes.is_floating(dtype):
        return "f"
    if dtypes.is_integer(dtype):
        return "i" if dtypes.is_signed(dtype) else "u"
    return dtype.kind


@final
class ArrayType:
    """The type of an array: `f32[3,4]`, with a `~` if weak, `f32[3]{V:i}` if it varies along the axis `i`.

    There is one instance per (dtype, shape, weak, vma), so `is` compares types. Made by `array_type`.

    Attributes:
        dtype: the NumPy dtype.
        shape: a tuple of sizes; () for a scalar. A size may be symbolic, see `effx.ir.dimensions`.
        weak: True if the dtype came from a bare Python number and yields in promotion.
        vma: the axes of surrounding `shard_map`s, which check it, along which devices have different values. Operations
            need not know it: who records them joins that of the operands.
    """

    # A plain class, because attrs' frozen classes cannot intern in __new__ without
    # running __init__ again on the shared instance.
    __slots__ = ("__weakref__", "dtype", "kind", "mlir", "ndim", "shape", "size", "vma", "weak", "weak_type")
    dtype: DType
    shape: Shape
    weak: bool
    vma: Vma

    def __init__(self, dtype: DType, shape: Shape, weak: bool, vma: Vma) -> None:
        if any([not is_symbolic(n) and n < 0 for n in shape]):
            raise ShapeError(f"array_type: sizes must not be negative, got {list(shape)}")
        put = object.__setattr__
        put(self, "dtype", dtype)
        put(self, "shape", shape)
        put(self, "weak", weak)
        put(self, "vma", vma)
        # jaxlib's C++ reads this name, and tells keys from numbers by it.
        put(self, "weak_type", weak or dtypes.is_key(dtype))
        put(self, "kind", _kind(dtype))
        put(self, "ndim", len(shape))
        put(self, "size", prod(shape))
        sizes = "".join(["?x" if is_symbolic(n) else f"{n}x" for n in shape])
        put(self, "mlir", f"tensor<{sizes}{dtypes.mlir_name(dtype)}>")

    # 'b' boolean, 'i' signed, 'u' unsigned, 'f' floating, 'c' complex, 'V' other
    kind: str
    mlir: str
    ndim: int
    size: int
    weak_type: bool

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"array types are immutable: cannot set {name!r}")

    def __repr__(self) -> str:
        text = f"{dtypes.short_name(self.dtype)}[{','.join(map(str, self.shape))}]{'~' if self.weak else ''}"
        return f"{text}{{V:{','.join(names_shown(self.vma))}}}" if self.vma else text

    def __reduce__(self) -> tuple[Any, ...]:
        return array_type, (self.dtype, self.shape, self.weak, self.vma)

    def with_shape(self, shape: Shape) -> "ArrayType":
        """Returns the type with another shape."""
        return array_type(self.dtype, shape, self.weak, self.vma)

    def with_dtype(self, dtype: DType) -> "ArrayType":
        """Returns the strong type with another dtype."""
        return array_type(dtype, self.shape, False, self.vma)

    def strong(self) -> "ArrayType":
        """Returns the type without weakness."""
        return array_type(self.dtype, self.shape, False, self.vma) if self.weak else self

    def varying(self, vma: Vma) -> "ArrayType":
        """Returns the type of a value that varies along these axes and no others."""
        return self if self.vma == vma else array_type(self.dtype, self.shape, self.weak, vma)

    def matches(self, other: "ArrayType") -> bool:
        """Says whether both have the same dtype and shape; weakness, and along what they vary, is ignored."""
        return self is other or (self.dtype == other.dtype and self.shape == other.shape)


def names_shown(vma: Vma) -> list[str]:
    """Returns the names of axes in order, those that are words without quotes."""
    return sorted([n if isinstance(n, str) and n.isidentifier() else repr(n) for n in vma])


def array_type(
    dtype: DType, shape: Sequence[int] = (), weak: bool = False, vma: Vma = INVARIANT
) -> ArrayType:
    """Returns the one array type with this dtype, shape and weakness, of values that vary along some axes.

    Raises:
        ShapeError: a size is negative or no int.

    >>> import numpy as np
    >>> array_type(np.dtype("float32"), (3, 4))
    f32[3,4]
    >>> array_type(np.dtype("float32"), (3, 4)) is array_type(np.dtype("float32"), (3, 4))
    True
    """
    key = (dtype, shape, weak, vma)
    try:
        return _interned[key]  # type: ignore[index]  # a list as shape falls through to the slow path
    except (KeyError, TypeError):
        # Unpickled dtypes are equal to NumPy's own, but do not say that they are builtin.
        given = np.dtype(dtype)
        dtype = dtypes.OWN.get(given, given)
        sizes = tuple([as_size(n) for n in shape])
        axes = frozenset(vma)
        return _interned.setdefault((dtype, sizes, weak, axes), ArrayType(dtype, sizes, bool(weak), axes))
