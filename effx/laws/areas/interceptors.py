"""Laws of users' intercepting handlers: those that `check_handler` runs, here on the suite's own."""

import copy

import effx
from effx import tree
from effx.handlers.authoring.masking import mask
from effx.handlers.oracle import evaluate
from effx.laws.areas.subjects import ANY, Function, Points, loop_over_batch, make_batch
from effx.laws.comparing import leaves, same
from effx.laws.programs import TypedProgram
from effx.laws.registry import NotApplicable, law
from effx.laws.stacks import LAYERS, Stack
from effx.laws.subjects import InterceptSubject, intercept_cases, with_stepping
from effx.laws.watchers import ForwardAll, GatherOperands, Reply, ScaleResults, Tally
from effx.tree.registry import PyTree

AREA = "user interceptors"

SUBJECTS = (
    InterceptSubject(ForwardAll(), neutral=True),
    InterceptSubject(Tally(), neutral=True),
    InterceptSubject(GatherOperands(), neutral=True),
    InterceptSubject(ScaleResults(1.5)),
    InterceptSubject(Reply(0.5), neutral=True),  # of what programs have no operation for
)
CASES = intercept_cases(*SUBJECTS)


def agree(got: PyTree, want: PyTree, note: str = "") -> None:
    """Compares the results of two runs: structure and leaves."""
    assert tree.structure(got) == tree.structure(want), (
        f"{note} {tree.structure(got)} against {tree.structure(want)}"
    )
    same(got, want, note=note)


@law(AREA, "h = h' and hash h = hash h' for a copy: interceptors are values", CASES)
def interceptors_are_values(subject: InterceptSubject, f: TypedProgram, xs: Points) -> None:
    twin = copy.copy(subject.handler)
    assert twin == subject.handler
    assert hash(twin) == hash(subject.handler)


@law(AREA, "the result of h f is f(x), if h changes nothing", ANY.map(lambda case: (SUBJECTS[0], *case)))
def interceptors_that_forward_are_neutral(subject: InterceptSubject, f: TypedProgram, xs: Points) -> None:
    if not subject.neutral:
        raise NotApplicable("the handler may change results: neutral=False")
    results = subject.results(f, xs)
    same(results, leaves(f(*xs)))


@law(AREA, "h(jit f) = h(f): result, state and collected values", CASES)
def interceptors_enter_calls(subject: InterceptSubject, f: TypedProgram, xs: Points) -> None:
    agree(subject.run(effx.jit(lambda *ys: f(*ys)), xs), subject.run(f, xs))


@law(AREA, "h(checkpoint f) = h(f): result, state and collected values", CASES)
def interceptors_enter_checkpoints(subject: InterceptSubject, f: TypedProgram, xs: Points) -> None:
    agree(subject.run(effx.checkpoint(lambda *ys: f(*ys)), xs), subject.run(f, xs))


@law(AREA, "jit(h f) = h f: result, state and collected values", CASES)
def jit_goes_around_interceptors(subject: InterceptSubject, f: TypedProgram, xs: Points) -> None:
    agree(effx.jit(subject.wrap_function(f))(*xs), subject.run(f, xs))


@law(AREA, "jit(h f) = h f, on XLA, with states that are threaded there", CASES, compiles=True)
def interceptors_compile(subject: InterceptSubject, f: TypedProgram, xs: Points) -> None:
    agree(effx.jit(subject.wrap_function(f))(*xs), evaluate(subject.wrap_function(f), *xs))


@law(AREA, "h in steps = h staged", CASES, share=0.6)
def interceptors_step_as_they_stage(subject: InterceptSubject, f: TypedProgram, xs: Points) -> None:
    got, want = InterceptSubject(with_stepping(subject.handler)).run(f, xs), subject.run(f, xs)
    if subject.handler.collects and tree.structure(got) != tree.structure(want):
        raise NotApplicable("a loop without iterations, or a branch that is not taken, collects")
    agree(got, want)


@law(AREA, "vmap(h f)(xs)[m] = h f(xs[m]): each batch element has its own state", CASES)
def interceptors_batch(subject: InterceptSubject, f: TypedProgram, xs: Points) -> None:
    bs = make_batch(xs)
    agree(effx.vmap(subject.wrap_function(f))(*bs), loop_over_batch(subject.wrap_function(f), bs))


@law(AREA, "S(h f) = h f for every stack S that changes no value", CASES, share=0.2)
def stacks_go_around_interceptors(subject: InterceptSubject, f: TypedProgram, xs: Points) -> None:
    flat: Function = lambda *ys: leaves(subject.run(f, ys))  # noqa: E731 - one function for all layers
    want = flat(*xs)
    for name in LAYERS:
        same(Stack((name, "jit"))(flat)(*xs), want, note=name)


@law(AREA, "h f, again, and by an equal handler = h f: caches with a program are right", CASES)
def interceptors_repeat(subject: InterceptSubject, f: TypedProgram, xs: Points) -> None:
    jitted = effx.jit(lambda *ys: f(*ys))
    want = subject.run(jitted, xs)
    agree(subject.run(jitted, xs), want)
    agree(InterceptSubject(copy.copy(subject.handler)).run(jitted, xs), want)
    moved = [x * 0.5 for x in xs]
    agree(subject.run(jitted, moved), subject.run(f, moved))


@law(AREA, "the result of h has the same structure and types at every point", CASES)
def interceptors_keep_structures(subject: InterceptSubject, f: TypedProgram, xs: Points) -> None:
    one, other = subject.run(f, xs), subject.run(f, [x * 0.5 for x in xs])
    assert tree.structure(one) == tree.structure(other)
    assert [x.type for x in leaves(one)] == [x.type for x in leaves(other)]


@law(AREA, "h(mask f) = h of f's values: what is masked is not seen", CASES)
def masked_interceptors_see_nothing(subject: InterceptSubject, f: TypedProgram, xs: Points) -> None:
    if not subject.handler.intercepts:
        raise NotApplicable("the handler takes effects, and programs have none")
    values = f(*xs)

    def masked(*ys: PyTree) -> PyTree:
        with mask(type(subject.handler)):
            return f(*ys)

    want = subject.run(lambda: values, ())
    agree(subject.run(masked, xs), want)
    agree(subject.run(effx.jit(masked), xs), want)
