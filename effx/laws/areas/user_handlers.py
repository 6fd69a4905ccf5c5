"""Laws of users' handlers: those that `check_handler` runs, here on the handlers of the zoo."""

import copy

import numpy as np

import effx
import effx.numpy as enp
from effx import lax, tree
from effx.array import Array
from effx.errors import EscapedBoxError, NoRuleError
from effx.handlers.oracle import evaluate
from effx.handlers.staging.stage import run_program
from effx.ir.ops.control import Cond
from effx.ir.passes import eliminate_common_subexpressions, eliminate_dead_code, inline_calls
from effx.laws.areas.custom import with_jvp
from effx.laws.areas.staging import stage_and_check
from effx.laws.areas.subjects import (
    Function,
    Points,
    error_raised_by,
    loop_over_batch,
    make_batch,
    weighted_sum_loss,
)
from effx.laws.comparing import central_difference, comparable_data, directions, inner_product, leaves, same
from effx.laws.control_oracle import python_form
from effx.laws.programs import TypedProgram
from effx.laws.registry import NotApplicable, law
from effx.laws.stacks import LAYERS, Stack
from effx.laws.subjects import HandlerSubject, handler_cases, with_stepping
from effx.laws.zoo import (
    Depth,
    DepthTagged,
    DualNumber,
    DualNumbers,
    IntervalArithmetic,
    IntervalBounds,
    Magnitude,
    MagnitudeBound,
)
from effx.tree.registry import PyTree

AREA = "user handlers"


def around(x: Array) -> IntervalBounds:
    """An interval around a value."""
    return IntervalBounds(x - 0.1, x + 0.2)


def contains(p: IntervalBounds, x: Array) -> bool:
    """Whether a value is in its interval, up to rounding."""
    return bool(((p.low - 1e-9 <= x) & (x <= p.high + 1e-9)).all())


def moving(x: Array) -> DualNumber:
    """A value that moves."""
    return DualNumber(x, enp.ones_like(x) * 0.7)


def agrees(p: DualNumber | DepthTagged, x: Array) -> bool:
    """Whether the payload's value equals the value."""
    return bool((enp.abs(p.value - x) <= 1e-9).all())


def covers(p: MagnitudeBound, x: Array) -> bool:
    """Whether a value's magnitude is within the bound."""
    return bool((enp.abs(x) <= p.most + 1e-9).all())


SUBJECTS = (
    HandlerSubject(IntervalArithmetic(), around, contains),
    HandlerSubject(DualNumbers(), moving, agrees),
    HandlerSubject(Magnitude(), None, covers, exact=False),  # |x + y| <= |x| + |y|
    HandlerSubject(Depth(), None, agrees, exact=False),
)
CASES = handler_cases(*SUBJECTS)


def agree(got: list[PyTree], want: list[PyTree], tolerance: float = 1e-9) -> None:
    """Compares the payloads of two runs: structure and leaves."""
    for a, b in zip(got, want, strict=True):
        assert tree.structure(a) == tree.structure(b), f"{tree.structure(a)} against {tree.structure(b)}"
    same(got, want, tolerance)


def turn(y: Array) -> Array:
    """Returns another value of the same type: the negative, or of bools the opposite."""
    return enp.logical_not(y) if y.type.kind == "b" else -y


def flatten_payloads(subject: HandlerSubject, f: Function) -> Function:
    """Returns a function from values to the leaves of the results' payloads."""
    return lambda *xs: tuple(leaves(subject.run(f, xs)))


