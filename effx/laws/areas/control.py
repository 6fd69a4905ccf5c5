"""Laws of control flow: loops and branches agree with Python's, under every transformation."""

from collections.abc import Callable
from functools import partial

from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import lax, tree
from effx.array import Array
from effx.laws.areas.subjects import (
    LOOPS,
    SMALL,
    Function,
    Points,
    gradient_of_loss,
    loop_over_batch,
    make_batch,
    weighted_sum_loss,
)
from effx.laws.comparing import directions, same
from effx.laws.control_oracle import python_form
from effx.laws.programs import cases, programs
from effx.laws.registry import law
from effx.tree.registry import PyTree

AREA = "control flow"

# A loop's body: from the carry and a row to the next carry and an output.
STEPS = cases(
    programs(
        constructs=("cond", "jit", "checkpoint", "fori"),
        shapes=((), (3,)),
        most_steps=3,
        depth=1,
        results=1,
        most_arguments=1,
    )
)


def step_of(f: Function) -> Function:
    """Makes a scan's body of a function of one array: the carry's type does not change."""

    def step(carry: Array, row: Array) -> tuple[Array, Array]:
        y = f(carry * 0.8 + row)
        value = enp.tanh(carry * 0.5 + enp.sum(y) * 0.3 + row)
        return value, enp.sum(value) * row

    return step


ROWS = (0.3, -0.6, 0.9, 0.2)


def rows(count: int = 4) -> Array:
    """Returns the rows of a scan."""
    return enp.asarray(ROWS[:count])


@law(AREA, "scan, cond, while, map = their Python loops and ifs", cases(programs(smooth=False)), share=0.6)
def control_flow_is_python(f: Function, xs: Points) -> None:
    same(f(*xs), python_form(f)(*xs))


@law(AREA, "jvp of control flow = jvp of its Python form", LOOPS, share=0.6)
def tangents_of_control_flow(f: Function, xs: Points) -> None:
    vs = directions(xs)
    same(effx.jvp(f, tuple(xs), vs), effx.jvp(python_form(f), tuple(xs), vs))


@law(AREA, "grad of control flow = grad of its Python form", LOOPS, share=0.6)
def gradients_of_control_flow(f: Function, xs: Points) -> None:
    indices = tuple(range(len(xs)))
    same(
        effx.grad(weighted_sum_loss(f), indices)(*xs),
        effx.grad(weighted_sum_loss(python_form(f)), indices)(*xs),
    )


@law(AREA, "vmap of control flow with batched predicates = a loop of its Python form", LOOPS, share=0.6)
def batches_of_control_flow(f: Function, xs: Points) -> None:
    bs = make_batch(xs, 3)
    same(effx.vmap(lambda *ys: f(*ys))(*bs), loop_over_batch(python_form(f), bs))


@law(AREA, "vmap(grad) of control flow = a loop of grad of its Python form", LOOPS, share=0.6)
def batched_gradients_of_control_flow(f: Function, xs: Points) -> None:
    bs, indices = make_batch(xs), tuple(range(len(xs)))
    got = effx.vmap(effx.grad(weighted_sum_loss(f), indices))(*bs)
    same(got, loop_over_batch(effx.grad(weighted_sum_loss(python_form(f)), indices), bs))


@law(AREA, "grad(vmap) of control flow = grad of a loop of its Python form", LOOPS)
def gradients_of_batched_control_flow(f: Function, xs: Points) -> None:
    bs, indices = make_batch(xs), tuple(range(len(xs)))
    got = effx.grad(weighted_sum_loss(effx.vmap(lambda *ys: f(*ys))), indices)(*bs)
    same(got, effx.grad(weighted_sum_loss(lambda *ys: loop_over_batch(python_form(f), ys)), indices)(*bs))


@law(AREA, "second derivatives of control flow = those of its Python form", LOOPS)
def second_derivatives_of_control_flow(f: Function, xs: Points) -> None:
    vs, indices = directions(xs), tuple(range(len(xs)))

    def second(g: Function) -> PyTree:
        return effx.jvp(effx.grad(weighted_sum_loss(g), indices), tuple(xs), vs)[1]

    same(second(f), second(python_form(f)), 1e-8)


