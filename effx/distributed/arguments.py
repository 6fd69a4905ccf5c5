"""Check the arguments of `initialize`, and complete them from the environment."""

import contextlib
import ipaddress
import os
import socket
from collections.abc import Sequence

from effx.distributed.clusters import ProcessInfo, detect
from effx.distributed.watch import parse_address
from effx.errors import DistributedError
from effx.lower.placement import processes
from effx.lower.placement.backends import jaxlib_version
from effx.lower.placement.processes import Security


def resolve_process_info(
    address: str | None, count: int | None, number: int | None, method: str | None
) -> tuple[str, int, int, ProcessInfo]:
    """Returns the coordinator's address, the number of processes, which one this is, and what else is known.

    Raises:
        DistributedError: one of them is given nowhere, or out of range.
    """
    process_info = ProcessInfo(address, count, number)
    if not process_info.is_complete:
        process_info = process_info.fill_missing(detect(method))
    address, count, number = process_info.coordinator, process_info.num_processes, process_info.process_id
    if address is None or count is None or number is None:
        values = {"coordinator_address": address, "num_processes": count, "process_id": number}
        missing = [name for name, value in values.items() if value is None]
        raise DistributedError(
            f"distributed.initialize: nothing says what {' and '.join(missing)} should be; pass it, set "
            f"{' and '.join([f'EFFX_{name.upper()}' for name in missing])}, or start by python -m effx.distributed.launch"
        )
    if count < 1:
        raise DistributedError(f"distributed.initialize: num_processes must be at least 1, got {count}")
    if not 0 <= number < count:
        raise DistributedError(
            f"distributed.initialize: process_id must be from 0 to {count - 1} for {count} processes, got {number}"
        )
    return address, count, number, process_info


def check_security(security: Security) -> None:
    """Refuses what XLA would end the process for."""
    security_options = security.options()
    if not security_options:
        return
    if not processes.supports_tls():
        raise DistributedError(
            f"distributed.initialize: TLS ({', '.join(security_options)}) needs jaxlib 0.12, this is {jaxlib_version()}"
        )
    names = ("mtls_cert_file", "mtls_key_file", "mtls_ca_file")
    missing = [name for name in names if name not in security_options]
    if missing:
        raise DistributedError(
            f"distributed.initialize: TLS needs {', '.join(names)}; not given: {', '.join(missing)}"
        )
    for name in names:
        path = security_options.get(name)
        if path is not None and not os.access(str(path), os.R_OK):
            raise DistributedError(
                f"distributed.initialize: {name}: there is no file {path!r} that can be read"
            )


def bind_address(host: str, port: int, chosen: str | None) -> tuple[str, int]:
    """Returns where process 0 listens: at the coordinator's address and no other, if there is a choice."""
    if chosen is not None:
        return parse_address("coordinator_bind_address", chosen)
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host)), port
    try:
        address = str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise DistributedError(
            f"distributed.initialize: the coordinator's host {host!r} is not known: {error}"
        ) from error
    # Some systems let a machine's name mean its loopback device, which the other machines could not reach.
    return ("0.0.0.0" if ipaddress.ip_address(address).is_loopback else address), port


def join_host_port(host: str, port: int) -> str:
    """Returns `host:port`, with brackets for IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def own_address(host: str, port: int) -> str:
    """Returns the address from which this machine reaches another; nothing is sent."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        return str(probe.getsockname()[0])


def own_device_ids(ids: int | Sequence[int] | None, process_info: ProcessInfo) -> tuple[int, ...] | None:
    """Returns which of the machine's accelerators are this process's; None for all."""
    if ids is not None:
        return (ids,) if isinstance(ids, int) else tuple(ids)
    local = process_info.local_process_id
    if process_info.method not in ("slurm", "ompi", "mpi4py") or local is None:
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", os.environ.get("ROCR_VISIBLE_DEVICES"))
    # Launchers can show each process its own devices only; they are counted from 0 then.
    return (local,) if visible is None or local < len(visible.split(",")) != 1 else None
