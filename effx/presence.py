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
# The references that `add_while_alive` makes, by their ids, which are their keys.
_references: dict[int, "ref[object]"] = {}
_lock = threading.RLock()  # a collection inside may let go of another


def is_any_present() -> bool:
    """Returns whether some context has a handler or an override that compiled functions must not bypass."""
    with _lock:
        for reference in list(_references.values()):
            if reference() is not None:
                return True
            # An interrupt that comes as Python calls `_on_collected` is dropped, and the call with it.
            _references.pop(id(reference), None)
            _present.discard(id(reference))
        return bool(_present)


def add_key(key: object) -> None:
    """Registers a handler or an override under a key, until `discard_key`."""
    with _lock:
        _present.add(key)
        _notify_listeners()


def discard_key(key: object) -> None:
    """Removes what is registered under a key."""
    with _lock:
        _present.discard(key)
        _notify_listeners()


def add_while_alive(x: object) -> None:
    """Registers an object as long as it lives: contexts may be copied, and outlive the block that made it."""
    reference = ref(x, _on_collected)
    with _lock:
        _references[id(reference)] = reference
        add_key(id(reference))


def _on_collected(reference: "ref[object]") -> None:
    with _lock:
        _references.pop(id(reference), None)
        discard_key(id(reference))


def _notify_listeners() -> None:
    for listener in listeners:
        listener(bool(_present))
