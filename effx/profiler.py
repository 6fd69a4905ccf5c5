"""Profile programs, for TensorBoard and Perfetto: when operations run, and the contents of device memory.

A profile holds calls of compiled functions, their instructions, the spans that one marks with `TraceAnnotation`, and
what effx does before a function runs for the first time (`/effx/stage f`, `/effx/lower f`, `/effx/compile f`).
"""

import http.server
import os
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, Self, TypeVar, final

from effx.errors import BackendError, TransformError, check_function
from effx.lazy import list_names
from effx.lower.placement import backends
from effx.lower.runtime import profiling
from effx.lower.runtime.profiling import (
    ProfileData,
    ProfileEvent,
    ProfileLine,
    ProfileOptions,
    ProfilePlane,
    ProfilerServer,
    Span,
    register_subprocess,
)
from effx.tracing.wrapping import wraps

__all__ = [
    "ProfileData",
    "ProfileEvent",
    "ProfileLine",
    "ProfileOptions",
    "ProfilePlane",
    "ProfileSession",
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "device_memory_profile",
    "export_profile_data",
    "register_subprocess",
    "save_device_memory_profile",
    "start_server",
    "start_trace",
    "stop_server",
    "stop_trace",
    "trace",
]
__dir__ = list_names(__all__)

P = ParamSpec("P")
R = TypeVar("R")
Folder = str | os.PathLike[str]

UI = "https://ui.perfetto.dev"
PERFETTO_PORT = 9001  # the one port of this machine that Perfetto's page may read from

_lock = threading.RLock()
_running: "list[ProfileSession]" = []  # at most one
_server: list[ProfilerServer] = []  # at most one


@final
class ProfileSession:
    """Takes one profile: in a `with` block, or from `start` to `stop`.

    Args:
        log_dir: where `stop` writes the profile; None to keep it in memory only.
        create_perfetto_link: True to print a link that opens the profile in Perfetto, and wait until it was opened.
        create_perfetto_trace: True to write `perfetto_trace.json.gz` too, for Perfetto.
        profiler_options: what to collect.

    Raises:
        TransformError: Perfetto's file is asked for, and no `log_dir` given.

    >>> import effx, effx.numpy as enp
    >>> with ProfileSession() as session:
    ...     with TraceAnnotation("first call"):
    ...         x = effx.jit(enp.sin)(1.0).block_until_ready()
    >>> host = session.profile_data.find_plane_with_name("/host:CPU")
    >>> "first call" in {event.name for line in host.lines for event in line.events}
    True
    """

    def __init__(
        self,
        log_dir: Folder | None = None,
        create_perfetto_link: bool = False,
        create_perfetto_trace: bool = False,
        profiler_options: ProfileOptions | None = None,
    ) -> None:
        if log_dir is None and (create_perfetto_link or create_perfetto_trace):
            raise TransformError("profile: a file for Perfetto needs a log_dir to be written to, got None")
        self._log_dir = log_dir
        self._link = create_perfetto_link
        self._perfetto = create_perfetto_trace
        self._options = profiler_options
        self._session: profiling.Session | None = None
        self._data: ProfileData | None = None

    @property
    def is_running(self) -> bool:
        """Whether the session is collecting."""
        return self._session is not None

    @property
    def profile_data(self) -> ProfileData | None:
        """The collected data; None before `stop`."""
        return self._data

    def start(self) -> Self:
        """Starts collecting.

        Raises:
            BackendError: a profile is being taken already.
        """
        with _lock:
            if _running:
                raise BackendError("start_trace: a profile is being taken already; stop_trace() ends it")
            self._session = profiling.start_session(self._options)
            _running.append(self)
        return self

    def stop(self) -> ProfileData:
        """Ends collecting, and writes the profile if there is a `log_dir`.

        Raises:
            BackendError: the session is not running.
        """
        with _lock:
            if self._session is None:
                raise BackendError("stop_trace: no profile is being taken")
            session, self._session = self._session, None
            _running.clear()
            self._data = data = profiling.stop_session(session)
        if self._log_dir is not None:
            self.export_profile_data(self._log_dir, self._link, self._perfetto)
        return data

    def export_profile_data(
        self,
        log_dir: Folder,
        create_perfetto_link: bool = False,
        create_perfetto_trace: bool = False,
        session_id: str | None = None,
    ) -> None:
        """Writes the collected data; see `effx.profiler.export_profile_data`."""
        export_profile_data(self, log_dir, create_perfetto_link, create_perfetto_trace, session_id)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


