"""Track whether any context of the process has a handler or override that compiled functions must not bypass.

That is a handler that intercepts, or an override of a flag. C++ cannot read context variables. So as long as there is
one anywhere, compiled functions look at their context in Python; otherwise they need not.

Never: import another effx module.
"""

import threading
from collections.abc import Callable
from weakref import ref

__all__ = ["add_key", "add_while_alive", "discard_key", "is_any_present", "listeners"]

# Called with whether there is any, after each change.
listeners: list[Callable[[bool], None]] = []
_present: set[object] = set()
_lock = threading.RLock()  # a collection inside may let go of another


def is_any_present() -> bool:
    """Returns whether there is any."""
    with _lock:
        _discard_dead_keys()
        return bool(_present)


def add_key(key: object) -> None:
    """Adds a key; it counts until it is discarded."""
    with _lock:
        _present.add(key)
        _notify_listeners()


def discard_key(key: object) -> None:
    """Removes a key."""
    with _lock:
        _present.discard(key)
        _notify_listeners()


def add_while_alive(x: object) -> None:
    """Counts an object as long as it lives: contexts may be copied, and outlive the block that made it."""
    key = object()
    with _lock:
        _refs[key] = ref(x, _on_collected)
        add_key(key)


_refs: dict[object, "ref[object]"] = {}


def _on_collected(_: object) -> None:
    with _lock:
        _notify_listeners()


def _discard_dead_keys() -> None:
    # All of them: an interrupt that comes as Python calls `_on_collected` is dropped, and the call with it.
    for key, x in list(_refs.items()):
        if x() is None:
            _present.discard(key)
            _refs.pop(key, None)


def _notify_listeners() -> None:
    _discard_dead_keys()
    for listener in listeners:
        listener(bool(_present))
