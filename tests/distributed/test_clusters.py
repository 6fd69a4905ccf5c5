"""What the environments of launchers say, from tables of their variables."""

from __future__ import annotations

import socket
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effx.distributed.clusters import ProcessInfo, detect, expand_hostlist
from effx.errors import DistributedError

HOSTLISTS = {
    "node": ["node"],
    "a,b": ["a", "b"],
    "n[1-3]": ["n1", "n2", "n3"],
    "n[08-10,12]": ["n08", "n09", "n10", "n12"],
    "n[1,3-4],login,m[001]": ["n1", "n3", "n4", "login", "m001"],
    "r[1-2]n[3-4]": ["r1n3", "r1n4", "r2n3", "r2n4"],
    "n[1-2]-ib.cluster": ["n1-ib.cluster", "n2-ib.cluster"],
    "n[9-11]": ["n9", "n10", "n11"],
}


@pytest.mark.parametrize("text", HOSTLISTS)
def test_hostlists(text: str) -> None:
    """The examples of Slurm's manual, and what clusters call their machines."""
    assert expand_hostlist(text) == HOSTLISTS[text]


@pytest.mark.parametrize("text", ["", "n[1-", "n[a]", "n[]", "n1]", "n[1-2-3]"])
def test_malformed_hostlists(text: str) -> None:
    """What is no list is refused."""
    with pytest.raises(DistributedError) as caught:
        expand_hostlist(text)
    assert caught.value.message == f"distributed.initialize: {text!r} is no list of hosts of Slurm"


@given(
    prefix=st.text("abc-", min_size=1, max_size=3),
    width=st.integers(1, 4),
    ranges=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), min_size=1, max_size=3),
)
def test_ranges_of_hosts(prefix: str, width: int, ranges: list[tuple[int, int]]) -> None:
    """A list stands for what one would write out, with the leading zeros of each range's start."""
    text = ",".join([f"{first:0{width}}-{first + more}" for first, more in ranges])
    expected = [
        f"{prefix}{i:0{max(width, len(str(first)))}}"
        for first, more in ranges
        for i in range(first, first + more + 1)
    ]
    assert expand_hostlist(f"{prefix}[{text}]") == expected


SLURM = {
    "SLURM_JOB_ID": "4097",
    "SLURM_STEP_NODELIST": "n[07-08]",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}
OPEN_MPI = {
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
}
NAMED = {
    "EFFX_COORDINATOR_ADDRESS": "a:1",
    "EFFX_NUM_PROCESSES": "2",
    "EFFX_PROCESS_ID": "0",
    "EFFX_LOCAL_PROCESS_ID": "0",
}
MPI_PORT = 61440 + (1531576320 >> 12) % 4096
PLACES = {
    "nothing": ({}, ProcessInfo(None, None, None, None, "environment")),
    "slurm": (SLURM, ProcessInfo("n07:61441", 4, 3, 1, "slurm")),
    "slurm, step": (SLURM | {"SLURM_STEP_NUM_TASKS": "2"}, ProcessInfo("n07:61441", 2, 3, 1, "slurm")),
    "slurm, port": (SLURM | {"JAX_COORDINATOR_PORT": "9"}, ProcessInfo("n07:9", 4, 3, 1, "slurm")),
    "slurm, part": ({"SLURM_JOB_ID": "1"}, ProcessInfo(None, None, None, None, "environment")),
    "slurm, overridden": (SLURM | {"EFFX_PROCESS_ID": "0"}, ProcessInfo("n07:61441", 4, 0, 1, "slurm")),
    "ompi": (OPEN_MPI, ProcessInfo(f"10.96.0.1:{MPI_PORT}", 4, 2, 0, "ompi")),
    "ompi, one address": (
        OPEN_MPI | {"OMPI_MCA_orte_hnp_uri": "0.0;tcp://10.0.0.1:34911"},
        ProcessInfo("10.0.0.1:61440", 4, 2, 0, "ompi"),
    ),
    "ompi, names": (
        OPEN_MPI | {"OMPI_MCA_orte_hnp_uri": "4096.0;tcp://10.0.0.1:1;ud://7.1.2"},
        ProcessInfo("10.0.0.1:61441", 4, 2, 0, "ompi"),
    ),
    "named": (SLURM | NAMED, ProcessInfo("a:1", 2, 0, 0, "environment")),
    "jax": (
        {"JAX_COORDINATOR_ADDRESS": "b:2", "JAX_NUM_PROCESSES": "3", "JAX_PROCESS_ID": "1"},
        ProcessInfo("b:2", 3, 1, None, "environment"),
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_places(name: str) -> None:
    """Which launcher it is, and what it says."""
    environment, place = PLACES[name]
    assert detect(None, environment) == place


@pytest.mark.parametrize(
    ("host", "index", "coordinator"),
    [
        ("train-3.workers.default.svc.cluster.local", "3", "train-0.workers.default.svc.cluster.local:61440"),
        ("my-job-12", "12", "my-job-0:61440"),
        ("other", "1", None),
    ],
)
def test_kubernetes(host: str, index: str, coordinator: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pods of an indexed Job are called by their index; how many there are, the user says."""
    monkeypatch.setattr(socket, "getfqdn", lambda: host)
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": index}
    assert detect(None, environment) == ProcessInfo(coordinator, None, int(index), None, "k8s")
    more = environment | {"EFFX_NUM_PROCESSES": "16"}
    assert detect("k8s", more) == ProcessInfo(coordinator, 16, int(index), None, "k8s")


class Communicator:
    def Get_size(self) -> int:  # noqa: N802  mpi4py's name
        return 3

    def Get_rank(self) -> int:  # noqa: N802  mpi4py's name
        return 2

    def bcast(self, value: object, root: int = 0) -> object:
        assert (value, root) == (None, 0)
        return "host:5"

    def Split_type(self, kind: int) -> Communicator:  # noqa: N802  mpi4py's name
        return self

    def Free(self) -> None: ...  # noqa: N802  mpi4py's name


def test_mpi4py(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where it is asked for; rank 0 tells the others where it is."""
    monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace())
    module = SimpleNamespace(COMM_WORLD=Communicator(), COMM_TYPE_SHARED=1)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", module)
    assert detect("mpi4py", {}) == ProcessInfo("host:5", 3, 2, 2, "mpi4py")
    assert detect(None, {}) == ProcessInfo(None, None, None, None, "environment")
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    with pytest.raises(DistributedError, match=r"mpi4py cannot be imported: "):
        detect("mpi4py", {})


REFUSED = [
    ("slurm", {}, "this process was not started by slurm"),
    (
        "pbs",
        {},
        "cluster_detection_method must be one of slurm, ompi, k8s, mpi4py, deactivate, got 'pbs'",
    ),
    (None, SLURM | {"SLURM_PROCID": "x"}, "SLURM_PROCID must be a number, got 'x'"),
    (
        None,
        OPEN_MPI | {"OMPI_MCA_orte_hnp_uri": "here"},
        "OMPI_MCA_orte_hnp_uri has no address: 'here'",
    ),
]


@pytest.mark.parametrize(("method", "environment", "text"), REFUSED)
def test_refused(method: str | None, environment: dict[str, str], text: str) -> None:
    """What cannot be read, and what is not there."""
    with pytest.raises(DistributedError) as caught:
        detect(method, environment)
    assert caught.value.message == f"distributed.initialize: {text}"


def test_deactivated() -> None:
    """Then only the variables of effx count."""
    assert detect("deactivate", SLURM) == ProcessInfo(None, None, None, None, "environment")
