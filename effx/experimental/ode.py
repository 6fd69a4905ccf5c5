"""Ordinary differential equations, by an adaptive method of order 5.

Sources: Dormand and Prince, "A family of embedded Runge-Kutta formulae", 1980; Hairer, Nørsett and Wanner, "Solving
ordinary differential equations I", 1993, for the size of the first step, the control of steps and the values between
them; Chen, Rubanova, Bettencourt and Duvenaud, "Neural ordinary differential equations", 2018, for the adjoint method.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, Operand, arithmetic, reducing
from effx.array.arithmetic import absolute, clip, maximum, minimum, where
from effx.array.promotion import as_operand, convert, zeros
from effx.array.shaping import concatenate
from effx.errors import DTypeError, ShapeError, TransformError, TreeError
from effx.flatten_util import ravel_pytree
from effx.ir.ops.groups import place_at
from effx.ir.values.scalars import scalar
from effx.lax.control.loops import while_loop
from effx.lax.control.scans import scan
from effx.lax.convert import stop_gradient
from effx.lazy import list_names
from effx.numpy.creation import array
from effx.numpy.elementwise import sqrt
from effx.transforms.autodiff.core import jvp, vjp
from effx.transforms.custom.closures import closure_convert
from effx.transforms.custom.custom_derivatives import custom_jvp, custom_vjp
from effx.transforms.custom.custom_rules import SymbolicZero
from effx.transforms.maps.vmap import vmap
from effx.tree.mapping import map as tree_map
from effx.tree.registry import PyTree, PyTreeDef, flatten

__all__ = ["odeint"]
__dir__ = list_names(__all__)

# Stages: where in the step, and the weights of the slopes so far. The last row is the step itself.
PLACES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
WEIGHTS = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
# The difference to the embedded method of order 4, and the last coefficient of the values between.
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
BETWEEN = (
    -12715105075 / 11282082432, 0.0, 87487479700 / 32700410799, -10690763975 / 1880347072,
    701980252875 / 199316789632, -1453857185 / 822651844, 69997945 / 29380423,
)  # fmt: skip

Slope = Callable[..., Array]


@attrs.frozen
class OdeSettings:
    """The tolerances, and the largest number and size of steps."""

    rtol: float
    atol: float
    mxstep: float
    hmax: float


class InterpolatedStep(NamedTuple):
    """The solution during one step: its begin, its size, and the coefficients of a polynomial."""

    begin: Array
    size: Array
    coefficients: tuple[Array, ...]

    def evaluate(self, t: Array) -> Array:
        """Returns the solution at a time."""
        s = convert(
            where(self.size == 0, 0, (t - self.begin) / where(self.size == 0, 1, self.size)), t.type.dtype
        )
        a, b, c, d, e = self.coefficients
        return a + s * (b + (1 - s) * (c + s * (d + (1 - s) * e)))


class OdeState(NamedTuple):
    """The state of an integration: the value, its slope, the time, the next step's size, the last step, and the tries."""

    y: Array
    slope: Array
    t: Array
    size: Array
    piece: InterpolatedStep
    tries: Array


def _combine_slopes(weights: Sequence[float], slopes: Sequence[Array]) -> Array:
    parts = [k * w for w, k in zip(weights, slopes, strict=True) if w]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _scaled_norm(x: Array, scale: Array) -> Array:
    """Returns the root of the mean square of an error, in units of the tolerance."""
    ratio = absolute(x) / scale
    square = reducing.mean(ratio * ratio)
    positive = square > 0
    return stop_gradient(where(positive, sqrt(where(positive, square, 1)), 0))


