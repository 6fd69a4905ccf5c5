"""Caches that keep no objects alive, and cache keys that are stricter than `==`.

Traces and compiled code are cached by the function's identity, weakly, and refer neither to the function nor
to its C++ functions, so dropping a function frees everything at once: the collector of cycles does not know
how large arrays are.

Never: import another effx module.
"""

import dataclasses
from collections.abc import Callable, Hashable
from functools import partial
from types import FunctionType
from typing import Any, Generic, TypeVar, cast
from weakref import ref

__all__ = ["WeakStore", "clear_caches", "clear_kernels", "exact_key", "has_same_bits"]

K = TypeVar("K")
V = TypeVar("V")


class WeakStore(Generic[K, V]):
    """One value for each object, by identity, for as long as the object lives; the value must not refer to it."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, tuple[ref[K], V]] = {}

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Returns the value for an object, made the first time; each time if the object has no weak references."""
        key_id = id(key)
        entry = self._entries.get(key_id)
        if entry is not None and entry[0]() is key:
            return entry[1]
        value, entries = make(), self._entries
        try:
            owner = ref(key, partial(entries.pop, key_id))  # in C: an interrupt in a callback would be lost
        except TypeError:
            return value
        entries[key_id] = (owner, value)
        return value

    def values(self) -> list[V]:
        """Returns the values of all live objects."""
        return [value for _, value in list(self._entries.values())]

    def __len__(self) -> int:
        return len(self._entries)


Clear = Callable[[], object]

# Functions that clear caches of quickly recompiled code, and those that clear all others: modules append their own.
kernel_caches: list[Clear] = []
other_caches: list[Clear] = []


def clear_kernels() -> None:
    """Clears the compiled kernels of single operations, and executables of recently compiled texts."""
    for clear in kernel_caches:
        clear()


def clear_caches() -> None:
    """Clears all staged programs and compiled executables; later calls stage and compile again.

    Objects that a user holds, a `Program` or the result of `jit(f).lower(x).compile()`, stay usable.

    >>> import effx, effx.numpy as enp
    >>> f = effx.jit(lambda x: x + 1)
    >>> _ = f(1.0)
    >>> effx.clear_caches()
    >>> f._cache_size()
    0
    """
    clear_kernels()
    for clear in other_caches:
        clear()


# Their values are equal only to those of the same type and bits, but for numbers, which the type tells apart.
_PLAIN_TYPES = frozenset({bool, bytes, int, str, type, type(None), FunctionType})


def _compared_fields(value: object) -> tuple[object, ...] | None:
    """Returns the compared fields of an attrs class or dataclass; None for other values.

    None too for a class with an `__eq__` or a `__hash__` of its own: it says itself what it is compared by.
    """
    cls = type(value)
    fields: Any = getattr(cls, "__attrs_attrs__", None)
    if fields is not None:
        generated = "<attrs generated"
        compared = [f.name for f in fields if f.eq]
    elif dataclasses.is_dataclass(cls):
        generated = "<string>"
        compared = [f.name for f in dataclasses.fields(cls) if f.compare]
    else:
        return None
    code = getattr(cls.__eq__, "__code__", None)
    if code is None or not (code.co_filename.startswith(generated) or code is _strict_code):
        return None
    own_hash = getattr(cls.__hash__, "__code__", None)
    if own_hash is not None and not own_hash.co_filename.startswith(generated):
        return None
    return tuple([getattr(value, name) for name in compared])


def exact_key(value: object) -> Hashable:
    """Returns a key that is equal only for values of equal types and bits: 1, 1.0 and True differ, and 0.0 and -0.0 do.

    >>> exact_key(0.0) == exact_key(-0.0), exact_key((1,)) == exact_key((True,))
    (False, False)
    >>> exact_key(float("nan")) == exact_key(float("nan"))
    True
    """
    kind = type(value)
    if kind in _PLAIN_TYPES:
        return kind, value
    if isinstance(value, float):
        return kind, float(value).hex()
    if isinstance(value, complex):
        return kind, float(value.real).hex(), float(value.imag).hex()
    if isinstance(value, tuple):
        # A call for each plain element would double the time of the keys that equinox's jit asks for.
        return kind, tuple([(type(x), x) if type(x) in _PLAIN_TYPES else exact_key(x) for x in value])
    if isinstance(value, frozenset):
        return kind, frozenset([exact_key(x) for x in value])
    parts = _compared_fields(value)
    return (kind, value) if parts is None else (kind, exact_key(parts))


def has_same_bits(x: object, y: object) -> bool:
    """Returns whether two values have equal types and bits."""
    if x is y:
        return True
    kind = type(x)
    if kind is not type(y):
        return False
    if kind is tuple:
        a, b = cast("tuple[object, ...]", x), cast("tuple[object, ...]", y)
        return len(a) == len(b) and all(map(has_same_bits, a, b))
    return x == y if kind in _PLAIN_TYPES else exact_key(x) == exact_key(y)


def _make_strict_eq(names: tuple[str, ...]) -> Callable[[object, object], bool]:
    def __eq__(self: object, other: object) -> bool:  # noqa: N807  it becomes a method
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(has_same_bits(getattr(self, name), getattr(other, name)) for name in names)

    return __eq__


_strict_code = _make_strict_eq(()).__code__


def make_comparison_strict(cls: type[object]) -> None:
    """Makes an attrs class compare its fields by `has_same_bits`."""
    code = getattr(cls.__dict__.get("__eq__"), "__code__", None)
    if code is not None and code.co_filename.startswith("<attrs generated"):
        fields: Any = cls.__attrs_attrs__  # type: ignore[attr-defined]  # attrs calls this for its own classes
        cls.__eq__ = _make_strict_eq(tuple([f.name for f in fields if f.eq]))  # type: ignore[method-assign]  # the point
