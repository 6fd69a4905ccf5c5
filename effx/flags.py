"""Configuration flags: one global value each, set from code or `EFFX_*`, overridden per context.

Never: import another effx module but `effx.errors`, or know who reads a flag (layers subscribe instead).
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Generic, Literal, TypeAlias, TypeVar, cast, final, get_args

from effx import errors, presence

__all__ = [
    "FLAGS",
    "AnyFlag",
    "Config",
    "DTypePromotion",
    "Flag",
    "MatmulPrecision",
    "Override",
    "RankPromotion",
    "Switch",
    "config",
    "debug_infs",
    "debug_nans",
    "default_matmul_precision",
    "default_prng_impl",
    "disable_jit",
    "enable_checks",
    "enable_x64",
    "log_compiles",
    "num_cpu_devices",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "platforms",
    "threefry_partitionable",
    "traceback_filtering",
]

T = TypeVar("T")

MatmulPrecision = Literal["default", "high", "highest", "bfloat16", "tensorfloat32", "float32"]
RankPromotion = Literal["allow", "warn", "raise"]
DTypePromotion = Literal["standard", "strict"]
PrngImplementation = Literal["threefry2x32", "rbg", "unsafe_rbg"]

Entered: TypeAlias = "tuple[object, Entered | None, int]"

FLAGS: Final[dict[str, AnyFlag]] = {}
_LOCK = threading.Lock()
# All overrides of a context, in one variable, so that one look says whether there are any: for each flag a
# linked list (value, outer, who entered it) and not tokens. An Override then holds no state of its own, so one
# object can be entered twice, or by two threads.
_overrides: ContextVar[Overrides | None] = ContextVar("effx_flags", default=None)
overrides = _overrides.get


class Overrides(dict["AnyFlag", Entered]):
    """What a context overrides; never empty where it is in force."""

    __slots__ = ("__weakref__",)


class AnyFlag(ABC):
    """What is true of a flag whatever the type of its value; `Config` sees flags this way."""

    __slots__ = ()
    name: str

    @abstractmethod
    def read(self) -> object:
        """The current value."""

    @abstractmethod
    def assign(self, value: object) -> None:
        """Check `value` and make it the global value."""


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

    >>> speed = Flag("doctest_speed", 1, check_positive_int, parse_int)
    >>> with speed(3):
    ...     speed.value
    3
    >>> speed.value
    1
    """

    __slots__ = ("_callbacks", "_check", "_global", "_global_callbacks", "env", "name")

    def __init__(
        self,
        name: str,
        default: T,
        check: Callable[[str, object], T],
        parse: Callable[[str, str], object],
    ) -> None:
        self.name = name
        self.env = f"EFFX_{name.upper()}"
        self._check = check
        self._callbacks: tuple[Callable[[T], None], ...] = ()
        self._global_callbacks: tuple[Callable[[T], None], ...] = ()
        text = os.environ.get(self.env)
        self._global: T = check(name, default) if text is None else check(self.env, parse(self.env, text))

    @property
    def value(self) -> T:
        """The value in force in this context: the innermost override, else the global value."""
        found = overrides()
        override = None if found is None else found.get(self)
        return self._global if override is None else cast("T", override[0])

    def set(self, value: T) -> None:
        """Make `value` the global value, which every context without an override sees."""
        self.assign(value)

    def assign(self, value: object) -> None:
        checked = self._check(self.name, value)
        before, self._global = self._global, checked
        try:
            for callback in self._global_callbacks:
                callback(checked)
        except BaseException:  # a callback may refuse the value
            self._global = before
            raise
        self._notify()

    def read(self) -> object:
        return self.value

    def __call__(self, value: T) -> Override[T]:
        """A context manager in which the flag has this value."""
        return Override(self, self._check(self.name, value))

    def subscribe(self, callback: Callable[[T], None]) -> Callable[[], None]:
        """Call `callback` with the value now in force after every enter, exit and set.

        It runs in the thread that made the change. Switching between contexts, asyncio tasks say, changes
        the value in force without a call.

        Returns:
            A function that ends the subscription.
        """
        with _LOCK:
            self._callbacks = (*self._callbacks, callback)

        def unsubscribe() -> None:
            with _LOCK:
                self._callbacks = tuple(c for c in self._callbacks if c is not callback)

        return unsubscribe

    def subscribe_global(self, callback: Callable[[T], None]) -> Callable[[], None]:
        """Call `callback` with the new global value after every set, whatever overrides are in force.

        Returns:
            A function that ends the subscription.
        """
        with _LOCK:
            self._global_callbacks = (*self._global_callbacks, callback)

        def unsubscribe() -> None:
            with _LOCK:
                self._global_callbacks = tuple(c for c in self._global_callbacks if c is not callback)

        return unsubscribe

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}={self.value!r}>"

    def __bool__(self) -> bool:
        # Catches `if enable_x64:`, which would always be true.
        raise TypeError(f"{self.name}: a flag has no truth value, read {self.name}.value")

    def _notify(self) -> None:
        if self._callbacks:
            value = self.value
            for callback in self._callbacks:
                callback(value)

    def _enter(self, value: T, owner: int) -> None:
        outer = overrides()
        within = Overrides(outer or {})
        within[self] = (value, within.get(self), owner)
        try:
            presence.stay(within)
            _overrides.set(within)
            self._notify()
        except BaseException:
            _overrides.set(outer)
            raise

    def _exit(self) -> None:
        left = Overrides(overrides() or {})
        inner = left.pop(self, None)
        if inner is None:
            raise RuntimeError(f"{self.name}: left an override that this context never entered")
        if inner[1] is not None:
            left[self] = inner[1]
        if left:
            presence.stay(left)
        _overrides.set(left or None)
        self._notify()


