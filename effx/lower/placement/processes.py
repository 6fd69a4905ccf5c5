"""The group of processes that this one belongs to: XLA's coordination service, and its key-value store.

Never: decide how processes find each other, or how one that fails is handled; `effx.distributed` does.
"""

import math
import os
import time
from collections.abc import Callable
from typing import final

import attrs
from jaxlib import _jax

from effx.errors import BackendError, DistributedError
from effx.flags import cpu_collectives_implementation
from effx.lower.placement.host_memory import set_allocator_policy

Service = _jax.DistributedRuntimeService
# Returns why the process with this number can no longer answer; None where it can.
Check = Callable[[int], str | None]
SLICE = 500  # milliseconds of waiting between two checks of the other processes
CHUNK = 1 << 20  # bytes of one value in the store, whose messages are limited to 4 MiB


@final
@attrs.frozen
class Security:
    """Files for mutual TLS between processes, where XLA knows that.

    Attributes:
        mtls_cert_file: this process's certificates.
        mtls_key_file: their private key.
        mtls_ca_file: the certificates that verify the other processes'.
        mtls_peer_uri_prefix: the required prefix of a URI in the other processes' certificates.
        verify_secure_credentials: whether to fail without them.
    """

    mtls_cert_file: str | None = None
    mtls_key_file: str | None = None
    mtls_ca_file: str | None = None
    mtls_peer_uri_prefix: str | None = None
    verify_secure_credentials: bool | None = None

    def options(self) -> dict[str, str | bool]:
        """Returns XLA's options; none where none was set, since older versions take none."""
        return attrs.asdict(self, filter=lambda _, value: value is not None)


@final
@attrs.define(eq=False)
class Group:
    """A process's part in its group.

    Attributes:
        process_id: its number.
        num_processes: how many there are.
        client: XLA's connection to the coordination service.
        host: the address at which the other processes reach this one.
        check: called while this process waits for another.
        failure: returns the failure of another process, or None, after a moment in which it may be reported.
        local_device_ids: which devices of this machine are this process's; None for all.
        partition_index: the part of the network that the devices belong to; None for XLA's choice.
        exchanges: how many exchanges of data there have been; keys of the store contain it.
        programs: how many programs each set of processes has compared; see `effx.lower.placement.process_agreement`.
        agreed: marks of those that were the same.
    """

    process_id: int
    num_processes: int
    client: _jax.DistributedRuntimeClient
    host: str
    check: Check
    failure: Callable[[], str | None] = lambda: None
    local_device_ids: tuple[int, ...] | None = None
    partition_index: int | None = None
    exchanges: int = 0
    programs: dict[tuple[int, ...], int] = attrs.field(factory=dict)
    agreed: set[object] = attrs.field(factory=set)

    def put(self, key: str, value: bytes) -> int:
        """Puts a value into the store, and returns how many keys it takes."""
        chunks = [value[i : i + CHUNK] for i in range(0, len(value), CHUNK)] or [b""]
        for i, chunk in enumerate(chunks[1:], 1):
            self.client.key_value_set_bytes(f"{key}/{i}", chunk)
        # The first is written last: a process that reads it can read the others.
        self.client.key_value_set_bytes(f"{key}/0", len(chunks).to_bytes(8, "little") + chunks[0])
        return len(chunks)

    def get(self, operation: str, key: str, of: int, seconds: float = math.inf) -> bytes:
        """Waits for a value of process `of`; `operation` waits, for at most so many seconds.

        Raises:
            DistributedError: a process has failed, or `of` has ended.
            TimeoutError: the time has elapsed.
        """
        end = time.monotonic() + seconds
        first = self._wait(operation, f"{key}/0", of, end)
        count = int.from_bytes(first[:8], "little")
        return first[8:] + b"".join([self._wait(operation, f"{key}/{i}", of, end) for i in range(1, count)])

    def _wait(self, operation: str, key: str, of: int, end: float) -> bytes:
        while True:
            # Checked before the read: values that a process wrote before its end are then in the store.
            reason = self.check(of)
            try:
                return self.client.blocking_key_value_get_bytes(key, SLICE)
            except _jax.JaxRuntimeError as error:
                if "DEADLINE_EXCEEDED" not in str(error):
                    reason = self.check(of) or f"the coordination service does not answer: {error}"
            if reason is not None:
                raise DistributedError(f"{operation}: {reason}")
            if time.monotonic() > end:
                raise TimeoutError

    def delete(self, key: str) -> None:
        """Deletes the values under a key."""
        self.client.key_value_delete(f"{key}/")


current_group: list[Group] = []  # at most one