@law(AREA, "h = h' and hash h = hash h' for a copy: handlers are values", CASES)
def handlers_are_values(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    twin = copy.copy(subject.handler)
    assert twin == subject.handler
    assert hash(twin) == hash(subject.handler)


@law(AREA, "handle h: f(x) = f(x), if nothing is boxed", CASES)
def handlers_leave_plain_values(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    if subject.handler.intercepts:
        raise NotApplicable("the handler sees every operation, of plain values too")
    want = f(*xs)
    with subject.handler.installed():
        same(f(*xs), want, 0.0)


@law(AREA, "the payload of h f holds for f(x): relation(h f(payload x), f x)", CASES, share=0.6)
def handlers_are_sound(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    if subject.relation is None:
        raise NotApplicable("no relation between payloads and values is given")
    for p, y in zip(subject.run(f, xs), leaves(f(*xs)), strict=True):
        assert subject.relation(p, y), f"{p} does not hold for {comparable_data(y)}"


@law(AREA, "h(jit f) = h(f)", CASES)
def handlers_enter_calls(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    agree(subject.run(effx.jit(lambda *ys: f(*ys)), xs), subject.run(f, xs))


@law(AREA, "jit(h f) = h f", CASES)
def jit_goes_around_handlers(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    same(effx.jit(flatten_payloads(subject, f))(*xs), flatten_payloads(subject, f)(*xs))


@law(AREA, "jit(h f) = h f, on XLA", CASES, compiles=True)
def handlers_compile(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    same(effx.jit(flatten_payloads(subject, f))(*xs), evaluate(flatten_payloads(subject, f), *xs))


@law(AREA, "h(checkpoint f) = h(f)", CASES)
def handlers_enter_checkpoints(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    agree(subject.run(effx.checkpoint(lambda *ys: f(*ys)), xs), subject.run(f, xs))


@law(AREA, "h(scan, cond, while, switch, map) = h(their Python loops and ifs)", CASES, share=0.6)
def handlers_enter_control_flow(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    agree(subject.run(f, xs), subject.run(python_form(f), xs))


@law(AREA, "h in steps = h staged", CASES)
def handlers_step_as_they_stage(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    stepped = HandlerSubject(with_stepping(subject.handler), subject.payload)
    same([leaves(p) for p in stepped.run(f, xs)], [leaves(p) for p in subject.run(f, xs)])


@law(AREA, "h(cond(p, f, g)) = h(f) where the boxed p's plain value is true, else h(g)", CASES)
def plain_values_decide(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    if not subject.has_primal:
        raise NotApplicable("the handler has no primal, so that no plain value decides")
    predicate: Function = lambda x: enp.sum(x) > 0.1357  # noqa: E731 - of a boxed value

    def chosen(*ys: Array) -> PyTree:
        return lax.cond(predicate(ys[0]), lambda: f(*ys), lambda: tree.map(turn, f(*ys)))

    def decided(*ys: Array) -> PyTree:
        return f(*ys) if bool(predicate(xs[0])) else tree.map(turn, f(*ys))

    try:
        got = subject.run(chosen, xs)
    except NoRuleError as error:
        raise NotApplicable(f"the predicate needs a rule: {error.message}") from None
    agree(got, subject.run(decided, xs))


@law(AREA, "without a plain predicate, h(cond) covers the result of either branch", CASES)
def branches_join(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    if subject.has_primal or not subject.has_join:
        raise NotApplicable("the handler has a primal, or no join, so that branches are not joined")
    other: Function = lambda *ys: tree.map(lambda y: -y, f(*ys))  # noqa: E731 - the other branch
    program: PyTree = effx.make_jaxpr(lambda taken, *ys: lax.cond(taken, f, other, *ys))(
        enp.asarray(True), *xs
    )
    e = next(e for e in program.equations if isinstance(e.op, Cond))
    with subject.handler.installed() as frame:
        # A boxed index, as of a handler with rules for comparisons.
        index = enp.asarray(1, enp.int32)
        which = subject.handler.box(frame, subject.handler.lift(index), index)
        boxed = [subject.handler.box(frame, subject.payload_for(x), x) for x in xs[:-1]]
        known = dict(zip(program.inputs, [*program.constants, which, *boxed, xs[-1]], strict=True))
        results = e.op(which, *[known[v] for v in e.inputs[1:]])
        carried = [subject.handler.payload(frame, y) for y in results]
    for branch in (f, other):
        for p, y in zip(carried, leaves(branch(*xs)), strict=True):
            assert subject.relation is None or subject.relation(p, y), (
                f"{p} does not hold for {comparable_data(y)}"
            )


@law(AREA, "vmap(h f)(xs)[m] = h f(xs[m])", CASES)
def handlers_batch(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    bs = make_batch(xs)
    same(effx.vmap(flatten_payloads(subject, f))(*bs), loop_over_batch(flatten_payloads(subject, f), bs))


@law(
    AREA,
    "S(h f) = h f for every stack S that changes no value: loops, branches, jvp, vmap around",
    CASES,
    share=0.2,
)
def stacks_go_around_handlers(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    want = flatten_payloads(subject, f)(*xs)
    for name in LAYERS:
        same(Stack((name, "jit"))(flatten_payloads(subject, f))(*xs), want, note=name)


@law(AREA, "stage(h f) = stage(h f): staging twice gives one program", CASES)
def handlers_stage_deterministically(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    texts = [str(effx.make_jaxpr(flatten_payloads(subject, f))(*xs)) for _ in range(2)]
    assert texts[0] == texts[1]


@law(AREA, "h f, again, and by an equal handler = h f: caches with a program are right", CASES)
def handlers_repeat(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    jitted = effx.jit(lambda *ys: f(*ys))
    want = subject.run(jitted, xs)
    agree(subject.run(jitted, xs), want)
    twin = HandlerSubject(copy.copy(subject.handler), subject.payload)
    agree(twin.run(jitted, xs), want)
    others = [*directions(xs[:-1], 5), xs[-1]]
    agree(subject.run(jitted, others), subject.run(f, others))


@law(AREA, "the structure of h f's payload depends on types only", CASES)
def payload_structures_are_stable(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    one = subject.run(f, xs)
    other = subject.run(f, [*directions(xs[:-1], 5), xs[-1]])
    for a, b in zip(one, other, strict=True):
        assert tree.structure(a) == tree.structure(b)
        assert [x.type for x in leaves(a)] == [x.type for x in leaves(b)]


@law(AREA, "h f(lift x) = lift(f x), if h is exact", CASES)
def lift_is_a_homomorphism(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    if not subject.exact:
        raise NotApplicable("the handler is not exact: exact=False")
    got = HandlerSubject(subject.handler).run(f, xs)
    agree(got, [subject.handler.lift(y) for y in leaves(f(*xs))])


@law(AREA, "h f(x, y) = h f(x, lift y): a plain argument is its lift, if h is exact", CASES)
def plain_arguments_are_lifted(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    if not subject.exact or len(xs) < 3:
        raise NotApplicable("the handler is not exact, or there is one argument only")
    lift = subject.handler.lift
    lifting = HandlerSubject(subject.handler, lambda x: lift(x) if x is xs[1] else subject.payload_for(x))
    agree(subject.run(f, xs, boxed=lambda i: i != 1), lifting.run(f, xs))


def check_soundness(subject: HandlerSubject, g: Function, xs: Points, needs: str) -> None:
    """The payloads of g's results hold for the results."""
    if subject.relation is None:
        raise NotApplicable("no relation between payloads and values is given")
    try:
        carried = subject.run(g, xs)
    except NoRuleError as error:
        raise NotApplicable(f"{needs} needs a rule: {error.message}") from None
    for p, y in zip(carried, leaves(g(*xs)), strict=True):
        assert subject.relation(p, y), f"{p} does not hold for {comparable_data(y)}"


@law(AREA, "the payload of h(vmap f) holds for vmap f", CASES)
def handlers_are_sound_over_batches(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    batched: Function = lambda *ys: effx.vmap(lambda *a: f(*a, ys[-1]))(*ys[:-1])  # noqa: E731 - known is shared
    check_soundness(subject, batched, [*make_batch(xs[:-1]), xs[-1]], "batching")


@law(AREA, "the payload of h(Df v) holds for Df v", CASES)
def handlers_are_sound_over_derivatives(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    vs = directions(xs[:-1])
    slope: Function = lambda *ys: effx.jvp(lambda *a: f(*a, ys[-1]), ys[:-1], vs)[1]  # noqa: E731 - a derivative
    check_soundness(subject, slope, xs, "the derivative")


@law(AREA, "an idle frame of h inside h does not touch the outer boxes", CASES)
def handlers_nest(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    def inside(*ys: Array) -> PyTree:
        with subject.handler.installed():
            return f(*ys)

    agree(subject.run(inside, xs), subject.run(f, xs))


@law(AREA, "D(h f)(x) v = the slope of h f, and its adjoint is the pull-back", CASES)
def handlers_differentiate(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    g: Function = lambda *ys: [y for y in flatten_payloads(subject, f)(*ys, xs[-1]) if y.type.kind == "f"]  # noqa: E731 - floats
    at = list(xs[:-1])
    vs = directions(at)
    moved = leaves(effx.jvp(g, tuple(at), vs)[1])
    for d, want in zip(moved, central_difference(g, at, vs), strict=True):
        size = float(np.abs(want).max(axis=None, initial=1.0))
        same(d, enp.asarray(want), 1e-5 * size)
    ys, pull = effx.vjp(g, *at)
    cts = directions(leaves(ys), 3)
    left, right = inner_product(cts, moved), inner_product(pull(list(cts)), vs)
    assert abs(left - right) <= 1e-8 * max(1.0, abs(left)), (left, right)


@law(AREA, "type(h f(x)) = type(f(x)): a box looks like the value that it stands for", CASES)
def handlers_keep_types(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    want = [y.type for y in leaves(f(*xs))]
    with subject.handler.installed() as frame:
        boxed = [subject.handler.box(frame, subject.payload_for(x), x) for x in xs[:-1]]
        got = [y.type for y in leaves(f(*boxed, xs[-1]))]
    assert all([a.matches(b) for a, b in zip(got, want, strict=True)]), (got, want)


@law(AREA, "h(pass p) = h(p) for passes that keep values", CASES)
def handlers_do_not_see_passes(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    program, operands = stage_and_check(f, xs)
    captured = operands[: len(operands) - len(xs)]
    want = subject.run(f, xs)
    for each in (eliminate_dead_code, eliminate_common_subexpressions, inline_calls):
        changed = each(program)
        agree(subject.run(lambda *ys, p=changed: run_program(p, [*captured, *ys]), xs), want)


@law(AREA, "h(f with a rule for its derivative) = h(f)", CASES)
def handlers_enter_functions_with_rules(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    ruled: Function = lambda *ys: with_jvp(lambda *a: f(*a, xs[-1]))(*ys[:-1])  # noqa: E731 - known is closed over
    agree(subject.run(ruled, xs), subject.run(f, xs))


@law(AREA, "grad(jit(h f)) = grad(h f)", CASES)
def handlers_and_gradients_meet_under_jit(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    g: Function = lambda *ys: [y for y in flatten_payloads(subject, f)(*ys, xs[-1]) if y.type.kind == "f"]  # noqa: E731 - floats
    at, indices = xs[:-1], tuple(range(len(xs) - 1))
    same(
        effx.grad(effx.jit(weighted_sum_loss(g)), indices)(*at), effx.grad(weighted_sum_loss(g), indices)(*at)
    )


@law(AREA, "a box outside its frame's life is an error", CASES, compiles=True)
def handlers_keep_their_boxes(subject: HandlerSubject, f: TypedProgram, xs: Points) -> None:
    with subject.handler.installed() as frame:
        box = subject.handler.box(frame, subject.payload_for(xs[0]), xs[0])
    assert subject.handler.describe() in str(error_raised_by(EscapedBoxError, lambda: enp.sin(box)))
