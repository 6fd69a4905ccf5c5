"""Plans: counts of compiled programs are those made by hand, and memory is XLA's."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import ProgramError, ShardingError, TransformError
from effx.experimental import topologies
from effx.library.scaling import Hardware, Plan, plan
from effx.library.scaling.collectives import axes_of_groups, groups_of, sent
from effx.library.scaling.counts import flops_of, traffic_of
from effx.library.scaling.hlo import Instruction, read
from effx.library.scaling.loops import trip_count
from effx.library.scaling.walking import kind_of, performed
from effx.lower.runtime.topologies import DESCRIBES_CPUS
from effx.sharding import Mesh, NamedSharding
from effx.sharding import PartitionSpec as P
from examples.plan_7b import SPECS, Sizes, compiled

CHIP = Hardware("a chip", flops=1e12, bandwidth=1e11, memory=1e9, links={"data": 1e10, "model": 4e10})
F32 = 4
DATA, MODEL = 4, 2
THERE = effx.make_mesh((DATA, MODEL), ("data", "model"))


absent = pytest.mark.skipif(not DESCRIBES_CPUS, reason="the tables are newer jaxlib's")


def not_there() -> Mesh:
    return topologies.make_mesh(topologies.get_topology_desc("4x2", "cpu"), (DATA, MODEL), ("data", "model"))


def found(f: Any, *args: tuple[tuple[int, ...], P], out: P | None = None, mesh: Mesh = THERE) -> Plan:
    """The plan of a function of arrays of these shapes and shardings."""
    structs = [effx.ShapeDtypeStruct(s, "float32", sharding=NamedSharding(mesh, spec)) for s, spec in args]
    wanted = None if out is None else NamedSharding(mesh, out)
    return plan(effx.jit(f, out_shardings=wanted).lower(*structs).compile(), CHIP)


def exchanged(p: Plan) -> dict[tuple[str, tuple[str, ...]], tuple[float, float]]:
    """How often, and how many bytes, by kind and axes; groups of several sizes along the same axes together."""
    total: dict[tuple[str, tuple[str, ...]], tuple[float, float]] = {}
    for c in p.collectives:
        count, size = total.get((c.kind, c.axes), (0.0, 0.0))
        total[c.kind, c.axes] = count + c.count, size + c.bytes
    return total


def product(x: Any, w: Any) -> Any:
    return x @ w


def square_loss(w: Any, x: Any) -> Any:
    return enp.sum((x @ w) ** 2)


LAYERS = 5


def layers(w: Any, x: Any) -> Any:
    return lax.scan(lambda x, w: (enp.tanh(x @ w), None), x, w)[0]


@pytest.mark.parametrize("where", ["devices", "topology"])
def test_contraction(where: str) -> None:
    """A product whose contracted axis is sharded is summed by an all-reduce of the whole result."""
    mesh = THERE if where == "devices" else not_there()
    p = found(product, ((64, 32), P(None, "model")), ((32, 16), P("model")), out=P(), mesh=mesh)
    assert exchanged(p) == {("all-reduce", ("model",)): (1, 2 * (MODEL - 1) / MODEL * 64 * 16 * F32)}
    assert p.flops == 2 * 64 * 32 * 16 / MODEL
    assert p.memory.arguments == (64 * 32 + 32 * 16) * F32 // MODEL
    assert p.memory.results == 64 * 16 * F32
    assert p.mesh == (("data", DATA), ("model", MODEL))
    assert not p.unbounded
    assert p.opaque == ()


def test_no_collectives() -> None:
    """Going forward with all weights everywhere needs nothing of others."""
    p = found(product, ((64, 32), P("data")), ((32, 16), P()))
    assert p.collectives == ()
    assert p.communication_seconds == 0
    assert p.flops == 2 * 64 * 32 * 16 / DATA


def test_two_axes() -> None:
    """A sum over all devices runs along both axes, at the rate of the slower of them; or along one after the other."""
    n = DATA * MODEL
    p = found(enp.sum, ((64, 32), P(("data", "model"))), out=P())
    assert exchanged(p) == {("all-reduce", ("data", "model")): (1, 2 * (n - 1) / n * F32)}
    assert p.collectives[0].devices == n
    assert p.communication_seconds == p.collectives[0].bytes / 1e10
    q = found(enp.sum, ((64, 32), P("data", "model")), out=P())
    assert exchanged(q) == {("all-reduce", ("data",)): (1, 6.0), ("all-reduce", ("model",)): (1, 4.0)}
    assert q.communication_seconds == 6.0 / 1e10 + 4.0 / 4e10


def test_gradients() -> None:
    """Weights that are whole everywhere have gradients that are summed; weights in parts are gathered first."""
    size = 32 * 16 * F32
    whole = found(effx.grad(square_loss), ((32, 16), P()), ((64, 32), P("data")), out=P())
    assert exchanged(whole) == {("all-reduce", ("data",)): (1, 2 * 3 / 4 * size)}

    parts = found(effx.grad(square_loss), ((32, 16), P("data")), ((64, 32), P("data")), out=P("data"))
    moved = exchanged(parts)
    assert moved.pop(("all-gather", ("data",))) == (1, 3 / 4 * size)
    # XLA decides whether each device takes its part of the sum before or after.
    (((kind, axes), (count, sent_bytes)),) = moved.items()
    assert (axes, count) == (("data",), 1)
    assert {"all-reduce": 2, "reduce-scatter": 1}[kind] * 3 / 4 * size == sent_bytes
    assert parts.memory.arguments == (32 * 16 + 64 * 32) * F32 // DATA


def test_loops() -> None:
    """What is in loops counts as often as they run, and loops in loops as often as both."""
    args = ((LAYERS, 32, 32), P(None, "model")), ((16, 32), P("data", "model"))
    p = found(layers, *args, out=P("data", "model"))
    assert p.flops == LAYERS * 2 * 16 * 32 * 32 / (DATA * MODEL)
    assert all([c.count % LAYERS == 0 for c in p.collectives])
    assert p.collectives

    def twice(w: Any, x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, x: layers(w, x), x)

    again = found(twice, *args, out=P("data", "model"))
    assert again.flops == 3 * p.flops
    assert exchanged(again) == {k: (3 * n, 3 * b) for k, (n, b) in exchanged(p).items()}


def test_unknown_loops() -> None:
    """A loop that ends by its values counts as one iteration, and the plan is marked so."""
    p = found(lambda x: lax.while_loop(lambda x: enp.sum(x) < 9, product_of, x), ((8, 8), P()))
    assert p.unbounded
    assert p.flops == 2 * 8**3
    assert str(p).endswith("loops of unknown length count as one iteration")


def product_of(x: Any) -> Any:
    return x @ x


def test_branches() -> None:
    """Branches count as if equally likely."""
    p = found(lambda x: lax.cond(x[0, 0] > 0, lambda x: x @ x, lambda x: x, x), ((8, 8), P()))
    assert p.flops == 8**3


def psum_parts(x: Any) -> Any:
    return lax.psum_scatter(x, "i", tiled=True)


N = 8
KINDS: dict[str, tuple[Any, str, float]] = {
    "psum": (lambda x: lax.psum(x, "i"), "all-reduce", 2 * 7 / 8 * 16 * F32),
    "psum_scatter": (psum_parts, "reduce-scatter", 7 / 8 * 16 * F32),
    "all_gather": (lambda x: lax.all_gather(x, "i"), "all-gather", 7 * 16 * F32),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), "all-to-all", 7 / 8 * 16 * F32),
    "ppermute": (
        lambda x: lax.ppermute(x, "i", [(k, (k + 1) % N) for k in range(N)]),
        "collective-permute",
        16.0 * F32,
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds(name: str) -> None:
    """Each collective of a parallel map moves the bytes that its kind must."""
    f, kind, size = KINDS[name]
    ready = effx.jit(effx.pmap(f, axis_name="i")).lower(enp.ones((N, 16))).compile()
    (c,) = plan(ready, Hardware("a chip", 1e12, 1e11, 1e9, 1e10)).collectives
    assert (c.kind, c.devices, c.count, c.bytes) == (kind, 2 if name == "ppermute" else N, 1, size)


def test_memory_is_xlas() -> None:
    """The plan of a small mesh has XLA's numbers, and shards are as large as shardings say; donated memory counts once."""
    mesh = THERE
    w = effx.ShapeDtypeStruct((LAYERS, 32, 32), "float32", sharding=NamedSharding(mesh, P(None, "data")))
    x = effx.ShapeDtypeStruct((16, 32), "float32", sharding=NamedSharding(mesh, P("data")))
    f = effx.jit(
        lambda w, x: w - effx.grad(lambda w: enp.sum(layers(w, x)))(w),
        donate_argnums=0,
        out_shardings=w.sharding,
    )
    ready = f.lower(w, x).compile()
    stats = ready.memory_analysis()
    m = plan(ready, CHIP).memory
    assert m.arguments == stats.argument_size_in_bytes == (LAYERS * 32 * 32 + 16 * 32) * F32 // DATA
    assert m.results == stats.output_size_in_bytes == m.shared == LAYERS * 32 * 32 * F32 // DATA
    assert m.temporaries == stats.temp_size_in_bytes
    assert m.total == m.arguments + m.temporaries + m.code


