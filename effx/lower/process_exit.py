"""The end of the process: it waits for what XLA is computing and compiling, and lets threads rest.

C++ takes down the objects that XLA's threads use, whether these are at work or not. A process that ended with a
computation in flight could end by a fault of memory: one of ten did whose last work was the first product of matrices,
half of those in which a daemon thread was compiling.

Daemon threads go on while Python ends. One that comes back from C++ then and asks for the interpreter's lock is ended
by Python before 3.14, and C++ aborts the process, since it can't unwind a function of jaxlib's. Python 3.14 lets the
thread rest instead; so does `_suspend_threads_at_exit`, for those before.

Before there was this end, daemon threads ended the process by an abort or a fault: always when they ran
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
    """What threads do that must not be in C++ when it ends: a context manager, for any number of threads at once.

    A daemon thread that would begin after the end of the process was waited for ends here.
    """

    __slots__ = ("_threads",)

    def __init__(self) -> None:
        """Begins with no thread at work."""
        # How deep each thread is in it. Each writes its own number only.
        self._threads: dict[threading.Thread, int] = {}

    def __enter__(self) -> None:
        thread = threading.current_thread()
        self._threads[thread] = self._threads.get(thread, 0) + 1
        # In this order: the end looks at the threads after it has set that.
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
        """Waits until no other thread is at work."""
        here, started = threading.current_thread(), time.monotonic()
        while any(t is not here and t.is_alive() for t in tuple(self._threads)):
            if time.monotonic() - started > seconds:
                return
            time.sleep(0.01)


in_xla = ActiveThreads()
"""While XLA starts, compiles or loads an executable. The end waits however long that takes, as nothing can stop it."""

in_callback = ActiveThreads()
"""While a program runs that calls Python. It may wait for what never comes: the end waits for a second."""


_clients: list[tuple[_jax.Client, int]] = []


def wait_at_exit(client: _jax.Client) -> None:
    """Has this process wait before it ends for what a client has been asked to compute."""
    _clients.append((client, os.getpid()))
    # To wait before what was registered earlier: a process leaves its group when it has done what others wait for.
    atexit.unregister(_wait_for_all_work)
    atexit.register(_wait_for_all_work)


def _wait_for_all_work() -> None:
    _exit_started.set()
    in_xla.wait()
    in_callback.wait(1.0)
    # XLA has no threads in a process that was forked.
    here = [client for client, process in _clients if process == os.getpid()]
    for client in here:
        with contextlib.suppress(_jax.JaxRuntimeError):  # whoever reads a result is told why there is none
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
        # And what nobody holds the results of: XLA runs what a thread asks for in order.
        devices = (client.local_devices()[0],)
        last = client.compile_and_load(_NOTHING, _jax.DeviceList(devices), compile_options(devices))
        # A token, since jaxlib would import jax to make an array of the result.
        last.execute_sharded([], with_tokens=True).consume_token().block_until_ready()


def _suspend_threads_at_exit() -> None:
    """Has C++ stop a thread for good where it would abort the process, until C++'s own end begins."""
    if sys.version_info >= (3, 14) or sys.platform != "linux":
        return  # elsewhere a thread that is ended does not unwind
    with contextlib.suppress(OSError, AttributeError):  # another standard library
        set_terminate = ctypes.CDLL("libstdc++.so.6")._ZSt13set_terminatePFvvE
        set_terminate.restype = ctypes.c_void_p
        libc = ctypes.CDLL(None)
        before = set_terminate(ctypes.cast(libc.pause, ctypes.c_void_p))
        libc.__cxa_atexit(ctypes.cast(set_terminate, ctypes.c_void_p), ctypes.c_void_p(before), None)
