"""Read a cluster launcher's environment: the process's number, their count, and the address of process 0.

All of it is in the environment; only mpi4py uses a network.
"""

import importlib
import os
import re
import socket
from collections.abc import Callable, Mapping
from typing import Protocol, cast, final

import attrs

from effx.errors import DistributedError

__all__ = ["METHODS", "ProcessInfo", "detect", "expand_hostlist"]

Environment = Mapping[str, str]
FIRST_PORT, PORTS = (
    2**16 - 2**12,
    2**12,
)  # at the end of the range that systems give out, and above that of most


@final
@attrs.frozen
class ProcessInfo:
    """The position of a process in its group; None for what the launcher does not set.

    Attributes:
        coordinator: host and port of process 0.
        num_processes: how many processes there are.
        process_id: which one this is.
        local_process_id: which one of those on its machine.
        method: the name of the launcher.
    """

    coordinator: str | None
    num_processes: int | None
    process_id: int | None
    local_process_id: int | None = None
    method: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether it has everything that a group needs."""
        return None not in (self.coordinator, self.num_processes, self.process_id)

    def fill_missing(self, other: "ProcessInfo") -> "ProcessInfo":
        """Returns this with missing values from another one."""
        return ProcessInfo(
            other.coordinator if self.coordinator is None else self.coordinator,
            other.num_processes if self.num_processes is None else self.num_processes,
            other.process_id if self.process_id is None else self.process_id,
            other.local_process_id if self.local_process_id is None else self.local_process_id,
            other.method,
        )


def expand_hostlist(text: str) -> list[str]:
    """Returns the names in a Slurm host list.

    Raises:
        DistributedError: the text is no host list.

    >>> expand_hostlist("login,n[08-10,12]-ib")
    ['login', 'n08-ib', 'n09-ib', 'n10-ib', 'n12-ib']
    """
    names: list[str] = []
    # Commas inside of brackets separate ranges, other commas hosts.
    for item in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text):
        heads = [""]
        for plain, ranges in re.findall(r"([^\[\]]+)|\[([^\[\]]*)\]", item):
            tails = (
                [plain]
                if plain
                else [number for part in ranges.split(",") for number in _parse_numbers(part, text)]
            )
            heads = [head + tail for head in heads for tail in tails]
        names += heads
    if not names or text.count("[") != text.count("]"):
        raise DistributedError(f"distributed.initialize: {text!r} is no list of hosts of Slurm")
    return names


def _parse_numbers(part: str, text: str) -> list[str]:
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
    if match is None:
        raise DistributedError(f"distributed.initialize: {text!r} is no list of hosts of Slurm")
    first, last = match[1], match[2] or match[1]
    return [str(i).zfill(len(first)) for i in range(int(first), int(last) + 1)]


def _int_variable(environment: Environment, name: str) -> int | None:
    text = environment.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise DistributedError(f"distributed.initialize: {name} must be a number, got {text!r}") from None


def _coordinator_port(environment: Environment, job: str) -> int:
    """Returns the requested port, or one by the job's number, so that two jobs rarely have the same."""
    chosen = _int_variable(environment, "EFFX_COORDINATOR_PORT") or _int_variable(
        environment, "JAX_COORDINATOR_PORT"
    )
    digits = re.sub(r"\D", "", job)
    return chosen or FIRST_PORT + int(digits or 0) % PORTS


def _detect_slurm(environment: Environment) -> ProcessInfo | None:
    if not {"SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID"} <= environment.keys():
        return None
    host = expand_hostlist(environment["SLURM_STEP_NODELIST"])[0]
    # A step may have fewer tasks than its job.
    count = _int_variable(environment, "SLURM_STEP_NUM_TASKS") or _int_variable(environment, "SLURM_NTASKS")
    return ProcessInfo(
        f"{host}:{_coordinator_port(environment, environment['SLURM_JOB_ID'])}",
        count,
        _int_variable(environment, "SLURM_PROCID"),
        _int_variable(environment, "SLURM_LOCALID"),
        "slurm",
    )


def _detect_open_mpi(environment: Environment) -> ProcessInfo | None:
    # "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911": the job's number, then the addresses of mpirun, where rank 0 is.
    uri = environment.get("OMPI_MCA_orte_hnp_uri")
    if uri is None or "OMPI_COMM_WORLD_SIZE" not in environment:
        return None
    match = re.match(r"(\d+)\.\d+;.*?://\[?([^,\]\s]+?)\]?(?:,[^:]*|:\d.*)*$", uri)
    if match is None:
        raise DistributedError(f"distributed.initialize: OMPI_MCA_orte_hnp_uri has no address: {uri!r}")
    # The job's number is in the bits above the low 12.
    return ProcessInfo(
        f"{match[2]}:{_coordinator_port(environment, str(int(match[1]) >> 12))}",
        _int_variable(environment, "OMPI_COMM_WORLD_SIZE"),
        _int_variable(environment, "OMPI_COMM_WORLD_RANK"),
        _int_variable(environment, "OMPI_COMM_WORLD_LOCAL_RANK"),
        "ompi",
    )