def test_there_or_not() -> None:
    """Compiled for devices that are there and for such that are not, a program is the same."""
    args = ((LAYERS, 32, 32), P(None, "data", "model")), ((16, 32), P("data"))
    f = effx.grad(lambda w, x: enp.sum(layers(w, x)))
    a, b = [found(f, *args, out=P(None, "data", "model"), mesh=mesh) for mesh in (THERE, not_there())]
    assert a.collectives == b.collectives
    assert (a.flops, a.traffic, a.memory.arguments) == (b.flops, b.traffic, b.memory.arguments)


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9, 8), (4, 3, 3, 2), {"window_strides": (1, 1), "padding": "SAME"}),
    ((2, 3, 9, 8), (4, 3, 3, 2), {"window_strides": (2, 3), "padding": "VALID"}),
    (
        (2, 3, 9, 8),
        (4, 3, 3, 2),
        {"window_strides": (1, 2), "padding": [(2, 1), (0, 4)], "lhs_dilation": (2, 1)},
    ),
    ((2, 3, 9, 8), (4, 3, 3, 2), {"window_strides": (1, 1), "padding": "SAME", "rhs_dilation": (2, 2)}),
    # With fewer products an element it is no convolution on a CPU.
    ((2, 52, 7), (6, 26, 3), {"window_strides": (1,), "padding": "SAME", "feature_group_count": 2}),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolutions(case: Any) -> None:
    """Of convolutions the terms inside of the image count, as XLA counts them."""
    x, w, options = case

    def f(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, **options)

    ready = effx.jit(f).lower(enp.ones(x), enp.ones(w)).compile()
    assert plan(ready, CHIP).flops == ready.cost_analysis()["flops"]


