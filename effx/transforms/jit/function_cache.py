"""What is known of a function under one choice of `jit`'s options, shared by all that `jit` makes of it."""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, final

import attrs

from effx import caching
from effx.caching import WeakStore
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
    """What is known of a trace under one choice of options; kept with the trace, to which it does not refer.

    Attributes:
        donated: for each dynamic leaf whether its memory may be reused.
        tree: the structure of the dynamic arguments.
        shardings: how arguments and results shall lie on several devices; None where nothing was said.
        executables: by where they run, those of `usual_place` by that too, and whether NaN and infinities are looked for.
    """

    donated: tuple[bool, ...]
    tree: PyTreeDef
    shardings: RequestedShardings | None = None
    executables: dict[tuple[Assignment | DefaultPlacement, bool], Executable] = attrs.field(factory=dict)


@final
class SharedKey:
    """By which C++ knows functions that share what it has seen.

    Attributes:
        settings: with which it was used beside the key.
        restored: programs from disk.
    """

    __slots__ = ("restored", "settings")

    def __init__(self) -> None:
        self.settings: set[tuple[object, ...]] = {()}
        self.restored: dict[Hashable, RestoredProgram] = {}


# For each function and choice of options.
_keys: WeakStore[Callable[..., Any], dict[Options, SharedKey]] = WeakStore()


def _clear_restored() -> None:
    for keys in _keys.values():
        for key in keys.values():
            key.restored.clear()


caching.other_caches.append(_clear_restored)


def shared_key(fun: Callable[..., Any], options: Options) -> SharedKey:
    """Returns the key of a function under a choice of options; one for each of both."""
    return _keys.get(fun, dict).setdefault(options, SharedKey())
