"""Report events to listeners: durations of staging, lowering and compiling, and cache hits.

effx records these (`fun_name` is the user's function):

| event | kind | recorded when |
|---|---|---|
| `/effx/stage` | duration, with `fun_name` | a function has been traced; tracing another one inside is part of it |
| `/effx/lower` | duration, with `fun_name` | a program has become StableHLO |
| `/effx/compile` | duration, with `fun_name` | XLA has compiled a program |
| `/effx/stage/cache_dir_hit` | event, with `fun_name` | a staged program was on disk |
| `/effx/compile/cache_hit`, `/effx/compile/cache_miss` | event, with `fun_name` | a text was compiled lately, or was not |

Libraries record events of their own under other names. A listener runs at once, in the recording thread; an error that it
raises propagates to the code that caused the event.

Never: record anything in a call of a compiled function.
"""

import threading
from collections.abc import Callable
from typing import Concatenate, Generic, TypeVar, final

from effx.errors import TransformError
from effx.lazy import list_names

__all__ = [
    "clear_event_listeners",
    "record_event",
    "record_event_duration_secs",
    "record_event_time_span",
    "record_scalar",
    "register_event_duration_secs_listener",
    "register_event_listener",
    "register_event_time_span_listener",
    "register_scalar_listener",
    "unregister_event_duration_listener",
    "unregister_event_listener",
    "unregister_event_time_span_listener",
    "unregister_scalar_listener",
]
__dir__ = list_names(__all__)


# They take the event's name, the numbers of their kind, and metadata by name.
EventListener = Callable[Concatenate[str, ...], object]
DurationListener = Callable[Concatenate[str, float, ...], object]
TimeSpanListener = Callable[Concatenate[str, float, float, ...], object]
ScalarListener = Callable[Concatenate[str, float, ...], object]

L = TypeVar("L", bound=Callable[..., object])


@final
class _Listeners(Generic[L]):
    """The listeners of one kind, in the order of registration."""

    def __init__(self) -> None:
        # Replaced as a whole: recording iterates over it without a lock, even if listeners change it.
        self.all: tuple[L, ...] = ()

    def add(self, what: str, callback: L) -> None:
        if not callable(callback):
            raise TransformError(f"{what}: the listener must be a function, got {callback!r}")
        with _lock:
            self.all = self.all + (callback,)

    def remove(self, what: str, callback: L) -> None:
        with _lock:
            # By equality: bound methods are made anew at each look-up.
            if callback not in self.all:
                raise TransformError(f"{what}: {callback!r} is no registered listener")
            i = self.all.index(callback)
            self.all = self.all[:i] + self.all[i + 1 :]


_lock = threading.Lock()
_events = _Listeners[EventListener]()
_durations = _Listeners[DurationListener]()
_spans = _Listeners[TimeSpanListener]()
_scalars = _Listeners[ScalarListener]()


