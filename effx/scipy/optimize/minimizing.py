"""Minimization by the quasi-Newton methods of Broyden, Fletcher, Goldfarb and Shanno.

Sources: Nocedal and Wright, "Numerical optimization", 2006, chapters 6 and 7; Liu and Nocedal, "On the limited memory
BFGS method for large scale optimization", 1989.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import absolute, maximum, to_inexact, where
from effx.array.promotion import as_operand, convert, to_host_array, zeros
from effx.errors import DTypeError, OptionError, ShapeError
from effx.ir.values.scalars import scalar
from effx.lax.control.loops import fori_loop, while_loop
from effx.numpy.linalg.norms import norm
from effx.numpy.linear import dot, outer
from effx.scipy.optimize.results import OptimizeResults
from effx.scipy.optimize.searching import LinePoint, search_line, select
from effx.transforms.autodiff.gradients import value_and_grad
from effx.tree.registry import PyTree

__all__ = ["minimize"]

Objective = Callable[[Array], Array]

BFGS: dict[str, object] = {"maxiter": None, "norm": np.inf, "gtol": 1e-5, "line_search_maxiter": 10}
LIMITED: dict[str, object] = {
    "maxiter": None, "norm": np.inf, "maxcor": 10, "ftol": 2.220446049250313e-09, "gtol": 1e-05, "maxfun": None,
    "maxgrad": None, "maxls": 20,
}  # fmt: skip
METHODS: dict[str, dict[str, object]] = {"bfgs": BFGS, "l-bfgs-experimental-do-not-rely-on-this": LIMITED}


class DescentState(NamedTuple):
    """The state of a minimization.

    Attributes:
        x: the point.
        here: the value and the gradient there, as a point of step 0.
        memory: what is known of the curvature.
        steps: how many steps were made.
        values: how many values and gradients were computed.
        converged: whether this is a minimum.
        stuck: whether no step makes the value smaller.
    """

    x: Array
    here: LinePoint
    memory: PyTree
    steps: Array
    values: Array
    converged: Array
    stuck: Array


def _outer_product(x: Array, y: Array) -> Array:
    return dot(x, y, precision="highest")


def _descend(
    fun: Objective,
    x: Array,
    memory: PyTree,
    direction_of: Callable[[PyTree, Array, Array], Array],
    update_curvature: Callable[[PyTree, Array, Array, Array], PyTree],
    options: Mapping[str, PyTree],
    tries: int,
) -> DescentState:
    """Descends along directions until the gradient is small.

    Args:
        fun: the function.
        x: the first point.
        memory: what is known of the curvature at first.
        direction_of: takes the memory, the number of the step and the gradient, returns a direction.
        update_curvature: takes the memory, the number of the step, the step and the difference of gradients; returns the
            memory.
        options: of the method.
        tries: how many points a line search evaluates.
    """
    value, gradient = value_and_grad(fun)(x)
    if value.type.shape or value.type.kind != "f":
        raise ShapeError(f"minimize: fun must return a real number, got {value.type!r}")
    n = x.type.size
    most = 200 * n if options["maxiter"] is None else options["maxiter"]
    calls = [options.get(name) for name in ("maxfun", "maxgrad")]
    bound = min([c for c in calls if c is not None], default=math.inf)
    zero = as_operand(0)
    no = scalar(False, dtypes.bool_, weak=False)

    def is_small(gradient: Array) -> Array:
        small: Array = norm(gradient, options["norm"]) < options["gtol"]
        return small

    def going(state: DescentState) -> Array:
        more = ~state.converged & ~state.stuck & (state.steps < most)
        return more if bound == math.inf else more & (state.values < bound)

    def step(state: DescentState) -> DescentState:
        here = state.here
        direction = direction_of(state.memory, state.steps, here.gradient)
        slope = _outer_product(direction, here.gradient)
        falls = slope < 0
        # Rounding may have spoilt the curvature; the gradient falls in any case.
        direction = where(falls, direction, -here.gradient)
        slope = where(falls, slope, -_outer_product(here.gradient, here.gradient))
        length = norm(direction)
        first = where(state.steps == 0, 1 / maximum(length, 1), 1)
        ended = search_line(
            fun, state.x, direction, here._replace(slope=slope), convert(first, x.type.dtype), tries
        )
        best = select(ended.found, ended.trial, ended.low)
        moved = best.step * direction
        change = best.gradient - here.gradient
        memory = update_curvature(state.memory, state.steps, moved, change)
        fall = here.value - best.value
        size = maximum(maximum(absolute(here.value), absolute(best.value)), 1)
        level = ended.found & (fall <= options["ftol"] * size) if "ftol" in options else no
        small = is_small(best.gradient)
        return DescentState(
            state.x + moved,
            best._replace(
                step=scalar(0, x.type.dtype, weak=False), slope=scalar(0, x.type.dtype, weak=False)
            ),
            memory,
            state.steps + 1,
            state.values + ended.looked,
            small | level,
            ~small & (best.step == 0),
        )

    nothing = scalar(0, x.type.dtype, weak=False)
    here = LinePoint(nothing, convert(value, x.type.dtype), nothing, gradient)
    return while_loop(going, step, DescentState(x, here, memory, zero, zero + 1, is_small(gradient), no))


def _run_bfgs(fun: Objective, x: Array, options: Mapping[str, PyTree]) -> tuple[DescentState, Array | None]:
    """The inverse of the Hessian is stored, and updated by two vectors a step."""
    n = x.type.size
    unit = to_host_array(np.eye(n, dtype=x.type.dtype))

    def direction_of(H: Array, count: Array, gradient: Array) -> Array:
        return -_outer_product(H, gradient)

    def update_curvature(H: Array, count: Array, s: Array, y: Array) -> Array:
        curve = _outer_product(s, y)
        bends = curve > 0
        rho = 1 / where(bends, curve, 1)
        # Before the first change the unit matrix gets the size of the curvature along the step.
        H = where((count == 0) & bends, H * (curve / where(bends, _outer_product(y, y), 1)), H)
        left = unit - rho * outer(s, y)
        changed = _outer_product(_outer_product(left, H), left.T) + rho * outer(s, s)
        return where(bends, changed, H)

    tries = options["line_search_maxiter"]
    state = _descend(fun, x, unit, direction_of, update_curvature, options, tries)
    return state, state.memory


class CurvaturePairs(NamedTuple):
    """The last steps and differences of gradients, in a ring."""

    steps: Array
    changes: Array
    weights: Array
    scale: Array


def _run_lbfgs(fun: Objective, x: Array, options: Mapping[str, PyTree]) -> tuple[DescentState, Array | None]:
    """The inverse of the Hessian is what the last steps say, applied to the gradient by two loops over them."""
    n, m = x.type.size, options["maxcor"]

    def direction_of(pairs: CurvaturePairs, count: Array, gradient: Array) -> Array:
        def backward(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            q, shares = state
            at = (count - 1 - i) % m
            share = pairs.weights[at] * _outer_product(pairs.steps[at], q)
            return q - share * pairs.changes[at], shares.at[at].set(share)

        def forward(i: Array, r: Array) -> Array:
            at = (count + i) % m  # the oldest one first
            back = pairs.weights[at] * _outer_product(pairs.changes[at], r)
            return r + (shares[at] - back) * pairs.steps[at]

        q, shares = fori_loop(0, m, backward, (gradient, zeros(x.type.strong().with_shape((m,)))))
        return -fori_loop(0, m, forward, pairs.scale * q)

    def update_curvature(pairs: CurvaturePairs, count: Array, s: Array, y: Array) -> CurvaturePairs:
        curve = _outer_product(s, y)
        bends = curve > 0
        at = count % m
        # A pair of weight 0 changes nothing.
        weight = where(bends, 1 / where(bends, curve, 1), 0)
        square = _outer_product(y, y)
        scale = where(bends, curve / where(bends, square, 1), pairs.scale)
        return CurvaturePairs(
            pairs.steps.at[at].set(s), pairs.changes.at[at].set(y), pairs.weights.at[at].set(weight), scale
        )

    nothing = zeros(x.type.strong().with_shape((m, n)))
    pairs = CurvaturePairs(
        nothing, nothing, zeros(x.type.strong().with_shape((m,))), scalar(1, x.type.dtype, weak=False)
    )
    return _descend(fun, x, pairs, direction_of, update_curvature, options, options["maxls"]), None


def minimize(
    fun: Callable[..., Operand],
    x0: Operand,
    args: tuple[PyTree, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, PyTree] | None = None,
) -> OptimizeResults:
    """Looks for a minimum of a function by its gradient.

    Can be compiled and batched. Reverse mode does not pass the loop; where it is needed, `lax.custom_root` of the
    gradient has the derivatives of the minimum.

    Args:
        fun: `fun(x, *args)` returns a real number.
        x0: `[n]` real numbers, where to begin.
        args: further arguments of `fun`.
        method: "BFGS", or "l-bfgs-experimental-do-not-rely-on-this", which keeps only the last steps and no matrix.
        tol: the option `gtol`, and `ftol` where there is one.
        options: `maxiter`, the largest number of steps, by default `200 * n`; `gtol`, below which the gradient is
            small; `norm`, the order of the gradient's norm, by default infinity. Of BFGS `line_search_maxiter`, how
            many points are evaluated for one step. Of the other method `maxls`, the same; `maxcor`, how many steps are
            stored; `ftol`, the relative change of the value at which it ends; and `maxfun` and `maxgrad`, the largest
            numbers of values and gradients.

    Returns:
        The last point, the value and the gradient there, and how it ended.

    Raises:
        ShapeError: x0 is no vector, or `fun` returns no real number.
        DTypeError: complex numbers, or another method or option.

    >>> found = minimize(lambda x: ((x - 3.0) ** 2).sum(), np.zeros(2), method="BFGS")
    >>> print(found.x, found.success)
    [3. 3.] True
    """
    x = to_inexact(as_operand(x0))
    if x.type.kind == "c":
        raise DTypeError(f"minimize: x0 must be real, got {x.type!r}")
    if x.type.ndim != 1:
        raise ShapeError(f"minimize: x0 must be a vector, got {x.type!r}")
    if not isinstance(args, tuple):
        raise DTypeError(f"minimize: args must be a tuple, got {args!r}")
    key = str(method).lower()
    if key not in METHODS:
        raise OptionError(
            f"minimize: method must be 'BFGS' or 'l-bfgs-experimental-do-not-rely-on-this', got {method!r}"
        )
    known = METHODS[key]
    chosen_options: dict[str, PyTree] = dict(known)
    if tol is not None:
        chosen_options.update({name: tol for name in ("gtol", "ftol") if name in known})
    for name, value in (options or {}).items():
        if name not in known:
            raise DTypeError(f"minimize: options of {method} are {', '.join(known)}, got {name!r}")
        chosen_options[name] = value

    def objective(x: Array) -> Array:
        return to_inexact(as_operand(fun(x, *args)))

    run = _run_bfgs if key == "bfgs" else _run_lbfgs
    state, inverse = run(objective, convert(x, x.type.dtype), chosen_options)
    limits = [(2, chosen_options.get("maxfun")), (3, chosen_options.get("maxgrad"))]
    status: Array = where(state.stuck, 5, 1)  # weak, as the counts are
    for code, limit in reversed(limits):
        if limit is not None:
            status = where(~state.stuck & (state.values >= limit), code, status)
    status = where(state.converged, 0, status)
    here = state.here
    return OptimizeResults(
        state.x, state.converged, status, here.value, here.gradient, inverse, state.values, state.values, state.steps
    )  # fmt: skip
