"""Resolve names of padding and of axes, and infer the shapes of convolutions."""

from collections.abc import Sequence
from typing import NamedTuple

from effx.errors import ShapeError, name_user_call
from effx.families.convolution import count_positions, dilated_size
from effx.ir.sizes.dimensions import as_size
from effx.ir.types import Shape
from effx.lax.operands import int_tuple

__all__ = [
    "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "conv_dimension_numbers",
    "conv_general_permutations", "conv_general_shape_tuple", "conv_shape_tuple", "conv_transpose_shape_tuple",
    "padtype_to_pads",
]  # fmt: skip

Pads = Sequence[tuple[int, int]]
Padding = str | Pads


class ConvDimensionNumbers(NamedTuple):
    """Which axes of a convolution are what.

    Attributes:
        lhs_spec: the axes of lhs: batch, features, then the spatial ones.
        rhs_spec: the axes of rhs: features of the result, features of lhs, then the spatial ones.
        out_spec: the axes of the result: batch, features, then the spatial ones.

    >>> import effx.lax as lax
    >>> lax.conv_dimension_numbers((1, 8, 3), (2, 3, 4), ("NHC", "HIO", "NHC")).lhs_spec
    (0, 2, 1)
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


ConvGeneralDilatedDimensionNumbers = tuple[str, str, str] | ConvDimensionNumbers | None
"""Three strings of axis names, such as ("NHWC", "HWIO", "NHWC"), three lists of axes, or None for (0, 1, 2 …)."""


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """Returns the amounts of padding of a name, before and after each axis.

    Args:
        in_shape: the sizes of the axes.
        window_shape: the sizes of the window, dilated.
        window_strides: by how much the window moves.
        padding: "VALID" for none; "SAME" for as many positions as the size divided by the stride, rounded up, with
            the odd element behind; "SAME_LOWER" with the odd one before.

    Raises:
        ShapeError: another name, or lists of different lengths.

    >>> padtype_to_pads((5, 6), (3, 2), (1, 2), "SAME")
    [(1, 1), (0, 0)]
    """
    sizes, window, strides = [
        int_tuple(name, values)
        for name, values in (
            ("in_shape", in_shape),
            ("window_shape", window_shape),
            ("window_strides", window_strides),
        )
    ]
    if not len(sizes) == len(window) == len(strides):
        raise ShapeError(
            f"padtype_to_pads: in_shape, window_shape and window_strides must have equal lengths, "
            f"got {sizes}, {window} and {strides}"
        )
    if any([stride < 1 for stride in strides]):
        raise ShapeError(f"padtype_to_pads: strides must be at least 1, got {strides}")
    name = str(padding).upper()
    if name == "VALID":
        return [(0, 0)] * len(sizes)
    if name not in ("SAME", "SAME_LOWER"):
        raise ShapeError(f"padtype_to_pads: padding must be 'VALID', 'SAME' or 'SAME_LOWER', got {padding!r}")
    totals = [
        max((-(-n // stride) - 1) * stride + w - n, 0)
        for n, w, stride in zip(sizes, window, strides, strict=True)
    ]
    less = [total // 2 for total in totals]
    more = [total - half for total, half in zip(totals, less, strict=True)]
    return list(zip(less, more, strict=True)) if name == "SAME" else list(zip(more, less, strict=True))


def padding_pairs(padding: Pads) -> list[tuple[int, int]]:
    """Returns padding as pairs of ints.

    Raises:
        ShapeError: it is no sequence of pairs.
    """
    try:
        return [(as_size(low), as_size(high)) for low, high in padding]
    except (TypeError, ValueError):
        raise ShapeError(
            f"{name_user_call()}: padding must be a name or a sequence of pairs (low, high), got {padding!r}"
        ) from None


def _axes_of_letters(spec: str, letters: str, which: int) -> dict[str, int]:
    if len(set(str(spec))) != len(spec) or not set(letters) <= set(spec):
        raise ShapeError(
            f"conv_dimension_numbers: entry {which} must name each axis by another letter, "
            f"and have {letters[0]!r} and {letters[1]!r}, got {spec!r}"
        )
    return {letter: i for i, letter in enumerate(spec)}


def conv_general_permutations(
    dimension_numbers: tuple[str, str, str],
) -> tuple[Shape, Shape, Shape]:
    """Returns the axes that three strings name: for lhs, rhs and the result.

    Args:
        dimension_numbers: of lhs with "N" and "C", of rhs with "O" and "I", of the result with "N" and "C"; the other
            letters are the spatial axes, the same in each.

    Returns:
        For each string the indices of these two letters, then those of the spatial axes in the order of rhs's string.

    Raises:
        ShapeError: a string lacks or repeats a letter, or the spatial axes differ.

    >>> conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    try:
        lhs_spec, rhs_spec, out_spec = dimension_numbers
    except (TypeError, ValueError):
        raise ShapeError(
            f"conv_dimension_numbers: dimension_numbers must be three strings or ConvDimensionNumbers, "
            f"got {dimension_numbers!r}"
        ) from None
    lhs, rhs, out = [
        _axes_of_letters(spec, letters, i)
        for i, (spec, letters) in enumerate(((lhs_spec, "NC"), (rhs_spec, "OI"), (out_spec, "NC")))
    ]
    space = [letter for letter in rhs if letter not in "OI"]
    if not set(lhs) - {*"NC"} == set(space) == set(out) - {*"NC"}:
        raise ShapeError(
            f"conv_dimension_numbers: the spatial axes must be the same in each entry, got {dimension_numbers!r}"
        )
    return (
        tuple([lhs[letter] for letter in ("N", "C", *space)]),
        tuple([rhs[letter] for letter in ("O", "I", *space)]),
        tuple([out[letter] for letter in ("N", "C", *space)]),
    )


