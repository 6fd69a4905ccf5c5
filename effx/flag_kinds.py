"""The classes of flags: a global value, from code or `EFFX_*`, and overrides per context.

Never: depend on a certain flag, or on its readers (layers subscribe instead).
"""

from __future__ import annotations

import itertools
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator, ExitStack
from contextvars import ContextVar
from enum import IntEnum
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, cast, final, overload

from effx import ports, presence
from effx.flag_values import check_bool, parse_bool, parse_text

__all__ = [
    "AnyFlag",
    "Changes",
    "Flag",
    "FlagGroup",
    "Override",
    "OverrideGroup",
    "Switch",
    "UserContext",
    "make_user_context",
    "overrides",
    "read_values",
    "user_context_listeners",
    "user_contexts",
]

T = TypeVar("T")

OverrideEntry: TypeAlias = "tuple[object, OverrideEntry | None, int]"

_LOCK = threading.Lock()
# All overrides of a context, in one variable, so that one look says whether there are any: for each flag a
# linked list (value, outer, number of the override) and not tokens. An Override then holds no state of its own, so one
# object can be entered twice, or by two threads.
_overrides: ContextVar[Overrides | None] = ContextVar("effx_flags", default=None)
overrides = _overrides.get
_numbers = itertools.count()


class Overrides(dict["AnyFlag", OverrideEntry]):
    """The overrides of a context; never empty while in force."""

    __slots__ = ("__weakref__",)


def _flag_by_name(name: str) -> object:
    """Returns a flag of effx by name, for pickle."""
    return getattr(ports.flags.flags, name)


@final
class Changes(IntEnum):
    """What a flag changes, and so which keys its value is part of: those named here and those of the members before.

    Attributes:
        NOTHING: neither a program nor what one gives: no key.
        PROCESSES: what a process has from its start, so that another process may have something else: the keys of
            programs on disk.
        CALLS: what calling a jitted function does with one trace of it: the keys of C++'s dispatch.
        TRACES: what staging a function gives, an error included: the keys of traces.
    """

    NOTHING = 0
    PROCESSES = 1
    CALLS = 2
    TRACES = 3


class AnyFlag(ABC):
    """The part of a flag that does not depend on its value's type; `Config` uses flags this way."""

    __slots__ = ()
    name: str
    env: str
    doc: str

    @abstractmethod
    def read(self) -> object:
        """The current value."""

    @abstractmethod
    def assign(self, value: object) -> None:
        """Check `value` and make it the global value."""


@final
class Subscribers(Generic[T]):
    """Callbacks for changes of a flag's value.

    Attributes:
        all: the callbacks in order of registration; replaced on changes, so that iterations over it are safe.
    """

    __slots__ = ("all",)

    def __init__(self, first: tuple[Callable[[T], None], ...] = ()) -> None:
        self.all = first

    def add(self, callback: Callable[[T], None]) -> Callable[[], None]:
        """Adds a callback; returns a function that removes it."""
        with _LOCK:
            self.all = (*self.all, callback)

        def unsubscribe() -> None:
            with _LOCK:
                self.all = tuple(c for c in self.all if c is not callback)

        return unsubscribe


