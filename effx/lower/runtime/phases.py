"""The phases before a program runs (staging, lowering, compiling), as listeners and profiles see them."""

import sys
import time
from types import TracebackType
from typing import final

from effx.monitoring import record_event_duration_secs

__all__ = ["Phase"]


@final
class Phase:
    """A phase of one function's life: a span in the profile that is being taken, and a recorded duration.

    A phase that raises has no duration.

    Args:
        event: what is recorded, such as `/effx/stage`.
        name: the function's.
    """

    __slots__ = ("_event", "_name", "_span", "_started")

    def __init__(self, event: str, name: str) -> None:
        self._event, self._name = event, name

    def __enter__(self) -> None:
        # No profile can be taken before this module is loaded, and only who takes one loads it.
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