def _initial_step_size(slope_of: Slope, y: Array, slope: Array, t: Array, how: OdeSettings) -> Array:
    scale = how.atol + how.rtol * absolute(y)
    d0, d1 = _scaled_norm(y, scale), _scaled_norm(slope, scale)
    tiny = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = where(tiny, 1e-6, 0.01 * d0 / where(tiny, 1, d1))
    d2 = _scaled_norm(slope_of(y + h0 * slope, t + convert(h0, t.type.dtype)) - slope, scale) / h0
    d = maximum(d1, d2)
    flat = d <= 1e-15
    h1 = where(flat, maximum(1e-6, h0 * 1e-3), (0.01 / where(flat, 1, d)) ** 0.2)
    return convert(minimum(minimum(100 * h0, h1), how.hmax), t.type.dtype)


def _step(slope_of: Slope, state: OdeState, last: Array, how: OdeSettings) -> OdeState:
    """Tries a step; goes on if the error is within the tolerance, and chooses the next size.

    No step goes beyond the last time, where the slope need not be defined.
    """
    y, t = state.y, state.t
    is_last = t + state.size >= last
    h = where(is_last, last - t, state.size)
    end = where(is_last, last, t + h)
    slopes = [state.slope]
    new = y
    for stage_time, weights in zip(PLACES, WEIGHTS, strict=True):
        new = y + h * _combine_slopes(weights, slopes)
        slopes.append(slope_of(new, end if stage_time == 1.0 else t + stage_time * h))
    error = h * _combine_slopes(ERROR, slopes)
    ratio = _scaled_norm(error, how.atol + how.rtol * maximum(absolute(y), absolute(new)))
    ratio = where(ratio == ratio, ratio, math.inf)  # what is not a number is no solution
    good = ratio <= 1
    none = ratio == 0
    factor = where(none, 10, 0.9 * where(none, 1, ratio) ** -0.2)
    factor = clip(factor, 0.2, where(good, 10, 1))
    size = convert(minimum(h * factor, how.hmax), t.type.dtype)
    change = new - y
    bend = h * slopes[0] - change
    coefficients = (y, change, bend, change - h * slopes[-1] - bend, h * _combine_slopes(BETWEEN, slopes))
    piece = InterpolatedStep(t, h, coefficients)
    moved = OdeState(new, slopes[-1], end, size, piece, state.tries + 1)
    stayed = state._replace(size=size, tries=state.tries + 1)
    chosen: OdeState = tree_map(lambda a, b: where(good, a, b), moved, stayed)
    return chosen


def _integrate(function: Slope, how: OdeSettings, y0: Array, t: Array, leaves: tuple[Array, ...]) -> Array:
    """Returns `[n, size]`, the solution at n times."""
    # Backwards is forwards with the sign of the time changed.
    sign = where(t[-1] < t[0], -1.0, 1.0)
    sign = convert(sign, t.type.dtype)

    def slope_of(y: Array, s: Array) -> Array:
        return convert(sign * function(y, sign * s, *leaves), y0.type.dtype)

    def until(state: OdeState, target: Array) -> tuple[OdeState, Array]:
        def goes_on(state: OdeState) -> Array:
            more = (state.t < target) & (state.t + state.size > state.t)
            return more if how.mxstep == math.inf else more & (state.tries < how.mxstep)

        state = while_loop(
            goes_on,
            lambda s: _step(slope_of, s, last, how),
            state._replace(tries=scalar(0, dtypes.int32, weak=False)),
        )
        value = state.piece.evaluate(target)
        return state, where(state.t >= target, value, math.nan)

    s0, last = sign * t[0], sign * t[-1]
    slope = slope_of(y0, s0)
    nothing = zeros(y0.type.strong())
    piece = InterpolatedStep(
        s0, zeros(t.type.strong().with_shape(())), (y0, nothing, nothing, nothing, nothing)
    )
    first = _initial_step_size(slope_of, y0, slope, s0, how)
    start = OdeState(y0, slope, s0, first, piece, scalar(0, dtypes.int32, weak=False))
    _, solutions = scan(until, start, sign * t[1:])
    return concatenate([y0[None], solutions], 0)


@partial(custom_jvp, nondiff_argnums=(0, 1))
def _integrate_with_tangents(
    function: Slope, how: OdeSettings, y0: Array, t: Array, leaves: tuple[Array, ...]
) -> Array:
    return _integrate(function, how, y0, t, leaves)


