"""Laws of states, collected values and effects: programs agree with Python, step by step.

Never: draw a program whose vmap performs once for the batch what Python performs for each element.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar, final

import numpy as np

import effx
import effx.numpy as enp
from effx import lax, tree
from effx.array import Array
from effx.effects import Frame, Handler, Operation, Value, forward, handle
from effx.errors import NoRuleError
from effx.ir.ops.elementwise import Atan, Cos, Exp, Mul, Sin, Tanh
from effx.laws.areas.subjects import Function, Points, error_raised_by, make_batch, weighted_sum_loss
from effx.laws.comparing import leaves, same
from effx.laws.control_oracle import python_form
from effx.laws.programs import TypedProgram, cases, programs
from effx.laws.registry import law
from effx.laws.watchers import (
    Ask,
    GatherOperands,
    Noise,
    Note,
    Reply,
    Tally,
    TallyTotals,
    draw_noise,
    update_digest,
)
from effx.tree.registry import PyTree

AREA = "states and effects"
R = TypeVar("R")
# Without vmap, which performs one operation for all batch elements.
STEPS = ("jit", "cond", "scan", "while", "fori", "switch", "map", "checkpoint")
PROGRAMS = cases(programs(constructs=STEPS))
STRAIGHT = cases(programs(constructs=(), most_steps=6))
SMALL = cases(programs(constructs=("jit", "cond"), most_steps=3, depth=1))


@final
class OperandRecorder(Handler):
    """Records operands and results of operations of some classes in Python lists, in order."""

    intercepts = True

    def __init__(self, *kinds: type[Operation[Array]]) -> None:
        self.kinds = kinds
        self.taken: list[Array] = []
        self.given: list[Array] = []

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Forwards, and records."""
        y = forward(op, operands)
        if type(op) in self.kinds:
            assert isinstance(operands[0], Array)
            assert isinstance(y, Array)
            self.taken.append(operands[0])
            self.given.append(y)
        return y


def record_operands(f: Function, xs: Points, *kinds: type[Operation[Array]]) -> OperandRecorder:
    """Runs a function's Python form and returns the recorder."""
    listening = OperandRecorder(*kinds)
    with handle(listening):
        python_form(f)(*xs)
    return listening


@law(AREA, "the state after f = the fold of the rules over what runs in f's Python form", PROGRAMS, share=0.8)
def states_are_folds(f: TypedProgram, xs: Points) -> None:
    state = Tally().initial()
    for y in record_operands(f, xs, Sin, Mul, Exp, Tanh).given:
        state = update_digest(state, y)
    # Python's loops and slices of rows perform no multiplications of their own: they add and slice.
    _, got = Tally().run(f, *xs)
    same((got.count, got.last), (state.count, state.last))


@law(AREA, "the state after g(f(x)) = the state of g begun with that of f", SMALL)
def states_compose(f: TypedProgram, xs: Points) -> None:
    after: Function = lambda ys: [enp.sin(y) for y in leaves(ys)]  # noqa: E731 - the second function
    ys, first = Tally().run(f, *xs)
    composed_state = Tally().run(lambda *zs: after(f(*zs)), *xs)[1]
    for y in leaves(ys):
        first = update_digest(first, enp.sin(y))
    same((composed_state.count, composed_state.last), (first.count, first.last))


@law(AREA, "D(h f) = (D h) f: a state has the derivative of its fold", SMALL)
def states_differentiate(f: TypedProgram, xs: Points) -> None:
    def last(*ys: Array) -> Array:
        totals: TallyTotals = Tally().run(f, *ys)[1]
        return totals.last

    def folded(*ys: Array) -> Array:
        state = Tally().initial()
        for y in record_operands(f, ys, Sin, Mul, Exp, Tanh).given:
            state = update_digest(state, y)
        return state.last

    indices = tuple(range(len(xs)))
    same(effx.grad(last, indices)(*xs), effx.grad(folded, indices)(*xs))


