"""Long short-term memory over batches of sequences, with the weights of all layers in one vector, laid out as cuDNN's.

Source: Hochreiter and Schmidhuber, "Long short-term memory", 1997, with forget gates.
"""

import math
from collections.abc import Callable, Mapping

from effx import dtypes
from effx.array import Array, Operand, arithmetic
from effx.array.arithmetic import where
from effx.array.promotion import as_operand, broadcast_to, convert
from effx.array.shaping import concatenate, expand_dims, moveaxis, reshape, stack
from effx.errors import BackendError, DTypeError, ShapeError
from effx.ir.ops.shape import Iota
from effx.ir.types import Shape, array_type
from effx.lax.control.scans import scan
from effx.lax.elementwise.exponential import logistic
from effx.lax.elementwise.trigonometric import tanh
from effx.lazy import list_names
from effx.random.continuous import uniform
from effx.transforms.jit.jit import jit

__all__ = [
    "get_num_params_in_lstm", "init_lstm_weight", "lstm", "lstm_ref", "swap_lstm_gates", "unpack_lstm_weights",
]  # fmt: skip
__dir__ = list_names(__all__)

Weights = tuple[dict[int, Array], dict[int, Array], dict[int, Array], dict[int, Array]]
"""By layer, or by layer and direction: matrices of inputs and of states, biases of inputs and of states."""


