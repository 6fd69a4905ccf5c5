"""Groups of processes over the loopback device: what they see, and what happens when one of them fails."""

from __future__ import annotations

import ast
import inspect
from types import SimpleNamespace

import pytest

import effx
from effx import errors
from effx.distributed import group
from effx.distributed.launch import free_port
from tests.distributed.conftest import Together

JOIN = """
import os, signal, sys, time
import numpy as np
import effx, effx.numpy as enp
from effx.experimental import multihost_utils
effx.distributed.initialize(
    initialization_timeout=20, heartbeat_timeout_seconds=int(os.environ.get("HEARTBEAT", 20)), shutdown_timeout_seconds=10
)
number = int(os.environ["EFFX_PROCESS_ID"])
"""

FACTS = """
assert effx.distributed.is_initialized()
x = enp.arange(3.0) + number
value, slope = effx.value_and_grad(lambda x: (x * x).sum())(x)
halves = effx.pmap(lambda x: effx.lax.psum(x, "i"), axis_name="i", devices=effx.local_devices())(enp.ones(2))
seen = effx.pure_callback(lambda x: np.asarray(x) + 1, effx.ShapeDtypeStruct((3,), "float32"), x)
print({
    "all": [d.process_index for d in effx.devices()],
    "ids": len({d.id for d in effx.devices()}),
    "local": [d.process_index for d in effx.local_devices()],
    "of": [[d.process_index for d in effx.local_devices(k)] for k in effx.process_indices()],
    "old": [[d.process_index for d in effx.local_devices(host_id=k)] for k in effx.host_ids()],
    "counts": [effx.device_count(), effx.local_device_count(), effx.process_count(), effx.host_count()],
    "index": [effx.process_index(), effx.host_id()],
    "where": [d == effx.local_devices()[0] for d in effx.jit(lambda x: x + 1)(x).devices()],
    "put": [d == effx.local_devices()[1] for d in effx.device_put(x, effx.local_devices()[1]).devices()],
    "numbers": [float(value), slope.tolist(), halves.tolist(), seen.tolist()],
    "lines": effx.print_environment_info(True).splitlines()[4:6],
})
other = [d for d in effx.devices() if d.process_index != number][0]
for refused in (lambda: effx.local_devices(5), effx.default_device(other)(lambda: enp.ones(2) + 1)):
    try:
        refused()
    except effx.errors.BackendError as error:
        print(error.message)
effx.distributed.shutdown()
assert not effx.distributed.is_initialized()
effx.distributed.shutdown()
print((x + 1).tolist())
"""


def test_what_processes_see(together: Together) -> None:
    """All devices, with the process of each; what is computed is computed on a process's own devices."""
    for k, process in enumerate(together(JOIN + FACTS, 3)):
        assert process.status == 0, process.error
        first, refused, elsewhere, after = process.out.splitlines()
        x = [float(k), k + 1.0, k + 2.0]
        found = ast.literal_eval(first)
        kind = found.pop("lines")
        assert [line.partition(" of ")[0] for line in kind] == ["devices: 6", "processes: 3"]
        assert kind[0].endswith("(2 local)")
        assert found == {
            "all": [0, 0, 1, 1, 2, 2],
            "ids": 6,
            "local": [k, k],
            "of": [[0, 0], [1, 1], [2, 2]],
            "old": [[0, 0], [1, 1], [2, 2]],
            "counts": [6, 2, 3, 3],
            "index": [k, k],
            "where": [True],
            "put": [True],
            "numbers": [sum(v * v for v in x), [2 * v for v in x], [2.0, 2.0], [v + 1 for v in x]],
        }
        assert refused == "local_devices: process_index must be one of [0, 1, 2], got 5"
        where = "CpuDevice(id=0)" if k else "CpuDevice(id=2048)"
        assert elsewhere == (
            f"default_device: {where} belongs to process {0 if k else 1}, this is process {k}"
        )
        assert after == str([v + 1 for v in x])


ALONE = """
import effx
from effx import distributed
from effx.experimental import multihost_utils

def message(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except effx.errors.DistributedError as error:
        print(error.message)

address = f"localhost:{__import__('os').environ['PORT']}"
message(distributed.initialize, address, 2)
message(distributed.initialize, "nowhere", 1, 0)
message(distributed.initialize, address, 0, 0)
message(distributed.initialize, address, 2, 2)
message(distributed.initialize, address, 1, 0, coordinator_bind_address="203.0.113.1:1")
distributed.initialize(address, 1, 0)
message(distributed.initialize, address, 1, 0)
print(effx.process_count(), effx.numpy.ones(2).tolist(), multihost_utils.process_allgather(3.0))
distributed.shutdown()
message(distributed.initialize, address, 1, 0)
"""


