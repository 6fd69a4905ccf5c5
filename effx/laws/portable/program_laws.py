"""Laws of transformations, on random programs and on families of expressions."""

from collections.abc import Callable, Sequence

import numpy as np

from effx.effects import handle
from effx.laws.comparing import Data
from effx.laws.portable.cases import ROWS, Case, Kind, program_cases
from effx.laws.portable.comparing import (
    compare,
    find_slopes,
    pair,
    read_results,
    require_finite,
    to_arrays,
)
from effx.laws.portable.families import FAMILIES
from effx.laws.portable.implementation import Function, Implementation, Leaf
from effx.laws.portable.peers import of_effx
from effx.laws.portable.registry import Sources, portable_law
from effx.laws.registry import NotApplicable, NumPyFirst
from effx.tree.registry import PyTree

Values = tuple[Leaf, ...]
NUMBERS: tuple[Kind, ...] = ("plain", "ties")
ALL: tuple[Kind, ...] = ("plain", "ties", "special")
LOOPS = ("loops", "moved indices")


def find_sources(
    *kinds: Kind, reverse: bool = False, smooth: bool = False, only: Sequence[str] = ()
) -> Callable[[Implementation], Sources]:
    """Returns what makes the sources of a law: programs, and all families of expressions.

    Args:
        kinds: of points.
        reverse: True if programs are differentiated in reverse mode.
        smooth: True if derivatives are compared with differences.
        only: the families; all if there are none.
    """

    def list_sources(implementation: Implementation) -> Sources:
        left_out = implementation.one_way if reverse else ()
        constructs = [c for c in implementation.constructs if c not in left_out]
        sources: Sources = {"programs": program_cases(implementation, kinds, constructs, smooth or reverse)}
        for family in FAMILIES:
            if not only or family.name in only:
                sources[family.name] = family.cases(kinds)
        return sources

    return list_sources


def start(implementation: Implementation, case: Case) -> tuple[Function, Values, PyTree]:
    """Returns a case's function, arguments and results.

    Raises:
        NotApplicable: the program does not run, on a partial implementation.
    """
    f, xs = case.function(implementation), case.arguments(implementation)
    try:
        y = f(*xs)
        read_results(y)
    except Exception as error:
        if implementation.partial:
            raise NotApplicable(f"the program does not run: {error}") from None
        raise
    return f, xs, y


def draw_tangents(implementation: Implementation, case: Case, purpose: int = 1) -> Values:
    """Draws a tangent for each argument."""
    return to_arrays(implementation, case.draw_like(case.data(), purpose))


def draw_cotangent(implementation: Implementation, case: Case, y: PyTree, purpose: int = 3) -> PyTree:
    """Draws a cotangent for each result, in the results' structure."""
    cts = to_arrays(implementation, case.draw_like(read_results(y), purpose))
    return cts if isinstance(y, tuple) else cts[0]


def weigh(implementation: Implementation, case: Case, f: Function, y: PyTree) -> Function:
    """Returns the weighted sum of a function's results, a function with gradients."""
    weights = to_arrays(implementation, case.draw_like(read_results(y), 5))

    def loss(*xs: Leaf) -> Leaf:
        results = f(*xs)
        parts = results if isinstance(results, tuple) else (results,)
        total: PyTree = 0.0
        for part, w in zip(parts, weights, strict=True):
            total = total + (part * w).sum()
        return total

    return loss


def all_arguments(xs: Sequence[object]) -> tuple[int, ...]:
    """Returns the positions of all arguments."""
    return tuple(range(len(xs)))


# Values.


@portable_law("f(x) = f(x) with loops, branches and calls in Python", find_sources(*ALL, only=LOOPS))
def control_flow_is_python(implementation: Implementation, case: Case) -> None:
    _, xs, y = start(implementation, case)
    compare(y, case.python_function(implementation)(*xs))