def test_complex_products() -> None:
    """A product of complex numbers is four of real ones."""
    z = enp.ones((4, 4), "complex64")
    assert plan(effx.jit(product).lower(z, z).compile(), CHIP).flops == 4 * 2 * 4**3


def test_traffic() -> None:
    """Arrays are read and written once where a fusion does all; of what a loop slices and updates, the parts count."""
    x = enp.ones(4096)
    simple = plan(effx.jit(lambda x: enp.sin(x) * 2 + 1).lower(x).compile(), CHIP)
    assert simple.traffic == 2 * 4096 * F32
    rows = enp.ones((64, 1024))
    each = plan(effx.jit(lambda xs: lax.map(lambda x: x[::-1] * 2, xs)).lower(rows).compile(), CHIP)
    whole = 64 * 1024 * F32
    assert 2 * whole <= each.traffic < 8 * whole


SLICED = """HloModule m

%inner (p: f32[64,8], i: s32[]) -> f32[4,8] {
  %p = f32[64,8]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %zero = s32[] constant(0)
  ROOT %part = f32[4,8]{1,0} dynamic-slice(%p, %i, %zero), dynamic_slice_sizes={4,8}
}

%outer (q: bf16[64,8], j: s32[], r: f32[64,8]) -> (f32[4,8], f32[64,8], f32[8,64]) {
  %q = bf16[64,8]{1,0} parameter(0)
  %j = s32[] parameter(1)
  %r = f32[64,8]{1,0} parameter(2)
  %wide = f32[64,8]{1,0} convert(%q)
  %f = f32[4,8]{1,0} fusion(%wide, %j), kind=kLoop, calls=%inner
  %none = s32[] constant(0)
  %new = f32[64,8]{1,0} dynamic-update-slice(%r, %f, %j, %none)
  ROOT %t = (f32[4,8]{1,0}, f32[64,8]{1,0}) tuple(%f, %new)
}

%narrow (s: f32[64,8]) -> bf16[64,8] {
  %s = f32[64,8]{1,0} parameter(0)
  ROOT %c = bf16[64,8]{1,0} convert(%s)
}

ENTRY %main (x: bf16[64,8], k: s32[], y: f32[64,8]) -> (f32[4,8], bf16[64,8]) {
  %x = bf16[64,8]{1,0} parameter(0)
  %k = s32[] parameter(1)
  %y = f32[64,8]{1,0} parameter(2)
  %g = (f32[4,8]{1,0}, f32[64,8]{1,0}) fusion(%x, %k, %y), kind=kLoop, calls=%outer
  %h = f32[64,8]{1,0} get-tuple-element(%g), index=1
  %l = f32[4,8]{1,0} get-tuple-element(%g), index=0
  %n = bf16[64,8]{1,0} fusion(%h), kind=kLoop, calls=%narrow
  ROOT %out = (f32[4,8]{1,0}, bf16[64,8]{1,0}) tuple(%l, %n)
}
"""