def test_arguments(together: Together) -> None:
    """What is missing or out of range is refused; a group may have one process."""
    none = {"EFFX_COORDINATOR_ADDRESS": "", "EFFX_NUM_PROCESSES": "", "EFFX_PROCESS_ID": ""}
    code = (
        "import os\n[os.environ.pop(name) for name in list(os.environ) if name.startswith('EFFX_')]\n" + ALONE
    )
    (process,) = together(code, [{**none, "PORT": str(free_port())}])
    assert process.status == 0, process.error
    assert (
        process.out
        == """\
distributed.initialize: nothing says what process_id should be; pass it, set EFFX_PROCESS_ID, or start by \
python -m effx.distributed.launch
distributed.initialize: coordinator_address must be host:port, got 'nowhere'
distributed.initialize: num_processes must be at least 1, got 0
distributed.initialize: process_id must be from 0 to 1 for 2 processes, got 2
distributed.initialize: process 0 cannot listen at 203.0.113.1:1: Cannot assign requested address; \
coordinator_bind_address may name another address of this machine
distributed.initialize: this process belongs to a group already
1 [1.0, 1.0] [3.]
distributed.initialize: cpu has started; call it before anything is computed
"""
    )


def test_signature() -> None:
    """Names, order and defaults are those of jax 0.12."""
    assert str(inspect.signature(effx.distributed.initialize)).replace("'", "") == (
        "(coordinator_address: str | None = None, num_processes: int | None = None, process_id: int | None = None, "
        "local_device_ids: int | collections.abc.Sequence[int] | None = None, cluster_detection_method: str | None = None, "
        "initialization_timeout: int = 300, heartbeat_timeout_seconds: int = 100, shutdown_timeout_seconds: int = 300, "
        "coordinator_bind_address: str | None = None, slice_index: int | None = None, partition_index: int | None = None, "
        "mtls_cert_file: str | None = None, mtls_key_file: str | None = None, mtls_ca_file: str | None = None, "
        "mtls_peer_uri_prefix: str | None = None, verify_secure_credentials: bool | None = None) -> None"
    )


def test_started_backends() -> None:
    """A backend that has started knows no group."""
    effx.devices()
    with pytest.raises(errors.DistributedError) as caught:
        effx.distributed.initialize("localhost:1234", 2, 0)
    assert caught.value.message == (
        "distributed.initialize: cpu has started; call it before anything is computed"
    )
    assert not effx.distributed.is_initialized()


