"""Sums of products in Einstein's notation.

opt_einsum finds the order of contractions; each is one generalised matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from effx.array import Array, arithmetic, indexing, reducing, shaping
from effx.array.arithmetic import resolve_precision, resolve_preferred_dtype
from effx.array.promotion import as_operand, broadcast_to, convert, promote_factors
from effx.dtypes import DType, DTypeLike
from effx.errors import DTypeError, ShapeError
from effx.ir.ops.linalg import DotGeneral, Precision
from effx.ir.types import Shape
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

if TYPE_CHECKING:
    from effx.array import Operand

__all__ = ["einsum"]

# A contraction: the indices of its operands, and the labels of its result.
Step = tuple[tuple[int, ...], str]

# The positions of the operands of each contraction, among those that are left; its result comes last.
Path = tuple[tuple[int, ...], ...]

# Those that effx takes for itself; users' may be any characters but those of the notation.
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

_OF_THE_NOTATION = frozenset(".,->")


def _parse_interleaved(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Turns `x, [0, 1], y, [1, 2], [0, 2]` into subscripts and operands."""
    arrays, lists = list(operands[0::2]), list(operands[1::2])
    output = arrays.pop() if len(operands) % 2 else None

    def text(labels: Sequence[Any]) -> str:
        return "".join(["..." if i is Ellipsis else _LETTERS[i] for i in labels])

    subscripts = ",".join(map(text, lists))
    return subscripts if output is None else f"{subscripts}->{text(output)}", arrays


@lru_cache(maxsize=1024)
def parse_subscripts(subscripts: str, shapes: tuple[Shape, ...]) -> tuple[tuple[str, ...], str]:
    """Returns one string of labels for each operand and one for the result; an ellipsis becomes letters.

    Raises:
        ShapeError: the notation does not fit the operands.
    """
    operand_terms, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = operand_terms.split(",")
    if len(terms) != len(shapes):
        raise ShapeError(f"einsum: {subscripts!r} has {len(terms)} terms for {len(shapes)} operands")
    used = set(subscripts)
    spare = [c for c in _LETTERS if c not in used]
    longest = 0
    for term, shape in zip(terms, shapes, strict=True):
        bare = term.replace("...", "", 1)
        if not _OF_THE_NOTATION.isdisjoint(bare):
            raise ShapeError(f"einsum: {subscripts!r} must hold labels, commas, ... and -> only")
        extra = len(shape) - len(bare)
        if extra < 0 or (extra > 0 and "..." not in term):
            raise ShapeError(
                f"einsum: term {term!r} of {subscripts!r} does not fit an operand of {len(shape)} axes"
            )
        longest = max(longest, extra if "..." in term else 0)
    # Operands' ellipses are aligned at their last axes, as in broadcasting.
    dots = "".join(spare[:longest])
    labels = []
    for term, shape in zip(terms, shapes, strict=True):
        extra = len(shape) - len(term.replace("...", "", 1))
        labels.append(term.replace("...", dots[longest - extra :] if extra else "", 1))
    if arrow:
        output = result.replace("...", dots, 1)
        for c in output:
            if not any([c in term for term in labels]) or output.count(c) > 1:
                raise ShapeError(
                    f"einsum: output label {c!r} of {subscripts!r} must occur in an operand, and once in the output"
                )
    else:
        counts = "".join(labels)
        output = dots + "".join(sorted({c for c in counts if counts.count(c) == 1 and c not in dots}))
    return tuple(labels), output


@lru_cache(maxsize=1024)
def plan_contractions(
    labels: tuple[str, ...], output: str, shapes: tuple[Shape, ...], optimize: str | Path
) -> tuple[Step, ...]:
    """Returns the contractions that compute the result, in order: by a path, or by one that a search finds."""
    if len(labels) <= 2:
        return ((tuple(range(len(labels))), output),)
    path = optimize if isinstance(optimize, tuple) else _search_path(labels, output, shapes, optimize)
    terms = list(labels)
    result: list[Step] = []
    for number, operand_indices in enumerate(path):
        joined = [terms.pop(i) for i in sorted(operand_indices, reverse=True)]
        rest = set("".join(terms)) | set(output)
        kept_labels = (
            output
            if number == len(path) - 1
            else "".join(dict.fromkeys([c for c in "".join(joined) if c in rest]))
        )
        terms.append(kept_labels)
        result.append((tuple(sorted(operand_indices)), kept_labels))
    return tuple(result)


