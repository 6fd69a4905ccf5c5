"""Foreign functions: as many results as were asked for, in the structure in which they were."""

from typing import assert_type

import numpy as np

import effx
import effx.numpy as enp
from effx import Array, ffi

STRUCT = effx.ShapeDtypeStruct((2, 2), np.float32)
INFO = effx.ShapeDtypeStruct((), np.int32)
UPLO = np.uint8(ord("L"))


def calls() -> None:
    target = effx.handling.lapack_target("potrf", np.dtype(np.float32))
    a = enp.eye(2)
    pair = ffi.ffi_call(target, (STRUCT, INFO), input_output_aliases={0: 0}, vmap_method="broadcast_all")
    assert_type(pair(a, uplo=UPLO), tuple[Array, ...])
    structs = [STRUCT, INFO]
    assert_type(ffi.ffi_call(target, structs, output_layouts=[(0, 1), None])(a, uplo=UPLO), list[Array])
    assert_type(effx.jit(lambda x: pair(x, uplo=UPLO)[0])(a), Array)

    single = ffi.ffi_call("f", STRUCT, output_layouts=(1, 0), input_layouts=[None])
    like = ffi.ffi_call("f", a, vmap_method="sequential")
    assert single is not like
    if len(structs) > 2:
        assert_type(single(2.0), Array)
        assert_type(like(a, scale=UPLO), Array)