def test_fusions_in_fusions() -> None:
    """What a fusion slices counts as the slice, also where it is converted before, or a fusion within does it."""
    module = read(SLICED)
    main = module.computations["main"]
    # Of x a slice of bfloat16, the index, of y nothing; a slice is given, and another written into y.
    assert traffic_of(module, main, main.instructions["g"]) == 4 * 8 * 2 + 4 + 2 * 4 * 8 * F32
    assert traffic_of(module, main, main.instructions["n"]) == 64 * 8 * (F32 + 2)


# --- reading --------------------------------------------------------------------------------------

# Ways of writing that a TPU's compiler has: another memory, transfers in steps, sums of which each takes a part,
# transfers that start and end, loops whose length is in the condition alone.
TEXT = Path(__file__).with_name("tpu.hlo").read_text()


def test_ways_of_writing() -> None:
    """A transfer in steps counts once, a sum of which parts are taken is a reduce-scatter, and loops are counted."""
    module = read(TEXT)
    listed = [(kind_of(p), p.times) for p in performed(module) if kind_of(p) is not None]
    # Of 1, 3, 5, 7, 9 there are five.
    assert sorted(listed, key=str) == [("all-gather", 1), ("collective-permute", 5), ("reduce-scatter", 1)]
    assert sum([p.times * flops_of(p.computation, p.instruction) for p in performed(module)]) == 2 * 8**3
    main = module.computations["main"]
    assert trip_count(module, main, main.instructions["loop"]) == 5
    # What is in the fast memory is no traffic, nor is what a transfer in steps hands on.
    traffic = {name: traffic_of(module, main, i) for name, i in main.instructions.items()}
    assert traffic["cached"] == 0
    assert traffic["f.2"] == 2 * 64 * F32
    assert traffic["r"] == (64 * 8 + 16 * 8) * F32