class Switch(Flag[bool]):
    """A flag that is on or off; called without a value, it overrides to on.

    >>> with disable_jit():
    ...     disable_jit.value
    True
    """

    __slots__ = ()

    def __init__(self, name: str, default: bool) -> None:
        super().__init__(name, default, check_bool, parse_bool)

    def __call__(self, value: bool = True) -> Override[bool]:
        return super().__call__(value)


@final
class Override(ContextDecorator, Generic[T]):
    """A context manager, or decorator, that gives a flag a value; it may be entered again, and by several threads."""

    __slots__ = ("_flag", "_value")

    def __init__(self, flag: Flag[T], value: T) -> None:
        self._flag = flag
        self._value = value

    def __enter__(self) -> None:
        self._flag._enter(self._value, id(self))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        before = overrides()
        try:
            self._flag._exit()
        except KeyboardInterrupt:
            if overrides() is before:
                self._flag._exit()
            raise

    def __del__(self) -> None:
        # An interrupt can come before `__exit__` has begun.
        flag: Flag[T] | None = getattr(self, "_flag", None)
        entered = None if flag is None else (overrides() or Overrides()).get(flag)
        if flag is not None and entered is not None and entered[2] == id(self):
            flag._exit()


_ON = ("1", "true", "yes", "on")
_OFF = ("0", "false", "no", "off")


def check_bool(where: str, value: object) -> bool:
    """Return a bool unchanged.

    >>> check_bool("enable_x64", 1)
    Traceback (most recent call last):
    TypeError: enable_x64: got 1 (int), expected a bool
    """
    if type(value) is bool:
        return value
    raise TypeError(f"{where}: got {value!r} ({type(value).__name__}), expected a bool")


def check_positive_int(where: str, value: object) -> int:
    """Return an int of at least 1 unchanged.

    >>> check_positive_int("num_cpu_devices", 0)
    Traceback (most recent call last):
    ValueError: num_cpu_devices: got 0, expected an int of at least 1
    """
    if type(value) is not int:
        raise TypeError(f"{where}: got {value!r} ({type(value).__name__}), expected an int of at least 1")
    if value < 1:
        raise ValueError(f"{where}: got {value}, expected an int of at least 1")
    return value


