"""Where process 0 listens, which devices a process has, and TLS."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest

import effx
from effx.distributed import arguments
from effx.distributed.clusters import ProcessInfo
from effx.errors import DistributedError
from effx.lower.placement import processes
from effx.lower.placement.backends import jaxlib_version
from effx.lower.placement.processes import Security
from effx.lower.runtime import failures
from tests.distributed.conftest import Together


@pytest.mark.parametrize(
    ("host", "resolved", "bind", "where"),
    [
        ("127.0.0.1", None, None, ("127.0.0.1", 5)),
        ("::1", None, None, ("::1", 5)),
        ("10.0.0.3", None, None, ("10.0.0.3", 5)),
        ("node", "10.0.0.3", None, ("10.0.0.3", 5)),
        # Debian's name for the machine itself: nothing else could be reached from outside.
        ("node", "127.0.1.1", None, ("0.0.0.0", 5)),
        ("10.0.0.3", None, "0.0.0.0:7", ("0.0.0.0", 7)),
        ("node", "10.0.0.3", "[::]:7", ("::", 7)),
    ],
)
def test_where_process_0_listens(
    host: str, resolved: str | None, bind: str | None, where: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the coordinator's address and no other, unless told otherwise."""
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (resolved, 5))]
    )
    assert arguments.bind_address(host, 5, bind) == where


def test_unknown_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that nothing knows is named."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(DistributedError) as caught:
        arguments.bind_address("nowhere", 5, None)
    assert caught.value.message == (
        "distributed.initialize: the coordinator's host 'nowhere' is not known: Name or service not known"
    )


@pytest.mark.parametrize(
    ("ids", "method", "local", "visible", "devices"),
    [
        (None, "environment", 1, None, None),
        (None, "slurm", 1, None, (1,)),
        (None, "slurm", 1, "0,1,2,3", (1,)),
        (None, "slurm", 1, "3", None),
        (None, "slurm", 0, "3", None),
        (None, "ompi", 2, None, (2,)),
        (None, "slurm", None, None, None),
        (3, "slurm", 1, None, (3,)),
        ([0, 1], "environment", 1, None, (0, 1)),
    ],
)
def test_devices_of_a_process(
    ids: int | list[int] | None,
    method: str,
    local: int | None,
    visible: str | None,
    devices: tuple[int, ...] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that are asked for; under Slurm and MPI one, unless the launcher shows each process its own only."""
    monkeypatch.delenv("ROCR_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert arguments.own_device_ids(ids, ProcessInfo("a:1", 2, 1, local, method)) == devices


def test_options_of_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's plugin hears of the group; others find their own way."""
    assert processes.plugin_options("cuda") == {}
    client: Any = object()
    found = processes.Group(1, 4, client, "127.0.0.1", lambda of: None)
    found.local_device_ids, found.partition_index = (2, 3), 5
    monkeypatch.setattr(processes, "current_group", [found])
    assert processes.plugin_options("cuda") == {
        "node_id": 1,
        "num_nodes": 4,
        "visible_devices": [2, 3],
        "partition_index": 5,
    }
    assert processes.plugin_options("tpu") == {"partition_index": 5}
    assert processes.distributed_client() is client


def test_failures_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails because a process is gone says so, where XLA speaks of connections only."""
    devices = (effx.devices()[0],)
    error = RuntimeError("UNKNOWN: Gloo all-reduce failed: Connection reset by peer")
    client: Any = object()
    found = processes.Group(0, 2, client, "127.0.0.1", lambda of: None)
    monkeypatch.setattr(processes, "current_group", [found])
    assert failures.run_error("f", devices, (), error).message == f"f: failed on {devices[0]}: {error}"
    found.failure = lambda: "process 1 of 2 is gone"
    raised = failures.run_error("f", devices, (), error)
    assert isinstance(raised, DistributedError)
    assert raised.message == f"f: failed on {devices[0]}: process 1 of 2 is gone"
    full = failures.run_error("f", devices, (), RuntimeError("RESOURCE_EXHAUSTED"))
    assert full.message == f"f: out of memory on {devices[0]}; the results () take 0 bytes"


TLS = processes.supports_tls()


@pytest.mark.parametrize(
    ("security", "text"),
    [
        (
            Security(verify_secure_credentials=True),
            "TLS needs mtls_cert_file, mtls_key_file, mtls_ca_file; not given: mtls_cert_file, mtls_key_file, mtls_ca_file",
        ),
        (
            Security("a", "b"),
            "TLS needs mtls_cert_file, mtls_key_file, mtls_ca_file; not given: mtls_ca_file",
        ),
        (
            Security("/nowhere/a", "/nowhere/b", "/nowhere/c"),
            "mtls_cert_file: there is no file '/nowhere/a' that can be read",
        ),
    ],
)
def test_incomplete_security(security: Security, text: str) -> None:
    """What XLA would end the process for is an error; versions of jaxlib without TLS take none of it."""
    if not TLS:
        given = ", ".join(k for k, v in attrs.asdict(security).items() if v is not None)
        text = f"TLS ({given}) needs jaxlib 0.12, this is {jaxlib_version()}"
    with pytest.raises(DistributedError) as caught:
        arguments.check_security(security)
    assert caught.value.message == f"distributed.initialize: {text}"


@pytest.mark.skipif(not TLS or shutil.which("openssl") is None, reason="needs jaxlib 0.12 and openssl")
def test_tls(tmp_path: Path, together: Together) -> None:
    """Processes that prove who they are come together."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=tmp_path, check=True, capture_output=True, timeout=30)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca", "-days", "2")
    openssl("req", *curve, "-keyout", "node.key", "-out", "node.csr", "-subj", "/CN=node")
    (tmp_path / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names", "-days", "2")
    openssl("x509", "-req", "-in", "node.csr", "-out", "node.pem", *signed)
    code = (
        "import effx\n"
        "from effx.experimental import multihost_utils\n"
        "effx.distributed.initialize(\n"
        f"    mtls_cert_file='{tmp_path}/node.pem', mtls_key_file='{tmp_path}/node.key', mtls_ca_file='{tmp_path}/ca.pem',\n"
        "    verify_secure_credentials=True, initialization_timeout=20)\n"
        "print(effx.process_count(), multihost_utils.process_allgather(effx.process_index()))\n"
    )
    for process in together(code, 2):
        assert (process.status, process.out) == (0, "2 [0 1]\n"), process.error
