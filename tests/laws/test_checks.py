"""What users run on their own things: it passes on what is right, and refuses what it cannot check.

Never: installs a mutation; test_mutations.py does.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, errors, laws
from effx.handlers.authoring.boxing import BoxHandler
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Unary
from effx.ir.types import array_type
from effx.laws.table import render
from effx.laws.watchers import ScaleResults, Tally
from effx.laws.zoo import DualNumber, DualNumbers

ROOT = Path(__file__).resolve().parent.parent.parent
F32 = array_type(effx.dtypes.float32, (3,))


def test_there_are_laws_of_every_area() -> None:
    """At least 70 in all, each with a statement of its own."""
    assert len(laws.LAWS) >= 70
    assert {law.area for law in laws.LAWS.values()} == set(laws.AREAS)
    statements = [law.statement for law in laws.LAWS.values()]
    # The same statement may hold of users' handlers and of the library's own.
    assert len(set(statements)) >= len(statements) - 3
    assert all([len(s) <= 125 for s in statements])


def test_the_table_is_fresh() -> None:
    """`python -m effx.laws > docs/tables/laws.md` writes it."""
    assert (ROOT / "docs" / "tables" / "laws.md").read_text(encoding="utf-8") == render()


def test_the_suite_says_what_it_needs() -> None:
    """Without hypothesis the error names the extra."""
    code = "import sys; sys.modules['hypothesis'] = None; import effx.laws"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "effx.laws: hypothesis is not installed; pip install 'effx[laws]'" in done.stderr


def test_laws_have_names_of_their_own() -> None:
    with pytest.raises(errors.TransformError, match="there is a law 'forwarding' already"):

        @laws.law("staging", "nothing", laws.operations())
        def forwarding() -> None: ...

    with pytest.raises(errors.TransformError, match=r"an area is one of .*, got 'astrology'"):
        laws.law("astrology", "nothing", laws.operations())


def test_laws_to_skip_must_exist() -> None:
    with pytest.raises(errors.TransformError, match="there is no law 'gravity' in the area 'user rules'"):
        laws.laws_of("user rules", ["gravity"])


@pytest.mark.parametrize("kind", [e.Sin, e.Add, e.Not])
def test_operations_of_the_library_pass(kind: type) -> None:
    op = kind()
    t = array_type(effx.dtypes.int32, (2,)) if kind is e.Not else F32
    laws.check_operation(op, *[t] * op.arity, examples=2)


def test_operands_may_be_arrays() -> None:
    laws.check_operation(
        e.Mul(), enp.asarray([1.0, -2.0]), enp.asarray(3.0), reference=np.multiply, examples=2
    )


def test_operands_must_fit() -> None:
    with pytest.raises(errors.ShapeError, match="add: operand shapes differ"):
        laws.check_operation(e.Add(), F32, F32.with_shape((2,)), examples=1)


class Unknown(Unary):
    __slots__ = ()


def test_an_operation_needs_a_meaning() -> None:
    with pytest.raises(errors.TransformError) as caught:
        laws.check_operation(Unknown(), F32)
    assert caught.value.message == (
        "check_operation: unknown: the reference handler has no rule for it; give reference=, a NumPy function"
    )


def test_handlers_of_users_pass() -> None:
    laws.check_handler(
        DualNumbers(),
        payload=lambda x: DualNumber(x, enp.ones_like(x)),
        relation=lambda p, x: (enp.abs(p.value - x) < 1e-9).all(),
        examples=2,
    )


@attrs.frozen
class Deaf(BoxHandler[DualNumber]):
    def lift(self, x: Array) -> DualNumber:
        return DualNumber(x, x)


def test_a_handler_needs_rules() -> None:
    with pytest.raises(
        errors.TransformError, match="check_handler: no program can be drawn for deaf: sin, add, mul"
    ):
        laws.check_handler(Deaf())
    with pytest.raises(
        errors.TransformError,
        match="check_handler: takes an instance of a BoxHandler or InterceptHandler, got <class",
    ):
        laws.check_handler(Deaf)  # type: ignore[arg-type]  # the mistake


def test_transformations_of_users_pass() -> None:
    laws.check_transform(
        lambda f: lambda *xs: effx.tree.map(lambda y: -y, f(*xs)),
        lambda f, xs: effx.tree.map(lambda y: y - 2 * y, f(*xs)),
        examples=2,
    )


def test_rules_of_users_pass() -> None:
    @effx.custom_vjp
    def scaled(x: Array, y: Array) -> tuple[Array, Array]:
        return enp.sin(x) * y, x

    scaled.defvjp(
        lambda x, y: (scaled(x, y), (x, y)),
        lambda kept, cts: (cts[0] * enp.cos(kept[0]) * kept[1] + cts[1], cts[0] * enp.sin(kept[0])),
    )
    laws.check_rules(scaled, F32, F32, examples=3)


def test_a_failing_case_is_one_call() -> None:
    """A law is called with a case; the error shows the law, the cause and how to reproduce it."""
    wrong = lambda f, xs: tuple([y + 1.0 for y in f(*xs)])  # noqa: E731 - an oracle
    with pytest.raises(laws.LawError) as caught:
        laws.check_transform(lambda f: f, wrong, constructs=(), examples=10)
    text = str(caught.value)
    assert text.startswith(
        "transformations_agree_with_their_oracle: T f(x) = oracle(f, x)\n  AssertionError:"
    )
    assert "reproduce it with:" in text
    assert "# your_function is yours, from " in text
    assert "test_checks.py:" in text
    assert isinstance(caught.value, AssertionError)


def test_intercepting_handlers_of_users_pass() -> None:
    """One with a state, one that collects, one that takes effects; the report lists what was not checked."""
    report = laws.check_handler(Tally(), neutral=True, examples=2)
    assert report.skipped == {}
    assert str(report).splitlines()[0] == f"{len(report.outcomes)} laws hold, 0 do not apply"
    assert {o.law for o in report.outcomes} == {law.name for law in laws.laws_of("user interceptors")}
    scaled = laws.check_handler(ScaleResults(2.0), examples=2, skip=["interceptors_compile"])
    assert scaled.skipped == {
        "interceptors_that_forward_are_neutral": "the handler may change results: neutral=False"
    }


def test_a_report_says_what_was_skipped() -> None:
    """Laws that say nothing of a handler do not count as held."""
    report = laws.check_handler(DualNumbers(), examples=2, skip=["handlers_compile"])
    assert report.skipped["handlers_are_sound"] == "no relation between payloads and values is given"
    assert report.skipped["branches_join"].startswith("the handler has a primal, or no join")
    held = len(report.outcomes) - len(report.skipped)
    assert str(report).startswith(
        f"{held} laws hold, {len(report.skipped)} do not apply\n  handlers_are_sound: does not"
    )


def test_arguments_of_check_handler_are_for_a_kind() -> None:
    with pytest.raises(
        errors.TransformError, match=r"^check_handler: tally has no boxes, so payload and relation say"
    ):
        laws.check_handler(Tally(), payload=lambda x: x)
    with pytest.raises(
        errors.TransformError, match=r"^check_handler: dual_numbers has boxes; neutral is for"
    ):
        laws.check_handler(DualNumbers(), neutral=True)