def tangent(f: Function) -> Function:
    """The derivative along fixed directions, of the arguments' types."""
    return lambda *xs: effx.jvp(lambda *ys: f(*ys), xs, directions(xs))[1]


def derivative_by_linearize(f: Function) -> Function:
    """The derivative along fixed directions, by linearize."""
    return lambda *xs: effx.linearize(lambda *ys: f(*ys), *xs)[1](*directions(xs))


def batched(f: Function) -> Function:
    """The function on a batch made of its point."""
    return lambda *xs: effx.vmap(lambda *ys: f(*ys))(*make_batch(xs))


def checkpointed_function(f: Function) -> Function:
    """The function under checkpoint."""
    return effx.checkpoint(lambda *xs: f(*xs))


def apply_one_by_one(f: Function) -> Function:
    """The same batch, one element after the other."""
    return lambda *xs: loop_over_batch(f, make_batch(xs))


Transformation = Callable[[Function], Function]
# Each takes the functions that batch and save: `vmap` and `checkpoint`, or for Python's control flow a loop
# and none.
ARRANGEMENTS: dict[str, Callable[[Function, Transformation, Transformation], Function]] = {
    "linearize": lambda f, many, save: derivative_by_linearize(f),
    "grad of jvp": lambda f, many, save: gradient_of_loss(tangent(f)),
    "grad of grad": lambda f, many, save: gradient_of_loss(gradient_of_loss(f)),
    "grad of linearize": lambda f, many, save: gradient_of_loss(derivative_by_linearize(f)),
    "vmap of vmap": lambda f, many, save: many(many(f)),
    "vmap of jvp of grad": lambda f, many, save: many(tangent(gradient_of_loss(f))),
    "grad of vmap of vmap": lambda f, many, save: gradient_of_loss(many(many(f))),
    "jvp of vmap of checkpoint": lambda f, many, save: tangent(many(save(f))),
    "grad of checkpoint of vmap": lambda f, many, save: gradient_of_loss(save(many(f))),
    "grad of vmap of checkpoint": lambda f, many, save: gradient_of_loss(many(save(f))),
    "jvp of checkpoint of grad": lambda f, many, save: tangent(save(gradient_of_loss(f))),
    "grad of checkpoint of checkpoint": lambda f, many, save: gradient_of_loss(save(save(f))),
    "grad of vmap of grad": lambda f, many, save: gradient_of_loss(many(gradient_of_loss(f))),
}
ARRANGED = st.tuples(st.sampled_from(list(ARRANGEMENTS)), LOOPS).map(lambda pair: (pair[0], *pair[1]))


@law(
    AREA,
    "T(control flow) = T(its Python form) for arrangements T of two to four transformations",
    ARRANGED,
    share=2.4,
)
def arranged_transformations_of_control_flow(name: str, f: Function, xs: Points) -> None:
    arrange = ARRANGEMENTS[name]
    want = arrange(python_form(f), apply_one_by_one, lambda g: g)(*xs)
    same(arrange(f, batched, checkpointed_function)(*xs), want, 1e-7)


@law(AREA, "checkpoint of control flow and of its gradient change nothing", LOOPS)
def checkpoints_of_control_flow(f: Function, xs: Points) -> None:
    indices = tuple(range(len(xs)))
    want = effx.grad(weighted_sum_loss(python_form(f)), indices)(*xs)
    same(effx.grad(weighted_sum_loss(effx.checkpoint(lambda *ys: f(*ys))), indices)(*xs), want)
    same(effx.checkpoint(effx.grad(weighted_sum_loss(f), indices))(*xs), want)


