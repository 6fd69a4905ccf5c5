"""Printed programs parse back, the checker accepts what staging gives, and wrong types are refused in words."""

from __future__ import annotations

import attrs
import pytest

from effx.errors import EffxError, ProgramError
from effx.families.callbacks.callback import PythonCallback
from effx.handlers.staging.stage import stage
from effx.ir.checker import check_program
from effx.ir.ops.base import ArrayOperation
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.custom import CustomCall
from effx.ir.ops.solve import LinearSolve, Root
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

        program = check_program(stage(function, sample.types, "law").program)  # type: ignore[arg-type]  # lists of arrays
        text = print_program(program)
        if isinstance(sample.op, CustomCall | PythonCallback):
            with pytest.raises(ProgramError, match="stands for functions of Python's"):
                parse_program(text)
            return
        parsed = check_program(parse_program(text))
        assert print_program(parsed) == text
        assert (parsed.in_types, parsed.out_types, parsed.effects) == (
            program.in_types,
            program.out_types,
            program.effects,
        )


@pytest.mark.parametrize("case", [c for c in CASES if isinstance(c[1].op, HigherOrder)], ids=name)
def test_regions_fit_the_types(case: Case) -> None:
    """A region's types of operands and results are those of its programs."""
    op, types = case[1].op, case[1].types
    assert isinstance(op, HigherOrder)
    # What an equation defines is more than what its solver does.
    assert bool(op.regions) is not isinstance(op, LinearSolve | Root)
    for region in op.regions:
        operands = region.group_operands(types)
        assert (len(operands.constants), len(operands.carry)) == (region.constants, region.carries)
        slices = zip(operands.join(), region.stacked_in, strict=True)
        assert [t.with_shape(t.shape[s:]) for t, s in slices] == list(region.program.in_types)
        results = op.infer(*types)
        assert [t.with_shape(t.shape[s:]) for t, s in zip(results, region.stacked_out, strict=True)] == list(
            region.program.out_types
        )
        assert region.condition is None or region.condition.in_types == (*operands.constants, *operands.carry)


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
