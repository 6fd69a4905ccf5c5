"""The base class for users' own transformations: payload type, rules, and a default.

A subclass says what a box carries (`P`), how a plain value becomes a payload (`lift`), and what
operations do to payloads (`@MyHandler.rule(Add)`). That it works inside jit, grad and vmap, and through
calls, is the framework's part.

Never: know an operation.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Concatenate, Generic, Literal, TypeVar, cast

from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.array.values import Operand
from effx.effects import Frame, Operation, RuleTable, Value, handle, no_rule, resumed
from effx.errors import EscapedBoxError, TransformError
from effx.handlers.recursion import PayloadHandler, recur
from effx.ir.ops.base import ArrayOperation, TupleOperation

__all__ = ["BoxHandler", "Default"]

P = TypeVar("P")
R = TypeVar("R")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - the literature's name

Rule = Callable[Concatenate[O, ...], P | Array | tuple[P | Array, ...]]
"""`(op, *payloads) -> payload`, a plain array where the result carries nothing, or a tuple of these."""

Default = Literal["error", "forward", "derive"]
"""What happens to an operation without a rule: an error that names it; the operation on the plain
values, whose result is plain; or the operation expressed by others, which are handled in turn."""


class BoxHandler(PayloadHandler, Generic[P]):
    """A transformation whose boxes carry payloads of type `P`, a pytree of arrays.

    Subclasses are frozen, hashable values (`attrs.frozen` gives both), so that what they make of a
    program is kept with the program.

    Attributes:
        default: what happens to an operation without a rule.

    >>> import attrs, effx
    >>> from effx.ir.ops.elementwise import Add, Mul
    >>> @attrs.frozen
    ... class Sign:
    ...     positive: effx.Array
    >>> @attrs.frozen
    ... class Signs(BoxHandler[Sign]):
    ...     def lift(self, x): return Sign(x > 0)
    >>> @Signs.rule(Mul)
    ... def _(op, x, y): return Sign(x.positive == y.positive)
    >>> Signs().run(lambda x: x * x * -3.0, Sign(effx.device_put(False)), like=1.0).positive
    Array(False, dtype=bool)
    """

    default: ClassVar[Default] = "error"
    rules: ClassVar["RuleTable[Callable[..., Any]]"] = RuleTable("box")

    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        # A table of its own for each handler class, on top of its base's.
        cls.rules = RuleTable(cls.name, cls.__mro__[1].rules)  # type: ignore[attr-defined]  # the base is a BoxHandler

    @classmethod
    def rule(cls, *kinds: type[O]) -> "Callable[[Rule[O, P]], Rule[O, P]]":
        """Registers `(op, *payloads) -> payload` for operation classes, base classes or traits.

        For an operation with several results the rule returns a tuple of payloads. A result that
        is a plain array stays unboxed.
        """
        return cls.rules.register(*kinds)

    @abstractmethod
    def lift(self, x: Array) -> P:
        """Turns a plain value into the payload that stands for it."""

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Applies the operation's rule, or the default."""
        arrays = cast("tuple[Array, ...]", operands)
        rule = self.rules.find(type(op))
        if rule is None:
            return self._without_rule(frame, op, arrays)
        payloads = [cast("Box", x).payload if x.frame is frame else self.lift(x) for x in arrays]
        result = rule(op, *payloads)
        types = [x.type for x in arrays]
        if op.multiple:
            return cast(
                "R",
                tuple(
                    [
                        y if isinstance(y, Array) else Box(frame, y, t)
                        for y, t in zip(result, cast("TupleOperation", op).infer(*types), strict=True)
                    ]
                ),
            )
        if isinstance(result, Array):
            return cast("R", result)
        return cast("R", Box(frame, result, cast("ArrayOperation", op).infer(*types)))

    def _without_rule(self, frame: Frame, op: Operation[R], operands: tuple[Array, ...]) -> R:
        inside = recur(frame, op, operands)
        if inside is not None:
            return cast("R", inside)
        if self.default == "derive" and op.can_decompose():
            with resumed(frame):
                return op.decompose(*operands)
        if self.default == "forward":
            return op(*[self.plain(cast("Box", x).payload) if x.frame is frame else x for x in operands])
        raise no_rule(op, self)

    def plain(self, payload: P) -> Array:
        """Returns the plain value behind a payload, for `default = "forward"`."""
        plain = self.primal(payload)
        if plain is None:
            raise TransformError(f"{self.name}: default = 'forward' needs a method primal(payload)")
        return plain

    @contextmanager
    def installed(self) -> Iterator[Frame]:
        """Installs the handler for the length of a `with` block and gives its frame."""
        with handle(self) as frame:
            yield frame

    def run(self, function: Callable[..., Array], *payloads: P, like: "Operand | tuple[Operand, ...]") -> P:
        """Runs a function on payloads.

        Args:
            function: of as many arrays as there are payloads; returns one array.
            payloads: what the arguments carry.
            like: for each payload an array or number with the type that the function sees; one for
                all, or a tuple.

        Returns:
            The result's payload; a plain result is lifted.
        """
        examples = like if isinstance(like, tuple) else (like,) * len(payloads)
        with handle(self) as frame:
            boxes = [box(frame, p, as_operand(x)) for p, x in zip(payloads, examples, strict=True)]
            result: P = payload(frame, function(*boxes))
            return result


def box(frame: Frame, value: object, like: Array) -> Box:
    """Returns a box of a frame that carries `value` and looks like the array `like`."""
    return Box(frame, value, like.type)


def payload(frame: Frame, x: Array) -> Any:
    """Returns what a box of a frame carries; a plain value is lifted.

    Raises:
        EscapedBoxError: the box belongs to another handler.
    """
    if type(x) is Box:
        if x.frame is frame:
            return x.payload
        if not x.frame.live:
            raise EscapedBoxError(
                f"payload: a value {x.type!r} belongs to {x.frame.handler.describe()}, which has ended"
            )
    handler = cast("BoxHandler[Any]", frame.handler)
    return handler.lift(x)
