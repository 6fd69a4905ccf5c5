"""Wrong arguments of effx.numpy give errors that name the function, what was expected and what came.

Never: tests errors of making arrays; `test_creation` does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import ConcretizationError, DTypeError, EffxError, IndexingError, ShapeError

A = np.ones((2, 3), np.float32)
V = np.ones((3,), np.float32)
I = np.arange(3, dtype=np.int32)  # noqa: E741 - an integer vector
C = np.ones((2,), np.complex64)
FUNCTIONS = (
    "sin add abs negative floor round conj maximum power true_divide arctan2 equal logical_and isfinite where sum mean max "
    "argmax cumsum nansum median reshape transpose squeeze flip tile repeat roll pad sort argsort searchsorted take dot "
    "matmul outer einsum_ diff cov trace isclose clip hypot broadcast_to expand_dims ravel diag unique nonzero sign rint"
).replace("einsum_ ", "").split()  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lists_are_refused(name: str) -> None:
    """Lists are converted only where a function is there to convert them."""
    count = {
        "where": 3,
        "reshape": 2,
        "tile": 2,
        "repeat": 2,
        "roll": 2,
        "pad": 2,
        "broadcast_to": 2,
        "expand_dims": 2,
    }
    pairs = [
        "add",
        "maximum",
        "power",
        "true_divide",
        "arctan2",
        "equal",
        "logical_and",
        "searchsorted",
        "take",
        "dot",
        "matmul",
        "outer",
        "isclose",
        "hypot",
    ]
    arguments = [[1.0, 2.0]] + [1] * (count.get(name, 2 if name in pairs else 1) - 1)
    with pytest.raises(
        DTypeError,
        match="expected an array or a number, got a list; lists are converted only by array and asarray",
    ):
        getattr(enp, name)(*arguments)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: enp.fabs(C), DTypeError, "fabs: takes real numbers only, got c64[2]; use absolute"),
        (lambda: enp.hypot(C, C), DTypeError, "hypot: takes real numbers only, got c64[2] and c64[2]"),
        (lambda: enp.copysign(C, C), DTypeError, "copysign: takes real numbers only, got c64[2] and c64[2]"),
        (lambda: enp.signbit(C), DTypeError, "signbit: takes real numbers only, got c64[2]"),
        (lambda: enp.isposinf(C), DTypeError, "isposinf: takes real numbers only, got c64[2]"),
        (lambda: enp.negative(True), DTypeError, "negative: booleans have no negative, got bool[]; use ~x"),
        (
            lambda: enp.power(2, -3),
            DTypeError,
            "power: integers have no negative integer powers: i32[]~ to the power -3",
        ),
        (lambda: enp.add(A, np.ones(2)), ShapeError, "add: shapes do not fit"),
        (
            lambda: enp.where(A, A),  # type: ignore[call-overload]  # wrong on purpose
            ShapeError,
            "where: takes both x and y, or neither",
        ),
        (
            lambda: enp.where(A, A, A, size=2),  # type: ignore[call-overload]  # wrong on purpose
            ShapeError,
            "where: size and fill_value go with the form without x and y",
        ),
        (lambda: enp.select([A], [A, A]), ShapeError, "select: 1 conditions and 2 choices; expected as many"),
        (lambda: enp.select([], []), ShapeError, "select: needs at least one condition"),
        (lambda: enp.sum(A, 2), ShapeError, "sum: axis 2 is out of range for the 2 axes of f32[2,3]"),
        (lambda: enp.sum(A, (0, 0)), ShapeError, "sum: axes (0, 0) repeat an axis of f32[2,3]"),
        (
            lambda: enp.sum(A, out=A),  # type: ignore[call-overload]  # wrong on purpose
            ShapeError,
            "sum: arrays are immutable, so out= is not supported; use the result",
        ),
        (
            lambda: enp.max(A[:0]),
            ShapeError,
            "max: f32[0,3] has no elements over axes (0, 1), and no initial value was given",
        ),
        (
            lambda: enp.min(A, where=A > 0),
            ShapeError,
            "min: where= needs initial=, because there may be no elements",
        ),
        (
            lambda: enp.var(A, ddof=1, correction=1),
            ShapeError,
            "var: ddof and correction are two names for one number; give one of them",
        ),
        (lambda: enp.diff(A, -1), ShapeError, "diff: n must not be negative, got -1"),
        (
            lambda: enp.cumulative_sum(A),
            ShapeError,
            "cumulative_sum: needs axis= for more than one axis, got f32[2,3]",
        ),
        (
            lambda: enp.quantile(A, 0.5, method="x"),
            DTypeError,
            "quantile: method must be one of linear, lower, higher, midpoint, nearest, inverted_cdf, got 'x'",
        ),
        (
            lambda: enp.quantile(C, 0.5),
            DTypeError,
            "quantile: complex numbers have no order, got c64[2] and f32[]~",
        ),
        (lambda: enp.quantile(A, A), ShapeError, "quantile: q must be a number or a vector, got f32[2,3]"),
        (lambda: enp.median(A[:0]), ShapeError, "median: f32[0,3] has no elements over axes (0, 1)"),
        (
            lambda: enp.median(A, overwrite_input=True),
            ShapeError,
            "median: arrays are immutable, so out= and overwrite_input= are not supported",
        ),
        (
            lambda: enp.average(A, weights=V),
            ShapeError,
            "average: weights f32[3] have not the shape of f32[2,3]; a vector needs an axis",
        ),
        (
            lambda: enp.average(A, axis=0, weights=V),
            ShapeError,
            "average: weights f32[3] do not fit axis 0 of f32[2,3]",
        ),
        (lambda: enp.cov(np.ones((2, 2, 2))), ShapeError, "cov: takes matrices and vectors, got f32[2,2,2]"),
        (lambda: enp.cov(A, fweights=V[:2]), ShapeError, "cov: fweights f32[2] do not fit 3 observations"),
        (
            lambda: enp.reshape(A, (4, 2)),
            ShapeError,
            "reshape: sizes differ: f32[2,3] has 6 elements, shape [4, 2] has 8",
        ),
        (lambda: enp.squeeze(A, 0), ShapeError, "squeeze: axis 0 of f32[2,3] has size 2, not 1"),
        (
            lambda: enp.rollaxis(A, 0, 5),
            ShapeError,
            "rollaxis: start 5 is out of range for the 2 axes of f32[2,3]",
        ),
        (lambda: enp.fliplr(V), ShapeError, "fliplr: needs at least two axes, got f32[3]"),
        (lambda: enp.flipud(1.0), ShapeError, "flipud: needs at least one axis, got f32[]~"),
        (lambda: enp.rot90(A, axes=(0, 0)), ShapeError, "rot90: needs two different axes, got (0, 0)"),
        (lambda: enp.rot90(A, axes=(0,)), ShapeError, "rot90: needs two axes, got (0,)"),
        (lambda: enp.roll(A, (1, 2, 3), (0, 1)), ShapeError, "roll: 3 shifts for 2 axes"),
        (lambda: enp.roll(A, 1.5, 0), ShapeError, "roll: a shift must be an integer, got f32[]~"),
        (lambda: enp.tile(A, -1), ShapeError, "tile: repetitions must not be negative, got [-1]"),
        (
            lambda: enp.repeat(A, np.array([1, 2, 3, 4]), 1),
            ShapeError,
            "repeat: repeats i32[4] do not fit axis 1 of f32[2,3]",
        ),
        (
            lambda: enp.diag(np.ones((2, 2, 2))),
            ShapeError,
            "diag: takes a vector or a matrix, got f32[2,2,2]",
        ),
        (lambda: enp.concatenate([]), ShapeError, "concatenate: needs at least one array"),
        (
            lambda: enp.concatenate([1, 2]),
            ShapeError,
            "concatenate: scalars cannot be joined, got i32[]~; use stack",
        ),
        (lambda: enp.stack([A, V]), ShapeError, "stack: shapes differ: f32[2,3] and f32[3]"),
        (lambda: enp.unstack(1.0), ShapeError, "unstack: a scalar has no axes, got f32[]~"),
        (
            lambda: enp.split(A, 2, 1),
            ShapeError,
            "split: axis 1 of f32[2,3] does not divide into 2 equal sections",
        ),
        (
            lambda: enp.array_split(A, 0),
            ShapeError,
            "array_split: the number of sections must be positive, got 0",
        ),
        (lambda: enp.delete(V, 5), ShapeError, "delete: index 5 is out of bounds for axis 0 with size 3"),
        (
            lambda: enp.pad(A, 1, mode="x"),
            ShapeError,
            (
                "pad: mode must be one of constant, edge, reflect, symmetric, wrap, linear_ramp, maximum, minimum, "
                "mean, median, empty or a function, got 'x'"
            ),
        ),
        (
            lambda: enp.pad(A, (1, 2, 3)),
            ShapeError,
            "pad: pad_width must be an int, a pair, or a pair for each of the 2 axes, got (1, 2, 3)",
        ),
        (lambda: enp.pad(A, -1), ShapeError, "pad: widths must not be negative, got -1"),
        (
            lambda: enp.pad(A, 1, "mean", stat_length=0),
            ShapeError,
            "pad: stat_length must be at least 1 for mode 'mean', got 0",
        ),
        (
            lambda: enp.pad(A, 1, "reflect", reflect_type="x"),
            ShapeError,
            "pad: reflect_type must be 'even' or 'odd', got 'x'",
        ),
        (
            lambda: enp.pad(A[:0], 1, mode="edge"),
            ShapeError,
            "pad: axis 0 of f32[0,3] has no elements to extend by mode 'edge'",
        ),
        (
            lambda: enp.pad(A, 1, mode="edge", constant_values=1),
            ShapeError,
            "pad: mode 'edge' does not take constant_values",
        ),
        (lambda: enp.take(A, 1.5), IndexingError, "take: indices must be integers, got f32[]~"),
        (
            lambda: enp.take(A, 1, mode="x"),
            IndexingError,
            "take: mode must be 'fill', 'clip' or 'wrap', got 'x'",
        ),
        (lambda: enp.nonzero(1.0), ShapeError, "nonzero: takes arrays with axes, got f32[]~; use atleast_1d"),
        (lambda: enp.compress(A, A), ShapeError, "compress: the condition must be a vector, got bool[2,3]"),
        (
            lambda: enp.compress(V, A, 0),
            IndexingError,
            "compress: index 2 is out of range for axis 0 of f32[2,3]",
        ),
        (lambda: enp.ravel_multi_index((I,), (2, 3)), ShapeError, "ravel_multi_index: 1 indices for 2 axes"),
        (
            lambda: enp.sort(A, kind="quicksort"),  # type: ignore[arg-type]  # wrong on purpose
            DTypeError,
            "sort: kind and order are not supported; use stable=",
        ),
        (lambda: enp.searchsorted(A, 1), ShapeError, "searchsorted: takes a sorted vector, got f32[2,3]"),
        (
            lambda: enp.searchsorted(V, 1, "x"),
            DTypeError,
            "searchsorted: side must be 'left' or 'right', got 'x'",
        ),
        (lambda: enp.digitize(A, A), ShapeError, "digitize: bins must be a vector, got f32[2,3]"),
        (lambda: enp.bincount(V), DTypeError, "bincount: takes a vector of integers, got f32[3]"),
        (lambda: enp.bincount(I, np.ones(2)), ShapeError, "bincount: weights f32[2] do not fit i32[3]"),
        (lambda: enp.lexsort([]), ShapeError, "lexsort: needs at least one key"),
        (
            lambda: enp.dot(A, A),
            ShapeError,
            "dot: contracting sizes differ: lhs f32[2,3] axis 1 is 3, rhs f32[2,3] axis 0 is 2",
        ),
        (
            lambda: enp.matmul(1.0, A),
            ShapeError,
            "matmul: operands need at least one axis, lhs is f32[]~; use x * y",
        ),
        (
            lambda: enp.dot(A, V, precision="x"),
            DTypeError,
            "dot: precision must be 'default', 'high' or 'highest', an algorithm or its name, got 'x'",
        ),
        (lambda: enp.vecdot(A, V[:2]), ShapeError, "vecdot: sizes along the axis differ: 3 and 2"),
        (
            lambda: enp.tensordot(A, A, 3),
            ShapeError,
            "tensordot: cannot contract 3 axes of f32[2,3] and f32[2,3]",
        ),
        (
            lambda: enp.tensordot(A, A, ((0, 1), 0)),
            ShapeError,
            "tensordot: axes ((0, 1), 0) do not pair: 2 and 1",
        ),
        (
            lambda: enp.cross(np.ones(4), V),
            ShapeError,
            "cross: vectors need 2 or 3 components, got f32[4] and f32[3]",
        ),
        (lambda: enp.einsum("ij,jk", A), ShapeError, "einsum: 'ij,jk' has 2 terms for 1 operands"),
        (
            lambda: enp.einsum("ijk", A),
            ShapeError,
            "einsum: term 'ijk' of 'ijk' does not fit an operand of 2 axes",
        ),
        (
            lambda: enp.einsum("ij->k", A),
            ShapeError,
            "einsum: output label 'k' of 'ij->k' must occur in an operand, and once in the output",
        ),
        (lambda: enp.einsum("i.", A), ShapeError, "einsum: 'i.' must hold labels, commas, ... and -> only"),
        (lambda: enp.einsum("ij,ij", A, A.T), ShapeError, "einsum: 'ij,ij': label 'i' has sizes 2 and 3"),
        (
            lambda: enp.einsum("ij", A, optimize=1.5),
            DTypeError,
            "einsum: optimize must be a bool, the name of a search or a path, got 1.5",
        ),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
)
def test_error(call: Callable[[], object], error: type[EffxError], text: str) -> None:
    """The message begins with the function's name."""
    with pytest.raises(error) as caught:
        call()
    assert caught.value.message.startswith(text)


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (enp.nonzero, "nonzero: the shape would depend on the values of the abstract bool[3]; give size="),
        (
            enp.unique,
            "unique: the number of distinct elements of the abstract i32[3] is not known while it is traced",
        ),
        (enp.bincount, "bincount: the shape would depend on the values of the abstract i32[3]; give length="),
        (
            lambda x: enp.compress(x, x),
            "compress: the shape would depend on the values of the abstract bool[3]",
        ),
        (
            lambda x: enp.repeat(x, x),
            "repeat(repeats=x): needs a concrete value, but x is an abstract i32[3] under jit",
        ),
        (
            lambda x: enp.where(x),
            "where: the shape would depend on the values of the abstract bool[3]; give size=",
        ),
    ],
)
def test_shapes_that_depend_on_values(f: Callable[[object], object], text: str) -> None:
    """A result whose shape depends on values cannot be traced."""
    with pytest.raises(ConcretizationError) as caught:
        effx.jit(f)(I)
    assert caught.value.message.startswith(text)
