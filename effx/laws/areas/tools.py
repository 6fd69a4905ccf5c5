"""Laws of masks, named functions, decompositions and analyses of whole programs."""

from collections.abc import Callable

import numpy as np

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Array
from effx.effects import Handler, Operation
from effx.handlers.authoring.analysis import Backward, Forward, Place, places
from effx.handlers.authoring.decomposing import decompose
from effx.handlers.authoring.intercepting import InterceptHandler
from effx.handlers.authoring.masking import mask
from effx.ir.catalogue import operation_classes
from effx.ir.ops import elementwise as e
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.linalg import DotGeneral
from effx.ir.types import ArrayType
from effx.laws.areas.subjects import ANY, SMALL, Function, Points, make_batch
from effx.laws.comparing import arrays, comparable_data, leaves, same
from effx.laws.programs import TypedProgram, cases, programs
from effx.laws.registry import law
from effx.laws.stacks import LAYERS, Stack
from effx.laws.watchers import ScaleResults, Tally
from effx.transforms.custom.named_functions import named_function
from effx.tree.registry import PyTree

Layer = Callable[[Function], Function]
AREA = "masks, functions and programs"
STRAIGHT = cases(programs(constructs=(), most_steps=4))
# A predicate flows through no operation, so these programs have predicates that do not depend on arguments.
UNDECIDED = cases(
    programs(constructs=("jit", "scan", "fori", "map", "checkpoint", "vmap"), smooth=False, most_steps=4)
)


def mask_function(f: Function, *kinds: type[Handler]) -> Function:
    """Returns the function under a mask."""

    def g(*xs: PyTree) -> PyTree:
        with mask(*kinds):
            return f(*xs)

    return g


@law(AREA, "mask h: f = f where h is not at work: the mask of an absent handler is the identity", SMALL)
def masks_of_absent_handlers_are_idle(f: TypedProgram, xs: Points) -> None:
    want = f(*xs)
    same(mask_function(f, ScaleResults)(*xs), want)
    same(effx.jit(mask_function(f, ScaleResults))(*xs), want)
    result, state = Tally().run(mask_function(f, ScaleResults), *xs)
    plain, counted = Tally().run(f, *xs)
    same((result, state.count, state.last), (plain, counted.count, counted.last))


@law(AREA, "h(mask h: f) = f, in and out of calls: what is masked is not handled", SMALL)
def masks_hide(f: TypedProgram, xs: Points) -> None:
    want = f(*xs)
    hidden = mask_function(f, ScaleResults)
    same(ScaleResults(3.0).run(hidden, *xs), want)
    same(ScaleResults(3.0).run(effx.jit(hidden), *xs), want)
    same(ScaleResults(3.0).run(mask_function(effx.jit(lambda *ys: f(*ys)), ScaleResults), *xs), want)


@law(AREA, "h1(h2(mask h: f)) = h1(f): a mask hides from the innermost handler only", SMALL)
def masks_hide_from_the_innermost(f: TypedProgram, xs: Points) -> None:
    inner: Function = lambda *ys: ScaleResults(3.0).run(effx.jit(mask_function(f, ScaleResults)), *ys)  # noqa: E731 - what h1 sees
    same(ScaleResults(2.0).run(inner, *xs), ScaleResults(2.0).run(f, *xs))
    masked_twice = mask_function(mask_function(f, ScaleResults), ScaleResults)
    both: Function = lambda *ys: ScaleResults(3.0).run(masked_twice, *ys)  # noqa: E731 - two masks
    same(ScaleResults(2.0).run(both, *xs), f(*xs))


@law(AREA, "D and vmap of (mask h: f) under h = D and vmap of f", SMALL)
def masks_differentiate_and_batch(f: TypedProgram, xs: Points) -> None:
    vs = tuple([enp.ones_like(x) for x in xs])
    slope: Layer = lambda g: lambda *ys: effx.jvp(lambda *zs: g(*zs), ys, vs)[1]  # noqa: E731 - a transformation
    batched: Layer = lambda g: effx.vmap(lambda *ys: g(*ys))  # noqa: E731 - a transformation
    same(ScaleResults(3.0).run(slope(mask_function(f, ScaleResults)), *xs), slope(f)(*xs))
    same(
        ScaleResults(3.0).run(batched(mask_function(f, ScaleResults)), *make_batch(xs)),
        batched(f)(*make_batch(xs)),
    )


@law(AREA, "a named function = its body, under every layer, where no handler has a rule for it", SMALL)
def named_functions_are_their_bodies(f: TypedProgram, xs: Points) -> None:
    named: Function = named_function(lambda *ys: f(*ys))
    want = f(*xs)
    for name in LAYERS:
        same(Stack((name,))(named)(*xs), want, note=name)
    same(ScaleResults(3.0).run(named, *xs), ScaleResults(3.0).run(f, *xs))
    vs = tuple([enp.ones_like(x) for x in xs])
    derivative: Callable[..., PyTree] = lambda g: effx.jvp(lambda *ys: g(*ys), tuple(xs), vs)[1]  # noqa: E731 - of either
    same(derivative(named), derivative(f))


