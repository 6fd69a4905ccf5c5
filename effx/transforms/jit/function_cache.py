"""Caches of a jitted function for one choice of options, shared by all jitted forms of that function."""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, final

import attrs

from effx import caching
from effx.caching import WeakStore
from effx.flags import CompileMode
from effx.lower.placement.assignment import Assignment, RequestedShardings
from effx.lower.runtime.executables import Executable
from effx.transforms.jit.device_assignment import DefaultPlacement
from effx.transforms.jit.options import Options
from effx.tree.registry import PyTreeDef

if TYPE_CHECKING:
    from effx.program_cache.entries import RestoredProgram


@final
@attrs.define(eq=False)
class TraceVariant:
    """A trace's donation, shardings and executables under one choice of options; stored with the trace.

    Attributes:
        donated: for each dynamic leaf whether its memory may be reused.
        tree: the structure of the dynamic arguments.
        shardings: the requested shardings of arguments and results; None if none were requested.
        executables: by device assignment or default placement, by whether NaN and infinities are checked for, and by
            how much XLA optimizes.
    """

    donated: tuple[bool, ...]
    tree: PyTreeDef
    shardings: RequestedShardings | None = None
    executables: dict[tuple[Assignment | DefaultPlacement, bool, CompileMode], Executable] = attrs.field(
        factory=dict
    )


@final
class SharedKey:
    """The key by which jitted functions share one C++ cache.

    Attributes:
        settings: the settings of flags that it was used with.
        restored: programs read from disk.
    """

    __slots__ = ("restored", "settings")

    def __init__(self) -> None:
        self.settings: set[tuple[object, ...]] = {()}
        self.restored: dict[Hashable, RestoredProgram] = {}


# The keys of each function, by its options.
_keys: WeakStore[Callable[..., Any], dict[Options, SharedKey]] = WeakStore()


def _clear_restored() -> None:
    for keys in _keys.values():
        for key in keys.values():
            key.restored.clear()


caching.other_caches.append(_clear_restored)


def shared_key(fun: Callable[..., Any], options: Options) -> SharedKey:
    """Returns the shared key of a function and its options."""
    return _keys.get(fun, dict).setdefault(options, SharedKey())
