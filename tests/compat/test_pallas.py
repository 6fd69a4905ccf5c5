"""Pallas kernels, interpreted, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.compat.modules.experimental import pallas as pl
from effx.compat.modules.experimental.pallas import mosaic_gpu, tpu, triton
from effx.errors import CompatError

pytestmark = pytest.mark.unguarded
rng = np.random.RandomState(0)


def test_a_product_in_blocks() -> None:
    """Blocks of results that several positions of the grid write are added up, the last blocks are not whole."""
    a, b = rng.randn(5, 6).astype(np.float32), rng.randn(6, 7).astype(np.float32)

    def multiply(a_ref: Any, b_ref: Any, y_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            y_ref[...] = enp.zeros_like(y_ref[...])

        y_ref[...] += a_ref[...] @ b_ref[...]

    product = pl.pallas_call(
        multiply,
        effx.ShapeDtypeStruct((5, 7), np.float32),
        grid=(pl.cdiv(5, 2), pl.cdiv(7, 4), 3),
        in_specs=[pl.BlockSpec((2, 2), lambda i, j, k: (i, k)), pl.BlockSpec((2, 4), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((2, 4), lambda i, j, k: (i, j)),
        compiler_params=tpu.CompilerParams(vmem_limit_bytes=1),
        interpret=True,
    )
    for run in (product, effx.jit(product)):
        np.testing.assert_allclose(np.asarray(run(a, b)), a @ b, rtol=1e-5, atol=1e-5)
    batch = np.stack([a, 2 * a])
    np.testing.assert_allclose(
        np.asarray(effx.vmap(product, (0, None))(batch, b)), batch @ b, rtol=1e-5, atol=1e-5
    )


def test_scratch_memory_goes_from_position_to_position() -> None:
    x = np.arange(6, dtype=np.int32)

    def accumulate(x_ref: Any, y_ref: Any, total_ref: Any) -> None:
        total_ref[0] += x_ref[0]
        y_ref[0] = total_ref[0] * pl.num_programs(0)

    spec = pl.BlockSpec((1,), lambda i: (i,))
    call = pl.pallas_call(
        accumulate,
        effx.ShapeDtypeStruct((6,), np.int32),
        grid=6,
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[tpu.VMEM((1,), np.int32)],
        interpret=True,
    )
    np.testing.assert_array_equal(np.asarray(call(x)), np.cumsum(x) * 6)


def test_whole_arrays_several_results_and_axes_that_are_not_seen() -> None:
    x = rng.randn(3, 4).astype(np.float32)

    def split(refs: Any, out: Any) -> None:
        out["row"][...] = enp.sort(refs["x"][...])
        out["whole"][pl.program_id(0), pl.ds(0, 2)] = refs["x"][pl.ds(1, 2)]

    call = pl.pallas_call(
        split,
        {
            "row": effx.ShapeDtypeStruct((3, 4), np.float32),
            "whole": effx.ShapeDtypeStruct((3, 2), np.float32),
        },
        grid=(3,),
        in_specs=[{"x": pl.BlockSpec((None, 4), lambda i: (i, 0))}],
        out_specs={"row": pl.BlockSpec((None, 4), lambda i: (i, 0)), "whole": pl.BlockSpec()},
        interpret=True,
    )
    results = call({"x": x})
    np.testing.assert_array_equal(np.asarray(results["row"]), np.sort(x))
    np.testing.assert_array_equal(np.asarray(results["whole"]), x[:, 1:3])


def test_loops_aliases_and_no_grid() -> None:
    """Without a grid a kernel runs once, on whole arrays; a result may start as an operand."""
    x = np.arange(5, dtype=np.float32)

    def add_up(x_ref: Any, y_ref: Any) -> None:
        @pl.loop(0, 4, step=2)
        def _(i: Any) -> None:
            y_ref[i] = y_ref[i] + 10 * x_ref[i + 1]

    call = pl.pallas_call(
        add_up, effx.ShapeDtypeStruct((5,), np.float32), input_output_aliases={0: 0}, interpret=True
    )
    np.testing.assert_array_equal(np.asarray(call(x)), [10, 1, 32, 3, 4])


def test_numbers() -> None:
    assert [pl.cdiv(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert pl.cdiv(np.uint32(7), np.uint32(2)) == 4
    assert [pl.next_power_of_2(n) for n in (1, 2, 3, 8, 9)] == [1, 2, 4, 8, 16]
    assert pl.multiple_of(8, 4) == 8
    assert triton.CompilerParams(num_warps=4).params == {"num_warps": 4}
    assert mosaic_gpu.CompilerParams is pl.CompilerParams


def test_what_is_refused() -> None:
    shape = effx.ShapeDtypeStruct((3,), np.float32)
    with pytest.raises(CompatError) as caught:
        pl.pallas_call(lambda x, y: None, shape)(np.ones(3, np.float32))
    assert caught.value.message == (
        "pallas_call: effx compiles no kernels of Pallas; interpret=True computes with XLA's operations"
    )
    with pytest.raises(CompatError) as caught:
        pl.program_id(0)
    assert caught.value.message == "program_id: there is a grid only inside a kernel of pallas_call"
    with pytest.raises(CompatError) as caught:
        pl.pallas_call(lambda x, y: None, shape, out_specs=pl.BlockSpec((1, 1)), interpret=True)(np.ones(3))
    assert caught.value.message == (
        "pallas_call: block_shape must have an int or None for each axis of (3,), got (1, 1)"
    )
    with pytest.raises(CompatError) as caught:
        pl.pallas_call(lambda x, y: None, shape, input_output_aliases={0: 0}, interpret=True)(np.ones(2))
    assert caught.value.message == (
        "pallas_call: input_output_aliases: operand 0 is f32[2], and result 0 f32[3]"
    )
    with pytest.raises(CompatError) as caught:
        pl.pallas_call(lambda x, y: None, shape, grid_spec=pl.GridSpec(3), grid=3)
    assert caught.value.message == (
        "pallas_call: give grid_spec, or grid, in_specs, out_specs and scratch_shapes, not both"
    )
    with pytest.raises(CompatError) as caught:
        pl.next_power_of_2(-1)
    assert caught.value.message == "next_power_of_2: the number must not be negative, got -1"
