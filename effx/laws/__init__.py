"""The laws of effx as a public suite: strategies of arrays, operations and programs, laws, and checks to run.

A law is a line of mathematics with a check that runs on random cases of hypothesis; `LAWS` has them all by
name, docs/tables/laws.md lists them. `check_operation`, `check_handler`, `check_transform` and `check_rules` run the
applicable laws on your own objects. A law that fails raises `LawError`, which prints the smallest case as a
program to paste.

Needs hypothesis: `pip install 'effx[laws]'`.

Never: be imported by another part of effx.
"""

try:
    import hypothesis as _  # whether it is there
except ImportError as error:
    raise ImportError("effx.laws: hypothesis is not installed; pip install 'effx[laws]'") from error

import effx.handlers.evaluate.handler  # the outermost handler
from effx.laws.arrays import array_of, array_shapes, array_types, arrays, pytrees
from effx.laws.checks import Report, check_handler, check_operation, check_rules, check_transform, laws_of
from effx.laws.comparing import same
from effx.laws.control_oracle import python_form
from effx.laws.drawing import register
from effx.laws.operations import operations
from effx.laws.programs import CONSTRUCTS, TypedProgram, cases, points, programs
from effx.laws.registry import AREAS, LAWS, Law, LawError, NotApplicable, Outcome, law
from effx.laws.stacks import LAYERS, Stack, handlers

__all__ = [
    "AREAS",
    "CONSTRUCTS",
    "LAWS",
    "LAYERS",
    "Law",
    "LawError",
    "NotApplicable",
    "Outcome",
    "Report",
    "Stack",
    "TypedProgram",
    "array_of",
    "array_shapes",
    "array_types",
    "arrays",
    "cases",
    "check_handler",
    "check_operation",
    "check_rules",
    "check_transform",
    "handlers",
    "law",
    "laws_of",
    "operations",
    "points",
    "programs",
    "python_form",
    "pytrees",
    "register",
    "same",
]


def __dir__() -> list[str]:
    return sorted(__all__)
