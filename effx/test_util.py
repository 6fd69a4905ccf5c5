"""Check derivatives against finite differences, for users' tests."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.promotion import as_operand
from effx.dtypes import DTypeLike
from effx.errors import TransformError
from effx.numpy import asarray
from effx.transforms.autodiff.core import jvp, vjp
from effx.tree.registry import PyTree, flatten

__all__ = ["check_grads", "check_jvp", "check_vjp"]

Function = Callable[..., PyTree]
Numbers = np.ndarray[Any, Any]

# By dtype: the steps of the differences, and the tolerances for their error. A large step has the smaller error where a
# function is smooth; a small one is needed beside kinks, jumps and poles.
_STEPS = {
    "float16": (1e-1, 2e-2),
    "bfloat16": (1e-1,),
    "float32": (1e-2, 1e-3, 1e-4),
    "float64": (1e-5, 1e-6),
    "complex64": (1e-2, 1e-3, 1e-4),
    "complex128": (1e-5, 1e-6),
}
_TOLERANCE = {
    "float16": 1e-1, "bfloat16": 1.5e-1, "float32": 1.5e-2, "float64": 1e-5, "complex64": 1.5e-2, "complex128": 1e-5
}  # fmt: skip


def _leaf_arrays(tree: PyTree) -> list[Array]:
    return [as_operand(x) for x in flatten(tree)[0]]


def _as_widest(x: Array) -> Numbers:
    """Returns values in the widest dtype; zeros for the tangents of integers."""
    if x.type.dtype == dtypes.float0:
        return np.zeros(x.type.shape)
    data = np.asarray(x)
    return data.astype(np.complex128 if data.dtype.kind == "c" else np.float64)


# One number, or one for each dtype; what is not given is chosen by dtype.
Tolerance = float | Mapping[DTypeLike, float] | None


def _tolerance_for(arrays: Sequence[Array], table: dict[str, float], user_tolerance: Tolerance) -> float:
    if isinstance(user_tolerance, Mapping):
        table = table | {str(dtypes.as_dtype(dtype)): value for dtype, value in user_tolerance.items()}
    elif user_tolerance is not None:
        return user_tolerance
    return max([table.get(str(x.type.dtype), 0.0) for x in arrays], default=table["float64"])


def _draw_tangents(generator: np.random.Generator, like: PyTree) -> PyTree:
    """Draws a tangent for each floating leaf; integers have those of dtype float0."""
    leaves, tree = flatten(like)
    drawn: list[PyTree] = []
    for leaf in leaves:
        t = as_operand(leaf).type
        if t.kind not in "fc":
            drawn.append(np.zeros(t.shape, dtypes.float0))
            continue
        data = generator.standard_normal(t.shape)
        if t.kind == "c":
            data = data + 1j * generator.standard_normal(t.shape)
        drawn.append(asarray(np.asarray(data), t.dtype))
    return tree.unflatten(drawn)


def _step_along(args: tuple[PyTree, ...], tangents: PyTree, step: float) -> tuple[PyTree, ...]:
    leaves, tree = flatten(args)
    stepped: list[PyTree] = []
    for x, t in zip(leaves, flatten(tangents)[0], strict=True):
        if np.asarray(t).dtype == dtypes.float0:
            stepped.append(x)
        else:
            stepped.append(
                asarray(
                    _as_widest(as_operand(x)) + step * _as_widest(as_operand(t)), as_operand(x).type.dtype
                )
            )
    result: tuple[PyTree, ...] = tree.unflatten(stepped)
    return result


def _central_difference(
    f: Function, args: tuple[PyTree, ...], tangents: PyTree, step: float
) -> list[Numbers]:
    forward_values, backward_values = (
        _leaf_arrays(f(*_step_along(args, tangents, step))),
        _leaf_arrays(f(*_step_along(args, tangents, -step))),
    )
    differences = []
    for a, b in zip(map(_as_widest, forward_values), map(_as_widest, backward_values), strict=True):
        with np.errstate(invalid="ignore"):  # equal infinities do not differ
            differences.append(np.where(a == b, 0, a - b) / (2 * step))
    return differences


def _steps_for(arrays: Sequence[Array], eps: float | None) -> tuple[float, ...]:
    if eps is not None:
        return (eps,)
    return max([_STEPS.get(str(x.type.dtype), (0.0,)) for x in arrays], default=_STEPS["float64"])


def _compare_with_nearest(
    what: str,
    got: Numbers,
    differences: Iterable[Numbers],
    atol: float,
    rtol: float,
) -> None:
    """Compares each element with the nearest of its differences, of which no more are taken than are needed."""
    nearest = np.full(np.shape(got), np.nan, np.result_type(got, np.float64))
    for difference in differences:
        is_nearer = np.isnan(nearest) | (abs(got - difference) < abs(got - nearest))
        nearest = np.where(is_nearer, difference, nearest)
        if np.allclose(got, nearest, atol=atol, rtol=rtol, equal_nan=True):
            return
    _compare(what, got, nearest, atol, rtol)


def _compare(what: str, got: Numbers, expected: Numbers, atol: float, rtol: float) -> None:
    np.testing.assert_allclose(got, expected, atol=atol, rtol=rtol, err_msg=what)


def _check_value(
    what: str, value: PyTree, f: Function, args: tuple[PyTree, ...], atol: Tolerance, rtol: Tolerance
) -> tuple[list[Array], float, float]:
    """Compares a value with the function's own; returns its arrays and the tolerances for all else."""
    outputs = _leaf_arrays(value)
    arrays = [*_leaf_arrays(args), *outputs]
    absolute, relative = _tolerance_for(arrays, _TOLERANCE, atol), _tolerance_for(arrays, _TOLERANCE, rtol)
    for a, b in zip(outputs, _leaf_arrays(f(*args)), strict=True):
        _compare(what, _as_widest(a), _as_widest(b), absolute, relative)
    return outputs, absolute, relative


