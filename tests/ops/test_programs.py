"""Printed programs parse back, the checker accepts what staging gives, and wrong types are refused in words.

Never: runs an operation.
"""

from __future__ import annotations

import attrs
import pytest

from effx.errors import EffxError, ProgramError
from effx.handlers.stage import stage
from effx.ir.checker import check
from effx.ir.ops.base import ArrayOperation
from effx.ir.ops.custom import CustomCall
from effx.ir.text import parse_program, print_program
from effx.ir.types import ArrayType
from tests.ops.rows import Invalid
from tests.ops.table import CASES, ROWS, Case, name


@pytest.mark.parametrize("case", CASES, ids=name)
def test_printed_program_parses_back(case: Case) -> None:
    """To a program with the same text and the same types."""
    _, sample = case
    with sample.settings():

        def function(xs: list[object]) -> list[object]:
            result = sample.op(*xs)  # type: ignore[arg-type]  # arrays
            return list(result) if sample.op.multiple else [result]

        program = check(stage(function, sample.types, "law").program)  # type: ignore[arg-type]  # lists of arrays
        text = print_program(program)
        if isinstance(sample.op, CustomCall):
            with pytest.raises(ProgramError, match="rules"):
                parse_program(text)  # rules are functions of Python's
            return
        parsed = check(parse_program(text))
        assert print_program(parsed) == text
        assert (parsed.in_types, parsed.out_types, parsed.effects) == (
            program.in_types,
            program.out_types,
            program.effects,
        )


def test_parser_takes_the_class_that_attrs_made() -> None:
    """Not the one that attrs replaced, which lives on until it is collected."""

    class Replaced(ArrayOperation):
        name = "replaced"
        factor: int

        def infer(self, *types: ArrayType) -> ArrayType:
            return types[0]

    made = attrs.frozen(Replaced)
    assert made is not Replaced
    program = parse_program("f(a: f32[]) {\n  b: f32[] = replaced[factor=2] a\n  return b\n}")
    assert type(program.equations[0].op) is made


INVALID = [pytest.param(invalid, id=f"{row}-{i}") for row in ROWS for i, invalid in enumerate(row.invalid)]


@pytest.mark.parametrize("invalid", INVALID)
def test_invalid_input_is_refused(invalid: Invalid) -> None:
    """With the class and the whole text that the table names."""
    with pytest.raises(invalid.error) as caught:
        invalid.build()
    assert type(caught.value) is invalid.error
    if isinstance(caught.value, EffxError):
        assert caught.value.message == invalid.text
        assert caught.value.at is not None
        assert str(caught.value) == f"{invalid.text}\n  at   {caught.value.at}"
    else:
        assert str(caught.value.args[0]) == invalid.text