KILL = "os.kill(os.getpid(), signal.SIGKILL)"
GONE = "effx.errors.DistributedError: {}process {} is gone: it was ended from outside, or its machine was"
AFTER = "multihost_utils.sync_global_devices('there')\n"
FAILURES = {
    # name: what process 1 does, then what the others do, how they end, the status of process 1; were they not told, the
    # others would wait until the test is given up
    "killed, others wait": (KILL, AFTER, GONE.format("sync_global_devices: ", "1 of 3"), -9),
    "killed, others compute": (KILL, "time.sleep(300)", GONE.format("", "1 of 3"), -9),
    "leaves": ("os._exit(0)", AFTER, GONE.format("sync_global_devices: ", "1 of 3"), 0),
    "raises": (
        "raise ValueError('no')",
        AFTER,
        "effx.errors.DistributedError: sync_global_devices: process 1 of 3 failed: ValueError: no",
        1,
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures(name: str, together: Together) -> None:
    """The others end, with an error that names who failed, and a status that is not 0."""
    first, others, text, status = FAILURES[name]
    code = f"{JOIN}\nassert effx.devices()\nif number == 1:\n    {first}\n{others}"
    found = together(code, [{"HEARTBEAT": "6"}] * 3)
    assert [process.status for process in found] == [1, status, 1]
    assert [found[k].last for k in (0, 2)] == [text, text]
    assert "\n  at   <string>:" in found[0].error


def test_coordinator_is_killed(together: Together) -> None:
    """The others end at once; where XLA is faster than effx, with its own status."""
    found = together(JOIN + "if number == 0:\n    os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(300)", 3)
    assert found[0].status == -9
    for process in found[1:]:
        assert process.status in (1, -6)
        assert (
            "process 0 of 3 (the coordinator) is gone" in process.error or "leader task was" in process.error
        )


def test_process_stands_still(together: Together) -> None:
    """XLA's heartbeats end the others, and name who gives no sign of life."""
    code = JOIN + (
        "multihost_utils.sync_global_devices('all')\n"
        "if number == 1:\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        time.sleep(6)\n"
        "        os.kill(os.getppid(), signal.SIGKILL)\n"
        "        os._exit(0)\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "time.sleep(300)"
    )
    found = together(code, [{"HEARTBEAT": "3"}] * 2)
    assert found[0].status == -6
    assert "stopped sending heartbeats):\n1\n" in found[0].error


def test_end_without_a_call_that_others_wait_in(together: Together) -> None:
    """Who waits for a process that has ended is told so."""
    found = together(JOIN + "if number != 1:\n    multihost_utils.sync_global_devices('there')", 2)
    assert [process.status for process in found] == [1, 1]
    text = "sync_global_devices: process 1 of 2 has ended, and what is waited for never comes"
    assert found[0].last == f"effx.errors.DistributedError: {text}"
    assert found[1].last == f"effx: process 0 of 2 failed: DistributedError: {text}"


FORKS = """
import atexit, subprocess
assert subprocess.run(["true"]).returncode == 0
if number == 0:
    multihost_utils.sync_global_devices("forked")
    multihost_utils.sync_global_devices("there")
pid = os.fork()
if pid == 0:
    assert not effx.distributed.is_initialized()
    atexit._run_exitfuncs()  # the end of a process that is none of the group
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
if os.fork() == 0:
    sys.stdout.close()
    os.closerange(0, 3)  # this test does not wait for it, unless it hides the death
    time.sleep(100)
    os._exit(0)
multihost_utils.sync_global_devices("forked")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_forked_processes(together: Together) -> None:
    """They do not belong to the group, and one that lives on does not hide the death of its parent."""
    found = together(JOIN + FORKS, 2)
    assert [process.status for process in found] == [1, -9]
    assert found[0].last == GONE.format("sync_global_devices: ", "1 of 2")


def test_forks_of_process_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA's server does not outlive a fork, which is said before."""
    monkeypatch.setattr(
        group, "_member", [SimpleNamespace(service=1, group=SimpleNamespace(num_processes=2))]
    )
    with pytest.warns(RuntimeWarning, match=r"^os\.fork: process 0 of a group serves the others, "):
        group._before_fork()


def test_end_that_others_do_not_reach(together: Together) -> None:
    """A process waits for the others' end, for as long as it was told."""
    code = JOIN.replace("shutdown_timeout_seconds=10", "shutdown_timeout_seconds=1")
    found = together(code + "if number == 1:\n    time.sleep(8)", [{"HEARTBEAT": "4"}] * 2)
    assert [process.status for process in found] == [1, 1]
    text = "distributed.shutdown: process 1 of 2 did not end within 1 s"
    assert found[0].last == f"effx: {text}"
    assert f"process 0 of 2 failed: {text}" in found[1].error


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("none", "4 devices"),
        (
            "mpi",
            "devices: cpu_collectives_implementation is 'mpi', and MPITRAMPOLINE_LIB names no MPI library (of MPIwrapper)",
        ),
    ],
)
def test_collectives(kind: str, text: str, together: Together) -> None:
    """What carries collectives is chosen before the backend starts; MPI must be there."""
    code = (
        f"import os\nos.environ.pop('MPITRAMPOLINE_LIB', None)\n{JOIN}\n"
        "try:\n    print(len(effx.devices()), 'devices')\n"
        "except effx.errors.DistributedError as error:\n    print(error.message)\n"
    )
    for process in together(code, [{"EFFX_CPU_COLLECTIVES_IMPLEMENTATION": kind}] * 2):
        assert (process.status, process.out) == (0, f"{text}\n"), process.error


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(50))
def test_kills_at_random_times(seed: int, together: Together) -> None:
    """Whenever a process is killed, and whichever it is, the others end with an error that names it."""
    victim, delay = seed % 3, (seed * 7919 % 100) / 100
    code = (
        f"{JOIN}\nimport threading\nif number == {victim}:\n"
        f"    threading.Timer({delay}, os.kill, (os.getpid(), signal.SIGKILL)).start()\n"
        "while True:\n    multihost_utils.process_allgather(np.ones(10))\n"
    )
    found = together(code, 3)
    for k, process in enumerate(found):
        assert process.status == -9 if k == victim else process.status in (1, -6)
        if k != victim:
            assert f"process {victim} of 3" in process.error or "leader task was" in process.error


THREADS = """
import threading
from effx.sharding import NamedSharding, PartitionSpec as P
rows = NamedSharding(effx.make_mesh((4,), ("x",)), P("x"))
x = effx.make_array_from_callback((4,), rows, lambda i: np.arange(4, dtype=np.float32)[i])
total = effx.jit(lambda v: v.sum())

def elsewhere(function):
    found = []
    def attempt():
        try:
            found.append(float(function()))
        except effx.errors.BackendError as error:
            found.append(str(error).splitlines()[0])
    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return found[0]

assert float(total(x)) == elsewhere(lambda: total(x)) == 6.0
with effx.thread_guard():
    assert float(total(x)) == 6.0
    refused = elsewhere(lambda: total(x))
    assert "<lambda>: failed" in refused and "the thread guard was set in thread" in refused, refused
    assert elsewhere(lambda: enp.ones(2).sum()) == 2.0
assert elsewhere(lambda: total(x)) == 6.0
effx.config.update("thread_guard", True)
assert "the thread guard was set in thread" in elsewhere(lambda: total(x))
assert float(total(x)) == 6.0
effx.config.update("thread_guard", False)
assert elsewhere(lambda: total(x)) == 6.0
print("done")
"""


def test_only_one_thread_runs_programs_of_several_processes(together: Together) -> None:
    """Where `thread_guard` is on; programs of one process run in any."""
    for process in together(JOIN + THREADS, 2):
        assert (process.status, process.out.strip()) == (0, "done"), process.error
