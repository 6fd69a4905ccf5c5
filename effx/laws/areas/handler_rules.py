"""Laws of users' boxing handlers on single operations: what `check_handler` runs for each rule, here on the suite's own."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from hypothesis import strategies as st

from effx.array import Array
from effx.errors import EffxError
from effx.laws.areas.subjects import Points
from effx.laws.areas.user_handlers import AREA, SUBJECTS, agree
from effx.laws.comparing import comparable_data
from effx.laws.drawing import AnyOperation
from effx.laws.registry import Case, NotApplicable, law
from effx.laws.ruled_operations import RuleCases, list_all_rule_cases, list_ruled_operations
from effx.laws.special_points import is_undefined, results_of
from effx.laws.subjects import HandlerSubject
from effx.numpy import asarray
from effx.tree.registry import PyTree

Boxed = Sequence[int]
MOST_ENDS = 2  # operands whose ends are combined with one another

_known_cases: dict[int, RuleCases] = {}


def cases_of(subject: HandlerSubject) -> RuleCases:
    """Returns the fixed cases of one of the suite's own handlers."""
    if id(subject) not in _known_cases:
        _known_cases[id(subject)] = list_all_rule_cases(subject, list_ruled_operations(subject))
    return _known_cases[id(subject)]


@st.composite
def _draw_rule_case(draw: st.DrawFn, choose: Callable[[RuleCases], Sequence[Case]]) -> Case:
    return draw(st.sampled_from(choose(cases_of(draw(st.sampled_from(SUBJECTS))))))


def choose_smooth(cases: RuleCases) -> Sequence[Case]:
    """The cases at points of the operations' domains."""
    return cases.smooth


def choose_finite(cases: RuleCases) -> Sequence[Case]:
    """The cases at other points too."""
    return cases.finite


def choose_infinite(cases: RuleCases) -> Sequence[Case]:
    """The cases with infinities."""
    return cases.infinite


FIXED_CASES: dict[str, Callable[[RuleCases], Sequence[Case]]] = {
    "rules_keep_types": choose_smooth,
    "rules_are_sound": choose_finite,
    "rules_are_sound_at_infinity": choose_infinite,
    "rules_map_lifts_to_lifts": choose_smooth,
}
"""The laws of single operations, and which of a handler's fixed cases `check_handler` runs each on."""


@law(
    AREA,
    "the payload of h op(payload x) stands for a value of the type of op(x)",
    _draw_rule_case(choose_smooth),
)
def rules_keep_types(subject: HandlerSubject, op: AnyOperation, operands: Points, boxed: Boxed) -> None:
    if not all([subject.keeps_type(operands[i].type) for i in boxed]):
        raise NotApplicable("the handler's type_of does not give the types of values")
    for applied, y in zip(subject.apply(op, operands, boxed), results_of(op, operands), strict=True):
        if applied.is_boxed:
            got = subject.handler.type_of(applied.payload)
            assert got.matches(y.type), f"{got} against {y.type}"


@law(
    AREA,
    "h op(payload x) holds for op(y) for every y that payload x holds for: for x, and for the ends of that set",
    _draw_rule_case(choose_finite),
)
def rules_are_sound(subject: HandlerSubject, op: AnyOperation, operands: Points, boxed: Boxed) -> None:
    check_rule(subject, op, operands, boxed)


@law(
    AREA,
    "h op(payload x) holds for op(x) if x has infinities and op(x) is defined",
    _draw_rule_case(choose_infinite),
)
def rules_are_sound_at_infinity(
    subject: HandlerSubject, op: AnyOperation, operands: Points, boxed: Boxed
) -> None:
    check_rule(subject, op, operands, boxed)


