"""At exit, wait for XLA to compute and compile, and suspend daemon threads.

C++ destroys the objects that XLA's threads use, whether or not these are running. A process that ended with a
computation in flight could end by a segmentation fault: one in ten whose last work was the first matrix product, and
half of those in which a daemon thread was compiling.

Daemon threads go on while Python ends. One that returns from C++ then and requests the interpreter's lock is ended
by Python before 3.14, and C++ aborts the process, since it can't unwind a function of jaxlib's. Python 3.14 suspends
the thread instead; so does `_suspend_threads_at_exit` for earlier versions.

Without this module, daemon threads ended the process by an abort or a fault: always when they ran
programs in a loop, every second time when they compiled (JAX's do so too).
"""

import atexit
import contextlib
import ctypes
import math
import os
import sys
import threading
import time
from typing import final

from jaxlib import _jax

from effx.lower.compile_options import compile_options

__all__ = ["in_callback", "in_xla", "wait_at_exit"]

_NOTHING = """\
module @last attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main() -> tensor<i1> {
    %0 = stablehlo.constant dense<true> : tensor<i1>
    return %0 : tensor<i1>
  }
}
"""

_exit_started = threading.Event()


@final
class ActiveThreads:
    """The threads in a section of C++ for which exit waits: a context manager, for any number of threads at once.

    A daemon thread that enters after that wait ends here.
    """

    __slots__ = ("_threads",)

    def __init__(self) -> None:
        """Starts without threads."""
        # The nesting depth of each thread. Each writes its own number only.
        self._threads: dict[threading.Thread, int] = {}

    def __enter__(self) -> None:
        thread = threading.current_thread()
        self._threads[thread] = self._threads.get(thread, 0) + 1
        # In this order: exit reads the threads after it has set that.
        if thread.daemon and _exit_started.is_set():
            self.__exit__()
            raise SystemExit

    def __exit__(self, *_: object) -> None:
        thread = threading.current_thread()
        depth = self._threads[thread] - 1
        if depth:
            self._threads[thread] = depth
        else:
            del self._threads[thread]

    def wait(self, seconds: float = math.inf) -> None:
        """Waits until no other thread is inside."""
        here, started = threading.current_thread(), time.monotonic()
        while any(t is not here and t.is_alive() for t in tuple(self._threads)):
            if time.monotonic() - started > seconds:
                return
            time.sleep(0.01)


in_xla = ActiveThreads()
"""While XLA starts, compiles or loads an executable. Exit waits however long that takes, as nothing can stop it."""

in_callback = ActiveThreads()
"""While a program runs that calls Python. It may wait for ever: exit waits for a second."""


_clients: list[tuple[_jax.Client, int]] = []


def wait_at_exit(client: _jax.Client) -> None:
    """Makes this process wait at exit for the computations of a client."""
    _clients.append((client, os.getpid()))
    # To wait before earlier exit functions run: a process leaves its group after the work that others wait for.
    atexit.unregister(_wait_for_all_work)
    atexit.register(_wait_for_all_work)


def _wait_for_all_work() -> None:
    _exit_started.set()
    in_xla.wait()
    in_callback.wait(1.0)
    # XLA has no threads in a process that was forked.
    here = [client for client, process in _clients if process == os.getpid()]
    for client in here:
        with contextlib.suppress(_jax.JaxRuntimeError):  # reading the result raises the error
            _wait_for_client(client)
    if here:
        _suspend_threads_at_exit()


atexit.register(_wait_for_all_work)  # a thread may be starting the first client when Python ends


def _wait_for_client(client: _jax.Client) -> None:
    for buffer in client.live_arrays():
        with contextlib.suppress(_jax.JaxRuntimeError):
            buffer.block_until_ready()
    # The empty program takes 10 ms.
    if client.platform == "cpu":
        # And for results without references: XLA runs a thread's programs in order.
        devices = (client.local_devices()[0],)
        last = client.compile_and_load(_NOTHING, _jax.DeviceList(devices), compile_options(devices))
        # A token, since jaxlib would import jax to make an array of the result.
        last.execute_sharded([], with_tokens=True).consume_token().block_until_ready()


def _suspend_threads_at_exit() -> None:
    """Makes C++ suspend a thread where it would abort the process, until C++'s own exit begins."""
    if sys.version_info >= (3, 14) or sys.platform != "linux":
        return  # elsewhere a thread that Python ends does not unwind
    with contextlib.suppress(OSError, AttributeError):  # another standard library
        set_terminate = ctypes.CDLL("libstdc++.so.6")._ZSt13set_terminatePFvvE
        set_terminate.restype = ctypes.c_void_p
        libc = ctypes.CDLL(None)
        before = set_terminate(ctypes.cast(libc.pause, ctypes.c_void_p))
        libc.__cxa_atexit(ctypes.cast(set_terminate, ctypes.c_void_p), ctypes.c_void_p(before), None)
