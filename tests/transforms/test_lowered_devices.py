"""A function that is lowered before it is called runs where its arguments, or the structs in their place, say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import BackendError
from effx.sharding import NamedSharding, SingleDeviceSharding
from effx.sharding import PartitionSpec as P

DEVICES = effx.devices()


def struct(i: int) -> effx.ShapeDtypeStruct:
    return effx.ShapeDtypeStruct((4,), "float32", sharding=SingleDeviceSharding(DEVICES[i]))


def placed(i: int) -> Any:
    return effx.device_put(enp.ones(4), DEVICES[i])


def multiply(x: Any, y: Any) -> Any:
    return x * y


@pytest.mark.parametrize(
    "arguments",
    [
        (struct(3), struct(3)),
        (struct(3), np.ones(4, np.float32)),
        (enp.ones(4), struct(3)),
        (placed(3), enp.ones(4)),
        (placed(3), struct(3)),
    ],
)
def test_one_committed_device(arguments: tuple[Any, Any]) -> None:
    """It takes what is committed nowhere along, in the compiled function too."""
    compiled = effx.jit(multiply).lower(*arguments).compile()
    assert compiled.output_shardings == SingleDeviceSharding(DEVICES[3])
    result = compiled(placed(3), placed(3))
    assert result.devices() == {DEVICES[3]}
    assert result.tolist() == [1.0] * 4


def test_nothing_committed() -> None:
    """The default device."""
    compiled = effx.jit(multiply).lower(enp.ones(4), np.ones(4, np.float32)).compile()
    assert compiled.output_shardings == SingleDeviceSharding(DEVICES[0])


@pytest.mark.parametrize(("first", "second"), [(struct(3), struct(2)), (placed(3), struct(2))])
def test_different_devices(first: Any, second: Any) -> None:
    with pytest.raises(BackendError) as caught:
        effx.jit(multiply).lower(first, second)
    assert caught.value.message == (
        "multiply: arrays are committed to different devices, cpu:3 and cpu:2; move them with device_put"
    )


def test_a_device_beside_a_mesh() -> None:
    mesh = effx.make_mesh((2,), ("x",), devices=DEVICES[:2])
    tiled = effx.ShapeDtypeStruct((4,), "float32", sharding=NamedSharding(mesh, P("x")))
    with pytest.raises(BackendError, match="cpu:3 and the mesh"):
        effx.jit(multiply).lower(tiled, struct(3))


def test_bound_functions() -> None:
    """The device of the function, unless an argument says another."""
    bound = effx.jit(multiply, device=DEVICES[1])
    assert bound.lower(struct(1), enp.ones(4)).compile().output_shardings == SingleDeviceSharding(DEVICES[1])
    with pytest.raises(BackendError) as caught:
        bound.lower(struct(3), struct(3))
    assert caught.value.message == "jit: multiply is bound to cpu:1, but an argument is committed to cpu:3"
    mesh = effx.make_mesh((2,), ("x",), devices=DEVICES[:2])
    tiled = effx.ShapeDtypeStruct((4,), "float32", sharding=NamedSharding(mesh, P("x")))
    with pytest.raises(BackendError, match="bound to cpu:1, but an argument is committed to cpu:0, cpu:1"):
        bound.lower(tiled, tiled)
