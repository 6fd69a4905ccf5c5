"""Stacks of transformations that leave a function's values as they are.

Each layer puts a handler, a call, a branch or a loop around a function of arrays. In any order, the stacked
function returns the function's results.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar, final

import attrs
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import lax, tree
from effx.array import Array
from effx.effects import Frame, Handler, Operation, Value, forward, handle
from effx.errors import TransformError
from effx.handlers.authoring.boxing import BoxHandler
from effx.handlers.staging.stage import run_program
from effx.laws.comparing import directions
from effx.tree.registry import PyTree

R = TypeVar("R")
Function = Callable[..., PyTree]


@final
class ForwardingHandler(Handler):
    """Sees every operation and passes it on."""

    intercepts = True

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Forwards."""
        return forward(op, operands)


@final
@attrs.frozen
class IdleHandler(BoxHandler[Array]):
    """A boxing handler without boxes."""

    def lift(self, x: Array) -> Array:
        """The value itself."""
        return x


def _run_under(handler: Handler) -> Callable[[Function], Function]:
    def layer(f: Function) -> Function:
        def g(*xs: Array) -> PyTree:
            with handle(handler):
                return f(*xs)

        return g

    return layer


def _first(tree_: PyTree) -> PyTree:
    return tree.map(lambda y: y[0], tree_)


def _through_staging(f: Function) -> Function:
    def g(*xs: Array) -> PyTree:
        program, shape = effx.make_jaxpr(f, return_shape=True)(*xs)
        results = run_program(program, [*program.constants, *xs])
        return tree.structure(shape).unflatten(results)

    return g


def _through_while_loop(f: Function) -> Function:
    def g(*xs: Array) -> PyTree:
        start = tree.map(lambda s: enp.zeros(s.shape, s.dtype), effx.eval_shape(f, *xs))
        return lax.while_loop(
            lambda s: s[0] < 1, lambda s: (s[0] + 1, f(*xs)), (enp.int32(0), start), max_steps=1
        )[1]

    return g


def _through_named_function(f: Function) -> Function:
    def g(*xs: Array) -> PyTree:
        with effx.named_scope("law"):
            return f(*xs)

    return g


LAYERS: dict[str, Callable[[Function], Function]] = {
    "jit": effx.jit,
    "idle": _run_under(IdleHandler()),
    "jvp": lambda f: lambda *xs: effx.jvp(lambda *ys: f(*ys), xs, directions(xs))[0],
    "vmap": lambda f: (
        lambda *xs: _first(effx.vmap(lambda *ys: f(*ys))(*[enp.stack([x, x * 0.5]) for x in xs]))
    ),
    "vjp": lambda f: lambda *xs: effx.vjp(lambda *ys: f(*ys), *xs)[0],
    "forwarding": _run_under(ForwardingHandler()),
    "linearize": lambda f: lambda *xs: effx.linearize(lambda *ys: f(*ys), *xs)[0],
    "checkpoint": lambda f: effx.checkpoint(lambda *xs: f(*xs)),
    "staged": _through_staging,
    "cond": lambda f: lambda *xs: lax.cond(enp.asarray(True), lambda *ys: f(*ys), lambda *ys: f(*ys), *xs),
    "scan": lambda f: (
        lambda *xs: _first(lax.scan(lambda c, row: (c, f(*row)), None, tuple([x[None] for x in xs]))[1])
    ),
    "while": _through_while_loop,
    "scope": _through_named_function,
}
"""The layers that wrap a function, by name."""


@final
@attrs.frozen
class Stack:
    """Layers around a function, the innermost first.

    Attributes:
        layers: names of `LAYERS`.

    >>> import effx.numpy as enp
    >>> Stack(("jvp", "jit"))(lambda x: enp.sin(x) * 0.0 + x)(2.0)
    Array(2., dtype=float32, weak_type=True)
    """

    layers: tuple[str, ...]

    def __attrs_post_init__(self) -> None:
        for name in self.layers:
            if name not in LAYERS:
                raise TransformError(f"Stack: layers are {', '.join(LAYERS)}; got {name!r}")

    def __call__(self, f: Function) -> Function:
        """Returns the function with the layers around it."""
        for name in self.layers:
            f = LAYERS[name](f)
        return f


def handlers(
    layers: Sequence[str] = tuple(LAYERS), most: int = 3, least: int = 1
) -> st.SearchStrategy[Stack]:
    """Draws stacks of handlers: compositions of transformations that change no value.

    Args:
        layers: which of `LAYERS` may occur.
        most: the largest number of layers.
        least: the smallest.

    >>> from hypothesis import find
    >>> find(handlers(), lambda stack: len(stack.layers) == 2)
    Stack(layers=('jit', 'jit'))
    """
    return st.lists(st.sampled_from(list(layers)), min_size=least, max_size=most).map(
        lambda names: Stack(tuple(names))
    )