@law(AREA, "h(F[f]) = F[g], if h's rule for f is g; through calls, loops and branches", STRAIGHT)
def rules_stand_for_functions(f: TypedProgram, xs: Points) -> None:
    class Replacing(InterceptHandler[None]): ...

    named: Function = named_function(lambda *ys: tuple([enp.sin(y) for y in f(*ys)]))
    other: Function = lambda *ys: tuple([enp.tanh(y) * 0.5 for y in f(*ys)])  # noqa: E731 - the rule
    Replacing.function_rule(named)(other)

    def context(g: Function) -> Function:
        def run(*ys: Array) -> PyTree:
            first = effx.jit(lambda *zs: g(*zs))(*ys)
            rows = lax.scan(lambda c, row: (c, g(*row)), None, tuple([y[None] for y in ys]))[1]
            chosen = lax.cond(enp.asarray(True), g, lambda *zs: tuple([z * 0.0 for z in g(*zs)]), *ys)
            return first, rows, chosen

        return run

    same(Replacing().run(context(named), *xs), context(other)(*xs))


DECOMPOSED = (
    e.Tanh,
    e.Logistic,
    e.Abs,
    e.Max,
    e.Min,
    e.Square,
    e.IntegerPow,
    e.Log1p,
    e.Expm1,
    e.Rsqrt,
    DotGeneral,
)
KEPT = [k for k in operation_classes() if k not in DECOMPOSED and not issubclass(k, HigherOrder)]


@law(AREA, "decompose(f, to)(x) = f(x)", ANY)
def decomposed_functions_keep_values(f: TypedProgram, xs: Points) -> None:
    same(decompose(f, to=KEPT)(*xs), f(*xs))


@law(AREA, "decompose(f, to) performs chosen operations, and those that hold programs, alone", ANY)
def decomposed_functions_perform_chosen_operations(f: TypedProgram, xs: Points) -> None:
    program = effx.make_jaxpr(decompose(effx.jit(lambda *ys: f(*ys)), to=KEPT))(*xs)
    left = [p.op.name for p in places(program) if isinstance(p.op, DECOMPOSED)]
    assert not left, left


def performed_operations(f: Function, xs: Points) -> list[tuple[str, tuple[ArrayType, ...]]]:
    """The operations that a function performs, in order."""
    return [(p.op.name, p.types) for p in places(effx.make_jaxpr(lambda *ys: f(*ys))(*xs))]


@law(AREA, "decompose(decompose(f, to), to) = decompose(f, to), as programs", SMALL)
def decomposition_is_idempotent(f: TypedProgram, xs: Points) -> None:
    once = decompose(f, to=KEPT)
    assert performed_operations(once, xs) == performed_operations(decompose(once, to=KEPT), xs)


NOBODY: frozenset[int] = frozenset()


class SourceAnalysis(Forward[frozenset[int]]):
    """The inputs that a value depends on."""

    def literal(self, value: object, type: ArrayType) -> frozenset[int]:
        """From none."""
        return NOBODY

    def join(self, a: frozenset[int], b: frozenset[int]) -> frozenset[int]:
        """The union."""
        return a | b


@SourceAnalysis.rule(Operation)
def _(place: Place, op: Operation[object], *facts: frozenset[int]) -> object:
    union = NOBODY.union(*facts)
    return (union,) * len(place.result_types) if op.multiple else union


class UseAnalysis(Backward[bool]):
    """Whether a result depends on a value."""

    def literal(self, value: object, type: ArrayType) -> bool:
        """No matter."""
        return False

    def unknown(self, type: ArrayType) -> bool:
        """Not used so far."""
        return False

    def join(self, a: bool, b: bool) -> bool:
        """Used if either is."""
        return a or b


@UseAnalysis.rule(Operation)
def _(
    place: Place, op: Operation[object], results: tuple[bool, ...], operands: tuple[bool, ...]
) -> tuple[bool, ...]:
    return (any(results),) * len(operands)


def sources(f: Function, xs: Points) -> tuple[frozenset[int], ...]:
    """For each result the inputs that it depends on."""
    facts = [frozenset({i}) for i in range(len(xs))]
    return SourceAnalysis().run(effx.make_jaxpr(lambda *ys: f(*ys))(*xs), *facts)


@law(AREA, "an input that changes a result flows into it: facts of loops are fix-points", UNDECIDED)
def forward_facts_cover_perturbations(f: TypedProgram, xs: Points) -> None:
    facts, want = sources(f, xs), leaves(f(*xs))
    for i in range(len(xs)):
        for step in (0.37, -0.21):
            moved = [comparable_data(x) + step * (j == i) for j, x in enumerate(xs)]
            for y, z, fact in zip(leaves(f(*arrays(moved, xs))), want, facts, strict=True):
                assert i in fact or np.array_equal(comparable_data(y), comparable_data(z)), (i, fact)


@law(AREA, "input i flows into result j, forward = result j uses input i, backward", SMALL)
def backward_is_forward_turned_round(f: TypedProgram, xs: Points) -> None:
    program = effx.make_jaxpr(lambda *ys: f(*ys))(*xs)
    facts = sources(f, xs)
    for j in range(len(program.outputs)):
        used = UseAnalysis().run(program, *[k == j for k in range(len(program.outputs))])
        assert used == tuple([i in facts[j] for i in range(len(xs))]), (j, used, facts[j])


@law(AREA, "facts of jit f, checkpoint f and a scan's one step of f = facts of f", SMALL)
def facts_do_not_see_calls(f: TypedProgram, xs: Points) -> None:
    want = sources(f, xs)
    wrapped: dict[str, Function] = {
        "jit": effx.jit(lambda *ys: f(*ys)),
        "checkpoint": effx.checkpoint(lambda *ys: f(*ys)),
        "scan": LAYERS["scan"](f),
    }
    for name, g in wrapped.items():
        assert sources(g, xs) == want, name
