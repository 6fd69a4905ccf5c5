"""XLA gives what the typing rules predict and what NumPy gives; jit gives what running one by one gives."""

from __future__ import annotations

import numpy as np
import pytest

from effx.array import Array
from effx.effects import handle
from effx.families.exported_call import ExportedCall
from effx.families.inspection import InspectSharding
from effx.handlers.oracle import Reference
from effx.handlers.staging.stage import stage
from effx.ir.catalogue import operation_classes
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Binary, Unary
from effx.ir.ops.collective import AllToAll, Collective, PCast, PPermute, PSumScatter, PSumShared
from effx.ir.ops.control import Call
from effx.ir.ops.custom import CustomTangent
from effx.laws.samples import Data
from effx.transforms.jit.jit import jit
from tests.ops.rows import Row, Sample, assert_close, f32, host, on_device, t
from tests.ops.table import CASES, ROWS, Case, as_parameter, leave_repeats_to_deep_runs

every_case = pytest.mark.parametrize("case", leave_repeats_to_deep_runs(CASES))
# A compiled call emits what an eager one does, dtype by dtype and shape by shape: one sample of each operation, and the
# others in deep runs.
one_case_of_each = pytest.mark.parametrize(
    "case", [as_parameter((row, sample), sample is not row.samples[0]) for row, sample in CASES]
)


def test_every_operation_has_a_row() -> None:
    """A class without a row would escape all laws."""
    # What only transposes has no value: tests/transforms/test_custom_*.py are its tests. Modules have those of tests/export,
    # and reports of shardings those of tests/test_sharding_view.py.
    kinds = [k for k in operation_classes() if k not in (CustomTangent, ExportedCall, InspectSharding)]
    assert sorted(k.__name__ for k in kinds) == sorted(row.kind.__name__ for row in ROWS)


def run(sample: Sample, data: list[Data]) -> list[Array]:
    return sample.apply(sample.arrays(data))


def reference(sample: Sample, data: list[Data]) -> list[Data]:
    operands = sample.arrays(data)
    with handle(Reference()):
        return [host(y) for y in sample.apply(operands)]


@every_case
def test_typing_rule_predicts_xla(case: Case) -> None:
    """Dtype, shape and weakness."""
    _, sample = case
    with sample.settings():
        results = run(sample, sample.draw())
        for y, expected in zip(results, sample.inferred(), strict=True):
            assert y.type.matches(y.type)
            if isinstance(sample.op, Collective):
                apart = not sample.types or isinstance(
                    sample.op, PSumScatter | AllToAll | PPermute | PSumShared | PCast
                )
                shape = (3, *expected.shape) if apart else expected.shape
                assert (y.dtype, y.shape) == (expected.dtype, shape)
                continue
            assert y.type is expected
            data = np.asarray(y)
            assert (data.dtype, data.shape) == (expected.dtype, expected.shape)


@every_case
def test_xla_equals_numpy(case: Case) -> None:
    """With three draws of operands."""
    row, sample = case
    with sample.settings():
        for seed in range(3):
            data = sample.draw(seed)
            for y, want in zip(run(sample, data), reference(sample, data), strict=True):
                assert_close(host(y), want, row.allowed(y.dtype), f"operands {data}")


SPECIAL = np.asarray([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e30, -1e30], np.float32)


@pytest.mark.parametrize("row", [row for row in ROWS if row.special], ids=str)
def test_special_values(row: Row) -> None:
    """NaN, infinities, zeros of both signs and large numbers."""
    op = row.samples[0].op
    if isinstance(op, Unary) or len(row.samples[0].types) == 1:
        data = [SPECIAL]
    else:
        assert isinstance(op, Binary) or len(row.samples[0].types) == 2
        data = [np.asarray(x) for x in np.broadcast_arrays(SPECIAL[:, None], SPECIAL[None])]
    sample = Sample(op, tuple([t(f32, *d.shape) for d in data]))
    (got,), (want,) = run(sample, data), reference(sample, data)
    result = host(got)
    if result.dtype.kind != "b":
        np.testing.assert_array_equal(np.isnan(result), np.isnan(want), err_msg="where NaN is")
        np.testing.assert_array_equal(np.isinf(result), np.isinf(want), err_msg="where infinities are")
        zero = (want == 0) & (result == 0)
        np.testing.assert_array_equal(
            np.signbit(result[zero]), np.signbit(want[zero]), err_msg="signs of zeros"
        )
    np.testing.assert_allclose(result, want, rtol=2e-5, atol=1e-30)


@one_case_of_each
def test_jit_equals_eager(case: Case) -> None:
    """Compiled with its neighbours or alone, an operation gives the same."""
    row, sample = case
    with sample.settings():
        data = sample.draw(1)
        operands = sample.arrays(data)
        compiled = jit(lambda *xs: tuple(sample.apply(xs)))
        for y, want in zip(compiled(*operands), sample.apply(operands), strict=True):
            assert y.type.matches(want.type)
            assert_close(host(y), host(want), row.allowed(y.dtype))


def test_collectives_need_an_axis() -> None:
    """The reference binds no axis name either."""
    for row in ROWS:
        for sample in [s for s in row.samples[:1] if isinstance(s.op, Collective)]:
            with handle(Reference()), pytest.raises(NameError, match="axis name 'i' is not bound") as caught:
                sample.op(*[on_device(np.zeros(x.shape), x) for x in sample.types])
            assert "in   reference" in str(caught.value)


def test_calls_are_opened_by_the_reference() -> None:
    """A program inside a program is run operation by operation."""
    inner = stage(lambda xs: [e.Sin()(xs[0])], [t(f32, 2)], "inner")
    outer = stage(lambda xs: [*Call(inner.program)(xs[0])], [t(f32, 2)], "outer")
    with handle(Reference()):
        (y,) = Call(outer.program)(on_device(np.asarray([1.0, 2.0]), t(f32, 2)))
    assert_close(host(y), np.sin(np.asarray([1, 2], np.float32)), 1e-6)
