"""Backward passes that recur run as one executable; nothing else about a gradient changes."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import effects
from effx.effects import Frame, Handler, Operation, Value, forward, handle
from effx.errors import NotFiniteError
from effx.handlers import transpose
from effx.handlers.evaluate.handler import Evaluate
from effx.handlers.transpose import recurring
from effx.laws.comparing import same
from effx.laws.programs import cases, programs

X = np.linspace(-0.9, 0.8, 5, dtype=np.float32)


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No structure was met, and no test before has switched on the debugging flags, which stays for good."""
    monkeypatch.setattr(effects.outermost, "handler", Evaluate())
    recurring._structure_entry.cache_clear()
    yield
    recurring._structure_entry.cache_clear()


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of equations of the programs that were transposed by single operations, or to be compiled."""
    found: list[int] = []
    backward = transpose.backward_pass

    def counting(program: Any, *rest: Any) -> Any:
        found.append(len(program.equations))
        return backward(program, *rest)

    monkeypatch.setattr(recurring, "backward_pass", counting)
    return found


def test_new_constants_are_the_same_structure(interpreted: list[int]) -> None:
    """A loop whose constants change is compiled at its sixteenth gradient, and each one is right."""
    for step in range(recurring.COMPILE_AFTER + 4):
        a = 0.5 + step / 8
        got = effx.grad(lambda x, a=a: (enp.sin(x * a) * x).sum())(X)
        np.testing.assert_allclose(got, np.sin(a * X) + a * X * np.cos(a * X), rtol=1e-5, atol=1e-6)
    assert len(interpreted) == recurring.COMPILE_AFTER


def wide(x: Any) -> Any:
    return enp.sin(x)[None] * enp.ones((3, 1))


# Of one operand: no two of these have derivatives of one structure, though some are near.
NEAR: list[Any] = [
    lambda x: enp.sin(x) * x,
    lambda x: x * enp.sin(x),
    lambda x: enp.sin(x) * enp.sin(x),
    lambda x: enp.sin(x * x),
    lambda x: enp.sin(x) - x * x,
    lambda x: x * x - enp.sin(x),
    lambda x: wide(x).sum(0) * 2.0,
    lambda x: wide(x).sum(1) * 2.0,
    lambda x: enp.flip(x * 2.0) * x,
    lambda x: (x * 2.0)[1:4] * x[:3],
    lambda x: (x * 2.0)[1:4] * x[1:4],
    lambda x: enp.sin(x.astype("float16")) * x.astype("float16"),
]


@pytest.mark.parametrize("meetings", [1, 3])
def test_structures_are_distinguished(meetings: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that differ in one operation, parameter, operand or type do not share an executable."""
    monkeypatch.setattr(recurring, "COMPILE_AFTER", meetings)
    gradients = [effx.grad(lambda x, f=f: f(x).astype("float32").sum()) for f in NEAR]
    wants = [effx.jit(g)(X) for g in gradients]
    for _ in range(meetings + 1):
        for f, g, want in zip(NEAR, gradients, wants, strict=True):
            np.testing.assert_allclose(g(X), want, rtol=2e-3 if f is NEAR[-1] else 1e-6, atol=1e-7)


@settings(max_examples=15)
@given(cases(programs((), dtype="float32")), st.integers(1, 2))
def test_random_programs(case: Any, meetings: int) -> None:
    """The pull-back is what it is by single operations, the first time and again."""
    f, xs = case
    y, pull = effx.vjp(f, *xs)
    want = pull(y)
    recurring._structure_entry.cache_clear()
    before, recurring.COMPILE_AFTER = recurring.COMPILE_AFTER, meetings
    try:
        for _ in range(3):
            got = pull(y)
            same(got, want, 1e-5)
            assert [x.type for x in effx.tree.leaves(got)] == [x.type for x in effx.tree.leaves(want)]
    finally:
        recurring.COMPILE_AFTER = before


