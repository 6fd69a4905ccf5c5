"""Check that inner functions staged earlier read then the values that they would read now.

An inner function that was staged is not staged again: the outer program contains the values that it read then. Another
process would stage it anew. So its key then must be its key now.
"""

from collections.abc import Callable
from typing import Any

from effx import flags
from effx.caching import WeakStore
from effx.program_cache.walk import FunctionHasher
from effx.tracing.arguments import callable_name
from effx.tracing.traces import trace_listeners, traces_of
from effx.tree.registry import PyTree

__all__ = ["stale_callee"]

# The keys with which a function was staged; "" for none.
_keys_by_function: WeakStore[object, set[str]] = WeakStore()


def _record_key(fun: Callable[..., PyTree]) -> None:
    if flags.cache_dir.value is not None and flags.cache_programs.value:
        _keys_by_function.get(fun, set).add(_function_key(fun))


trace_listeners.append(_record_key)


def _function_key(fun: object) -> str:
    walk = FunctionHasher()
    try:
        walk.add_value(fun)
        return walk.digest()
    except Exception:  # noqa: BLE001  no key: a refusal, or what a user's class raises
        return ""


def stale_callee(walk: FunctionHasher) -> str:
    """Returns which callee was, or may have been, staged with other values than it would read now; "" for none."""
    for x in walk.callables:
        fun: Any = getattr(x, "fun", x) if hasattr(type(x), "__reaches__") else x
        own_traces = getattr(x, "traces", None) if fun is not x else None
        if (own_traces or traces_of(fun)) and _keys_by_function.get(fun, set) != {_function_key(fun)}:
            return f"it calls {callable_name(fun)}, which was staged before, perhaps with other values than it reads now"
    return ""
