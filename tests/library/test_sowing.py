"""Sow, reap and plant: what is sown comes out of every kind of program, and goes in again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import DTypeError, ShapeError, TransformError
from effx.library.checkify import checkify
from effx.library.probability import Normal, sample, seed
from effx.library.sowing import plant, reap, sow, sow_cotangent

Model = Callable[..., Any]


def step(c: Any, v: Any) -> Any:
    c = sow(enp.sin(c * v), tag="t", name="c")
    return c, c + 1


def scanned(x: Any) -> Any:
    return lax.scan(step, x, enp.arange(1.0, 4.0))[0]


def by_hand(x: float) -> list[float]:
    found = []
    for v in (1, 2, 3):
        x = float(np.sin(x * v))
        found.append(x)
    return found


FORMS: dict[str, Callable[[Model], Model]] = {
    "plain": lambda f: f,
    "jit": effx.jit,
    "checkpoint": effx.checkpoint,
    "checkpoint in jit": lambda f: effx.jit(effx.checkpoint(f)),
    "branch": lambda f: lambda x: lax.cond(x > 0, f, lambda y: y, x),
    "jvp": lambda f: lambda x: effx.jvp(f, (x,), (1.0,))[0],
    "value of grad": lambda f: lambda x: effx.value_and_grad(f)(x)[0],
}


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_reap(form: str, outside: bool) -> None:
    """A scan's values come out stacked, in every form, with jit inside or outside of reaping."""
    f = reap(FORMS[form](scanned), tag="t")
    result, found = (effx.jit(f) if outside else f)(0.5)
    np.testing.assert_allclose(found["c"], by_hand(0.5), rtol=1e-5)
    np.testing.assert_allclose(result, by_hand(0.5)[-1], rtol=1e-5)


def test_without_reaping_it_is_the_identity() -> None:
    """Eagerly, compiled, differentiated and batched."""
    np.testing.assert_allclose(effx.jit(scanned)(0.5), by_hand(0.5)[-1], rtol=1e-5)
    slope = (by_hand(0.5 + 1e-6)[-1] - by_hand(0.5 - 1e-6)[-1]) / 2e-6
    np.testing.assert_allclose(effx.grad(scanned)(0.5), slope, rtol=1e-4)
    np.testing.assert_allclose(
        effx.vmap(scanned)(enp.array([0.5, 0.7])), [by_hand(0.5)[-1], by_hand(0.7)[-1]], rtol=1e-5
    )


def test_trees_dtypes_and_tags() -> None:
    """A value may be a pytree of any dtypes, and a tag reaps only its own."""

    def f(x: Any) -> Any:
        y = sow({"i": enp.int32(3), "b": enp.array([True]), "e": enp.zeros((0, 2))}, tag="a", name="tree")
        return sow(x, tag="b", name="other") + y["i"]

    result, found = effx.jit(reap(f, "a"))(1.0)
    assert set(found) == {"tree"}
    assert (int(found["tree"]["i"]), found["tree"]["b"].dtype.name, found["tree"]["e"].shape) == (
        3,
        "bool",
        (0, 2),
    )
    assert float(result) == 4.0
    (inner, b), a = reap(reap(f, "b"), "a")(1.0)
    assert (float(inner), set(b), set(a)) == (4.0, {"other"}, {"tree"})


def test_batch_elements() -> None:
    """vmap inside and outside, and pmap: one row for each element."""
    xs = enp.array([0.5, 0.7])
    rows = np.array([by_hand(0.5), by_hand(0.7)])
    np.testing.assert_allclose(effx.vmap(reap(scanned, "t"))(xs)[1]["c"], rows, rtol=1e-5)
    np.testing.assert_allclose(reap(effx.pmap(scanned), "t")(xs)[1]["c"], rows, rtol=1e-5)
    # Inside, the scan is outermost: its steps come first.
    np.testing.assert_allclose(reap(effx.vmap(effx.jit(scanned)), "t")(xs)[1]["c"], rows.T, rtol=1e-5)


def test_while_and_branches() -> None:
    """A while loop gives its last iteration, a branch not taken zeros."""

    def f(x: Any) -> Any:
        y = lax.while_loop(lambda c: c < 10, lambda c: sow(c * 2, tag="t", name="w"), x)
        return lax.switch(1, [lambda y: sow(y, tag="t", name="a"), lambda y: sow(-y, tag="t", name="b")], y)

    found = effx.jit(reap(f, "t"))(1.0)[1]
    assert (float(found["w"]), float(found["a"]), float(found["b"])) == (16.0, 0.0, -16.0)


