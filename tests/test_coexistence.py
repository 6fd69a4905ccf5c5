"""jax and effx in one process, imported in either order, and nothing of jaxlib patched."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
pytestmark = pytest.mark.unguarded


def run(code: str) -> str:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "JAX_PLATFORMS": "cpu"}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


WORK = """
import numpy as np
f = lambda np_: (lambda x: np_.sum(np_.sin(x) * x ** 2))
x = np.linspace(0.0, 1.0, 7, dtype="f4")
def agree():
    for _ in range(3):
        a = jax.jit(jax.grad(f(jax.numpy)))(x)
        b = effx.jit(effx.grad(f(effx.numpy)))(x)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)
        assert effx.jit(lambda x: x * 2)(1.5).dtype == np.float32 and float(effx.jit(lambda x: x * 2)(1.5)) == 3.0
        assert jax.jit(lambda x: x * 2)(1.5).dtype == np.float32
        assert type(jax.jit(lambda x: x + 1)(jax.numpy.ones(3))).__module__.startswith("jax")
    effx_tree = effx.tree.leaves({"a": (1, effx.numpy.ones(2))})
    assert len(effx_tree) == 2
agree()
# Each one's settings are its own.
g, h = effx.jit(lambda x: x + 1), jax.jit(lambda x: x + 1)
for _ in range(3):
    with effx.enable_x64():
        assert g(1.0).dtype == np.float64 and effx.numpy.sin(np.float64(1)).dtype == np.float64
        assert h(1.0).dtype == np.float32
    assert g(1.0).dtype == np.float32 and h(1.0).dtype == np.float32
jax.config.update("jax_enable_x64", True)
for _ in range(3):
    assert h(1.0).dtype == np.float64
    assert g(1.0).dtype == np.float32 and g(np.float64(1.0)).dtype == np.float32
    assert str(effx.jit(lambda x, y: x * y)(effx.numpy.ones(2), 2.0)) == "[2. 2.]"
jax.config.update("jax_enable_x64", False)
with jax.disable_jit():
    assert float(g(2.0)) == 3.0
with effx.disable_jit():
    assert float(h(2.0)) == 3.0
agree()
# Arrays cross over DLPack both ways.
a = jax.numpy.from_dlpack(effx.numpy.arange(4.0))
assert a.tolist() == [0.0, 1.0, 2.0, 3.0]
b = effx.numpy.asarray(jax.numpy.arange(4.0) * 2)
assert b.tolist() == [0.0, 2.0, 4.0, 6.0]
print("ok")
"""


@needs_jax
@pytest.mark.parametrize("first", ["jax", "effx"])
def test_side_by_side(first: str) -> None:
    second = "effx" if first == "jax" else "jax"
    imports = {
        "jax": "import jax, jax.numpy\n",
        "effx": "import effx, effx.numpy, effx.tree\neffx.jit(lambda x: x + 1)(1.0)\n",
    }
    assert run(imports[first] + imports[second] + WORK) == "ok\n"


def test_jaxlib_is_not_patched() -> None:
    code = """
from jaxlib import _jax
def members():
    names = "ArrayImpl SingleDeviceSharding LoadedExecutable Device Client DeviceList PjitFunction Sharding"
    kinds = [getattr(_jax, n) for n in names.split() if hasattr(_jax, n)]
    # nanobind makes an iterator class the first time one is needed.
    return {k: {a: id(v) for a, v in vars(k).items() if not a.endswith("_iterator")} for k in kinds}, set(vars(_jax))
before = members()
import effx, effx.numpy as enp, effx.random, effx.nn, effx.lax
f = effx.jit(effx.vmap(effx.grad(lambda x: enp.sin(x) * x)))
print(f(enp.arange(3.0)))
assert members() == before
import sys
assert "jax" not in sys.modules
"""
    assert run(code).startswith("[")