def record_event(event: str, **kwargs: str | int) -> None:
    """Records an event for its listeners.

    Args:
        event: its name, by custom a path such as `/library/what`.
        kwargs: further data for listeners.

    >>> seen = []
    >>> listener = lambda event, **kwargs: seen.append((event, kwargs))
    >>> register_event_listener(listener)
    >>> record_event("/doctest/saved", step=3)
    >>> unregister_event_listener(listener)
    >>> record_event("/doctest/saved", step=4)
    >>> seen
    [('/doctest/saved', {'step': 3})]
    """
    for listener in _events.all:
        listener(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Records a duration for its listeners.

    Args:
        event: its name. duration: in seconds.
        kwargs: further data for listeners.

    >>> record_event_duration_secs("/doctest/saving", 0.25)
    """
    for listener in _durations.all:
        listener(event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: str | int) -> None:
    """Records the start and end of a time span for its listeners.

    Args:
        event: its name.
        start_time, end_time: in seconds, by the recording code's clock.
        kwargs: further data for listeners.

    >>> record_event_time_span("/doctest/saving", 10.0, 10.25)
    """
    for listener in _spans.all:
        listener(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: str | int) -> None:
    """Records a number for the listeners of scalars.

    Args:
        event: its name. value: the number.
        kwargs: further data for listeners.

    >>> record_scalar("/doctest/bytes", 1024)
    """
    for listener in _scalars.all:
        listener(event, value, **kwargs)


def register_event_listener(callback: EventListener) -> None:
    """Registers a function, called as `callback(event, **kwargs)` for each event.

    Raises:
        TransformError: it is not callable.

    >>> from effx import monitoring
    >>> def listener(event, **kwargs): print(event, kwargs)
    >>> monitoring.register_event_listener(listener)
    >>> monitoring.record_event("/step", number=3)
    /step {'number': 3}
    >>> monitoring.unregister_event_listener(listener)
    """
    _events.add("register_event_listener", callback)


def register_event_duration_secs_listener(callback: DurationListener) -> None:
    """Registers a function, called as `callback(event, duration, **kwargs)` for each duration.

    Raises:
        TransformError: it is not callable.

    >>> import effx
    >>> def listener(event, duration, **kwargs):
    ...     if event == "/effx/compile":
    ...         print(kwargs["fun_name"], duration > 0)
    >>> register_event_duration_secs_listener(listener)
    >>> def doubled_twice(x):
    ...     return 4.0 * x
    >>> x = effx.jit(doubled_twice)(1.5)
    doubled_twice True
    >>> unregister_event_duration_listener(listener)
    """
    _durations.add("register_event_duration_secs_listener", callback)


def register_event_time_span_listener(callback: TimeSpanListener) -> None:
    """Registers a function, called as `callback(event, start_time, end_time, **kwargs)` for each time span.

    Raises:
        TransformError: it is not callable.

    >>> from effx import monitoring
    >>> def listener(event, start_time, end_time, **kwargs): print(event, end_time - start_time)
    >>> monitoring.register_event_time_span_listener(listener)
    >>> monitoring.record_event_time_span("/load", 2.0, 5.0)
    /load 3.0
    >>> monitoring.unregister_event_time_span_listener(listener)
    """
    _spans.add("register_event_time_span_listener", callback)


def register_scalar_listener(callback: ScalarListener) -> None:
    """Registers a function, called as `callback(event, value, **kwargs)` for each scalar.

    Raises:
        TransformError: it is not callable.

    >>> from effx import monitoring
    >>> def listener(event, value, **kwargs): print(event, value)
    >>> monitoring.register_scalar_listener(listener)
    >>> monitoring.record_scalar("/loss", 0.5)
    /loss 0.5
    >>> monitoring.unregister_scalar_listener(listener)
    """
    _scalars.add("register_scalar_listener", callback)


def unregister_event_listener(callback: EventListener) -> None:
    """Removes a listener of `register_event_listener`.

    Raises:
        TransformError: it is not registered.

    >>> from effx import monitoring
    >>> def listener(event, **kwargs): print(event)
    >>> monitoring.register_event_listener(listener)
    >>> monitoring.unregister_event_listener(listener)
    >>> monitoring.record_event("/step")         # nothing is printed
    """
    _events.remove("unregister_event_listener", callback)


def unregister_event_duration_listener(callback: DurationListener) -> None:
    """Removes a listener of `register_event_duration_secs_listener`.

    Raises:
        TransformError: it is not registered.

    >>> from effx import monitoring
    >>> def listener(event, duration, **kwargs): print(event, duration)
    >>> monitoring.register_event_duration_secs_listener(listener)
    >>> monitoring.unregister_event_duration_listener(listener)
    >>> monitoring.record_event_duration_secs("/load", 3.0)         # nothing is printed
    """
    _durations.remove("unregister_event_duration_listener", callback)


def unregister_event_time_span_listener(callback: TimeSpanListener) -> None:
    """Removes a listener of `register_event_time_span_listener`.

    Raises:
        TransformError: it is not registered.

    >>> from effx import monitoring
    >>> def listener(event, start_time, end_time, **kwargs): print(event)
    >>> monitoring.register_event_time_span_listener(listener)
    >>> monitoring.unregister_event_time_span_listener(listener)
    >>> monitoring.record_event_time_span("/load", 2.0, 5.0)        # nothing is printed
    """
    _spans.remove("unregister_event_time_span_listener", callback)


def unregister_scalar_listener(callback: ScalarListener) -> None:
    """Removes a listener of `register_scalar_listener`.

    Raises:
        TransformError: it is not registered.

    >>> from effx import monitoring
    >>> def listener(event, value, **kwargs): print(event, value)
    >>> monitoring.register_scalar_listener(listener)
    >>> monitoring.unregister_scalar_listener(listener)
    >>> monitoring.record_scalar("/loss", 0.5)                      # nothing is printed
    """
    _scalars.remove("unregister_scalar_listener", callback)


def clear_event_listeners() -> None:
    """Removes all listeners, including those of other libraries.

    >>> seen = []
    >>> register_scalar_listener(lambda event, value: seen.append(value))
    >>> clear_event_listeners()
    >>> record_scalar("/doctest/bytes", 1)
    >>> seen
    []
    """
    with _lock:
        _events.all, _durations.all, _spans.all, _scalars.all = (), (), (), ()
