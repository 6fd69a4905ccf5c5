"""The operation that performs a library's primitive, by the rules that the library has defined.

Never: say how a handler interprets it; `effx.compat.bound_rules` and `effx.compat.lowering` do.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Protocol, final

import attrs

from effx.array import Array
from effx.array.promotion import as_operand
from effx.caching import exact_key
from effx.effects import isolated
from effx.errors import NoRuleError, TransformError
from effx.ir.ops.base import TupleOperation
from effx.ir.ops.host import RunsEagerly
from effx.ir.types import ArrayType
from effx.tracing.arguments import leaf_type
from effx.tree.registry import PyTree

__all__ = ["Bound", "Definition", "Parameters", "arrays_of", "entries", "operation_name", "types_from"]

Rule = Callable[..., PyTree]


class Definition(Protocol):
    """The interface of a primitive for its operation.

    Attributes:
        name: for errors and in programs.
        multiple_results: whether it gives a sequence.
    """

    name: str
    multiple_results: bool

    def types(self, in_types: Sequence[ArrayType], params: Mapping[str, object]) -> tuple[ArrayType, ...]:
        """Returns the results' types."""
        ...

    def run(self, operands: Sequence[Array], params: Mapping[str, object]) -> tuple[Array, ...]:
        """Computes the results of known operands."""
        ...

    def lowered(
        self, operands: Sequence[Array], params: Mapping[str, object], platform: str | None
    ) -> tuple[Array, ...]:
        """Expresses the primitive by effx's operations; for no platform in particular if None."""
        ...

    def is_lowered(self) -> bool:
        """Says whether it can be expressed so."""
        ...


@final
class Parameters(Mapping[str, object]):
    """The parameters of a primitive: equal if of the same types and bits; to itself only if one has no hash."""

    __slots__ = ("_given", "_key")

    def __init__(self, parameters: Mapping[str, object]) -> None:
        self._given = dict(parameters)
        key: Hashable = tuple([(name, exact_key(parameters[name])) for name in sorted(parameters)])
        try:
            hash(key)
        except TypeError:
            key = id(self)
        self._key = key

    def __getitem__(self, name: str) -> object:
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Parameters) and self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"{{{', '.join([f'{name}={value!r}' for name, value in self._given.items()])}}}"


class _Name:
    """The primitive's name on an operation, and the kind's on the class."""

    def __get__(self, op: "Bound | None", kind: type[object]) -> str:
        return "primitive" if op is None else op.primitive.name


@final
@attrs.frozen
class Bound(TupleOperation, RunsEagerly):
    """A primitive of a library's with its parameters. It gives a tuple also of one result.

    Attributes:
        primitive: compared by identity.
        params: its parameters besides arrays.
    """

    name = _Name()
    primitive: Definition
    params: Parameters

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The types from the library's rule for abstract evaluation."""
        return self.primitive.types(types, self.params)

    @property
    def can_compile(self) -> bool:
        """Whether the library has defined a lowering."""
        return self.primitive.is_lowered()

    def run_eagerly(self, *operands: Array) -> tuple[Array, ...]:
        """Calls the library's function for known values."""
        with isolated():
            return self.primitive.run(operands, self.params)

    def decompose(self, *operands: Array) -> tuple[Array, ...]:  # type: ignore[override]  # values are arrays
        """Expresses it by what it is lowered to."""
        # So handlers without a rule for the primitive work.
        return self.primitive.lowered(operands, self.params, None)


def operation_name(name: str, rule_kind: str) -> str:
    """Returns how errors name a rule of a primitive."""
    return f"{name}: the {rule_kind} rule of this primitive"


def arrays_of(
    primitive: Definition, rule_kind: str, results: PyTree, multiple: bool | None = None
) -> tuple[Array, ...]:
    """Returns the arrays that a rule gave.

    Args:
        primitive: the rule's primitive. rule_kind: the rule's kind, for errors. results: the rule's results.
        multiple: whether this is a sequence; None to ask the primitive.

    Raises:
        TransformError: it is no sequence where the primitive has several results.
    """
    if not (primitive.multiple_results if multiple is None else multiple):
        return (as_operand(results, operation_name(primitive.name, rule_kind)),)
    return tuple(
        [
            as_operand(x, operation_name(primitive.name, rule_kind))
            for x in entries(primitive, rule_kind, results)
        ]
    )


def entries(primitive: Definition, rule_kind: str, results: PyTree) -> list[PyTree]:
    """Returns the entries of the sequence that a rule gave.

    Raises:
        TransformError: it gave none.
    """
    if not isinstance(results, list | tuple):
        raise TransformError(
            f"{operation_name(primitive.name, rule_kind)} must give a list or a tuple, got {type(results).__name__}"
        )
    return list(results)


def types_from(
    primitive: Definition, rule: Rule | None, in_types: Sequence[ArrayType], params: Mapping[str, object]
) -> tuple[ArrayType, ...]:
    """Returns the results' types by a rule, from those of the operands.

    Raises:
        NoRuleError: there is no such rule.
    """
    if rule is None:
        raise NoRuleError(
            f"{primitive.name}: the primitive has no rule for abstract evaluation; give it one with def_abstract_eval"
        )
    result_types = rule(*in_types, **params)
    rule_name = operation_name(primitive.name, "abstract evaluation")
    several = (
        entries(primitive, "abstract evaluation", result_types)
        if primitive.multiple_results
        else [result_types]
    )
    return tuple([t if isinstance(t, ArrayType) else leaf_type(rule_name, t) for t in several])