LOOPS = [
    ("direction=LT", "direction=LE", 5),
    ("direction=LT", "direction=NE", None),
    ("constant(10)", "constant(9)", 4),
    ("constant(10)", "constant(0)", 0),
    ("constant(1)\n", "constant(-3)\n", 7),
    ("constant(2)", "constant(-2)", None),
    ("add(%two, %i.2)", "multiply(%two, %i.2)", None),
    ("tuple(%next, %got, %n.1)", "tuple(%next, %got, %next)", None),
]


@pytest.mark.parametrize(("old", "new", "count"), LOOPS)
def test_trip_counts(old: str, new: str, count: int | None) -> None:
    """The length of a loop is read where it is known, and not guessed where it is not."""
    assert TEXT.count(old) == 1
    module = read(TEXT.replace(old, new))
    main = module.computations["main"]
    assert trip_count(module, main, main.instructions["loop"]) == count


def collective(groups: str, **others: str) -> Instruction:
    return Instruction("g", "all-reduce", (), (), "", {"replica_groups": groups, **others})


A, B = np.arange(8).reshape(4, 2), np.arange(8).reshape(2, 2, 2)
GROUPS: list[tuple[Instruction, Any]] = [
    (collective("{}"), [range(8)]),
    (collective("{{0,2},{1,3}}"), [[0, 2], [1, 3]]),
    (collective("[4,2]<=[8]"), A),
    (collective("[2,4]<=[4,2]T(1,0)"), A.T),
    (collective("[4,2]<=[2,2,2]T(2,1,0)"), np.arange(8).reshape(2, 2, 2).transpose(2, 1, 0).reshape(4, 2)),
    (collective("mesh['a'=4,'b'=2] {'a'}"), A.T),
    (collective("mesh['a'=4,'b'=2] {'b'}"), A),
    (collective("mesh['a'=4,'b'=2] {'a','b'}"), [range(8)]),
    # The first and the second half of the axis of four.
    (collective("mesh['a'=4,'b'=2] {'a':(1)2}"), B.transpose(1, 2, 0).reshape(4, 2)),
    (collective("mesh['a'=4,'b'=2] {'a':(2)2}"), B.transpose(0, 2, 1).reshape(4, 2)),
    (collective("mesh['a'=4,'b'=2] {'a':(2)2,'b'}"), B.reshape(2, 4)),
    (collective("mesh['a'=4,'b'=2]", device_ids="([2,4]T(1,0)) {'b'}"), np.arange(8).reshape(2, 4).T),
    (collective("mesh['a'=2,'b'=2]", device_ids="(3,1,2,0) {'b'}"), [[3, 1], [2, 0]]),
]


@pytest.mark.parametrize(("i", "groups"), GROUPS, ids=lambda x: str(getattr(x, "attributes", "")))
def test_groups(i: Instruction, groups: Any) -> None:
    """All ways of writing groups mean the groups that NumPy makes."""
    listed = {frozenset(g) for g in groups_of(i, 8)}
    assert listed == {frozenset(map(int, g)) for g in groups}


