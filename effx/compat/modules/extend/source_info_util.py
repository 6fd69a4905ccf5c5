"""`jax.extend.source_info_util`."""

from effx.compat.jaxprs import SourceInfo
from effx.compat.modules._src.traceback_util import register_exclusion
from effx.errors import current_source, resolve_source

__all__ = ["SourceInfo", "current", "register_exclusion", "summarize"]


def current() -> SourceInfo:
    """Returns the user's position."""
    source = current_source()
    return SourceInfo("", None if source is None else resolve_source(source))


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """Returns an equation's position, `file.py:12 (function)`; a position is one frame, however many are asked for."""
    if source_info.position is None or num_frames < 1:
        return "<unknown>"
    file, line, function = source_info.position
    return f"{file}:{line} ({function})"
