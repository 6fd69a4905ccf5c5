"""Laws of functions at special points: zeros, infinities, NaN, ties, ends of domains, and the ends of integers.

Values are compared with those of NumPy, SciPy and mpmath, derivatives with those of mpmath and with limits by calculus.
"""

from collections.abc import Sequence
from typing import final

import attrs
import numpy as np
from hypothesis import strategies as st

from effx.laws.comparing import Data
from effx.laws.portable.comparing import compare
from effx.laws.portable.implementation import Function, Implementation
from effx.laws.portable.points import elementary, special
from effx.laws.portable.points.derivatives import DerivativeRow, find_wrong_derivatives
from effx.laws.portable.points.values import DISTRIBUTIONS, FUNCTIONS, ValueRow, count_errors
from effx.laws.portable.registry import PartOfCaseError, Sources, portable_law
from effx.laws.registry import NotApplicable
from effx.tree.registry import PyTree


def _split(names: str) -> list[str]:
    return names.split()


FLOATS = ("f4", "f8")
INTEGERS = ("i1", "u1", "i4", "u4", "i8", "u8")
# Subnormal numbers are left out: XLA on a CPU takes them for 0, as effx and JAX say.
POINTS = (
    0.0, -0.0, 1e-30, -1e-30, 1e-8, -1e-8, 1e-3, 0.25, -0.25, 0.5, -0.5, 0.75, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 2.5, 3.0,
    -3.0, 10.0, -10.0, 30.0, -30.0, 80.0, -80.0, 1e4, -1e4, 1e10, -1e10, 1e20, -1e20, 1e30, -1e30, np.inf, -np.inf, np.nan,
)  # fmt: skip
FEW = (
    0.0,
    -0.0,
    1e-20,
    0.5,
    -0.5,
    1.0,
    -1.0,
    1.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    7.0,
    1e10,
    -1e10,
    np.inf,
    -np.inf,
    np.nan,
)
UNARY = _split("""
    absolute arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh deg2rad exp exp2 expm1 fabs floor isfinite isinf
    isnan log log10 log1p log2 negative positive rad2deg reciprocal rint sign signbit sin sinh sqrt square tan tanh trunc
    nan_to_num i0 round fix isposinf isneginf isreal real imag conjugate angle
""")
BINARY = _split("""
    add arctan2 copysign divide equal floor_divide fmax fmin fmod greater greater_equal heaviside hypot less
    less_equal logaddexp logaddexp2 maximum minimum multiply not_equal power remainder subtract nextafter
""")
OF_INTEGERS = _split("""
    absolute sign negative positive square invert add subtract multiply maximum minimum bitwise_and bitwise_or bitwise_xor
    left_shift right_shift gcd lcm equal less greater_equal remainder floor_divide fmod bitwise_count
""")
# Of zeros that differ in sign they may give either: IEEE's maximum has a choice.
OF_EITHER_ZERO = frozenset({"enp.maximum", "enp.minimum", "enp.fmax", "enp.fmin"})
OF_ONE_INTEGER = frozenset({"absolute", "sign", "negative", "positive", "square", "invert", "bitwise_count"})


@final
@attrs.frozen(eq=False)
class PointCase:
    """A function with the points at which it is computed.

    Attributes:
        function: an expression of the names of `Implementation.namespace`.
        points: an array for each operand.
        row: where values or derivatives are from; None for NumPy.
        dtype: of the operands.
    """

    function: str
    points: tuple[Data, ...]
    dtype: str
    row: DerivativeRow | ValueRow | None = None

    @property
    def key(self) -> str:
        """The function with its dtype."""
        return f"{self.function} {self.dtype}"

    def find_function(self, implementation: Implementation) -> Function:
        """Returns the implementation's function.

        Raises:
            NotApplicable: there is none.
        """
        found = implementation.function(self.function)
        if found is None:
            raise NotApplicable(f"there is no {self.function}")
        return found

    def print_program(self, implementation: Implementation, shown: Sequence[str] = ()) -> str:
        """Returns the program that computes the function at all points."""
        arguments = ", ".join([implementation.print_array(x) for x in self.points])
        lines = [f"f = {implementation.spell(self.function)}", f"xs = ({arguments},)"]
        calls = [f"print({implementation.spell(text)})" for text in shown]
        return "\n".join([*implementation.preamble, "", *lines, *calls]) + "\n"