@law(AREA, "cond(true, f, g) = f and cond(false, f, g) = g, in value and gradient", SMALL)
def branches_are_taken(f: Function, xs: Points) -> None:
    other: Function = lambda *ys: tree.map(lambda y: y * 2.0 + 1.0, f(*ys))  # noqa: E731 - the other branch
    for predicate, branch in ((True, f), (False, other)):

        def choose(*ys: Array, predicate: bool = predicate) -> PyTree:
            return lax.cond(enp.asarray(predicate), f, other, *ys)

        same(choose(*xs), branch(*xs))
        same(effx.grad(weighted_sum_loss(choose))(*xs), effx.grad(weighted_sum_loss(branch))(*xs))


@law(
    AREA,
    "switch(i, fs) = fs[min(max(i, 0), n - 1)]",
    st.tuples(st.integers(-2, 4), SMALL).map(lambda c: (c[0], *c[1])),
)
def switches_clamp(index: int, f: Function, xs: Points) -> None:
    branches = [lambda *ys, k=k: tree.map(lambda y: y * k, f(*ys)) for k in (1.0, 2.0, 3.0)]
    got = lax.switch(enp.asarray(index, enp.int32), branches, *xs)
    same(got, branches[min(max(index, 0), 2)](*xs))


@law(AREA, "scan backward of xs = scan of reversed xs, reversed", STEPS)
def scans_reverse(f: Function, xs: Points) -> None:
    step = step_of(f)
    last, ys = lax.scan(step, xs[0], rows(), reverse=True)
    other, reverse = lax.scan(step, xs[0], rows()[::-1])
    same((last, ys), (other, reverse[::-1]))


@law(AREA, "scan with k steps unrolled in an iteration = scan", STEPS)
def scans_unroll(f: Function, xs: Points) -> None:
    step = step_of(f)
    want = lax.scan(step, xs[0], rows())
    for unroll in (2, 3, True):
        same(lax.scan(step, xs[0], rows(), unroll=unroll), want)


@law(AREA, "scan(xs ++ ys) = scan(ys) after scan(xs)", STEPS)
def scans_split(f: Function, xs: Points) -> None:
    step = step_of(f)
    last, ys = lax.scan(step, xs[0], rows())
    middle, first = lax.scan(step, xs[0], rows()[:1])
    end, second = lax.scan(step, middle, rows()[1:])
    same((last, ys), (end, enp.concatenate([first, second])))


@law(AREA, "scan of no steps = (init, nothing), and while of none = init", STEPS)
def empty_loops_do_nothing(f: Function, xs: Points) -> None:
    step = step_of(f)
    last, ys = lax.scan(step, xs[0], rows()[:0])
    same(last, xs[0], 0.0)
    assert ys.shape == (0,)
    same(lax.while_loop(lambda v: enp.asarray(False), lambda v: step(v, 0.1)[0], xs[0]), xs[0], 0.0)


@law(AREA, "a carry that never changes = a value that is closed over, in value and gradient", STEPS)
def constant_carries_are_closures(f: Function, xs: Points) -> None:
    step = step_of(f)
    weight = enp.asarray(0.4)

    def carried(x: Array, w: Array) -> PyTree:
        (last, _), ys = lax.scan(lambda c, r: ((step(c[0], r * c[1])[0], c[1]), c[0].sum()), (x, w), rows())
        return last, ys

    def closed(x: Array, w: Array) -> PyTree:
        return lax.scan(lambda c, r: (step(c, r * w)[0], c.sum()), x, rows())

    same(carried(xs[0], weight), closed(xs[0], weight))
    same(
        effx.grad(weighted_sum_loss(carried), (0, 1))(xs[0], weight),
        effx.grad(weighted_sum_loss(closed), (0, 1))(xs[0], weight),
    )


@law(AREA, "fori(0, n, f) = scan of n steps = while i < n, in value and tangent", STEPS)
def loops_of_one_length_agree(f: Function, xs: Points) -> None:
    step = step_of(f)
    forms = (
        lambda x: lax.fori_loop(0, 3, lambda i, c: step(c, 0.2)[0], x),
        lambda x: lax.scan(lambda c, _: (step(c, 0.2)[0], None), x, None, length=3)[0],
        lambda x: lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, step(s[1], 0.2)[0]), (enp.int32(0), x)
        )[1],
    )
    vs = directions(xs[:1])
    want = effx.jvp(forms[0], (xs[0],), vs)
    for form in forms[1:]:
        same(effx.jvp(form, (xs[0],), vs), want)


