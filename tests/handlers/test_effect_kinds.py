"""Effects by kind: which are ordered, which name an axis, and which axes handlers bind.

Never: tests how effects cross jit; test_intercepting.py does.
"""

from __future__ import annotations

import attrs
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.effects import Label, axes_in_scope, handle
from effx.errors import BackendError, TransformError
from effx.handlers.jvp import JVP
from effx.handlers.staging.parallel_maps import Replicas
from effx.handlers.staging.stage import stage
from effx.handlers.vmap import Vmap
from effx.ir.ops.base import ArrayOperation
from effx.ir.ops.collective import AxisEffect
from effx.ir.passes.redundancy import eliminate_common_subexpressions, eliminate_dead_code
from effx.ir.types import ArrayType
from effx.lower.text.module import module_text


def test_effects_have_kinds() -> None:
    """What is ordered is neither removed nor merged; an axis's operations may be; what is no effect is refused."""
    note = Label("note")
    assert (note.ordered, note.optional, note.axis) == (True, False, None)
    axis = AxisEffect("i")
    assert (axis.ordered, axis.optional, axis.axis) == (False, False, "i")

    @attrs.frozen
    class Noted(ArrayOperation):
        effects = frozenset({note})

        def infer(self, *types: ArrayType) -> ArrayType:
            return types[0]

    def f(arrays: list[Array]) -> list[Array]:
        x = arrays[0]
        lax.psum(x, "i")
        Noted()(x)
        Noted()(x)
        return [lax.psum(x, "i") + lax.psum(x, "i")]

    with handle(Replicas(2, "i")):
        program = stage(f, (enp.ones(3).type,)).program
    cleaned = eliminate_common_subexpressions(eliminate_dead_code(program))
    assert [e.op.name for e in program.equations] == ["psum", "noted", "noted", "psum", "psum", "add"]
    assert [e.op.name for e in cleaned.equations] == ["noted", "noted", "psum", "add"]
    with pytest.raises(
        TransformError, match=r"^wrong: effects must be a frozenset of labels, got frozenset\(\{'i'\}\)"
    ):

        class Wrong(ArrayOperation):
            effects = frozenset({"i"})  # type: ignore[arg-type]  # the error is the point


def test_handlers_say_which_axes_they_bind() -> None:
    """By name and size, innermost first."""
    assert axes_in_scope() == ()
    with handle(Vmap(2, "i")), handle(Vmap(5)), handle(Replicas(3, "j")):
        assert axes_in_scope() == (("j", 3), ("i", 2))
    assert JVP().axes() == ()


def test_what_is_lowerable_compiles() -> None:
    """A print does; a sum along an axis that nothing binds does not."""
    printing = effx.make_jaxpr(lambda x: effx.debug.print("{}", x))(1.0)
    summing = effx.make_jaxpr(lambda x: effx.lax.psum(x, "i"), axis_env=[("i", 2)])(1.0)
    assert [[e.lowerable for e in program.effects] for program in (printing, summing)] == [[True], [False]]
    assert "custom_call" in module_text(printing, "cpu")
    with pytest.raises(BackendError, match=r"lower: .* leaves effects open: \[\"AxisEffect\(axis='i'\)\"\]"):
        module_text(summing, "cpu")
