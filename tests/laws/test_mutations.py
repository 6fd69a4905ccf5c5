"""Laws fail where they should: on wrong rules, handlers, operations and transformations, with a program to paste.

Each mutation is put in place, a law is run, and the printed reproduction is executed: it fails in the same law.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import settings

import effx
import effx.lower.text.stablehlo  # the rules
import effx.numpy as enp
from effx import Array
from effx.effects import RuleTable, decompositions
from effx.handlers import oracle as reference
from effx.handlers import vmap
from effx.handlers.authoring import analysis, masking
from effx.handlers.authoring.boxing import BoxHandler
from effx.handlers.authoring.intercepting import InterceptHandler
from effx.handlers.jvp import JVP
from effx.handlers.recursion import PayloadHandler
from effx.handlers.transpose.handler import rules as transposes
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Elementwise, Unary
from effx.ir.ops.collective import PSum
from effx.ir.ops.control import Cond, Scan
from effx.ir.ops.reduce import CumSum, ReduceSum
from effx.ir.program import Program
from effx.ir.text import print_program
from effx.ir.types import ArrayType, array_type
from effx.laws import (
    LAWS,
    LawError,
    TypedProgram,
    cases,
    check_handler,
    check_operation,
    check_rules,
    check_transform,
    operations,
    programs,
    stacks,
)
from effx.laws.areas import staging
from effx.laws.watchers import ScaleResults
from effx.laws.zoo import IntervalBounds
from effx.lower.text.emit import rules as emissions

F64 = array_type(effx.dtypes.float64, (3,))
FLAT = cases(programs(constructs=(), most_steps=4))
SCANS = cases(programs(constructs=("scan",), most_steps=2, depth=1, shapes=((3,),), most_arguments=1))
LOOPS = cases(programs(constructs=("scan", "cond", "while"), most_steps=2, depth=1))


@pytest.fixture(autouse=True)
def the_same_cases() -> Iterator[None]:
    """Each run draws the same cases: from others, some faults are shrunk to a longer program, or found later."""
    before = settings.get_current_profile_name()
    settings.load_profile("ci")
    yield
    settings.load_profile(before)


@contextlib.contextmanager
def replaced(table: RuleTable[Any], kind: type[Any], rule: Any) -> Iterator[Any]:
    """Puts a rule in the place of the one that serves an operation class; gives that one."""
    before = table.find(kind)
    own = dict(table._registered)
    table.register(kind)(rule)
    try:
        yield before
    finally:
        table._registered.clear()
        table._registered.update(own)
        table._clear_resolved()


def caught(run: Callable[[], object], *names: str, most_lines: int = 20, **mine: object) -> LawError:
    """Returns the error of one of these laws; what it prints must fail in the same law.

    Args:
        run: what is to fail.
        names: of the laws that may be the first to fail.
        most_lines: how long the program may be.
        mine: names that the program takes from the test.
    """
    with pytest.raises(LawError) as found:
        run()
    error = found.value
    assert error.law in names
    assert error.reproduction in str(error)
    assert LAWS[error.law].statement in str(error)
    assert len(error.reproduction.splitlines()) <= most_lines, error.reproduction
    with pytest.raises(LawError) as again:
        exec(compile(error.reproduction, "<pasted>", "exec"), dict(mine))
    assert again.value.law == error.law
    return error


# --- rules of the library -------------------------------------------------------------------------


def test_a_wrong_tangent() -> None:
    """The slope of sin is not the sine."""

    def wrong(op: e.Sin, primals: Sequence[Array], tangents: Sequence[Array]) -> Any:
        return op(primals[0]), tangents[0] * op(primals[0])

    with replaced(JVP.rules, e.Sin, wrong):
        error = caught(lambda: LAWS["tangents_are_slopes"].run(200, FLAT), "tangents_are_slopes")
        assert "enp.sin" in error.reproduction
        caught(
            lambda: LAWS["operation_tangents_are_slopes"].run(20, operations(e.Sin, smooth=True)),
            "operation_tangents_are_slopes",
        )


def test_a_wrong_transpose() -> None:
    """The transpose of a sum gives each summand the whole, not twice it."""

    def wrong(op: ReduceSum, ct: Array, operands: Any) -> Any:
        return tuple([c * 2.0 for c in original(op, ct, operands)])

    with replaced(transposes, ReduceSum, wrong) as original:
        caught(lambda: LAWS["vjp_is_the_adjoint_of_jvp"].run(150, FLAT), "vjp_is_the_adjoint_of_jvp")
        caught(
            lambda: LAWS["operations_transpose"].run(50, operations(ReduceSum, smooth=True)),
            "operations_transpose",
        )


def test_a_wrong_batch() -> None:
    """A cumulative sum along the batch elements' axis mixes batch elements."""

    def wrong(handler: Any, op: CumSum, values: Sequence[Array], axes: Sequence[int]) -> Any:
        return CumSum(axes[0])(values[0]), axes[0]

    with replaced(vmap.Vmap.rules, CumSum, wrong):
        error = caught(
            lambda: LAWS["batch_elements_do_not_see_one_another"].run(300, FLAT),
            "batch_elements_do_not_see_one_another",
        )
        assert "cumsum" in error.reproduction
        caught(lambda: LAWS["operations_batch"].run(30, operations(CumSum)), "operations_batch")


