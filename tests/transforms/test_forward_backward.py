"""fwd_and_bwd is vjp in two parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp


def f(x: Any, w: Any) -> Any:
    return {"y": enp.tanh(x @ w["a"])}


X = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
A = {"a": np.random.default_rng(1).normal(size=3).astype(np.float32)}
CT = {"y": np.array([1.0, -2.0], np.float32)}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("argnums", [0, 1, (1,), (0, 1), -1])
def test_both_passes_are_those_of_vjp(jitted: bool, argnums: Any) -> None:
    """For one argument, several, and pytrees."""
    fwd, bwd = effx.fwd_and_bwd(f, argnums, jitted=jitted)
    y, residuals = fwd(X, A)
    expected, pull_back = effx.vjp(f, X, A)
    np.testing.assert_allclose(y["y"], expected["y"], rtol=1e-6)
    cts = pull_back(CT)
    wanted = tuple(cts[i] for i in argnums) if isinstance(argnums, tuple) else cts[argnums]
    got = bwd(residuals, CT)
    assert effx.tree.structure(got) == effx.tree.structure(wanted)
    for a, b in zip(effx.tree.leaves(got), effx.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_auxiliary_data_goes_by() -> None:
    """It is the third result."""
    fwd, bwd = effx.fwd_and_bwd(lambda x: (x * x, x + 1.0), has_aux=True)
    y, residuals, aux = fwd(3.0)
    assert (float(y), float(aux), float(bwd(residuals, 1.0))) == (9.0, 4.0, 6.0)