@law(AREA, "while with max_steps = while, where these are enough, and has a gradient: scan's", STEPS)
def bounded_whiles(f: Function, xs: Points) -> None:
    step = step_of(f)

    def loop_bounded(x: Array) -> Array:
        body: Function = lambda s: (s[0] + 1, step(s[1], 0.2)[0])  # noqa: E731 - a step
        last: Array = lax.while_loop(lambda s: s[0] < 3, body, (enp.int32(0), x), max_steps=5)[1]
        return last

    def loop_by_scan(x: Array) -> Array:
        last: Array = lax.scan(lambda c, _: (step(c, 0.2)[0], None), x, None, length=3)[0]
        return last

    same(loop_bounded(xs[0]), loop_by_scan(xs[0]))
    same(effx.grad(weighted_sum_loss(loop_bounded))(xs[0]), effx.grad(weighted_sum_loss(loop_by_scan))(xs[0]))


@law(AREA, "map f = vmap f = the stacked f(row)", STEPS)
def maps_are_batches(f: Function, xs: Points) -> None:
    (b,) = make_batch(xs[:1], 3)
    want = loop_over_batch(f, [b])
    same(lax.map(f, b), want)
    same(lax.map(f, b, batch_size=2), want)
    same(effx.vmap(lambda x: f(x))(b), want)


@law(AREA, "vmap(cond) with a batched predicate = where", STEPS)
def batched_predicates_select(f: Function, xs: Points) -> None:
    (b,) = make_batch(xs[:1], 3)
    predicates = enp.asarray([True, False, True])
    other: Function = lambda x: f(x) * 2.0 + 1.0  # noqa: E731 - the other branch
    got = effx.vmap(lambda t, x: lax.cond(t, f, other, x))(predicates, b)
    want = enp.stack([f(b[0]), other(b[1]), f(b[2])])
    same(got, want)


@law(AREA, "scan of cond with a constant predicate = cond of scans", STEPS)
def constant_branches_move_out_of_loops(f: Function, xs: Points) -> None:
    step = step_of(f)
    other: Function = lambda c, r: step(c, r * 0.5 + 0.1)  # noqa: E731 - the other branch
    for predicate in (enp.asarray(True), enp.asarray(False)):
        inside = lax.scan(partial(lax.cond, predicate, step, other), xs[0], rows())
        outside = lax.cond(
            predicate, lambda x: lax.scan(step, x, rows()), lambda x: lax.scan(other, x, rows()), xs[0]
        )
        same(inside, outside)


@law(AREA, "scan(jit f) = scan f", STEPS)
def jitted_bodies(f: Function, xs: Points) -> None:
    step = step_of(f)
    jitted = effx.jit(step)
    same(lax.scan(lambda c, r: jitted(c, r), xs[0], rows()), lax.scan(step, xs[0], rows()))


@law(AREA, "associative_scan(+) = cumsum, and of matrices = a loop of products", STEPS)
def associative_scans(f: Function, xs: Points) -> None:
    values = enp.sin(f(xs[0])).reshape(-1)
    data = enp.concatenate([values, rows()])
    same(lax.associative_scan(lambda a, b: a + b, data), enp.cumsum(data))
    rotations = enp.stack([enp.cos(data), -enp.sin(data), enp.sin(data), enp.cos(data)], -1).reshape(
        (-1, 2, 2)
    )
    got = lax.associative_scan(lambda a, b: enp.matmul(b, a), rotations)
    product, want = enp.eye(2), []
    for i in range(data.shape[0]):
        product = enp.matmul(rotations[i], product)
        want.append(product)
    same(got, enp.stack(want))
