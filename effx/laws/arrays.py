"""Strategies of array types, arrays and pytrees."""

from collections.abc import Sequence
from math import prod

import numpy as np
from hypothesis import strategies as st

from effx import dtypes
from effx.array import Array
from effx.dtypes import DType
from effx.flags import enable_x64
from effx.ir.types import ArrayType, Shape, array_type
from effx.numpy import asarray
from effx.tree.registry import PyTree

DTYPES: dict[str, tuple[DType, ...]] = {
    "b": (dtypes.bool_,),
    "i": (dtypes.int32, dtypes.int8, dtypes.int16, dtypes.int64),
    "u": (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64),
    "f": (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16),
    "c": (dtypes.complex64, dtypes.complex128),
}
"""The dtypes of each kind, a letter of `ArrayType.kind`."""

SPECIAL = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0)


def array_shapes(most_dims: int = 3, most_elements: int = 24) -> st.SearchStrategy[Shape]:
    """Draws shapes with sizes 0 to 4: rank 0 first, empty ones last.

    >>> from hypothesis import find
    >>> find(array_shapes(), lambda shape: len(shape) == 2)
    (1, 1)
    """
    sizes = st.sampled_from((1, 2, 3, 4, 0))
    return st.lists(sizes, max_size=most_dims).map(tuple).filter(lambda s: prod(s) <= most_elements)


def array_types(
    kinds: str = "fiubc", shapes: st.SearchStrategy[Shape] | None = None, weak: bool = False
) -> st.SearchStrategy[ArrayType]:
    """Draws array types.

    Args:
        kinds: letters of `ArrayType.kind`, the simplest first.
        shapes: by default up to rank 3, with size 0 and 1.
        weak: True for weak types among them.

    >>> from hypothesis import find
    >>> from effx.laws import array_types
    >>> find(array_types("iu"), lambda t: t.ndim == 2).kind in "iu"
    True
    """
    chosen = [d for k in kinds for d in DTYPES[k]]
    return st.builds(
        array_type,
        st.sampled_from(chosen),
        array_shapes() if shapes is None else shapes,
        st.booleans() if weak else st.just(False),
    )


def _draw_element(t: ArrayType, low: float, high: float, special: bool) -> st.SearchStrategy[object]:
    """Draws one element; floats have three digits, so that they print shortly."""
    if t.kind == "b":
        return st.booleans()
    if t.kind in "iu":
        info = np.iinfo(t.dtype)
        bottom, top = max(int(np.ceil(low)), info.min), min(int(np.floor(high)), info.max)
        integers = st.integers(min(bottom, top), top)
        return integers | st.sampled_from((info.min, info.max)) if special else integers
    floats = st.integers(int(np.ceil(low * 1000)), int(np.floor(high * 1000))).map(lambda n: n / 1000)
    if special:
        floats = floats | st.sampled_from(SPECIAL)
    return st.builds(complex, floats, floats) if t.kind == "c" else floats


def array_of(
    t: ArrayType, low: float = -3.0, high: float = 3.0, special: bool = False
) -> st.SearchStrategy[Array]:
    """Draws arrays of one type.

    Args:
        t: the type.
        low: the least element, of either part where complex.
        high: the largest.
        special: True for NaN, infinities, zeros of both signs and the ends of integers too.

    >>> import numpy as np
    >>> from hypothesis import find
    >>> from effx.handling import array_type
    >>> from effx.laws import array_of
    >>> t = array_type(np.dtype("float32"), (2,))
    >>> find(array_of(t), lambda x: bool((x > 1.0).all())).type
    f32[2]
    """
    count = t.size

    def build(elements: list[object]) -> Array:
        with enable_x64(True), np.errstate(over="ignore", invalid="ignore"):
            return asarray(np.asarray(elements).reshape(t.shape).astype(t.dtype), t.dtype)

    return st.lists(_draw_element(t, low, high, special), min_size=count, max_size=count).map(build)


def arrays(
    dtype: str | DType | st.SearchStrategy[ArrayType] | None = None,
    shape: Shape | st.SearchStrategy[Shape] | None = None,
    *,
    low: float = -3.0,
    high: float = 3.0,
    special: bool = False,
) -> st.SearchStrategy[Array]:
    """Draws arrays.

    Args:
        dtype: of all arrays, or a strategy of types; all kinds by default.
        shape: of all arrays, or a strategy; by default up to rank 3, with size 0 and 1.
        low: the least element, of either part where complex.
        high: the largest.
        special: True for NaN, infinities, zeros of both signs and the ends of integers too.

    >>> from hypothesis import find
    >>> find(arrays("float32", (2,)), lambda x: float(x.sum()) > 1.0).shape
    (2,)
    """
    if isinstance(dtype, st.SearchStrategy):
        types = dtype
    else:
        shapes = st.just(shape) if isinstance(shape, tuple) else shape
        types = array_types("fiubc", shapes)
        if dtype is not None:
            fixed = np.dtype(dtype)
            types = (array_shapes() if shapes is None else shapes).map(lambda s: array_type(fixed, s))
    return types.flatmap(lambda t: array_of(t, low, high, special))


def pytrees(
    leaves: st.SearchStrategy[PyTree],
    most_leaves: int = 6,
    nodes: Sequence[str] = ("tuple", "list", "dict", "none"),
) -> st.SearchStrategy[PyTree]:
    """Draws pytrees.

    Args:
        leaves: draws the leaves.
        most_leaves: how many.
        nodes: which of "tuple", "list", "dict" and "none" occur.

    >>> from hypothesis import find, strategies as st
    >>> find(pytrees(st.integers()), lambda tree: isinstance(tree, dict) and len(tree) == 1)
    {'a': None}
    """
    kinds: dict[str, st.SearchStrategy[PyTree]] = {"none": st.none()}

    def extend(inner: st.SearchStrategy[PyTree]) -> st.SearchStrategy[PyTree]:
        lists = st.lists(inner, max_size=3)
        entries: dict[str, st.SearchStrategy[PyTree]] = {
            "tuple": lists.map(tuple),
            "list": lists,
            "dict": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        }
        return st.one_of([entries[name] for name in nodes if name in entries])

    start = leaves | kinds["none"] if "none" in nodes else leaves
    return st.recursive(start, extend, max_leaves=most_leaves)