def _search_path(labels: tuple[str, ...], output: str, shapes: tuple[Shape, ...], search: str) -> Path:
    from opt_einsum import contract_path

    try:
        path = contract_path(f"{','.join(labels)}->{output}", *shapes, shapes=True, optimize=search)[0]
    except KeyError:
        raise DTypeError(f"einsum: opt_einsum has no search {search!r}") from None
    return tuple(cast("list[tuple[int, ...]]", path))


def contraction_order(optimize: object, count: int) -> str | Path:
    """Returns the name of a search, or a path that reduces so many operands to one.

    Raises:
        DTypeError: it is none of what `einsum` takes. ShapeError: the path is one for other operands.
    """
    if isinstance(optimize, bool):
        return "auto" if optimize else (tuple(range(count)),)
    if isinstance(optimize, str):
        return optimize
    if not isinstance(optimize, Sequence):
        raise DTypeError(f"einsum: optimize must be a bool, the name of a search or a path, got {optimize!r}")
    contractions = optimize[1:] if optimize[:1] in (["einsum_path"], ("einsum_path",)) else optimize
    left, path = count, []
    for step in contractions:
        operand_indices = tuple(step) if isinstance(step, Sequence) else ()
        if (
            not operand_indices
            or len(set(operand_indices)) < len(operand_indices)
            or not all([type(i) is int and 0 <= i < left for i in operand_indices])
        ):
            break
        path.append(operand_indices)
        left -= len(operand_indices) - 1
    if left != 1 or len(path) != len(contractions):
        raise ShapeError(f"einsum: optimize: the path {optimize!r} does not bring {count} operands to one")
    return tuple(path)