def _block_shapes(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> list[Shape]:
    """Returns the shapes of the blocks of weights in order: all matrices, then all biases."""
    directions = 2 if bidirectional else 1
    matrices: list[Shape] = []
    for i in range(num_layers * directions):
        matrices += [
            (4 * hidden_size, input_size if i < directions else directions * hidden_size),
            (4 * hidden_size, hidden_size),
        ]
    return [*matrices, *[(4 * hidden_size,)] * len(matrices)]


def get_num_params_in_lstm(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> int:
    """Returns how many weights all layers have.

    >>> get_num_params_in_lstm(2, 3, num_layers=1, bidirectional=False)
    84
    """
    return sum(
        [math.prod(shape) for shape in _block_shapes(input_size, hidden_size, num_layers, bidirectional)]
    )


def init_lstm_weight(
    rng: Operand, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Draws weights, uniform up to 1 / sqrt(hidden_size) on both sides of 0.

    >>> import effx
    >>> init_lstm_weight(effx.random.key(0), 2, 3, 1, False).shape
    (84,)
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    bound = math.sqrt(1.0 / hidden_size)
    return uniform(rng, (count,), dtypes.float32, -bound, bound)


def _split_blocks(weights: Operand, shapes: list[Shape]) -> list[Array]:
    flat = as_operand(weights)
    count = sum([math.prod(shape) for shape in shapes])
    if flat.type.shape != (count,):
        raise ShapeError(f"lstm: weights must be a vector of {count} elements, got {flat.type!r}")
    blocks, start = [], 0
    for shape in shapes:
        end = start + math.prod(shape)
        blocks.append(reshape(flat[start:end], shape))
        start = end
    return blocks


def unpack_lstm_weights(
    weights: Operand, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Weights:
    """Returns the matrices and biases of a vector of weights.

    Args:
        weights: `f32[n]`, n as of `get_num_params_in_lstm`.
        input_size, hidden_size, num_layers, bidirectional: as for `lstm`.

    Returns:
        W_ih, W_hh, b_ih and b_hh, each by the number of the layer; with two directions by 2 * layer for the forward and
        2 * layer + 1 for the backward one. The rows are those of the input, forget, cell and output gate.

    Raises:
        ShapeError: there are more or fewer weights.

    >>> import effx.numpy as enp
    >>> from effx.experimental.rnn import unpack_lstm_weights
    >>> W_ih, W_hh, b_ih, b_hh = unpack_lstm_weights(enp.zeros(84), 2, 3, 1, False)
    >>> W_ih[0].shape, W_hh[0].shape, b_ih[0].shape, b_hh[0].shape
    ((12, 2), (12, 3), (12,), (12,))
    """
    blocks = _split_blocks(weights, _block_shapes(input_size, hidden_size, num_layers, bidirectional))
    half = len(blocks) // 2
    parts = blocks[:half:2], blocks[1:half:2], blocks[half::2], blocks[half + 1 :: 2]
    inputs, states, input_biases, state_biases = [dict(enumerate(part)) for part in parts]
    return inputs, states, input_biases, state_biases


def swap_lstm_gates(
    weights: Operand, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Exchanges the third and the fourth gate in all blocks of a vector of weights, whose order differs between libraries.

    Raises:
        ShapeError: there are more or fewer weights.

    >>> import effx.numpy as enp
    >>> from effx.experimental.rnn import swap_lstm_gates
    >>> print(swap_lstm_gates(enp.arange(16), 1, 1, 1, False))
    [ 0  1  3  2  4  5  7  6  8  9 11 10 12 13 15 14]
    """
    blocks = _split_blocks(weights, _block_shapes(input_size, hidden_size, num_layers, bidirectional))
    swapped = []
    for block in blocks:
        gates = reshape(block, (4, -1))
        swapped += [reshape(gates[:2], -1), gates[3], gates[2]]
    return concatenate(swapped, 0)


def _run_layer(
    x: Array, h: Array, c: Array, weights: tuple[Array, ...], active: Array, backward: bool, precision: object
) -> tuple[Array, Array, Array]:
    """Returns the outputs `[time, batch, hidden]` of one direction of a layer, and its last states."""
    of_inputs, of_states, input_bias, state_bias = weights
    bias = input_bias + state_bias
    projected = arithmetic.matmul(x, of_inputs.T, precision)
    projected = projected + broadcast_to(bias, projected.type.shape)
    turned = of_states.T
    size = h.type.shape[-1]

    def step(carry: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        (h, c), (inputs, is_active) = carry, now
        gates = inputs + arithmetic.matmul(h, turned, precision)
        taken, kept, new, shown = [gates[:, i * size : (i + 1) * size] for i in range(4)]
        next_c = logistic(kept) * c + logistic(taken) * tanh(new)
        next_h = logistic(shown) * tanh(next_c)
        # Behind its end a sequence keeps its state and shows nothing.
        return (where(is_active, next_h, h), where(is_active, next_c, c)), where(is_active, next_h, 0.0)

    (h, c), outputs = scan(step, (h, c), (projected, active), reverse=backward)
    return outputs, h, c


def _check_lstm_operands(
    x: Array, h_0: Array, c_0: Array, seq_lengths: Array, sizes: tuple[int, int, int], dropout: float
) -> None:
    input_size, hidden_size, rows = sizes
    if dropout != 0.0:
        raise BackendError(f"lstm: there is no dropout between layers here; use 0.0, got {dropout}")
    if x.type.ndim != 3 or x.type.shape[-1] != input_size:
        raise ShapeError(f"lstm: x must be [batch, time, {input_size}], got {x.type!r}")
    expected = (rows, x.type.shape[0], hidden_size)
    for name, state in (("h_0", h_0), ("c_0", c_0)):
        if state.type.shape != expected:
            raise ShapeError(f"lstm: {name} must be {list(expected)}, got {state.type!r}")
    if seq_lengths.type.kind not in "iu":
        raise DTypeError(f"lstm: seq_lengths must be integers, got {seq_lengths.type!r}")
    if seq_lengths.type.shape != x.type.shape[:1]:
        raise ShapeError(f"lstm: seq_lengths must be [{x.type.shape[0]}], got {seq_lengths.type!r}")


def _run_layers(
    x: Operand, h_0: Operand, c_0: Operand, weights: tuple[Mapping[int, Operand], ...], seq_lengths: Operand,
    sizes: tuple[int, int, int], dropout: float, bidirectional: bool, precision: object,
) -> tuple[Array, Array, Array]:  # fmt: skip
    data, h, c, lengths = [as_operand(a) for a in (x, h_0, c_0, seq_lengths)]
    _check_lstm_operands(data, h, c, lengths, sizes, dropout)
    outputs = moveaxis(data, 1, 0)
    time, batch = outputs.type.shape[:2]
    steps = Iota(array_type(dtypes.int32, (time, batch)), 0)()
    active = expand_dims(steps < broadcast_to(convert(lengths, dtypes.int32), (time, batch)), -1)
    active = broadcast_to(active, (time, batch, h.type.shape[-1]))
    directions = 2 if bidirectional else 1
    last_h: list[Array] = []
    last_c: list[Array] = []
    for layer in range(sizes[2] // directions):
        parts = []
        for direction in range(directions):
            i = layer * directions + direction
            of_layer = tuple([as_operand(part[i]) for part in weights])
            part, h_n, c_n = _run_layer(outputs, h[i], c[i], of_layer, active, direction == 1, precision)
            parts.append(part)
            last_h.append(h_n)
            last_c.append(c_n)
        outputs = concatenate(parts, -1) if bidirectional else parts[0]
    return moveaxis(outputs, 0, 1), stack(last_h), stack(last_c)


def _run_packed(
    x: Operand, h_0: Operand, c_0: Operand, weights: Operand, seq_lengths: Operand,
    sizes: tuple[int, int, int], dropout: float, bidirectional: bool, precision: object,
) -> tuple[Array, Array, Array]:  # fmt: skip
    input_size, hidden_size, rows = sizes
    num_layers = rows // (2 if bidirectional else 1)
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    return _run_layers(x, h_0, c_0, parts, seq_lengths, sizes, dropout, bidirectional, precision)


_STATIC = ("sizes", "dropout", "bidirectional", "precision")
_compiled_layers: Callable[..., tuple[Array, Array, Array]] = jit(_run_layers, static_argnames=_STATIC)
_compiled_packed: Callable[..., tuple[Array, Array, Array]] = jit(_run_packed, static_argnames=_STATIC)


def lstm_ref(
    x: Operand,
    h_0: Operand,
    c_0: Operand,
    W_ih: Mapping[int, Operand],
    W_hh: Mapping[int, Operand],
    b_ih: Mapping[int, Operand],
    b_hh: Mapping[int, Operand],
    seq_lengths: Operand,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
) -> tuple[Array, Array, Array]:
    """`lstm` with the weights as matrices and biases, which `unpack_lstm_weights` makes of a vector.

    Args:
        x, h_0, c_0, seq_lengths, input_size, hidden_size, num_layers, dropout, bidirectional: as for `lstm`.
        W_ih, W_hh, b_ih, b_hh: the weights by layer.

    Raises:
        ShapeError, DTypeError: sizes or dtypes do not fit.
        BackendError: dropout is not 0.

    >>> import effx.numpy as enp
    >>> from effx.experimental.rnn import lstm_ref, unpack_lstm_weights
    >>> weights, state = unpack_lstm_weights(enp.zeros(84), 2, 3, 1, False), enp.zeros((1, 4, 3))
    >>> y, h, c = lstm_ref(enp.ones((4, 5, 2)), state, state, *weights, enp.full(4, 5), 2, 3, 1, 0.0, False)
    >>> y.shape, h.shape
    ((4, 5, 3), (1, 4, 3))
    """
    rows = num_layers * (2 if bidirectional else 1)
    return _compiled_layers(
        x, h_0, c_0, (W_ih, W_hh, b_ih, b_hh), seq_lengths, sizes=(input_size, hidden_size, rows), dropout=dropout,
        bidirectional=bidirectional, precision=None,
    )  # fmt: skip


def lstm(
    x: Operand,
    h_0: Operand,
    c_0: Operand,
    weights: Operand,
    seq_lengths: Operand,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: object = None,
) -> tuple[Array, Array, Array]:
    """Runs a long short-term memory over a batch of sequences, on every platform, by a scan.

    Args:
        x: `f32[batch, time, input_size]`.
        h_0, c_0: the states at the start, `f32[layers, batch, hidden_size]`; with two directions there are twice as many
            rows, forward and backward by turns.
        weights: `f32[n]`, n as of `get_num_params_in_lstm`.
        seq_lengths: `i32[batch]`, the sequences' lengths. What is behind is not read.
        input_size, hidden_size, num_layers: the sizes.
        dropout: 0.0.
        bidirectional: whether each layer runs in both directions; the next one reads both outputs.
        precision: of the matrix products, as for `dot`.

    Returns:
        The outputs of the last layer, `f32[batch, time, hidden_size]`, or twice as wide, 0 behind the sequences' ends; and
        the last states, as `h_0` and `c_0`.

    Raises:
        ShapeError, DTypeError: sizes or dtypes do not fit.
        BackendError: dropout is not 0.

    >>> import effx, effx.numpy as enp
    >>> weights = init_lstm_weight(effx.random.key(0), 2, 3, 1, False)
    >>> state = enp.zeros((1, 4, 3))
    >>> y, h, c = lstm(enp.ones((4, 5, 2)), state, state, weights, enp.full(4, 5), 2, 3, 1, 0.0, False)
    >>> y.shape, h.shape, bool((y[:, -1] == h[0]).all())
    ((4, 5, 3), (1, 4, 3), True)
    """
    rows = num_layers * (2 if bidirectional else 1)
    return _compiled_packed(
        x, h_0, c_0, weights, seq_lengths, sizes=(input_size, hidden_size, rows), dropout=dropout,
        bidirectional=bidirectional, precision=precision,
    )  # fmt: skip
