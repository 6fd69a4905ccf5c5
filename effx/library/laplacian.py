"""The forward Laplacian: values with their gradients and Laplacians, pushed forward in one pass.

Source: Li et al., "A computational framework for neural network-based variational Monte Carlo with forward
Laplacian", Nature Machine Intelligence 6 (2024). For y = f(x(p)) with n parameters p,

    dy = f'(x) dx        and        lap y = f'(x) lap x + sum over p of f''(x)[dx_p, dx_p],

so that each operation needs its own first and second derivative only, and nothing is differentiated twice.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast, final

import attrs

import effx
import effx.numpy as enp
from effx import Array, tree
from effx.errors import DTypeError, TransformError, check_function
from effx.handling import ArrayOperation, BoxHandler, Frame, Linear, Structural, Unary, ops
from effx.lazy import list_names, old_names

__all__ = ["LaplacianValue", "Laplacians", "laplacian"]
__dir__ = list_names(__all__)
if not TYPE_CHECKING:
    __getattr__ = old_names(__name__, {"Flow": "LaplacianValue"})

Q = ParamSpec("Q")
R = TypeVar("R")

# Operations whose second derivative is zero almost everywhere.
STRAIGHT: tuple[type[object], ...] = (
    Linear,
    Structural,
    ops.Convert,
    *(ops.Select, ops.Abs, ops.Max, ops.Min, ops.Clamp, ops.Rem, ops.NextAfter),
    *(ops.ReduceMax, ops.ReduceMin, ops.CumMax, ops.CumMin),
)


@final
@attrs.frozen
class LaplacianValue:
    """A value with its derivatives by n parameters.

    Attributes:
        value: f[*shape].
        gradient: f[n, *shape]; None where it is zero.
        laplacian: f[*shape]; None where it is zero.

    >>> import effx.numpy as enp
    >>> from effx.library.laplacian import LaplacianValue
    >>> x = LaplacianValue(enp.array(3.0), enp.array([1.0, 0.0]))        # the first of two parameters
    >>> print(x.value, x.gradient, x.laplacian)
    3.0 [1. 0.] None
    """

    value: Array
    gradient: Array | None = None
    laplacian: Array | None = None


@final
@attrs.frozen
class Laplacians(BoxHandler[LaplacianValue]):
    """Runs a function on values with gradients and Laplacians.

    >>> import effx.numpy as enp
    >>> from effx.library.laplacian import Laplacians, LaplacianValue
    >>> x, y = LaplacianValue(enp.array(3.0), enp.array([1.0, 0.0])), LaplacianValue(enp.array(2.0), enp.array([0.0, 1.0]))
    >>> result = Laplacians().run(lambda x, y: x * x * y, x, y)
    >>> print(result.value, result.gradient, result.laplacian)
    18.0 [12.  9.] 4.0
    """

    name = "laplacians"

    def lift(self, x: Array) -> LaplacianValue:
        """A value that does not depend on the parameters."""
        return LaplacianValue(x)

    def primal(self, payload: LaplacianValue) -> Array:
        """The value, which chooses branches."""
        return payload.value

    def widen(self, a: LaplacianValue, b: LaplacianValue) -> LaplacianValue:
        """Makes a derivative zero only where both are zero."""
        gradient = a.gradient if a.gradient is not None else b.gradient
        return LaplacianValue(a.value, gradient, a.laplacian if a.laplacian is not None else b.laplacian)

    def conform(self, payload: LaplacianValue, like: LaplacianValue) -> LaplacianValue:
        """Writes zeros out."""
        gradient, lap = payload.gradient, payload.laplacian
        if gradient is None and like.gradient is not None:
            gradient = enp.zeros_like(like.gradient)
        if lap is None and like.laplacian is not None:
            lap = enp.zeros_like(payload.value)
        return LaplacianValue(payload.value, gradient, lap)

    def uses(self, rules: ops.CustomRules) -> bool:
        """A user's tangent of a function replaces the function's own."""
        return rules.jvp is not None

    def apply_custom(
        self, frame: Frame, rules: ops.CustomRules, constants: Sequence[Array], primals: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Pushes by the user's tangent."""
        xs = [self.payload(frame, x) for x in primals]
        active_operands = [i for i, x in enumerate(xs) if x.gradient is not None]
        if rules.jvp is None or not active_operands or any([x.frame is frame for x in constants]):
            return None
        rule = rules.jvp

        def both(values: Sequence[Array], directions: Sequence[Array]) -> tuple[list[Array], list[Array]]:
            moved: list[Array | None] = [None] * len(xs)
            for i, d in zip(active_operands, directions, strict=True):
                moved[i] = d
            ys, dys = rule(constants, _merge_gradients(xs, active_operands, values), moved)
            return ys, [enp.zeros_like(y) if d is None else d for y, d in zip(ys, dys, strict=True)]

        moving = [xs[i] for i in active_operands]
        values = [x.value for x in moving]
        ys = both(values, [enp.zeros_like(v) for v in values])[0]
        differentiable_results = [i for i, y in enumerate(ys) if y.type.kind == "f"]
        results = list(ys)

        def tangent(values: Sequence[Array], directions: Sequence[Array]) -> list[Array]:
            dys = both(values, directions)[1]
            return [dys[i] for i in differentiable_results]

        for i, (gradient, lap) in zip(differentiable_results, push_derivatives(tangent, moving), strict=True):
            results[i] = self.box(frame, LaplacianValue(ys[i], gradient, lap), ys[i])
        return tuple(results)

    def unstack(self, payload: LaplacianValue) -> LaplacianValue:
        """Moves the scanned axis before the parameters' axis."""
        return _swap_axes(payload)

    def stack(self, payload: LaplacianValue) -> LaplacianValue:
        """Moves the parameters' axis before the scanned axis."""
        return _swap_axes(payload)