def test_a_wrong_lowering() -> None:
    """StableHLO's cosine in the place of the sine."""

    def wrong(body: Any, op: e.Sin, inputs: Any, outputs: Any) -> Any:
        return original_of_cos(body, e.Cos(), inputs, outputs)

    original_of_cos: Any = emissions.find(e.Cos)
    with replaced(emissions, e.Sin, wrong):
        straight = cases(programs(constructs=(), most_steps=2, shapes=((3,),)))
        caught(lambda: LAWS["compiled_is_interpreted"].run(200, straight), "compiled_is_interpreted")


def test_a_wrong_reference() -> None:
    """XLA and NumPy disagree, whoever is right."""
    with replaced(reference.Reference.rules, e.Tanh, lambda op, x: np.tanh(x) + 1e-3):
        caught(lambda: LAWS["xla_is_numpy"].run(30, operations(e.Tanh)), "xla_is_numpy")


def test_a_wrong_decomposition() -> None:
    """A square is no cube."""
    with replaced(decompositions, e.Square, lambda op, x: x * x * x):
        caught(
            lambda: LAWS["decompositions_keep_values"].run(30, operations(e.Square)),
            "decompositions_keep_values",
        )


def test_a_wrong_recursion_into_scans() -> None:
    """Under a handler, a loop that forgets to go backward."""

    def wrong(frame: Any, op: Scan, operands: Any) -> Any:
        return original(frame, attrs.evolve(op, reverse=False), operands)

    with replaced(PayloadHandler.recursions, Scan, wrong) as original:
        error = caught(
            lambda: LAWS["tangents_of_control_flow"].run(300, SCANS),
            "tangents_of_control_flow",
            most_lines=25,
        )
        assert "reverse=True" in error.reproduction


def test_a_wrong_recursion_into_branches() -> None:
    """Under a handler, branches in the wrong order."""

    def wrong(frame: Any, op: Cond, operands: Any) -> Any:
        return original(frame, attrs.evolve(op, branches=op.branches[::-1]), operands)

    with replaced(PayloadHandler.recursions, Cond, wrong) as original:
        caught(
            lambda: LAWS["gradients_of_control_flow"].run(400, LOOPS),
            "gradients_of_control_flow",
            most_lines=25,
        )


def test_a_wrong_collective() -> None:
    """A sum over batch elements that is their mean."""

    def wrong(handler: Any, op: PSum, values: Any, axes: Any) -> Any:
        y, axis = original(handler, op, values, axes)
        return y * (1.0 / handler.size), axis

    with replaced(vmap.Vmap.rules, PSum, wrong) as original:
        error = caught(lambda: LAWS["collectives_are_numpy"].run(200), "collectives_are_numpy")
        assert "'psum'" in error.reproduction


def test_a_wrong_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead code that is alive."""

    def wrong(program: Program) -> Program:
        rest = program.equations[:-1]
        last = program.equations[-1]
        doubled = attrs.evolve(last, op=e.Neg()) if type(last.op) is e.Sin else last
        return attrs.evolve(program, equations=(*rest, doubled), derived={})

    monkeypatch.setattr(staging, "eliminate_dead_code", wrong)
    caught(lambda: LAWS["dead_code_keeps_values"].run(200, FLAT), "dead_code_keeps_values")


def test_a_wrong_printer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text with cos where the program has sin."""
    original = print_program
    monkeypatch.setattr(staging, "print_program", lambda p: original(p).replace(" sin ", " cos "))
    caught(lambda: LAWS["parsed_programs_mean_the_same"].run(200, FLAT), "parsed_programs_mean_the_same")


