"""The effect system by itself: the stack, rule tables, and what happens without a rule."""

from __future__ import annotations

from typing import TypeVar

import pytest

from effx import errors
from effx.effects import (
    Effect,
    Frame,
    Handler,
    Label,
    Operation,
    RuleTable,
    Value,
    current_frame,
    describe_stack,
    forward,
    handle,
    must_happen,
    perform,
)

R = TypeVar("R")


class Number(Value):
    """A value for these tests: plain, or of a frame."""

    def __init__(self, n: int, frame: Frame | None = None) -> None:
        self.n = n
        self.frame = frame


class Count(Operation[Number]):
    __slots__ = ()


class Tell(Operation[Number]):
    """Carries an effect instead of touching a box."""

    __slots__ = ()
    effects = frozenset({Label("tell")})


class Answer(Handler):
    """Answers with a number, for everything or for one effect."""

    def __init__(self, n: int, effect: Label | None = None) -> None:
        self.n = n
        self.effect = effect

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        assert current_frame() is frame.outer  # a handler runs in the context of the next one outward
        return Number(self.n)  # type: ignore[return-value]  # all operations here give numbers

    def takes(self, effects: frozenset[Effect]) -> bool:
        return self.effect in effects

    def describe(self) -> str:
        return f"answer({self.n})"


class Loose(Effect):
    """Says only that it has no order."""

    ordered = False


def test_what_must_happen() -> None:
    """Whatever has an order or a user's name; of other effects those that say so."""
    rows = (
        frozenset[Effect](),
        {Effect()},
        {Loose()},
        {Label("a")},
        {Label("a", ordered=False)},
        {Loose(), Label("a")},
    )
    assert [must_happen(frozenset(row)) for row in rows] == [False, True, False, True, True, True]
    assert Label("a") != Label("a", ordered=False)
    assert [Label("a", ordered=o).ordered for o in (False, True)] == [False, True]


def test_only_the_owner_of_a_box_handles() -> None:
    with handle(Answer(1)) as outer, handle(Answer(2)) as inner:
        assert perform(Count(), (Number(0, outer),)).n == 1
        assert perform(Count(), (Number(0, inner),)).n == 2
        assert perform(Count(), (Number(0, outer), Number(0, inner))).n == 2  # the innermost owner
        assert describe_stack(current_frame()) == "answer(1) > answer(2)"
    assert not outer.live
    assert not inner.live
    assert current_frame() is None


def test_effects_find_their_handler() -> None:
    with handle(Answer(1, Label("tell"))), handle(Answer(2)), handle(Answer(3, Label("other"))):
        assert perform(Tell(), ()).n == 1


def test_the_stack_is_restored_after_an_error() -> None:
    class Fails(Handler):
        intercepts = True

        def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
            raise errors.ShapeError("no")

    with handle(Answer(1)) as outer:
        with pytest.raises(errors.ShapeError) as caught, handle(Fails()):
            perform(Count(), ())
        assert caught.value.handlers == "answer(1) > fails"
        assert current_frame() is outer


def test_a_handle_is_entered_once() -> None:
    once = handle(Answer(1))
    with once:
        pass
    with pytest.raises(errors.TransformError, match="was left already; enter a new handle of it"), once:
        pass
    assert current_frame() is None


def test_forward_goes_outward() -> None:
    class Next(Handler):
        intercepts = True

        def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
            return forward(op, operands)

    class Always(Answer):
        intercepts = True

    with handle(Always(7)), handle(Next()), handle(Next()):
        assert perform(Count(), ()).n == 7


def test_a_handler_that_handles_nothing() -> None:
    class Empty(Handler):
        intercepts = True

    with handle(Empty()), pytest.raises(errors.NoRuleError) as caught:
        perform(Count(), ())
    assert caught.value.message == "count: the handler empty does not say how to handle operations"


class Base(Operation[Number]):
    __slots__ = ()


class Trait(Operation[Number]):
    __slots__ = ()


class Derived(Base, Trait):
    __slots__ = ()


def test_rule_tables() -> None:
    table: RuleTable[str] = RuleTable("t")
    assert table.find(Derived) is None
    table.register(Trait)("by trait")
    assert table.find(Derived) == "by trait"
    assert table.origin(Derived) is Trait
    table.register(Base)("by base")
    assert table.find(Derived) == "by base"  # the class comes before the trait
    child: RuleTable[str] = RuleTable("child", table)
    assert child.find(Derived) == "by base"
    child.register(Trait)("child's")
    assert child.find(Derived) == "by base"  # the more specific class wins over the nearer table
    child.register(Derived)("exact")
    assert child.find(Derived) == "exact"
    assert table.find(Derived) == "by base"
    table.register(Base)("later")
    assert table.find(Derived) == "later"
    assert child.find(Count) is None


class Telling(Derived):
    says = "something"


class Heir(Telling): ...


class Silent(Derived):
    says = ""


def test_a_rule_may_read_what_classes_declare() -> None:
    """It stands at the class that declares: behind rules for this class and subclasses, before those for its bases."""
    table: RuleTable[str] = RuleTable("t")
    child: RuleTable[str] = RuleTable("child", table)
    table.register_declared(Base, "says")("declared")
    assert (table.find(Telling), table.origin(Telling)) == ("declared", Telling)
    assert (child.find(Heir), child.origin(Heir)) == ("declared", Telling)
    assert table.find(Silent) is None
    assert table.find(Base) is None
    for kind in (Trait, Base, Derived):
        child.register(kind)("for a base")
    assert (child.find(Telling), child.find(Silent)) == ("declared", "for a base")
    child.register(Heir)("for the heir")
    assert (child.find(Heir), child.find(Telling)) == ("for the heir", "declared")
    table.register(Telling)("for the class")
    assert (table.find(Telling), table.find(Heir), child.find(Telling)) == ("for the class",) * 3
    other: RuleTable[str] = RuleTable("other")
    other.register_declared(Base, "says", where=lambda kind: kind is Heir)("for some")
    other.register_declared(Base, "says")("for the rest")
    assert (other.find(Heir), other.find(Telling)) == ("for some", "for the rest")
    assert [rule.rule for rule in other.declared_rules()] == ["for some", "for the rest"]


def test_decompose_has_no_silent_default() -> None:
    assert not Count.can_decompose()
    with pytest.raises(errors.NoRuleError) as caught:
        Count().decompose()
    assert caught.value.message == "count: has no decomposition"
