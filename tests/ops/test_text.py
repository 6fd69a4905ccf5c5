"""The text of programs: what is malformed or untrue is refused with its line, and length costs nothing extra."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx.errors import ProgramError
from effx.handlers.staging.stage import stage
from effx.ir.checker import check_program
from effx.ir.program import RESERVED, Program, variable_name
from effx.ir.text import parse_program, print_program

GOOD = """
body(a: f32[]~, b: f32[]) {
  c: f32[] = mul a b
  return c
}

f(a: f32[3], b: f32[]) {
  c: f32[3] = mul a 2.0:f32~
  d: f32[] = reduce_sum[axes=(0,)] c
  e: f32[] = call[program=@body] 1.0:f32~ d
  return e, d
}
"""

WRONG = [
    ("e: f32[] = call", "e: f32[2] = call", "line 10: call: the result is f32[2], but the typing rule gives f32[]"),
    ("c: f32[3] = mul", "c: f32[3]~ = mul", "line 8: mul: the result is f32[3]~, but the typing rule gives f32[3]"),
    ("mul a 2.0:f32~", "sin a a", "line 8: sin: takes 1 operand, got 2: f32[3], f32[3]"),
    ("mul a 2.0:f32~", "mul a b b", "line 8: mul: takes 2 operands, got 3: f32[3], f32[], f32[]"),
    ("mul a 2.0:f32~", "mul a c", "line 8: got the undefined variable c"),
    ("mul a 2.0:f32~", "mul a 2:i8", "line 8: mul: operand dtypes differ: operand 0 is f32[3], operand 1 is i8[]"),
    ("mul a 2.0:f32~", "mul a 300:i8", "line 8: expected a value of the dtype, got 300:i8"),
    ("mul a 2.0:f32~", "mul a True:f32", "line 8: expected a value of the dtype, got True:f32"),
    ("mul a 2.0:f32~", "mul a 2.0.0:f32~", "line 8: expected a number, got '2.0.0'"),
    ("mul a 2.0:f32~", "mul a 2.0:f31~", "line 8: expected a dtype, got 'f31'"),
    ("mul a 2.0:f32~", f"mul a {'9' * 5000}:f32~", f"line 8: expected a number, got '{'9' * 20}'… of 5000 characters"),
    ("mul a 2.0:f32~", "dot_general a", None),
    ("d: f32[] =", "c: f32[] =", "line 9: got a second definition of c"),
    ("b: f32[]) {\n  c: f32[3]", "a: f32[]) {\n  c: f32[3]", "line 7: got a second definition of a"),
    ("return e, d", "return e, g", "line 11: got the undefined variable g"),
    ("f(a:", "body(a:", "line 7: got a second definition of the program body"),
    ("@body", "@nobody", "line 10: got the undefined program @nobody"),
    ("axes=(0,)", "axes=(1,)", "line 9: reduce_sum: axes 1 is out of range for f32[3], which has 1 axes"),
    ("axes=(0,)", "axes=", "line 9: expected a value, got ']'"),
    ("axes=(0,)", f"axes={'(' * 5000}", "line 9: got tuples nested more than 100 deep"),
    ("axes=(0,)", "axis=0", None),
    ("b: f32[]) {\n  c: f32[3]", "b: f32[]) ! 'i' {\n  c: f32[3]", "line 7: expected the effect row to be empty, got !'i'"),
    ("return e, d", "return e, d §", "line 11: got an unreadable character"),
    ("  return e, d\n}", "  return e, d", "line 11: expected more, got the end of the text"),
    ("f(a: f32[3]", "f(a: f3[3]", "line 7: expected a type, got 'f3[3]'"),
    ("f(a: f32[3]", f"f(a: f32[{'9' * 5000}]", None),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "text"), WRONG)
def test_malformed_and_untrue_text_is_refused(old: str, new: str, text: str | None) -> None:
    """With the line; None where the message depends on more than the text."""
    check_program(parse_program(GOOD))
    assert GOOD.count(old) == 1
    with pytest.raises(ProgramError, match=r"parse: line \d+: ") as caught:
        parse_program(GOOD.replace(old, new))
    assert text is None or caught.value.message == f"parse: {text}"


@given(st.data())
def test_random_edits_are_refused_or_make_another_correct_program(data: st.DataObject) -> None:
    """Never another error than one with a line."""
    pieces = GOOD.replace("\n", " \n ").split(" ")
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(pieces) - 1))
        pieces[index] = data.draw(
            st.sampled_from(["", *pieces, "i32[]", "((", "nan:f32", "-inf:f32", "'", "@f", "<"])
        )
    try:
        program = parse_program(" ".join(pieces))
    except ProgramError as error:
        assert error.message.startswith("parse: line ")  # noqa: PT017 - most edits are refused, but not all
    else:
        text = print_program(check_program(program))
        assert print_program(parse_program(text)) == text


def chain(length: int) -> Program:
    def body(arrays: list[effx.Array]) -> list[effx.Array]:
        x = arrays[0]
        for _ in range(length):
            x = enp.sin(x)
        return [x]

    return stage(body, (enp.ones(2).type,), "chain").program


def test_names_of_variables_are_no_other_tokens() -> None:
    """The 5,752nd variable would be called inf, the 8,802nd nan."""
    names = [variable_name(n) for n in range(20_000)]
    assert len(set(names)) == len(names)
    assert not set(names) & set(RESERVED)
    program = chain(9_000)
    text = print_program(program)
    assert "inf_: f32[2] = sin " in text
    assert "nan_: f32[2] = sin " in text
    assert print_program(parse_program(text)) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_without_digits_parse_back(value: float) -> None:
    """As literals of an equation."""
    program = effx.make_jaxpr(lambda x: x * value)(1.0)
    text = print_program(program)
    assert f"mul a {value!r}:f32~" in text
    assert print_program(parse_program(text)) == text


@pytest.mark.parametrize("what", ["print and parse", "text", "text with locations"])
def test_cost_is_linear_in_the_length(what: str) -> None:
    """Eight times the lines of one function take less than 24 times as long: a quadratic cost would take 64."""

    def seconds(lines: int) -> float:
        scope: dict[str, object] = {"enp": enp}
        source = "".join(f"    x = enp.sin(x) + {i}.0\n" for i in range(lines))
        exec(compile(f"def f(x):\n{source}    return x\n", "long.py", "exec"), scope)
        traced = effx.jit(cast("Callable[[float], effx.Array]", scope["f"])).trace(1.0)
        start = time.process_time()
        if what == "print and parse":
            parse_program(print_program(traced.program))
        else:
            traced.lower().as_text(debug_info=what != "text")
        return time.process_time() - start

    seconds(100)
    assert min(seconds(4_000) for _ in range(2)) < 24 * max(0.003, min(seconds(500) for _ in range(3)))
