"""The strategies of the law suite: what they draw, how it shrinks, and what they refuse."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

import effx
import effx.numpy as enp
from effx import Array, errors, laws
from effx.effects import handle
from effx.families.attention import FusedAttention, FusedAttentionGradient, FusedAttentionTangent
from effx.families.bit_generators import RngBitGenerator, RngUniform
from effx.families.callbacks.callback import PythonCallback
from effx.families.exported_call import ExportedCall
from effx.families.foreign import ForeignCall
from effx.families.inspection import InspectSharding
from effx.handlers.oracle import Reference, evaluate
from effx.ir.catalogue import operation_classes
from effx.ir.ops.base import Elementwise
from effx.ir.ops.collective import Collective
from effx.ir.ops.custom import CustomTangent
from effx.ir.ops.parallel import ParallelMap
from effx.ir.types import ArrayType, array_type
from effx.laws.comparing import leaves, same
from effx.laws.drawing import draw_operands, operation_kinds
from effx.laws.printing import SourcePrinter

quick = settings(
    max_examples=40,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def test_every_operation_is_drawn() -> None:
    """But for those that need an axis, which the laws of the area "parallel" are about, and for XLA's generators,
    whose draws depend on what else is drawn, for Python functions and exported modules, which no text holds, foreign
    ones, of which nothing is known, and cuDNN's, which run on NVIDIA GPUs alone."""
    left_out = [k for k in operation_classes() if k not in operation_kinds()]
    others = (
        CustomTangent,
        ParallelMap,
        RngBitGenerator,
        RngUniform,
        PythonCallback,
        ForeignCall,
        FusedAttention,
        FusedAttentionGradient,
        FusedAttentionTangent,
        ExportedCall,
        InspectSharding,
    )
    assert all([issubclass(k, Collective) or k in others for k in left_out])


@pytest.mark.parametrize("smooth", [False, True])
@quick
@given(data=st.data())
def test_operands_fit(smooth: bool, data: st.DataObject) -> None:
    """Typing rules take what is drawn; smooth operations get 64 bits."""
    op, operands = data.draw(laws.operations(smooth=smooth))
    with effx.enable_x64(True):
        op.infer(*[x.type for x in operands])  # type: ignore[attr-defined]  # an operation
    if smooth:
        assert all([x.dtype in ("float64", "complex128") for x in operands if x.type.kind in "fc"])  # type: ignore[attr-defined]  # arrays


def test_unknown_operations_are_refused() -> None:
    with pytest.raises(errors.TransformError) as caught:
        laws.operations(CustomTangent)
    assert caught.value.message == (
        "operations: nothing says how to draw CustomTangent; see effx.laws.register"
    )


@attrs.frozen
class Shifted(Elementwise):
    by: float

    def infer(self, *types: ArrayType) -> ArrayType:
        return types[0]


def test_users_register_their_own() -> None:
    laws.register(Shifted)(lambda draw, wanted: (Shifted(2.0), (array_type(wanted[0], (2,)),), ((0.0, 1.0),)))
    case: Any = find(laws.operations(Shifted), lambda case: True)
    op, (x,) = case
    assert op == Shifted(2.0)
    assert x.shape == (2,)


@quick
@given(case=laws.cases(laws.programs(smooth=False)))
def test_programs_run_and_print_as_they_are_run(case: Any) -> None:
    """A program's source, executed, gives what the program gives; its Python form too."""
    f, xs = case
    names = {"effx": effx, "enp": enp, "lax": effx.lax, "np": np}
    exec(f.source, names)
    pasted: Any = names["f"]
    with effx.enable_x64(True):
        want = evaluate(f, *xs)
        same(evaluate(pasted, *xs), want, 0.0)
        same(evaluate(laws.python_form(pasted), *xs), want)
        assert all([bool(enp.all(enp.abs(y) < 1e3)) for y in leaves(want)])


