"""Stepping gives what staging gives: results, states, and what is collected.

Never: has a handler with a rule for control flow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.errors import EffxError
from effx.handling import BoxHandler, Default, Frame, InterceptHandler, Site
from effx.ir.ops.base import Linear
from effx.ir.ops.elementwise import Mul, Sin


@attrs.frozen
class Record(InterceptHandler[Array]):
    """Counts sines and collects what they are taken of, with a number."""

    collects: ClassVar[bool] = True

    def initial(self) -> Array:
        return enp.int32(0)

    def returns(self, result: Any, frame: Frame) -> Any:
        return result, frame.state, frame.collected


@Record.rule(Sin)
def _(site: Site[Record, Array], op: Sin, x: Array) -> Array:
    site.state = site.state + 1
    site.collect("sin", {"x": x, "n": 1.0})
    return op(x)


@attrs.frozen
class SteppedRecord(Record):
    steps: ClassVar[bool] = True


def turns(c: Any, r: Any) -> Any:
    return enp.sin(c * r), c


PROGRAMS: dict[str, Callable[..., Any]] = {
    "straight": enp.sin,
    "jit": effx.jit(enp.sin),
    "scan": lambda x: lax.scan(turns, x, enp.arange(3.0)),
    "reverse": lambda x: lax.scan(turns, x, enp.arange(3.0), reverse=True),
    "nested": lambda x: lax.scan(lambda c, _: lax.scan(turns, c, enp.arange(3.0)), x, None, length=2),
    "rows of rows": lambda x: lax.scan(
        lambda c, r: lax.scan(turns, c, r), x, enp.arange(6.0).reshape(2, 3), reverse=True
    ),
    "a branch in a scan": lambda x: lax.scan(
        lambda c, r: (lax.cond(r > 0.5, enp.sin, lambda y: y, c), None), x, enp.arange(3.0)
    ),
    "while": lambda x: lax.while_loop(lambda c: c + enp.cos(c) < 5, lambda c: c + 1 + 0 * enp.sin(c), x),
    "sine in the condition": lambda x: lax.while_loop(lambda c: enp.sin(c) < 0.9, lambda c: c + 0.5, x),
    "checkpoint": effx.checkpoint(enp.sin),
    "gradient of a scan": lambda x: effx.grad(lambda y: lax.scan(turns, y, enp.arange(2.0))[0])(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_stepping_is_staging(name: str) -> None:
    """Scans stack, a while loop keeps its last iteration and what its condition left last, for both."""
    f = PROGRAMS[name]
    want, got = Record().run(f, 0.5), SteppedRecord().run(f, 0.5)
    assert effx.tree.structure(got) == effx.tree.structure(want)
    for a, b in zip(effx.tree.leaves(got), effx.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_names_are_taken_once() -> None:
    """Stepping keeps the rule that one name is one value."""
    with pytest.raises(EffxError, match=r"two values are collected under the name 'sin'"):
        SteppedRecord().run(lambda x: enp.sin(enp.sin(x)), 0.5)


@attrs.frozen
class Dual:
    x: Array
    dx: Array


@attrs.frozen
class Tangents(BoxHandler[Dual]):
    default: ClassVar[Default] = "drop"

    def lift(self, x: Array) -> Dual:
        return Dual(x, enp.zeros_like(x))

    def primal(self, payload: Dual) -> Array:
        return payload.x


@Tangents.rule(Linear)
def _(op: Linear, *xs: Dual) -> Dual:
    return Dual(op(*[x.x for x in xs]), op(*[x.dx for x in xs]))


@Tangents.rule(Mul)
def _(op: Mul, x: Dual, y: Dual) -> Dual:
    return Dual(op(x.x, y.x), x.dx * y.x + x.x * y.dx)


@Tangents.rule(Sin)
def _(op: Sin, x: Dual) -> Dual:
    return Dual(op(x.x), x.dx * enp.cos(x.x))


@attrs.frozen
class SteppedTangents(Tangents):
    steps: ClassVar[bool] = True


BOXED: dict[str, Callable[..., Any]] = {
    "boxed rows": lambda x: lax.scan(lambda c, r: (c * enp.sin(r), c), 1.0, enp.stack([x, x * 2, x * 3])),
    "plain rows": lambda x: lax.scan(lambda c, r: (c * r, enp.sin(c)), x, enp.arange(3.0)),
    "no rows": lambda x: lax.scan(lambda c, r: (c * r, c), x, enp.zeros((0,)))[0],
    "while": lambda x: lax.while_loop(lambda c: c < 3, lambda c: c * 2 + enp.sin(x), x),
    "cond": lambda x: lax.cond(x > 0, enp.sin, lambda y: 3.0, x),
    "parallel": lambda x: effx.pmap(enp.sin)(enp.stack([x, x * 2])),
}


@pytest.mark.parametrize("name", BOXED)
def test_stepping_with_boxes(name: str) -> None:
    """Boxes are sliced and stacked as payloads are; a first row that is plain is lifted."""
    one = enp.float32(0.5)
    want, got = [h.run(BOXED[name], Dual(one, one)) for h in (Tangents(), SteppedTangents())]
    assert effx.tree.structure(got) == effx.tree.structure(want)
    for a, b in zip(effx.tree.leaves(got), effx.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
