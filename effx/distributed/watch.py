"""Connect processes, and detect that one has failed: one connection from each to process 0.

XLA's service ends a process without an exception where another one is missing, occurs twice, or dies, and only after a
heartbeat's limit. So processes first connect here, at the coordinator's port, where a mismatch is an error in
each of them. The connections stay open: the system closes that of a dead process at once, and process 0 notifies the
others. XLA's heartbeats are the fallback, for machines that vanish and processes that hang.

A callback in Python instead of XLA's exit cannot be called, since jaxlib has no Python form of its status
argument. XLA's service takes over the port once all have connected. Of those that wait when another process
dies, those in Python raise and those in XLA are ended with the line where they are.
"""

import contextlib
import errno
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import final

from effx.errors import DistributedError

__all__ = ["Watch", "gather", "join", "parse_address"]

RETRY = 0.1  # seconds between attempts to reach process 0


def parse_address(function_name: str, address: str) -> tuple[str, int]:
    """Returns host and port of `host:port`, or of `[host]:port` for IPv6.

    >>> parse_address("coordinator_address", "[::1]:1234")
    ('::1', 1234)
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise DistributedError(f"distributed.initialize: {function_name} must be host:port, got {address!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


@final
class Watch:
    """The connections of a process to the others of its group: all in process 0, elsewhere the one to process 0.

    Attributes:
        process_id: of this process.
        num_processes: of the group.
        host: the address of this process in the coordinator's network.
        failure: what has happened to another process; None as long as nothing has.
        done: the processes that have ended.
        left: set once no other process is connected.
    """

    def __init__(
        self, process_id: int, num_processes: int, host: str, links: dict[int, socket.socket]
    ) -> None:
        self.process_id, self.num_processes, self.host = process_id, num_processes, host
        self.failure: str | None = None
        self.done: set[int] = set()
        self.left = threading.Event()
        self._links, self._buffers = links, dict.fromkeys(links, b"")
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._on_failure: Callable[[bool], object] = lambda coordinator: None
        self._thread = threading.Thread(target=self._run, name="effx watch", daemon=True)

    def start(self, on_failure: Callable[[bool], object]) -> None:
        """Begins to listen; `on_failure` is called once, with whether the coordinator has failed."""
        self._on_failure = on_failure
        self._thread.start()

    def fail(self, text: str) -> None:
        """Tells the other processes that this one fails."""
        self.failure = self.failure or text
        self._send({"failed": text})

    def failure_within(self, seconds: float) -> str | None:
        """Returns the failure of another process, if one is heard of within that time."""
        until = time.monotonic() + seconds
        while self.failure is None and time.monotonic() < until:
            self._changed.wait(until - time.monotonic())
            self._changed.clear()
        return self.failure

    def finish(self, timeout: float) -> None:
        """Says that this process is done, and waits until all are.

        Raises:
            DistributedError: one has failed, or is not done in time.
        """
        self._note_done({self.process_id})
        if self.process_id:
            self._send({"done": [self.process_id]})
        until = time.monotonic() + timeout
        while self.failure is None and len(self.done) < self.num_processes:
            if not self._changed.wait(max(0.0, until - time.monotonic())):
                missing = sorted(set(range(self.num_processes)) - self.done)
                raise DistributedError(
                    f"distributed.shutdown: {_process_names(missing, self.num_processes)} did not end within {timeout:g} s"
                )
            self._changed.clear()
        if self.failure is not None:
            raise DistributedError(f"distributed.shutdown: {self.failure}")

    def close(self) -> None:
        """Ends the connections and the thread."""
        with contextlib.suppress(OSError):
            self._wake.send(b"x")
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        self.abandon()

    def abandon(self) -> None:
        """Closes the connections here, where this process is a fork, and its parent goes on with them."""
        for link in [*self._links.values(), self._wake, self._woken]:
            link.close()

    def _send(self, message: dict[str, object], but: int | None = None) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            for k, link in self._links.items():
                if k != but:
                    with contextlib.suppress(OSError):  # `_run` handles a process that has failed
                        link.sendall(line)

    def _note_done(self, ids: set[int]) -> None:
        self.done |= ids
        if self.process_id == 0:
            self._send({"done": sorted(self.done)})
        self._changed.set()

    def _note_failure(self, text: str, origin: int, coordinator: bool = False) -> None:
        if self.failure is not None:
            return
        self.failure = text
        if self.process_id == 0:
            self._send({"failed": text}, but=origin)
        self._changed.set()
        self._on_failure(coordinator)

    def _run(self) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._woken, selectors.EVENT_READ, None)
            for k, link in self._links.items():
                waiting.register(link, selectors.EVENT_READ, k)
            while len(waiting.get_map()) > 1:
                ready = [key.data for key, _ in waiting.select()]
                if None in ready:
                    return
                for k in ready:
                    lines = self._received_lines(k)
                    for line in lines or ():
                        self._handle_message(k, json.loads(line))
                    if lines is None:
                        waiting.unregister(self._links[k])
                        self._handle_lost_connection(k)
        self.left.set()

    def _received_lines(self, k: int) -> list[bytes] | None:
        """Returns what process k has sent since; None where the connection has ended."""
        try:
            data = self._links[k].recv(1 << 16)
        except OSError:
            return None
        if not data:
            return None
        *lines, self._buffers[k] = (self._buffers[k] + data).split(b"\n")
        return lines

    def _handle_message(self, k: int, message: dict[str, object]) -> None:
        match message:
            case {"done": list(ids)}:
                self._note_done(set(ids))
            case {"failed": str(text)}:
                self._note_failure(text, k)
            case _:
                pass

    def _handle_lost_connection(self, k: int) -> None:
        # Once all are done, the others may leave in any order.
        if len(self.done) == self.num_processes:
            return
        who = f"process {k} of {self.num_processes}" + (" (the coordinator)" if k == 0 else "")
        self._note_failure(f"{who} is gone: it was ended from outside, or its machine was", k, k == 0)


def _process_names(ids: list[int], count: int) -> str:
    return f"process{'es' * (len(ids) > 1)} {', '.join(map(str, ids))} of {count}"


def _keep_connection_alive(link: socket.socket) -> None:
    link.settimeout(None)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _read_line(link: socket.socket, until: float) -> dict[str, object]:
    """Returns one message, read byte by byte so that what follows stays in the socket."""
    line = b""
    while not line.endswith(b"\n"):
        link.settimeout(max(0.001, until - time.monotonic()))
        byte = link.recv(1)
        if not byte or len(line) > 1 << 16:
            raise ConnectionError("ended")
        line += byte
    message: object = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("no message")
    return message


@final
class Gathering:
    """Process 0 while it waits for the others; `release` lets all of them on.

    Args:
        bind: the address and port to listen at.
        num_processes: the expected number of processes, this one included.
        timeout: seconds for all to connect.

    Raises:
        DistributedError: the port is in use, one does not connect in time, occurs twice, or expects another number of
            processes.
    """

    def __init__(self, bind: tuple[str, int], num_processes: int, timeout: float) -> None:
        self.links: dict[int, socket.socket] = {}
        self._count, self._timeout = num_processes, timeout
        family = socket.AF_INET6 if ":" in bind[0] else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            # The connections stay while XLA's service takes the port over, which the system allows sockets of this
            # option.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(bind)
                listener.listen(128)
            except OSError as error:
                raise DistributedError(self._bind_error(bind, error)) from error
            try:
                self._gather(listener)
            except DistributedError as error:
                self.refuse(error.message)
                raise

    @staticmethod
    def _bind_error(bind: tuple[str, int], error: OSError) -> str:
        where = f"distributed.initialize: process 0 cannot listen at {bind[0]}:{bind[1]}"
        if error.errno == errno.EADDRINUSE:
            return f"{where}: the port is in use, by another program or another process with process_id 0"
        return f"{where}: {error.strerror or error}; coordinator_bind_address may name another address of this machine"

    def _gather(self, listener: socket.socket) -> None:
        until = time.monotonic() + self._timeout
        while len(self.links) < self._count - 1:
            left = until - time.monotonic()
            if left <= 0:
                missing = sorted(set(range(1, self._count)) - self.links.keys())
                raise DistributedError(
                    f"distributed.initialize: {_process_names(missing, self._count)} did not come within {self._timeout:g} s"
                )
            listener.settimeout(left)
            try:
                link, _ = listener.accept()
            except TimeoutError:
                continue
            try:
                # A client that connects and sends nothing, such as a port scanner, must not use up the others' time.
                message = _read_line(link, min(until, time.monotonic() + 5))
            except (OSError, ValueError):
                link.close()
                continue
            self._admit(link, message)

    def _admit(self, link: socket.socket, message: dict[str, object]) -> None:
        k, count = message.get("process_id"), message.get("num_processes")
        if not isinstance(k, int) or not isinstance(count, int):
            link.close()
            return
        if count == self._count and 0 < k < count and k not in self.links:
            _keep_connection_alive(link)
            self.links[k] = link
            return
        if count != self._count:
            text = f"process {k} expects num_processes {count}, process 0 expects {self._count}"
        else:
            text = f"two processes have process_id {k}"
        with contextlib.suppress(OSError):
            link.sendall(json.dumps({"error": f"distributed.initialize: {text}"}).encode() + b"\n")
        link.close()
        raise DistributedError(f"distributed.initialize: {text}")

    def refuse(self, text: str) -> None:
        """Notifies the others that there will be no group."""
        self._broadcast_message({"error": text})
        for link in self.links.values():
            link.close()

    def release(self, host: str) -> Watch:
        """Lets the others go on, and returns the watch over them."""
        self._broadcast_message({"go": True})
        return Watch(0, self._count, host, self.links)

    def _broadcast_message(self, message: dict[str, object]) -> None:
        for link in self.links.values():
            with contextlib.suppress(OSError):
                link.sendall(json.dumps(message).encode() + b"\n")


def gather(bind: tuple[str, int], num_processes: int, timeout: float) -> Gathering:
    """Waits in process 0 for the others: see `Gathering`."""
    return Gathering(bind, num_processes, timeout)


def join(address: tuple[str, int], process_id: int, num_processes: int, timeout: float) -> Watch:
    """Connects to process 0, and waits until all have connected.

    Raises:
        DistributedError: process 0 cannot be reached in time, or reports that the processes do not match.
    """
    where = f"the coordinator at {address[0]}:{address[1]}"
    until = time.monotonic() + timeout
    link = _connect_to_coordinator(address, until, where, timeout)
    try:
        message = {"process_id": process_id, "num_processes": num_processes}
        link.sendall(json.dumps(message).encode() + b"\n")
        # Process 0 began to wait earlier or later than this one, and has the better error.
        answer = _read_line(link, until + 5)
    except TimeoutError as error:
        link.close()
        raise DistributedError(
            f"distributed.initialize: {where} did not answer within {timeout:g} s"
        ) from error
    except (OSError, ValueError) as error:
        link.close()
        raise DistributedError(
            f"distributed.initialize: {where} has ended, has begun without process {process_id}, or is no process of effx"
        ) from error
    if "go" not in answer:
        link.close()
        raise DistributedError(str(answer.get("error")))
    _keep_connection_alive(link)
    return Watch(process_id, num_processes, str(link.getsockname()[0]), {0: link})


def _connect_to_coordinator(
    address: tuple[str, int], until: float, where: str, timeout: float
) -> socket.socket:
    while True:
        try:
            return socket.create_connection(address, timeout=max(0.001, until - time.monotonic()))
        except OSError as error:
            if time.monotonic() + RETRY >= until:
                raise DistributedError(
                    f"distributed.initialize: {where} could not be reached within {timeout:g} s: {error.strerror or error}"
                ) from error
        time.sleep(RETRY)
