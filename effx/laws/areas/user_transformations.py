"""Laws of users' transformations and rules: those that `check_transform` and `check_rules` run, here on
samples.
"""

from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import lax, tree
from effx.array import Array
from effx.effects import current_frame
from effx.errors import TransformError
from effx.handlers.oracle import evaluate
from effx.laws.areas.subjects import (
    Function,
    Points,
    gradient_of_loss,
    loop_over_batch,
    make_batch,
    weighted_sum_loss,
)
from effx.laws.comparing import central_difference, directions, inner_product, leaves, same
from effx.laws.control_oracle import python_form
from effx.laws.programs import TypedProgram, programs
from effx.laws.registry import law
from effx.laws.stacks import Stack
from effx.laws.subjects import TransformSubject, transform_cases
from effx.laws.zoo import DualNumber, DualNumbers
from effx.tree.registry import PyTree

AREA = "user transformations"
RULES = "user rules"


def derivative_along_ones(f: Function) -> Function:
    """The derivative along ones, by jvp."""
    return lambda *xs: effx.jvp(lambda *ys: f(*ys), xs, tuple([enp.ones_like(x) for x in xs]))[1]


def slope_along_ones(f: Function, xs: Sequence[Array]) -> PyTree:
    """The same, by a central difference."""
    return tuple([enp.asarray(d) for d in central_difference(f, xs, [enp.ones_like(x) for x in xs])])


def numeric_gradient(f: Function, xs: Sequence[Array]) -> PyTree:
    """The same, by a central difference along each coordinate."""
    results: list[Array] = []
    for i, x in enumerate(xs):
        slopes: list[float] = []
        for index in range(x.type.size):
            unit = np.zeros(x.type.size)
            unit[index] = 1.0
            vs = [
                enp.asarray(unit.reshape(y.shape)) if j == i else enp.zeros_like(y) for j, y in enumerate(xs)
            ]
            slopes.append(float(np.real(central_difference(weighted_sum_loss(f), xs, vs)[0])))
        results.append(enp.asarray(np.asarray(slopes, np.float64).reshape(x.shape)))
    return tuple(results)


def derivative_by_dual_numbers(f: Function) -> Function:
    """The derivative along ones, by a user's handler."""

    dual = DualNumbers()

    def derivative(*xs: Array) -> PyTree:
        with dual.installed() as frame:
            ys = leaves(f(*[dual.box(frame, DualNumber(x, enp.ones_like(x)), x) for x in xs]))
            return tuple([dual.payload(frame, y).slope for y in ys])

    return derivative


def has_dual_number_rules(text: str, shapes: tuple[tuple[int, ...], ...]) -> bool:
    """The expressions that the dual numbers of the zoo have rules for."""
    return text in (
        "enp.sin({0})",
        "-{0}",
        "enp.tanh({0})",
        "{0} * 0.5",
        "{0} + 0.3",
        "{0} + {1}",
        "{0} * {1}",
        "{0} - {1}",
    )


SUBJECTS = (
    TransformSubject(derivative_along_ones, slope_along_ones, 2e-5),
    TransformSubject(gradient_of_loss, numeric_gradient, 2e-5),
)
DUAL = TransformSubject(derivative_by_dual_numbers, lambda f, xs: derivative_along_ones(f)(*xs))
CASES = transform_cases(*SUBJECTS, programs=programs(most_steps=3, depth=1)) | transform_cases(
    DUAL,
    programs=programs(
        constructs=("jit", "scan", "fori", "cond", "while", "checkpoint"),
        decided=False,
        most_steps=3,
        depth=1,
        supports=has_dual_number_rules,
    ).filter(lambda f: "enp.sum" not in f.source),
)


@law(AREA, "T f(x) = oracle(f, x)", CASES, share=0.6)
def transformations_agree_with_their_oracle(subject: TransformSubject, f: TypedProgram, xs: Points) -> None:
    same(subject.transform(f)(*xs), subject.oracle(f, xs), subject.tolerance)


@law(AREA, "T(jit f) = jit(T f) = T f", CASES)
def transformations_commute_with_jit(subject: TransformSubject, f: TypedProgram, xs: Points) -> None:
    want = subject.transform(f)(*xs)
    same(subject.transform(effx.jit(lambda *ys: f(*ys)))(*xs), want)
    same(effx.jit(lambda *ys: subject.transform(f)(*ys))(*xs), want)


@law(AREA, "jit(T f) on XLA = T f on NumPy", CASES, compiles=True)
def transformations_compile(subject: TransformSubject, f: TypedProgram, xs: Points) -> None:
    same(effx.jit(lambda *ys: subject.transform(f)(*ys))(*xs), evaluate(subject.transform(f), *xs))


@law(AREA, "vmap(T f)(xs)[m] = T f(xs[m])", CASES)
def transformations_batch(subject: TransformSubject, f: TypedProgram, xs: Points) -> None:
    bs = make_batch(xs)
    same(effx.vmap(lambda *ys: subject.transform(f)(*ys))(*bs), loop_over_batch(subject.transform(f), bs))


@law(AREA, "T(scan, cond, while, map) = T(their Python loops and ifs)", CASES, share=0.6)
def transformations_enter_control_flow(subject: TransformSubject, f: TypedProgram, xs: Points) -> None:
    same(subject.transform(f)(*xs), subject.transform(python_form(f))(*xs))


@law(AREA, "T f inside scan, cond, while = T f", CASES)
def transformations_work_inside_control_flow(subject: TransformSubject, f: TypedProgram, xs: Points) -> None:
    want = subject.transform(f)(*xs)
    for name in ("scan", "cond", "while", "checkpoint"):
        same(Stack((name,))(subject.transform(f))(*xs), want, note=name)


