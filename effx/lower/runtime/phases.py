"""Record the phases before a program runs (staging, lowering, compiling) for listeners and profiles."""

import logging
import sys
import time
from types import TracebackType
from typing import final

from effx.flags import log_compiles
from effx.monitoring import record_event_duration_secs

__all__ = ["Phase", "log_step"]

_log = logging.getLogger("effx")


@final
class Phase:
    """A phase of one function's preparation: a span in the current profile, and a recorded duration.

    A phase that raises has no duration.

    Args:
        event: the recorded event, such as `/effx/stage`.
        name: the function's.
    """

    __slots__ = ("_event", "_name", "_span", "_started")

    def __init__(self, event: str, name: str) -> None:
        self._event, self._name = event, name

    def __enter__(self) -> None:
        # A profile needs this module, which nothing else loads.
        profiler = sys.modules.get("jaxlib._profiler")
        self._span = None if profiler is None else profiler.TraceMe(f"{self._event} {self._name}")
        if self._span is not None:
            self._span.__enter__()
        self._started = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        seconds = time.perf_counter() - self._started
        if self._span is not None:
            self._span.__exit__(kind, error, traceback)
        if kind is None:
            record_event_duration_secs(self._event, seconds, fun_name=self._name)


def log_step(text: str, *values: object) -> None:
    """Logs a step of tracing and compiling: as a warning while `log_compiles` is on, else for debugging."""
    _log.log(logging.WARNING if log_compiles.value else logging.DEBUG, text, *values)
