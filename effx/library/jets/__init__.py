"""Taylor series of any order: of a function along a curve, of a function of one number, of an ODE's solution."""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import effx.numpy as enp
from effx import Array, tree
from effx.errors import DTypeError, ShapeError, TransformError, TreeError, check_function, name_user_call
from effx.ir.values.array import Operand
from effx.lazy import list_names
from effx.library.jets import recurrences
from effx.library.jets.series import Jet, Jets, padded
from effx.tree import PyTree

__all__ = ["Jet", "Jets", "jet", "solution_series", "taylor"]
__dir__ = list_names(__all__)


R = TypeVar("R")
X = TypeVar("X")


def jet(
    fun: Callable[..., R], primals: Sequence[PyTree], series: Sequence[PyTree], factorial_scaled: bool = True
) -> tuple[R, PyTree]:
    """Evaluates a function with its derivatives along curves, in the convention of `jax.experimental.jet`.

    The curve x(t) has x(0) in `primals` and its derivatives d^k x / dt^k at 0 in `series`: derivatives, not
    Taylor coefficients, which are smaller by k!, unless `factorial_scaled` is False. The cost is a polynomial in the
    order, where nested `jvp` takes 2^order.

    Args:
        fun: takes and returns pytrees of arrays.
        primals: a tuple or list with an argument each, pytrees of floating or complex arrays.
        series: for each primal a list of derivatives, the first one first; for a pytree this tree with such a
            list as each leaf. All lists have one length, the order.
        factorial_scaled: False where the series are Taylor coefficients, and those of the result are to be too.

    Returns:
        `(result, derivatives)`: f(x(0)), and this tree with a list of the derivatives of f(x(t)) as each
        leaf.

    Raises:
        TransformError: primals and series differ in number, or the order is below 1.
        TreeError: the structure of the series is not that of the primals.
        ShapeError: a derivative has another shape than its primal, or lists differ in length.
        DTypeError: a primal is an integer or a boolean.

    >>> import effx.numpy as enp
    >>> y, (dy, ddy) = jet(enp.sin, (0.0,), ([1.0, 0.0],))
    >>> print(f"{y:.1f} {dy:.1f} {ddy:.1f}")
    0.0 1.0 0.0
    """
    check_function(fun)
    if not isinstance(primals, tuple | list) or not isinstance(series, tuple | list):
        raise TransformError(
            "jet: primals and series must be tuples or lists, with an entry for each argument"
        )
    if len(primals) != len(series):
        raise TransformError(f"jet: got {len(primals)} primals and {len(series)} series")
    leaves, structure = tree.flatten(tuple(primals))
    try:
        lists = tree.flatten_up_to(structure, tuple(series))
    except (TreeError, ValueError, TypeError) as error:
        raise TreeError(f"jet: the series must have the structure of the primals, {structure}") from error
    values = [_check_inexact(x) for x in leaves]
    orders = {len(terms) if isinstance(terms, tuple | list) else 0 for terms in lists}
    if len(orders) > 1:
        raise ShapeError(f"jet: all series must have one length, got {sorted(orders)}")
    order = orders.pop() if orders else 0
    if order < 1:
        raise TransformError("jet: a series must be a list of at least one derivative")
    factors = [float(math.factorial(k)) if factorial_scaled else 1.0 for k in range(order + 1)]
    curves = [
        Jet(x, tuple([_check_derivative(x, d, k) * (1.0 / factors[k]) for k, d in enumerate(terms, 1)]))
        for x, terms in zip(values, lists, strict=True)
    ]
    result_series, shape = _run(fun, structure, curves, order)
    derivatives = [[c * factors[k] for k, c in enumerate(y.terms, 1)] for y in result_series]
    return shape.unflatten([y.primal for y in result_series]), shape.unflatten(derivatives)


