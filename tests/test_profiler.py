"""Profiles: what is in them, the files they are written to, and the names and lines of the user's function."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, cast

import pytest

import effx
import effx.numpy as enp
from effx import profiler
from effx.errors import BackendError, ProgramError, TransformError
from effx.lower.runtime import hlo_names, profiling


def layered(x: Any) -> Any:
    with effx.named_scope("first_layer"):
        y = enp.tanh(x @ x)
    return effx.named_call(lambda z: enp.sort(z, axis=0).sum(), name="second_layer")(y)


def line_of(text: str) -> int:
    """Returns the line of this file that holds a text."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def without_python() -> profiler.ProfileOptions:
    """Options without events for calls of Python's, of which there are thousands."""
    options = profiler.ProfileOptions()
    options.python_tracer_level = 0
    return options


def names(data: profiler.ProfileData | None) -> set[str]:
    assert data is not None
    return {event.name for plane in data.planes for line in plane.lines for event in line.events}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def test_files_name_scopes_and_lines(tmp_path: Path) -> None:
    """Events of compiled instructions have the user's names and lines in Perfetto's file; TensorBoard's holds them."""
    f = effx.jit(layered)
    x = enp.ones((50, 50))
    with profiler.trace(tmp_path, False, True, without_python()) as session:
        f(x).block_until_ready()
    (folder,) = (tmp_path / "plugins" / "profile").iterdir()
    (written,) = folder.glob("*.xplane.pb")
    assert sorted(p.name.partition(".")[2] for p in folder.iterdir()) == [
        "json.gz",
        "trace.json.gz",
        "xplane.pb",
    ]
    content = written.read_bytes()
    assert b"first_layer/tanh" in content
    assert b"second_layer" in content
    assert __file__.encode() in content
    assert session.profile_data is not None
    assert names(session.profile_data) == names(profiler.ProfileData(content))
    with gzip.open(folder / "perfetto_trace.json.gz", "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    compiled = {e["name"]: e["args"] for e in events if "hlo_op" in e.get("args", {})}
    assert compiled["first_layer/dot_general"]["source"] == f"{__file__}:{line_of('y = enp.tanh')}"
    assert compiled["second_layer/sort"]["source"] == f"{__file__}:{line_of('enp.sort(z, axis=0)')}"
    assert {a["hlo_module"] for a in compiled.values()} == {"jit_layered"}
    spans = {e.get("name", "") for e in events}
    assert {"/effx/stage layered", "/effx/lower layered", "/effx/compile layered"} <= spans
    assert "PjitFunction(layered)" in spans


def test_runs_are_distinguished(tmp_path: Path) -> None:
    """Two functions of one name, whose instructions have one name too, keep their own scopes."""

    def make(scope: str) -> Callable[[Any], Any]:
        def same(x: Any) -> Any:
            with effx.named_scope(scope):
                return enp.tanh(x)

        return effx.jit(same)

    x = enp.ones((64, 64))
    with profiler.ProfileSession(profiler_options=without_python()) as session:
        for scope in ("red", "blue", "red"):
            make(scope)(x).block_until_ready()
    data = session.profile_data
    assert data is not None
    found = [
        o.name for known in hlo_names.instruction_origins(data.serialized).values() for o in known.values()
    ]
    assert {n for n in found if "tanh" in n} == {"red/tanh", "blue/tanh"}


def test_annotations() -> None:
    """Spans, steps and annotated functions are events with what was given along."""

    @profiler.annotate_function
    def load(n: int) -> int:
        return n + 1

    def named(n: int) -> int:
        return n + 2

    with profiler.trace() as session:
        during = session.is_running
        with profiler.TraceAnnotation("span", batch=3), profiler.StepTraceAnnotation("train", step_num=41):
            assert load(1) == 2
        assert profiler.annotate_function(named, "another name", size=7)(n=1) == 3
    assert (during, session.is_running) == (True, False)
    data = session.profile_data
    assert {"span", "train", "another name"} <= names(data)
    assert any(n.endswith("load") for n in names(data))
    assert load.__name__ == "load"
    assert data is not None
    assert b"step_num" in data.serialized
    with pytest.raises(TransformError, match=r"^annotate_function: "):
        profiler.annotate_function(cast("Any", 3))


def test_nothing_is_seen_after_an_error(tmp_path: Path) -> None:
    """A profile that a block leaves by an error is written all the same, and the next one can start."""
    with pytest.raises(ZeroDivisionError), profiler.trace(tmp_path / "one"):
        divmod(1, 0)
    assert len([*tmp_path.glob("one/plugins/profile/*/*.xplane.pb")]) == 1
    session = profiler.start_trace(tmp_path / "two")
    before = session.profile_data
    assert before is None
    with pytest.raises(BackendError) as error:
        profiler.start_trace(tmp_path / "three")
    assert error.value.message == "start_trace: a profile is being taken already; stop_trace() ends it"
    with pytest.raises(BackendError) as error:
        profiler.export_profile_data(session, tmp_path)
    assert error.value.message == "export_profile_data: the session has no data before it has ended"
    data = profiler.stop_trace()
    assert session.profile_data is data
    assert len([*tmp_path.glob("two/plugins/profile/*/*.xplane.pb")]) == 1
    assert not (tmp_path / "three").exists()
    with pytest.raises(BackendError) as error:
        profiler.stop_trace()
    assert error.value.message == "stop_trace: no profile is being taken"


def test_export(tmp_path: Path) -> None:
    """A profile can be written again, under a name, and read back; two in one second do not overwrite each other."""
    with profiler.ProfileSession() as session, profiler.TraceAnnotation("written twice"):
        pass
    data = session.profile_data
    assert data is not None
    profiler.export_profile_data(data, tmp_path, session_id="run")
    profiler.export_profile_data(session, str(tmp_path), session_id="run", create_perfetto_trace=True)
    profiler.export_profile_data(data, tmp_path)
    session.export_profile_data(tmp_path)
    runs = tmp_path / "plugins" / "profile"
    assert len([*runs.iterdir()]) == 3
    assert [p.name for p in tmp_path.iterdir()] == ["plugins"]
    assert len([*(runs / "run").iterdir()]) == 3
    (file,) = (runs / "run").glob("*.xplane.pb")
    assert "written twice" in names(profiler.ProfileData.from_file(file))
    assert "written twice" in names(profiler.ProfileData.from_serialized_xspace(data.serialized))
    with pytest.raises(
        TransformError, match=r"^export_profile_data: expected ProfileData or a ProfileSession, got 3"
    ):
        profiler.export_profile_data(cast("Any", 3), tmp_path)


def test_profiles_at_the_same_time(tmp_path: Path) -> None:
    """A profile can be written while another is taken; one that another library's kept from starting says so."""
    with profiler.trace() as first:
        pass
    with profiler.trace() as second, profiler.TraceAnnotation("still seen"):
        first.export_profile_data(tmp_path)
    assert len([*tmp_path.glob("plugins/profile/*/*.xplane.pb")]) == 1
    assert "still seen" in names(second.profile_data)
    foreign = profiling.start_session(None)
    session = profiler.ProfileSession().start()
    with pytest.raises(BackendError) as error:
        session.stop()
    assert error.value.message == (
        "stop_trace: nothing was collected, as another profile of this process was being taken: "
        "ALREADY_EXISTS: Another profiling session active."
    )
    assert "still seen" not in names(profiling.stop_session(foreign))
    with profiler.trace() as third:
        pass
    assert third.profile_data is not None


def test_options() -> None:
    """Options are XLA's: without Python's tracer no call of Python is an event."""

    def called() -> None:
        pass

    seen = []
    for level in (0, 1):
        options = profiler.ProfileOptions()
        options.python_tracer_level = level
        with profiler.trace(profiler_options=options) as session:
            called()
        seen.append(any(n.endswith("called") for n in names(session.profile_data)))
    assert seen == [False, True]
    with pytest.raises(TransformError) as error:
        profiler.ProfileSession(create_perfetto_trace=True)
    assert error.value.message == "profile: a file for Perfetto needs a log_dir to be written to, got None"


def fetched(url: str) -> HTTPResponse:
    """Asks a server that is about to start, for a minute: what it serves is written before."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return cast("HTTPResponse", urllib.request.urlopen(url, timeout=10))
        except urllib.error.HTTPError:
            raise
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def test_perfetto_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The link names the file, which is served to Perfetto's page, and nothing else, until it was fetched."""
    port = free_port()
    monkeypatch.setattr(profiler, "PERFETTO_PORT", port)
    with profiler.ProfileSession() as session:
        pass
    thread = threading.Thread(target=session.export_profile_data, args=(tmp_path, True))
    thread.start()
    url = f"http://127.0.0.1:{port}/perfetto_trace.json.gz"
    with pytest.raises(urllib.error.HTTPError):
        fetched(url + "x")
    with fetched(url) as reply:
        assert reply.headers["Access-Control-Allow-Origin"] == "https://ui.perfetto.dev"
        assert json.loads(gzip.decompress(reply.read()))["traceEvents"] is not None
    thread.join(10)
    assert not thread.is_alive()
    # Read when nobody writes any more: capsys loses what is printed meanwhile.
    assert capsys.readouterr().out == f"https://ui.perfetto.dev/#!/?url={url}\n"


def test_server() -> None:
    """One server at a time listens on its port until it is stopped; in a process of its own, since XLA keeps the port."""
    code = f"""
import os, socket
from effx import profiler
from effx.errors import BackendError
port = {free_port()}
profiler.start_server(port, requires_backend=False)
socket.create_connection(("127.0.0.1", port), timeout=10).close()
try:
    profiler.start_server(port)
except BackendError as error:
    print(error.message)
profiler.stop_server()
try:
    profiler.stop_server()
except BackendError as error:
    print(error.message)
try:
    profiler.register_subprocess(os.getpid(), port)
except BackendError as error:
    print(error.message.partition(": ")[0])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    )
    assert done.stdout.splitlines() == [
        "start_server: a server is running already; stop_server() ends it",
        "stop_server: no server is running",
        "register_subprocess",
    ]
    with pytest.raises(TransformError) as error:
        profiler.start_server(70000)
    assert error.value.message == "start_server: the port must be an int from 1 to 65535, got 70000"


def test_memory(tmp_path: Path) -> None:
    """The memory profile names the functions that put arrays on a device."""

    def keeps_an_array() -> Any:
        return enp.full((321, 123), 2.0).block_until_ready()

    x = keeps_an_array()
    profiler.save_device_memory_profile(tmp_path / "memory.prof")
    content = (tmp_path / "memory.prof").read_bytes()
    content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    assert b"keeps_an_array" in content
    del x
    assert b"keeps_an_array" not in profiler.device_memory_profile("cpu")
    with pytest.raises(BackendError, match="no platform 'abacus'"):
        profiler.device_memory_profile("abacus")


BROKEN = [b"\x0a", b"\x0a\x05ab", b"\xff" * 20, b"\x0b\x01", b"\x0a\x03\x12\x09x"]


@pytest.mark.parametrize("data", BROKEN, ids=repr)
def test_broken_profiles(data: bytes) -> None:
    """Data that end early, or hold groups, are no profile."""
    with pytest.raises(ProgramError, match=r"^profile: the data are no serialised XSpace: "):
        hlo_names.instruction_origins(data)


def test_unreadable_profiles(tmp_path: Path) -> None:
    """What is no profile is refused when it is read."""
    with pytest.raises(BackendError, match=r"^ProfileData: the data are no serialised XSpace: "):
        profiler.ProfileData(b"garbage")
    with pytest.raises(BackendError, match=r"^ProfileData: the text is no XSpace: "):
        profiler.ProfileData.from_text_proto("{ garbage")
    with pytest.raises(FileNotFoundError):
        profiler.ProfileData.from_file(tmp_path / "none")


def test_profiling_costs_nothing_without_a_profile() -> None:
    """Who takes no profile does not load the profiler."""
    code = "import effx, sys; effx.jit(lambda x: x + 1)(1.0); print('jaxlib._profiler' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    )
    assert done.stdout == "False\n"