@law(AREA, "h op(lift x) = lift(op x), if h is exact", _draw_rule_case(choose_smooth))
def rules_map_lifts_to_lifts(
    subject: HandlerSubject, op: AnyOperation, operands: Points, boxed: Boxed
) -> None:
    if not subject.exact:
        raise NotApplicable("the handler is not exact: exact=False")
    lifting = HandlerSubject(subject.handler)
    got = [applied.payload for applied in lifting.apply(op, operands, boxed)]
    narrow = any(
        [x.type.kind in "fc" and x.type.dtype.itemsize < 8 * (1 + (x.type.kind == "c")) for x in operands]
    )
    agree(got, [subject.handler.lift(y) for y in results_of(op, operands)], 1e-5 if narrow else 1e-9)


def check_rule(subject: HandlerSubject, op: AnyOperation, operands: Points, boxed: Boxed) -> None:
    """The payloads of an operation's results hold for the results at all points that the operands' payloads hold for."""
    if subject.relation is None:
        raise NotApplicable("no relation between payloads and values is given")
    if not all([judges(subject, subject.payload_for(operands[i]), operands[i]) for i in boxed]):
        raise NotApplicable("the payload of an operand does not hold for it")
    carried = subject.apply(op, operands, boxed)
    leaves_domain, comparable = False, True
    failures: list[str] = []
    for point in covered_points(subject, operands, boxed):
        results = results_of(op, point)
        if any([y.type.kind == "c" for y in results]):
            raise NotApplicable("relations are about real numbers")
        if is_undefined(results):
            leaves_domain = True
            continue
        if not all(
            [
                bool(np.isfinite(comparable_data(y)).all()) or judges(subject, subject.handler.lift(y), y)
                for y in results
            ]
        ):
            comparable = False  # as |p - x| < 1e-9 is false where both are infinite
            continue
        for applied, y in zip(carried, results, strict=True):
            # A primal decides for its own value, so a plain result says nothing of others.
            decided = not applied.is_boxed and subject.has_primal and point is not operands
            if not decided and not judges(subject, applied.payload, y):
                failures.append(
                    f"{applied.payload} does not hold for {comparable_data(y)}, the result of {point}"
                )
    if failures and leaves_domain:
        raise NotApplicable("the operands' payloads hold for values for which the operation is undefined")
    assert not failures, failures[0]
    if not comparable:
        raise NotApplicable("the relation does not take infinities")


def judges(subject: HandlerSubject, payload: PyTree, x: Array) -> bool:
    """Says whether a payload holds for a value; of integers and bools a relation may know nothing.

    Raises:
        NotApplicable: the relation does not take values of this type.
    """
    try:
        return subject.holds(payload, x)
    except EffxError as error:
        if x.type.kind == "f":
            raise
        raise NotApplicable(f"the relation does not take {x.type!r}: {error.message}") from None


def covered_points(subject: HandlerSubject, operands: Points, boxed: Boxed) -> list[Points]:
    """Returns points that the operands' payloads hold for: the operands, all at one end, each pair of two operands'
    ends, and elements of both ends in turn.
    """
    ends = {i: found for i in boxed if (found := subject.ends(operands[i]))}
    if not ends:
        return [operands]
    several = list(ends)[:MOST_ENDS]
    changes: list[dict[int, Array]] = [
        dict(zip(several, chosen, strict=True))
        for chosen in product(*[(operands[i], *ends[i]) for i in several])
    ][1:]
    most = max([len(found) for found in ends.values()])
    changes += [{i: found[min(which, len(found) - 1)] for i, found in ends.items()} for which in range(most)]
    for parity in (0, 1):
        mixed = {
            i: mix(found[0], found[-1] if len(found) > 1 else operands[i], parity)
            for i, found in ends.items()
        }
        changes.append(
            {i: x for i, x in mixed.items() if judges(subject, subject.payload_for(operands[i]), x)}
        )
    return [operands, *[[change.get(i, x) for i, x in enumerate(operands)] for change in changes]]


def mix(x: Array, y: Array, parity: int) -> Array:
    """Returns an array with every second element of another."""
    data = np.asarray(x).copy()
    data.reshape(-1)[parity::2] = np.asarray(y).reshape(-1)[parity::2]
    return asarray(data, x.dtype)