@portable_law("jit f(x) = f(x)", find_sources(*ALL), ("jit",), ("effx.jit(f)(*xs)", "f(*xs)"))
def jit_keeps_values(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    assert implementation.jit is not None
    compare(implementation.jit(f)(*xs), y)


@portable_law(
    "f(x) = f(x) on NumPy, as effx's reference handler has it", find_sources(*NUMBERS), (), ("f(*xs)",)
)
def values_are_the_references(implementation: Implementation, case: Case) -> None:
    _, _, y = start(implementation, case)
    reference = of_effx()
    with reference.precision(True), handle(NumPyFirst()):
        want = read_results(case.function(reference)(*case.arguments(reference)))
    compare(y, want, 1e-8)


@portable_law("in 32 bits f(x) is near f(x) in 64 bits", find_sources("plain"))
def short_floats_are_near(implementation: Implementation, case: Case) -> None:
    f, _, y = start(implementation, case)
    want = find_slopes(implementation, f, case.data(), case.draw_like(case.data()))
    require_finite(y)
    with implementation.precision(False):
        short = to_arrays(implementation, [x.astype(np.float32) for x in case.data()])
        vs = to_arrays(implementation, [v.astype(np.float32) for v in case.draw_like(case.data())])
        got = f(*short)
        tangents = implementation.jvp(f, short, vs)
    for data in read_results((got, tangents)):
        assert data.dtype == np.float32, f"dtype {data.dtype}"
    compare(got, y, 1e-2)
    compare(tangents[1], want, 2e-2, "tangent:")


# Forward mode.


@portable_law(
    "jvp f(x)(v) = (f(x + h v) - f(x - h v)) / 2h",
    find_sources("plain", smooth=True),
    (),
    ("effx.jvp(f, xs, vs)[1]", "(f(*[x + 1e-6 * v for x, v in zip(xs, vs)]) - f(*xs)) / 1e-6"),
)
def tangents_are_slopes(implementation: Implementation, case: Case) -> None:
    f, xs, _ = start(implementation, case)
    want = find_slopes(implementation, f, case.data(), case.draw_like(case.data()))
    compare(implementation.jvp(f, xs, draw_tangents(implementation, case))[1], want, 1e-5)


@portable_law(
    "jvp, vjp, linearize and value_and_grad give f(x) besides",
    find_sources(*ALL, reverse=True),
    (),
    ("effx.vjp(f, *xs)[0]", "f(*xs)"),
)
def derivatives_keep_values(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    compare(implementation.jvp(f, xs, draw_tangents(implementation, case))[0], y, note="jvp:")
    compare(implementation.vjp(f, *xs)[0], y, note="vjp:")
    if implementation.linearize is not None:
        compare(implementation.linearize(f, *xs)[0], y, note="linearize:")
    loss = weigh(implementation, case, f, y)
    compare(implementation.value_and_grad(loss, all_arguments(xs))(*xs)[0], loss(*xs), note="value_and_grad:")


@portable_law("jvp f(x) is linear", find_sources(*NUMBERS))
def tangents_are_linear(implementation: Implementation, case: Case) -> None:
    f, xs, _ = start(implementation, case)
    u, v = case.draw_like(case.data(), 1), case.draw_like(case.data(), 2)
    parts = [implementation.jvp(f, xs, to_arrays(implementation, t))[1] for t in (u, v)]
    both = to_arrays(implementation, [2.0 * a - 0.5 * b for a, b in zip(u, v, strict=True)])
    require_finite(*parts)
    want = [2.0 * a - 0.5 * b for a, b in zip(read_results(parts[0]), read_results(parts[1]), strict=True)]
    compare(implementation.jvp(f, xs, both)[1], want)


@portable_law(
    "linearize f(x) v = jvp f(x) v",
    find_sources(*ALL, reverse=True),
    ("linearize",),
    ("effx.linearize(f, *xs)[1](*vs)", "effx.jvp(f, xs, vs)[1]"),
)
def linearize_is_jvp(implementation: Implementation, case: Case) -> None:
    f, xs, _ = start(implementation, case)
    vs = draw_tangents(implementation, case)
    assert implementation.linearize is not None
    compare(implementation.linearize(f, *xs)[1](*vs), implementation.jvp(f, xs, vs)[1])


@portable_law(
    "jit(jvp f) = jvp(jit f) = jvp f",
    find_sources(*ALL),
    ("jit",),
    ("effx.jit(lambda xs, vs: effx.jvp(f, xs, vs))(xs, vs)", "effx.jvp(f, xs, vs)"),
)
def jit_keeps_tangents(implementation: Implementation, case: Case) -> None:
    f, xs, _ = start(implementation, case)
    vs, jit = draw_tangents(implementation, case), implementation.jit
    assert jit is not None
    want = implementation.jvp(f, xs, vs)
    compare(
        jit(lambda *both: implementation.jvp(f, both[: len(xs)], both[len(xs) :]))(*xs, *vs),
        want,
        note="jit outside:",
    )
    compare(implementation.jvp(jit(f), xs, vs), want, note="jit inside:")


# Reverse mode.


@portable_law(
    "<ct, jvp f(x) v> = <vjp f(x) ct, v>",
    find_sources(*NUMBERS, reverse=True),
    (),
    ("effx.jvp(f, xs, vs)[1]", "effx.vjp(f, *xs)[1](f(*xs))"),
)
def pullback_is_the_adjoint(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    vs, ct = draw_tangents(implementation, case), draw_cotangent(implementation, case, y)
    dy, cts = implementation.jvp(f, xs, vs)[1], implementation.vjp(f, *xs)[1](ct)
    require_finite(dy, cts)
    for x, c in zip(xs, cts, strict=True):
        assert read_results(c)[0].shape == read_results(x)[0].shape, "a cotangent has another shape"
    compare(np.float64(pair(ct, dy)), np.float64(pair(cts, vs)), 1e-8)


@portable_law("the pullback of vjp f(x) is linear", find_sources(*NUMBERS, reverse=True))
def pullback_is_linear(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    pull = implementation.vjp(f, *xs)[1]
    one, two = (case.draw_like(read_results(y), k) for k in (3, 4))

    def pull_back(data: Sequence[Data]) -> list[Data]:
        cts = to_arrays(implementation, data)
        return read_results(pull(cts if isinstance(y, tuple) else cts[0]))

    parts = [pull_back(c) for c in (one, two)]
    require_finite(*parts)
    both = [2.0 * a - 0.5 * b for a, b in zip(one, two, strict=True)]
    compare(pull_back(both), [2.0 * a - 0.5 * b for a, b in zip(*parts, strict=True)])


@portable_law(
    "grad of a sum of f = vjp f(x) at ones; jit(grad f) = grad(jit f) = grad f",
    find_sources(*ALL, reverse=True),
    ("jit",),
    ("effx.jit(effx.grad(lambda *xs: f(*xs).sum()))(*xs)", "effx.grad(lambda *xs: f(*xs).sum())(*xs)"),
)
def jit_keeps_gradients(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    loss, argnums, jit = weigh(implementation, case, f, y), all_arguments(xs), implementation.jit
    assert jit is not None
    want = implementation.grad(loss, argnums)(*xs)
    ct = to_arrays(implementation, case.draw_like(read_results(y), 5))
    compare(implementation.vjp(f, *xs)[1](ct if isinstance(y, tuple) else ct[0]), want, note="vjp:")
    compare(jit(implementation.grad(loss, argnums))(*xs), want, note="jit outside:")
    compare(implementation.grad(jit(loss), argnums)(*xs), want, note="jit inside:")


@portable_law(
    "jacfwd f = jacrev f",
    find_sources(*NUMBERS, reverse=True),
    (),
    ("effx.jacfwd(f)(*xs)", "effx.jacrev(f)(*xs)"),
)
def jacobians_agree(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    require_finite(y)
    names: PyTree = implementation.namespace["effx"]
    forward = names.jacfwd(f, all_arguments(xs))(*xs)
    require_finite(forward)
    compare(names.jacrev(f, all_arguments(xs))(*xs), forward)


@portable_law(
    "gradients through loops, branches and calls are those of Python's",
    find_sources(*NUMBERS, reverse=True, only=LOOPS),
)
def gradients_of_control_flow(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    g = case.python_function(implementation)
    argnums = all_arguments(xs)
    got = implementation.grad(weigh(implementation, case, f, y), argnums)(*xs)
    compare(got, implementation.grad(weigh(implementation, case, g, y), argnums)(*xs))


# Second derivatives.


@portable_law(
    "jvp(grad f)(x)(v) = (grad f(x + h v) - grad f(x - h v)) / 2h",
    find_sources("plain", reverse=True, smooth=True),
    (),
    ("effx.hessian(lambda *xs: f(*xs).sum())(*xs)",),
)
def second_derivatives_are_slopes(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    gradient = implementation.grad(weigh(implementation, case, f, y), all_arguments(xs))
    want = find_slopes(implementation, gradient, case.data(), case.draw_like(case.data()))
    compare(implementation.jvp(gradient, xs, draw_tangents(implementation, case))[1], want, 1e-5)


@portable_law(
    "second derivatives: forward over reverse = reverse over forward = reverse over reverse = forward over forward",
    find_sources("plain", reverse=True),
    (),
    (
        "effx.jacfwd(effx.jacrev(lambda *xs: f(*xs).sum()))(*xs)",
        "effx.jacrev(effx.jacfwd(lambda *xs: f(*xs).sum()))(*xs)",
    ),
)
def modes_agree(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    loss, argnums = weigh(implementation, case, f, y), all_arguments(xs)
    u, v = draw_tangents(implementation, case, 1), draw_tangents(implementation, case, 2)
    gradient = implementation.grad(loss, argnums)

    def slope(*ys: Leaf) -> Leaf:
        return implementation.jvp(loss, ys, v)[1]

    def gradient_along(*ys: Leaf) -> Leaf:
        parts = [(g * t).sum() for g, t in zip(gradient(*ys), v, strict=True)]
        return sum(parts[1:], parts[0])

    forward_over_reverse = implementation.jvp(gradient, xs, v)[1]
    require_finite(forward_over_reverse)
    compare(implementation.grad(slope, argnums)(*xs), forward_over_reverse, 1e-8, "reverse over forward:")
    compare(
        implementation.grad(gradient_along, argnums)(*xs), forward_over_reverse, 1e-8, "reverse over reverse:"
    )
    twice = implementation.jvp(slope, xs, u)[1]
    compare(twice, np.float64(pair(forward_over_reverse, u)), 1e-8, "forward over forward:")


# Batches.


def _draw_batch(
    implementation: Implementation, case: Case
) -> tuple[list[Values], Values, list[int | None], int]:
    """Returns the rows of a batch, the batched arguments, and their axes and that of the results."""
    rng = np.random.default_rng([case.seed, 5])
    rows = [list(case.data(row)) for row in range(ROWS)]
    axes: list[int | None] = []
    arguments: list[Data] = []
    batched = int(rng.integers(len(case.shapes)))
    for i, shape in enumerate(case.shapes):
        if i != batched and rng.random() < 0.3:
            axes.append(None)
            arguments.append(rows[0][i])
            for row in rows:
                row[i] = rows[0][i]
        else:
            axis = int(rng.choice([0, -1, 1 if shape else 0]))
            axes.append(axis)
            arguments.append(np.stack([row[i] for row in rows], axis))
    return (
        [to_arrays(implementation, row) for row in rows],
        to_arrays(implementation, arguments),
        axes,
        int(rng.choice([0, 0, -1])),
    )


def _stack_rows(results: Sequence[PyTree], axis: int) -> list[Data]:
    return [np.stack(parts, axis) for parts in zip(*[read_results(r) for r in results], strict=True)]


@portable_law(
    "vmap f(xs) = the stack of f(x)",
    find_sources(*ALL),
    (),
    ("effx.vmap(f)(*[np.stack([x, x]) for x in xs])", "f(*xs)"),
)
def vmap_is_a_loop(implementation: Implementation, case: Case) -> None:
    f, _, _ = start(implementation, case)
    rows, batch, axes, out = _draw_batch(implementation, case)
    want = _stack_rows([f(*row) for row in rows], out)
    try:
        compare(implementation.vmap(f, axes, out)(*batch), want)
    except AssertionError as error:
        raise AssertionError(
            f"in_axes={axes}, out_axes={out}, batch={[read_results(b) for b in batch]}: {error}"
        ) from None


@portable_law("vmap(vmap f) = two loops", find_sources("plain", "ties"))
def vmap_nests(implementation: Implementation, case: Case) -> None:
    f, _, _ = start(implementation, case)
    rows = [case.arguments(implementation, row) for row in range(4)]
    square = [
        np.stack([case.data(row)[i] for row in range(4)]).reshape(2, 2, *s) for i, s in enumerate(case.shapes)
    ]
    want = [x.reshape(2, 2, *x.shape[1:]) for x in _stack_rows([f(*row) for row in rows], 0)]
    zeros, ones = [0] * len(square), [1] * len(square)
    batch = to_arrays(implementation, square)
    compare(implementation.vmap(implementation.vmap(f, zeros, 0), zeros, 0)(*batch), want, note="by rows:")
    compare(implementation.vmap(implementation.vmap(f, zeros, 0), ones, 1)(*batch), want, note="by columns:")


@portable_law(
    "vmap(jvp f) = the stack of jvp f(x)(v)",
    find_sources(*NUMBERS),
    (),
    ("effx.jvp(f, xs, vs)[1]",),
)
def vmap_of_tangents(implementation: Implementation, case: Case) -> None:
    f, _, _ = start(implementation, case)
    rows, batch, axes, _ = _draw_batch(implementation, case)
    vs = draw_tangents(implementation, case)

    def slope(*ys: Leaf) -> PyTree:
        return implementation.jvp(f, ys, vs)[1]

    compare(
        implementation.vmap(slope, axes, 0)(*batch),
        _stack_rows([slope(*row) for row in rows], 0),
        note=f"{axes}",
    )


@portable_law(
    "vmap(grad f) = the stack of grad f(x) = grad of the sum of vmap f",
    find_sources(*NUMBERS, reverse=True),
    (),
    (
        "effx.vmap(effx.grad(lambda *xs: f(*xs).sum()))(*[np.stack([x, x]) for x in xs])",
        "effx.grad(lambda *xs: f(*xs).sum())(*xs)",
    ),
)
def vmap_of_gradients(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    loss = weigh(implementation, case, f, y)
    gradient = implementation.grad(loss, all_arguments(xs))
    rows, batch, axes, _ = _draw_batch(implementation, case)
    compare(
        implementation.vmap(gradient, axes, 0)(*batch),
        _stack_rows([gradient(*row) for row in rows], 0),
        note=f"{axes}",
    )
    whole = [np.stack([case.data(row)[i] for row in range(ROWS)]) for i in range(len(xs))]
    zeros = [0] * len(xs)
    want = _stack_rows([gradient(*case.arguments(implementation, row)) for row in range(ROWS)], 0)
    require_finite(want)
    total = implementation.grad(lambda *b: implementation.vmap(loss, zeros, 0)(*b).sum(), all_arguments(xs))
    compare(total(*to_arrays(implementation, whole)), want, note="of the sum:")


@portable_law("jit(vmap f) = vmap(jit f) = vmap f", find_sources(*ALL), ("jit",))
def jit_keeps_batches(implementation: Implementation, case: Case) -> None:
    f, _, _ = start(implementation, case)
    _, batch, axes, out = _draw_batch(implementation, case)
    jit = implementation.jit
    assert jit is not None
    want = implementation.vmap(f, axes, out)(*batch)
    compare(jit(implementation.vmap(f, axes, out))(*batch), want, note="jit outside:")
    compare(implementation.vmap(jit(f), axes, out)(*batch), want, note="jit inside:")


@portable_law("vmap f of no rows = no rows of f's shape", find_sources("plain"))
def vmap_of_nothing(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    batch = to_arrays(implementation, [np.zeros((0, *shape)) for shape in case.shapes])
    got = read_results(implementation.vmap(f, [0] * len(xs), 0)(*batch))
    assert [x.shape for x in got] == [(0, *x.shape) for x in read_results(y)]


# Rules of one's own.


@portable_law(
    "custom_jvp with the true rule changes nothing",
    find_sources("plain", reverse=True),
    ("custom_jvp", "jit"),
)
def true_tangent_rules_change_nothing(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    attach, jit = implementation.custom_jvp, implementation.jit
    assert attach is not None
    assert jit is not None
    g = attach(f, lambda primals, tangents: implementation.jvp(f, tuple(primals), tuple(tangents)))
    vs, argnums = draw_tangents(implementation, case), all_arguments(xs)
    compare(g(*xs), y, note="value:")
    compare(implementation.jvp(g, xs, vs), implementation.jvp(f, xs, vs), note="jvp:")
    want = implementation.grad(weigh(implementation, case, f, y), argnums)(*xs)
    gradient = implementation.grad(weigh(implementation, case, g, y), argnums)
    compare(gradient(*xs), want, note="grad:")
    compare(jit(gradient)(*xs), want, note="jit of grad:")
    rows, batch, axes, out = _draw_batch(implementation, case)
    compare(
        implementation.vmap(g, axes, out)(*batch), _stack_rows([f(*row) for row in rows], out), note="vmap:"
    )
    compare(
        implementation.vmap(gradient, axes, 0)(*batch),
        _stack_rows([gradient(*row) for row in rows], 0),
        note="vmap of grad:",
    )


@portable_law(
    "custom_vjp with the true rule changes nothing",
    find_sources("plain", reverse=True),
    ("custom_vjp", "jit"),
)
def true_cotangent_rules_change_nothing(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    attach, jit = implementation.custom_vjp, implementation.jit
    assert attach is not None
    assert jit is not None
    g = attach(f, lambda *ys: (f(*ys), ys), lambda ys, ct: implementation.vjp(f, *ys)[1](ct))
    argnums = all_arguments(xs)
    compare(g(*xs), y, note="value:")
    want = implementation.grad(weigh(implementation, case, f, y), argnums)(*xs)
    gradient = implementation.grad(weigh(implementation, case, g, y), argnums)
    compare(gradient(*xs), want, note="grad:")
    compare(jit(gradient)(*xs), want, note="jit of grad:")
    rows, batch, axes, out = _draw_batch(implementation, case)
    compare(
        implementation.vmap(g, axes, out)(*batch), _stack_rows([f(*row) for row in rows], out), note="vmap:"
    )
    compare(
        implementation.vmap(gradient, axes, 0)(*batch),
        _stack_rows([gradient(*row) for row in rows], 0),
        note="vmap of grad:",
    )


@portable_law(
    "a false rule of custom_jvp or custom_vjp is used: derivatives are doubled",
    find_sources("plain", reverse=True),
    ("custom_jvp", "custom_vjp"),
)
def rules_are_used(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    assert implementation.custom_jvp is not None
    assert implementation.custom_vjp is not None

    def double(tree: PyTree) -> PyTree:
        return tuple([2.0 * x for x in tree]) if isinstance(tree, tuple) else 2.0 * tree

    def rule(primals: PyTree, tangents: PyTree) -> PyTree:
        y, dy = implementation.jvp(f, tuple(primals), tuple(tangents))
        return y, double(dy)

    forward = implementation.custom_jvp(f, rule)
    reverse = implementation.custom_vjp(
        f, lambda *ys: (f(*ys), ys), lambda ys, ct: implementation.vjp(f, *ys)[1](double(ct))
    )
    want = [
        2.0 * g
        for g in read_results(implementation.grad(weigh(implementation, case, f, y), all_arguments(xs))(*xs))
    ]
    for g, name in ((forward, "custom_jvp:"), (reverse, "custom_vjp:")):
        compare(
            implementation.grad(weigh(implementation, case, g, y), all_arguments(xs))(*xs), want, note=name
        )


@portable_law(
    "checkpoint changes neither values nor derivatives",
    find_sources(*NUMBERS, reverse=True),
    ("checkpoint", "jit"),
    ("effx.grad(lambda *xs: effx.checkpoint(f)(*xs).sum())(*xs)", "effx.grad(lambda *xs: f(*xs).sum())(*xs)"),
)
def checkpoint_changes_nothing(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)
    checkpoint, jit = implementation.checkpoint, implementation.jit
    assert checkpoint is not None
    assert jit is not None
    g, argnums, vs = checkpoint(f), all_arguments(xs), draw_tangents(implementation, case)
    compare(g(*xs), y, note="value:")
    compare(implementation.jvp(g, xs, vs), implementation.jvp(f, xs, vs), note="jvp:")
    want = implementation.grad(weigh(implementation, case, f, y), argnums)(*xs)
    gradient = implementation.grad(weigh(implementation, case, g, y), argnums)
    compare(gradient(*xs), want, note="grad:")
    compare(jit(gradient)(*xs), want, note="jit of grad:")


@portable_law("stop_gradient keeps values and has no derivative", find_sources(*NUMBERS, reverse=True))
def stop_gradient_stops(implementation: Implementation, case: Case) -> None:
    f, xs, y = start(implementation, case)

    def stopped(*ys: Leaf) -> PyTree:
        return f(*[implementation.stop_gradient(x) for x in ys])

    loss = weigh(implementation, case, stopped, y)
    compare(stopped(*xs), y)
    got = implementation.grad(
        lambda *ys: loss(*ys) + sum([0.0 * x.sum() for x in ys], 0.0), all_arguments(xs)
    )(*xs)
    compare(got, [np.zeros(s) for s in case.shapes])
