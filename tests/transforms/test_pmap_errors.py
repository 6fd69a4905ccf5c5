"""What pmap refuses, with the whole text of each error.

Never: asks for more than eight devices, which tests/conftest.py provides.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import (
    AxisNameError,
    BackendError,
    DeviceCountError,
    EffxError,
    ShapeError,
    TransformError,
    TreeError,
)

D = effx.devices()
X = np.ones((4, 2), np.float32)


def f(x: Any, y: Any = 0.0) -> Any:
    """Stands for a user's function."""
    return x + y


ERRORS: list[tuple[Callable[[], Any], type[EffxError], str]] = [
    (
        lambda: effx.pmap(f)(np.arange(9)),
        DeviceCountError,
        (
            "pmap: f requires 9 replicas, but only 8 XLA devices are available; set EFFX_NUM_CPU_DEVICES before the "
            "start for more CPU devices, or use vmap"
        ),
    ),
    (
        lambda: effx.pmap(effx.pmap(f))(np.ones((3, 3))),
        DeviceCountError,
        (
            "pmap: f requires 9 replicas, but only 8 XLA devices are available; set EFFX_NUM_CPU_DEVICES before the "
            "start for more CPU devices, or use vmap"
        ),
    ),
    (
        lambda: effx.pmap(f, devices=D[:3])(X),
        DeviceCountError,
        (
            "pmap: f requires 4 replicas, but only 3 XLA devices are available; set EFFX_NUM_CPU_DEVICES before the "
            "start for more CPU devices, or use vmap"
        ),
    ),
    (
        lambda: effx.pmap(effx.pmap(f, devices=D[:2]))(np.ones((2, 2))),
        DeviceCountError,
        "pmap: f has devices of its own inside another parallel map; give devices to the outermost",
    ),
    (
        lambda: effx.pmap(f)(X, {"a": np.ones(4), "b": np.ones(3)}),
        ShapeError,
        (
            "pmap: sizes of the mapped axes of f differ: argument 0 f32[4,2] axis 0 is 4, argument 1['a'] f32[4] axis 0 "
            "is 4, argument 1['b'] f32[3] axis 0 is 3"
        ),
    ),
    (
        lambda: effx.pmap(f, axis_size=3)(X),
        ShapeError,
        "pmap: sizes of the mapped axes of f differ: argument 0 f32[4,2] axis 0 is 4, axis_size is 3",
    ),
    (
        lambda: effx.pmap(f, in_axes=None)(X),
        TransformError,
        "pmap: no argument of f is mapped; give axis_size, or an axis in in_axes for at least one",
    ),
    (
        lambda: effx.pmap(f)(X, 2.0),
        ShapeError,
        (
            "pmap: in_axes asks for axis 0 of argument 1 of f, which is a scalar f32[]~; use in_axes=None for it"
        ),
    ),
    (
        lambda: effx.pmap(f, in_axes=2)(X),
        ShapeError,
        "pmap: in_axes asks for axis 2 of argument 0 of f, which is f32[4,2] with 2 axes",
    ),
    (
        lambda: effx.pmap(f, in_axes=(0, 0))(X),
        TransformError,
        "pmap: in_axes has 2 entries, but f got 1 positional arguments",
    ),
    (
        lambda: effx.pmap(f, in_axes="i"),  # type: ignore[arg-type]  # on purpose
        TransformError,
        "pmap: in_axes must be an int, None, or a tuple with an entry for each argument, got 'i'",
    ),
    (
        lambda: effx.pmap(f, in_axes=({"a": 0}, 0))(X, X),
        TreeError,
        "pmap: in_axes must be an int, None, or a pytree prefix of the arguments: ",
    ),
    (
        lambda: effx.pmap(f, in_axes=(0.5, 0))(X, X),
        TransformError,
        "pmap: in_axes must hold ints and None, got 0.5",
    ),
    (
        lambda: effx.pmap(f, out_axes=2)(X),
        ShapeError,
        "pmap: out_axes asks for axis 2 of a result of f with 2 axes",
    ),
    (
        lambda: effx.pmap(f, out_axes=None)(X),
        ShapeError,
        "pmap: out_axes is None for a result of f that differs between replicas: f32[2]",
    ),
    (
        lambda: effx.pmap(lambda x: lax.psum(x, "j"), axis_name="i")(X),
        AxisNameError,
        "psum: axis name 'j' is not bound by vmap, pmap or shard_map; names in scope: 'i'",
    ),
    (
        lambda: effx.pmap(lambda x: lax.psum(x, "j"))(X),
        AxisNameError,
        "psum: axis name 'j' is not bound by vmap, pmap or shard_map; no axis names are in scope",
    ),
    (
        lambda: effx.pmap(f, global_arg_shapes=((2,),)),
        TransformError,
        (
            "pmap: global_arg_shapes is not supported: it described values that are partitioned over several processes; "
            "leave it out"
        ),
    ),
    (lambda: effx.pmap(3), TransformError, "pmap: expected a function, got 3 of type int"),  # type: ignore[arg-type]  # on purpose
    (
        lambda: effx.pmap(f, devices=[]),
        TransformError,
        "pmap: devices must name at least one device, got none",
    ),
    (
        lambda: effx.pmap(f, devices=[D[0], D[0]]),
        TransformError,
        "pmap: devices repeats a device: cpu:0, cpu:0",
    ),
    (
        lambda: effx.pmap(f, devices=["cpu"]),  # type: ignore[list-item]  # on purpose
        TransformError,
        "pmap: devices must hold devices, got 'cpu' of type str",
    ),
    (
        lambda: effx.pmap(f, devices=D[:2], backend="cpu"),
        TransformError,
        "pmap: give devices or backend, not both",
    ),
    (
        lambda: effx.pmap(f, static_broadcasted_argnums=2),
        TransformError,
        "pmap: static_broadcasted_argnums names argument 2, but f takes 2 positional arguments",
    ),
    (
        lambda: effx.pmap(f, static_broadcasted_argnums=1, donate_argnums=1),
        TransformError,
        "pmap: arguments cannot be both static and donated: [1]",
    ),
    (
        lambda: effx.pmap(f, static_broadcasted_argnums=1)(X, [1]),
        TransformError,
        "pmap: static argument 1 of f must be hashable, got [1] of type list",
    ),
    (
        lambda: effx.pmap(f)(X[:0]),
        ShapeError,
        "pmap: f is mapped over an axis of size 0; it needs at least one replica",
    ),
    (
        lambda: effx.jit(lambda x: (effx.pmap(f, devices=D[:4])(x), effx.pmap(f, devices=D[4:])(x)))(X),
        BackendError,
        "pmap: parallel maps in one program must be on the same devices, got (0, 1, 2, 3) of cpu and (4, 5, 6, 7) of cpu",
    ),
    (
        lambda: effx.jit(lambda x: (effx.pmap(f)(x), effx.pmap(f)(x[:3])))(X),
        DeviceCountError,
        (
            "pmap: <lambda> requires 12 replicas, but only 8 XLA devices are available; set EFFX_NUM_CPU_DEVICES before the "
            "start for more CPU devices, or use vmap"
        ),
    ),
]


