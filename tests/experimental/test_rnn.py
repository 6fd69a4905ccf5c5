"""Long short-term memory against its equations, step by step in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import EffxError
from effx.experimental import rnn

BATCH, TIME, INPUT, HIDDEN = 4, 6, 3, 5
lstm: Any = rnn.lstm
lstm_ref: Any = rnn.lstm_ref
LENGTHS = np.array([6, 1, 4, 0])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def run_step_by_step(x: Any, h: Any, c: Any, weights: Any, layers: int, directions: int) -> Any:
    """The outputs and last states of sequences, one after the other, of which each ends at its length."""
    outputs = np.zeros((BATCH, TIME, directions * HIDDEN))
    h, c = h.copy(), c.copy()
    for b, length in enumerate(LENGTHS):
        row = x[b]
        for layer in range(layers):
            shown = np.zeros((TIME, directions * HIDDEN))
            for direction in range(directions):
                i = layer * directions + direction
                of_inputs, of_states, input_bias, state_bias = [
                    np.asarray(part[i], np.float64) for part in weights
                ]
                for t in range(length)[:: -1 if direction else 1]:
                    gates = of_inputs @ row[t] + input_bias + of_states @ h[i, b] + state_bias
                    taken, kept, new, out = np.split(gates, 4)
                    c[i, b] = sigmoid(kept) * c[i, b] + sigmoid(taken) * np.tanh(new)
                    h[i, b] = sigmoid(out) * np.tanh(c[i, b])
                    shown[t, direction * HIDDEN : (direction + 1) * HIDDEN] = h[i, b]
            row = shown
        outputs[b] = row
    return outputs, h, c


def operands(layers: int, directions: int) -> Any:
    rng = np.random.default_rng(layers + directions)
    count = rnn.get_num_params_in_lstm(INPUT, HIDDEN, layers, directions == 2)
    states = rng.normal(size=(2, layers * directions, BATCH, HIDDEN))
    return rng.normal(size=(BATCH, TIME, INPUT)), states[0], states[1], rng.normal(size=count)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("directions", [1, 2])
def test_equations(layers: int, directions: int) -> None:
    """Outputs and last states, of sequences of all lengths from 0 on; outputs behind the end are 0."""
    x, h, c, weights = operands(layers, directions)
    static = (INPUT, HIDDEN, layers, 0.0, directions == 2)
    with effx.enable_x64():
        parts = rnn.unpack_lstm_weights(weights, INPUT, HIDDEN, layers, directions == 2)
        results = lstm(x, h, c, weights, LENGTHS, *static, precision="highest")
        for mine, plain, expected in zip(
            results,
            lstm_ref(x, h, c, *parts, LENGTHS, *static),
            run_step_by_step(x, h, c, parts, layers, directions),
            strict=True,
        ):
            np.testing.assert_allclose(mine, expected, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(plain, expected, rtol=1e-9, atol=1e-9)
    narrow = lstm(*[a.astype("f4") for a in (x, h, c, weights)], LENGTHS, *static)
    assert [y.dtype for y in narrow] == ["float32"] * 3
    np.testing.assert_allclose(narrow[0], results[0], atol=1e-4)


def test_derivatives() -> None:
    """By finite differences in every operand; what is behind a sequence's end has none."""
    with effx.enable_x64():
        x, h, c, weights = operands(2, 2)

        def total(*operands: Any) -> Any:
            y, h_n, c_n = lstm(*operands, LENGTHS, INPUT, HIDDEN, 2, 0.0, True)
            return (y**2).sum() + (h_n * 2 + c_n).sum()

        gradients = effx.grad(total, (0, 1, 2, 3))(x, h, c, weights)
        rng = np.random.default_rng(0)
        for k, gradient in enumerate(gradients):
            moved = [rng.normal(size=a.shape) * (i == k) for i, a in enumerate((x, h, c, weights))]
            ahead, behind = [
                total(*[a + s * 1e-6 * d for a, d in zip((x, h, c, weights), moved, strict=True)])
                for s in (1, -1)
            ]
            np.testing.assert_allclose((gradient * moved[k]).sum(), (ahead - behind) / 2e-6, rtol=1e-6)
        assert not gradients[0][1, 1:].any()


