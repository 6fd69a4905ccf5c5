"""Values inside of transformations print what JAX's do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.compat.tracer_text import tracer_text

X = np.arange(3, dtype=np.float32)
ROWS = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (lambda f: effx.jit(f)(X), "JitTracer(float32[3])"),
        (lambda f: effx.jit(f)(1.0), "JitTracer(~float32[])"),
        (lambda f: effx.jit(f)(enp.ones(0, "bfloat16")), "JitTracer(bfloat16[0])"),
        (lambda f: effx.vmap(f)(ROWS), "VmapTracer(aval=float32[3], batched=float32[2,3])"),
        (lambda f: effx.vmap(f, 1)(ROWS), "VmapTracer(aval=float32[2], batched=float32[2,3])"),
        (lambda f: effx.grad(f)(X), "GradTracer(primal=[0. 1. 2.], typeof(tangent)=f32[3])"),
        (lambda f: effx.jvp(f, (X,), (X,)), "JVPTracer(primal=[0. 1. 2.], tangent=[0. 1. 2.])"),
        (
            lambda f: effx.jit(effx.grad(f))(X),
            "GradTracer(primal=JitTracer(float32[3]), typeof(tangent)=f32[3])",
        ),
        (
            lambda f: effx.jacfwd(f)(X),
            "JVPTracer(primal=[0. 1. 2.], tangent=VmapTracer(aval=float32[3], batched=float32[3,3]))",
        ),
    ],
)
def test_text(run: Callable[[Callable[[Any], Any]], object], text: str) -> None:
    """It names the transformation, and what it made the value of."""
    texts = []

    def f(x: Any) -> Any:
        texts.append(tracer_text(x))
        return (x * 2).sum()

    run(f)
    assert texts == [text]


def test_text_of_a_key() -> None:
    """A key prints its generator, not the size of its data."""
    texts = []
    effx.eval_shape(lambda key: texts.append(tracer_text(key)), effx.random.key(0))
    assert texts == ["JitTracer(key<fry>[])"]
