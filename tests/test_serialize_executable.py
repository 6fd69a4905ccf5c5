"""Compiled functions as bytes: they compute the same in another process, and wrong bytes are refused."""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import errors, lax
from effx.experimental import serialize_executable as aot


def tree(d: dict[str, Any], y: Any) -> Any:
    return {"s": d["a"] @ y, "t": (d["b"], 1)}


def centred(x: Any) -> Any:
    return x - lax.pmean(x, "i")


TABLE = enp.arange(6, dtype=enp.bfloat16).reshape(2, 3)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "tree": (
        tree,
        ({"a": enp.ones((2, 3)), "b": 2}, enp.ones(3)),
    ),
    "constants": (lambda x: TABLE * x + TABLE[0], (enp.bfloat16(2),)),
    "unused": (lambda x, y: y + 1, (enp.ones(5), enp.ones((0, 2)))),
    "key": (lambda k: effx.random.normal(k, (3,)), (effx.random.key(3),)),
    "lapack": (lambda x: enp.linalg.eigvalsh(x + x.T), (enp.arange(9.0).reshape(3, 3),)),
    "loop": (lambda x: lax.scan(lambda c, t: (c * t, c), x, enp.arange(4.0)), (1.5,)),
    "pmap": (effx.pmap(centred, axis_name="i"), (enp.arange(8.0).reshape(4, 2),)),
}


def alike(found: Any, wanted: Any) -> None:
    assert effx.tree.structure(found) == effx.tree.structure(wanted)
    for a, b in zip(effx.tree.leaves(found), effx.tree.leaves(wanted), strict=True):
        assert a.type == b.type
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("name", CASES)
def test_round_trip(name: str) -> None:
    f, args = CASES[name]
    compiled = effx.jit(f).lower(*args).compile()
    again = aot.deserialize_and_load(*aot.serialize(compiled))
    for _ in range(2):
        alike(again(*args), compiled(*args))
    assert again.in_avals == compiled.in_avals
    assert again.out_info == compiled.out_info


def test_another_process(tmp_path: Path) -> None:
    """What is loaded there needs nothing but effx and the structures."""
    x = enp.arange(9.0).reshape(3, 3)
    compiled = effx.jit(lambda x: enp.linalg.eigvalsh(x + x.T)).lower(x).compile()
    (tmp_path / "data").write_bytes(pickle.dumps(aot.serialize(compiled)))
    code = f"""
import pickle, effx, effx.numpy as enp
from effx.experimental.serialize_executable import deserialize_and_load
f = deserialize_and_load(*pickle.load(open({str(tmp_path / "data")!r}, "rb")))
with effx.no_tracing():
    print(f(enp.arange(9.0).reshape(3, 3)).tolist())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    # LAPACK orders sums by how its memory is aligned.
    np.testing.assert_allclose(json.loads(done.stdout), compiled(x), atol=1e-5)


def test_on_other_devices() -> None:
    compiled = effx.jit(lambda x: x + 1).lower(1.0).compile()
    there = effx.devices()[2]
    y = aot.deserialize_and_load(*aot.serialize(compiled), execution_devices=[there])(1.0)
    assert (y.device, float(y)) == (there, 2.0)


def raised(call: Callable[[], object]) -> str:
    with pytest.raises(errors.BackendError) as error:
        call()
    return error.value.message


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    data, in_tree, out_tree = aot.serialize(effx.jit(lambda x: x + TABLE).lower(1.0).compile())

    def load(data: bytes, **rest: Any) -> Any:
        return aot.deserialize_and_load(data, in_tree, out_tree, **rest)

    assert raised(lambda: load(b"abc")) == (
        "deserialize: these bytes are no compiled function of this version of effx"
    )
    for damaged in (
        data[:40],
        data[:-1],
        data.replace(np.asarray(TABLE).tobytes(), bytes(12)),
        data[:400] + data[401:],
    ):
        assert raised(partial(load, damaged)) == (
            "deserialize: the compiled function is damaged: its checksum is wrong"
        )
    assert raised(lambda: load(data, execution_devices=effx.devices()[:2])) == (
        "deserialize: the executable runs on 1 devices, got 2"
    )
    assert raised(lambda: load(data, backend="tpu")).startswith("devices: there is no platform 'tpu'")
    monkeypatch.setattr("jaxlib.version.__version__", "0.0.1")
    assert raised(lambda: load(data)).endswith("', here it is '0.0.1'")
    called = effx.jit(lambda x: effx.pure_callback(np.sin, effx.ShapeDtypeStruct((), enp.float32), x))
    assert raised(lambda: aot.serialize(called.lower(1.0).compile())) == (
        "serialize: <lambda> calls Python functions, which are not part of the executable"
    )