def check_jvp(
    f: Function,
    f_jvp: Function,
    args: Sequence[PyTree],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Checks a forward-mode derivative against a central difference in a random direction.

    Args:
        f: the function.
        f_jvp: from primals and tangents, each a tuple, to the result and its tangent.
        args: the point to check at.
        atol, rtol: tolerances, one number or one by dtype; by default what the dtype allows.
        eps: the step of the difference; by default several, by dtype, of which the best counts.
        err_msg: a prefix of the error.

    Raises:
        AssertionError: they differ.

    >>> import effx, effx.numpy as enp
    >>> check_jvp(enp.sin, lambda primals, tangents: effx.jvp(enp.sin, primals, tangents), (0.3,))
    """
    args = tuple(args)
    inputs = _leaf_arrays(args)
    tangents = _draw_tangents(np.random.default_rng(0), args)
    value, tangent = f_jvp(args, tangents)
    outputs, absolute, relative = _check_value(f"{err_msg} jvp: the value", value, f, args, atol, rtol)
    difference = functools.cache(lambda step: _central_difference(f, args, tangents, step))
    for i, (y, dy) in enumerate(zip(outputs, flatten(tangent)[0], strict=True)):
        if y.type.kind in "fc":
            expected = (difference(step)[i] for step in _steps_for(inputs, eps))
            what = f"{err_msg} jvp: the tangent"
            _compare_with_nearest(what, _as_widest(as_operand(dy)), expected, absolute, relative)


def check_vjp(
    f: Function,
    f_vjp: Function,
    args: Sequence[PyTree],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Checks a reverse-mode derivative: its pairing with a direction is that of a central difference.

    Args:
        f: the function.
        f_vjp: from arguments to the result and a function from cotangents to a tuple of cotangents.
        args: the point to check at.
        atol, rtol: tolerances, one number or one by dtype; by default what the dtype allows.
        eps: the step of the difference; by default several, by dtype, of which the best counts.
        err_msg: a prefix of the error.

    Raises:
        AssertionError: they differ.

    >>> import effx, effx.numpy as enp
    >>> check_vjp(enp.sin, lambda *args: effx.vjp(enp.sin, *args), (0.3,))
    """
    args = tuple(args)
    generator = np.random.default_rng(0)
    inputs = _leaf_arrays(args)
    tangents = _draw_tangents(generator, args)
    value, pull_back = f_vjp(*args)
    outputs, absolute, relative = _check_value(f"{err_msg} vjp: the value", value, f, args, atol, rtol)
    cotangent = _draw_tangents(generator, value)
    in_cts = pull_back(cotangent)

    def pair_with_difference(step: float) -> Numbers:
        difference = _central_difference(f, args, tangents, step)
        products = [
            np.sum(_as_widest(as_operand(c)) * d)
            for y, c, d in zip(outputs, flatten(cotangent)[0], difference, strict=True)
            if y.type.kind in "fc"
        ]
        return np.asarray(np.real(sum(products, np.float64(0))))

    backward = sum(
        [
            np.sum(_as_widest(as_operand(c)) * _as_widest(as_operand(t)))
            for x, c, t in zip(inputs, flatten(in_cts)[0], flatten(tangents)[0], strict=True)
            if x.type.kind in "fc"
        ],
        np.float64(0),
    )
    pairings = (pair_with_difference(step) for step in _steps_for(inputs, eps))
    what = f"{err_msg} vjp: the pairing"
    _compare_with_nearest(what, np.asarray(np.real(backward)), pairings, absolute, relative)


def check_grads(
    f: Function,
    args: Sequence[PyTree],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
) -> None:
    """Checks derivatives of a function up to an order, in forward and reverse mode and all their mixtures.

    Args:
        f: from arrays or pytrees to arrays or pytrees; smooth near `args`.
        args: its positional arguments.
        order: the highest derivative to check.
        modes: "fwd", "rev" or both.
        atol, rtol: tolerances, one number or one by dtype; by default what the dtype allows.
        eps: the step of the differences; by default several, by dtype, of which the best counts.

    Raises:
        AssertionError: a derivative differs from the difference.
        TransformError: a mode is unknown.

    >>> import effx.numpy as enp
    >>> check_grads(lambda x: enp.sin(x) * x, (0.5,), order=2)
    """
    args = tuple(args)
    unknown = [m for m in modes if m not in ("fwd", "rev")]
    if unknown:
        raise TransformError(f"check_grads: modes are 'fwd' and 'rev', got {unknown[0]!r}")

    def check(g: Function, point: tuple[PyTree, ...], order: int, path: str) -> None:
        if "fwd" in modes:
            check_jvp(g, lambda p, t: jvp(g, p, t), point, atol, rtol, eps, f"{path}fwd:")
            if order > 1:
                tangents = _draw_tangents(np.random.default_rng(order), point)
                check(lambda *x: jvp(g, x, tangents)[1], point, order - 1, f"{path}fwd of ")
        if "rev" in modes:
            check_vjp(g, lambda *x: vjp(g, *x), point, atol, rtol, eps, f"{path}rev:")
            if order > 1:
                cotangent = _draw_tangents(np.random.default_rng(order), g(*point))
                check(lambda *x: vjp(g, *x)[1](cotangent), point, order - 1, f"{path}rev of ")

    check(f, args, order, "")


def __dir__() -> list[str]:
    return sorted(__all__)