def test_a_wrong_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transformation that changes values is found in a stack."""
    monkeypatch.setitem(
        stacks.LAYERS, "scope", lambda f: lambda *xs: effx.tree.map(lambda y: y + 1e-6, f(*xs))
    )
    error = caught(lambda: LAWS["stacks_keep_values"].run(200), "stacks_keep_values")
    assert "Stack(layers=('scope',))" in error.reproduction


# --- what users make ------------------------------------------------------------------------------


@attrs.frozen
class Narrow(BoxHandler[IntervalBounds]):
    """Intervals with a product that looks at two corners only."""

    def lift(self, x: Array) -> IntervalBounds:
        return IntervalBounds(x, x)


@Narrow.rule(e.Add)
def _(op: e.Add, x: IntervalBounds, y: IntervalBounds) -> IntervalBounds:
    return IntervalBounds(x.low + y.low, x.high + y.high)


@Narrow.rule(e.Mul)
def _(op: e.Mul, x: IntervalBounds, y: IntervalBounds) -> IntervalBounds:
    return IntervalBounds(x.low * y.low, x.high * y.high)


def around(x: Array) -> IntervalBounds:
    return IntervalBounds(x - 0.1, x + 0.1)


def contains(p: IntervalBounds, x: Array) -> object:
    return ((p.low - 1e-9 <= x) & (x <= p.high + 1e-9)).all()


def test_an_unsound_handler() -> None:
    """A value outside of its interval."""
    error = caught(
        lambda: check_handler(Narrow(), payload=around, relation=contains, examples=60),
        "rules_are_sound",
        Narrow=Narrow,
    )
    assert "Mul()" in error.reproduction


@attrs.frozen
class Moody(BoxHandler[IntervalBounds]):
    """A handler whose payloads have another structure where a value is negative."""

    def lift(self, x: Array) -> IntervalBounds:
        return IntervalBounds(x, x)

    def primal(self, payload: Any) -> Array:
        low: Array = payload.low
        return low


@Moody.rule(e.Sin)
def _(op: e.Sin, x: IntervalBounds) -> Any:
    y = op(x.low)
    return IntervalBounds(y, (y,)) if bool((y < 0).any()) else IntervalBounds(y, y)  # type: ignore[arg-type]  # the mutation


def test_a_handler_that_looks_at_values() -> None:
    """Its structures are not stable, and under jit it cannot look."""
    with pytest.raises(LawError) as found:
        check_handler(Moody(), exact=False, examples=100)
    assert found.value.law in (
        "handlers_enter_calls",
        "jit_goes_around_handlers",
        "payload_structures_are_stable",
    )


class Nameless(BoxHandler[IntervalBounds]):
    """A handler that is no value: each instance differs from its copy."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def lift(self, x: Array) -> IntervalBounds:
        return IntervalBounds(x, x)


@Nameless.rule(Elementwise)
def _(op: Elementwise, *xs: IntervalBounds) -> IntervalBounds:
    return IntervalBounds(op(*[x.low for x in xs]), op(*[x.high for x in xs]))


def test_a_handler_that_is_no_value() -> None:
    """A copy is not equal, so that no cache entry can be found."""
    caught(
        lambda: check_handler(Nameless(), examples=20, exact=False),
        "handlers_are_values",
        Nameless=Nameless,
    )


class Softsign(Unary):
    """x / (1 + |x|), with a tangent that forgets the square."""

    __slots__ = ()
    kinds = "f"

    def decompose(self, *operands: Any) -> Array:
        (x,) = operands
        result: Array = x / (1.0 + abs(x))
        return result


class Careless(Unary):
    """An operation whose typing rule does not check the number of operands."""

    __slots__ = ()
    kinds = "f"

    def infer(self, *types: ArrayType) -> ArrayType:
        return types[0]

    def decompose(self, *operands: Any) -> Array:
        result: Array = operands[0] + 0.0
        return result


def reference_of_softsign(x: Any) -> Any:
    return x / (1 + np.abs(x))


def test_an_operation_with_a_wrong_derivative() -> None:
    """Found by a difference."""
    with replaced(
        JVP.rules,
        Softsign,
        lambda op, primals, tangents: (op(primals[0]), tangents[0] / (1.0 + abs(primals[0]))),
    ):
        caught(
            lambda: check_operation(Softsign(), F64, reference=reference_of_softsign, examples=20),
            "operation_tangents_are_slopes",
        )


def test_an_operation_with_a_wrong_reference() -> None:
    """Found by its values."""
    caught(lambda: check_operation(Softsign(), F64, reference=np.sinh, examples=20), "references_agree")


def test_an_operation_that_crashes() -> None:
    """A typing rule must not raise an IndexError."""
    error = caught(
        lambda: check_operation(Careless(), F64, reference=np.positive, examples=20), "misfits_are_errors"
    )
    assert "IndexError" in str(error)


