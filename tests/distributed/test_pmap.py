"""`pmap` over the devices of two processes: each gives and gets the rows of its own, and NumPy says what they are."""

from __future__ import annotations

from tests.distributed.conftest import Together
from tests.distributed.test_groups import JOIN

START = """
from effx import lax
everyone = effx.devices()
whole = np.arange(12, dtype=np.float32).reshape(4, 3)
own = slice(2 * number, 2 * number + 2)
mine = whole[own]

def same(found, wanted):
    assert found.is_fully_addressable, found.sharding
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)

def fails(error, text, f, *args):
    try:
        f(*args)
    except error as found:
        assert found.message == text, found.message
    else:
        raise AssertionError(text)

def total(x):
    return lax.psum(x, "i")
"""

VALUES = """
sums = effx.pmap(total, axis_name="i")
same(sums(mine), np.broadcast_to(whole.sum(0), (2, 3)))
step = effx.pmap(lambda x: x + lax.psum(x, "i"), axis_name="i")
once = whole + whole.sum(0)
y = step(mine)
assert y.devices() == set(effx.local_devices())
same(y, once[own])
same(step(y), (once + once.sum(0))[own])

# Axes that are not the first, what is the same for all, names, results of all, static and donated arguments.
def several(scale, x, w, k):
    return scale * x * lax.axis_index("i") + k, total(x) * w

f = effx.pmap(several, axis_name="i", in_axes=(None, 1, None), out_axes=(-1, None), static_broadcasted_argnums=0)
k = np.arange(4, dtype=np.float32)
a, b = f(3, mine.T, np.float32(2), k=k[own])
same(a, (3 * whole * np.arange(4)[:, None] + k[:, None]).T[:, own])
same(b, 2 * whole.sum(0))
shapes = f.eval_shape(3, mine.T, np.float32(2), k=k[own])
assert [x.shape for x in shapes] == [(3, 2), (3,)] == [a.shape, b.shape]
given = effx.pmap(lambda x: x)(mine)
f = effx.pmap(several, axis_name="i", in_axes=(None, 0, None), donate_argnums=1)
same(f(1, given, 1, k=k[own])[0], (whole * np.arange(4)[:, None] + k[:, None])[own])
assert given.is_deleted()

# Devices in an order of the user's, some of them, and one of each process's.
order = [everyone[i] for i in (3, 0, 2, 1)]
places = effx.pmap(lambda x: lax.axis_index("i") + 0 * x, axis_name="i", devices=order)(np.zeros(2, np.int32))
same(places, [[1, 3], [0, 2]][number])
same(effx.pmap(total, axis_name="i", devices=[everyone[3], everyone[0]])(mine[:1]), whole[[0, 2]].sum(0)[None])
same(effx.pmap(total, axis_name="i")(mine[:1]), whole[[0, 2]].sum(0)[None])
same(effx.pmap(total, axis_name="i", in_axes=None, axis_size=4)(mine[0] * 0 + 1), np.full((2, 3), 4.0))

# Only this process's devices, and inside jit, where there are no rows of one process.
alone = np.broadcast_to(mine.sum(0), (2, 3))
same(effx.pmap(total, axis_name="i", devices=effx.local_devices())(mine), alone)
same(effx.jit(effx.pmap(total, axis_name="i"))(mine), alone)

# Gradients inside, dtypes, size 0, keys, what the function closes over.
same(effx.pmap(effx.grad(lambda x: total(x * x).sum()), axis_name="i")(mine), 8 * mine)
for dtype in ("bool", "int8", "bfloat16", "complex64"):
    found = effx.pmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(enp.asarray(mine, dtype))
    assert found.shape == (2, 4, 3) and found.dtype == dtype
    same(enp.asarray(found[1], "complex64"), np.asarray(enp.asarray(enp.asarray(whole, dtype), "complex64")))
assert sums(mine[:, :0]).shape == (2, 0)
key = effx.random.key(7)
fold = effx.pmap(lambda k: effx.random.fold_in(k, lax.axis_index("i")), axis_name="i")
wanted = [effx.random.key_data(effx.random.fold_in(key, i)) for i in (2 * number, 2 * number + 1)]
same(effx.random.key_data(fold(enp.stack([key, key]))), np.stack([np.asarray(x) for x in wanted]))
closed = effx.device_put(5.0, effx.local_devices()[0])
same(effx.pmap(lambda x: x.sum() + closed, axis_name="i")(mine), mine.sum(1) + 5)
both = effx.pmap(effx.vmap(lambda x: lax.psum(x, ("i", "j")), axis_name="j"), axis_name="i")
same(both(mine), np.full((2, 3), whole.sum()))
with effx.disable_jit():
    same(sums(mine), np.broadcast_to(whole.sum(0), (2, 3)))
assert "all-reduce" in sums.lower(mine).compile().as_text()
print("done")
"""

REFUSED = """
sums = effx.pmap(total, axis_name="i")
fails(
    effx.errors.DeviceCountError,
    "pmap: total requires 3 replicas in each process, but process 0 has 2 XLA devices",
    sums, whole[:3],
)
fails(
    effx.errors.DeviceCountError,
    "pmap: total is mapped over 3 rows in this process, which has 2 of the devices that were given",
    effx.pmap(total, axis_name="i", devices=everyone), whole[:3],
)
fails(
    effx.errors.ShapeError,
    "pmap: axis_size of total is 2, but the processes together have 4 rows",
    effx.pmap(total, axis_name="i", axis_size=2), mine,
)
theirs = [d for d in everyone if d.process_index != number]
fails(
    effx.errors.BackendError,
    f"pmap: none of the devices cpu:{theirs[0].id}, cpu:{theirs[1].id} of total belongs to this process, "
    "which must not call it",
    effx.pmap(total, axis_name="i", devices=theirs), mine,
)
fails(
    effx.errors.ProcessMismatchError,
    "total: the processes run different programs: process 0 total(f32[2,5]) -> (f32[2,5]), process 1 total(f32[4,5]) -> "
    "(f32[4,5])",
    sums, enp.ones((1 + number, 5)),
)
print("done")
"""


def test_rows_of_two_processes(together: Together) -> None:
    """Values, axes, devices, dtypes; what stays in one process; rows that are too many, or not as many as the other's."""
    for ended in together(JOIN + START + VALUES + REFUSED, 2, timeout=100):
        assert ended.status == 0, ended.error
        assert ended.out.splitlines()[-2:] == ["done", "done"]
