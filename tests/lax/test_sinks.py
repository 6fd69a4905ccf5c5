"""`dce_sink`: what nothing uses stays in programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import DTypeError
from effx.ir.ops.elementwise import Sin

X = np.array([0.5, 1.0], np.float32)


def keeps(x: Any) -> Any:
    lax.dce_sink({"unused": enp.sin(x), "n": 1})
    return x * 2


def names(f: Any) -> list[str]:
    return [e.op.name for e in effx.make_jaxpr(f)(X).equations]


def test_what_computes_the_value_stays() -> None:
    """In programs that are differentiated and batched too, and in those of loops; results are as without."""
    assert names(effx.jit(keeps)) == ["call"]
    assert names(keeps) == ["sin", "dce_sink", "mul"]
    assert {"sin", "dce_sink"} <= set(names(lambda x: effx.jvp(keeps, (x,), (x,))))
    assert {"sin", "dce_sink"} <= set(names(effx.vmap(keeps)))
    assert {"sin", "dce_sink"} <= set(names(effx.grad(lambda x: keeps(x).sum())))
    loop = effx.jit(lambda x: lax.scan(lambda c, _: (keeps(c), None), x, None, length=2)[0])
    assert Sin in [p.op.__class__ for p in effx.handling.places(effx.make_jaxpr(loop)(X))]
    for f in (keeps, effx.jit(keeps), effx.vmap(keeps)):
        np.testing.assert_array_equal(f(X), X * 2)
    np.testing.assert_array_equal(effx.grad(lambda x: keeps(x).sum())(X), np.full(2, 2.0))
    np.testing.assert_array_equal(loop(X), X * 4)


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(DTypeError) as error:
        lax.dce_sink(("text",))
    assert error.value.message == "dce_sink: expected an array or a number, got 'text' of type str"