def check_platforms(where: str, value: object) -> str | None:
    """Return a comma-separated list of platform names without spaces, or None.

    >>> check_platforms("platforms", "cuda, cpu")
    'cuda,cpu'
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{where}: got {value!r} ({type(value).__name__}), expected a str or None")
    names = [name.strip() for name in value.split(",")]
    if not all(names):
        raise ValueError(f"{where}: got {value!r}, expected platform names separated by commas")
    return ",".join(names)


def check_matmul_precision(where: str, value: object) -> MatmulPrecision | None:
    """Return one of the names in `MatmulPrecision`, or None, unchanged.

    >>> check_matmul_precision("default_matmul_precision", "highest")
    'highest'
    """
    if value is None:
        return None
    return cast("MatmulPrecision", _one_of(where, value, MatmulPrecision, " or None"))


def check_rank_promotion(where: str, value: object) -> RankPromotion:
    """Return one of the names in `RankPromotion` unchanged.

    >>> check_rank_promotion("numpy_rank_promotion", "warn")
    'warn'
    """
    return cast("RankPromotion", _one_of(where, value, RankPromotion))


def check_dtype_promotion(where: str, value: object) -> DTypePromotion:
    """Return one of the names in `DTypePromotion` unchanged.

    >>> check_dtype_promotion("numpy_dtype_promotion", "lax")
    Traceback (most recent call last):
    ValueError: numpy_dtype_promotion: got 'lax', expected one of 'standard', 'strict'
    """
    return cast("DTypePromotion", _one_of(where, value, DTypePromotion))


def check_prng_impl(where: str, value: object) -> PrngImplementation:
    """Return one of the names in `PrngImplementation` unchanged.

    >>> check_prng_impl("default_prng_impl", "rbg")
    'rbg'
    """
    return cast("PrngImplementation", _one_of(where, value, PrngImplementation))


def _one_of(where: str, value: object, literal: object, also: str = "") -> object:
    choices = get_args(literal)
    if type(value) is str and value in choices:
        return value
    error = ValueError if isinstance(value, str) else TypeError
    raise error(f"{where}: got {value!r}, expected one of {', '.join(map(repr, choices))}{also}")


def parse_bool(where: str, text: str) -> bool:
    """Read an environment variable's text as a bool.

    >>> parse_bool("EFFX_ENABLE_X64", "yes"), parse_bool("EFFX_ENABLE_X64", "0")
    (True, False)
    """
    word = text.strip().lower()
    if word in _ON:
        return True
    if word in _OFF:
        return False
    raise ValueError(f"{where}: got {text!r}, expected one of {', '.join(_ON + _OFF)}")


def parse_int(where: str, text: str) -> int:
    """Read an environment variable's text as an int.

    >>> parse_int("EFFX_NUM_CPU_DEVICES", " 4 ")
    4
    """
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{where}: got {text!r}, expected an int") from None


def parse_text(where: str, text: str) -> str | None:
    """Read an environment variable's text as a name; empty text and 'none' mean None.

    >>> parse_text("EFFX_PLATFORMS", "cpu"), parse_text("EFFX_PLATFORMS", "")
    ('cpu', None)
    """
    word = text.strip()
    return None if word.lower() in ("", "none") else word


enable_x64: Final = Switch("enable_x64", False)
disable_jit: Final = Switch("disable_jit", False)
threefry_partitionable: Final = Switch("threefry_partitionable", True)
enable_checks: Final = Switch("enable_checks", False)
debug_nans: Final = Switch("debug_nans", False)
debug_infs: Final = Switch("debug_infs", False)
log_compiles: Final = Switch("log_compiles", False)
traceback_filtering: Final = Switch("traceback_filtering", True)
default_matmul_precision: Final[Flag[MatmulPrecision | None]] = Flag(
    "default_matmul_precision", None, check_matmul_precision, parse_text
)
numpy_rank_promotion: Final[Flag[RankPromotion]] = Flag(
    "numpy_rank_promotion", "allow", check_rank_promotion, parse_text
)
numpy_dtype_promotion: Final[Flag[DTypePromotion]] = Flag(
    "numpy_dtype_promotion", "standard", check_dtype_promotion, parse_text
)
default_prng_impl: Final[Flag[PrngImplementation]] = Flag(
    "default_prng_impl", "threefry2x32", check_prng_impl, parse_text
)
num_cpu_devices: Final[Flag[int]] = Flag("num_cpu_devices", 1, check_positive_int, parse_int)
platforms: Final[Flag[str | None]] = Flag("platforms", None, check_platforms, parse_text)

_ALL: tuple[AnyFlag, ...] = (
    enable_x64, disable_jit, threefry_partitionable, enable_checks, debug_nans, debug_infs, log_compiles,
    traceback_filtering, default_matmul_precision, numpy_rank_promotion, numpy_dtype_promotion,
    default_prng_impl, num_cpu_devices, platforms,
)  # fmt: skip
FLAGS.update({flag.name: flag for flag in _ALL})


@final
class _Reading(Generic[T]):
    """An attribute of `config`: a flag's value in force, which cannot be set."""

    def __init__(self, flag: Flag[T], doc: str) -> None:
        self.flag, self.__doc__ = flag, doc

    def __get__(self, config: object, owner: object = None) -> T:
        return self.flag.value


