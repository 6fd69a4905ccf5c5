"""Linear programs: record them, and split programs into known and linear parts (partial evaluation)."""

from effx.handlers.linear import checkpoint, control, custom, parallel
from effx.handlers.linear.partial_eval import (
    OperationParts,
    ProgramParts,
    split_operation,
    split_program,
    splitter,
)
from effx.handlers.linear.recorder import LinearProgram, LinearRecorder, make_linear_recorder, record_linear

__all__ = [
    "LinearProgram",
    "LinearRecorder",
    "OperationParts",
    "ProgramParts",
    "make_linear_recorder",
    "record_linear",
    "split_operation",
    "split_program",
    "splitter",
]
