"""vjp and linearize by some primals only (in_nzs), and pull-backs that do not keep their primals (saveable_args)."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.ad import NotNeeded, NotSaveable
from effx.errors import EffxError, TransformError, TreeError

X = np.array([0.5, -1.0, 2.0], np.float32)
Y = np.array([1.0, 3.0, -2.0], np.float32)


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-5)


def f(p: Any, y: Any) -> Any:
    return {"both": enp.sin(p["a"]) * y, "second": [2 * y, p["n"]], "none": enp.ones(2)}


P = {"a": X, "n": 3}
SELECTIONS: list[tuple[Any, Any]] = [
    (None, {"both": True, "none": False, "second": [True, False]}),
    (True, {"both": True, "none": False, "second": [True, False]}),
    ((True, False), {"both": True, "none": False, "second": [False, False]}),
    ((False, True), {"both": True, "none": False, "second": [True, False]}),
    (({"a": True, "n": False}, False), {"both": True, "none": False, "second": [False, False]}),
    (((True, True), False), {"both": True, "none": False, "second": [False, False]}),
    (False, {"both": False, "none": False, "second": [False, False]}),
]


@pytest.mark.parametrize("wrap", [lambda g: g, effx.jit], ids=["plain", "jit"])
@pytest.mark.parametrize(("in_nzs", "out_nzs"), SELECTIONS, ids=str)
def test_by_some_primals(in_nzs: Any, out_nzs: Any, wrap: Any) -> None:
    """What is not asked for has zero tangents and cotangents, and no result depends on it."""
    first = in_nzs in (None, True) or (in_nzs is not False and in_nzs[0] is not False)
    second = in_nzs in (None, True) or (in_nzs is not False and in_nzs[1])
    none, zero = np.zeros((), effx.dtypes.float0), np.zeros(3, np.float32)
    g = wrap(f)
    out, f_vjp = effx.vjp(g, P, Y, in_nzs=in_nzs)
    close(out["both"], np.sin(X) * Y)
    assert f_vjp.out_nzs == out_nzs
    dp: Any
    dp, dy = f_vjp({"both": Y, "second": [X, none], "none": enp.ones(2)})
    close(dp["a"], np.cos(X) * Y * Y if first else zero)
    assert dp["n"].dtype == effx.dtypes.float0
    close(dy, np.sin(X) * Y + 2 * X if second else zero)
    _, f_jvp = effx.linearize(g, P, Y, in_nzs=in_nzs)
    moved = f_jvp({"a": X, "n": none}, Y)
    close(moved["both"], (np.cos(X) * X * Y if first else zero) + (np.sin(X) * Y if second else zero))
    close(moved["second"][0], 2 * Y if second else zero)
    assert f_jvp.out_nzs == f_vjp.out_nzs


def test_what_depends_under_other_transformations() -> None:
    """In vmap and scan, and with auxiliary data."""

    def back(x: Any, y: Any) -> Any:
        out, f_vjp, aux = effx.vjp(lambda x, y: ((x * y, 3 * y), x), x, y, has_aux=True, in_nzs=(True, False))
        assert f_vjp.out_nzs == (True, False)
        return f_vjp((aux, out[0]))

    dx, dy = effx.jit(effx.vmap(back))(X, Y)
    close(dx, X * Y)
    close(dy, 0 * Y)
    _, steps = effx.lax.scan(lambda c, xy: (c, back(*xy)), 0.0, (X, Y))
    close(steps[0], X * Y)


def test_references() -> None:
    """What a reference holds is one of the primals."""

    def g(r: Any, x: Any) -> Any:
        r[...] = r[...] * x
        return 2 * x

    _, f_vjp = effx.vjp(g, effx.new_ref(enp.asarray(X)), enp.asarray(Y), in_nzs=(True, False))
    assert f_vjp.out_nzs is False
    ct = effx.new_ref(enp.ones(3))
    _, dx = f_vjp.with_refs(ct, effx.ad.GradValue())(enp.ones(3))
    close(ct[...], Y)
    close(dx, 0 * X)


@attrs.frozen
class Box:
    inside: Any

    def __attrs_post_init__(self) -> None:
        assert not isinstance(self.inside, bool)


effx.tree.register_node(Box, lambda b: ((b.inside,), None), lambda _, xs: Box(*xs))


def test_containers_of_users() -> None:
    """A tuple represents them, in arguments and in texts."""
    _, f_vjp = effx.vjp(lambda b, y: Box([b.inside * y]), Box(X), Y, in_nzs=((False,), True))
    assert f_vjp.out_nzs == ([True],)
    db, dy = f_vjp(Box([Y]))
    close(db.inside, 0 * X)
    close(dy, X * Y)


@pytest.mark.parametrize("wrap", [lambda g: g, effx.jit], ids=["plain", "jit"])
def test_primals_are_not_saved(wrap: Any) -> None:
    """Only those that would have been saved unchanged; the caller puts them back, even other ones."""
    a, b, c = [enp.asarray(v) for v in (X, Y, X + Y)]
    _, f_vjp = effx.vjp(
        wrap(lambda p, c: p["a"] * p["b"] + c), {"a": a, "b": b}, c, saveable_args=((False, True), False)
    )
    assert f_vjp.args_res[1:] == [NotNeeded()]
    assert f_vjp.args_res[0]["a"] == NotSaveable()
    close(f_vjp.args_res[0]["b"], Y)
    assert not f_vjp.opaque_residuals
    with pytest.raises(TransformError) as error:
        f_vjp(enp.ones(3))
    assert error.value.message == (
        "vjp: going back needs args[0]['a'] of <lambda>, f32[3], but args_res has NotSaveable() there"
    )
    f_vjp.args_res[0]["a"] = 10 * a
    dp, dc = f_vjp(enp.ones(3))
    close(dp["a"], Y)
    close(dp["b"], 10 * X)
    close(dc, np.ones(3))


def test_a_pull_back_without_its_primals_goes_through_jit() -> None:
    """A compiled function returns it without the weights, which another puts back."""

    @effx.jit
    def forward(w: Any, x: Any) -> Any:
        return effx.vjp(lambda w, x: enp.tanh(w @ x), w, x, saveable_args=(False, True))

    @effx.jit
    def backward(f_vjp: Any, w: Any, ct: Any) -> Any:
        f_vjp.args_res[0] = w
        return f_vjp(ct)

    w = np.arange(6, dtype=np.float32).reshape(2, 3) / 10
    y, f_vjp = forward(w, X)
    assert not [leaf for leaf in effx.tree.leaves(f_vjp) if leaf.shape == (2, 3)]
    dw, dx = backward(f_vjp, w, enp.ones(2))
    close(dw, np.outer(1 - np.tanh(w @ X) ** 2, X))
    close(dx, (1 - np.tanh(w @ X) ** 2) @ w)
    close(y, np.tanh(w @ X))


ERRORS: list[tuple[dict[str, Any], type[EffxError], str]] = [
    ({"in_nzs": (True, 3)}, TransformError, "in_nzs must hold bools, got 3 of type int"),
    ({"in_nzs": (True, None)}, TransformError, "in_nzs must hold bools, got None of type NoneType"),
    (
        {"in_nzs": (True,)},
        TreeError,
        "in_nzs must be a prefix of the primals, but has a container of 1 for a container of 2",
    ),
    (
        {"in_nzs": (True, (True,))},
        TreeError,
        "in_nzs must be a prefix of the primals, but has a container of 1 for an array",
    ),
]


@pytest.mark.parametrize(("options", "kind", "text"), ERRORS, ids=[e[2][:40] for e in ERRORS])
def test_errors(options: dict[str, Any], kind: type[EffxError], text: str) -> None:
    """Either transformation and either parameter has an error that names the mistake."""
    for transform in (effx.vjp, effx.linearize):
        with pytest.raises(kind) as error:
            transform(enp.multiply, X, Y, **options)
        assert error.value.message == f"{transform.__name__}: {text}"
    with pytest.raises(kind) as error:
        effx.vjp(enp.multiply, X, Y, saveable_args=options["in_nzs"])
    assert error.value.message == "vjp: " + text.replace("in_nzs", "saveable_args")