def _swap_axes(x: LaplacianValue) -> LaplacianValue:
    return LaplacianValue(
        x.value, None if x.gradient is None else enp.swapaxes(x.gradient, 0, 1), x.laplacian
    )


def _add_optional(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return a if b is None else b
    return a + b


# (values, directions) -> the tangents of the results along them
Tangent = Callable[[Sequence[Array], Sequence[Array]], list[Array]]


def push_derivatives(
    tangent: Tangent, moving: Sequence[LaplacianValue], has_curvature: bool = True
) -> list[tuple[Array, Array | None]]:
    """Returns the gradient and the Laplacian of each result of a function with a given tangent."""
    values = [x.value for x in moving]
    gradients = [_drop_derivatives(x.gradient) for x in moving]
    laps: Sequence[Array | None] | None = None
    if any([x.laplacian is not None for x in moving]):
        laps = tangent(values, [_or_zeros(x.laplacian, x.value) for x in moving])
    if not has_curvature:
        slopes = effx.vmap(lambda *directions: tangent(values, directions))(*gradients)
        return list(zip(slopes, laps or [None] * len(slopes), strict=True))

    def bend(*directions: Array) -> tuple[list[Array], list[Array]]:
        first, second = effx.jvp(lambda *x: tangent(x, directions), values, directions)
        return first, second

    slopes, curvatures = effx.vmap(bend)(*gradients)
    bent = [enp.sum(c, axis=0) for c in curvatures]
    return [
        (g, _add_optional(lap, c))
        for g, lap, c in zip(slopes, laps or [None] * len(slopes), bent, strict=True)
    ]


@Laplacians.rule(ArrayOperation, ops.Collective)
def any_operation(op: ArrayOperation, *xs: LaplacianValue) -> LaplacianValue | Array:
    y = op(*[x.value for x in xs])
    active_operands = [i for i, x in enumerate(xs) if x.gradient is not None]
    if y.type.kind != "f" or not active_operands:
        return y

    def tangent(values: Sequence[Array], directions: Sequence[Array]) -> list[Array]:
        return [
            effx.jvp(lambda *moving: op(*_merge_gradients(xs, active_operands, moving)), values, directions)[
                1
            ]
        ]

    straight = isinstance(op, STRAIGHT) or (type(op) is ops.Scatter and op.combiner != "mul")
    ((gradient, lap),) = push_derivatives(tangent, [xs[i] for i in active_operands], not straight)
    return LaplacianValue(y, gradient, lap)


def _merge_gradients(
    xs: Sequence[LaplacianValue], active_operands: Sequence[int], moving: Sequence[Array]
) -> list[Array]:
    operands = [x.value for x in xs]
    for i, v in zip(active_operands, moving, strict=True):
        operands[i] = v
    return operands


def _or_zeros(lap: Array | None, x: Array) -> Array:
    return enp.zeros_like(x) if lap is None else lap


def _drop_derivatives(x: Array | None) -> Array:
    assert x is not None
    return x


@Laplacians.rule(Unary, ops.IntegerPow)
def unary(op: Unary | ops.IntegerPow, x: LaplacianValue) -> LaplacianValue | Array:
    # Elementwise, f' and f'' are arrays of x's shape, and the sum over parameters is one of squares.
    if isinstance(op, STRAIGHT) or x.gradient is None or x.value.type.kind != "f":
        result: LaplacianValue | Array = any_operation(op, x)
        return result
    one = enp.ones_like(x.value)

    def along(v: Array) -> tuple[Array, Array]:
        y, dy = effx.jvp(op, (v,), (one,))
        return y, dy

    (y, first), (_, second) = effx.jvp(along, (x.value,), (one,))
    curvature = second * enp.sum(x.gradient * x.gradient, axis=0)
    return LaplacianValue(
        y, x.gradient * first, curvature if x.laplacian is None else curvature + first * x.laplacian
    )


@Laplacians.rule(ops.Mul, ops.DotGeneral)
def product(op: ops.Mul | ops.DotGeneral, x: LaplacianValue, y: LaplacianValue) -> LaplacianValue:
    # lap xy = x lap y + 2 sum dx dy + y lap x
    z = op(x.value, y.value)
    gradient = lap = None
    if x.gradient is not None:
        gradient = effx.vmap(op, in_axes=(0, None))(x.gradient, y.value)
        lap = None if x.laplacian is None else op(x.laplacian, y.value)
    if y.gradient is not None:
        gradient = _add_optional(gradient, effx.vmap(op, in_axes=(None, 0))(x.value, y.gradient))
        lap = _add_optional(lap, None if y.laplacian is None else op(x.value, y.laplacian))
    if x.gradient is not None and y.gradient is not None:
        lap = _add_optional(lap, 2.0 * _cross_term(op, x.gradient, y.gradient))
    return LaplacianValue(z, gradient, lap)


def _cross_term(op: ops.Mul | ops.DotGeneral, dx: Array, dy: Array) -> Array:
    if isinstance(op, ops.Mul):
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


@Laplacians.rule(ops.StopGradient)
def stop_derivatives(op: ops.StopGradient, x: LaplacianValue) -> Array:
    return op(x.value)


@Laplacians.rule(ops.Sort, ops.Threefry2x32)
def pass_several_results(
    op: ops.Sort | ops.Threefry2x32, *xs: LaplacianValue
) -> tuple[LaplacianValue | Array, ...]:
    results: list[LaplacianValue | Array] = list(op(*[x.value for x in xs]))
    active_operands = [i for i, x in enumerate(xs) if x.gradient is not None and x.value.type.kind == "f"]
    if not active_operands:
        return tuple(results)

    def tangent(values: Sequence[Array], directions: Sequence[Array]) -> list[Array]:
        def function(*moving: Array) -> list[Array]:
            ys = op(*_merge_gradients(xs, active_operands, moving))
            return [ys[i] for i in active_operands]

        return list(effx.jvp(function, values, directions)[1])

    for i, (gradient, lap) in zip(
        active_operands, push_derivatives(tangent, [xs[i] for i in active_operands], False), strict=True
    ):
        results[i] = LaplacianValue(cast("Array", results[i]), gradient, lap)
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
    check_function(f)

    @wraps(f)
    def value_and_laplacian(*args: Q.args, **kwargs: Q.kwargs) -> tuple[R, R]:
        leaves, structure = tree.flatten((args, kwargs))
        values = [_check_real(x) for x in leaves]
        count = sum([x.size for x in values])
        if not count:
            raise TransformError("laplacian: takes at least one element to differentiate by, got none")
        handler = Laplacians()
        with handler.installed() as frame:
            boxes = [
                handler.box(frame, LaplacianValue(x, d), x)
                for x, d in zip(values, _directions(values, count), strict=True)
            ]
            moved, named = structure.unflatten(boxes)
            results, shape = tree.flatten(f(*moved, **named))
            items = [handler.payload(frame, enp.asarray(y)) for y in results]
        laps = [enp.zeros_like(y.value) if y.laplacian is None else y.laplacian for y in items]
        return shape.unflatten([y.value for y in items]), shape.unflatten(laps)

    return value_and_laplacian


def _check_real(x: object) -> Array:
    value = enp.asarray(x)
    if value.type.kind != "f":
        raise DTypeError(f"laplacian: arguments must be floating arrays, got {value.type!r}")
    return value


def _directions(values: Sequence[Array], count: int) -> list[Array]:
    """Returns the derivative of each array by all elements of all of them: f[n, *shape]."""
    start, directions = 0, []
    for x in values:
        unit = enp.eye(count, x.size, -start, dtype=x.dtype)
        directions.append(unit.reshape((count, *x.shape)))
        start += x.size
    return directions
