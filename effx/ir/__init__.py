"""The typed intermediate representation.

Never: depend on a handler or on XLA.
"""

import importlib
from typing import TYPE_CHECKING

from effx.ir.types import ArrayType, array_type

if TYPE_CHECKING:
    from effx.ir.check import check
    from effx.ir.program import Equation, Literal, Program, Var
    from effx.ir.text import parse_program, print_program

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

# Loaded when asked for: the checker and the text are no part of running a program.
_HOME = {
    "Equation": "program",
    "Literal": "program",
    "Program": "program",
    "Var": "program",
    "check": "check",
    "parse_program": "text",
    "print_program": "text",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'effx.ir' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"effx.ir.{home}"), name)
    return value
