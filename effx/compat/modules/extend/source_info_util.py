"""`jax.extend.source_info_util`."""

from collections.abc import Iterator
from contextlib import contextmanager

from effx.compat.jaxprs import SourceInfo
from effx.compat.modules._src.traceback_util import register_exclusion
from effx.effects import current_scope
from effx.errors import Source, active_source, current_source, resolve_source

__all__ = ["SourceInfo", "current", "register_exclusion", "summarize", "user_context"]


def current() -> SourceInfo:
    """Returns the user's position."""
    source = current_source()
    return SourceInfo("", None if source is None else resolve_source(source), source)


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """Returns an equation's position, `file.py:12 (function)`; a position is one frame, however many are asked for."""
    if source_info.position is None or num_frames < 1:
        return "<unknown>"
    file, line, function = source_info.position
    return f"{file}:{line} ({function})"


@contextmanager
def user_context(c: Source, *, name_stack: str | None = None) -> Iterator[None]:
    """Gives the operations inside the position and the scopes of an equation that is evaluated.

    Args:
        c: the equation's `source_info.traceback`; None for their own positions.
        name_stack: scopes, joined by `/`, instead of those around; None for those around.
    """
    outer_source, outer_scope = active_source.get(), current_scope.get()
    try:
        active_source.set(outer_source if c is None else c)
        current_scope.set(outer_scope if name_stack is None else name_stack)
        yield
    finally:
        try:
            current_scope.set(outer_scope)
        finally:
            active_source.set(outer_source)