@law(AREA, "T of a function of a pytree = T of the function of its leaves, with pytrees out", CASES)
def transformations_take_trees(subject: TransformSubject, f: TypedProgram, xs: Points) -> None:
    def g(point: dict[str, PyTree]) -> dict[str, PyTree]:
        return {"y": list(f(*point["x"]))}

    def by_leaves(*ys: Array) -> PyTree:
        return leaves(g({"x": list(ys)}))

    same(subject.transform(by_leaves)(*xs), subject.transform(f)(*xs))


@law(AREA, "T f, again = T f, one program each time, and no handler is left on the stack", CASES)
def transformations_repeat(subject: TransformSubject, f: TypedProgram, xs: Points) -> None:
    before = current_frame()
    want = subject.transform(f)(*xs)
    same(subject.transform(f)(*xs), want, 0.0)
    assert current_frame() is before
    texts = [str(effx.make_jaxpr(lambda *ys: subject.transform(f)(*ys))(*xs)) for _ in range(2)]
    assert texts[0] == texts[1]


@effx.custom_jvp
def softplus(x: Array) -> Array:
    """The function log(1 + exp x), with a rule for forward mode."""
    return enp.log(1.0 + enp.exp(x))


@softplus.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return softplus(x), lax.logistic(x) * dx


@effx.custom_vjp
def bump(x: Array) -> Array:
    """The function x exp(-x^2), with a rule for reverse mode."""
    return x * enp.exp(-x * x)


bump.defvjp(
    lambda x: (bump(x), x),
    lambda x, ct: (ct * (1.0 - 2.0 * x * x) * enp.exp(-x * x),),
)


def point(seed: int) -> tuple[Array, ...]:
    """A point of three numbers."""
    with effx.enable_x64(True):
        return (enp.asarray(np.round(np.random.default_rng(seed).uniform(-1, 1, 3), 3)),)


RULED = st.tuples(
    st.sampled_from((softplus, bump)),
    st.integers(0, 99).map(point),
)


def forward_mode(f: Function, xs: Points, vs: Points) -> PyTree | None:
    """The derivative by forward mode; None where the function has rules for reverse mode only."""
    try:
        return effx.jvp(f, tuple(xs), tuple(vs))
    except TransformError:
        return None


@law(
    RULES,
    "the rule's tangent = (f(x + h v) - f(x - h v)) / 2h + O(h^2), and its value = f(x)",
    RULED,
    share=0.6,
)
def forward_rules_give_slopes(f: Callable[..., PyTree], xs: Points) -> None:
    vs = directions(xs)
    tangents = forward_mode(f, xs, vs)
    if tangents is not None:
        same(tangents[0], f(*xs))
        want = tuple([enp.asarray(d) for d in central_difference(f, xs, vs)])
        same(leaves(tangents[1]), want, 1e-5)


@law(
    RULES,
    "<ct, (f(x + h v) - f(x - h v)) / 2h> = <the rule's cotangent, v>, and its value = f(x)",
    RULED,
    share=0.6,
)
def backward_rules_are_adjoint(f: Callable[..., PyTree], xs: Points) -> None:
    vs = directions(xs)
    ys, pull = effx.vjp(f, *xs)
    same(ys, f(*xs))
    cts = directions(leaves(ys), 3)
    left = inner_product(cts, central_difference(f, xs, vs))
    right = inner_product(pull(tree.structure(ys).unflatten(list(cts))), vs)
    assert abs(left - right) <= 1e-5 * max(1.0, abs(left)), (left, right)


# Far from 1, so that a rule which bounds or rounds what it gets is seen.
SCALES = (-1e3, 1e-3)


@law(RULES, "the rule's tangent along c v = c (its tangent along v), for c far from 1 too", RULED)
def forward_rules_are_linear(f: Callable[..., PyTree], xs: Points) -> None:
    vs = directions(xs)
    tangents = forward_mode(f, xs, vs)
    if tangents is None:
        return
    for c in SCALES:
        _, scaled = effx.jvp(f, tuple(xs), tuple([v * c for v in vs]))
        same([dy / c for dy in leaves(scaled)], leaves(tangents[1]), 1e-5)


@law(RULES, "the rule's cotangent of c ct = c (its cotangent of ct), for c far from 1 too", RULED)
def backward_rules_are_linear(f: Callable[..., PyTree], xs: Points) -> None:
    ys, pull = effx.vjp(f, *xs)
    cts = directions(leaves(ys), 3)
    structure = tree.structure(ys)
    want = leaves(pull(structure.unflatten(list(cts))))
    for c in SCALES:
        scaled = leaves(pull(structure.unflatten([ct * c for ct in cts])))
        same([dx / c for dx in scaled], want, 1e-5)


@law(RULES, "grad f under jit, vmap, scan and checkpoint = grad f", RULED)
def rules_work_under_transformations(f: Callable[..., PyTree], xs: Points) -> None:
    indices = tuple(range(len(xs)))
    want = effx.grad(weighted_sum_loss(f), indices)(*xs)
    for name in ("jit", "checkpoint", "scan", "cond", "vmap"):
        same(effx.grad(weighted_sum_loss(Stack((name,))(f)), indices)(*xs), want, note=name)
    bs = make_batch(xs)
    same(
        effx.vmap(effx.grad(weighted_sum_loss(f), indices))(*bs),
        loop_over_batch(effx.grad(weighted_sum_loss(f), indices), bs),
    )
