"""The group of processes that this one joins, and leaves when it ends."""

import atexit
import contextlib
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from functools import partial
from typing import NoReturn, final

import attrs

from effx.distributed.arguments import (
    bind_address,
    check_security,
    join_host_port,
    own_address,
    own_device_ids,
    resolve_process_info,
)
from effx.distributed.watch import Watch, gather, join, parse_address
from effx.errors import DistributedError, is_internal
from effx.lower.placement import backends, processes
from effx.lower.placement.processes import Group, Security

__all__ = ["initialize", "is_initialized", "shutdown"]

GRACE = 10.0  # seconds in which a process may end by itself, once another one has failed
SETTLE = 0.2  # seconds in which the failure of another process explains that of this one


@final
@attrs.define(eq=False)
class _Member:
    group: Group
    watch: Watch | None  # None where only XLA watches
    service: processes.Service | None  # in process 0
    shutdown_timeout: int


_member: list[_Member] = []  # at most one
_registered: list[bool] = []


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
    mtls_cert_file: str | None = None,
    mtls_key_file: str | None = None,
    mtls_ca_file: str | None = None,
    mtls_peer_uri_prefix: str | None = None,
    verify_secure_credentials: bool | None = None,
) -> None:
    """Joins this process with others to a group, whose devices `effx.devices` lists from then on.

    All processes call it, before anything is computed. Arguments that are None are read from the environment: that of
    `python -m effx.distributed.launch`, of Slurm, of Open MPI, of an indexed Job of Kubernetes, or what
    `EFFX_COORDINATOR_ADDRESS`, `EFFX_NUM_PROCESSES` and `EFFX_PROCESS_ID` say.

    Process 0 listens at the coordinator's address. It is the only one that listens there, and on this address only: on
    the loopback device if that is one of it, which no other machine reaches. Whoever can connect can join and read what
    the processes exchange; on shared networks, the files for TLS keep strangers out of XLA's service.

    A process that fails ends the others, with an error that names it: those that wait raise a `DistributedError`, those
    that do something else are ended 10 seconds later, or after half of `heartbeat_timeout_seconds` if that is less.

    Args:
        coordinator_address: host and port of process 0.
        num_processes: how many processes there are.
        process_id: the number of this one, from 0.
        local_device_ids: which GPUs of this machine are this process's; None for all, but for Slurm and MPI, where it
            is one for each process. The flag `num_cpu_devices` sets a CPU's number of devices.
        cluster_detection_method: "slurm", "ompi", "k8s" or "mpi4py" to ask that one only; "deactivate" to ask none.
        initialization_timeout: seconds in which all processes must connect.
        heartbeat_timeout_seconds: seconds after which a process that gives no sign of life counts as dead. A process
            that dies is noticed at once; this is for machines that vanish, and processes that hang.
        shutdown_timeout_seconds: seconds that a process which has ended waits for the others.
        coordinator_bind_address: host and port at which process 0 listens, if not at `coordinator_address`.
        slice_index: the old name of `partition_index`.
        partition_index: the part of the accelerators' network that this process's devices belong to.
        mtls_cert_file: this process's certificates, for mutual TLS, with jaxlib 0.12. Only XLA watches the processes
            then, and ends them where they do not fit.
        mtls_key_file: their private key.
        mtls_ca_file: the certificates that verify the other processes'.
        mtls_peer_uri_prefix: the required prefix of a URI in the other processes' certificates.
        verify_secure_credentials: True to refuse to go on without TLS.

    Raises:
        DistributedError: the processes do not connect: one is missing, occurs twice, or expects another number of
            processes; the port is in use; a backend has started; an argument is None and not in the environment.

    >>> initialize("localhost:1234", num_processes=2, process_id=2)
    Traceback (most recent call last):
    effx.errors.DistributedError: distributed.initialize: process_id must be from 0 to 1 for 2 processes, got 2
    ...
    """
    if _member:
        raise DistributedError("distributed.initialize: this process belongs to a group already")
    address, count, number, process_info = resolve_process_info(
        coordinator_address, num_processes, process_id, cluster_detection_method
    )
    if backends.started_platforms():
        raise DistributedError(
            f"distributed.initialize: {', '.join(backends.started_platforms())} has started; call it before anything "
            "is computed"
        )
    security = Security(
        mtls_cert_file, mtls_key_file, mtls_ca_file, mtls_peer_uri_prefix, verify_secure_credentials or None
    )
    check_security(security)
    host, port = parse_address("coordinator_address", address)
    host = "127.0.0.1" if host == "localhost" else host
    timeouts = (initialization_timeout, heartbeat_timeout_seconds, shutdown_timeout_seconds)
    service, watch = None, None
    if number == 0:
        bind = bind_address(host, port, coordinator_bind_address)
        gathering = None if security.mtls_cert_file else gather(bind, count, initialization_timeout)
        try:
            service = processes.start_service(join_host_port(*bind), count, timeouts, security)
        except DistributedError as error:
            if gathering is not None:
                gathering.refuse(error.message)
            raise
        if gathering is not None:
            watch = gathering.release(host)
    elif not security.mtls_cert_file:
        watch = join((host, port), number, count, initialization_timeout)
    grace = min(GRACE, heartbeat_timeout_seconds / 2)  # after the full timeout, XLA ends this process
    if watch is not None:
        watch.start(lambda coordinator: _end_after_failure(watch, 0.0 if coordinator else grace))
    client = processes.connect_to_service(join_host_port(host, port), number, timeouts, security)
    own = host if number == 0 else own_address(host, port) if watch is None else watch.host
    partition = partition_index if partition_index is not None else slice_index
    group = Group(number, count, client, own, _make_checker(watch))
    group.local_device_ids, group.partition_index = own_device_ids(local_device_ids, process_info), partition
    if watch is not None:
        group.failure = partial(watch.failure_within, SETTLE)
    processes.current_group.append(group)
    _member.append(_Member(group, watch, service, shutdown_timeout_seconds))
    if not _registered:
        _registered.append(True)
        atexit.register(_at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_before_fork, after_in_child=_forget_group_in_child)


