"""Masks hide operations from the innermost handler of a class. A mask is a handler that turns each operation
into a masked one. On its way outward other handlers treat a masked operation as the operation itself: vmap
batches it, jvp differentiates it, and the operations that these perform for it are masked again. Only the
masked handler is skipped. Staged, the mask is part of the program, so it holds wherever the program is
interpreted.

A masked effect goes to the next handler that handles it.
"""

from collections.abc import Sequence
from typing import Any, TypeVar, cast, final

import attrs

from effx.array import Array
from effx.effects import Effect, Frame, Handler, Operation, Value, current_frame, handle, outermost, resumed
from effx.errors import TransformError
from effx.handlers.recursion import PayloadHandler, recur
from effx.handlers.stage import Stage
from effx.handlers.transpose.handler import Cotangent, Operand
from effx.handlers.transpose.handler import rules as transposes
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.types import ArrayType

__all__ = ["Mask", "MaskedArray", "MaskedTuple", "mask"]

R = TypeVar("R")
Kinds = tuple[type[Handler], ...]


@final
@attrs.frozen
class Mask(PayloadHandler):
    """Masks operations.

    Attributes:
        kinds: the handlers' classes, one for each handler that is skipped.
    """

    kinds: Kinds
    intercepts = True

    def describe(self) -> str:
        """Names the masked classes."""
        return f"mask({', '.join([k.name for k in self.kinds])})"

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Performs the masked operation; programs are masked operation by operation."""
        arrays = cast("tuple[Array, ...]", operands)
        inside = recur(frame, op, arrays)
        if inside is not None:
            return cast("R", inside)
        return cast("R", _masked(op, self.kinds)(*arrays))


@final
@attrs.frozen
class MaskedArray(ArrayOperation):
    """An operation with one result that some handlers do not see.

    Attributes:
        op: the operation.
        kinds: the handlers' classes.
    """

    op: ArrayOperation
    kinds: Kinds

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """The operation's."""
        return self.op.effects

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operation's typing rule."""
        return self.op.infer(*types)

    def __call__(self, *operands: Value) -> Array:
        """Performs the operation under the handlers that see it."""
        result: Array = _perform(self.op, self.kinds, operands)
        return result

    def decompose(self, *operands: Value) -> Array:
        """The operation."""
        return self.op(*operands)


@final
@attrs.frozen
class MaskedTuple(TupleOperation):
    """An operation with several results that some handlers do not see.

    Attributes:
        op: the operation.
        kinds: the handlers' classes.
    """

    op: TupleOperation
    kinds: Kinds

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """The operation's."""
        return self.op.effects

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The operation's typing rule."""
        return self.op.infer(*types)

    def __call__(self, *operands: Value) -> tuple[Array, ...]:
        """Performs the operation under the handlers that see it."""
        result: tuple[Array, ...] = _perform(self.op, self.kinds, operands)
        return result

    def decompose(self, *operands: Value) -> tuple[Array, ...]:
        """The operation."""
        return self.op(*operands)


def _masked(op: Operation[Any], kinds: Kinds) -> "MaskedArray | MaskedTuple":
    if op.multiple:
        return MaskedTuple(cast("TupleOperation", op), kinds)
    return MaskedArray(cast("ArrayOperation", op), kinds)


def _perform(op: Operation[Any], kinds: Kinds, operands: tuple[Value, ...]) -> Any:
    """Skips the masked handlers outward to the first other one that takes the operation."""
    left = list(kinds)
    frame = current_frame()
    while frame is not None and left:
        handler = frame.handler
        owns = any([x.frame is frame for x in operands])
        if isinstance(handler, Mask):
            left += handler.kinds
        elif any([isinstance(handler, kind) for kind in left]):
            if owns:
                raise TransformError(
                    f"mask: {op.name}: an operand is a box of {handler.describe()}, which is masked here"
                )
            left.remove(next(kind for kind in left if isinstance(handler, kind)))
        elif frame.intercepts or owns or (op.effects and handler.takes(op.effects)):
            if isinstance(handler, Stage):
                with resumed(frame.outer):
                    return handler.handle(frame, _masked(op, tuple(left)), operands)
            # Operations that the handler performs for a masked one are masked too.
            with resumed(Frame(Mask(tuple(left)), frame.outer)):
                return handler.handle(frame, op, operands)
        frame = frame.outer
    with resumed(frame):
        if frame is None:
            return outermost.handler.handle(outermost, op, operands)
        return op(*operands)


def mask(*kinds: type[Handler]) -> handle:
    """Returns a context that hides operations from the innermost handler of each class.

    Args:
        kinds: classes of handlers. A class without an installed handler changes nothing.

    Raises:
        TransformError: no classes, or something else; inside, an operand that is a box of the masked handler.

    >>> import attrs, effx, effx.numpy as enp
    >>> from effx.handlers.authoring.intercepting import InterceptHandler
    >>> from effx.ir.ops.elementwise import Sin
    >>> @attrs.frozen
    ... class Negate(InterceptHandler): ...
    >>> @Negate.rule(Sin)
    ... def _(site, op, x): return -op(x)
    >>> @effx.jit
    ... def f(x):
    ...     with mask(Negate):
    ...         y = enp.sin(x)
    ...     return y, enp.sin(x)
    >>> y, z = Negate().run(f, 1.0)
    >>> print(f"{y:.3f} {z:.3f}")
    0.841 -0.841
    """
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, Handler):  # type: ignore[redundant-expr]  # unchecked callers
            raise TransformError(f"mask: expected classes of handlers, got {kind!r}")
    if not kinds:
        raise TransformError("mask: say which classes of handlers are masked")
    return handle(Mask(kinds))


@transposes.register(MaskedArray, MaskedTuple)  # type: ignore[arg-type]  # one rule for both kinds
def _transposed(
    masked: MaskedArray | MaskedTuple, cts: Any, operands: tuple[Operand, ...]
) -> Sequence[Cotangent]:
    """The operation's transpose, masked."""
    rule = transposes.find(type(masked.op))
    if rule is None:
        raise TransformError(
            f"transpose: {masked.op.name} is not linear in its operands, or has no transpose"
        )
    with handle(Mask(masked.kinds)):
        found: Sequence[Cotangent] = rule(masked.op, cts, operands)  # type: ignore[arg-type]  # the table pairs classes and rules
    return found
