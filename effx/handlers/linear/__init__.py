"""Linear programs: recording them, and splitting programs that hold known and linear parts."""

from effx.handlers.linear import checkpoint, control, custom, parallel
from effx.handlers.linear.partial_eval import Parts, Split, parts_of, split, splitter
from effx.handlers.linear.recorder import LinearProgram, Record, record_linear, recording

__all__ = [
    "LinearProgram",
    "Parts",
    "Record",
    "Split",
    "parts_of",
    "record_linear",
    "recording",
    "split",
    "splitter",
]