# Refused by typeguard before effx sees them.
MISTYPED = ("pmap: expected a function", "pmap: devices must hold devices")


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        pytest.param(
            *case, id=case[2][:60], marks=[pytest.mark.unguarded] if case[2].startswith(MISTYPED) else []
        )
        for case in ERRORS
    ],
)
def test_errors(call: Callable[[], Any], kind: type[EffxError], text: str) -> None:
    """The first line is the whole message; where it ends in a colon, the tree's own words follow."""
    with pytest.raises(kind) as caught:
        call()
    first = str(caught.value).splitlines()[0]
    assert first.startswith(text) if text.endswith(": ") else first == text


def test_too_few_devices_is_a_value_error() -> None:
    """As the reference documents it."""
    with pytest.raises(ValueError, match="requires 9 replicas, but only 8 XLA devices are available"):
        effx.pmap(lambda x: x**2)(enp.arange(9))


def test_error_names_line_and_handlers() -> None:
    """An error inside the function names its line and the maps around it."""
    with pytest.raises(ShapeError) as caught:
        effx.pmap(lambda x: enp.dot(x, enp.ones(5)), axis_name="i")(X)
    lines = str(caught.value).splitlines()
    assert lines[1].startswith("  at   test_pmap_errors.py:")
    assert lines[2] == "  in   pmap > replicas(axis_size=4, axis_name='i')"


AXES = [0, 0, 0, 1, -1, -2, 2, None, {"a": 0}, 0.5]


def both(x: Any, y: Any) -> Any:
    """Stands for a user's function whose results differ in shape."""
    return x * 2.0, {"y": y}


def outcome(
    transform: Callable[..., Any], options: Any, args: list[Any]
) -> tuple[type[EffxError], str] | str:
    """What a transformed function returns, or how it fails."""
    try:
        return str(transform(both, **options)(*args))
    except EffxError as error:
        return type(error), error.message


def test_axes_are_those_of_vmap() -> None:
    """pmap takes and refuses axes and sizes as vmap does, in the same words."""
    rng = random.Random(5)
    seen = set()
    for _ in range(40):
        shapes = [rng.choice([(), (2,), (2, 2), (2, 3), (3, 2)]) for _ in range(2)]
        args = [enp.arange(6.0)[: int(np.prod(s))].reshape(s) for s in shapes]
        axes = rng.choice([0, 1, None, "i", tuple(rng.choices(AXES, k=rng.choice([2, 2, 2, 2, 1])))])
        options: Any = {
            "in_axes": list(axes) if isinstance(axes, tuple) and rng.random() < 0.2 else axes,
            "out_axes": rng.choice([0, 0, 1, -1, 5, (0, 0), "o"]),
            "axis_size": rng.choice([None, None, 2, 3]),
        }
        mapped = outcome(effx.pmap, options, args)
        want = outcome(effx.vmap, options, args)
        if isinstance(want, tuple):
            # pmap stages what it is given.
            text = want[1].replace("vmap: ", "pmap: ").replace("of type ConcreteArray", "of type Box")
            assert mapped == (want[0], text), options
        else:
            assert mapped == want, options
        seen.add(want[1].split(" of both")[0] if isinstance(want, tuple) else "a value")
    assert len(seen) > 8