class Flag(AnyFlag, Generic[T]):
    """A named setting: `.value` reads it, `.set` changes it globally, calling it overrides it in a context.

    Overrides nest and belong to the thread or asyncio task that entered them. A value from the
    environment variable `EFFX_<NAME>` replaces the default when the flag is made.

    Args:
        name: lower-case name.
        default: value if the environment has none.
        check: `check(where, value)` returns the value, converted if need be, or raises
            `TypeError`/`ValueError` with a text that starts with `where`.
        parse: `parse(where, text)` reads the environment variable's text.
        changes: what depends on it, for the keys of caches.
        doc: what it says.
        needs_python: whether each call goes through Python, not C++ alone, unless the value is False or "allow".

    >>> from effx.flag_values import check_positive_int, parse_int
    >>> speed = Flag("doctest_speed", 1, check_positive_int, parse_int)
    >>> with speed(3):
    ...     speed.value
    3
    >>> speed.value
    1
    """

    __slots__ = (
        "_callbacks", "_check", "_global", "_global_callbacks", "changes", "doc", "env", "name", "needs_python",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        default: T,
        check: Callable[[str, object], T],
        parse: Callable[[str, str], object] = parse_text,
        changes: Changes = Changes.TRACES,
        doc: str = "",
        needs_python: bool = False,
    ) -> None:
        self.name, self.doc = name, doc
        self.env = f"EFFX_{name.upper()}"
        self.changes, self.needs_python = changes, needs_python
        self._check = check
        self._callbacks: Subscribers[T] = Subscribers()
        self._global_callbacks: Subscribers[T] = Subscribers()
        text = os.environ.get(self.env)
        self._global: T = check(name, default) if text is None else check(self.env, parse(self.env, text))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the flag by name, for functions that are pickled by value; each process has its own value."""
        return _flag_by_name, (self.name,)

    @property
    def value(self) -> T:
        """The value in force in this context: the innermost override, else the global value."""
        active = overrides()
        override = None if active is None else active.get(self)
        return self._global if override is None else cast("T", override[0])

    def set(self, value: T) -> None:
        """Make `value` the global value, which every context without an override sees."""
        self.assign(value)

    def assign(self, value: object) -> None:
        checked = self._check(self.name, value)
        previous, self._global = self._global, checked
        try:
            for callback in self._global_callbacks.all:
                callback(checked)
        except BaseException:  # a callback may refuse the value
            self._global = previous
            raise
        self._notify()

    def read(self) -> object:
        return self.value

    def get_global(self) -> T:
        """Returns the value outside of all blocks.

        >>> from effx.flags import numpy_rank_promotion
        >>> with numpy_rank_promotion("raise"):
        ...     numpy_rank_promotion.get_global()
        'allow'
        """
        return self._global

    def set_global(self, value: T) -> None:
        """Sets the value outside of all blocks."""
        self.assign(value)

    def __call__(self, new_val: T) -> Override[T]:
        """A context manager, or decorator, in which the flag has this value."""
        return Override(self, self._check(self.name, new_val))

    def subscribe(self, callback: Callable[[T], None]) -> Callable[[], None]:
        """Call `callback` with the value now in force after every enter, exit and set.

        It runs in the thread that made the change. Switching between contexts, such as asyncio tasks, changes
        the value in force without a call.

        Returns:
            A function that ends the subscription.
        """
        return self._callbacks.add(callback)

    def subscribe_global(self, callback: Callable[[T], None]) -> Callable[[], None]:
        """Call `callback` with the new global value after every set, regardless of overrides.

        Returns:
            A function that ends the subscription.
        """
        return self._global_callbacks.add(callback)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}={self.value!r}>"

    def __bool__(self) -> bool:
        # Catches `if enable_x64:`, which would always be true.
        raise TypeError(f"{self.name}: a flag has no truth value, read {self.name}.value")

    def _notify(self) -> None:
        if self._callbacks.all:
            value = self.value
            for callback in self._callbacks.all:
                callback(value)

    def _enter(self, value: T, owner: int) -> None:
        outer = overrides()
        inner = Overrides(outer or {})
        inner[self] = (value, inner.get(self), owner)
        try:
            presence.add_while_alive(inner)
            _overrides.set(inner)
            self._notify()
        except BaseException:
            _overrides.set(outer)
            raise

    def _exit(self) -> None:
        remaining = Overrides(overrides() or {})
        entry = remaining.pop(self, None)
        if entry is None:
            raise RuntimeError(f"{self.name}: left an override that this context never entered")
        if entry[1] is not None:
            remaining[self] = entry[1]
        if remaining:
            presence.add_while_alive(remaining)
        _overrides.set(remaining or None)
        self._notify()


def read_values(flags: Iterable[Flag[T]]) -> tuple[T, ...]:
    """Returns the values of several flags in this context, with one look at its overrides."""
    active = overrides() or ()
    return tuple([flag.value if flag in active else flag._global for flag in flags])


class Switch(Flag[bool]):
    """A flag that is on or off; called without a value, it overrides to on.

    >>> from effx.flags import disable_jit
    >>> with disable_jit():
    ...     disable_jit.value
    True
    """

    __slots__ = ()

    def __init__(
        self,
        name: str,
        default: bool,
        changes: Changes = Changes.TRACES,
        doc: str = "",
        needs_python: bool = False,
    ) -> None:
        super().__init__(name, default, check_bool, parse_bool, changes, doc, needs_python)

    def __call__(self, new_val: bool = True) -> Override[bool]:
        return super().__call__(new_val)


@final
class DisablingSwitch(Switch):
    """A switch that turns something off; its value's name is JAX's.

    >>> import effx
    >>> f = effx.jit(lambda x: print(x))
    >>> with effx.disable_jit():
    ...     f(1.0)
    1.0
    """

    __slots__ = ()

    def __call__(self, disable: bool = True) -> Override[bool]:
        return super().__call__(disable)


@final
class UserContext(Flag[T]):
    """A user's own flag, whose value is part of the cache keys of staged programs."""

    __slots__ = ()

    def __init__(self, default: T) -> None:
        self.name, self.env, self.doc = f"user_context_{len(user_contexts)}", "", ""
        self.changes, self.needs_python = Changes.TRACES, False
        self._check = _check_hashable
        self._callbacks, self._global_callbacks = Subscribers(), Subscribers((_notify_context_listeners,))
        self._global = default
        user_contexts.append(self)

    @property
    def outside(self) -> T:
        """The value outside of all blocks."""
        return self._global