def is_initialized() -> bool:
    """Returns whether this process belongs to a group.

    >>> is_initialized()
    False
    """
    return bool(_member)


def shutdown() -> None:
    """Leaves the group, once all processes do; called by itself when Python ends. Without a group it does nothing.

    Raises:
        DistributedError: another process has failed, or does not end in time.

    >>> shutdown()
    """
    if not _member:
        return
    member = _member[0]
    if member.watch is not None:
        member.watch.finish(member.shutdown_timeout)
    _member.clear()
    processes.leave_group(member.group, member.service)
    if member.watch is not None:
        member.watch.close()


def _make_checker(watch: Watch | None) -> processes.Check:
    def check(of: int) -> str | None:
        if watch is None or watch.failure is not None:
            return None if watch is None else watch.failure
        message = f"process {of} of {watch.num_processes} has ended, and what is waited for never comes"
        return message if of in watch.done else None

    return check


# --- when a process fails -------------------------------------------------------------------------


def _end_after_failure(watch: Watch, grace: float) -> None:
    """Ends this process if it does not do so itself: nothing else ends a wait inside of XLA."""
    if grace == 0.0:
        _end_process(watch)
    timer = threading.Timer(grace, _end_process, (watch,))
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # there are no new threads once Python ends, which it then does
        timer.start()


def _end_process(watch: Watch) -> None:
    """Ends the process with an error that shows the stack of its main thread."""
    _wait_for_others(watch)
    if threading.main_thread().ident not in sys._current_frames():
        time.sleep(1.0)  # Python is writing its final error, which this must not interrupt
    error = DistributedError(str(watch.failure))
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and is_internal(frame.f_code):
        frame = frame.f_back
    error.at = None
    if frame is not None:
        error.at = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}"
    _exit_process(f"effx.errors.DistributedError: {error}\n")


def _wait_for_others(watch: Watch) -> None:
    """XLA ends processes whose coordinator ends before them, with a message of its own; so process 0 is the last."""
    if watch.process_id == 0:
        watch.left.wait(2.0)


def _exit_process(text: str, status: int = 1) -> NoReturn:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        os.write(2, text.encode())
    os._exit(status)


def _before_fork() -> None:
    # gRPC ends the other processes' calls; effx can prevent neither that nor the fork.
    if _member and _member[0].service is not None and _member[0].group.num_processes > 1:
        warnings.warn(
            "os.fork: process 0 of a group serves the others, which a fork ends, and they fail; fork before "
            "distributed.initialize, or use multiprocessing's start method 'spawn' or 'forkserver'",
            RuntimeWarning,
            stacklevel=2,
        )


def _forget_group_in_child() -> None:
    """Lets a forked process go: it is none of the group, and must not keep the connections of one that dies."""
    if not _member:
        return
    watch = _member[0].watch
    _member.clear()
    processes.current_group.clear()
    if watch is not None:
        watch.abandon()


def _at_exit() -> None:
    if not _member:
        return
    watch = _member[0].watch
    error = _uncaught_exception()
    if error is None and (watch is None or watch.failure is None):
        try:
            shutdown()
            return
        except DistributedError as late:
            text = late.message
    else:
        text = _describe_error(error)
    if watch is not None:
        if error is not None and not isinstance(error, DistributedError):
            watch.failure_within(SETTLE)
        if watch.failure is None:
            watch.fail(f"process {watch.process_id} of {watch.num_processes} failed: {text}")
        else:
            text = watch.failure
        if watch.process_id == 0:
            watch.left.wait(GRACE + 2)
        watch.close()
    logging.shutdown()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    # XLA's objects must not be destroyed one by one: one ends the process if another is destroyed before it.
    is_reported = error is not None and (
        isinstance(error, DistributedError) or text == _describe_error(error)
    )
    _exit_process(
        "" if is_reported else f"effx: {text}\n", 130 if isinstance(error, KeyboardInterrupt) else 1
    )


def _uncaught_exception() -> BaseException | None:
    """Returns the exception that ends this process; an interactive one does not end by any."""
    error: BaseException | None = getattr(sys, "last_value", None)
    return None if hasattr(sys, "ps1") else error


def _describe_error(error: BaseException | None) -> str:
    if error is None:
        return ""
    line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}{': ' * bool(line)}{line}"
