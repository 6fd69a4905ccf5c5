"""Whether functions that a walk meets were staged before, and read then what they would read now.

An inner function that was staged is not staged again: the outer program gets what it read at the time. Another process
would stage it anew. So its key then must be its key now.
"""

from collections.abc import Callable
from typing import Any

from effx import flags
from effx.caching import WeakStore
from effx.program_cache.walk import Walk
from effx.tracing.arguments import name_of
from effx.tracing.traces import listeners, traces_of
from effx.tree.registry import PyTree

__all__ = ["outdated"]

# The keys with which a function was staged, "" where there was none.
_keys: WeakStore[object, set[str]] = WeakStore()


def _note(fun: Callable[..., PyTree]) -> None:
    if flags.cache_dir.value is not None and flags.cache_programs.value:
        _keys.get(fun, set).add(_key(fun))


listeners.append(_note)


def _key(fun: object) -> str:
    walk = Walk()
    try:
        walk.value(fun)
        return walk.key()
    except Exception:  # noqa: BLE001  no key: a refusal, or what a user's class raises
        return ""


def outdated(walk: Walk) -> str:
    """Returns what was staged with other values than it would read now, or may have been; "" for nothing."""
    for x in walk.callables:
        fun: Any = getattr(x, "fun", x) if hasattr(type(x), "__reaches__") else x
        held = getattr(x, "traces", None) if fun is not x else None
        if (held or traces_of(fun)) and _keys.get(fun, set) != {_key(fun)}:
            return f"it calls {name_of(fun)}, which was staged before, perhaps with other values than it reads now"
    return ""
