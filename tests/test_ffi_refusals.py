"""Foreign functions: what is refused, in which words."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

import effx
from effx import ffi
from effx.errors import BackendError, DTypeError, NoRuleError, ShapeError, TransformError
from effx.handling import Reference, handle
from tests.test_ffi import struct


def refused(call: Callable[[], object]) -> tuple[type, str]:
    with pytest.raises((BackendError, DTypeError, NoRuleError, ShapeError, TransformError)) as caught:
        call()
    return caught.type, str(caught.value).splitlines()[0]


def by_the_reference() -> object:
    with handle(Reference()):
        return ffi.ffi_call("f", struct(2, 3))(X)


X = np.ones((2, 3), np.float32)
FIRST = ffi.ffi_call("f", struct(3), has_side_effect=True, vmap_method="broadcast_all")


def doubled(y: effx.Array) -> effx.Array:
    FIRST(X[0])
    return y * 2.0


LISTED = "'sequential', 'sequential_unrolled', 'expand_dims', 'broadcast_all', 'legacy_vectorized'"
REFUSALS: list[tuple[Callable[[], object], type, str]] = [
    (
        lambda: ffi.ffi_call("f", struct(2), vmap_method="some"),  # type: ignore[call-overload]  # wrong on purpose
        TransformError,
        f"ffi_call: vmap_method must be one of {LISTED} or None, got 'some'",
    ),
    (
        lambda: effx.vmap(ffi.ffi_call("f", struct(3)))(X),
        NoRuleError,
        f"ffi_call: vmap needs to know what f does with a batch; give vmap_method, one of {LISTED}",
    ),
    (
        lambda: ffi.ffi_call(3, struct(3)),  # type: ignore[call-overload]  # wrong on purpose
        BackendError,
        "ffi_call: target_name must be a string, got 3",
    ),
    (
        lambda: ffi.ffi_call("f", (struct(3), 4)),  # type: ignore[arg-type]  # wrong on purpose
        DTypeError,
        (
            "ffi_call: result_shape_dtypes must be one thing with shape and dtype or a tuple or list of such, got 4 of type "
            "int for result 1"
        ),
    ),
    (
        lambda: ffi.ffi_call("f", struct(3))("x"),
        DTypeError,
        (
            "ffi_call: argument 0 must be an array, a number, or a pytree of them, got 'x' of type str; an argument that is "
            "no array can be static in jit"
        ),
    ),
    (
        lambda: ffi.ffi_call("f", struct(3))(effx.random.key(0)),
        DTypeError,
        "ffi_call: f cannot take or give keys, got key<fry>[]; effx.random.key_data has their words",
    ),
    (
        lambda: ffi.ffi_call("f", struct(3), input_layouts=[(1, 0), None])(X),
        ShapeError,
        "ffi_call: f has 1 inputs, but 2 input layouts",
    ),
    (
        lambda: ffi.ffi_call("f", struct(3), output_layouts=(0, 1))(X),
        ShapeError,
        "ffi_call: the layout of output 0 of f must list the 1 axes of f32[3], got (0, 1)",
    ),
    (
        lambda: ffi.ffi_call("f", struct(3), input_layouts=[3]),  # type: ignore[list-item]  # wrong on purpose
        BackendError,
        "ffi_call: input_layouts must hold sequences of axes, or None, got 3",
    ),
    (
        lambda: ffi.ffi_call("f", struct(2, 3), input_output_aliases={1: 0})(X),
        ShapeError,
        "ffi_call: input_output_aliases of f has the pair 1: 0, but there are 1 inputs and 1 outputs",
    ),
    (
        lambda: ffi.ffi_call("f", struct(3, 2), input_output_aliases={0: 0})(X),
        ShapeError,
        (
            "ffi_call: input_output_aliases of f has the pair 0: 0, whose types differ: the input is f32[2,3], the output "
            "f32[3,2]"
        ),
    ),
    (
        lambda: ffi.ffi_call("f", struct(2, 3), input_output_aliases={0: 0}, input_layouts=[(1, 0)])(X),
        ShapeError,
        (
            "ffi_call: input_output_aliases of f has the pair 0: 0, whose layouts differ: the input has (1, 0), the output "
            "(0, 1)"
        ),
    ),
    (
        lambda: ffi.ffi_call("f", struct(3), custom_call_api_version=5),
        BackendError,
        "ffi_call: the version of a custom call must be 1, 2, 3 or 4, got 5",
    ),
    (
        lambda: ffi.ffi_call("f", struct(3), legacy_backend_config="x"),
        BackendError,
        "ffi_call: only custom calls of version 1, 2 and 3 are given a string; this one takes attributes, got 'x'",
    ),
    (
        lambda: effx.vmap(lambda x: effx.lax.cond(x[0] > 0, FIRST, lambda x: x, x))(X),
        NoRuleError,
        (
            "cond: vmap runs it for all elements of a batch where they decide differently, but it has a foreign function "
            "with a side effect; use effx.lax.map, or decide outside of vmap"
        ),
    ),
    (
        lambda: effx.linearize(effx.jit(lambda x: effx.lax.while_loop(lambda y: y < 2.0, doubled, x)), 1.0),
        TransformError,
        (
            "linearize: the derivative of a while loop runs the loop again, but it has a foreign function with a side "
            "effect; pass max_steps=N to while_loop or fori_loop, or use scan or jvp"
        ),
    ),
    (
        by_the_reference,
        NoRuleError,
        "ffi_call: the reference has no meaning in NumPy for the foreign function f; run the program without it",
    ),
    (
        lambda: ffi.build_ffi_lowering_function("f", operand_layouts=[], skip_ffi_layout_processing=True),
        BackendError,
        "build_ffi_lowering_function: skip_ffi_layout_processing leaves layouts to XLA; give none",
    ),
    (
        lambda: ffi.build_ffi_lowering_function("f", api_version=1, backend_config={"n": 1}),
        BackendError,
        "build_ffi_lowering_function: with api_version=1 backend_config must be a string, got {'n': 1}",
    ),
    (lambda: ffi.pycapsule(0), BackendError, "pycapsule: needs a function of a ctypes library, got 0"),
    (
        lambda: ffi.register_ffi_target("f", ctypes.pythonapi.Py_IncRef, platform="abacus"),
        BackendError,
        "register_ffi_target: platform must be one of cpu, gpu, cuda, rocm, tpu, got 'abacus'",
    ),
    (
        lambda: ffi.register_ffi_target("f", ctypes.pythonapi.Py_IncRef, api_version=4),
        BackendError,
        "register_ffi_target: api_version must be 0 or 1, got 4",
    ),
    (
        lambda: ffi.register_ffi_target("f", {"prepare": ctypes.pythonapi.Py_IncRef}),
        BackendError,
        (
            "register_ffi_target: stages are those of XLA's typed FFI: execute, and before it instantiate, prepare, "
            "initialize; got prepare with api_version=1"
        ),
    ),
    (
        lambda: ffi.register_ffi_type("t", {}),  # type: ignore[typeddict-item]  # wrong on purpose
        BackendError,
        "register_ffi_type: a type has a type_id and a type_info, got nothing",
    ),
    (
        lambda: ffi.register_ffi_type_id("t", 3),
        BackendError,
        "register_ffi_type_id: type_id must be a PyCapsule, got 3",
    ),
]


@pytest.mark.unguarded
@pytest.mark.parametrize(("call", "error", "text"), REFUSALS, ids=[text[:60] for _, _, text in REFUSALS])
def test_refusals(call: Callable[[], object], error: type, text: str) -> None:
    assert refused(call) == (error, text)