def _integrate_tangents(
    function: Slope, how: OdeSettings, primals: PyTree, tangents: PyTree
) -> tuple[Array, Array]:
    # Only by what has a tangent: zero times the infinite derivative of a slope by the time is not a number.
    values, tree = flatten(primals)
    directions = flatten(tangents)[0]
    moving = [i for i, d in enumerate(directions) if type(d) is not SymbolicZero]

    def integrate(*moved: Array) -> Array:
        parts = list(values)
        for i, x in zip(moving, moved, strict=True):
            parts[i] = x
        return _integrate(function, how, *tree.unflatten(parts))

    y, dy = jvp(integrate, tuple([values[i] for i in moving]), tuple([directions[i] for i in moving]))
    return y, dy


_integrate_with_tangents.defjvp(_integrate_tangents, symbolic_zeros=True)


_solved = custom_vjp(_integrate_with_tangents, nondiff_argnums=(0, 1))


def _integrate_forward(
    function: Slope, how: OdeSettings, y0: Array, t: Array, leaves: tuple[Array, ...]
) -> tuple[Array, PyTree]:
    ys = _solved(function, how, y0, t, leaves)
    return ys, (ys, t, leaves)


def _integrate_adjoint(function: Slope, how: OdeSettings, residuals: PyTree, ct: Array) -> PyTree:
    """Integrates the adjoint equations back from each time to the one before it.

    With the cotangent p of y, dp/dt = -p df/dy, and the cotangent of the arguments grows by p df/da. At each time the
    cotangent of the solution there is added to p, and y is the solution of the forward pass, so that errors do not add
    up.
    """
    ys, t, leaves = residuals
    active = [i for i, x in enumerate(leaves) if x.type.kind in "fc"]
    chosen = [leaves[i] for i in active]

    def of(y: Array, time: Array, chosen: Sequence[Array]) -> Array:
        leaf_list = list(leaves)
        for i, x in zip(active, chosen, strict=True):
            leaf_list[i] = x
        return function(y, time, *leaf_list)

    def adjoint(state: PyTree, s: Array, chosen: Sequence[Array]) -> PyTree:
        y, p, _ = state
        slope, pull = vjp(lambda y, chosen: of(y, -s, chosen), y, chosen)
        back, grown = pull(p)
        return -slope, back, grown

    def to_the_one_before(carry: PyTree, step: PyTree) -> tuple[PyTree, Array]:
        p, grown = carry
        y, now, before, g = step
        moved = arithmetic.real(reducing.sum(of(y, now, chosen) * g))
        times = concatenate([-now[None], -before[None]], 0)
        ends = odeint(
            adjoint, (y, p + g, grown), times, chosen,
            rtol=how.rtol, atol=how.atol, mxstep=how.mxstep, hmax=how.hmax,
        )  # fmt: skip
        _, p, grown = tree_map(lambda x: x[1], ends)
        return (p, grown), convert(moved, now.type.dtype)

    start = zeros(ys[0].type.strong()), [zeros(x.type.strong()) for x in chosen]
    (p, grown), times = scan(to_the_one_before, start, (ys[1:], t[1:], t[:-1], ct[1:]), reverse=True)
    first = -arithmetic.real(reducing.sum(of(ys[0], t[0], chosen) * p))
    return (
        p + ct[0],
        concatenate([convert(first, t.type.dtype)[None], times], 0),
        tuple(place_at(active, grown, len(leaves))),
    )


_solved.defvjp(_integrate_forward, _integrate_adjoint)


def _check_arrays(name: str, tree: PyTree) -> tuple[list[Array], PyTreeDef]:
    leaves, structure = flatten(tree)
    return [as_operand(x, f"odeint: {name}") for x in leaves], structure


