"""Whether any context of the process holds what compiled functions must not run past.

That is a handler that intercepts, or an override of a flag. C++ cannot read context variables. So as long as there is
one anywhere, compiled functions look at their context in Python; otherwise they need not.

Never: import another effx module.
"""

import threading
from collections.abc import Callable
from functools import partial
from weakref import ref

__all__ = ["anywhere", "appear", "listeners", "stay", "vanish"]

# Called with whether there is any, after each change.
listeners: list[Callable[[bool], None]] = []
_present: set[object] = set()
_lock = threading.RLock()  # a collection inside may let go of another


def anywhere() -> bool:
    """Says whether there is any."""
    return bool(_present)


def appear(key: object) -> None:
    """Notes something that holds from now on, until it vanishes."""
    with _lock:
        _present.add(key)
        _tell()


def vanish(key: object) -> None:
    """Notes that something holds no longer."""
    with _lock:
        _present.discard(key)
        _tell()


def stay(x: object) -> None:
    """Notes something that holds as long as it lives: contexts may be copied, and outlive the block that made it."""
    key = id(x), object()
    appear(key)
    _refs[key] = ref(x, partial(_gone, key))


_refs: dict[object, "ref[object]"] = {}


def _gone(key: object, _: object) -> None:
    _refs.pop(key, None)
    vanish(key)


def _tell() -> None:
    for listener in listeners:
        listener(bool(_present))
