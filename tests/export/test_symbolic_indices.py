"""Functions that make indices of an axis do so where its size is a variable; each result is NumPy's or the fixed size's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
import effx.scipy.linalg as linalg
from effx import export, image, lax
from effx.errors import InconclusiveDimensionOperation

Case = tuple[Callable[[Any], Any], str, Callable[[Any], Any] | None]

# The function, the shape of its argument, and an oracle; None for the function of an array of known sizes.
CASES: dict[str, Case] = {
    "array of a shape": (lambda x: enp.array(x.shape), "n, m", lambda x: np.array(x.shape)),
    "asarray of sizes and numbers": (
        lambda x: enp.asarray([x.shape[0], 2.5]),
        "n, m",
        lambda x: np.array([x.shape[0], 2.5]),
    ),
    "array of nested sizes": (
        lambda x: enp.array([[x.shape[0]], [2]]),
        "n, m",
        lambda x: np.array([[x.shape[0]], [2]]),
    ),
    "trace": (enp.trace, "n, m", np.trace),
    "trace above": (lambda x: enp.trace(x, 1), "n, n", lambda x: np.trace(x, 1)),
    "diagonal": (lambda x: enp.diagonal(x, -1), "n, n", lambda x: np.diagonal(x, -1)),
    "take": (lambda x: enp.take(x, np.array([0, -1]), 0), "n, m", lambda x: x[[0, -1]]),
    "det": (enp.linalg.det, "n, n", np.linalg.det),
    "slogdet": (enp.linalg.slogdet, "n, n", np.linalg.slogdet),
    "inv": (enp.linalg.inv, "n, n", np.linalg.inv),
    "solve": (lambda x: enp.linalg.solve(x, x[:, 0]), "n, n", lambda x: np.linalg.solve(x, x[:, 0])),
    "lu": (linalg.lu, "n, n", None),
    "expm": (lambda x: linalg.expm(x / 8), "n, n", None),
    "cov": (enp.cov, "n, m", np.cov),
    "corrcoef": (enp.corrcoef, "n, m", np.corrcoef),
    "fftfreq": (lambda x: enp.fft.fftfreq(x.shape[0]), "n, m", lambda x: np.fft.fftfreq(x.shape[0])),
    "rfftfreq": (lambda x: enp.fft.rfftfreq(x.shape[0]), "n, m", lambda x: np.fft.rfftfreq(x.shape[0])),
    "fft of a known axis": (enp.fft.fft, "n, 4", np.fft.fft),
    "one_hot": (
        lambda x: effx.nn.one_hot(np.array([0, 2]), x.shape[0]),
        "n, m",
        lambda x: np.eye(x.shape[0])[[0, 2]],
    ),
    "gradient of sort": (
        effx.grad(lambda x: (enp.sort(x, 0) * enp.arange(x.shape[0])[:, None]).sum()),
        "n, m",
        None,
    ),
    "gradient of median": (effx.grad(lambda x: enp.median(x)), "n, m", None),
    "gradient of cummax": (effx.grad(lambda x: lax.cummax(x).sum()), "n, m", None),
    "gradient of take": (
        effx.grad(lambda x: x.at[np.array([0, 3, -9])].get(mode="clip").sum()),
        "n, m",
        None,
    ),
    "gradient of set": (effx.grad(lambda x: (x.at[np.array([0, -1]), 1:].set(0.0) ** 2).sum()), "n, m", None),
    "set within bounds": (lambda x: x.at[np.array([0, 9])].set(5.0, mode="clip"), "n, m", None),
    "resize": (lambda x: image.resize(x, (5, 7), "bilinear"), "n, m", None),
    "resize to a multiple": (lambda x: image.resize(x, (2 * x.shape[0], 7), "cubic"), "n, m", None),
    "resize by nearest": (lambda x: image.resize(x, (5, 2), "nearest"), "n, m", None),
}


def add_padding(mode: Any) -> None:
    """Adds a mode of padding, of a matrix and, more widely than the axis, of a vector."""
    widths = ((1, 2), (0, 3))
    CASES[f"pad {mode}"] = (
        lambda x: enp.pad(x, widths, mode=mode),
        "n, m",
        lambda x: np.pad(x, widths, mode=mode),
    )
    CASES[f"pad {mode} widely"] = (lambda x: enp.pad(x, 7, mode=mode), "n", lambda x: np.pad(x, 7, mode=mode))


for mode in ("wrap", "reflect", "symmetric", "edge", "constant", "linear_ramp", "mean"):
    add_padding(mode)


@pytest.mark.parametrize("name", CASES)
def test_a_variable_size_gives_what_a_known_one_does(name: str) -> None:
    """One exported program is right for several sizes."""
    f, shape, oracle = CASES[name]
    spec = effx.ShapeDtypeStruct(export.symbolic_shape(shape), np.float32)
    exported = export.export(effx.jit(f))(spec)
    for sizes in ({"n": 3, "m": 4}, {"n": 5, "m": 3}):
        known = tuple([sizes.get(part.strip(), 4) for part in shape.split(",")])
        x = np.random.default_rng(0).normal(size=known).astype(np.float32)
        if len(known) == 2 and known[0] == known[1]:
            x += 3 * np.eye(known[0], dtype=np.float32)
        expected = f(enp.asarray(x)) if oracle is None else oracle(x)
        results = effx.tree.leaves(exported.call(x))
        for y, e in zip(
            results,
            effx.tree.leaves(tuple(expected) if isinstance(expected, tuple) else expected),
            strict=True,
        ):
            assert np.shape(y) == np.shape(e)
            np.testing.assert_allclose(y, e, rtol=2e-4, atol=2e-5)


ATTENTION: dict[str, dict[str, Any]] = {
    "causal": {"is_causal": True},
    "window": {"local_window_size": (1, 2)},
    "causal window": {"is_causal": True, "local_window_size": 1},
}


@pytest.mark.parametrize("name", [*ATTENTION, "lengths"])
def test_attention_of_a_variable_length(name: str) -> None:
    """Masks by position hold for sequences of any length."""

    def attend(x: Any) -> Any:
        lengths = {"key_value_seq_lengths": enp.full(x.shape[0], 2)} if name == "lengths" else ATTENTION[name]
        return effx.nn.dot_product_attention(x, x, x, **lengths)

    spec = effx.ShapeDtypeStruct(export.symbolic_shape("b, t, 2, 4"), np.float32)
    exported = export.export(effx.jit(attend))(spec)
    for shape in ((1, 3, 2, 4), (2, 5, 2, 4)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        np.testing.assert_allclose(exported.call(x), attend(enp.asarray(x)), rtol=1e-5, atol=1e-6)


def test_a_fourier_transform_needs_a_known_size() -> None:
    """XLA writes its lengths into the program: the error says so, and what to pass."""
    spec = effx.ShapeDtypeStruct(export.symbolic_shape("n, m"), np.float32)
    for norm in ("backward", "ortho"):
        with pytest.raises(InconclusiveDimensionOperation) as caught:
            export.export(effx.jit(lambda x, norm=norm: enp.fft.fft(x, norm=norm)))(spec)
        assert caught.value.message == "fft: XLA transforms axes of known sizes only, got [m]; pass n= or s="