def _list_derivatives(implementation: Implementation) -> Sources:
    sources: Sources = {}
    for row in [*elementary.ROWS, *special.ROWS]:
        points = [np.array(column) for column in zip(*row.points, *row.limits, strict=True)]
        cases = [PointCase(row.function, tuple([p.astype(d) for p in points]), d, row) for d in FLOATS]
        sources[row.name] = st.sampled_from(cases)
    return sources


def _list_values(implementation: Implementation) -> Sources:
    sources: Sources = {}
    for module, rows in (("special", FUNCTIONS), ("stats", DISTRIBUTIONS)):
        for row in rows:
            cases = [
                PointCase(f"{module}.{row.name}", tuple(row.points(np.dtype(d))), d, row) for d in FLOATS
            ]
            sources[f"{module}.{row.name} of {len(row.grids)}"] = st.sampled_from(cases)
    return sources


def _combine(points: Sequence[float], arity: int, dtype: str) -> tuple[Data, ...]:
    grids = np.meshgrid(*[np.array(points, dtype)] * arity, indexing="ij")
    return tuple([g.ravel() for g in grids])


def _list_floats(implementation: Implementation) -> Sources:
    return {
        name: st.sampled_from([PointCase(f"enp.{name}", _combine(points, arity, d), d) for d in FLOATS])
        for names, points, arity in ((UNARY, POINTS, 1), (BINARY, FEW, 2))
        for name in names
    }


def _list_integers(implementation: Implementation) -> Sources:
    sources: Sources = {}
    for name in OF_INTEGERS:
        arity = 1 if name in OF_ONE_INTEGER else 2
        cases: list[PointCase] = []
        for dtype in INTEGERS:
            info = np.iinfo(dtype)
            ends = sorted(
                {
                    info.min,
                    info.min + 1,
                    max(info.min, -3),
                    max(info.min, -1),
                    0,
                    1,
                    2,
                    5,
                    info.max - 1,
                    info.max,
                }
            )
            first, *rest = np.meshgrid(*[np.array(ends, dtype)] * arity, indexing="ij")
            if name in ("remainder", "floor_divide", "fmod"):
                # A division by 0 is a trap in C, and every library has its own answer; so is that of the least by -1.
                rest = [np.where(rest[0] == 0, np.array(3, dtype), rest[0])]
                rest = [
                    np.where(
                        (first == info.min) & (rest[0] == -1 if info.min else False),
                        np.array(2, dtype),
                        rest[0],
                    )
                ]
            if name.endswith("shift"):
                rest = [np.clip(rest[0], 0, info.bits - 1)]
            if name in ("gcd", "lcm"):
                first, rest = (
                    np.clip(first, -100, 100) if info.min else np.clip(first, 0, 100),
                    [
                        rest[0] // np.array(2 ** (info.bits // 2), dtype)
                        if info.bits > 8
                        else rest[0] // np.array(9, dtype)
                    ],
                )
            cases.append(
                PointCase(f"enp.{name}", (first.ravel(), *[r.astype(dtype).ravel() for r in rest]), dtype)
            )
        sources[name] = st.sampled_from(cases)
    return sources


def _run_in_each_way(implementation: Implementation, case: PointCase) -> dict[str, PyTree]:
    """Returns the results of an eager call, of a jitted one, and of a batch."""
    f = case.find_function(implementation)
    xs = [implementation.asarray(x) for x in case.points]
    results = {"eager": f(*xs), "vmap": implementation.vmap(f, [0] * len(xs), 0)(*xs)}
    if implementation.jit is not None:
        results["jit"] = implementation.jit(f)(*xs)
    return results


def _compare_points(case: PointCase, got: Data, want: Data, wrong: Data, note: str = "") -> None:
    places = np.flatnonzero(wrong)
    if not places.size:
        return
    lines = [f"at {', '.join([str(x[i]) for x in case.points])}: {got[i]}, not {want[i]}" for i in places[:8]]
    part = attrs.evolve(case, points=tuple([x[places[:8]] for x in case.points]))
    text = f"{note}{case.function} in {case.dtype}: {len(places)} of {got.size} are wrong\n" + "\n".join(
        lines
    )
    raise PartOfCaseError(text, part)