def test_zero_cotangents() -> None:
    """An argument that the result does not depend on keeps its zeros, and a seed may be an array or a number."""
    f = lambda x, y, z: enp.sin(x * 2.0) * enp.cos(x) + 0.0 * y  # noqa: E731
    _, pull = effx.vjp(f, 0.5, 0.25, 0.75)
    for seed in (1.0, enp.float32(1.0)):
        for _ in range(recurring.COMPILE_AFTER + 2):
            dx, dy, dz = pull(seed)
            want = 2 * np.cos(1.0) * np.cos(0.5) - np.sin(1.0) * np.sin(0.5)
            np.testing.assert_allclose([dx, dy, dz], [want, 0.0, 0.0], rtol=1e-6)


def test_results_are_buffers_of_their_own() -> None:
    """A gradient that does not depend on its argument may be donated, and the next one is whole."""
    gradient = effx.grad(lambda x: (x * 2.0 * 3.5).sum())
    spend = effx.jit(lambda x: x + 1.0, donate_argnums=0)
    for x in (X, 0.5):
        for _ in range(recurring.COMPILE_AFTER + 3):
            found = gradient(x)
            np.testing.assert_array_equal(found, np.full_like(x, 7.0))
            spend(found)


def test_debugging_flags_see_each_operation() -> None:
    """Under debug_nans the operation of the backward pass that gives NaN is named, however often it ran before."""
    gradient = effx.grad(lambda x: (enp.sqrt(x * 0.0) * x).sum())
    for _ in range(recurring.COMPILE_AFTER + 2):
        assert np.isnan(gradient(np.float32(1.0)))
    with effx.debug_nans(), pytest.raises(NotFiniteError, match=r"^mul: the result f32\[\] has nan"):
        gradient(np.float32(1.0))


class Log(Handler):
    """Records the names of the operations that it sees."""

    intercepts = True

    def __init__(self) -> None:
        self.names: list[str] = []

    def handle(self, frame: Frame, op: Operation[Any], operands: tuple[Value, ...]) -> Any:
        self.names.append(op.name)
        return forward(op, operands)


def test_handlers_see_each_operation() -> None:
    """A handler around a gradient sees the same after it was compiled elsewhere as before."""
    gradient = effx.grad(lambda x: (enp.sin(x) * x).sum())
    seen = []
    for _ in range(2):
        with handle(Log()) as frame:
            gradient(X)
        log = frame.handler
        assert isinstance(log, Log)
        seen.append(log.names)
        for _ in range(recurring.COMPILE_AFTER + 1):
            gradient(X)
    assert seen[0] == seen[1]
    assert seen[0].count("mul") == 4


def test_residuals_on_two_devices() -> None:
    """Each chain is pulled back on its own device."""
    a, b = effx.local_devices()[:2]
    f = lambda x, y: (enp.sin(x * 2.0), enp.cos(y * 2.0))  # noqa: E731
    (u, v), pull = effx.vjp(f, effx.device_put(X, a), effx.device_put(X, b))
    for _ in range(recurring.COMPILE_AFTER + 2):
        dx, dy = pull((u, v))
        assert (dx.devices(), dy.devices()) == ({a}, {b})
        np.testing.assert_allclose(dx, 2 * np.cos(2 * X) * np.sin(2 * X), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(dy, -2 * np.sin(2 * X) * np.cos(2 * X), rtol=1e-5, atol=1e-6)


def test_no_array_is_kept_alive() -> None:
    """The record of a structure holds no array, and the number of structures is bounded."""
    x = effx.device_put(X)
    gone = weakref.ref(x)
    for _ in range(recurring.COMPILE_AFTER + 1):
        effx.grad(lambda x: (enp.sin(x) * x).sum())(x)
    del x
    assert gone() is None
    assert recurring._structure_entry.cache_info().maxsize == recurring.MAX_STRUCTURES