def _notify_context_listeners(_: object) -> None:
    for listener in user_context_listeners:
        listener()


def _check_hashable(where: str, value: object) -> Any:
    hash(value)  # it is part of a key
    return value


user_contexts: list[UserContext[Any]] = []
# Called after the global value of any of them has changed.
user_context_listeners: list[Callable[[], None]] = []


@overload
def make_user_context(default_value: None = None) -> UserContext[Any]: ...
@overload
def make_user_context(default_value: T) -> UserContext[T]: ...
def make_user_context(default_value: T | None = None) -> UserContext[Any]:
    """Return a flag of your own: when its value changes, functions are staged again.

    Args:
        default_value: its value outside of all blocks; hashable, as all values.

    Returns:
        A flag: called with a value, it is a context manager and a decorator; `.value` reads it.

    >>> import effx
    >>> precision = effx.make_user_context("fast")
    >>> @effx.jit
    ... def f(x):
    ...     return x + 1 if precision.value == "fast" else x + 2
    >>> print(f(0))
    1
    >>> with precision("exact"):
    ...     print(f(0))
    2
    """
    hash(default_value)
    return UserContext(default_value)


@final
class FlagGroup(AnyFlag, Generic[T]):
    """A flag that gives several flags the same value.

    >>> import effx
    >>> with effx.transfer_guard("log"):
    ...     print(effx.config.transfer_guard_device_to_host)
    log
    """

    __slots__ = ("doc", "env", "flags", "name")

    def __init__(self, name: str, flags: tuple[Flag[T], ...], doc: str = "") -> None:
        self.name, self.flags, self.doc = name, flags, doc
        self.env = f"EFFX_{name.upper()}"

    @property
    def value(self) -> T | None:
        """The common value of the group's flags; None if they differ."""
        values = [flag.value for flag in self.flags]
        return values[0] if all([v == values[0] for v in values]) else None

    def read(self) -> object:
        return self.value

    def assign(self, value: object) -> None:
        for flag in self.flags:
            flag.assign(value)

    def __call__(self, new_val: T) -> OverrideGroup[T]:
        """A context manager, or decorator, in which the flags have this value."""
        return OverrideGroup(tuple([flag(new_val) for flag in self.flags]))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}={self.value!r}>"


@final
class OverrideGroup(ContextDecorator, Generic[T]):
    """A context manager, or decorator, that enters several overrides."""

    __slots__ = ("_overrides",)

    def __init__(self, overrides: tuple[Override[T], ...]) -> None:
        self._overrides = overrides

    def __enter__(self) -> None:
        with ExitStack() as entered:  # leaves those that were entered if one fails
            for override in self._overrides:
                entered.enter_context(override)
            entered.pop_all()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for override in reversed(self._overrides):
            override.__exit__(kind, error, traceback)


class Override(ContextDecorator, Generic[T]):
    """A context manager, or decorator, that gives a flag a value; it may be entered again, and by several threads."""

    __slots__ = ("_flag", "_number", "_value")

    def __init__(self, flag: Flag[T], value: T) -> None:
        self._flag = flag
        self._value = value
        self._number = next(_numbers)  # no id, which another override may have later

    def __enter__(self) -> None:
        self.__class__ = _EnteredOverride
        self._flag._enter(self._value, self._number)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        entered_overrides = overrides()
        try:
            self._flag._exit()
        except KeyboardInterrupt:
            if overrides() is entered_overrides:
                self._flag._exit()
            raise
        if not self._is_innermost():
            self.__class__ = Override

    def _is_innermost(self) -> bool:
        entry = (overrides() or Overrides()).get(self._flag)
        return entry is not None and entry[2] == self._number


@final
class _EnteredOverride(Override[T]):
    """An override within its block, with a finaliser as `effects._EnteredHandle` has."""

    __slots__ = ()

    def __del__(self) -> None:
        # An interrupt can come before `__exit__` starts.
        if self._is_innermost():
            self._flag._exit()
