"""platform_dependent: which branch is compiled, under every transformation; composite: its text for the compiler."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import NoRuleError, ShapeError, TransformError
from effx.handlers.oracle import Reference
from effx.handling import handle
from effx.lower.text.module import module_text

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)


def chosen(x: Any) -> Any:
    return lax.platform_dependent(
        x, cuda=lambda x: enp.exp(x) * 2.0, cpu=lambda x: enp.sin(x) * x, tpu=enp.cbrt
    )


def add(total: Any, x: Any) -> tuple[Any, None]:
    return total + chosen(x), None


def test_the_branch_of_the_platform_runs() -> None:
    """Eagerly, under jit, vmap and grad, in a loop, without jit, and in the reference, which stands for a CPU."""
    want: Any = np.sin(X) * X
    slope = np.cos(X) * X + np.sin(X)
    np.testing.assert_allclose(chosen(X), want, rtol=1e-6)
    np.testing.assert_allclose(effx.jit(chosen)(X), want, rtol=1e-6)
    np.testing.assert_allclose(effx.vmap(chosen)(X), want, rtol=1e-6)
    np.testing.assert_allclose(effx.vmap(effx.grad(chosen))(X), slope, rtol=1e-6)
    np.testing.assert_allclose(effx.jit(effx.grad(lambda x: chosen(x).sum()))(X), slope, rtol=1e-6)
    looped = effx.grad(lambda x: lax.scan(add, 0.0, x)[0])
    np.testing.assert_allclose(looped(X), slope, rtol=1e-6)
    with effx.disable_jit():
        np.testing.assert_allclose(chosen(X), want, rtol=1e-6)
    with handle(Reference()):
        np.testing.assert_allclose(np.asarray(chosen(enp.asarray(X))), want, rtol=1e-6)


def test_other_branches_are_not_compiled() -> None:
    """The program holds all of them; what is lowered, the platform's own."""

    def derivative(x: Any) -> Any:
        return effx.grad(lambda x: lax.scan(add, 0.0, x)[0])(x)

    for f in (chosen, effx.vmap(chosen), derivative):
        program = effx.make_jaxpr(f)(X)
        texts = {p: module_text(program, p) for p in ("cpu", "cuda", "tpu")}
        for platform, word in (("cpu", "sine"), ("cuda", "exponential"), ("tpu", "cbrt")):
            for other in ("cpu", "cuda", "tpu"):
                assert (f"stablehlo.{word}" in texts[other]) is (other == platform)
            assert "stablehlo.case" not in texts[platform]


def test_default() -> None:
    """It serves the platforms that are not named; alone, all."""
    assert float(lax.platform_dependent(0.5, cuda=enp.sin, default=enp.cos)) == float(enp.cos(0.5))
    assert float(lax.platform_dependent(0.5, cpu=enp.sin, default=enp.cos)) == float(enp.sin(0.5))
    assert float(lax.platform_dependent(0.5, default=enp.cos)) == float(enp.cos(0.5))
    assert lax.platform_dependent({"a": 1.0}, 2.0, default=lambda d, y: (d["a"], y)) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (
            {"cuda": enp.sin},
            NoRuleError,
            "platform_dependent: there is no branch for the platform cpu, only for cuda; give default=",
        ),
        ({}, TransformError, "platform_dependent: needs at least one function"),
        (
            {"gpu": enp.sin},
            TransformError,
            "platform_dependent: there is no platform gpu; name cuda or rocm, or give default=",
        ),
        (
            {"cpu": 1.0},
            TransformError,
            "platform_dependent: cpu must be a function, got 1.0 of type float",
        ),
        (
            {"cpu": enp.sin, "default": lambda x: enp.ones(2)},
            ShapeError,
            "platform_dependent: the branches must return the same types: result of cpu is f32[]~, of default f32[2]",
        ),
    ],
)
def test_refused(given: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        lax.platform_dependent(0.5, **given)
    assert str(caught.value).split("\n")[0] == text


@partial(lax.composite, name="my.scaled", version=3)
def scaled(x: Any, /, *, by: Any = 1.0, **rest: Any) -> Any:
    return enp.sin(x) * by


def test_composite_is_its_decomposition() -> None:
    """Its value, derivative and batch."""
    want = np.sin(X) * 2
    np.testing.assert_allclose(scaled(X, by=2.0), want, rtol=1e-6)
    np.testing.assert_allclose(effx.jit(partial(scaled, by=2.0))(X), want, rtol=1e-6)
    np.testing.assert_allclose(effx.vmap(partial(scaled, by=2.0))(X), want, rtol=1e-6)
    slope = effx.grad(lambda x: scaled(x, by=2.0).sum())(X)
    np.testing.assert_allclose(slope, np.cos(X) * 2, rtol=1e-6)
    offset = enp.asarray(X)
    closed = lax.composite(lambda tree: {"b": tree["a"] + offset}, "my.shift")
    np.testing.assert_array_equal(closed({"a": X})["b"], X + X)


def test_text_for_the_compiler() -> None:
    """Name, version, and attributes of every class; None is no attribute."""
    attributes = {
        "by": 2.5, "i": 3, "b": True, "s": 'a"b', "none": None, "n": np.float32(0.5), "inf": float("inf"),
        "small": 1e-30, "u": np.uint8(7), "d": np.dtype(np.int8), "a": np.arange(2), "e": np.ones((0, 2), bool),
        "z": [1, (2.0,)], "m": {"k": 1}, "nan": np.float16("nan"),
    }  # fmt: skip
    lowered = effx.jit(lambda x: scaled(x, **attributes)).lower(X)
    line = next(line for line in lowered.as_text().split("\n") if "stablehlo.composite" in line)
    for part in (
        '"my.scaled"', "version = 3 : i32", 'by = 2.5 : f64', 'i = 3 : i64', 'b = true', r's = "a\22b"',
        'n = 0.5 : f32', 'inf = 0x7FF0000000000000 : f64', 'small = 1.0e-30 : f64', 'u = 7 : ui8',
        'd = i8', 'a = dense<[0, 1]> : tensor<2xi64>', 'e = dense<> : tensor<0x2xi1>',
        'z = [1 : i64, [2.0 : f64]]', 'm = {k = 1 : i64}', 'nan = 0x7E00 : f16',
    ):  # fmt: skip
        assert part in line, part
    assert "none" not in line
    assert line.endswith(
        ", decomposition = @my.scaled, version = 3 : i32} : (tensor<4xf32>) -> tensor<4xf32>"
    )
    quoted = effx.jit(lambda x: scaled(x, **{"a b": 1})).lower(X).as_text()
    assert '{composite_attributes = {"a b" = 1 : i64}, decomposition' in quoted
    np.testing.assert_allclose(lowered.compile()(X), np.sin(X) * 2.5, rtol=1e-6)


def test_composite_is_refused() -> None:
    with pytest.raises(TransformError) as caught:
        scaled(X, by=enp.float32(2.0))
    assert str(caught.value).split("\n")[0] == (
        "composite: the attribute by must be a number, string, dtype, NumPy array, or a sequence or mapping of such, "
        "got Array(2., dtype=float32) of type ConcreteArray; arrays go by position"
    )
    with pytest.raises(
        TransformError, match=r"composite: decomposition must be a function, got 1 of type int"
    ):
        lax.composite(1, "my.one")  # type: ignore[arg-type]  # is refused