@final
class NoiseInPython(Handler):
    """Does what `Noise` does, to operations that run in Python, with the draws as constants."""

    intercepts = True

    def __init__(self) -> None:
        self.key = Noise().initial()

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Adds the next draw."""
        y = forward(op, operands)
        if type(op) is Atan:
            assert isinstance(y, Array)
            self.key, noise = draw_noise(self.key, y)
            return y + noise  # type: ignore[return-value]  # R is Array for an arctangent
        return y


@law(AREA, "h(grad f) = grad of f with the draws of h written out: nothing is drawn again", SMALL, share=0.05)
def draws_are_kept(f: TypedProgram, xs: Points) -> None:
    def step(ys: Points) -> tuple[Array, ...]:
        zs = tuple([Atan()(y) for y in ys])
        return tuple([Atan()(z) * enp.cos(0.1 * weighted_sum_loss(f)(*zs)) for z in zs])

    def scaled(ys: Points, c: Array) -> Array:
        # An operation on constants in each step: hoisted out of the loop it would be drawn once.
        return c * enp.sin(weighted_sum_loss(step)(ys))

    def written(*ys: Array) -> PyTree:
        with handle(NoiseInPython()):
            return step(step(ys)), scaled(ys, scaled(ys, enp.float64(1.0)))

    def scans(step: Callable[[Points], tuple[Array, ...]], *ys: Array) -> PyTree:
        zs = lax.scan(lambda c, _: (step(c), None), ys, None, length=2)[0]
        return zs, lax.scan(lambda c, _: (scaled(ys, c), None), enp.float64(1.0), None, length=2)[0]

    def run_bounded_loops(*ys: Array) -> PyTree:
        zs = lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, step(s[1])), (0, ys), max_steps=3)[1]
        return zs, lax.fori_loop(0, 2, lambda i, c: scaled(ys, c), enp.float64(1.0))

    again = effx.checkpoint(step)
    indices = tuple(range(len(xs)))
    want = effx.value_and_grad(weighted_sum_loss(written), indices)(*xs)
    for name, g in (
        ("checkpoint", lambda *ys: (again(again(ys)), scaled(ys, scaled(ys, enp.float64(1.0))))),
        ("scan", partial(scans, step)),
        ("scan of checkpoint", partial(scans, again)),
        ("while", run_bounded_loops),
    ):
        gradient = effx.value_and_grad(weighted_sum_loss(g), indices)
        same(Noise().run(gradient, *xs), want, note=name)
        same(Noise().run(effx.jit(gradient), *xs), want, note=f"jit of {name}")


@law(AREA, "what a straight program collects = the list of the values, in order", STRAIGHT)
def collections_are_lists(f: TypedProgram, xs: Points) -> None:
    _, collected = GatherOperands().run(f, *xs)
    want = record_operands(f, xs, Sin, Cos).taken
    assert len(collected.get("angles", ())) == len(want)
    same(collected.get("angles", ()), tuple(want))
    same(GatherOperands().run(effx.jit(lambda *ys: f(*ys)), *xs)[1].get("angles", ()), tuple(want))


@law(AREA, "what a scan collects = what its steps collect, stacked", STRAIGHT)
def scans_stack_collections(f: TypedProgram, xs: Points) -> None:
    bs = make_batch(xs, 3)
    scanned: Function = lambda *ys: lax.scan(lambda c, row: (c, f(*row)), None, ys)[1]  # noqa: E731 - a loop
    steps = [GatherOperands().run(f, *[b[i] for b in bs])[1] for i in range(3)]
    same(GatherOperands().run(scanned, *bs)[1], tree.map(lambda *rows: enp.stack(rows), *steps))
    mapped: Function = lambda *ys: lax.map(lambda row: f(*row), ys)  # noqa: E731 - a loop
    same(GatherOperands().run(mapped, *bs)[1], tree.map(lambda *rows: enp.stack(rows), *steps))


@law(AREA, "what a while loop collects = what its last iteration collects", STRAIGHT)
def while_loops_keep_the_last_iteration(f: TypedProgram, xs: Points) -> None:
    def loop(*ys: Array) -> PyTree:
        def body(state: tuple[Array, tuple[Array, ...]]) -> tuple[Array, tuple[Array, ...]]:
            i, zs = state
            f(*zs)
            return i + 1, tuple([z * 0.5 for z in zs])

        return lax.while_loop(lambda s: s[0] < 3, body, (enp.int32(0), ys))

    last = [x * 0.25 for x in xs]
    same(GatherOperands().run(loop, *xs)[1], GatherOperands().run(f, *last)[1])


@law(
    AREA,
    "a while loop's condition changes the state each time it is evaluated, once more than the body",
    STRAIGHT,
)
def conditions_leave_traces(f: TypedProgram, xs: Points) -> None:
    def goes_on(state: tuple[Array, tuple[Array, ...]]) -> Array:
        f(*state[1])
        return state[0] < 3

    def loop(*ys: Array) -> PyTree:
        body = lambda s: (s[0] + 1, tuple([z * 0.5 for z in s[1]]))  # noqa: E731 - the body
        return lax.while_loop(goes_on, body, (enp.int32(0), ys))

    state, zs = Tally().initial(), list(xs)
    for i in range(4):
        if i:
            zs = [z * 0.5 for z in zs]
        for y in (*(zs if i else ()), *record_operands(f, zs, Sin, Mul, Exp, Tanh).given):
            state = update_digest(state, y)
    for g in (loop, effx.jit(loop)):
        _, got = Tally().run(g, *xs)
        same((got.count, got.last), (state.count, state.last))
        same(GatherOperands().run(g, *xs)[1], GatherOperands().run(f, *zs)[1])


def around(op: Operation[Array], f: Function) -> Function:
    """Returns f with an operation applied to its arguments and results."""
    return lambda *xs: [op(y) for y in leaves(f(*[op(x) for x in xs]))]


@law(AREA, "f with optional effects = f without, where no handler takes them", PROGRAMS)
def optional_effects_do_without_handlers(f: TypedProgram, xs: Points) -> None:
    noted = around(Note(), f)
    same(noted(*xs), leaves(f(*xs)))
    same(effx.jit(noted)(*xs), leaves(f(*xs)))
    same(effx.vmap(noted)(*make_batch(xs)), leaves(effx.vmap(lambda *ys: f(*ys))(*make_batch(xs))))


@law(AREA, "h(f with an effect) = f with h's answer instead, through calls and loops", SMALL)
def effects_are_their_answers(f: TypedProgram, xs: Points) -> None:
    for op in (Ask(), Note()):
        asking = around(op, f)
        want = [y * 0.5 for y in leaves(f(*[x * 0.5 for x in xs]))]
        looping: Function = lambda *ys, g=asking: lax.scan(lambda c, _: (c, g(*ys)), None, None, length=2)[1]  # noqa: E731 - a loop
        for name, wrapped in (
            ("plain", asking),
            ("jit", effx.jit(asking)),
            ("checkpoint", effx.checkpoint(asking)),
        ):
            got, count = Reply(0.5).run(wrapped, *xs)
            same(got, want, note=name)
            assert int(count) == len(xs) + len(want)
        rows, count = Reply(0.5).run(effx.jit(looping), *xs)
        same([row[1] for row in rows], want)
        assert int(count) == 2 * (len(xs) + len(want))


@law(AREA, "the innermost handler answers; a wanted effect without one is an error", SMALL)
def the_innermost_handler_answers(f: TypedProgram, xs: Points) -> None:
    asking = effx.jit(around(Ask(), f))
    inner = lambda *ys: Reply(0.5).run(asking, *ys)[0]  # noqa: E731 - what the outer one sees
    got, count = Reply(3.0).run(inner, *xs)
    same(got, Reply(0.5).run(asking, *xs)[0])
    assert int(count) == 0
    assert "no handler takes the effect 'ask'" in str(error_raised_by(NoRuleError, lambda: asking(*xs)))


@law(AREA, "grad(h f) and vmap(h f) see h's answers as f's own operations", SMALL)
def answers_differentiate_and_batch(f: TypedProgram, xs: Points) -> None:
    answered: Function = lambda *ys: [y * 0.5 for y in leaves(f(*[x * 0.5 for x in ys]))]  # noqa: E731 - by hand
    handled: Function = lambda *ys: Reply(0.5).run(effx.jit(around(Ask(), f)), *ys)[0]  # noqa: E731 - by the handler
    vs = tuple([enp.asarray(np.full(x.shape, 0.3)) for x in xs])
    same(effx.jvp(handled, tuple(xs), vs)[1], effx.jvp(answered, tuple(xs), vs)[1])
    same(effx.vmap(handled)(*make_batch(xs)), effx.vmap(answered)(*make_batch(xs)))
