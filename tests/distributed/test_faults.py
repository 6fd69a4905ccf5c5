"""Programs over the devices of several processes when one of these fails, or runs something else: an error, never a hang."""

from __future__ import annotations

import time

import pytest

from tests.distributed.conftest import Together
from tests.distributed.results import Ended
from tests.distributed.test_groups import JOIN

HEARTBEAT = 6

DIFFERENT = """
from effx.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = effx.make_mesh((4,), ("data",))
grid = effx.make_mesh((2, 2), ("a", "b"))
rows = NamedSharding(mesh, P("data"))

def cut(n, dtype=np.float32, where=rows):
    return effx.make_array_from_process_local_data(where, np.ones((n, 3), dtype))

def loss(x):
    return (x * (1.0 + number)).sum()

def total(x):
    return x.sum() if number else x.max()

x = cut(2)
turned = NamedSharding(Mesh(mesh.devices[::-1] if number else mesh.devices, ("data",)), P("data"))
calls = {
    "shapes": lambda: effx.jit(lambda x: x.sum())(cut(2 + 2 * number)),
    "dtypes": lambda: effx.jit(lambda x: x - x.sum(0))(cut(2, [np.float32, np.int32][number])),
    "names": lambda: (effx.jit(total) if number else effx.jit(loss))(x),
    "constants": lambda: effx.jit(loss)(x),
    "collectives": lambda: effx.jit(total)(x),
    "results": lambda: effx.jit(lambda x: x - x.max(), out_shardings=NamedSharding(mesh, P() if number else P("data")))(x),
    "orders": lambda: effx.jit(lambda x: x - x.sum())(cut(2, where=turned)),
    "donation": lambda: effx.jit(lambda x: x - x.min(0), donate_argnums=range(number))(cut(2)),
    "eager": lambda: x.max() if number else x.sum(),
    "moves": lambda: effx.device_put(x, NamedSharding(grid, P("b" if number else "a"))),
    "eager sums": lambda: x.sum() if number else x.sum(0),
}
for name, call in calls.items():
    try:
        effx.block_until_ready(call())
    except effx.errors.ProcessMismatchError as error:
        print(f"{name}: {error.message}")

# What was called in other lines, and how often, does not count; nor what a process computes without the others.
same = effx.jit(lambda x: enp.sin(x).sum())
y = same(x) if number else None
y = y if number else same(x)
assert same(x) == same(x) == y
if number:
    assert (x * 3 + y / 2).addressable_shards[0].data.shape == (1, 3)
own = effx.make_mesh((2,), ("data",), devices=effx.local_devices())
assert effx.jit(lambda v: v.sum() + number)(effx.device_put(enp.ones(4), NamedSharding(own, P("data")))) == 4 + number
from effx.lower.placement import process_agreement
process_agreement.PATIENCE = 0.3
if number:
    time.sleep(1)
assert effx.jit(lambda x: x.min())(x) == 1
print("done")
"""

SAME = ("<lambda>", "f32[4,3]", "f32[4,3]")
# What the two processes run: name, arguments and results; None for what differs in nothing of these.
PAIRS: dict[str, tuple[tuple[str, str, str], tuple[str, str, str] | None]] = {
    "shapes": (("<lambda>", "f32[4,3]", "f32[]"), ("<lambda>", "f32[8,3]", "f32[]")),
    "dtypes": (SAME, ("<lambda>", "i32[4,3]", "i32[4,3]")),
    "names": (("loss", "f32[4,3]", "f32[]"), ("total", "f32[4,3]", "f32[]")),
    "constants": (("loss", "f32[4,3]", "f32[]"), None),
    "collectives": (("total", "f32[4,3]", "f32[]"), None),
    "results": (SAME, None),
    "orders": (SAME, None),
    "donation": (SAME, None),
    "eager": (("reduce_sum", "f32[4,3]", "f32[]"), ("reduce_max", "f32[4,3]", "f32[]")),
    "moves": (("device_put", "f32[4,3]", "f32[4,3]"), None),
    "eager sums": (("reduce_sum", "f32[4,3]", "f32[3]"), ("reduce_sum", "f32[4,3]", "f32[]")),
}


def message(pair: tuple[tuple[str, str, str], tuple[str, str, str] | None], process: int) -> str:
    """The error in one of the processes."""
    first, second = pair
    name = first[0] if second is None or process == 0 else second[0]
    other = "another program of this name and these types"
    if second is not None:
        other = f"{second[0]}({second[1]}) -> ({second[2]})"
    shown = f"{first[0]}({first[1]}) -> ({first[2]})"
    return f"{name}: the processes run different programs: process 0 {shown}, process 1 {other}"