@pytest.mark.parametrize("construct", laws.CONSTRUCTS)
def test_constructs_occur_and_shrink(construct: str) -> None:
    """The smallest program with a construct has little else; how little, hypothesis' time for it says."""
    word = {
        "while": "lax.while_loop",
        "fori": "lax.fori_loop",
        "jit": "@effx.jit",
        "checkpoint": "@effx.checkpoint",
    }
    marker = word.get(construct, f"{construct}(")
    f = find(
        laws.programs(constructs=(construct,)),
        lambda f: marker in f.source,
        settings=settings(quick, max_examples=2000),
    )
    assert len(f.source.splitlines()) <= 18, f.source


def test_programs_can_be_straight() -> None:
    with pytest.raises(NoSuchExample):
        find(laws.programs(constructs=()), lambda f: "def g" in f.source, settings=quick)


def test_decided_programs_leave_their_arguments_alone() -> None:
    """No branch looks at anything but `known`."""
    f = find(
        laws.programs(constructs=("cond",), decided=True),
        lambda f: "lax.cond" in f.source,
        settings=settings(quick, max_examples=2000),
    )
    assert "lax.cond(known" in f.source
    assert f.known
    assert f.source.splitlines()[0].endswith("known):")


def test_unknown_constructs_are_refused() -> None:
    with pytest.raises(errors.TransformError, match=r"programs: constructs are jit, .*; got 'goto'"):
        laws.programs(constructs=("goto",))


def test_python_form_needs_a_function() -> None:
    with pytest.raises(errors.TransformError, match="python_form: takes a Python function, got 3"):
        laws.python_form(3)  # type: ignore[arg-type]  # the mistake


@quick
@given(x=laws.arrays(special=True))
def test_arrays_print_and_read_back(x: Array) -> None:
    """Bit by bit but for the sign of NaN."""
    printer = SourcePrinter()
    names = {"enp": enp, "np": np, "effx": effx}
    with effx.enable_x64(True):
        again = eval(printer.expression(x), names)
    assert again.type is x.type
    np.testing.assert_array_equal(np.asarray(again).astype(complex), np.asarray(x).astype(complex))


def test_arrays_of_one_dtype_and_shape() -> None:
    x = find(laws.arrays("float32", (2, 0)), lambda x: True)
    assert repr(x.type) == "f32[2,0]"
    with_nan = find(laws.arrays("float64", (1,), special=True), lambda x: bool(enp.isnan(x).any()))
    assert np.isnan(np.asarray(with_nan)).all()
    assert find(laws.arrays(laws.array_types("b")), lambda x: x.type.size > 1).dtype == np.bool_


def test_types_are_of_the_kinds_asked_for() -> None:
    assert find(laws.array_types("u", weak=True), lambda t: t.weak).kind == "u"
    empty = find(laws.array_types(), lambda t: t.size == 0)
    assert empty.shape == (0,)


def test_pytrees_shrink_to_leaves() -> None:
    assert find(laws.pytrees(st.integers()), lambda t: len(effx.tree.leaves(t)) >= 2) == (0, 0)


def test_stacks_are_of_known_layers() -> None:
    with pytest.raises(errors.TransformError, match=r"Stack: layers are jit, .*; got 'pmap'"):
        laws.Stack(("pmap",))


@pytest.mark.parametrize("name", laws.LAYERS)
def test_layers_leave_values_alone(name: str) -> None:
    """Each for itself, with its derivative."""
    f: Any = lambda x, y: (enp.sin(x) * y, x + y)  # noqa: E731 - a function
    with effx.enable_x64(True), handle(Reference()):
        xs = (enp.asarray([0.3, -0.2]), enp.asarray(0.7))
        g = laws.Stack((name,))(f)
        same(g(*xs), f(*xs))
        same(effx.jvp(lambda *a: g(*a), xs, xs), effx.jvp(f, xs, xs))


def test_operands_are_repeatable() -> None:
    types = (array_type(effx.dtypes.float64, (3,)), array_type(effx.dtypes.uint8, ()))
    one, other = [draw_operands(types, ((0.0, 5.0),), 3) for _ in range(2)]
    same(one, other, 0.0)
    assert [x.type for x in one] == list(types)
