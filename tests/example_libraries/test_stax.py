"""Layers of stax say the shape of their output, and compose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
from effx import lax, nn, random
from effx.errors import EffxError
from effx.example_libraries import optimizers, stax

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(2, 8, 9, 3)).astype("f4")
SERIES = RNG.normal(size=(2, 5, 9)).astype("f4")
ROWS = RNG.normal(size=(4, 6)).astype("f4")
KEY = random.PRNGKey(3)

LAYERS: dict[str, tuple[str, np.ndarray]] = {
    "dense": ("serial(Dense(4), Relu, Dense(3), LogSoftmax)", ROWS),
    "conv": ("Conv(4, (3, 2), (2, 1), 'SAME')", IMAGES),
    "general conv": ("GeneralConv(('NCH', 'OIH', 'NCH'), 4, (3,), padding=[(1, 0)])", SERIES),
    "transpose": ("ConvTranspose(4, (3, 3), (2, 2), 'SAME')", IMAGES),
    "1d transpose": ("Conv1DTranspose(4, (3,), (2,))", SERIES),
    "general transpose": ("GeneralConvTranspose(('NCH', 'OIH', 'NHC'), 4, (3,), (2,))", SERIES),
    "norm": ("BatchNorm()", IMAGES),
    "norm without mean": ("BatchNorm(axis=(0,), center=False)", ROWS),
    "norm without scale": ("BatchNorm((0, 1), 1e-3, scale=False)", SERIES),
    "max": ("MaxPool((2, 3), (2, 2))", IMAGES),
    "mean": ("AvgPool((2, 3), (2, 2), 'SAME')", IMAGES),
    "sum": ("SumPool((2,), spec='NCH')", SERIES),
    "padded": ("AvgPool((2,), padding=[(0, 0), (1, 0), (0, 0)], spec='CHN')", SERIES),
    "flat": ("Flatten", IMAGES),
    "dropout": ("serial(FanOut(2), parallel(Dense(4), Dropout(0.5)), FanInConcat())", ROWS),
    "residual": ("serial(FanOut(2), parallel(Dense(6), Identity), FanInSum)", ROWS),
    "by shape": ("shape_dependent(lambda shape: Dense(2 * shape[-1]))", ROWS),
    "elementwise": ("elementwise(leaky_relu, negative_slope=0.3)", ROWS),
}


COMPOSED = (
    "AvgPool BatchNorm Conv Conv1DTranspose ConvTranspose Dense Dropout FanInConcat FanInSum FanOut Flatten GeneralConv "
    "GeneralConvTranspose MaxPool SumPool elementwise parallel serial shape_dependent"
)


def test_every_layer_is_in_the_table() -> None:
    texts = " ".join(text for text, _ in LAYERS.values())
    for name in COMPOSED.split():
        assert name in texts
        assert name in stax.__all__


def layer(text: str, module: Any = stax) -> Any:
    return eval(text, dict(vars(module)))  # the table's own text


@pytest.mark.parametrize("name", LAYERS)
def test_shapes(name: str) -> None:
    """The shape that init_fun says is the output's, whatever the batch; the output can be differentiated."""
    text, x = LAYERS[name]
    init_fun, apply_fun = layer(text)
    shape, params = init_fun(KEY, x.shape)
    y = effx.jit(lambda p, x: apply_fun(p, x, rng=KEY))(params, x)
    assert y.shape == shape
    if "Flatten" not in text and "CHN" not in text:
        assert init_fun(KEY, (-1, *x.shape[1:]))[0] == (-1, *shape[1:])
    slopes = effx.grad(lambda p, x: (apply_fun(p, x, rng=KEY) ** 2).sum(), argnums=(0, 1))(params, x)
    assert effx.tree.structure(slopes) == effx.tree.structure((params, x))
    assert all(np.isfinite(s).all() for s in effx.tree.leaves(slopes))


