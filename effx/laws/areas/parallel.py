"""Laws of named axes: collectives under vmap and pmap agree with their NumPy forms.

Laws of pmap need four devices (`EFFX_NUM_CPU_DEVICES=4` makes a CPU pass for four); with fewer they pass
without a check.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Array
from effx.laws.areas.subjects import SMALL, Function, Points, make_batch, weighted_sum_loss
from effx.laws.arrays import arrays
from effx.laws.comparing import directions, inner_product, same
from effx.laws.registry import law
from effx.lower.placement.meshes import Mesh
from effx.sharding import NamedSharding, PartitionSpec

AREA = "parallel"
Data = npt.NDArray[np.float64]
REPLICAS = 4

# The operand of each batch element: a row of four numbers.
HELD = st.tuples(arrays("float64", (REPLICAS, 4)))
RING = [(i, (i + 1) % REPLICAS) for i in range(REPLICAS)]

COLLECTIVES: dict[str, tuple[Callable[[Array], Array], Callable[[Data], Data]]] = {
    "psum": (lambda x: lax.psum(x, "i"), lambda d: np.stack([d.sum(0)] * REPLICAS)),
    "pmean": (lambda x: lax.pmean(x, "i"), lambda d: np.stack([d.mean(0)] * REPLICAS)),
    "pmax": (lambda x: lax.pmax(x, "i"), lambda d: np.stack([d.max(0)] * REPLICAS)),
    "pmin": (lambda x: lax.pmin(x, "i"), lambda d: np.stack([d.min(0)] * REPLICAS)),
    "all_gather": (lambda x: lax.all_gather(x, "i"), lambda d: np.stack([d] * REPLICAS)),
    "ppermute": (lambda x: lax.ppermute(x, "i", RING), lambda d: np.roll(d, 1, 0)),
    "send one": (
        lambda x: lax.ppermute(x, "i", [(0, 2)]),
        lambda d: np.stack([0 * d[0], 0 * d[0], d[0], 0 * d[0]]),
    ),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), lambda d: d.sum(0)),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0), lambda d: d.T),
    "axis_index": (lambda x: x + lax.axis_index("i"), lambda d: d + np.arange(REPLICAS)[:, None]),
    "axis_size": (lambda x: x * lax.axis_size("i"), lambda d: d * REPLICAS),
    "groups": (
        lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]),
        lambda d: np.stack([d[0] + d[1]] * 2 + [d[2] + d[3]] * 2),
    ),
}
NAMES = st.sampled_from(list(COLLECTIVES))
LINEAR = st.sampled_from([n for n in COLLECTIVES if n not in ("pmax", "pmin", "axis_index")])


def vmap_over_name(f: Function) -> Function:
    """Returns the batched form, which binds the name."""
    return effx.vmap(f, axis_name="i")


@law(
    AREA,
    "vmap binding i: a collective over i = its NumPy form",
    st.tuples(NAMES, arrays("float64", (REPLICAS, 4))),
)
def collectives_are_numpy(name: str, x: Array) -> None:
    collective, want = COLLECTIVES[name]
    same(vmap_over_name(collective)(x), enp.asarray(want(np.asarray(x))))


@law(
    AREA,
    "pmap binding i: a collective over i = its NumPy form, with a device for each replica",
    st.tuples(NAMES, arrays("float64", (REPLICAS, 4))),
    compiles=True,
)
def devices_communicate(name: str, x: Array) -> None:
    if effx.local_device_count() < REPLICAS:
        return
    collective, want = COLLECTIVES[name]
    same(effx.pmap(collective, axis_name="i")(x), enp.asarray(want(np.asarray(x))))


@law(
    AREA,
    "<ct, C v> = <C^T ct, v> for a linear collective C",
    st.tuples(LINEAR, arrays("float64", (REPLICAS, 4))),
)
def linear_collectives_transpose(name: str, x: Array) -> None:
    f = vmap_over_name(COLLECTIVES[name][0])
    (v,) = directions([x])
    y, pull = effx.vjp(f, x)
    (ct,) = directions([y], 3)
    left, right = inner_product([ct], [effx.jvp(f, (x,), (v,))[1]]), inner_product(pull(ct), [v])
    assert abs(left - right) <= 1e-9 * max(1.0, abs(left)), (left, right)


@law(
    AREA,
    "psum over (i, j) = psum over i of psum over j, in either order",
    st.tuples(arrays("float64", (2, 3, 2))),
)
def sums_over_several_axes(x: Array) -> None:
    def replicas(f: Function) -> Array:
        result: Array = effx.vmap(effx.vmap(f, axis_name="j"), axis_name="i")(x)
        return result

    want = enp.broadcast_to(x.sum((0, 1)), x.shape)
    same(replicas(lambda y: lax.psum(y, ("i", "j"))), want)
    same(replicas(lambda y: lax.psum(lax.psum(y, "j"), "i")), want)
    same(replicas(lambda y: lax.psum(lax.psum(y, "i"), "j")), want)


@law(AREA, "ppermute p after ppermute p^-1 = id; all_to_all twice = id", HELD)
def exchanges_invert(x: Array) -> None:
    back = [(b, a) for a, b in RING]
    same(vmap_over_name(lambda y: lax.ppermute(lax.ppermute(y, "i", RING), "i", back))(x), x, 0.0)
    twice = vmap_over_name(lambda y: lax.all_to_all(lax.all_to_all(y, "i", 0, 0), "i", 0, 0))
    same(twice(x), x, 0.0)


@law(AREA, "psum = all_gather, then sum; psum_scatter = psum, then each element's part", HELD)
def sums_are_gathered(x: Array) -> None:
    want = vmap_over_name(lambda y: lax.psum(y, "i"))(x)
    same(vmap_over_name(lambda y: lax.all_gather(y, "i").sum(0))(x), want)
    own = vmap_over_name(lambda y: enp.asarray(lax.psum(y, "i"))[lax.axis_index("i")])(x)
    same(vmap_over_name(lambda y: lax.psum_scatter(y, "i"))(x), own)
    same(vmap_over_name(lambda y: lax.all_gather(lax.psum_scatter(y, "i"), "i"))(x), want)


def with_collective(f: Function) -> Function:
    """Returns a function with a collective after `f`."""
    return lambda *xs: tuple([lax.pmean(y, "i") * 0.5 + enp.sin(y) for y in f(*xs)])


@law(AREA, "vmap(f, then pmean) = loop of f, then the mean", SMALL)
def replicas_meet(f: Function, xs: Points) -> None:
    bs = make_batch(xs)
    rows = [f(*[b[m] for b in bs]) for m in range(2)]
    means = [(a + b) / 2 for a, b in zip(*rows, strict=True)]
    want = tuple([
        enp.stack([m * 0.5 + enp.sin(a), m * 0.5 + enp.sin(b)])
        for m, a, b in zip(means, *rows, strict=True)
    ])  # fmt: skip
    same(vmap_over_name(with_collective(f))(*bs), want)


@law(AREA, "jit, jvp, grad and checkpoint of vmap with a name = those of the loop with the mean", SMALL)
def derivatives_of_meetings(f: Function, xs: Points) -> None:
    bs, indices = make_batch(xs), tuple(range(len(xs)))

    def plain(*ys: Array) -> object:
        rows = [f(*[y[m] for y in ys]) for m in range(2)]
        means = [(a + b) / 2 for a, b in zip(*rows, strict=True)]
        return tuple([
            enp.stack([m * 0.5 + enp.sin(a), m * 0.5 + enp.sin(b)])
            for m, a, b in zip(means, *rows, strict=True)
        ])  # fmt: skip

    named = vmap_over_name(with_collective(f))
    same(effx.jvp(named, bs, directions(bs)), effx.jvp(plain, bs, directions(bs)))
    want = effx.grad(weighted_sum_loss(plain), indices)(*bs)
    same(effx.grad(weighted_sum_loss(named), indices)(*bs), want)
    same(
        effx.grad(weighted_sum_loss(vmap_over_name(effx.checkpoint(effx.jit(with_collective(f))))), indices)(
            *bs
        ),
        want,
    )


@law(AREA, "a collective inside scan, cond and jit = outside of them", HELD)
def collectives_inside_control_flow(x: Array) -> None:
    def inside(y: Array) -> Array:
        step = effx.jit(lambda c, _: (enp.sin(c + lax.pmean(c, "i")), None))
        last = lax.scan(step, y, None, length=2)[0]
        result: Array = lax.cond(enp.asarray(True), lambda v: v - lax.pmax(v, "i"), lambda v: v, last)
        return result

    data = np.asarray(x, np.float64)
    for _ in range(2):
        data = np.sin(data + data.mean(0))
    same(vmap_over_name(inside)(x), enp.asarray(data - data.max(0)))


@law(AREA, "pmap f = vmap f, in value and gradient, with a collective", SMALL, compiles=True, share=0.08)
def parallel_maps_are_batches(f: Function, xs: Points) -> None:
    if effx.local_device_count() < 2 or any([x.type.size == 0 for x in xs]):
        return
    bs = make_batch(xs)
    same(effx.pmap(with_collective(f), axis_name="i")(*bs), effx.jit(vmap_over_name(with_collective(f)))(*bs))


@law(
    AREA,
    "shard_map f = f on each part, and gradients inside of it = those of the whole",
    SMALL,
    compiles=True,
    share=0.08,
)
def shards_are_parts(f: Function, xs: Points) -> None:
    if effx.local_device_count() < REPLICAS:
        return
    mesh, indices = effx.make_mesh((2, 2), ("x", "y")), tuple(range(len(xs)))
    rows, each = PartitionSpec(("x", "y")), effx.vmap(lambda *ys: f(*ys))
    bs = tuple([enp.stack([x, 0.5 * x, -x, 0.25 * x]) for x in xs])
    same(effx.shard_map(each, mesh=mesh, in_specs=rows, out_specs=rows)(*bs), effx.jit(each)(*bs))
    # Rows along x, and another factor for each; a value that is equal on all devices has the sum of their gradients.
    factors = enp.asarray([1.0, 0.5, -1.0, 0.25], xs[0].type.dtype if xs[0].type.kind in "fc" else None)

    def part(scales: Array, *ys: Array) -> tuple[Array, ...]:
        def total(*zs: Array) -> Array:
            return enp.sum(
                effx.vmap(lambda s: weighted_sum_loss(f)(*[z * s.astype(z.dtype) for z in zs]))(scales)
            )

        slopes: tuple[Array, ...] = effx.grad(total, indices)(*ys)
        return slopes

    sharded_results = effx.shard_map(
        part, mesh=mesh, in_specs=(rows, *[PartitionSpec()] * len(xs)), out_specs=PartitionSpec()
    )
    same(sharded_results(factors, *xs), effx.jit(part)(factors, *xs))


def cut_sharding(x: Array, mesh: Mesh, turn: int) -> NamedSharding:
    """Returns one of the shardings of an array over the axes of a mesh of 2 x 2 devices."""
    names = ["x", "y"] if turn % 2 else ["y", "x"]
    entries = [names.pop() if names and n % 2 == 0 and turn % 3 else None for n in x.type.shape]
    return NamedSharding(mesh, PartitionSpec(*entries))


@law(
    AREA,
    "jit f on sharded arrays = jit f, in value and gradient, for any sharding of the results",
    SMALL,
    compiles=True,
    share=0.08,
)
def partitioned_programs_are_programs(f: Function, xs: Points) -> None:
    if effx.local_device_count() < REPLICAS:
        return
    mesh = effx.make_mesh((2, 2), ("x", "y"))
    input_shardings = [cut_sharding(x, mesh, i + x.type.ndim) for i, x in enumerate(xs)]
    spread = [
        effx.device_put(x, input_sharding) for x, input_sharding in zip(xs, input_shardings, strict=True)
    ]
    want = effx.jit(lambda *ys: f(*ys))(*xs)
    results = effx.jit(lambda *ys: f(*ys))(*spread)
    same(results, want)
    result_shardings = tuple([cut_sharding(y, mesh, i + 1) for i, y in enumerate(results)])
    same(
        effx.jit(lambda *ys: f(*ys), in_shardings=tuple(input_shardings), out_shardings=result_shardings)(
            *xs
        ),
        want,
    )
    indices = tuple(range(len(xs)))
    same(
        effx.jit(effx.grad(weighted_sum_loss(f), indices))(*spread),
        effx.jit(effx.grad(weighted_sum_loss(f), indices))(*xs),
    )
