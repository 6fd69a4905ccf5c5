"""Random typed programs: functions of one to three arrays, built step by step so that they shrink.

A program is a list of steps. Each step performs one operation on values that are there already and
adds its result; the last value is the program's result. All operations are smooth and total on
bounded values, and every step keeps values bounded.

Never: draws anything but through hypothesis, so that failing programs shrink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
from hypothesis import strategies as st

import effx
from effx.array import Array
from effx.effects import Operation
from effx.ir.ops import compare as c
from effx.ir.ops import elementwise as e
from effx.ir.ops import reduce as r
from effx.ir.ops import shape as s
from effx.ir.ops.index import Gather
from effx.ir.ops.linalg import DotGeneral
from effx.ir.types import Shape

Data = np.ndarray[Any, Any]
# A step's function gets the values that it names.
Apply = Callable[..., Array]


@attrs.frozen
class Step:
    """One operation on earlier values.

    Attributes:
        text: how a failing example prints.
        apply: performs it.
        operands: places of the values that it takes.
    """

    text: str
    apply: Apply = attrs.field(repr=False)
    operands: tuple[int, ...]


@attrs.frozen
class Function:
    """A random function of arrays with the point where it is evaluated.

    Attributes:
        shapes: of the arguments.
        steps: in order; a step's value stands behind the arguments and the earlier steps' values.
        results: places of the values that are returned.
    """

    shapes: tuple[Shape, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    seed: int

    def __call__(self, *arguments: Array) -> tuple[Array, ...]:
        values: list[Array] = list(arguments)
        for step in self.steps:
            values.append(step.apply(*[values[i] for i in step.operands]))
        return tuple([values[i] for i in self.results])

    def points(self, count: int | None = None) -> list[Data]:
        """Arguments, with an axis of `count` members in front if given."""
        rng = np.random.default_rng(self.seed)
        front = () if count is None else (count,)
        return [rng.uniform(-1, 1, (*front, *shape)) for shape in self.shapes]

    def __str__(self) -> str:
        names = [f"x{i}" for i in range(len(self.shapes) + len(self.steps))]
        lines = [f"{names[i]}: {list(shape)}" for i, shape in enumerate(self.shapes)]
        lines += [
            f"{names[len(self.shapes) + n]} = {step.text} {' '.join(names[i] for i in step.operands)}"
            for n, step in enumerate(self.steps)
        ]
        return "\n".join([*lines, f"return {', '.join(names[i] for i in self.results)}"])

    __repr__ = __str__


def _bounded_exp(x: Array) -> Array:
    return e.Exp()(e.Tanh()(x))


def _jitted_wave(x: Array) -> Array:
    return effx.jit(lambda y: e.Sin()(y) * 0.5 + e.Logistic()(y))(x)


def _jitted_twice(x: Array) -> Array:
    inner = effx.jit(e.Cos())
    return effx.jit(lambda y: inner(y) * inner(y * 0.5))(x)


UNARY: dict[str, Apply] = {
    "sin": e.Sin(),
    "cos": e.Cos(),
    "tanh": e.Tanh(),
    "neg": e.Neg(),
    "exp_tanh": _bounded_exp,
    "logistic": e.Logistic(),
    "scale": lambda x: x * 0.7,
    "jitted_wave": _jitted_wave,
    "jitted_twice": _jitted_twice,
}


def _mul(x: Array, y: Array) -> Array:
    return e.Mul()(e.Tanh()(x), e.Tanh()(y))


def _select(x: Array, y: Array) -> Array:
    # x and y agree where the predicate flips, so that the function stays smooth enough.
    shift = e.Sub()(x, y)
    return e.Select()(c.Gt()(shift, y * 0.0), e.Sin()(shift) * y, shift * y)


BINARY: dict[str, Apply] = {
    "add": lambda x, y: e.Add()(x, y) * 0.5,
    "sub": lambda x, y: e.Sub()(x, y) * 0.5,
    "mul": _mul,
    "select": _select,
    "jitted_mul": lambda x, y: effx.jit(_mul)(x, y),
}


def _unary_shapes(shape: Shape) -> list[tuple[str, Apply, Shape]]:
    """The operations that move the elements of one array of this shape: (name, function, shape)."""
    found: list[tuple[str, Apply, Shape]] = []

    def add(name: str, op: Operation[Array], result: Shape) -> None:
        found.append((name, op, result))

    size = int(np.prod(shape))
    ndim = len(shape)
    add("flatten", s.Reshape((size,)), (size,))
    if ndim == 1 and shape[0] % 2 == 0:
        add("fold", s.Reshape((2, shape[0] // 2)), (2, shape[0] // 2))
    if ndim == 2:
        add("transpose", s.Transpose((1, 0)), shape[::-1])
    if ndim < 2:
        add("broadcast", s.BroadcastInDim((2, *shape), tuple(range(1, ndim + 1))), (2, *shape))
    for axis in range(ndim):
        n = shape[axis]
        rest = shape[:axis] + shape[axis + 1 :]
        found.append((f"mean{axis}", lambda x, axis=axis, n=n: r.ReduceSum((axis,))(x) * (1 / n), rest))
        found.append(
            (f"cumsum{axis}", lambda x, axis=axis, n=n: r.CumSum(axis, axis == 1)(x) * (1 / n), shape)
        )
        add(f"reverse{axis}", s.Reverse((axis,)), shape)
        if n > 1:
            start = tuple([1 if i == axis else 0 for i in range(ndim)])
            add(
                f"slice{axis}", s.Slice(start, shape, (1,) * ndim), (*shape[:axis], n - 1, *shape[axis + 1 :])
            )
        picked = (*shape[:axis], 3, *shape[axis + 1 :])
        found.append((f"gather{axis}", lambda x, axis=axis: _pick(x, axis), picked))
    return found


def _pick(x: Array, axis: int) -> Array:
    # The last, the first, and beyond the end, which is clamped.
    n, ndim = x.shape[axis], len(x.shape)
    starts = effx.numpy.asarray(np.asarray([[n - 1], [0], [n + 1]], np.int32))
    sizes = tuple([1 if i == axis else k for i, k in enumerate(x.shape)])
    return Gather(tuple([i for i in range(ndim) if i != axis]), (axis,), (axis,), sizes)(x, starts)


@st.composite
def steps(draw: st.DrawFn, shapes: Sequence[Shape]) -> tuple[Step, Shape]:
    """Draws one step on values of these shapes, and the shape of its result."""
    place = draw(st.integers(0, len(shapes) - 1))
    shape = shapes[place]
    partners = [i for i, other in enumerate(shapes) if other == shape or other == ()]
    joined = [i for i, other in enumerate(shapes) if len(other) == len(shape) >= 1 and other[1:] == shape[1:]]
    multiplied = [i for i, other in enumerate(shapes) if shape and other and shape[-1] == other[0]]
    kinds = [
        "unary",
        "binary",
        "shape",
        *(["concatenate"] if joined else []),
        *(["dot"] if multiplied else []),
    ]
    match draw(st.sampled_from(kinds)):
        case "unary":
            name = draw(st.sampled_from(sorted(UNARY)))
            return Step(name, UNARY[name], (place,)), shape
        case "binary":
            other = draw(st.sampled_from(partners))
            names = ["add", "mul", "sub"] if shapes[other] != shape else sorted(BINARY)
            name = draw(st.sampled_from(names))
            return Step(name, BINARY[name], (place, other)), shape
        case "concatenate":
            other = draw(st.sampled_from(joined))
            if shape[0] + shapes[other][0] > 8:
                return Step("sin", UNARY["sin"], (place,)), shape
            size = shape[0] + shapes[other][0]
            return Step("concatenate", s.Concatenate(0), (place, other)), (size, *shape[1:])
        case "dot":
            other = draw(st.sampled_from(multiplied))
            op = DotGeneral((len(shape) - 1,), (0,))
            n = shape[-1]
            return (
                Step("dot", lambda x, y: op(x, y) * (1 / n), (place, other)),
                (*shape[:-1], *shapes[other][1:]),
            )
        case _:
            name, apply, result = draw(st.sampled_from(_unary_shapes(shape)))
            if len(result) > 2 or int(np.prod(result)) > 16:
                return Step("sin", UNARY["sin"], (place,)), shape
            return Step(name, apply, (place,)), result


SHAPES: tuple[Shape, ...] = ((), (3,), (2, 3), (4,), (1,), (3, 2))


@st.composite
def functions(draw: st.DrawFn, most_steps: int = 6) -> Function:
    """Draws a function with one or two results that depend on its steps."""
    arguments = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    shapes = list(arguments)
    found: list[Step] = []
    for _ in range(draw(st.integers(1, most_steps))):
        step, shape = draw(steps(shapes))
        found.append(step)
        shapes.append(shape)
    last = len(shapes) - 1
    results = (last,) if draw(st.booleans()) else (last, draw(st.integers(0, last)))
    return Function(tuple(arguments), tuple(found), results, draw(st.integers(0, 99)))