def _detect_kubernetes(environment: Environment) -> ProcessInfo | None:
    """An indexed Job. Its pods are called `<job>-<index>`; a headless service as subdomain lets them find each other."""
    index = _int_variable(environment, "JOB_COMPLETION_INDEX")
    if index is None or "KUBERNETES_SERVICE_HOST" not in environment:
        return None
    host, _, domain = socket.getfqdn().partition(".")
    job, dash, number = host.rpartition("-")
    coordinator = None
    if dash and number == str(index):
        coordinator = f"{job}-0{'.' * bool(domain)}{domain}:{_coordinator_port(environment, '')}"
    return ProcessInfo(coordinator, None, index, None, "k8s")


class _Communicator(Protocol):
    def Get_size(self) -> int: ...
    def Get_rank(self) -> int: ...
    def bcast(self, value: object, root: int = 0) -> object: ...
    def Split_type(self, kind: int) -> "_Communicator": ...
    def Free(self) -> None: ...


def _detect_mpi4py(environment: Environment) -> ProcessInfo | None:
    try:
        mpi = importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise DistributedError(f"distributed.initialize: mpi4py cannot be imported: {error}") from error
    world = cast("_Communicator", mpi.COMM_WORLD)
    machine = world.Split_type(mpi.COMM_TYPE_SHARED)
    local = machine.Get_rank()
    machine.Free()
    mine = f"{socket.gethostname()}:{_choose_free_port(environment)}" if world.Get_rank() == 0 else None
    return ProcessInfo(str(world.bcast(mine)), world.Get_size(), world.Get_rank(), local, "mpi4py")


def _choose_free_port(environment: Environment) -> int:
    chosen = _int_variable(environment, "EFFX_COORDINATOR_PORT") or _int_variable(
        environment, "JAX_COORDINATOR_PORT"
    )
    if chosen is not None:
        return chosen
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def _detect_by_variables(environment: Environment) -> ProcessInfo:
    """What the variables of effx, then those of JAX, say."""
    numbers = {
        name: next(
            (
                n
                for n in [_int_variable(environment, f"{p}_{name}") for p in ("EFFX", "JAX")]
                if n is not None
            ),
            None,
        )
        for name in ("NUM_PROCESSES", "PROCESS_ID", "LOCAL_PROCESS_ID")
    }
    address = environment.get("EFFX_COORDINATOR_ADDRESS") or environment.get("JAX_COORDINATOR_ADDRESS")
    return ProcessInfo(
        address, numbers["NUM_PROCESSES"], numbers["PROCESS_ID"], numbers["LOCAL_PROCESS_ID"], "environment"
    )


METHODS: dict[str, Callable[[Environment], ProcessInfo | None]] = {
    "slurm": _detect_slurm,
    "ompi": _detect_open_mpi,
    "k8s": _detect_kubernetes,
    "mpi4py": _detect_mpi4py,
}


def detect(method: str | None = None, environment: Environment | None = None) -> ProcessInfo:
    """Returns this process's position by the environment.

    Args:
        method: "slurm", "ompi", "k8s" or "mpi4py" to ask that one; "deactivate" to ask none; None to ask those that
            need no library, in this order. `EFFX_COORDINATOR_ADDRESS` and the other variables of effx take precedence.
        environment: the variables; None for this process's.

    Raises:
        DistributedError: there is no such method, it does not apply here, or a variable cannot be read.

    >>> detect(None, {"EFFX_PROCESS_ID": "1", "EFFX_NUM_PROCESSES": "2"}).process_id
    1
    """
    environment = os.environ if environment is None else environment
    named = _detect_by_variables(environment)
    if method == "deactivate" or (method is None and named.is_complete):
        return named
    if method is None:
        candidates = [METHODS[name](environment) for name in ("slurm", "ompi", "k8s")]
        detected = next((candidate for candidate in candidates if candidate is not None), None)
    elif method not in METHODS:
        raise DistributedError(
            f"distributed.initialize: cluster_detection_method must be one of {', '.join(METHODS)}, deactivate, "
            f"got {method!r}"
        )
    else:
        detected = METHODS[method](environment)
        if detected is None:
            raise DistributedError(f"distributed.initialize: this process was not started by {method}")
    return named if detected is None else named.fill_missing(detected)