def _label_sizes(labels: Sequence[str], shapes: Sequence[Shape], subscripts: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term, shape in zip(labels, shapes, strict=True):
        for c, n in zip(term, shape, strict=True):
            known = sizes.setdefault(c, n)
            if known != n and known != 1 and n != 1:
                raise ShapeError(f"einsum: {subscripts!r}: label {c!r} has sizes {known} and {n}")
            sizes[c] = max(known, n) if n != 0 and known != 0 else 0
    return sizes


def _reduce_labels(x: Array, term: str, kept_labels: str, sizes: dict[str, int]) -> tuple[Array, str]:
    """Takes diagonals of repeated labels, sums over labels that occur nowhere else, drops axes to broadcast."""
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            first = term.index(c)
            second = term.index(c, first + 1)
            x = indexing.diagonal(x, 0, first, second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + c
    stretched = [i for i, c in enumerate(term) if x.type.shape[i] == 1 and sizes[c] != 1]
    if stretched:
        x = shaping.squeeze(x, stretched)
        term = "".join([c for i, c in enumerate(term) if i not in stretched])
    alone = tuple([i for i, c in enumerate(term) if c not in kept_labels])
    total = reducing.any(x, alone) if x.type.kind == "b" and alone else arithmetic.sum_to(x, alone)
    return total, "".join([c for c in term if c in kept_labels])


def _arrange_axes(x: Array, term: str, output: str, sizes: dict[str, int]) -> Array:
    """Transposes axes to the order of `output`, and repeats along missing ones."""
    present = [c for c in output if c in term]
    x = shaping.transpose(x, tuple([term.index(c) for c in present]))
    if len(present) == len(output):
        return x
    x = shaping.reshape(x, tuple([sizes[c] if c in term else 1 for c in output]))
    return broadcast_to(x, tuple([sizes[c] for c in output]))


def _contract_pair(
    x: Array, left: str, y: Array, right: str, output: str, sizes: dict[str, int],
    precision: Precision, preferred: DType | None,
) -> Array:  # fmt: skip
    x, left = _reduce_labels(x, left, right + output, sizes)
    y, right = _reduce_labels(y, right, left + output, sizes)
    # A label that is left in this operand only, after the other's axis was dropped, is summed now.
    x, left = _reduce_labels(x, left, right + output, sizes)
    contracted = [c for c in left if c in right and c not in output]
    batch = [c for c in left if c in right and c in output]
    if not contracted:
        # No sum: a product with broadcasting, which XLA fuses.
        x, y = _arrange_with_unit_axes(x, left, output), _arrange_with_unit_axes(y, right, output)
        result = x * y
        missing = broadcast_to(result, tuple([sizes[c] for c in output]))
        return missing if preferred is None else convert(missing, preferred)
    op = DotGeneral(
        tuple([left.index(c) for c in contracted]),
        tuple([right.index(c) for c in contracted]),
        tuple([left.index(c) for c in batch]),
        tuple([right.index(c) for c in batch]),
        precision,
        preferred,
    )
    free = [c for c in left if c not in right] + [c for c in right if c not in left]
    return _arrange_axes(op(x, y), "".join(batch + free), output, sizes)


def _arrange_with_unit_axes(x: Array, term: str, output: str) -> Array:
    """Transposes axes to the order of `output`, with size 1 for missing ones."""
    order = [c for c in output if c in term]
    x = shaping.transpose(x, tuple([term.index(c) for c in order]))
    sizes = iter(x.type.shape)
    return shaping.reshape(x, tuple([next(sizes) if c in term else 1 for c in output]))


def einsum(
    subscripts: str | Operand,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Sums of products of operands, written in Einstein's notation.

    Args:
        subscripts: such as "ij,jk->ik": one term of labels for each operand, and one for the
            result; without "->" the result has the labels that occur once, in alphabetical order.
            "..." stands for axes that broadcast; a label repeated in a term takes the diagonal.
        operands: arrays. Or everything as `x, [0, 1], y, [1, 2], [0, 2]`.
        out: not supported.
        optimize: how opt_einsum searches for an order: "auto", which True is too, "optimal", "greedy" …; False for
            none, from left to right; or the order itself, a path as `einsum_path` gives it.
        precision, preferred_element_type: as for `dot`.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Raises:
        ShapeError: the notation does not fit the operands, sizes differ, or a path is for other operands.
        DTypeError: `optimize` is nothing that it can be.

    >>> import numpy as np
    >>> einsum("ij,j->i", np.eye(2), np.array([3.0, 4.0])).tolist()
    [3.0, 4.0]
    """
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding,
            einsum,
            subscripts,
            *operands,
            out=out,
            optimize=optimize,
            precision=precision,
            preferred_element_type=preferred_element_type,
        )
    if out is not None:
        raise ShapeError("einsum: arrays are immutable, so out= is not supported; use the result")
    if isinstance(subscripts, str):
        text, operand_list = subscripts, list(operands)
    else:
        text, operand_list = _parse_interleaved([subscripts, *operands])
    if not operand_list:
        raise ShapeError(f"einsum: needs at least one operand for {text!r}")
    arrays = promote_factors(*[as_operand(x) for x in operand_list], preferred=preferred_element_type)
    shapes = tuple([x.type.shape for x in arrays])
    labels, output = parse_subscripts(text, shapes)
    sizes = _label_sizes(labels, shapes, text)
    order = contraction_order(optimize, len(arrays))
    how, preferred = resolve_precision(precision), resolve_preferred_dtype(preferred_element_type)
    if preferred is not None and arrays[0].type.kind == "b":  # a count, not whether there is one
        arrays = [convert(x, preferred) for x in arrays]
    terms = list(labels)
    for operand_indices, kept_labels in plan_contractions(labels, output, shapes, order):
        joined = [(arrays[i], terms[i]) for i in operand_indices]
        for i in reversed(operand_indices):
            del arrays[i], terms[i]
        arrays.append(_contract_step(joined, kept_labels, sizes, how, preferred))
        terms.append(kept_labels)
    return arrays[0]


def _contract_step(
    joined: list[tuple[Array, str]],
    kept_labels: str,
    sizes: dict[str, int],
    precision: Precision,
    preferred: DType | None,
) -> Array:
    x, term = joined[0]
    if len(joined) == 1:
        x, term = _reduce_labels(x, term, kept_labels, sizes)
        result = _arrange_axes(x, term, kept_labels, sizes)
        return result if preferred is None else convert(result, preferred)
    for number, (y, other) in enumerate(joined[1:], 1):
        later = "".join([t for _, t in joined[number + 1 :]])
        output = (
            kept_labels
            if not later
            else "".join(dict.fromkeys([c for c in term + other if c in later + kept_labels]))
        )
        x = _contract_pair(x, term, y, other, output, sizes, precision, preferred)
        term = output
    return x
