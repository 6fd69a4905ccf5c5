"""Programs on the devices of several processes: they compute what one process computes."""

from __future__ import annotations

from tests.distributed.conftest import Together
from tests.distributed.test_groups import JOIN

TRAINING = """
from effx.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = effx.make_mesh((4,), ("x",))
assert mesh.is_multi_process and mesh.local_mesh.size == 2
rows = NamedSharding(mesh, P("x"))
mine = np.arange(4, dtype=np.float32) + 10 * number
x = effx.make_array_from_process_local_data(rows, mine)
assert x.shape == (8,) and not x.is_fully_addressable and not x.is_fully_replicated
assert [s.data is None for s in x.global_shards] == [False, False, True, True]
assert sorted([s.index[0].start for s in x.addressable_shards]) == [4 * number, 4 * number + 2]
assert repr(x) == "Array(shape=(8,), dtype=float32) in parts of 4 devices" == str(x)
try:
    np.asarray(x)
except effx.errors.ShardingError as error:
    assert "other processes hold parts of f32[8]" in str(error), error
else:
    raise AssertionError
whole = np.concatenate([np.arange(4), np.arange(4) + 10]).astype(np.float32)
np.testing.assert_array_equal(multihost_utils.process_allgather(x), whole)
np.testing.assert_array_equal(multihost_utils.process_allgather((x + 1, number))[0], whole + 1)
assert float(effx.jit(lambda v: (v * v).sum())(x)) == float((whole**2).sum())
np.testing.assert_array_equal(np.asarray(effx.jit(enp.sort, out_shardings=NamedSharding(mesh, P()))(-x)), np.sort(-whole))
local = multihost_utils.global_array_to_host_local_array(x, mesh, P("x"))
assert local.is_fully_addressable and np.asarray(local).tolist() == mine.tolist()
back = multihost_utils.host_local_array_to_global_array({"a": local}, mesh, P("x"))
np.testing.assert_array_equal(multihost_utils.process_allgather(back)["a"], whole)
same = effx.device_put(whole, rows)
np.testing.assert_array_equal(multihost_utils.process_allgather(same), whole)
made = effx.make_array_from_callback((8,), rows, lambda i: whole[i])
np.testing.assert_array_equal(multihost_utils.process_allgather(made), whole)

# A step of training on a mesh of data x model.
grid = effx.make_mesh((2, 2), ("data", "model"))
rng = np.random.default_rng(0)
w0, data = rng.standard_normal((6, 4)).astype(np.float32), rng.standard_normal((8, 6)).astype(np.float32)

def step(w, batch):
    loss, slope = effx.value_and_grad(lambda w: enp.mean(enp.tanh(batch @ w) ** 2))(w)
    return w - 0.5 * slope, loss

w = effx.device_put(w0, NamedSharding(grid, P(None, "model")))
batch = effx.make_array_from_process_local_data(NamedSharding(grid, P("data")), data[4 * number : 4 * number + 4])
plain = enp.asarray(w0)
compiled = effx.jit(step)
for _ in range(3):
    w, loss = compiled(w, batch)
    plain, wanted = compiled(plain, data)
    np.testing.assert_allclose(float(loss), float(wanted), rtol=1e-5)
np.testing.assert_allclose(multihost_utils.process_allgather(w), np.asarray(plain), rtol=1e-4, atol=1e-6)

other = [d for d in effx.devices() if d.process_index != number][0]
try:
    effx.device_put(1.0, other)
except effx.errors.BackendError as error:
    assert f"belongs to process {1 - number}" in str(error)
else:
    raise AssertionError
assert effx.random.normal(effx.random.key(0), (3,)).devices() == {effx.local_devices()[0]}
print("done")
"""


def test_two_processes(together: Together) -> None:
    """Arrays, computations, a step of training, what is refused."""
    for ended in together(JOIN + TRAINING, 2, timeout=100):
        assert ended.status == 0, ended.error
        assert ended.out.splitlines()[-1] == "done"