def odeint(
    func: Callable[..., PyTree],
    y0: PyTree,
    t: Operand | Sequence[float],
    *args: PyTree,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = math.inf,
    hmax: float = math.inf,
) -> PyTree:
    """Solves dy/dt = f(y, t) from a first value on.

    The step is chosen so that the error of each stays within the tolerances. Reverse mode integrates the adjoint
    equations backwards, with the memory of the results only; forward mode differentiates the steps. Both can be
    differentiated again, but forward mode not in reverse.

    Args:
        func: `func(y, t, *args)` returns dy/dt, like y. It may close over arrays.
        y0: the value at `t[0]`, a pytree of floating or complex arrays.
        t: `[n]` rising or falling floating times.
        *args: further arguments of `func`, pytrees of arrays.
        rtol, atol: the tolerances: an error of `atol + rtol * abs(y)` passes.
        mxstep: the largest number of steps from one time to the next.
        hmax: the largest size of a step.

    Returns:
        y at all times, with a first axis for them; not a number where `mxstep` steps do not suffice, or the solution
        has a pole.

    Raises:
        ShapeError: t is no vector with elements, or `func` returns other shapes than y's.
        DTypeError: t or a leaf of y0 has no floating dtype.
        TreeError: `func` returns another structure than y's.
        TransformError: `func` is no function.

    >>> y = odeint(lambda y, t, rate: -rate * y, np.float32(1.0), np.array([0.0, 1.0]), 2.0, rtol=1e-5)
    >>> y.round(3).tolist()[0], abs(float(y[1]) - math.exp(-2)) < 1e-5
    (1.0, True)
    """
    if not callable(func):
        raise TransformError(f"odeint: func must be a function, got {func!r}")
    leaves, tree = _check_arrays("y0", y0)
    for x in leaves:
        if x.type.kind not in "fc":
            raise DTypeError(f"odeint: y0 must be floating or complex, got {x.type!r}")
    times = array(t) if isinstance(t, Sequence) else as_operand(t)
    if times.type.kind != "f":
        raise DTypeError(f"odeint: t must have a floating dtype, got {times.type!r}")
    if times.type.ndim != 1 or 0 in times.type.shape:
        raise ShapeError(f"odeint: t must be a vector with elements, got {times.type!r}")
    for name, value in (("rtol", rtol), ("atol", atol), ("mxstep", mxstep), ("hmax", hmax)):
        if not value >= 0:
            raise ShapeError(f"odeint: {name} must not be negative, got {value!r}")
    vector, unravel = ravel_pytree(tree.unflatten([convert(x, x.type.dtype) for x in leaves]))
    real = dtypes.real_dtype(vector.type.dtype)
    times = convert(times, real)
    settings = OdeSettings(float(rtol), float(atol), float(mxstep), float(hmax))
    argument_arrays, given_tree = _check_arrays("args", args)

    def slope(y: Array, now: Array, *parts: Array) -> Array:
        derivative = func(unravel(y), now, *given_tree.unflatten(parts))
        slopes, structure = _check_arrays("the result of func", derivative)
        flat = ravel_pytree(derivative)[0]
        if structure != tree:
            # Other containers of as many numbers, such as a list for a vector.
            if flat.type.shape != vector.type.shape:
                raise TreeError(f"odeint: func must return the structure of y0, {tree}, got {structure}")
        else:
            for a, b in zip(slopes, leaves, strict=True):
                if a.type.shape != b.type.shape:
                    raise ShapeError(f"odeint: func must return the shapes of y0, {b.type!r}, got {a.type!r}")
        return convert(flat, vector.type.dtype) if slopes else y

    if not leaves or 0 in vector.type.shape:
        slope(vector, times[0], *argument_arrays)
        return tree_map(lambda x: as_operand(np.zeros((times.type.size, *as_operand(x).type.shape))), y0)
    strong = [convert(x, x.type.dtype) for x in argument_arrays]
    converted, constants = closure_convert(slope, vector, times[0], *strong)
    solution = _solved(converted, settings, vector, times, (*strong, *constants))
    return vmap(unravel)(solution)
