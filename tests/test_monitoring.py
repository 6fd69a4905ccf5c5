"""What effx tells listeners, and how they come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import effx
import effx.numpy as enp
from effx import monitoring
from effx.errors import ShapeError, TransformError

Seen = list[tuple[Any, ...]]
# For each kind: register, unregister, record with these values, and the values.
KINDS: dict[str, tuple[Callable[..., None], Callable[..., None], Callable[..., None], tuple[float, ...]]] = {
    "event": (
        monitoring.register_event_listener,
        monitoring.unregister_event_listener,
        monitoring.record_event,
        (),
    ),
    "duration": (
        monitoring.register_event_duration_secs_listener,
        monitoring.unregister_event_duration_listener,
        monitoring.record_event_duration_secs,
        (0.5,),
    ),
    "time span": (
        monitoring.register_event_time_span_listener,
        monitoring.unregister_event_time_span_listener,
        monitoring.record_event_time_span,
        (1.0, 2.5),
    ),
    "scalar": (
        monitoring.register_scalar_listener,
        monitoring.unregister_scalar_listener,
        monitoring.record_scalar,
        (7,),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_listeners_come_and_go(kind: str) -> None:
    """A listener hears its own kind only, in the order of registration, from registering to unregistering."""
    register, unregister, _, values = KINDS[kind]
    seen: Seen = []

    def first(event: str, *given: float, **kwargs: str | int) -> None:
        if event == "/test":
            seen.append(("first", *given, kwargs))

    def second(event: str, *given: float, **kwargs: str | int) -> None:
        if event == "/test":
            seen.append(("second", *given, kwargs))

    register(first)
    register(second)
    for _, _, record, others in KINDS.values():
        record("/test", *others, name="x", size=3)
    assert seen == [(who, *values, {"name": "x", "size": 3}) for who in ("first", "second")]
    unregister(first)
    KINDS[kind][2]("/test", *values)
    assert seen[2:] == [("second", *values, {})]
    unregister(second)
    KINDS[kind][2]("/test", *values)
    assert len(seen) == 3
    with pytest.raises(TransformError, match=rf"^{unregister.__name__}: .* is no registered listener"):
        unregister(second)
    with pytest.raises(TransformError) as error:
        register(3)
    assert error.value.message == f"{register.__name__}: the listener must be a function, got 3"


def test_bound_methods_and_errors() -> None:
    """A method can be unregistered; what a listener raises reaches who records; a listener may end itself."""

    class Counter:
        count = 0

        def hear(self, event: str, **kwargs: str | int) -> None:
            self.count += 1
            monitoring.unregister_event_listener(self.hear)
            raise KeyError(event)

    counter = Counter()
    monitoring.register_event_listener(counter.hear)
    with pytest.raises(KeyError, match="/test"):
        monitoring.record_event("/test")
    monitoring.record_event("/test")
    assert counter.count == 1


@pytest.fixture
def heard() -> Iterator[list[tuple[str, str]]]:
    """What effx records in a test, as (event, function)."""
    seen: list[tuple[str, str]] = []

    def event(event: str, /, **kwargs: str | int) -> None:
        seen.append((event, str(kwargs.get("fun_name"))))

    def duration(event: str, seconds: float, /, **kwargs: str | int) -> None:
        assert 0 <= seconds < 100
        seen.append((event, str(kwargs.get("fun_name"))))

    monitoring.register_event_listener(event)
    monitoring.register_event_duration_secs_listener(duration)
    yield seen
    monitoring.unregister_event_listener(event)
    monitoring.unregister_event_duration_listener(duration)


def test_phases_of_jit(heard: list[tuple[str, str]]) -> None:
    """The first call stages, lowers and compiles; the second does nothing; a second shape does all again."""

    def inner(x: Any) -> Any:
        return enp.sin(x) * 3.25

    @effx.jit
    def outer(x: Any) -> Any:
        return effx.jit(inner)(x) + 1.625

    phases = [
        ("/effx/stage", "inner"),
        ("/effx/stage", "outer"),
        ("/effx/lower", "outer"),
        ("/effx/compile/cache_miss", "outer"),
        ("/effx/compile", "outer"),
    ]
    for shape in ((3,), (4,)):
        x = enp.asarray([1.0] * shape[0])
        heard.clear()
        outer(x)
        assert heard == phases
        outer(x)
        assert heard == phases


def test_texts_compiled_before(heard: list[tuple[str, str]]) -> None:
    """A function that is made anew is staged and lowered again, but not compiled."""

    def call() -> None:
        def made(x: Any) -> Any:
            return enp.cos(x) - 0.8125

        effx.jit(made)(1.0)

    call()
    heard.clear()
    call()
    assert heard == [("/effx/stage", "made"), ("/effx/lower", "made"), ("/effx/compile/cache_hit", "made")]


def test_failed_phases_are_not_recorded(heard: list[tuple[str, str]]) -> None:
    """A function that cannot be staged has no duration."""

    def wrong(x: Any) -> Any:
        return x @ enp.ones(5)

    with pytest.raises(ShapeError):
        effx.jit(wrong)(enp.ones(3))
    assert ("/effx/stage", "wrong") not in heard


def test_clear() -> None:
    """Clearing ends all registrations."""
    seen: list[str] = []
    for register, _, _, _ in KINDS.values():
        register(lambda event, *values, **kwargs: seen.append(event))
    monitoring.clear_event_listeners()
    for _, _, record, values in KINDS.values():
        record("/test", *values)
    assert seen == []