def computation_error(what: str, error: Exception) -> BackendError:
    """Returns the error for a computation that fails in XLA, with what failed as text.

    XLA's error names a closed connection, and not the process; so the failure of another process stands in its place.
    """
    process_failure = current_group[0].failure() if current_group else None
    if process_failure is not None:
        return DistributedError(f"{what}: {process_failure}")
    return BackendError(f"{what}: {error}")


def start_service(
    address: str, num_processes: int, timeouts: tuple[int, int, int], security: Security
) -> Service:
    """Starts the coordination service.

    Args:
        address: host and port to listen at.
        num_processes: how many processes there are.
        timeouts: in seconds, for the start, for heartbeats, and for the end.
        security: files for TLS.

    Raises:
        DistributedError: it does not start.
    """
    start, heartbeat, end = timeouts
    make: Callable[..., _jax.DistributedRuntimeService] = _jax.get_distributed_runtime_service
    try:
        return make(
            address,
            num_processes,
            heartbeat_timeout=heartbeat,
            cluster_register_timeout=start,
            shutdown_timeout=end,
            **security.options(),
        )
    except _jax.JaxRuntimeError as error:
        raise DistributedError(
            f"distributed.initialize: XLA's service did not start at {address}: {error}"
        ) from error


def connect_to_service(
    address: str, process_id: int, timeouts: tuple[int, int, int], security: Security
) -> _jax.DistributedRuntimeClient:
    """Connects to the coordination service; the arguments are those of `start_service`.

    Raises:
        DistributedError: jaxlib is too old for TLS.
    """
    start, heartbeat, end = timeouts
    make: Callable[..., _jax.DistributedRuntimeClient] = _jax.get_distributed_runtime_client
    client = make(
        address,
        process_id,
        init_timeout=start,
        heartbeat_timeout=heartbeat,
        shutdown_timeout=end,
        # A process that fails must not wait for the others when its objects are destroyed.
        shutdown_on_destruction=False,
        # Compressing takes ten times as long as sending does, within a machine or a cluster.
        use_compression=False,
        **security.options(),
    )
    client.connect()
    return client


def leave_group(group: Group, service: Service | None) -> None:
    """Ends a process's part in its group, when all processes do.

    Raises:
        DistributedError: XLA finds that one does not.
    """
    current_group.clear()
    try:
        group.client.shutdown()
        if service is not None:
            service.shutdown()
    except _jax.JaxRuntimeError as error:
        raise DistributedError(f"distributed.shutdown: {error}") from error


def supports_tls() -> bool:
    """Says whether the coordination service of this jaxlib supports TLS."""
    return "mtls_cert_file" in (_jax.get_distributed_runtime_service.__doc__ or "")


def start_cpu_client(num_devices: int) -> _jax.Client:
    """Starts the CPU backend, with the devices of all processes of the group.

    Raises:
        DistributedError: the processes' backends do not connect, or there is no MPI.
    """
    set_allocator_policy()
    if not current_group:
        return _jax.get_tfrt_cpu_client(asynchronous=True, num_devices=num_devices)
    group = current_group[0]
    try:
        return _jax.get_tfrt_cpu_client(
            asynchronous=True,
            distributed_client=group.client,
            node_id=group.process_id,
            num_nodes=group.num_processes,
            collectives=_make_collectives(group),
            num_devices=num_devices,
        )
    except _jax.JaxRuntimeError as error:
        raise DistributedError(
            f"devices: the CPU backends of {group.num_processes} processes did not come together: {error}"
        ) from error


def _make_collectives(group: Group) -> _jax.CpuCollectives | None:
    kind = cpu_collectives_implementation.value
    if kind == "none" or (kind == "gloo" and group.num_processes == 1):
        return None
    if kind == "gloo":
        return _jax.make_gloo_tcp_collectives(group.client, hostname=group.host)
    # Without it, MPItrampoline in jaxlib ends the process.
    if not os.environ.get("MPITRAMPOLINE_LIB"):
        raise DistributedError(
            "devices: cpu_collectives_implementation is 'mpi', and MPITRAMPOLINE_LIB names no MPI library (of MPIwrapper)"
        )
    collectives = _jax.make_mpi_collectives()
    collectives.Init()
    return collectives


def plugin_options(platform: str) -> dict[str, str | bool | int | list[int] | float]:
    """Returns the options that describe the group to a plugin."""
    if not current_group:
        return {}
    group = current_group[0]
    options: dict[str, str | bool | int | list[int] | float] = {}
    if platform in ("cuda", "rocm"):
        options |= {"node_id": group.process_id, "num_nodes": group.num_processes}
        if group.local_device_ids is not None:
            options["visible_devices"] = list(group.local_device_ids)
    if group.partition_index is not None:
        options["partition_index"] = group.partition_index
    return options


def distributed_client() -> _jax.DistributedRuntimeClient | None:
    """Returns XLA's connection to the coordination service; None without a group."""
    return current_group[0].client if current_group else None
