"""Linear programs: recording them, and splitting programs that hold known and linear parts.

Never: transpose.
"""

from effx.handlers.linear import control
from effx.handlers.linear.recorder import LinearProgram, Record
from effx.handlers.linear.splitting import Parts, Split, parts_of, split, splitter

__all__ = ["LinearProgram", "Parts", "Record", "Split", "control", "parts_of", "split", "splitter"]