def test_different_programs(together: Together) -> None:
    """Processes that run different programs are told so, all of them, and can go on together."""
    for k, ended in enumerate(together(JOIN + DIFFERENT, 2)):
        assert ended.status == 0, ended.error
        lines = ended.out.splitlines()
        late = (
            "<lambda>: waits for the other processes that have its devices, which must run it too: [0, 1]\n"
        )
        assert ended.error == (late if k == 0 else "")
        assert lines == [*[f"{name}: {message(pair, k)}" for name, pair in PAIRS.items()], "done"]


STEPS = """
import threading
from effx.sharding import NamedSharding, PartitionSpec as P
count = effx.process_count()
mesh = effx.make_mesh((count, 2), ("data", "model"))
w = effx.device_put(np.ones((6, 4), np.float32), NamedSharding(mesh, P(None, "model")))
x = effx.make_array_from_process_local_data(NamedSharding(mesh, P("data")), np.ones((2, 6), np.float32))

def step(w, x):
    value, slope = effx.value_and_grad(lambda w: enp.mean(enp.tanh(x @ w) ** 2))(w)
    return w - 0.1 * slope, value

compiled = effx.jit(step, donate_argnums=0)
w, value = compiled(w, x)
multihost_utils.sync_global_devices("begun")

def fail(how):
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raises":
        raise ValueError("no")
    sys.exit(0)

victim, how, every = int(os.environ["VICTIM"]), os.environ["HOW"], int(os.environ["EVERY"])
delay = float(os.environ["DELAY"])
at = time.time() + delay
if number == victim:
    print(at, flush=True)
    if how == "killed":
        threading.Timer(delay, fail, (how,)).start()
i = 0
while True:
    if number == victim and how != "killed" and time.time() > at:
        fail(how)
    w, value = compiled(w, x)
    i += 1
    if i % every == 0:
        float(value)
"""


def run_steps(together: Together, count: int, victim: int, delay: float, how: str, every: int) -> list[Ended]:
    """Trains in some processes until one of them ends, and waits for the others to end too: each would go on for ever."""
    variables = {"VICTIM": str(victim), "DELAY": str(delay), "HOW": how, "EVERY": str(every)}
    code = JOIN.replace("shutdown_timeout_seconds=10", "shutdown_timeout_seconds=2") + STEPS
    found = together(code, [{"HEARTBEAT": str(HEARTBEAT), **variables}] * count)
    assert float(found[victim].out.splitlines()[0]) < time.time()  # it had begun to compute
    return found


def check_killed(found: list[Ended], victim: int) -> None:
    """Whoever was not killed says who was, as the last of its errors."""
    who = f"process {victim} of {len(found)}{' (the coordinator)' * (victim == 0)}"
    for k, process in enumerate(found):
        if k == victim:
            assert process.status == -9
            continue
        # XLA may be the first to notice that its coordinator is gone, and ends the process then.
        if victim == 0 and process.status == -6:
            assert "leader task was" in process.error
            continue
        assert process.status == 1, process.error
        assert "Error dispatching computation: Error" not in process.error
        last = process.last
        assert last.startswith("effx.errors.DistributedError: "), process.error
        assert last.endswith(f"{who} is gone: it was ended from outside, or its machine was")


@pytest.mark.parametrize(("count", "victim", "every"), [(3, 1, 1), (2, 0, 5)])
def test_a_process_is_killed_in_a_step(count: int, victim: int, every: int, together: Together) -> None:
    """The others are in a collective with it, and end."""
    check_killed(run_steps(together, count, victim, 0.3, "killed", every), victim)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(50))
def test_kills_in_steps_at_random_times(seed: int, together: Together) -> None:
    """Whichever process is killed, whenever, and whether it waits for each step or for some of them."""
    victim, delay, every = seed % 3, (seed * 7919 % 100) / 100, (1, 3, 40)[seed % 7 % 3]
    check_killed(run_steps(together, 3, victim, delay, "killed", every), victim)


def test_a_process_raises_between_steps(together: Together) -> None:
    """The others, which are in the next step, end with what it raised."""
    found = run_steps(together, 2, 1, 0.2, "raises", 1)
    assert [process.status for process in found] == [1, 1]
    assert found[0].last.endswith("process 1 of 2 failed: ValueError: no")
    assert found[1].last == "ValueError: no"


def test_a_process_ends_before_the_others(together: Together) -> None:
    """One that makes fewer steps waits for the others at its end, and then says that they do not come."""
    found = run_steps(together, 2, 1, 0.2, "ends", 1)
    assert [process.status for process in found] == [1, 1]
    text = "distributed.shutdown: process 0 of 2 did not end within 2 s"
    assert found[1].last == f"effx: {text}"
    assert found[0].last.endswith(f"process 1 of 2 failed: {text}")