def taylor(f: Callable[[Array], R], x: Operand, order: int) -> list[R]:
    """Returns the Taylor coefficients of a function of one number.

    Args:
        f: takes a floating or complex scalar and returns a pytree of arrays.
        x: where to expand.
        order: the highest power, at least 1.

    Returns:
        `order + 1` pytrees like the result: the k-th is the coefficient of (y - x)^k in f(y).

    Raises:
        TransformError: the order is below 1.
        ShapeError: x is no scalar.

    >>> import effx.numpy as enp
    >>> print([f"{c:.4f}" for c in taylor(enp.exp, 0.0, 4)])
    ['1.0000', '1.0000', '0.5000', '0.1667', '0.0417']
    """
    check_function(f)
    start = _check_inexact(x)
    if start.shape:
        raise ShapeError(f"taylor: x must be a scalar, got {start.type!r}; see jet for curves")
    Jets(order)  # checks the order
    zero = enp.zeros_like(start)
    curve = Jet(start, (enp.ones_like(start), *[zero] * (order - 1)))
    series, shape = _run(f, tree.structure((0,)), [curve], order)
    return [shape.unflatten([y.series[k] for y in series]) for k in range(order + 1)]


def solution_series(f: Callable[[X, Array], X], x: X, t: Operand, order: int) -> list[X]:
    """Returns the Taylor coefficients in time of the solution of x' = f(x, t).

    The coefficient x_{k+1} is f_k / (k + 1), where f_k is that of f along the series found so far (Griewank &
    Walther 2008, section 13.4). Their sum is a step of an integrator of any order.

    Args:
        f: the right-hand side, from x and the time to a pytree like x.
        x: the state at time t, a pytree of floating or complex arrays.
        t: the time.
        order: the highest power, at least 1.

    Returns:
        `order + 1` pytrees like x: the k-th is the coefficient of (s - t)^k in x(s).

    Raises:
        TransformError: the order is below 1.
        TreeError: f returns another structure than x's.

    >>> print([f"{c:.4f}" for c in solution_series(lambda x, t: x, 1.0, 0.0, 4)])
    ['1.0000', '1.0000', '0.5000', '0.1667', '0.0417']
    """
    check_function(f)
    Jets(order)  # checks the order
    leaves, structure = tree.flatten((x, t))
    *values, time = [_check_inexact(leaf) for leaf in leaves]
    known: list[tuple[Array, ...]] = [(v,) for v in values]
    for k in range(order):
        if k == 0:
            slopes, shape = tree.flatten(f(*structure.unflatten([*values, time])))
            results = [Jet(enp.asarray(s), ()) for s in slopes]
        else:
            clock = Jet(time, (enp.ones_like(time), *[enp.zeros_like(time)] * (k - 1)))
            results, shape = _run(f, structure, [*[Jet(c[0], c[1:]) for c in known], clock], k)
        if shape != tree.structure(x):
            raise TreeError(f"solution_series: f returns {shape} for a state {tree.structure(x)}")
        known = [
            (*c, _slope_like(c[0], y.series[k]) * (1.0 / (k + 1)))
            for c, y in zip(known, results, strict=True)
        ]
    return [tree.structure(x).unflatten([c[k] for c in known]) for k in range(order + 1)]


def _slope_like(x: Array, slope: Array) -> Array:
    if slope.shape != x.shape:
        raise ShapeError(f"solution_series: f returns {slope.type!r} for a state {x.type!r}")
    return slope.astype(x.dtype)


def _run(
    f: Callable[..., PyTree], structure: tree.PyTreeDef, curves: Sequence[Jet], order: int
) -> tuple[list[Jet], tree.PyTreeDef]:
    """Runs a function on series; the results have all their terms, zeros too."""
    result = Jets(order).run(f, *structure.unflatten(curves))
    leaves, shape = tree.flatten(result, is_leaf=lambda x: isinstance(x, Jet))
    return [padded(y, order) for y in leaves], shape


def _check_inexact(x: Operand) -> Array:
    value = enp.asarray(x)
    if value.type.kind not in "fc":
        raise DTypeError(
            f"{name_user_call()}: a series needs a floating or complex value, got {value.type!r}"
        )
    return value


def _check_derivative(x: Array, derivative: Operand, k: int) -> Array:
    d = enp.asarray(derivative)
    if d.shape != x.shape:
        raise ShapeError(
            f"jet: derivative {k} must have the primal's shape: the primal is {x.type!r}, got {d.type!r}"
        )
    return d.astype(x.dtype)