@final
class Config:
    """All flags by name: read them as attributes, change them with `update`.

    >>> config.enable_x64
    False
    >>> config.update("effx_log_compiles", False)
    """

    __slots__ = ()

    enable_x64 = _Reading(enable_x64, "Whether 64-bit dtypes are kept; otherwise they become 32-bit.")
    disable_jit = _Reading(disable_jit, "Whether `jit` and control flow run operation by operation.")
    threefry_partitionable = _Reading(
        threefry_partitionable, "Whether threefry bits are generated so that they can be partitioned."
    )
    enable_checks = _Reading(enable_checks, "Whether programs are checked after every pass and handler.")
    debug_nans = _Reading(debug_nans, "Whether a NaN in a result raises an error.")
    debug_infs = _Reading(debug_infs, "Whether an infinity in a result raises an error.")
    log_compiles = _Reading(log_compiles, "Whether each compilation is logged.")
    traceback_filtering = _Reading(traceback_filtering, "Whether effx's own frames are hidden in tracebacks.")
    default_matmul_precision = _Reading(
        default_matmul_precision, "Precision of matrix products and convolutions that ask for none."
    )
    numpy_rank_promotion = _Reading(numpy_rank_promotion, "What broadcasting between different ranks does.")
    numpy_dtype_promotion = _Reading(numpy_dtype_promotion, "Whether different dtypes promote implicitly.")
    default_prng_impl = _Reading(default_prng_impl, "The generator of keys that name none.")
    num_cpu_devices = _Reading(
        num_cpu_devices, "How many devices the CPU backend offers; read once, when the backend starts."
    )
    platforms = _Reading(platforms, "Platforms to start, in order of preference; None lets effx choose.")

    def update(self, name: str, value: object) -> None:
        """Make `value` the global value of the flag `name`, with or without the prefix `effx_`.

        Args:
            name: `"enable_x64"` or `"effx_enable_x64"`.
            value: checked against the flag's type.

        Raises:
            AttributeError: no flag has this name.
            TypeError, ValueError: the flag does not take this value.

        >>> config.update("enable_x64", "yes")
        Traceback (most recent call last):
        TypeError: enable_x64: got 'yes' (str), expected a bool
        """
        self._find("config.update", name).assign(value)

    def read(self, name: str) -> object:
        """The value of the flag `name`, with or without the prefix `effx_`.

        >>> config.read("effx_enable_x64")
        False
        """
        return self._find("config.read", name).read()

    def values(self) -> dict[str, object]:
        """The values of all flags, as this context sees them.

        >>> config.values()["threefry_partitionable"]
        True
        """
        return {name: flag.read() for name, flag in FLAGS.items()}

    def _find(self, where: str, name: str) -> AnyFlag:
        flag = FLAGS.get(name.removeprefix("effx_"))
        if flag is None:
            raise AttributeError(f"{where}: no flag {name!r}, expected one of {', '.join(sorted(FLAGS))}")
        return flag

    def __repr__(self) -> str:
        return f"<Config {', '.join(f'{name}={value!r}' for name, value in self.values().items())}>"


errors.hiding[0] = traceback_filtering.read

config: Final = Config()


def __dir__() -> list[str]:
    return sorted(__all__)
