"""The forward Laplacian: values with their gradients and Laplacians, pushed forward in one pass.

Source: Li et al., "A computational framework for neural network-based variational Monte Carlo with forward
Laplacian", Nature Machine Intelligence 6 (2024). For y = f(x(p)) with n parameters p,

    dy = f'(x) dx        and        lap y = f'(x) lap x + sum over p of f''(x)[dx_p, dx_p],

so that each operation needs its own first and second derivative only, and nothing is differentiated twice.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar, cast, final

import attrs

import effx
import effx.numpy as enp
from effx import Array, tree
from effx.errors import DTypeError, TransformError, check_function
from effx.families.sort import Sort
from effx.handling import ArrayOperation, BoxHandler, Frame, Linear, Structural, Unary
from effx.ir.ops import elementwise as e
from effx.ir.ops import reduce as r
from effx.ir.ops.convert import Convert, StopGradient
from effx.ir.ops.custom import CustomRules
from effx.ir.ops.index import Scatter
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.random import Threefry2x32

__all__ = ["Flow", "Laplacians", "laplacian"]

Q = ParamSpec("Q")
R = TypeVar("R")

# Operations whose second derivative is zero almost everywhere.
STRAIGHT: tuple[type[object], ...] = (
    Linear,
    Structural,
    Convert,
    *(e.Select, e.Abs, e.Max, e.Min, e.Clamp, e.Rem, e.NextAfter),
    *(r.ReduceMax, r.ReduceMin, r.CumMax, r.CumMin),
)


@final
@attrs.frozen
class Flow:
    """A value with its derivatives by n parameters.

    Attributes:
        value: f[*shape].
        gradient: f[n, *shape]; None where it is zero.
        laplacian: f[*shape]; None where it is zero.
    """

    value: Array
    gradient: Array | None = None
    laplacian: Array | None = None


@final
@attrs.frozen
class Laplacians(BoxHandler[Flow]):
    """Runs a function on values with gradients and Laplacians."""

    name = "laplacians"

    def lift(self, x: Array) -> Flow:
        """A value that does not depend on the parameters."""
        return Flow(x)

    def primal(self, payload: Flow) -> Array:
        """The value, which chooses branches."""
        return payload.value

    def widen(self, a: Flow, b: Flow) -> Flow:
        """Makes a derivative zero only where both are zero."""
        gradient = a.gradient if a.gradient is not None else b.gradient
        return Flow(a.value, gradient, a.laplacian if a.laplacian is not None else b.laplacian)

    def conform(self, payload: Flow, like: Flow) -> Flow:
        """Writes zeros out."""
        gradient, lap = payload.gradient, payload.laplacian
        if gradient is None and like.gradient is not None:
            gradient = enp.zeros_like(like.gradient)
        if lap is None and like.laplacian is not None:
            lap = enp.zeros_like(payload.value)
        return Flow(payload.value, gradient, lap)

    def uses(self, rules: CustomRules) -> bool:
        """A user's tangent of a function replaces the function's own."""
        return rules.jvp is not None

    def apply_custom(
        self, frame: Frame, rules: CustomRules, constants: Sequence[Array], primals: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Pushes by the user's tangent."""
        xs = [self.payload(frame, x) for x in primals]
        places = [i for i, x in enumerate(xs) if x.gradient is not None]
        if rules.jvp is None or not places or any([x.frame is frame for x in constants]):
            return None
        rule = rules.jvp

        def both(values: Sequence[Array], directions: Sequence[Array]) -> tuple[list[Array], list[Array]]:
            moved: list[Array | None] = [None] * len(xs)
            for i, d in zip(places, directions, strict=True):
                moved[i] = d
            ys, dys = rule(constants, _merged(xs, places, values), moved)
            return ys, [enp.zeros_like(y) if d is None else d for y, d in zip(ys, dys, strict=True)]

        moving = [xs[i] for i in places]
        values = [x.value for x in moving]
        ys = both(values, [enp.zeros_like(v) for v in values])[0]
        wanted = [i for i, y in enumerate(ys) if y.type.kind == "f"]
        results = list(ys)

        def tangent(values: Sequence[Array], directions: Sequence[Array]) -> list[Array]:
            dys = both(values, directions)[1]
            return [dys[i] for i in wanted]

        for i, (gradient, lap) in zip(wanted, pushed(tangent, moving), strict=True):
            results[i] = self.box(frame, Flow(ys[i], gradient, lap), ys[i])
        return tuple(results)

    def unstack(self, payload: Flow) -> Flow:
        """Moves the scanned axis before the parameters' axis."""
        return _swapped(payload)

    def stack(self, payload: Flow) -> Flow:
        """Moves the parameters' axis before the scanned axis."""
        return _swapped(payload)


