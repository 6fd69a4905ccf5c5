"""`Site`: one performed operation, with all that a rule may read about it."""

from typing import Any, Generic, cast, final

import numpy as np
from typing_extensions import TypeVar

from effx.array import Array
from effx.effects import (
    Frame,
    Handler,
    Operation,
    describe_stack,
    full_scope,
    scope_transformations,
    user_scope,
)
from effx.errors import Source, TransformError, current_source, source_of
from effx.handlers.recursion.payloads import PayloadHandler, apply_typing_rule
from effx.handlers.staging.stage import read_literal
from effx.ir.types import ArrayType
from effx.tree.registry import PyTree

H = TypeVar("H", bound=Handler, default=Handler)
S = TypeVar("S", default=Any)
R_co = TypeVar("R_co", covariant=True, default=Array)


@final
class Site(Generic[H, S, R_co]):
    """One operation that a handler handles: its operands, its location, and access to the outer handlers.

    Rules get one as their first argument. It is valid until the rule returns. In annotations it is a
    `Site[MyHandler, State]`, and `Site[MyHandler, State, tuple[Array, ...]]` for operations with several results.

    Attributes:
        frame: the handler's frame.
        op: the operation.
        operands: the operands as passed: boxes of the handler, or values of outer handlers.

    >>> import attrs, effx.numpy as enp
    >>> from effx.handling import InterceptHandler
    >>> from effx.handling.ops import Exp
    >>> @attrs.frozen
    ... class Scale(InterceptHandler[None]):
    ...     factor: float
    >>> @Scale.rule(Exp)
    ... def _(site, op, x): return site.handler.factor * site.forward()
    >>> print(Scale(10.0).run(enp.exp, 0.0))
    10.0
    """

    __slots__ = ("frame", "op", "operands")

    def __init__(self, frame: Frame, op: Operation[Any], operands: tuple[Array, ...]) -> None:
        self.frame = frame
        self.op = op
        self.operands = operands

    @property
    def handler(self) -> H:
        """The handler with its parameters."""
        return cast("H", self.frame.handler)

    @property
    def state(self) -> S:
        """The handler's state. Assign a new one; states are values.

        Raises:
            TransformError: the handler has no state, since it defines no `initial`.
        """
        if self.frame.state is None:
            self._check_state()
        return cast("S", self.frame.state)

    @state.setter
    def state(self, value: S) -> None:
        self._check_state()
        self.frame.state = value

    def _check_state(self) -> None:
        handler = self.frame.handler
        if isinstance(handler, PayloadHandler) and not handler.threads_state:
            raise TransformError(
                f"{handler.name}: a rule reads or sets site.state, but the handler has no state; define initial(), which "
                "returns the first one"
            )

    @property
    def memory(self) -> dict[Any, Any]:
        """A dict for rules' notes on the current program: empty at its start, dropped at its end."""
        return self.frame.memory

    @property
    def types(self) -> tuple[ArrayType, ...]:
        """The operands' types, as the user's function sees them."""
        return tuple([x.type for x in self.operands])

    @property
    def result_types(self) -> tuple[ArrayType, ...]:
        """The results' types, by the operation's typing rule."""
        types = apply_typing_rule(self.op, self.operands)
        return types if self.op.multiple else (types,)

    @property
    def constants(self) -> tuple[np.ndarray[Any, Any] | None, ...]:
        """For each operand its value as a NumPy array if it is known at trace time, else None. Known are
        literals, NumPy arrays, and, outside jit, arrays that no handler has boxed.
        """
        numbers = [read_literal(x) for x in self.operands]
        known = [x if number is None else number for x, number in zip(self.operands, numbers, strict=True)]
        return tuple([x.host("site.constants") if x.frame is None else None for x in known])

    @property
    def scope(self) -> str:
        """The names of the surrounding `named_scope`s, outermost first, joined by `/`."""
        return user_scope(full_scope())

    @property
    def transformations(self) -> tuple[str, ...]:
        """The derivatives and batches around the operation, in and outside of the handler, outermost first: of "jvp",
        "transpose" and "vmap". An operation of a backward pass has "transpose", one of the forward pass of a gradient "jvp"
        alone.
        """
        return scope_transformations(full_scope())

    @property
    def source(self) -> Source:
        """The user's source location as (code object, instruction offset)."""
        return current_source()

    @property
    def line(self) -> str:
        """The user's line, such as `train.py:12 in loss`."""
        return source_of(current_source())

    @property
    def stack(self) -> str:
        """The handlers further out, outermost first, such as `jit > vmap(axis_size=3)`."""
        return describe_stack(self.frame.outer)

    def is_boxed(self, operand: int) -> bool:
        """Returns whether an operand is a box of this handler."""
        return self.operands[operand].frame is self.frame

    def forward(self, *operands: Array) -> R_co:
        """Performs the operation outward.

        Args:
            operands: the operands; by default those of the site.

        Returns:
            An array, or a tuple of arrays for operations with several results.
        """
        return cast("R_co", self.op(*(operands or self.operands)))

    def collect(self, name: str, value: PyTree) -> None:
        """Collects a value under a name; scan stacks the values of its iterations.

        Args:
            name: the value's name; used once.
            value: a pytree of arrays, without boxes of the handler.

        Raises:
            TransformError: the name is taken or no string, or the handler does not collect.
        """
        handler = self.frame.handler
        if not isinstance(handler, PayloadHandler) or not handler.collects:
            raise TransformError(
                f"{handler.name}: site.collect({name!r}, ...) needs a handler with collects = True"
            )
        if not isinstance(name, str):
            raise TransformError(f"{handler.name}: values are collected under names, got {name!r}")
        handler.collect(self.frame, name, value)
