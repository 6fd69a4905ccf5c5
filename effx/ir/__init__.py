"""The typed intermediate representation.

Never: depend on a handler or on XLA.
"""

from effx.ir.check import check
from effx.ir.program import Equation, Literal, Program, Var
from effx.ir.text import parse_program, print_program
from effx.ir.types import ArrayType, array_type

__all__ = [
    "ArrayType",
    "Equation",
    "Literal",
    "Program",
    "Var",
    "array_type",
    "check",
    "parse_program",
    "print_program",
]