def test_weights() -> None:
    """How many there are, their blocks in order, their range, and the exchange of gates, which undoes itself."""
    assert rnn.get_num_params_in_lstm(INPUT, HIDDEN, 1, False) == 4 * HIDDEN * (INPUT + HIDDEN + 2)
    count = rnn.get_num_params_in_lstm(INPUT, HIDDEN, 2, True)
    flat = np.arange(count, dtype=np.float32)
    parts = rnn.unpack_lstm_weights(flat, INPUT, HIDDEN, 2, True)
    assert [[part[i].shape for i in sorted(part)] for part in parts] == [
        [(20, 3), (20, 3), (20, 10), (20, 10)], [(20, 5)] * 4, [(20,)] * 4, [(20,)] * 4
    ]  # fmt: skip
    in_order = [part[i] for pair in (parts[:2], parts[2:]) for i in range(4) for part in pair]
    np.testing.assert_array_equal(enp.concatenate([block.reshape(-1) for block in in_order]), flat)
    swapped = rnn.swap_lstm_gates(flat, INPUT, HIDDEN, 2, True)
    exchanged = rnn.unpack_lstm_weights(swapped, INPUT, HIDDEN, 2, True)
    for part, other in zip(parts, exchanged, strict=True):
        for i, block in part.items():
            taken, kept, new, shown = np.split(block, 4)
            np.testing.assert_array_equal(other[i], np.concatenate([taken, kept, shown, new]))
    np.testing.assert_array_equal(rnn.swap_lstm_gates(swapped, INPUT, HIDDEN, 2, True), flat)
    drawn = np.asarray(rnn.init_lstm_weight(effx.random.key(0), INPUT, HIDDEN, 2, True))
    assert drawn.shape == (count,)
    assert 0.9 / np.sqrt(HIDDEN) < np.abs(drawn).max() <= 1 / np.sqrt(HIDDEN)


STATE = np.zeros((1, 4, 5), np.float32)
WEIGHTS = np.zeros(200, np.float32)
X = np.zeros((4, 6, 3), np.float32)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            (X, STATE, STATE, WEIGHTS[1:], LENGTHS),
            "lstm: weights must be a vector of 200 elements, got f32[199]",
        ),
        ((X[0], STATE, STATE, WEIGHTS, LENGTHS), "lstm: x must be [batch, time, 3], got f32[6,3]"),
        ((X, STATE[0], STATE, WEIGHTS, LENGTHS), "lstm: h_0 must be [1, 4, 5], got f32[4,5]"),
        ((X, STATE, STATE[:, 1:], WEIGHTS, LENGTHS), "lstm: c_0 must be [1, 4, 5], got f32[1,3,5]"),
        ((X, STATE, STATE, WEIGHTS, LENGTHS[1:]), "lstm: seq_lengths must be [4], got i32[3]"),
        ((X, STATE, STATE, WEIGHTS, LENGTHS * 1.0), "lstm: seq_lengths must be integers, got f32[4]"),
    ],
)
def test_refused(arguments: Any, text: str) -> None:
    """Each with the whole text."""
    with pytest.raises(EffxError) as caught:
        lstm(*arguments, 3, 5, 1, 0.0, False)
    assert caught.value.message == text


def test_dropout_is_refused() -> None:
    """cuDNN's mask is not known."""
    with pytest.raises(EffxError) as caught:
        lstm(X, STATE, STATE, WEIGHTS, LENGTHS, 3, 5, 1, 0.5, False)
    assert caught.value.message == "lstm: there is no dropout between layers here; use 0.0, got 0.5"
