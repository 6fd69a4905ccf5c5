"""Masks hide operations from the innermost handler of a class. A mask is a handler that performs each operation
further out: the masked handler is skipped, and any other handles the operation itself. vmap batches it, jvp
differentiates it, and the operations that these perform for it are masked again. Staged, the operation is wrapped in
a `MaskedOperation` one, so the mask is part of the program and holds wherever the program is interpreted.

A masked effect goes to the next handler that handles it.
"""

from collections.abc import Sequence
from typing import Any, TypeVar, cast, final

import attrs

from effx.array import Array
from effx.effects import Effect, Frame, Handler, Operation, Value, current_frame, handle, use_frame
from effx.errors import TransformError
from effx.handlers.recursion import PayloadHandler, recur
from effx.handlers.staging.stage import Stage
from effx.handlers.transpose.handler import Cotangent, Operand, rule
from effx.handlers.transpose.handler import rules as transposes
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.types import ArrayType

R = TypeVar("R")
Kinds = tuple[type[Handler], ...]


# A mask on the stack alone would not do: an operation may be staged here and run elsewhere. Programs hold
# masked leaves and never masked loops, since the recursion interprets the loops.
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
        """Returns a text with the names of the masked classes."""
        return f"mask({', '.join([k.name for k in self.kinds])})"

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Performs the masked operation; programs are masked operation by operation."""
        if op.multiple:
            results = recur(frame, op, cast("tuple[Array, ...]", operands))
            if results is not None:
                return cast("R", results)
        return _perform_masked(op, self.kinds, operands)


# Not frozen: one is made for each operation, and attrs' frozen __init__ costs twice as much.
@final
@attrs.define(unsafe_hash=True)
class MaskedOperation(ArrayOperation):
    """An operation that some handlers do not see.

    Attributes:
        op: the operation, which may have several results.
        kinds: the handlers' classes.
    """

    name = "masked"

    op: ArrayOperation | TupleOperation
    kinds: Kinds

    @property
    def multiple(self) -> bool:  # type: ignore[override]  # a class attribute elsewhere
        """The operation's."""
        return self.op.multiple

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """The operation's."""
        return self.op.effects

    def infer(self, *types: ArrayType) -> ArrayType | tuple[ArrayType, ...]:  # type: ignore[override]  # several results
        """The operation's typing rule."""
        return self.op.infer(*types)

    def __call__(self, *operands: Value) -> Array | tuple[Array, ...]:  # type: ignore[override]  # as above
        """Performs the operation under the handlers that see it."""
        result: Array | tuple[Array, ...] = _perform_masked(
            cast("Operation[Any]", self.op), self.kinds, operands
        )
        return result

    def decompose(self, *operands: Value) -> Array | tuple[Array, ...]:  # type: ignore[override]  # as above
        """The operation."""
        return self.op(*operands)


def _perform_masked(op: Operation[R], kinds: Kinds, operands: tuple[Value, ...]) -> R:
    """Performs an operation at the first outer handler that handles it and is not masked."""
    frame = current_frame()
    while frame is not None and kinds:
        handler = frame.handler
        if type(handler) is Mask:
            kinds += handler.kinds
        elif isinstance(handler, kinds):
            if any([x.frame is frame for x in operands]):
                raise TransformError(
                    f"mask: {op.name}: an operand is a box of {handler.describe()}, which is masked here"
                )
            hidden = [isinstance(handler, kind) for kind in kinds].index(True)
            kinds = kinds[:hidden] + kinds[hidden + 1 :]
        elif (
            frame.intercepts
            or any([x.frame is frame for x in operands])
            or (op.effects and handler.takes(op.effects))
        ):
            if isinstance(handler, Stage):
                with use_frame(frame.outer):
                    return handler.handle(frame, MaskedOperation(op, kinds), operands)  # type: ignore[arg-type, return-value]  # it stands for any operation
            # Operations that the handler performs for a masked one are masked too.
            with use_frame(Frame(Mask(kinds), frame.outer)):
                return handler.handle(frame, op, operands)
        frame = frame.outer
    with use_frame(frame):
        return op(*operands)


def mask(*kinds: type[Handler]) -> handle:
    """Returns a context that hides operations from the innermost handler of each class.

    Args:
        kinds: classes of handlers. A class without an installed handler changes nothing.

    Raises:
        TransformError: there are no classes, or one is no handler class; inside, an operand is a box of the masked
            handler.

    >>> import attrs, effx, effx.numpy as enp
    >>> from effx.handling import InterceptHandler
    >>> from effx.handling.ops import Sin
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


@rule(MaskedOperation)
def _transpose_masked(
    masked: MaskedOperation, ct: Array | Sequence[Cotangent], operands: tuple[Operand, ...]
) -> Sequence[Cotangent]:
    """The operation's transpose, masked."""
    transpose = transposes.find(type(masked.op))
    if transpose is None:
        raise TransformError(
            f"transpose: {masked.op.name} is not linear in its operands, or has no transpose"
        )
    with handle(Mask(masked.kinds)):
        cts: Sequence[Cotangent] = transpose(masked.op, ct, operands)
    return cts