def test_a_wrong_custom_rule() -> None:
    """A rule for the derivative that is off by a factor, forward and backward."""

    @effx.custom_jvp
    def cube(x: Array) -> Array:
        return x * x * x

    cube.defjvps(lambda dx, y, x: 2.0 * x * x * dx)
    with pytest.raises(LawError) as found:
        check_rules(cube, F64, examples=10)
    assert found.value.law == "forward_rules_give_slopes"

    @effx.custom_vjp
    def fourth(x: Array) -> Array:
        return (x * x) ** 2

    fourth.defvjp(lambda x: (fourth(x), x), lambda x, ct: (ct * x * x,))
    with pytest.raises(LawError) as found:
        check_rules(fourth, F64, examples=10)
    assert found.value.law == "backward_rules_are_adjoint"

    # Right for small tangents and cotangents, and bounded beyond.
    @effx.custom_vjp
    def bounded(x: Array) -> Array:
        return x * 1.0

    bounded.defvjp(lambda x: (bounded(x), None), lambda _, ct: (enp.clip(ct, -1.0, 1.0),))
    with pytest.raises(LawError) as found:
        check_rules(bounded, F64, examples=10)
    assert found.value.law == "backward_rules_are_linear"

    @effx.custom_jvp
    def saturated(x: Array) -> Array:
        return x * 1.0

    saturated.defjvps(lambda dx, y, x: enp.clip(dx, -1.0, 1.0))
    with pytest.raises(LawError) as found:
        check_rules(saturated, F64, examples=10, skip=["backward_rules_are_adjoint"])
    assert found.value.law == "forward_rules_are_linear"


def half_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient, but that only the first result counts."""
    return lambda *xs: effx.grad(lambda *ys: f(*ys)[0].sum(), tuple(range(len(xs))))(*xs)


def whole_gradient(f: Callable[..., Any], xs: Sequence[Array]) -> Any:
    """The gradient of all results, by forward mode."""
    return tuple(
        [
            sum(
                [j.reshape((-1, *x.shape)).sum(0) for j in effx.jacfwd(lambda *ys: f(*ys), i)(*xs)],
                enp.zeros(()),
            )
            for i, x in enumerate(xs)
        ]
    )


def test_a_wrong_transformation() -> None:
    """Found by its oracle."""
    caught(
        lambda: check_transform(half_gradient, whole_gradient, shapes=((3,), ()), examples=60),
        "transformations_agree_with_their_oracle",
    )


@attrs.frozen
class Forgetful(InterceptHandler[Array]):
    """Keeps its count in Python, where no program carries it."""

    def initial(self) -> Array:
        return enp.int32(0)

    def returns(self, result: Any, frame: Any) -> Any:
        return result, enp.int32(frame.memory.get("count", 0))


@Forgetful.rule(Elementwise)
def _(site: Any, op: Elementwise, *xs: Array) -> Array:
    site.memory["count"] = site.memory.get("count", 0) + 1
    return op(*xs)


def test_an_interceptor_with_a_state_of_its_own() -> None:
    """What a rule does in Python it does once for each program, in another frame."""
    caught(
        lambda: check_handler(Forgetful(), neutral=True, examples=60),
        "interceptors_enter_calls",
        Forgetful=Forgetful,
    )


def test_an_interceptor_that_is_not_neutral() -> None:
    error = caught(
        lambda: check_handler(ScaleResults(2.0), neutral=True, examples=60),
        "interceptors_that_forward_are_neutral",
    )
    assert "Sin()" in error.reproduction or "Tanh()" in error.reproduction


def test_a_wrong_order_of_states() -> None:
    """A scan that begins each step with the first state is no fold."""
    with replaced(PayloadHandler.recursions, Scan, None) as right:

        def wrong(frame: Any, op: Scan, operands: Sequence[Array]) -> Any:
            before = frame.state
            results = right(frame, op, operands)
            frame.state = before
            return results

        PayloadHandler.recursions.register(Scan)(wrong)  # type: ignore[arg-type]  # a rule for scans
        caught(lambda: LAWS["states_are_folds"].run(300), "states_are_folds")


def test_a_mask_that_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_perform_masked", lambda op, kinds, operands: op(*operands))
    caught(lambda: LAWS["masks_hide"].run(200), "masks_hide")


def test_an_analysis_that_stops_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round of a loop is no fix-point."""
    monkeypatch.setattr(analysis.Analysis, "_find_fixpoint", lambda self, step, start, what: step(start))
    turning = TypedProgram(
        "def f(x0, x1, x2):\n"
        "    step = lambda c, _: ((c[1], c[2], c[0]), None)\n"
        "    return lax.scan(step, (x0, x1, x2), None, length=2)[0]",
        ((), (), ()),
    )
    caught(
        lambda: LAWS["forward_facts_cover_perturbations"](turning, turning.at(0)),
        "forward_facts_cover_perturbations",
    )