def conv_dimension_numbers(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    dimension_numbers: ConvGeneralDilatedDimensionNumbers,
) -> ConvDimensionNumbers:
    """Returns which axes are what, from strings or from None.

    Args:
        lhs_shape, rhs_shape: of equal lengths.
        dimension_numbers: three strings, or None for batch, features and spatial axes in this order; what is
            `ConvDimensionNumbers` already is returned.

    Raises:
        ShapeError: the ranks differ from one another or from the strings' lengths.

    >>> conv_dimension_numbers((1, 8, 3), (2, 3, 4), ("NHC", "HIO", "NHC"))
    ConvDimensionNumbers(lhs_spec=(0, 2, 1), rhs_spec=(2, 1, 0), out_spec=(0, 2, 1))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    rank = len(lhs_shape)
    if rank != len(rhs_shape) or rank < 2:
        raise ShapeError(
            f"conv_dimension_numbers: lhs and rhs must have equal ranks of at least 2, "
            f"got shapes {list(lhs_shape)} and {list(rhs_shape)}"
        )
    if dimension_numbers is None:
        return ConvDimensionNumbers(*[tuple(range(rank))] * 3)
    specs = conv_general_permutations(dimension_numbers)
    if len(specs[0]) != rank:
        raise ShapeError(
            f"conv_dimension_numbers: entries must have one letter for each of the {rank} axes, "
            f"got {dimension_numbers!r}"
        )
    return ConvDimensionNumbers(*specs)


def transposed_conv_padding(window: int, stride: int, padding: str | tuple[int, int]) -> tuple[int, int]:
    """Returns the padding with which a dilated convolution undoes the shape of one with this padding."""
    if not isinstance(padding, str):
        low, high = padding
        return window - 1 - low, window - 1 - high
    if padding == "VALID":
        return window - 1, max(stride, window) - 1
    total = window + stride - 2
    low = window - 1 if stride > window - 1 else -(-total // 2)
    return low, total - low


def resolve_named_padding(
    window: Sequence[int], strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """Returns the amounts of padding of a name in a transposed convolution."""
    name = padding.upper()
    if name not in ("SAME", "VALID"):
        raise ShapeError(f"{name_user_call()}: padding must be 'SAME', 'VALID' or amounts, got {padding!r}")
    return [transposed_conv_padding(w, s, name) for w, s in zip(window, strides, strict=True)]


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: Padding,
    batch_group_count: int = 1,
) -> Shape:
    """Returns the shape of a convolution of `[n, c, *space]` with `[o, c, *window]`.

    Args:
        lhs_shape, rhs_shape: dilated.
        strides: by how much the kernel moves.
        pads: a name, or a pair of amounts for each spatial axis.
        batch_group_count: in how many groups the batch is.

    Raises:
        ShapeError: the lengths differ.

    >>> conv_shape_tuple((1, 2, 5), (4, 2, 3), (2,), "SAME")
    (1, 4, 3)
    """
    sizes, window = (
        int_tuple("lhs_shape", lhs_shape)[2:],
        int_tuple("rhs_shape", rhs_shape)[2:],
    )
    moves = int_tuple("strides", strides)
    amounts = padtype_to_pads(sizes, window, moves, pads) if isinstance(pads, str) else padding_pairs(pads)
    if not len(sizes) == len(window) == len(moves) == len(amounts):
        raise ShapeError(
            f"{name_user_call()}: strides and pads must have one entry for each spatial axis of shapes "
            f"{list(lhs_shape)} and {list(rhs_shape)}, got {moves} and {amounts}"
        )
    space = [
        count_positions(low + n + high, w, s)
        for n, w, s, (low, high) in zip(sizes, window, moves, amounts, strict=True)
    ]
    return (as_size(lhs_shape[0]) // batch_group_count, as_size(rhs_shape[0]), *space)


def _permute_shape(shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    return [as_size(shape[a]) for a in axes]


def _unpermute_shape(sizes: Sequence[int], axes: Sequence[int]) -> Shape:
    return tuple([sizes[list(axes).index(i)] for i in range(len(axes))])


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers,
) -> Shape:
    """Returns the shape of a convolution with axes in any order; see `conv_shape_tuple`.

    Raises:
        ShapeError: the lengths differ.

    >>> conv_general_shape_tuple((1, 5, 2), (3, 2, 4), (1,), "VALID", ("NHC", "HIO", "NHC"))
    (1, 3, 4)
    """
    lhs, rhs, out = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    ordered_shape = conv_shape_tuple(
        _permute_shape(lhs_shape, lhs), _permute_shape(rhs_shape, rhs), window_strides, padding
    )
    return _unpermute_shape(ordered_shape, out)


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers,
) -> Shape:
    """Returns the shape of a transposed convolution; see `conv_transpose`.

    Raises:
        ShapeError: the lengths differ.

    >>> conv_transpose_shape_tuple((1, 5, 2), (3, 2, 4), (2,), "SAME", ("NHC", "HIO", "NHC"))
    (1, 10, 4)
    """
    lhs, rhs, out = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    (n, _, *space), (o, _, *window) = _permute_shape(lhs_shape, lhs), _permute_shape(rhs_shape, rhs)
    moves = int_tuple("window_strides", window_strides)
    pads = (
        resolve_named_padding(window, moves, padding) if isinstance(padding, str) else padding_pairs(padding)
    )
    spread = [dilated_size(m, s) for m, s in zip(space, moves, strict=True)]
    return _unpermute_shape(conv_shape_tuple((n, 1, *spread), (o, 1, *window), (1,) * len(moves), pads), out)
