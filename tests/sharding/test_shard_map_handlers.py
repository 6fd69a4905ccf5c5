"""Inside `shard_map`: all operations, users' handlers and rules, as in parallel maps over replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Box
from effx.effects import handle
from effx.ir.ops.collective import Collective
from effx.ir.ops.parallel import ParallelMap
from effx.ir.ops.sharding import Constrain
from effx.laws.zoo import IntervalArithmetic, IntervalBounds
from effx.sharding import PartitionSpec as P
from tests.ops.rows import Row, host
from tests.ops.table import ROWS
from tests.transforms.test_pmap_handlers import COMPOSED, LOOPS, Merging, Tagged, close

MESH = effx.make_mesh((4,), ("i",))
GRID = effx.make_mesh((2, 2), ("i", "j"))
PAIR = effx.make_mesh((2,), ("k",))
X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def mapped(
    f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_name: str = "i"
) -> Callable[..., Any]:
    """Maps over the first axis as vmap does, each index on a device."""

    def part(*xs: Any) -> Any:
        y = f(*effx.tree.map(lambda x: x[0], xs))
        outs = effx.tree.broadcast_prefix(out_axes, y, lambda a: a is None)
        leaves, form = effx.tree.flatten(y)
        return form.unflatten(
            [v if a is None else enp.expand_dims(v, a) for v, a in zip(leaves, outs, strict=True)]
        )

    def spec(axis: int | None) -> P:
        return P() if axis is None else P(*[None] * axis, axis_name)

    specs = effx.tree.map(spec, out_axes, is_leaf=lambda a: a is None)
    return effx.shard_map(part, mesh=MESH, in_specs=P(axis_name), out_specs=specs)


@pytest.mark.parametrize("case", range(len(COMPOSED)))
def test_rules_of_users(case: int) -> None:
    close(COMPOSED[case](lambda f: mapped(f)), COMPOSED[case](lambda f: effx.vmap(f, axis_name="i")))


@pytest.mark.parametrize("case", range(len(LOOPS)))
def test_control_flow(case: int) -> None:
    over = lambda f, **named: effx.vmap(f, axis_name="i", **named)  # noqa: E731
    close(LOOPS[case](mapped), LOOPS[case](over))


def test_payloads_and_states_go_into_parts() -> None:
    f = effx.shard_map(
        lambda v, w: lax.psum(v * w, "j") + v * v * 2.0,
        mesh=GRID,
        in_specs=(P("i", None), P()),
        out_specs=P("i"),
    )
    grid = effx.shard_map(lambda v: v * v * 2.0, mesh=GRID, in_specs=P(("i", "j")), out_specs=P(("i", "j")))
    x = enp.asarray(X)
    with handle(IntervalArithmetic()) as frame:
        y: Any = f(Box(frame, IntervalBounds(x - 1, x + 1), x.type), 3.0)
        got: Any = y.payload
    ends = [6 * (X - 1), 6 * (X + 1)]
    square = np.stack([(X - 1) ** 2, (X - 1) * (X + 1), (X + 1) ** 2])
    close(
        (got.low, got.high),
        (ends[0] + 2 * square.min(axis=0), ends[1] + 2 * square.max(axis=0)),
    )
    with handle(Merging()) as frame:
        frame.state = enp.int32(5)
        y = grid(Box(frame, Tagged(x), x.type))
        close(y.payload.value, 2 * X * X)
        count: Any = frame.state
        assert int(count) == 7


def test_batches_around_several_axes() -> None:
    f = effx.shard_map(
        lambda x: x * lax.psum(x, "i") + lax.axis_index("j"),
        mesh=GRID,
        in_specs=P("i", "j"),
        out_specs=P("i", "j"),
    )
    many = np.random.default_rng(1).normal(size=(2, 4, 5, 3)).astype(np.float32)
    want = [[f(many[a, :, :2, c]) for c in range(3)] for a in range(2)]
    both = effx.vmap(effx.vmap(f, 2, 2))(many[:, :, :2])
    np.testing.assert_allclose(both, np.moveaxis(np.asarray(want), 1, 3), rtol=1e-6)


PLAIN = [
    row for row in ROWS if row.samples and not issubclass(row.kind, Collective | ParallelMap | Constrain)
]


@pytest.mark.parametrize("row", PLAIN, ids=str)
def test_all_operations_run_inside(row: Row) -> None:
    """The smallest sample of each, on other data on each device."""
    sample = min(row.samples, key=lambda s: sum([t.size for t in s.types]))
    with sample.settings():
        draws = [sample.arrays(sample.draw(seed)) for seed in (0, 1)]
        want = [sample.apply(xs) for xs in draws]
        if not want[0]:
            return

        def part(*xs: Any) -> Any:
            return tuple([y[None] for y in sample.apply([x[0] for x in xs])])

        operands = [enp.stack(list(pair)) for pair in zip(*draws, strict=True)]
        f = effx.shard_map(part, mesh=PAIR, in_specs=P("k"), out_specs=P("k"))
        for got, *wanted in zip(f(*operands), *want, strict=True):
            for found, one in zip((got[0], got[1]), wanted, strict=True):
                assert found.dtype == one.dtype
                a, b = host(found), host(one)
                if one.type.kind not in "fc":
                    np.testing.assert_array_equal(a, b)
                    continue
                scale = np.max(np.abs(b), initial=1.0, where=np.isfinite(b))
                np.testing.assert_allclose(
                    a, b, rtol=0, atol=float(scale) * max(row.allowed(one.dtype), 1e-7) * 4
                )