def test_cotangents() -> None:
    """What flows back through a scan comes out stacked: at each step the derivative of the rest."""

    def f(x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            return sow_cotangent(c * v, tag="g", name="ct"), None

        return lax.scan(step, x, enp.arange(1.0, 5.0))[0]

    gradient, found = reap(effx.jit(effx.grad(f)), "g")(2.0)
    assert float(gradient) == 24.0
    assert found["ct"].tolist() == [24.0, 12.0, 4.0, 1.0]
    ws = enp.array([[1.0, 2.0], [3.0, 4.0]])
    loss = lambda w: enp.sum(sow_cotangent(w, tag="g", name="w") ** 2)  # noqa: E731
    np.testing.assert_allclose(reap(effx.vmap(effx.grad(loss)), "g")(ws)[1]["w"], 2 * ws)


def test_effects_of_checkpoints_happen_once() -> None:
    """What a differentiated checkpoint computes again performs no effect again: one value is reaped, one draw is made."""

    def f(x: Any) -> Any:
        return enp.sin(sow(enp.sin(x), tag="t", name="y")) ** 2

    gradient, found = reap(effx.jit(effx.grad(effx.checkpoint(f))), "t")(0.5)
    np.testing.assert_allclose(found["y"], np.sin(0.5), rtol=1e-6)
    np.testing.assert_allclose(gradient, effx.grad(f)(0.5), rtol=1e-6)

    def model(x: Any) -> Any:
        return lax.scan(lambda c, _: (enp.sin(c * sample("z", Normal(1.0, 1.0))), None), x, None, length=3)[0]

    key = effx.random.key(0)
    slopes = [seed(effx.grad(g), key)(0.5) for g in (model, effx.checkpoint(model))]
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-5)


def test_plant_what_was_reaped() -> None:
    """Planting what was reaped changes nothing; planting something else changes what depends on it."""
    result, found = reap(scanned, "t")(0.5)
    np.testing.assert_allclose(plant(effx.jit(scanned), "t", found)(0.9), result)
    planted = effx.jit(lambda c: plant(scanned, "t", {"c": c})(0.5))
    assert float(planted(enp.array([1.0, 2.0, 7.0]))) == 7.0
    assert effx.grad(planted)(enp.array([1.0, 2.0, 7.0])).tolist() == [0.0, 0.0, 1.0]
    assert float(plant(scanned, "t", {"nothing": 1.0})(0.5)) == float(scanned(0.5))


def test_plant_in_nested_scans() -> None:
    """Rows are taken in the order of the visits."""

    def f(x: Any) -> Any:
        inner = lambda c, v: (c + sow(v, tag="t", name="v"), None)  # noqa: E731
        return lax.scan(lambda c, r: (lax.scan(inner, c, r)[0], c), x, enp.zeros((2, 3)))

    _, starts = plant(f, "t", {"v": enp.arange(6.0).reshape(2, 3)})(0.0)
    assert starts.tolist() == [0.0, 3.0]


def test_errors() -> None:
    """A name sown twice, a planted value of another shape or structure."""
    twice = lambda x: sow(sow(x, tag="t", name="x") + 1, tag="t", name="x")  # noqa: E731
    with pytest.raises(TransformError, match=r"^reap: two values are collected under the name 'x'"):
        reap(twice, "t")(1.0)
    assert float(reap(twice, "t", clobber=True)(1.0)[1]["x"]) == 2.0
    three = lambda x: sow(enp.stack([x, x, x]), tag="t", name="c")  # noqa: E731
    with pytest.raises(ShapeError, match=r"^plant: the value for 'c' is f32\[3,2\], but f32\[3\] is wanted"):
        plant(three, "t", {"c": enp.zeros((3, 2))})(enp.float32(1.0))
    with pytest.raises(TransformError, match=r"^plant: the value for 'c' has the structure"):
        plant(three, "t", {"c": (1.0, 2.0)})(1.0)


def element(x: Any) -> Any:
    return sow(x * 2, tag="t", name="x") + 1


def test_plant_in_batch_elements() -> None:
    """Replicas of a vmap inside take their rows; those of a pmap all get the same."""
    xs = enp.arange(3.0)
    assert plant(effx.vmap(element), "t", {"x": enp.array([5.0, 6.0, 7.0])})(xs).tolist() == [6.0, 7.0, 8.0]
    assert plant(effx.pmap(element), "t", {"x": 5.0})(xs).tolist() == [6.0, 6.0, 6.0]