class TraceAnnotation(Span):
    """Names a span of time in profiles: `with TraceAnnotation("load", batch=3): ...`.

    The span belongs to the thread. It costs a fraction of a microsecond while no profile is taken.

    Args:
        name: the span's name.
        kwargs: what else is shown with it.

    >>> with TraceAnnotation("load", batch=3):
    ...     pass
    """


class StepTraceAnnotation(TraceAnnotation):
    """Marks one training step, by which TensorBoard groups operations.

    Args:
        name: the same for all steps.
        kwargs: `step_num`, the number of the step, and what else is shown with it.

    >>> for step in range(3):
    ...     with StepTraceAnnotation("train", step_num=step):
    ...         pass
    """

    def __init__(self, name: str, **kwargs: object) -> None:
        super().__init__(name, _r=1, **kwargs)  # `_r` marks the root of a step


def annotate_function(
    func: Callable[P, R], name: str | None = None, **decorator_kwargs: object
) -> Callable[P, R]:
    """Makes each call of a function a span in profiles.

    Args:
        func: any function.
        name: the span's name; by default the function's.
        decorator_kwargs: what else is shown with it.

    Returns:
        A function that does the same.

    Raises:
        TransformError: `func` is not callable.

    >>> @annotate_function
    ... def load(n):
    ...     return [0] * n
    >>> load(2)
    [0, 0]
    """
    check_function(func)
    title = name or getattr(func, "__qualname__", None) or type(func).__name__

    @wraps(func)
    def annotated(*args: P.args, **kwargs: P.kwargs) -> R:
        with TraceAnnotation(title, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


def start_trace(
    log_dir: Folder,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> ProfileSession:
    """Starts a profile of the whole process, which `stop_trace` ends and writes.

    Args:
        log_dir: where to write; TensorBoard's directory.
        create_perfetto_link: True to print a link that opens the profile in Perfetto, and wait until it was opened.
        create_perfetto_trace: True to write `perfetto_trace.json.gz` too, for Perfetto.
        profiler_options: what to collect.

    Raises:
        BackendError: a profile is being taken already.

    >>> import tempfile, effx.numpy as enp
    >>> from effx import profiler
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     session = profiler.start_trace(folder)
    ...     y = enp.ones(3).sum().block_until_ready()
    ...     profile = profiler.stop_trace()
    >>> "/host:CPU" in [plane.name for plane in profile.planes]
    True
    """
    return ProfileSession(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options).start()


def stop_trace() -> ProfileData:
    """Ends the profile that `start_trace` started, and writes it.

    Raises:
        BackendError: no profile is being taken.

    >>> import tempfile
    >>> from effx import profiler
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     session = profiler.start_trace(folder)
    ...     profile = profiler.stop_trace()
    ...     print(profile is session.profile_data)
    True
    """
    with _lock:
        session = _running[0] if _running else ProfileSession()
    return session.stop()


@contextmanager
def trace(
    log_dir: Folder | None = None,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> Iterator[ProfileSession]:
    """Profiles a `with` block.

    Args:
        log_dir: where to write it; None to keep it in memory only.
        create_perfetto_link: True to print a link that opens the profile in Perfetto, and wait until it was opened.
        create_perfetto_trace: True to write `perfetto_trace.json.gz` too, for Perfetto.
        profiler_options: what to collect.

    Yields:
        The session; its `profile_data` are there after the block.

    Raises:
        BackendError: a profile is being taken already.

    >>> import effx, tempfile, effx.numpy as enp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with trace(folder):
    ...         y = effx.jit(enp.tanh)(enp.ones((100, 100))).block_until_ready()
    ...     len(list(Path(folder).glob("plugins/profile/*/*.xplane.pb")))
    1
    """
    with ProfileSession(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options) as session:
        yield session


def export_profile_data(
    profile_data: ProfileData | ProfileSession,
    log_dir: Folder,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    session_id: str | None = None,
) -> None:
    """Writes a profile to `log_dir/plugins/profile/<run>`, where TensorBoard finds it.

    Args:
        profile_data: the profile, or a session that has ended.
        log_dir: TensorBoard's directory; made if need be.
        create_perfetto_link: True to print a link that opens the profile in Perfetto, and wait until it was opened.
        create_perfetto_trace: True to write `perfetto_trace.json.gz` too, for Perfetto. In it an instruction has the
            name that the user's function gives it (`layer1/tanh`), and the user's line as an argument.
        session_id: the name of the run; by default the time.

    Raises:
        BackendError: the session has not ended.
        TransformError: it is no profile.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from effx import profiler
    >>> import effx
    >>> with profiler.ProfileSession() as session:
    ...     y = effx.numpy.ones(3).sum().block_until_ready()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     profiler.export_profile_data(session, folder, session_id="first")
    ...     print([path.parent.name for path in Path(folder).rglob("*.xplane.pb")])
    ['first']
    """
    data = profile_data.profile_data if isinstance(profile_data, ProfileSession) else profile_data
    if data is None:
        raise BackendError("export_profile_data: the session has no data before it has ended")
    if not isinstance(data, ProfileData):
        raise TransformError(f"export_profile_data: expected ProfileData or a ProfileSession, got {data!r}")
    folder = profiling.write_files(data, log_dir, session_id)
    if create_perfetto_link or create_perfetto_trace:
        path = profiling.write_perfetto(data, folder)
        if create_perfetto_link:
            _show_in_perfetto(path)


class _Server(socketserver.TCPServer):
    """An HTTP server that does no name look-up before it listens, unlike `http.server.HTTPServer`."""

    allow_reuse_address = True


def _show_in_perfetto(path: Path) -> None:
    """Prints a link, and serves one file to Perfetto's page until it was fetched."""
    fetched = threading.Event()

    class OneFile(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != f"/{path.name}":
                self.send_error(404)
                return
            content = path.read_bytes()
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", UI)
            self.send_header("Content-Type", "application/gzip")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            fetched.set()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with _Server(("127.0.0.1", PERFETTO_PORT), OneFile) as server:
        print(f"{UI}/#!/?url=http://127.0.0.1:{PERFETTO_PORT}/{path.name}", flush=True)  # noqa: T201  # asked for
        while not fetched.is_set():
            server.handle_request()


def start_server(port: int, requires_backend: bool = True) -> ProfilerServer:
    """Starts a server from which TensorBoard can request profiles of this process at any time.

    Args:
        port: the port that it listens on.
        requires_backend: False to start before the devices are initialised; their first operations may be missing.

    Returns:
        The server, which `stop_server` ends.

    Raises:
        BackendError: a server is running already.
        TransformError: `port` is no port.

    >>> import socket
    >>> from effx import profiler
    >>> with socket.socket() as free:
    ...     free.bind(("", 0))
    ...     port = free.getsockname()[1]
    >>> server = profiler.start_server(port)
    >>> profiler.stop_server()
    """
    if type(port) is not int or not 0 < port < 65536:
        raise TransformError(f"start_server: the port must be an int from 1 to 65535, got {port!r}")
    with _lock:
        if _server:
            raise BackendError("start_server: a server is running already; stop_server() ends it")
        if requires_backend:
            backends.client()
        _server.append(profiling.start_server(port))
        return _server[0]


def stop_server() -> None:
    """Ends the server that `start_server` started.

    Raises:
        BackendError: no server is running.

    >>> from effx import profiler
    >>> profiler.stop_server()
    Traceback (most recent call last):
    ...
    effx.errors.BackendError: stop_server: no server is running
    ...
    """
    with _lock:
        if not _server:
            raise BackendError("stop_server: no server is running")
        _server.clear()  # XLA ends a server that nothing refers to


def device_memory_profile(backend: str | None = None) -> bytes:
    """Returns the contents of device memory, by the Python lines that allocated them, in pprof's format.

    Args:
        backend: a platform's name; None for the default.

    Raises:
        BackendError: there is no such platform, or it does not support this.

    >>> import effx.numpy as enp
    >>> x = enp.ones(1000).block_until_ready()
    >>> b"allocations" in device_memory_profile()
    True
    """
    return profiling.memory_profile(backend)


def save_device_memory_profile(filename: Folder, backend: str | None = None) -> None:
    """Writes what `device_memory_profile` returns to a file, for `pprof --web FILE`.

    Args:
        filename: the file. backend: a platform's name; None for the default.

    Raises:
        BackendError: there is no such platform, or it does not support this.
        OSError: the file cannot be written.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from effx import profiler
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     profiler.save_device_memory_profile(folder + "/memory.prof")
    ...     print(Path(folder, "memory.prof").stat().st_size > 0)
    True
    """
    Path(filename).write_bytes(device_memory_profile(backend))
