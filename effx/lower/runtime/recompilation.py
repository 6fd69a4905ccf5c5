"""Compile programs anew in a thread of its own, while they run as they were compiled first.

The thread ends when nothing waits any more. It is a daemon, so Python does not wait for what is in the queue; exit waits
for the one compilation that runs, by `in_xla`, as nothing can stop XLA.
"""

import contextlib
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import final
from weakref import ref

from jaxlib import _jax

__all__ = ["Recompilation", "wait_for_compilations"]

_log = logging.getLogger("effx")

# The program has the processors first, but the thread does not starve beside other processes. On two cores with eight that
# want them, 300 steps of a perceptron, the first included, take 0.27, 0.18 and 0.23 s with 0, 5 and 10 (in full 0.22), and
# 2,000 cumulative sums, 8 times as long at level 0, 1.2, 1.6 and 3.2 s (in full 0.7).
NICE = 5


@final
class Recompilation:
    """The compilation of a program in full, which is requested when the program was called some times.

    Attributes:
        name: the program's.
        calls_left: the number of calls after which it is requested.
        loaded: the result; None before it is there, and where compiling failed.
        is_over: whether it has ended.
        on_end: what is done then, in its thread.
    """

    __slots__ = ("__weakref__", "_compile", "calls_left", "is_over", "loaded", "name", "on_end")

    def __init__(self, name: str, compile_in_full: Callable[[], _jax.LoadedExecutable], calls: int) -> None:
        self.name, self.calls_left = name, calls
        self.loaded: _jax.LoadedExecutable | None = None
        self.is_over = False
        self.on_end: Callable[[], object] | None = None
        self._compile: Callable[[], _jax.LoadedExecutable] | None = compile_in_full

    @property
    def is_requested(self) -> bool:
        """Whether it waits, runs or is over."""
        return self.calls_left <= 0

    def count_call(self) -> None:
        """Counts a call of the program; after the last one this joins the queue."""
        with _queue.changed:
            self.calls_left -= 1
            if self.calls_left == 0:
                _queue.add(self)

    def compile(self) -> None:
        """Compiles. Where that fails, the program stays as it is, and a warning says so."""
        compile_in_full, self._compile = self._compile, None  # frees the text that it holds
        assert compile_in_full is not None
        try:
            self.loaded = compile_in_full()
        except Exception as error:  # noqa: BLE001  the program runs without it
            _log.warning(
                "compile: %s stays as it was compiled first, since compiling in full failed: %s",
                self.name,
                error,
            )
        self.is_over = True
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()


@final
class CompilationQueue:
    """What waits for the thread.

    Attributes:
        changed: held for each change; notified when the thread ends.
        waiting: in order; programs that are freed drop out.
        thread: the thread that compiles, while there is one.
    """

    def __init__(self) -> None:
        """Starts without a thread."""
        self.changed = threading.Condition(threading.RLock())  # a collection inside may run another program
        self.waiting: deque[ref[Recompilation]] = deque()
        self.thread: threading.Thread | None = None

    def add(self, recompilation: Recompilation) -> None:
        """Puts one at the end, and starts the thread if need be."""
        self.waiting.append(ref(recompilation))
        # As Python ends it starts no threads; 3.11 does, and C++ ends while XLA compiles in one.
        if self.thread is not None or not threading.main_thread().is_alive():
            return
        self.thread = threading.Thread(target=self.compile_all, name="effx-compile", daemon=True)
        try:
            self.thread.start()
        except RuntimeError:  # Python has begun to end since
            self.thread = None

    def compile_all(self) -> None:
        """Compiles until nothing waits: what the thread does."""
        if sys.platform == "linux":  # where a thread has a priority of its own
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        try:
            while (recompilation := self.take_next()) is not None:
                recompilation.compile()
                del recompilation
        finally:  # exit may end it, too
            with self.changed:
                if self.thread is threading.current_thread():
                    self.thread = None
                    self.changed.notify_all()

    def take_next(self) -> Recompilation | None:
        """Returns the first one; None at the end, from where on the thread counts as ended."""
        with self.changed:
            while self.waiting:
                recompilation = self.waiting.popleft()()
                if recompilation is not None:
                    return recompilation
            self.thread = None
            self.changed.notify_all()
            return None


_queue = CompilationQueue()


def wait_for_compilations() -> None:
    """Waits until no compilation waits or runs in the thread of `compile="tiered"`; later calls run what it compiled.

    >>> import effx, effx.numpy as enp
    >>> f = effx.jit(lambda x: enp.sin(x) ** 2, compile="tiered")
    >>> x = enp.ones(3)
    >>> for _ in range(16):
    ...     y = f(x)
    >>> wait_for_compilations()
    >>> print(f(x))                   # as compiled in full
    [0.7080734 0.7080734 0.7080734]
    """
    queue = _queue
    with queue.changed:
        queue.changed.wait_for(lambda: queue.thread is None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_queue.__init__)  # threads are not forked
