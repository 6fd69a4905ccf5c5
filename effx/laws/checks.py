"""The checks that users run on their own operations, handlers, transformations, functions with rules.

Each runs the laws of an area on drawn cases and raises `LawError` with the smallest case that fails.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import attrs
import numpy as np
from hypothesis import strategies as st

from effx import dtypes
from effx.array import Array
from effx.array.promotion import as_operand
from effx.errors import EffxError, TransformError
from effx.flags import enable_x64
from effx.handlers.authoring.boxing import BoxHandler
from effx.handlers.authoring.intercepting import InterceptHandler
from effx.handlers.oracle import Reference
from effx.ir.ops.base import Elementwise
from effx.ir.types import ArrayType, Shape
from effx.laws import areas
from effx.laws.areas.handler_rules import FIXED_CASES
from effx.laws.areas.operation import infer_types
from effx.laws.drawing import AnyOperation, draw_operands, operand_domains
from effx.laws.operation_programs import OperationProgram, write_operation_programs, write_single_programs
from effx.laws.programs import CONSTRUCTS, SHAPES, programs
from effx.laws.registry import LAWS, Case, Law, LawError, Outcome
from effx.laws.ruled_operations import Kind, RuledOperation, list_all_rule_cases, list_ruled_operations
from effx.laws.samples import Domain
from effx.laws.subjects import (
    HandlerSubject,
    InterceptSubject,
    Oracle,
    TransformSubject,
    handler_cases,
    intercept_cases,
    transform_cases,
)
from effx.numpy import asarray
from effx.tree.registry import PyTree

# Laws of handlers that programs of single operations are not for: these are compiled, differentiated, or judged by a
# relation at points that move out of an operation's domain.
NOT_OF_OPERATIONS = frozenset(
    {
        "handlers_are_sound",
        "handlers_are_sound_over_batches",
        "handlers_are_sound_over_derivatives",
        "branches_join",
        "handlers_compile",
        "stacks_go_around_handlers",
        "handlers_differentiate",
        "handlers_and_gradients_meet_under_jit",
        "handlers_enter_functions_with_rules",
        "handlers_keep_their_boxes",
        "interceptors_compile",
        "stacks_go_around_interceptors",
    }
)
OF_DERIVATIVES = frozenset({"operation_tangents_are_slopes", "operations_linearize", "operations_transpose"})


def laws_of(area: str, skip: Iterable[str] = ()) -> list[Law]:
    """Lists the laws of an area but for some.

    Args:
        area: one of `AREAS`.
        skip: names of laws to leave out.

    Raises:
        TransformError: there is no law of a name in `skip`.

    >>> [law.name for law in laws_of("user rules")][0]
    'forward_rules_give_slopes'
    """
    results = [law for law in LAWS.values() if law.area == area]
    names = [law.name for law in results]
    for name in skip:
        if name not in names:
            raise TransformError(
                f"laws: there is no law {name!r} in the area {area!r}; it has {', '.join(names)}"
            )
    return [law for law in results if law.name not in set(skip)]


def _run(laws: Sequence[Law], strategy: st.SearchStrategy[Case], examples: int | None) -> tuple[Outcome, ...]:
    return tuple([law.run(examples, strategy) for law in laws])


@final
@attrs.frozen
class OperationOutcome:
    """What a check ran of an operation that a handler has a rule for.

    Attributes:
        operation: its name.
        settings: the number of parameter settings and types of operands that ran.
        checks: the number of cases in which a law held.
        refused: the settings that the handler refused.
        reason: of the last refusal, or why nothing ran.
    """

    operation: str
    settings: int
    checks: int
    refused: int = 0
    reason: str = ""

    def __str__(self) -> str:
        if not self.checks:
            return f"{self.operation}: did not run: {self.reason}"
        ran = f"{self.operation}: {self.checks} checks of {self.settings} settings"
        return f"{ran}; {self.refused} refused: {self.reason}" if self.refused else ran


@final
@attrs.frozen
class Report:
    """A check's report: which laws hold, and which do not apply; which operations ran, and which did not. Prints as a
    list.

    Attributes:
        outcomes: one for each law.
        operations: one for each class of operations that a handler has a rule for.

    >>> from effx.laws import Outcome, Report
    >>> report = Report((Outcome("inverse", 3), Outcome("loops", 0, 1, "there are none")))
    >>> print(report)
    1 laws hold, 1 do not apply
      loops: does not apply: there are none
    >>> report.skipped
    {'loops': 'there are none'}
    """

    outcomes: tuple[Outcome, ...]
    operations: tuple[OperationOutcome, ...] = ()

    @property
    def not_run(self) -> dict[str, str]:
        """The operations that have a rule and did not run, with the reason."""
        return {o.operation: o.reason for o in self.operations if not o.checks}

    @property
    def skipped(self) -> dict[str, str]:
        """The laws that applied to no case, with the reason."""
        return {o.law: o.reason for o in self.outcomes if not o.held and o.skipped}

    def __str__(self) -> str:
        skipped = self.skipped
        lines = [f"{len(self.outcomes) - len(skipped)} laws hold, {len(skipped)} do not apply"]
        for o in self.outcomes:
            if o.law in skipped:
                lines.append(f"  {o.law}: does not apply: {o.reason}")
            elif o.skipped:
                lines.append(f"  {o.law}: in {o.held} of {o.held + o.skipped} cases; else: {o.reason}")
        if self.operations:
            run = [o for o in self.operations if o.checks]
            lines.append(f"{len(run)} operations with a rule ran, {len(self.not_run)} did not")
            lines += [f"  {o}" for o in sorted(self.operations, key=lambda o: (not o.checks, o.operation))]
        return "\n".join(lines)

    __repr__ = __str__


def _widen(t: ArrayType) -> ArrayType:
    """Returns the type with 64 bits, which finite differences need."""
    return t.with_dtype({"f": dtypes.float64, "c": dtypes.complex128}.get(t.kind, t.dtype))


def check_operation(
    op: AnyOperation,
    *operands: Array | ArrayType | float,
    reference: Callable[..., object] | None = None,
    low: float | None = None,
    high: float | None = None,
    smooth: bool = True,
    skip: Iterable[str] = (),
    examples: int | None = None,
) -> None:
    """Checks the laws of an operation: typing, values, printing, derivatives, transposes, batches, errors.

    Derivatives are checked on operands of 64 bits, where the operation takes them.

    Args:
        op: the operation.
        operands: for each operand an array, or the type of arrays to draw.
        reference: from NumPy arrays to the result, or a tuple of results; needed where neither effx's reference
            handler has a rule for the operation nor the operation a decomposition.
        low: the least element of drawn operands; by default that of the operation's class, or -2.
        high: the largest.
        smooth: False for an operation without derivatives.
        skip: names of laws of the area "operations" to leave out.
        examples: how many cases of each law; by default its share of the hypothesis profile's number.

    Raises:
        LawError: a law fails; it names the law and reproduces the failure.
        TransformError: there is no reference for the operation's values.

    >>> import effx, numpy as np
    >>> from effx.handling import array_type
    >>> from effx.handling.ops import Sin
    >>> check_operation(Sin(), array_type(effx.dtypes.float32, (3,)), reference=np.sin, examples=2)
    """
    kind = type(op)
    if reference is None and Reference.rules.find(kind) is None and not kind.can_decompose():
        raise TransformError(
            f"check_operation: {op.name}: the reference handler has no rule for it; give reference=, a NumPy function"
        )
    laws = laws_of(areas.operation.AREA, {*skip, "identities_are_identities"})
    domains = operand_domains(op)
    if low is not None or high is not None:
        least, most = domains[0] if isinstance(domains[0], tuple) else Elementwise.domain
        domains = ((least if low is None else low, most if high is None else high),)

    def cases(widen: Callable[[ArrayType], ArrayType]) -> st.SearchStrategy[Case]:
        if all([isinstance(x, ArrayType) for x in operands]):
            types = [widen(x) for x in operands if isinstance(x, ArrayType)]
            operand_strategy = st.integers(0, 99).map(lambda seed: draw_operands(types, domains, seed))
        else:
            parts = [
                _operand_strategy(x, widen, domains[min(i, len(domains) - 1)]) for i, x in enumerate(operands)
            ]
            operand_strategy = st.tuples(*parts)
        return operand_strategy.map(lambda xs: (op, xs))

    with enable_x64(True):
        example_operands = [x if isinstance(x, ArrayType) else as_operand(x).type for x in operands]
        wide = _accepts_types(op, [_widen(t) for t in example_operands])
        infer_types(op, example_operands)
    for law in laws:
        if law.name == "references_agree":
            if reference is not None:
                law.run(examples, cases(lambda t: t).map(lambda case: (*case, reference)))
        elif law.name not in OF_DERIVATIVES:
            law.run(examples, cases(lambda t: t))
        elif smooth and wide:
            law.run(examples, cases(_widen))


def _accepts_types(op: AnyOperation, types: list[ArrayType]) -> bool:
    try:
        infer_types(op, types)
    except EffxError:
        return False
    return True


def _operand_strategy(
    x: Array | ArrayType | float, widen: Callable[[ArrayType], ArrayType], domain: Domain
) -> st.SearchStrategy[Array]:
    if isinstance(x, ArrayType):
        t = widen(x)
        return st.integers(0, 99).map(lambda seed: draw_operands((t,), (domain,), seed)[0])
    with enable_x64(True):
        example = as_operand(x)
        data, t = np.asarray(example), widen(example.type)
        return st.just(asarray(data, t.dtype))


def check_handler(
    handler: "BoxHandler[Any] | InterceptHandler[PyTree]",
    *,
    payload: Callable[[Array], PyTree] | None = None,
    relation: Callable[[Any, Array], object] | None = None,
    exact: bool = True,
    neutral: bool = False,
    kinds: str = "f",
    skip: Iterable[str] = (),
    examples: int | None = None,
) -> Report:
    """Checks the laws of a user's handler: its rules, and calls, control flow, batches and derivatives around and inside.

    Each operation that the handler has a rule for, its own or a trait's, runs with every value of its parameters: alone,
    at generic operands, equal ones, zeros, infinities and, where there is a relation, at the ends of what payloads hold
    for; and in programs with calls, branches and loops. This does not depend on what hypothesis draws. Random programs
    are drawn besides: for a boxing handler from the expressions that it supports, which are found by trying.

    Args:
        handler: the handler.
        payload: from a value to the payload of its box; by default `handler.lift`.
        relation: `(payload, value) -> bool`, between a payload and the value it represents, such as that an
            interval contains the value; it must hold for the results wherever it holds for the arguments. It is asked
            about real numbers of 64 bits, integers and bools.
        exact: False if the lift of a result is more precise than the rules on lifted operands.
        neutral: True for an intercepting handler that does not change results.
        kinds: what numbers boxes stand for, letters of `ArrayType.kind`: "fc" for complex ones too. Operations that take
            no such numbers run on their own.
        skip: names of laws of the area "user handlers", or "user interceptors", to leave out.
        examples: how many cases of each law; by default its share of the hypothesis profile's number.

    Returns:
        The laws that hold, and those that do not apply, with the reason; for each operation with a rule how often a law
        held of it, and why others did not run.

    Raises:
        LawError: a law fails; it names the law and reproduces the failure.
        TransformError: the handler supports no expression of drawn programs, or an argument is not for its
            kind.

    >>> from effx.laws.zoo import IntervalBounds, IntervalArithmetic
    >>> check_handler(
    ...     IntervalArithmetic(),
    ...     payload=lambda x: IntervalBounds(x - 0.1, x + 0.1),
    ...     relation=lambda p, x: ((p.low - 1e-9 <= x) & (x <= p.high + 1e-9)).all(),
    ...     examples=2,
    ...     skip=["handlers_compile"],
    ... ).skipped["plain_values_decide"]
    'the handler has no primal, so that no plain value decides'
    """
    if isinstance(handler, InterceptHandler):
        if payload is not None or relation is not None:
            raise TransformError(
                f"check_handler: {handler.name} has no boxes, so payload and relation say nothing of it"
            )
        watching = InterceptSubject(handler, neutral)
        laws = laws_of(areas.interceptors.AREA, skip)
        return _check_rules(watching, laws, intercept_cases(watching), examples)
    if not isinstance(handler, BoxHandler):
        raise TransformError(
            f"check_handler: takes an instance of a BoxHandler or InterceptHandler, got {handler!r}"
        )
    if neutral:
        raise TransformError(f"check_handler: {handler.name} has boxes; neutral is for intercepting handlers")
    subject = HandlerSubject(handler, payload, relation, exact, kinds)
    return _check_rules(subject, laws_of(areas.user_handlers.AREA, skip), handler_cases(subject), examples)


def _check_rules(
    subject: HandlerSubject | InterceptSubject,
    laws: Sequence[Law],
    strategy: st.SearchStrategy[Case],
    examples: int | None,
) -> Report:
    """Runs the laws of a handler: on each operation that it has a rule for, on programs of these, on drawn programs."""
    ruled = list_ruled_operations(subject)
    if isinstance(subject, HandlerSubject) and not any([operation.runnable for operation in ruled]):
        subject.check_vocabulary()
    checks = Counter[Kind]()
    outcomes: dict[str, Outcome] = {}
    if isinstance(subject, HandlerSubject):
        cases = list_all_rule_cases(subject, ruled)
        for law in laws:
            if law.name in FIXED_CASES:
                outcomes[law.name] = _run_rule_cases(law, FIXED_CASES[law.name](cases), checks)
    programs = write_operation_programs(subject, ruled)
    for law in laws:
        if law.name not in FIXED_CASES:
            fixed = () if law.name in NOT_OF_OPERATIONS else programs
            outcomes[law.name] = _run_programs(law, fixed, checks) + law.run(examples, strategy)
    return Report(
        tuple([outcomes[law.name] for law in laws]),
        tuple([_outcome_of(operation, checks[operation.kind]) for operation in ruled]),
    )


def _run_rule_cases(law: Law, cases: Sequence[Case], checks: "Counter[Kind]") -> Outcome:
    """Checks cases of single operations, and counts for each class those in which the law holds."""
    outcome = Outcome(law.name, 0)
    for case in cases:
        reason = law.check(case)
        outcome += Outcome.of(law.name, reason)
        if reason is None:
            checks[type(case[1])] += 1  # type: ignore[index]  # an operation
    return outcome


def _run_programs(law: Law, programs: Sequence[OperationProgram], checks: "Counter[Kind]") -> Outcome:
    """Checks programs of operations; where one fails, or the law does not apply, each of its operations alone."""
    outcome = Outcome(law.name, 0)
    for program in programs:
        reason, failure = None, None
        try:
            reason = law.check(program.case)
        except LawError as error:
            failure = error
        if failure is not None:
            if len(program.steps) > 1:
                _run_programs(law, write_single_programs(program), Counter())
            raise failure
        if reason is not None and len(program.steps) > 1:
            outcome += _run_programs(law, write_single_programs(program, ("",)), checks)
            continue
        outcome += Outcome.of(law.name, reason)
        if reason is None:
            checks.update([step.kind for step in program.steps])
    return outcome


def _outcome_of(operation: RuledOperation, checks: int) -> OperationOutcome:
    """Returns what is reported of an operation."""
    reason = operation.reason
    if operation.refused:
        instance, why = operation.refused[-1]
        reason = f"{instance.op!r} of ({', '.join([repr(t) for t in instance.types])}): {why}"
    elif not checks and not reason:
        reason = "no law applies"
    return OperationOutcome(
        operation.kind.name, len(operation.runnable), checks, len(operation.refused), reason
    )


def check_transform(
    transform: Callable[[Callable[..., PyTree]], Callable[..., PyTree]],
    oracle: Oracle,
    *,
    tolerance: float = 1e-9,
    constructs: Sequence[str] = CONSTRUCTS,
    shapes: Sequence[Shape] = SHAPES,
    smooth: bool = True,
    most_arguments: int = 2,
    results: int = 2,
    supports: Callable[[str, tuple[Shape, ...]], bool] | None = None,
    skip: Iterable[str] = (),
    examples: int | None = None,
) -> None:
    """Checks the laws of a user's transformation of functions: its values, and that it commutes with other ones.

    Args:
        transform: from a function of arrays to a function of the same arguments.
        oracle: `(f, xs) -> results`, computed in another way: finite differences, a loop, NumPy.
        tolerance: of the comparison with the oracle, relative.
        constructs: which of `CONSTRUCTS` occur in the functions.
        shapes: of their arguments.
        smooth: True for functions with derivatives only.
        most_arguments: how many arguments they take.
        results: 1 for functions that return an array, 2 for functions that return a tuple.
        supports: `(form, shapes) -> bool` says which forms of expressions occur.
        skip: names of laws of the area "user transformations" to leave out.
        examples: how many cases of each law; by default its share of the hypothesis profile's number.

    Raises:
        LawError: a law fails; it names the law and reproduces the failure.

    >>> import effx
    >>> double = lambda f: lambda *xs: effx.tree.map(lambda y: 2.0 * y, f(*xs))
    >>> check_transform(double, lambda f, xs: effx.tree.map(lambda y: y + y, f(*xs)), examples=2)
    """
    program_strategy = programs(
        constructs=constructs,
        smooth=smooth,
        most_steps=3,
        depth=1,
        shapes=shapes,
        most_arguments=most_arguments,
        results=results,
        supports=supports,
    )
    subject = TransformSubject(transform, oracle, tolerance)
    _run(
        laws_of(areas.user_transformations.AREA, skip),
        transform_cases(subject, programs=program_strategy),
        examples,
    )


def check_rules(
    function: Callable[..., PyTree],
    *arguments: Array | ArrayType | float,
    low: float = -1.0,
    high: float = 1.0,
    skip: Iterable[str] = (),
    examples: int | None = None,
) -> None:
    """Checks that the rules of a `custom_jvp` or `custom_vjp` function give its derivative.

    Args:
        function: of arrays, to arrays or pytrees.
        arguments: for each argument an array, or the type of arrays to draw; floats of 64 bits are used throughout.
        low: the least element of drawn arguments.
        high: the largest.
        skip: names of laws of the area "user rules" to leave out.
        examples: how many cases of each law; by default its share of the hypothesis profile's number.

    Raises:
        LawError: a law fails; it names the law and reproduces the failure.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling import array_type
    >>> @effx.custom_jvp
    ... def cube(x): return x * x * x
    >>> cube.defjvps(lambda dx, y, x: 3.0 * x * x * dx)
    >>> check_rules(cube, array_type(effx.dtypes.float64, (2,)), examples=2)
    """
    parts = [_operand_strategy(x, _widen, (low, high)) for x in arguments]
    argument_strategy = st.tuples(*parts).map(lambda xs: (function, xs))
    _run(laws_of(areas.user_transformations.RULES, skip), argument_strategy, examples)