def test_axes() -> None:
    """Groups run along the axes in which their members differ."""
    assert axes_of_groups(A.tolist(), (4, 2)) == (1,)
    assert axes_of_groups(A.T.tolist(), (4, 2)) == (0,)
    assert axes_of_groups([range(8)], (4, 2)) == (0, 1)
    assert axes_of_groups([[3]], (4, 2)) == ()


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_all_reduce_is_two(n: int) -> None:
    """An all-reduce moves what a reduce-scatter and an all-gather of the sum do."""
    b = 1000.0 * n
    both = sent("reduce-scatter", n, int(b), int(b) // n) + sent("all-gather", n, int(b) // n, int(b))
    assert sent("all-reduce", n, int(b), int(b)) == both
    assert sent("all-to-all", n, int(b), int(b)) == both / 2


# --- times, and errors ----------------------------------------------------------------------------

SMALL = ((64, 32), P(None, "model")), ((32, 16), P("model"))


def test_times() -> None:
    """Times are amounts by rates; the longest bounds."""
    p = found(product, *SMALL, out=P())
    (c,) = p.collectives
    assert p.compute_seconds == p.flops / 1e12
    assert p.memory_seconds == p.traffic / 1e11
    assert p.link_seconds == {("model",): c.bytes / 4e10}
    assert p.seconds == max(p.compute_seconds, p.memory_seconds, p.communication_seconds) == p.memory_seconds
    assert p.serial_seconds == p.compute_seconds + p.memory_seconds + p.communication_seconds
    assert p.bound == "memory"
    assert p.fits


def test_printed() -> None:
    """The table has memory, each kind of collective, and the three times."""
    p = found(product, *SMALL, out=P())
    temporaries, traffic = p.memory.temporaries, p.traffic
    assert "\n".join(str(p).splitlines()[:6]) == (
        "product on data 4 x model 2 of a chip, for each device\n"
        "\n"
        f"memory {(9216 + temporaries + p.memory.code) / 1000:.3g}kB of 1GB, fits: arguments 5.12kB, results 4.1kB, "
        f"temporaries {temporaries / 1000:.3g}kB, code {p.memory.code}B\n"
        "\n"
        "collective             along            group    count      sent      time\n"
        "all-reduce             model                2        1     4.1kB    102 ns"
    )
    assert str(p).splitlines()[7:] == [
        "compute         32.8kflop   32.8 ns",
        f"memory         {f'{traffic / 1000:.3g}kB':>10} {f'{traffic / 1e11 * 1e9:.3g} ns':>9}",
        "communication       4.1kB    102 ns",
        f"at least {traffic / 1e11 * 1e9:.3g} ns a run, bound by memory",
    ]


def test_one_device() -> None:
    """A program of one device has no mesh and no collectives."""
    p = plan(effx.jit(product).lower(enp.ones((4, 4)), enp.ones((4, 4))).compile(), CHIP)
    assert (p.mesh, p.collectives, p.flops) == ((), (), 128)
    assert "product on one device of a chip" in str(p)


def message(error: BaseException) -> str:
    return str(error).partition("\n")[0]


@pytest.mark.unguarded
def test_errors() -> None:
    f = effx.jit(product)
    ready = f.lower(enp.ones((4, 4)), enp.ones((4, 4))).compile()
    with pytest.raises(TransformError) as e:
        plan(f, CHIP)  # type: ignore[arg-type]  # meant to be wrong
    assert message(e.value) == (
        f"plan: expected what jit(f).lower(x).compile() gives, got {f!r} of type {type(f).__name__}"
    )
    with pytest.raises(TransformError) as e:
        plan(ready, 3)  # type: ignore[arg-type]  # meant to be wrong
    assert message(e.value) == "plan: hardware must be a Hardware, got 3"
    with pytest.raises(TransformError) as e:
        Hardware("a chip", 1e12, 1e11, 1e9, {"data": 0})
    assert message(e.value) == "Hardware: data must be a number greater than 0, got 0"
    with pytest.raises(ShardingError) as s:
        plan(ready, CHIP, THERE)
    assert message(s.value) == (f"plan: the mesh {THERE!r} has 8 devices, but the program runs on 1")
    less = Hardware("a chip", 1e12, 1e11, 1e9, {"data": 1e10})
    structs = [effx.ShapeDtypeStruct(a, "float32", sharding=NamedSharding(THERE, spec)) for a, spec in SMALL]
    summed = effx.jit(product, out_shardings=NamedSharding(THERE, P())).lower(*structs).compile()
    with pytest.raises(ShardingError) as s:
        plan(summed, less)
    assert message(s.value) == "plan: a chip says nothing of links along 'model'; it has 'data'"
    with pytest.raises(ProgramError) as p:
        read("nothing")
    assert message(p.value) == "plan: expected the text of a compiled program, got 'nothing'"
    with pytest.raises(ProgramError) as p:
        groups_of(collective("?"), 8)
    assert message(p.value) == "plan: the groups of g are not understood: '?'"


# --- a transformer --------------------------------------------------------------------------------

SIZES = Sizes(layers=3, width=64, heads=8, hidden=96, tokens=160, length=32, batch=16)


def by_hand(sizes: Sizes, devices: int) -> float:
    """The products of a training step: two operations a term; forward, again for the backward pass, and twice back."""
    d, f, tokens = sizes.width, sizes.hidden, sizes.batch * sizes.length
    layer = 2 * (4 * d * d + 3 * d * f) + 4 * sizes.length * d
    # The last product of a layer is not needed again.
    again = layer - 2 * d * f
    return tokens * (sizes.layers * (3 * layer + again) + 3 * 2 * d * sizes.tokens) / devices


@pytest.mark.parametrize(
    "shape",
    [(4, 2), pytest.param((8, 1), marks=pytest.mark.deep), pytest.param((2, 4), marks=pytest.mark.deep)],
    ids=str,
)
def test_transformer(shape: tuple[int, int]) -> None:
    """The example's step does the arithmetic, holds the shards, and sums the activations that are known by hand."""
    data, model = shape
    mesh = effx.make_mesh(shape, ("data", "model"))
    p = plan(compiled(SIZES, mesh), Hardware("a chip", 1e12, 1e11, 1e9, 1e10))
    assert p.flops == by_hand(SIZES, 8)
    n, d, tokens = SIZES.layers, SIZES.width, SIZES.batch * SIZES.length
    state = sum(
        [
            math.prod(NamedSharding(mesh, SPECS[name]).shard_shape(s)) * (2 + 4 + 4)
            for name, s in SIZES.shapes().items()
        ]
    )
    given = SIZES.batch // data * (SIZES.length + 1) * 4
    # Beside the state and the tokens there is the mask, a constant.
    assert state + given <= p.memory.arguments <= state + given + SIZES.length**2 + 64
    assert p.memory.results - p.memory.shared < 1000
    moved = exchanged(p)
    assert (("all-reduce", ("model",)) in moved) == (model > 1)
    if model > 1:
        # Each layer sums two products forward, one of them again, and two backward; the table and the loss sum a few.
        size = 2 * (model - 1) / model * (tokens // data * d) * F32
        count, total = moved["all-reduce", ("model",)]
        assert count >= 4 * n
        assert 5 * n * size <= total <= (5 * n + 6) * size
    # Every cut matrix is gathered along data forward and backward.
    layers = sum(
        [math.prod(s) for name, s in SIZES.shapes().items() if name in ("qkv", "mix", "gate", "up", "down")]
    )
    assert moved["all-gather", ("data",)][1] >= 2 * (data - 1) / data * layers / model * F32


@pytest.mark.deep
@absent
def test_tables_of_the_docs() -> None:
    """The collectives and the arithmetic of the model of 7 billion parameters are those that docs/scaling.md shows."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "examples/plan_7b.py"], cwd=root, capture_output=True, text=True, check=True
    )
    shown = (root / "docs" / "scaling.md").read_text()
    lines = [x for x in done.stdout.splitlines() if re.match(r"(all|reduce|collective|compute|train)", x)]
    assert len(lines) > 12
    assert [x for x in lines if x not in shown] == []
