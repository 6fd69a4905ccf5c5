"""XLA's profiler: sessions, spans, the server, and the files that a profile is written to.

jaxlib 0.12 ends the process where warnings are errors and `ProfileEvent.stats` is read (a nanobind class
without `__module__`), so effx never reads it.

Never: decide whether a profile is being taken; `effx.profiler` does.
"""

import contextlib
import gzip
import json
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from jaxlib import _jax, _profile_data, _profiler
from jaxlib._profile_data import ProfileEvent, ProfileLine, ProfilePlane
from jaxlib._profiler import ProfileOptions, ProfilerServer

from effx.errors import BackendError
from effx.lower.placement import backends
from effx.lower.runtime.hlo_names import instruction_origins

__all__ = [
    "ProfileData",
    "ProfileEvent",
    "ProfileLine",
    "ProfileOptions",
    "ProfilePlane",
    "ProfilerServer",
    "Span",
    "memory_profile",
    "register_subprocess",
    "start_server",
    "start_session",
    "stop_session",
    "write_files",
    "write_perfetto",
]

PERFETTO = "perfetto_trace.json.gz"
Span = _profiler.TraceMe
Session = _profiler.ProfilerSession


class ProfileData(_profile_data.ProfileData):
    """The data of a profile: planes (a device, or the host) of lines (a thread) of events.

    Args:
        serialized_xspace: the profile as bytes, as an `.xplane.pb` file holds it.

    Attributes:
        serialized: these bytes.

    >>> data = ProfileData.from_text_proto('planes { name: "/host:CPU" }')
    >>> [plane.name for plane in data.planes]
    ['/host:CPU']
    """

    def __init__(self, serialized_xspace: bytes, /) -> None:
        try:
            super().__init__(serialized_xspace)
        except RuntimeError as error:
            raise BackendError(f"ProfileData: the data are no serialised XSpace: {error}") from error
        self.serialized = serialized_xspace

    @staticmethod
    def from_serialized_xspace(serialized_xspace: bytes) -> "ProfileData":
        """Reads a profile from bytes.

        Raises:
            BackendError: they are none.
        """
        return ProfileData(serialized_xspace)

    @staticmethod
    def from_file(proto_file_path: str | os.PathLike[str]) -> "ProfileData":
        """Reads an `.xplane.pb` file.

        Raises:
            BackendError: it holds no profile.
            OSError: it cannot be read.
        """
        return ProfileData(Path(proto_file_path).read_bytes())

    @staticmethod
    def from_text_proto(arg: str, /) -> "ProfileData":
        """Reads a profile in the text format of protocol buffers.

        Raises:
            BackendError: the text does not parse.
        """
        data = _profile_data.ProfileData.text_proto_to_serialized_xspace(arg)
        if not data and arg.strip():  # XLA says why on stderr
            raise BackendError(f"ProfileData: the text is no XSpace: {arg[:60]!r}")
        return ProfileData(data)


_lock = threading.Lock()
_registered: set[str] = set()


def _register_plugins() -> None:
    """Registers plugins, so that the profiler collects events of their devices."""
    with _lock:
        for platform, api in backends.plugin_apis.items():
            if platform not in _registered:
                _profiler.register_plugin_profiler(api)
                _registered.add(platform)


def start_session(options: ProfileOptions | None) -> Session:
    """Starts to collect.

    Raises:
        BackendError: XLA's profiler does not start.
    """
    backends.client()  # backends that start later are not profiled
    _register_plugins()
    try:
        return Session() if options is None else Session(options)
    except RuntimeError as error:
        raise BackendError(f"start_trace: XLA's profiler does not start: {error}") from error


def stop_session(session: Session) -> ProfileData:
    """Stops a session, and returns what it collected.

    Raises:
        BackendError: it collected nothing, because another one had started before it, jax's or TensorBoard's say.
    """
    try:
        return ProfileData(session.stop())
    except RuntimeError as error:
        raise BackendError(
            f"stop_trace: nothing was collected, as another profile of this process was being taken: {error}"
        ) from error


def write_files(data: ProfileData, log_dir: str | os.PathLike[str], session_id: str | None) -> Path:
    """Writes a profile as TensorBoard expects it; returns the folder, `log_dir/plugins/profile/<run>`.

    Args:
        data: the profile.
        log_dir: made if need be.
        session_id: the run's name; by default the time, with a number where that name exists.
    """
    top = Path(log_dir)
    top.mkdir(parents=True, exist_ok=True)
    # Only a session can write files, of any data; a new one, which collects next to nothing, will do.
    session = Session()
    with tempfile.TemporaryDirectory(dir=top) as folder:
        try:
            session.export(data.serialized, folder)
        except RuntimeError as error:
            raise BackendError(f"export_profile_data: {error}") from error
        finally:
            with contextlib.suppress(RuntimeError):  # it did not start: a profile is being taken
                session.stop()
        (run_folders,) = (Path(folder) / "plugins" / "profile").iterdir()
        runs = top / "plugins" / "profile"
        target, n = runs / (session_id or run_folders.name), 0
        while session_id is None and target.exists():
            n += 1
            target = runs / f"{run_folders.name}_{n}"
        target.mkdir(parents=True, exist_ok=True)
        for file in run_folders.iterdir():
            file.replace(target / file.name)
    return target


def write_perfetto(data: ProfileData, folder: Path) -> Path:
    """Writes `perfetto_trace.json.gz` next to the files of a profile, with scopes and lines in it.

    An event of a compiled instruction gets the name that the instruction has in the user's function, with the user's
    line as its argument `source`; the instruction's own name stays in `hlo_op`.
    """
    runs = instruction_origins(data.serialized)
    written = next(p for p in folder.glob("*.trace.json.gz") if p.name != PERFETTO)
    with gzip.open(written, "rt", encoding="utf-8") as source:
        trace = json.load(source)
    for event in trace["traceEvents"]:
        arguments = event.get("args", {})
        known = runs.get(int(arguments.get("run_id", 0)), {})
        origin = known.get(arguments.get("hlo_op", ""))
        if origin is not None:
            event["name"] = origin.name
            if origin.source:
                arguments["source"] = origin.source
    path = folder / PERFETTO
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=3) as target:
        json.dump(trace, target)
    return path


def start_server(port: int) -> ProfilerServer:
    """Starts the server from which TensorBoard gets profiles.

    Raises:
        BackendError: XLA's server does not start.
    """
    _register_plugins()
    try:
        return _profiler.start_server(port)
    except RuntimeError as error:
        raise BackendError(f"start_server: port {port}: {error}") from error


def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Includes another process, which runs a server, in profiles of this one.

    Raises:
        BackendError: there is no such process or server.
    """
    try:
        return _profiler.register_subprocess(pid, port)
    except RuntimeError as error:
        raise BackendError(f"register_subprocess: process {pid}, port {port}: {error}") from error


def memory_profile(backend: str | None) -> bytes:
    """Returns the allocations in the memory of a platform's devices, in pprof's format."""
    try:
        return backends.client(backend).heap_profile()
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"device_memory_profile: {error}") from error