def test_loops_of_any_kind() -> None:
    """Backwards, unrolled, of no steps, nested: rows are in the order of the steps' numbers."""
    xs = enp.arange(1.0, 5.0)
    f = lambda c, x: (sow(c + x, tag="t", name="x"), None)  # noqa: E731
    forward, backward = np.cumsum(xs), np.cumsum(np.asarray(xs)[::-1])[::-1]
    for options, want in (({}, forward), ({"unroll": 2}, forward), ({"reverse": True}, backward)):
        scan = lambda xs, o=options: lax.scan(f, 0.0, xs, **o)[0]  # noqa: E731
        assert reap(scan, "t")(xs)[1]["x"].tolist() == want.tolist(), options
    assert reap(lambda xs: lax.scan(f, 0.0, xs), "t")(enp.zeros(0))[1]["x"].shape == (0,)


def test_users_rules_for_derivatives() -> None:
    """What a function and its backward rule sow comes out of its gradient, each once."""

    @effx.custom_vjp
    def f(x: Any) -> Any:
        return sow(enp.sin(x), tag="t", name="f")

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (sow(ct * 2.0, tag="t", name="back"),))
    gradient, found = reap(effx.jit(effx.grad(f)), "t")(1.0)
    assert (float(gradient), float(found["back"])) == (2.0, 2.0)
    np.testing.assert_allclose(found["f"], np.sin(1.0), rtol=1e-6)


@pytest.mark.unguarded
def test_wrong_arguments() -> None:
    """Names that are none, values that would lose something; a visit too many is reported by checkify."""
    with pytest.raises(TransformError, match=r"^sow: key must be a string, got 3"):
        sow(1.0, tag="t", name=3)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TransformError, match=r"^probe: tag must be a string, got 3"):
        sow_cotangent(enp.ones(2), tag=3, name="x")  # type: ignore[arg-type]  # wrong on purpose
    for value, x, text in (
        (5.7, 2, r"f32\[\]~, which does not convert to i32"),
        (1j, 2.0, r"c64\[\]~, which"),
    ):
        with pytest.raises(DTypeError, match=r"^plant: the value for 'x' is " + text):
            plant(element, "t", {"x": value})(x)
    short = checkify(plant(scanned, "t", {"c": enp.array([1.0, 2.0])}), errors="user")(0.5)[0].get()
    assert (short or "").startswith(
        "plant: visit 3 of 'c', which has 2 rows (`check` failed at test_sowing.py:"
    )
    assert checkify(plant(scanned, "t", {"c": enp.ones(3)}), errors="user")(0.5)[0].get() is None


def test_conditions() -> None:
    """What a loop's condition sows is there once, as it was when asked last; so for a handler around another one."""

    def f(x: Any) -> Any:
        return lax.while_loop(
            lambda c: sow(enp.sin(c), tag="t", name="asked") < 0.9,
            lambda c: sow(c + 0.5, tag="t", name="turned"),
            x,
        )

    def checked(x: Any) -> Any:
        return checkify(f)(x)[1]

    for g in (f, effx.jit(f), checked, effx.jit(checked)):
        y, found = reap(g, tag="t")(0.0)
        np.testing.assert_allclose([y, found["asked"], found["turned"]], [1.5, np.sin(1.5), 1.5], rtol=1e-6)
        y, found = effx.jit(reap(g, tag="t"))(2.0)
        np.testing.assert_allclose([y, found["asked"], found["turned"]], [2.0, np.sin(2.0), 0.0], rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, effx.jit, effx.checkpoint], ids=["plain", "jit", "checkpoint"])
def test_what_backward_rules_sow(wrap: Any) -> None:
    """reap of a pull-back, or of a gradient, gives what custom rules have to say on the way back."""
    f = effx.custom_vjp(lambda x: enp.sin(x))

    def bwd(x: Any, ct: Any) -> Any:
        sow(ct, tag="log", name="cotangent")
        return (ct * enp.cos(x),)

    f.defvjp(lambda x: (f(x), x), bwd)

    @effx.custom_gradient
    def g(x: Any) -> Any:
        def back(ct: Any) -> Any:
            sow(2 * ct, tag="log", name="doubled")
            return (ct * enp.cos(x),)

        return enp.sin(x), back

    for h, name, factor in ((f, "cotangent", 1.0), (g, "doubled", 2.0)):
        chain = wrap(lambda x, h=h: lax.scan(lambda c, _: (h(c), None), x, None, length=3)[0])
        _, pull = effx.vjp(chain, 0.5)
        want = factor * np.array(
            [np.cos(np.sin(np.sin(0.5))) * np.cos(np.sin(0.5)), np.cos(np.sin(np.sin(0.5))), 1.0]
        )
        for back in (lambda: reap(pull, "log")(1.0), lambda: effx.jit(reap(effx.grad(chain), "log"))(0.5)):  # noqa: B023
            found = back()[1]
            np.testing.assert_allclose(np.asarray(found[name]), want, rtol=1e-5)
        assert float(pull(1.0)[0]) == pytest.approx(float(effx.grad(chain)(0.5)))