@portable_law(
    "first and second derivatives at special points are those of mpmath and calculus", _list_derivatives
)
def derivatives_at_special_points(implementation: Implementation, case: PointCase) -> None:
    assert isinstance(case.row, DerivativeRow)
    wrong = find_wrong_derivatives(implementation, case.row, case.dtype, case.row.heavy or case.dtype == "f8")
    assert not wrong, f"{case.function} in {case.dtype}, {len(wrong)} are wrong\n" + "\n".join(wrong[:12])


@portable_law(
    "special functions at special points have the values of SciPy and mpmath", _list_values, (), ("f(*xs)",)
)
def values_of_special_functions(implementation: Implementation, case: PointCase) -> None:
    row = case.row
    assert isinstance(row, ValueRow)
    f = case.find_function(implementation)
    with implementation.precision(case.dtype == "f8"):
        xs = [implementation.asarray(x) for x in case.points]
        result = (implementation.jit(f) if implementation.jit is not None else f)(*xs)
    got, want = (
        np.asarray(result if row.part is None else result[row.part]),
        row.find_truth(np.dtype(case.dtype)),
    )
    assert got.dtype == np.dtype(case.dtype), f"dtype {got.dtype}"
    wrong = count_errors(row, list(case.points), got, want) > 1
    _compare_points(case, got, want, wrong)


@portable_law(
    "elementwise functions at special points have NumPy's values, eagerly, under jit and in a batch",
    _list_floats,
    (),
    ("f(*xs)",),
)
def values_of_elementwise_functions(implementation: Implementation, case: PointCase) -> None:
    reference: Function = getattr(np, case.function.removeprefix("enp."))
    with np.errstate(all="ignore"):
        want = np.asarray(reference(*case.points))
    info = np.finfo(case.dtype)
    with implementation.precision(case.dtype == "f8"):
        results = _run_in_each_way(implementation, case)
    for way, result in results.items():
        got = np.asarray(result)
        with np.errstate(all="ignore"):
            same = (got == want) | (np.isnan(got) & np.isnan(want))
            # An exponential of a large number has a few digits less.
            near = (
                np.abs(got - want) <= 64 * info.eps * np.maximum(np.abs(want), info.tiny)
                if want.dtype.kind == "f"
                else same
            )
            flushed = (
                (np.abs(want) < 2 * info.tiny) & (np.abs(got) < 2 * info.tiny)
                if want.dtype.kind == "f"
                else same
            )
        wrong = ~(same | near | flushed)
        _compare_points(case, got, want, wrong, f"{way}: ")
        if want.dtype.kind == "f":
            signs = (np.signbit(got) != np.signbit(want)) & (want == 0) & (got == 0)
            if case.function == "enp.sign":
                continue  # XLA's keeps the sign of a zero
            if case.function in OF_EITHER_ZERO:
                signs &= np.signbit(case.points[0]) == np.signbit(case.points[-1])
            _compare_points(case, got, want, signs, f"{way}: signs of zeros: ")


@portable_law(
    "functions of integers at the ends of their dtypes have NumPy's values", _list_integers, (), ("f(*xs)",)
)
def values_of_integers(implementation: Implementation, case: PointCase) -> None:
    reference: Function = getattr(np, case.function.removeprefix("enp."))
    with np.errstate(all="ignore"):
        want = np.asarray(reference(*case.points))
    for way, result in _run_in_each_way(implementation, case).items():
        got = np.asarray(result)
        assert got.dtype == want.dtype, f"{way}: dtype {got.dtype}, not {want.dtype}"
        wrong = got != want
        _compare_points(case, got, want, wrong, f"{way}: ")


@portable_law("f elementwise at special points: jit f = f, vmap f = f", _list_derivatives)
def special_points_under_transformations(implementation: Implementation, case: PointCase) -> None:
    with implementation.precision(case.dtype == "f8"):
        results = _run_in_each_way(implementation, case)
    for way, result in results.items():
        compare(result, results["eager"], 1e-12 if case.dtype == "f8" else 1e-5, way)