@pytest.mark.parametrize("name", ["dense", "conv", "transpose", "norm", "max", "dropout"])
def test_parameters_are_those_of_jax(name: str) -> None:
    """The same key gives the same parameters and the same output."""
    jax = pytest.importorskip("jax")
    theirs = pytest.importorskip("jax.example_libraries.stax")
    text, x = LAYERS[name]
    (init, apply), (init_there, apply_there) = layer(text), layer(text, theirs)
    (shape, params), (shape_there, params_there) = (
        init(KEY, x.shape), init_there(jax.random.PRNGKey(3), x.shape)
    )  # fmt: skip
    assert shape == shape_there
    assert str(effx.tree.structure(params)) == str(jax.tree.structure(params_there))
    for a, b in zip(effx.tree.leaves(params), jax.tree.leaves(params_there), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    got = apply(params, x, rng=random.PRNGKey(5))
    want = apply_there(params_there, x, rng=jax.random.PRNGKey(5))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "Tanh": effx.numpy.tanh,
    "Relu": nn.relu,
    "Exp": effx.numpy.exp,
    "LogSoftmax": nn.log_softmax,
    "Softmax": nn.softmax,
    "Softplus": nn.softplus,
    "Sigmoid": nn.sigmoid,
    "Elu": nn.elu,
    "LeakyRelu": nn.leaky_relu,
    "Selu": nn.selu,
    "Gelu": nn.gelu,
    "Identity": lambda x: x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_activations(name: str) -> None:
    init_fun, apply_fun = getattr(stax, name)
    assert init_fun(KEY, (2, 3)) == ((2, 3), ())
    np.testing.assert_array_equal(apply_fun((), ROWS), FUNCTIONS[name](ROWS))


def test_layers_compute() -> None:
    """Convolutions, pools and norms are those of lax and NumPy."""
    _, apply_fun = stax.Conv(4, (3, 3))
    kernel = RNG.normal(size=(3, 3, 3, 4)).astype("f4")
    want = lax.conv_general_dilated(
        IMAGES, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    got = apply_fun((kernel, np.ones((1, 1, 1, 4), "f4")), IMAGES)
    np.testing.assert_allclose(got, want + 1, rtol=1e-6)
    tiles = IMAGES[:, :8, :8].reshape(2, 4, 2, 4, 2, 3)
    for pool, reduced in ((stax.MaxPool, tiles.max((2, 4))), (stax.SumPool, tiles.sum((2, 4)))):
        np.testing.assert_allclose(pool((2, 2), (2, 2))[1]((), IMAGES[:, :8, :8]), reduced, rtol=1e-5)
    normed = stax.BatchNorm()[1]((np.zeros(3, "f4"), np.full(3, 2, "f4")), IMAGES)
    np.testing.assert_allclose(np.mean(normed, (0, 1, 2)), np.zeros(3), atol=1e-6)
    np.testing.assert_allclose(np.std(normed, (0, 1, 2)), np.full(3, 2), rtol=1e-4)
    init_fun, _ = stax.Dense(3, W_init=stax.randn(2.0), b_init=nn.initializers.ones)
    _, (W, b) = init_fun(KEY, (-1, 500))
    assert 1.8 < np.std(W) < 2.2
    assert b.tolist() == [1, 1, 1]
    narrow = stax.SumPool((2,), padding=[(1, 0)])[1]((), SERIES)
    np.testing.assert_array_equal(narrow, stax.SumPool((2,), None, [(0, 0), (1, 0), (0, 0)])[1]((), SERIES))
    assert stax.glorot is nn.initializers.glorot_normal
    assert stax.logsoftmax is nn.log_softmax


def test_dropout() -> None:
    """About the share of `rate` is kept and scaled; without training nothing happens."""
    x = np.ones(4000, "f4")
    y = np.asarray(stax.Dropout(0.8)[1]((), x, rng=KEY))
    assert set(y) == {0, np.float32(1 / 0.8)}
    assert 0.77 < (y > 0).mean() < 0.83
    np.testing.assert_array_equal(stax.Dropout(0.8, mode="test")[1]((), x, rng=KEY), x)


def test_a_network_learns() -> None:
    """Together with an optimizer, as in the documents: an accuracy of one on separable data."""
    x = RNG.normal(size=(64, 2)).astype("f4")
    labels = (x.sum(1) > 0).astype(int)
    init_fun, predict = stax.serial(stax.Dense(8), stax.Relu, stax.Dense(2), stax.LogSoftmax)
    _, params = init_fun(KEY, (-1, 2))
    opt_init, opt_update, get_params = optimizers.adam(0.1)

    def loss(params: Any) -> Any:
        return -predict(params, x)[np.arange(64), labels].mean()

    @effx.jit
    def step(i: Any, state: Any) -> Any:
        return opt_update(i, effx.grad(loss)(get_params(state)), state)

    state = opt_init(params)
    for i in range(40):
        state = step(i, state)
    assert (np.argmax(predict(get_params(state), x), 1) == labels).mean() > 0.98


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: stax.Dropout(0.5)[1]((), ROWS),
         "Dropout: apply_fun needs the keyword rng, a key: apply_fun(params, inputs, rng=rng)"),
        (lambda: stax.Conv(2, (3,))[0](KEY, (1, 5, 5, 2)),
         "GeneralConv: filter_shape (3,) and dimension_numbers ('NHWC', 'HWIO', 'NHWC') do not fit inputs of 4 axes"),
        (lambda: stax.MaxPool((2, 2))[0](KEY, (1, 5, 2)),
         "MaxPool: the window (1, 2, 2, 1) does not fit inputs of 3 axes"),
        (lambda: stax.AvgPool((2, 2), (1,)),
         "AvgPool: strides (1,) must be as many as window_shape (2, 2)"),
    ],
)  # fmt: skip
def test_refused(call: Any, text: str) -> None:
    with pytest.raises(EffxError) as caught:
        call()
    assert str(caught.value).partition("\n")[0] == text
