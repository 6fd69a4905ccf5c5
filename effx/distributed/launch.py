"""Starts a script in several processes of this machine, which `effx.distributed.initialize()` joins to a group.

    python -m effx.distributed.launch -n 4 script.py its arguments
    python -m effx.distributed.launch -n 4 -m module its arguments

Each line that a process prints is shown after its number. If one fails, the others are ended, and its exit status
becomes the launcher's; 128 + n means the end by signal n, as in shells. Interrupts and termination signals are sent to
all processes.
"""

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import IO

__all__ = ["launch", "main"]

GRACE = 10.0  # seconds between the request to end and the end
POLL = 0.05


def launch(
    command: Sequence[str],
    num_processes: int,
    devices_per_process: int | None = None,
    port: int | None = None,
    grace: float = GRACE,
    output: IO[str] | None = None,
) -> int:
    """Runs a command in several processes, and waits for their end.

    Args:
        command: what each process runs.
        num_processes: how many there are.
        devices_per_process: how many CPU devices each has; None for `EFFX_NUM_CPU_DEVICES`.
        port: the coordinator's port on the loopback device; None for a free one.
        grace: seconds that processes have to end by themselves, once one has failed or a signal has come.
        output: what lines are written to; None for the standard output.

    Returns:
        0, or the exit status of the first process that failed; 128 + n where signal n ended it, or came to this
        process.

    >>> launch([sys.executable, "-c", "print('hello'); raise SystemExit(3)"], 1)
    [0] hello
    3
    """
    address = f"127.0.0.1:{free_port() if port is None else port}"
    out = sys.stdout if output is None else output
    lock = threading.Lock()
    started: list[subprocess.Popen[bytes]] = []
    readers: list[threading.Thread] = []
    with _collect_signals() as came:
        try:
            for k in range(num_processes):
                environment = _process_environment(os.environ, address, num_processes, k, devices_per_process)
                # A group of its own keeps the terminal's interrupt from coming twice, from the terminal and from here.
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                started.append(process)
                assert process.stdout is not None
                reader = threading.Thread(
                    target=_copy_output, args=(process.stdout, k, out, lock), daemon=True
                )
                reader.start()
                readers.append(reader)
            status = _wait_for_all(started, came, grace)
        finally:
            _kill_all(started)
    for reader in readers:
        reader.join(1.0)  # what a process has started may hold its output open
    return status


def _process_environment(
    outer: Mapping[str, str], address: str, count: int, number: int, devices: int | None
) -> dict[str, str]:
    added = {
        "EFFX_COORDINATOR_ADDRESS": address,
        "EFFX_NUM_PROCESSES": str(count),
        "EFFX_PROCESS_ID": str(number),
        "EFFX_LOCAL_PROCESS_ID": str(number),
        # Lines of a pipe are shown when they are printed, not when a buffer is full.
        "PYTHONUNBUFFERED": "1",
    }
    if devices is not None:
        added["EFFX_NUM_CPU_DEVICES"] = str(devices)
    # Large arrays in huge pages: see docs/performance.md. A process cannot ask for that itself.
    return {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", **outer, **added}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _copy_output(source: IO[bytes], number: int, out: IO[str], lock: threading.Lock) -> None:
    for line in source:
        with lock, contextlib.suppress(BrokenPipeError, ValueError):
            out.write(f"[{number}] {line.decode(errors='replace').removesuffix(chr(10))}\n")
            out.flush()


@contextlib.contextmanager
def _collect_signals() -> Iterator[list[int]]:
    """Collects the signals that would end this process; only the main thread may ask for them."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_for_all(processes: Sequence[subprocess.Popen[bytes]], came: list[int], grace: float) -> int:
    """Waits for all processes, passes signals on, and returns the exit status."""
    status, passed, until = 0, 0, float("inf")
    while True:
        codes = [process.poll() for process in processes]
        if status == 0:
            failed = [(k, code) for k, code in enumerate(codes) if code]
            if failed:
                # Processes in a group end by themselves with an error; this is for the others.
                number, code = failed[0]
                status = code if code > 0 else 128 - code
                until = time.monotonic() + grace
                how = f"with status {code}" if code > 0 else f"by {signal.Signals(-code).name}"
                sys.stderr.write(f"effx.distributed.launch: process {number} ended {how}\n")
        for number in came[passed:]:
            passed += 1
            status = 128 + number
            until = min(until, time.monotonic() + grace)
            _send_signal(processes, number)
        if None not in codes:
            return status
        if time.monotonic() > until:
            _send_signal(processes, signal.SIGTERM)
            until = float("inf")
            _wait_briefly(processes, grace)
            return status
        time.sleep(POLL)


def _wait_briefly(processes: Sequence[subprocess.Popen[bytes]], grace: float) -> None:
    end = time.monotonic() + min(grace, 2.0)
    while time.monotonic() < end and None in [process.poll() for process in processes]:
        time.sleep(POLL)


def _send_signal(processes: Sequence[subprocess.Popen[bytes]], number: int) -> None:
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)


def _kill_all(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    _send_signal(processes, signal.SIGKILL)
    for process in processes:
        process.wait()


def _positive_int(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: None for those of this process.

    Returns:
        The exit status: that of `launch`.
    """
    parser = argparse.ArgumentParser(
        prog="python -m effx.distributed.launch", description="Starts a script in several processes."
    )
    parser.add_argument("-n", "--processes", type=_positive_int, required=True, help="how many processes")
    parser.add_argument(
        "--devices-per-process", type=_positive_int, help="how many devices the CPU of each passes for"
    )
    parser.add_argument(
        "--port",
        type=_positive_int,
        help="the coordinator's port on the loopback device; a free one by default",
    )
    parser.add_argument(
        "--grace", type=float, default=GRACE, help="seconds to end in, once a process has failed"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="a module in place of a script")
    parser.add_argument("script", help="the script, or the module's name")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(arguments)
    command = [sys.executable, *(["-m"] if options.module else []), options.script, *options.arguments]
    return launch(command, options.processes, options.devices_per_process, options.port, options.grace)


if __name__ == "__main__":
    sys.exit(main())