def _swapped(x: Flow) -> Flow:
    return Flow(x.value, None if x.gradient is None else enp.swapaxes(x.gradient, 0, 1), x.laplacian)


def _plus(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return a if b is None else b
    return a + b


# (values, directions) -> the tangents of the results along them
Tangent = Callable[[Sequence[Array], Sequence[Array]], list[Array]]


def pushed(tangent: Tangent, moving: Sequence[Flow], bends: bool = True) -> list[tuple[Array, Array | None]]:
    """Returns the gradient and the Laplacian of each result of a function with a given tangent."""
    values = [x.value for x in moving]
    gradients = [_known(x.gradient) for x in moving]
    laps: Sequence[Array | None] | None = None
    if any([x.laplacian is not None for x in moving]):
        laps = tangent(values, [_or_zeros(x.laplacian, x.value) for x in moving])
    if not bends:
        slopes = effx.vmap(lambda *directions: tangent(values, directions))(*gradients)
        return list(zip(slopes, laps or [None] * len(slopes), strict=True))

    def bend(*directions: Array) -> tuple[list[Array], list[Array]]:
        first, second = effx.jvp(lambda *x: tangent(x, directions), values, directions)
        return first, second

    slopes, curvatures = effx.vmap(bend)(*gradients)
    bent = [enp.sum(c, axis=0) for c in curvatures]
    return [(g, _plus(lap, c)) for g, lap, c in zip(slopes, laps or [None] * len(slopes), bent, strict=True)]


@Laplacians.rule(ArrayOperation)
def any_operation(op: ArrayOperation, *xs: Flow) -> Flow | Array:
    y = op(*[x.value for x in xs])
    places = [i for i, x in enumerate(xs) if x.gradient is not None]
    if y.type.kind != "f" or not places:
        return y

    def tangent(values: Sequence[Array], directions: Sequence[Array]) -> list[Array]:
        return [effx.jvp(lambda *moving: op(*_merged(xs, places, moving)), values, directions)[1]]

    straight = isinstance(op, STRAIGHT) or (type(op) is Scatter and op.combiner != "mul")
    ((gradient, lap),) = pushed(tangent, [xs[i] for i in places], not straight)
    return Flow(y, gradient, lap)


def _merged(xs: Sequence[Flow], places: Sequence[int], moving: Sequence[Array]) -> list[Array]:
    operands = [x.value for x in xs]
    for i, v in zip(places, moving, strict=True):
        operands[i] = v
    return operands


def _or_zeros(lap: Array | None, x: Array) -> Array:
    return enp.zeros_like(x) if lap is None else lap


def _known(x: Array | None) -> Array:
    assert x is not None
    return x


@Laplacians.rule(Unary, e.IntegerPow)
def unary(op: Unary | e.IntegerPow, x: Flow) -> Flow | Array:
    # Elementwise, f' and f'' are arrays of x's shape, and the sum over parameters is one of squares.
    if isinstance(op, STRAIGHT) or x.gradient is None or x.value.type.kind != "f":
        found: Flow | Array = any_operation(op, x)
        return found
    one = enp.ones_like(x.value)

    def along(v: Array) -> tuple[Array, Array]:
        y, dy = effx.jvp(op, (v,), (one,))
        return y, dy

    (y, first), (_, second) = effx.jvp(along, (x.value,), (one,))
    curvature = second * enp.sum(x.gradient * x.gradient, axis=0)
    return Flow(y, x.gradient * first, curvature if x.laplacian is None else curvature + first * x.laplacian)


@Laplacians.rule(e.Mul, DotGeneral)
def product(op: e.Mul | DotGeneral, x: Flow, y: Flow) -> Flow:
    # lap xy = x lap y + 2 sum dx dy + y lap x
    z = op(x.value, y.value)
    gradient = lap = None
    if x.gradient is not None:
        gradient = effx.vmap(op, in_axes=(0, None))(x.gradient, y.value)
        lap = None if x.laplacian is None else op(x.laplacian, y.value)
    if y.gradient is not None:
        gradient = _plus(gradient, effx.vmap(op, in_axes=(None, 0))(x.value, y.gradient))
        lap = _plus(lap, None if y.laplacian is None else op(x.value, y.laplacian))
    if x.gradient is not None and y.gradient is not None:
        lap = _plus(lap, 2.0 * _crossed(op, x.gradient, y.gradient))
    return Flow(z, gradient, lap)


def _crossed(op: e.Mul | DotGeneral, dx: Array, dy: Array) -> Array:
    if isinstance(op, e.Mul):
        return enp.sum(effx.vmap(op)(dx, dy), axis=0)

    # The sum over the parameters is one more contraction.
    def behind(axes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([i + 1 for i in axes])

    return attrs.evolve(
        op,
        lhs_contract=(0, *behind(op.lhs_contract)),
        rhs_contract=(0, *behind(op.rhs_contract)),
        lhs_batch=behind(op.lhs_batch),
        rhs_batch=behind(op.rhs_batch),
    )(dx, dy)


@Laplacians.rule(StopGradient)
def stopped(op: StopGradient, x: Flow) -> Array:
    return op(x.value)


@Laplacians.rule(Sort, Threefry2x32)
def several(op: Sort | Threefry2x32, *xs: Flow) -> tuple[Flow | Array, ...]:
    results: list[Flow | Array] = list(op(*[x.value for x in xs]))
    places = [i for i, x in enumerate(xs) if x.gradient is not None and x.value.type.kind == "f"]
    if not places:
        return tuple(results)

    def tangent(values: Sequence[Array], directions: Sequence[Array]) -> list[Array]:
        def function(*moving: Array) -> list[Array]:
            ys = op(*_merged(xs, places, moving))
            return [ys[i] for i in places]

        return list(effx.jvp(function, values, directions)[1])

    for i, (gradient, lap) in zip(places, pushed(tangent, [xs[i] for i in places], False), strict=True):
        results[i] = Flow(cast("Array", results[i]), gradient, lap)
    return tuple(results)


def laplacian(f: Callable[Q, R]) -> Callable[Q, tuple[R, R]]:
    """Returns a function for f's value and Laplacian: the sum of its second derivatives by each element.

    One forward pass carries the gradients by all n elements, which costs about n evaluations of f; the trace
    of a Hessian takes n derivatives of a gradient. For a batch, `vmap` it.

    Args:
        f: takes and returns pytrees of floating arrays.

    Returns:
        A function of the same arguments that gives `(value, laplacian)`, two pytrees of one structure.

    Raises:
        DTypeError: an argument is no floating array.
        TransformError: there are no arguments.

    >>> import effx.numpy as enp
    >>> value, lap = laplacian(lambda x: enp.sum(x**3))(enp.array([1.0, 2.0]))
    >>> print(value, lap)
    9.0 18.0
    """
    check_function("laplacian", f)

    @wraps(f)
    def value_and_laplacian(*args: Q.args, **kwargs: Q.kwargs) -> tuple[R, R]:
        leaves, structure = tree.flatten((args, kwargs))
        values = [_real(x) for x in leaves]
        count = sum([x.size for x in values])
        if not count:
            raise TransformError("laplacian: takes at least one element to differentiate by, got none")
        handler = Laplacians()
        with handler.installed() as frame:
            boxes = [
                handler.box(frame, Flow(x, d), x)
                for x, d in zip(values, _directions(values, count), strict=True)
            ]
            moved, named = structure.unflatten(boxes)
            results, shape = tree.flatten(f(*moved, **named))
            found = [handler.payload(frame, enp.asarray(y)) for y in results]
        laps = [enp.zeros_like(y.value) if y.laplacian is None else y.laplacian for y in found]
        return shape.unflatten([y.value for y in found]), shape.unflatten(laps)

    return value_and_laplacian


def _real(x: object) -> Array:
    value = enp.asarray(x)
    if value.type.kind != "f":
        raise DTypeError(f"laplacian: arguments must be floating arrays, got {value.type!r}")
    return value


def _directions(values: Sequence[Array], count: int) -> list[Array]:
    """Returns the derivative of each array by all elements of all of them: f[n, *shape]."""
    start, found = 0, []
    for x in values:
        unit = enp.eye(count, x.size, -start, dtype=x.dtype)
        found.append(unit.reshape((count, *x.shape)))
        start += x.size
    return found
