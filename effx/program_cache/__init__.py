"""Staged programs on disk: a process that meets a function which another one has staged neither traces nor lowers it.

This module is the door, by which `jit` comes. `lookup` makes the key of a call, `walk` goes over everything that a
function reaches, `bytecode` knows what code reads, `trusted_modules` what needs no look inside, `entries` are the files.
"""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Protocol, final

from effx import flags

if TYPE_CHECKING:
    from effx.lower.runtime.executables import Executable
    from effx.program_cache.entries import RestoredProgram
    from effx.program_cache.lookup import ProgramQuery
    from effx.tracing.traces import FunctionTrace

__all__ = ["NO_ENTRY", "CacheEntry", "find_entry"]


class CacheEntry(Protocol):
    """The entry of one call: a program, or room for it."""

    @property
    def program(self) -> "RestoredProgram | None":
        """The program that another process left on disk; None if there is none."""
        ...

    def store(self, trace: "FunctionTrace", executable: "Executable") -> None:
        """Writes the program that was staged and compiled for the call, where programs like it can be read back."""
        ...


@final
class NoEntry:
    """The entry of a call that has none: it holds no program and takes none."""

    program = None

    def store(self, trace: "FunctionTrace", executable: "Executable") -> None:
        """Writes nothing."""


NO_ENTRY = NoEntry()


def find_entry(
    make_query: "Callable[[], ProgramQuery | None]", restored: "dict[Hashable, RestoredProgram]"
) -> CacheEntry:
    """Returns the entry of a call that no program in memory serves.

    Args:
        make_query: gives the function with the kind of its arguments; None for a call that no entry can serve. It is
            called only where the cache is on, since it takes time.
        restored: the programs of this function that this process has read, to which those that are read now are added.
    """
    if flags.cache_dir.value is None:
        return NO_ENTRY
    from effx.program_cache.lookup import can_query  # most processes have no cache on disk

    query = make_query() if can_query() else None
    if query is None:
        return NO_ENTRY
    query.look_up(restored)
    return query
