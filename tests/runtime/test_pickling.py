"""Pickle, cloudpickle and copies of what users hold: arrays, keys, functions, programs, types, handlers, errors."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import errors, lax, random
from effx.handling import Vmap
from effx.ir.checker import check_program
from effx.library.intervals import Intervals

cloudpickle = pytest.importorskip("cloudpickle")

Way = Callable[[Any], Any]
WAYS: dict[str, Way] = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "cloudpickle": lambda x: pickle.loads(cloudpickle.dumps(x)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@effx.jit
def doubled(x: Any) -> Any:
    return x * 2.0


@partial(effx.jit, static_argnames="n", donate_argnums=0)
def power(x: Any, n: int = 2) -> Any:
    return x**n


def scanned(x: Any) -> Any:
    return lax.scan(lambda c, y: (c + y * x, c), 0.0, enp.arange(3.0))


ARRAYS = {
    "f32": enp.arange(3.0),
    "weak": enp.asarray(1.0) * 2.0,
    "i4": enp.ones((2, 2), "int4"),
    "bf16": enp.ones(3, "bfloat16"),
    "empty": enp.ones((0, 2), bool),
    "several devices": effx.pmap(lambda x: x)(enp.ones((2, 3))),
    "key": random.key(3),
    "keys": random.split(random.key(0, impl="rbg")),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(name: str, way: str) -> None:
    """Types, bits and weak types are preserved."""
    x = ARRAYS[name]
    y = WAYS[way](x)
    assert effx.typeof(y) is effx.typeof(x)
    assert y.host("test").tobytes() == x.host("test").tobytes()


SAME: dict[str, Any] = {
    "type": effx.typeof(enp.ones((2, 3))),
    "weak type": effx.typeof(1.0),
    "handler": Vmap(3, "i"),
    "library's handler": Intervals(),
    "tree": effx.tree.structure({"a": [1, 2], "b": (3, None)}),
    "shape": effx.ShapeDtypeStruct((2,), "float32"),
    "key dtype": random.key(0).dtype,
    "ufunc": enp.add,
    "function": lax.psum,
    "jitted function": doubled,
    "jitted function with options": power,
    "setting": effx.debug_nans,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SAME)
def test_what_is_equal(name: str, way: str) -> None:
    """Values are equal afterwards; functions that have names are the same."""
    assert WAYS[way](SAME[name]) == SAME[name]


def pmapped() -> Any:
    return effx.pmap(lambda x: x + 1.0)


FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "lambda": (effx.jit(lambda x: x + 1.0), 2.0),
    "options": (effx.jit(lambda x, n: x**n, static_argnums=1), (2.0, 3)),
    "of a library": (effx.jit(effx.vmap(lambda x: x * 2.0)), enp.arange(3.0)),
    "grad": (effx.grad(lambda x: x**3), 2.0),
    "vmap of jit": (effx.vmap(effx.jit(lambda x: x + 1.0)), enp.arange(3.0)),
    "pmap": (pmapped(), enp.ones((2, 3))),
    "partial": (effx.tree_util.Partial(doubled, 2.0), ()),
    "nested": (effx.jit(effx.grad(effx.jit(lambda x: x**2))), 3.0),
}


@pytest.mark.parametrize("way", ["cloudpickle", "copy", "deepcopy"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_without_names(name: str, way: str) -> None:
    """A function that cloudpickle or copy gives works, with its options; before and after it has run."""
    f, given = FUNCTIONS[name]
    arguments = given if isinstance(given, tuple) else (given,)
    g = WAYS[way](f)
    want = f(*arguments)
    for same in (g, WAYS[way](f)):
        np.testing.assert_allclose(np.asarray(same(*arguments)), np.asarray(want))


def test_without_cloudpickle() -> None:
    """Pickle knows functions by name: others are refused in its own words."""
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(effx.jit(lambda x: x))
    assert pickle.loads(pickle.dumps([doubled, doubled]))[1] is doubled


def test_methods() -> None:
    """A copy of an object with a jitted method has it too."""

    class Model:
        def __init__(self, w: Any) -> None:
            self.w = w
            self.f = effx.jit(lambda x: x + 1.0)

    twin = copy.deepcopy(Model(enp.ones(2)))
    assert twin.f(1.0) == 2.0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("compiled", [False, True])
def test_programs(way: str, compiled: bool) -> None:
    """A program keeps its text, its constants and the lines that it came from, and nothing compiled."""
    held = enp.arange(3.0)
    program = effx.make_jaxpr(lambda x: (scanned(x), held * x, random.normal(random.key(1))))(1.0)
    if compiled:
        program.derived["executable"] = doubled.lower(1.0).compile()
    twin = WAYS[way](program)
    check_program(twin)
    assert not twin.derived
    assert str(twin) == str(program)
    for c, c_ in zip(program.constants, twin.constants, strict=True):
        assert c.host("test").tobytes() == c_.host("test").tobytes()
    lines = [[errors.source_of(e.source) for e in p.equations] for p in (program, twin)]
    assert lines[0] == lines[1]
    assert "test_pickling.py" in lines[0][0]


def test_stages_are_refused() -> None:
    """Stages belong to their process; copies are the stage itself."""
    traced = doubled.trace(1.0)
    for stage in (traced, traced.lower(), traced.lower().compile()):
        assert copy.copy(stage) is copy.deepcopy(stage) is stage
        with pytest.raises(errors.TransformError) as caught:
            pickle.dumps(stage)
        assert caught.value.message == (
            f"pickle: {type(stage).__name__} of doubled belongs to this process; pickle the function, or use "
            f"effx.experimental.serialize_executable for compiled code"
        )


def test_errors() -> None:
    """An error goes to another process with its text."""
    with pytest.raises(errors.ShapeError) as caught:
        effx.jit(lambda x: x + enp.ones(4))(enp.ones(3))
    twin = pickle.loads(pickle.dumps(caught.value))
    assert (type(twin), str(twin)) == (errors.ShapeError, str(caught.value))


def test_another_process(tmp_path: Any) -> None:
    """What cloudpickle writes of a session works in a process that has none of it."""
    scale = enp.asarray(3.0)
    step = effx.jit(lambda x: effx.grad(lambda y: enp.sin(y) * scale)(x))
    program = effx.make_jaxpr(lambda x: x * scale)(1.0)
    path = tmp_path / "held"
    path.write_bytes(cloudpickle.dumps((step, program, random.key(5), effx.typeof(1.0))))
    code = f"""
import pickle
import numpy as np
first = pickle.loads({pickle.dumps(enp.arange(3.0))!r})  # nothing of effx has been used before: NumPy's dtypes are copies
assert np.asarray(first).tolist() == [0.0, 1.0, 2.0] and str(first) == "[0. 1. 2.]"
f, program, key, t = pickle.load(open({str(path)!r}, "rb"))
import effx
print(float(f(0.0)), float(program.constants[0]), effx.typeof(1.0) is t, effx.random.key_data(key).tolist())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
        timeout=60,
    )
    assert done.stdout == "3.0 3.0 True [0, 5]\n"
