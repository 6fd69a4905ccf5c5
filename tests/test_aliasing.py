"""Arrays and the host memory that they were made from: nobody's later writes are seen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp


class Sub(np.ndarray):
    """An array class of somebody else's."""


SIZES = [1, 64, 4096]

# From memory that can be written to: a read-only form of it.
FORMS: dict[str, Callable[[Any], Any]] = {
    "view": lambda a: a.view(),
    "part": lambda a: a[: len(a)],
    "view of a view": lambda a: a.view()[:].reshape(-1),
    "broadcast": lambda a: np.broadcast_to(a, a.shape),
    "subclass": lambda a: a.view(np.ndarray).view(Sub),
    "buffer": lambda a: np.frombuffer(memoryview(a).toreadonly(), a.dtype),
    "writable": lambda a: a,
}
MAKERS: dict[str, Callable[[Any], Any]] = {
    "asarray": enp.asarray,
    "array": enp.array,
    "device_put": effx.device_put,
    "ravel": enp.ravel,
    "jit": lambda a: effx.jit(lambda x: x)(a),
    "closed over": lambda a: effx.jit(lambda: enp.asarray(a))(),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("form", FORMS)
def test_later_writes_are_not_seen(form: str, maker: str, size: int) -> None:
    """An array keeps its value when the memory that it was made from is written to."""
    memory = np.arange(float(size), dtype=np.float32)
    given = FORMS[form](memory)
    if form != "writable":
        given.flags.writeable = False
    result = MAKERS[maker](given)
    memory[:] = -1.0
    np.testing.assert_array_equal(np.asarray(result), np.arange(float(size)))


def test_arrays_of_views_survive_donation() -> None:
    """What was made of a view of an array is not changed by donating the array."""
    x = enp.arange(4096.0)
    y = enp.asarray(np.asarray(x))
    effx.jit(lambda x: x * 0.0 - 1.0, donate_argnums=0)(x)
    np.testing.assert_array_equal(np.asarray(y), np.arange(4096.0))


@pytest.mark.unguarded
def test_mapped_files_are_copied(tmp_path: Path) -> None:
    """An array that was made from a mapped file outlives the file."""
    code = f"""
import os, numpy as np, effx.numpy as enp
path = {str(tmp_path / "data")!r}
np.arange(1 << 16, dtype="float32").tofile(path)
arrays = [enp.asarray(np.memmap(path, "float32", "r")), enp.array(np.memmap(path, "float32", "r"))]
os.truncate(path, 0)
print([float(a.sum()) for a in arrays])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    total = float(np.arange(1 << 16, dtype="float32").sum())
    assert result.stdout.strip() == str([total, total])
