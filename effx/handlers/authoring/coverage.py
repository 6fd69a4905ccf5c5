"""`coverage`: list how a handler treats each operation."""

from typing import Any, Literal, final

import attrs

from effx.errors import TransformError
from effx.handlers.authoring.rule_handler import RuledHandler
from effx.handlers.recursion.marks import MARK_OPERATIONS
from effx.ir.catalogue import Kind, operation_classes

TreatmentKind = Literal[
    "rule", "trait", "recursion", "decomposition", "forward", "forward integers", "refused"
]


@final
@attrs.frozen
class Treatment:
    """A handler's treatment of one operation class.

    Attributes:
        operation: the class.
        how: by its own rule; by the rule of a trait or base class; by recursion into its programs, or into
            the payloads that it marks; by decomposition; by forwarding it on plain values, or only where its results
            are integers or bools; or not at all.
        by: the trait or base class whose rule it is.
    """

    operation: Kind
    how: TreatmentKind
    by: Kind | None = None

    def __str__(self) -> str:
        return f"by {self.by.__name__}" if self.by is not None else self.how


@final
@attrs.frozen
class Coverage:
    """A handler's treatment of every operation; prints as a table.

    Attributes:
        handler: its class.
        treatments: one for each operation class, by family and name.

    >>> import attrs, effx
    >>> from effx.handling import BoxHandler, coverage
    >>> from effx.handling.ops import Exp, Mul
    >>> @attrs.frozen
    ... class Signs(BoxHandler[effx.Array]):
    ...     def lift(self, x): return x > 0
    >>> _ = Signs.rule(Mul)(lambda op, x, y: x == y)
    >>> table = coverage(Signs)
    >>> table[Mul].how, table[Exp].how, Exp in table.refused
    ('rule', 'refused', True)
    """

    handler: type[RuledHandler[Any]]
    treatments: tuple[Treatment, ...]

    def __getitem__(self, operation: Kind) -> Treatment:
        for treatment in self.treatments:
            if treatment.operation is operation:
                return treatment
        raise KeyError(operation)

    @property
    def refused(self) -> tuple[Kind, ...]:
        """The operation classes that a boxed operand would make an error."""
        return tuple([t.operation for t in self.treatments if t.how == "refused"])

    def __str__(self) -> str:
        width = max([len(t.operation.name) for t in self.treatments])
        counts = {t.how: sum([o.how == t.how for o in self.treatments]) for t in self.treatments}
        head = f"{self.handler.__name__}: {', '.join([f'{n} {how}' for how, n in sorted(counts.items())])}"
        return "\n".join([head, *[f"  {t.operation.name:<{width}}  {t}" for t in self.treatments]])

    __repr__ = __str__


def coverage(handler: "RuledHandler[Any] | type[RuledHandler[Any]]") -> Coverage:
    """Returns how a handler treats each of effx's operations.

    Args:
        handler: a `BoxHandler` or `InterceptHandler`, or its class.

    Raises:
        TransformError: `handler` is something else.

    >>> import attrs, effx
    >>> from effx.handling import BoxHandler
    >>> from effx.handling.ops import Add, Exp, Linear, Mul, Scan
    >>> @attrs.frozen
    ... class Signs(BoxHandler[effx.Array]):
    ...     def lift(self, x): return x > 0
    >>> _ = Signs.rule(Mul)(lambda op, x, y: x == y)
    >>> _ = Signs.rule(Linear)(lambda op, *xs: xs[0])
    >>> table = coverage(Signs)
    >>> print(table[Mul], table[Add], table[Exp], table[Scan], sep=", ")
    rule, by Linear, refused, recursion
    """
    kind = handler if isinstance(handler, type) else type(handler)
    if not issubclass(kind, RuledHandler):
        raise TransformError(f"coverage: expected a BoxHandler or InterceptHandler, got {handler!r}")
    return Coverage(kind, tuple([_find_treatment(kind, op) for op in operation_classes()]))


def _find_treatment(handler: type[RuledHandler[Any]], op: Kind) -> Treatment:
    origin = handler.rules.origin(op)
    if origin is not None:
        return Treatment(op, "rule") if origin is op else Treatment(op, "trait", origin)
    if handler.recursions.origin(op) is not None or issubclass(op, MARK_OPERATIONS):
        return Treatment(op, "recursion")
    if handler.default == "drop" or (handler.default == "forward" and not handler.owns_boxes):
        return Treatment(op, "forward")
    if handler.default == "forward" and not op.can_decompose():
        return Treatment(op, "forward integers")
    return Treatment(op, "decomposition" if op.can_decompose() else "refused")
