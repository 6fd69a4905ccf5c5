"""Layers of neural networks as pairs of functions, and ways to compose them.

A layer is a pair `(init_fun, apply_fun)`. `init_fun(rng, input_shape)` takes a key and the shape of an input, and returns
the shape of the output and the parameters, a pytree. `apply_fun(params, inputs, **kwargs)` takes such parameters and an
input, and returns the output; layers that draw random numbers need the keyword `rng`, a key. Shapes have the axis of a
batch, whose size may be -1 to `init_fun`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from effx import lax, random
from effx.array import Array, Operand
from effx.array.arithmetic import where
from effx.array.promotion import as_operand
from effx.array.shaping import concatenate, expand_dims, normalize_axis, reshape
from effx.errors import ShapeError, TransformError
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.types import Shape
from effx.ir.values.scalars import scalar
from effx.lazy import list_names
from effx.nn import (
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    selu,
    sigmoid,
    softmax,
    softplus,
    standardize,
)  # fmt: skip
from effx.nn.initializers import Initializer, glorot_normal, normal, ones, zeros
from effx.numpy.elementwise import exp, tanh
from effx.numpy.linear import dot
from effx.tree.registry import PyTree

__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout", "Elu", "Exp",
    "FanInConcat", "FanInSum", "FanOut", "Flatten", "Gelu", "GeneralConv", "GeneralConvTranspose", "Identity",
    "LeakyRelu", "LogSoftmax", "MaxPool", "Relu", "Selu", "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh",
    "elementwise", "glorot", "logsoftmax", "parallel", "randn", "serial", "shape_dependent",
]  # fmt: skip
__dir__ = list_names(__all__)

InitFun = Callable[[PyTree, PyTree], tuple[PyTree, PyTree]]
ApplyFun = Callable[..., PyTree]
Layer = tuple[InitFun, ApplyFun]
Padding = str | Sequence[tuple[int, int]]
Numbers = tuple[str, str, str]

GLOROT, NORMAL, SMALL = glorot_normal(), normal(), normal(1e-6)

glorot = glorot_normal
randn = normal
logsoftmax = log_softmax


def Dense(out_dim: int, W_init: Initializer = GLOROT, b_init: Initializer = NORMAL) -> Layer:
    """A layer that multiplies by a matrix and adds a vector.

    Args:
        out_dim: the size of the output's last axis.
        W_init, b_init: initializers of the matrix `[in, out_dim]` and of the vector.

    >>> init_fun, apply_fun = Dense(3)
    >>> shape, (W, b) = init_fun(random.PRNGKey(0), (-1, 2))
    >>> shape, W.shape, b.shape
    ((-1, 3), (2, 3), (3,))
    """

    def init_fun(rng: Operand, input_shape: Shape) -> tuple[Shape, PyTree]:
        output_shape = (*input_shape[:-1], out_dim)
        first, second = random.split(rng)
        return output_shape, (W_init(first, (input_shape[-1], out_dim)), b_init(second, (out_dim,)))

    def apply_fun(params: PyTree, inputs: Operand, **kwargs: PyTree) -> Array:
        W, b = params
        result: Array = dot(inputs, W) + b
        return result

    return init_fun, apply_fun


def _shape_by_letters(spec: str, filter_shape: Sequence[int], of: dict[str, int]) -> Shape:
    """Returns a shape by an order of axes: those with a letter of their own, and the others from `filter_shape`."""
    rest = iter(filter_shape)
    return tuple([of[c] if c in of else next(rest) for c in spec])


def _check_dimension_numbers(
    function_name: str, dimension_numbers: Numbers, filter_shape: Sequence[int], input_shape: Shape
) -> None:
    n = len(input_shape)
    if len(filter_shape) != n - 2 or any(len(spec) != n for spec in dimension_numbers):
        raise ShapeError(
            f"{function_name}: filter_shape {tuple(filter_shape)} and dimension_numbers {dimension_numbers} "
            f"do not fit inputs of {n} axes"
        )


def _convolution(
    function_name: str,
    dimension_numbers: Numbers,
    out_chan: int,
    filter_shape: Sequence[int],
    padding: Padding,
    W_init: Initializer | None,
    b_init: Initializer,
    output_shape: Callable[[Shape, Shape], Shape],
    apply: Callable[[PyTree, Array], Array],
) -> Layer:
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    initial = W_init or glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))

    def init_fun(rng: Operand, input_shape: Shape) -> tuple[Shape, PyTree]:
        _check_dimension_numbers(function_name, dimension_numbers, filter_shape, input_shape)
        kernel = _shape_by_letters(
            rhs_spec, filter_shape, {"O": out_chan, "I": input_shape[lhs_spec.index("C")]}
        )
        bias = tuple([out_chan if c == "C" else 1 for c in out_spec])
        # Windows move along the same axes whatever the size of the batch.
        known = tuple([1 if n == -1 else n for n in input_shape])
        shape = list(output_shape(known, kernel))
        shape[out_spec.index("N")] = input_shape[lhs_spec.index("N")]
        first, second = random.split(rng)
        return tuple(shape), (initial(first, kernel), b_init(second, bias))

    def apply_fun(params: PyTree, inputs: Operand, **kwargs: PyTree) -> Array:
        W, b = params
        result: Array = apply(W, as_operand(inputs, function_name)) + b
        return result

    return init_fun, apply_fun


def GeneralConv(
    dimension_numbers: Numbers,
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    W_init: Initializer | None = None,
    b_init: Initializer = SMALL,
) -> Layer:
    """A layer that convolves, with axes in any order.

    Args:
        dimension_numbers: the axes of inputs, kernel and outputs, such as `("NHWC", "HWIO", "NHWC")`.
        out_chan: how many features the output has.
        filter_shape: the window's sizes.
        strides: by how much it moves; 1 by default.
        padding: "VALID", "SAME", or a pair of amounts for each axis of the window.
        W_init, b_init: initializers of the kernel, by default Glorot's, and of the numbers that are added.

    Raises:
        ShapeError: from `init_fun`, where window and orders do not fit the input.

    >>> init_fun, apply_fun = GeneralConv(("NCH", "OIH", "NCH"), 4, (3,))
    >>> init_fun(random.PRNGKey(0), (2, 5, 9))[0]
    (2, 4, 7)
    """
    moves = tuple(strides or (1,) * len(filter_shape))

    def output_shape(inputs: Shape, kernel: Shape) -> Shape:
        return lax.conv_general_shape_tuple(inputs, kernel, moves, padding, dimension_numbers)

    def apply(W: PyTree, x: Array) -> Array:
        return lax.conv_general_dilated(x, W, moves, padding, dimension_numbers=dimension_numbers)

    return _convolution(
        "GeneralConv", dimension_numbers, out_chan, filter_shape, padding, W_init, b_init, output_shape, apply
    )  # fmt: skip


def Conv(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    W_init: Initializer | None = None,
    b_init: Initializer = SMALL,
) -> Layer:
    """`GeneralConv` of images `[n, height, width, features]`.

    >>> Conv(4, (3, 3), padding="SAME")[0](random.PRNGKey(0), (-1, 8, 8, 2))[0]
    (-1, 8, 8, 4)
    """
    return GeneralConv(("NHWC", "HWIO", "NHWC"), out_chan, filter_shape, strides, padding, W_init, b_init)


def GeneralConvTranspose(
    dimension_numbers: Numbers,
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    W_init: Initializer | None = None,
    b_init: Initializer = SMALL,
) -> Layer:
    """A layer that convolves with fractional strides, as a convolution's derivative does: the output is larger.

    Arguments as for `GeneralConv`.

    >>> init_fun, apply_fun = GeneralConvTranspose(("NHC", "HIO", "NHC"), 4, (3,), (2,))
    >>> init_fun(random.PRNGKey(0), (2, 5, 9))[0]
    (2, 11, 4)
    """
    moves = tuple(strides or (1,) * len(filter_shape))

    def output_shape(inputs: Shape, kernel: Shape) -> Shape:
        return lax.conv_transpose_shape_tuple(inputs, kernel, moves, padding, dimension_numbers)

    def apply(W: PyTree, x: Array) -> Array:
        return lax.conv_transpose(x, W, moves, padding, dimension_numbers=dimension_numbers)

    return _convolution(
        "GeneralConvTranspose", dimension_numbers, out_chan, filter_shape, padding, W_init, b_init, output_shape,
        apply,
    )  # fmt: skip


def ConvTranspose(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    W_init: Initializer | None = None,
    b_init: Initializer = SMALL,
) -> Layer:
    """`GeneralConvTranspose` of images `[n, height, width, features]`.

    >>> ConvTranspose(4, (3, 3), (2, 2), "SAME")[0](random.PRNGKey(0), (1, 8, 8, 2))[0]
    (1, 16, 16, 4)
    """
    return GeneralConvTranspose(
        ("NHWC", "HWIO", "NHWC"), out_chan, filter_shape, strides, padding, W_init, b_init
    )


def Conv1DTranspose(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    W_init: Initializer | None = None,
    b_init: Initializer = SMALL,
) -> Layer:
    """`GeneralConvTranspose` of sequences `[n, length, features]`.

    >>> Conv1DTranspose(4, (3,), (2,), "SAME")[0](random.PRNGKey(0), (1, 8, 2))[0]
    (1, 16, 4)
    """
    return GeneralConvTranspose(
        ("NHC", "HIO", "NHC"), out_chan, filter_shape, strides, padding, W_init, b_init
    )


def BatchNorm(
    axis: int | Sequence[int] = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Initializer = zeros,
    gamma_init: Initializer = ones,
) -> Layer:
    """A layer that gives each feature the mean 0 and the variance 1 over a batch, then a mean and a scale of its own.

    Source: Ioffe and Szegedy, "Batch normalization", 2015.

    Args:
        axis: the axes of the means.
        epsilon: added to the variance.
        center, scale: False to leave out the mean or the scale.
        beta_init, gamma_init: initializers of them.

    >>> init_fun, apply_fun = BatchNorm(axis=0)
    >>> shape, (beta, gamma) = init_fun(random.PRNGKey(0), (-1, 3))
    >>> shape, beta.tolist(), gamma.tolist()
    ((-1, 3), [0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init_fun(rng: Operand, input_shape: Shape) -> tuple[Shape, PyTree]:
        normalized_axes = [normalize_axis(a, len(input_shape)) for a in axes]
        shape = tuple([n for i, n in enumerate(input_shape) if i not in normalized_axes])
        first, second = random.split(rng)
        beta = beta_init(first, shape) if center else ()
        return input_shape, (beta, gamma_init(second, shape) if scale else ())

    def apply_fun(params: PyTree, x: Operand, **kwargs: PyTree) -> Array:
        beta, gamma = params
        inputs = as_operand(x)
        normalized_axes = [normalize_axis(a, inputs.type.ndim, inputs.type) for a in axes]
        z = standardize(inputs, axis=tuple(normalized_axes), epsilon=epsilon)
        if scale:
            z = expand_dims(as_operand(gamma), normalized_axes) * z
        return z + expand_dims(as_operand(beta), normalized_axes) if center else z

    return init_fun, apply_fun


def elementwise(fun: Callable[..., PyTree], **fun_kwargs: PyTree) -> Layer:
    """A layer that applies a function that keeps the shape.

    Args:
        fun: the function.
        **fun_kwargs: keywords for it.

    >>> init_fun, apply_fun = elementwise(leaky_relu, negative_slope=0.5)
    >>> print(apply_fun((), -2.0))
    -1.0
    """

    def init_fun(rng: Operand, input_shape: Shape) -> tuple[Shape, PyTree]:
        return input_shape, ()

    def apply_fun(params: PyTree, inputs: Operand, **kwargs: PyTree) -> PyTree:
        return fun(inputs, **fun_kwargs)

    return init_fun, apply_fun


Tanh = elementwise(tanh)
Relu = elementwise(relu)
Exp = elementwise(exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Elu = elementwise(elu)
LeakyRelu = elementwise(leaky_relu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)


class _PoolReduction(Protocol):
    def __call__(self, x: Array, window: Shape, strides: Shape, padding: Padding) -> Array: ...


def _pool(
    function_name: str,
    reduce: _PoolReduction,
    window_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: Padding,
    spec: str | None,
) -> Layer:
    moves = tuple(strides or (1,) * len(window_shape))
    if len(moves) != len(window_shape):
        raise ShapeError(
            f"{function_name}: strides {moves} must be as many as window_shape {tuple(window_shape)}"
        )
    n = len(window_shape)
    # The axes of the batch and of the features, in the order in which ones go between the window's sizes.
    axis_positions = (0, n + 1) if spec is None else tuple(sorted((spec.index("N"), spec.index("C"))))

    def widened(sizes: Sequence[int], one: int) -> Shape:
        listed = list(sizes)
        for place in axis_positions:
            listed.insert(place, one)
        return tuple(listed)

    window, steps = widened(window_shape, 1), widened(moves, 1)
    pads: Padding = padding
    if not isinstance(padding, str):
        listed = list(padding)
        for axis_position in axis_positions if len(listed) == n else ():
            listed.insert(axis_position, (0, 0))
        pads = listed

    def init_fun(rng: Operand, input_shape: Shape) -> tuple[Shape, PyTree]:
        if len(input_shape) != len(window):
            raise ShapeError(
                f"{function_name}: the window {window} does not fit inputs of {len(input_shape)} axes"
            )
        known = tuple([1 if size == -1 else size for size in input_shape])
        shape = lax.reduce_window_shape_tuple(known, window, steps, pads)
        return tuple([-1 if old == -1 else new for old, new in zip(input_shape, shape, strict=True)]), ()

    def apply_fun(params: PyTree, inputs: Operand, **kwargs: PyTree) -> Array:
        return reduce(as_operand(inputs, function_name), window, steps, pads)

    return init_fun, apply_fun


def _window_sums(x: Array, window: Shape, strides: Shape, padding: Padding) -> Array:
    result: Array = lax.reduce_window(
        x, scalar(0, x.type.dtype, weak=False), lax.add, window, strides, padding
    )
    return result


def _window_extremes(x: Array, window: Shape, strides: Shape, padding: Padding) -> Array:
    lowest = scalar(-math.inf, x.type.dtype, weak=False)
    result: Array = lax.reduce_window(x, lowest, lax.max, window, strides, padding)
    return result


def _window_means(x: Array, window: Shape, strides: Shape, padding: Padding) -> Array:
    one = BroadcastInDim(x.type.shape, ())(scalar(1, x.type.dtype, weak=False))
    return _window_sums(x, window, strides, padding) / _window_sums(one, window, strides, padding)


def MaxPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    spec: str | None = None,
) -> Layer:
    """A layer that takes the largest number in each window.

    Args:
        window_shape: the window's sizes.
        strides: by how much it moves; 1 by default.
        padding: "VALID", "SAME", or a pair of amounts for each axis of the window, or of the input.
        spec: the order of axes, such as "NCHW"; by default the batch is the first and the features are the last.

    Raises:
        ShapeError: lengths differ.

    >>> MaxPool((2, 2), (2, 2))[0](random.PRNGKey(0), (-1, 8, 6, 3))[0]
    (-1, 4, 3, 3)
    """
    return _pool("MaxPool", _window_extremes, window_shape, strides, padding, spec)


def SumPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    spec: str | None = None,
) -> Layer:
    """A layer that adds up the numbers in each window. Arguments as for `MaxPool`.

    >>> import numpy as np
    >>> SumPool((2,))[1]((), np.arange(4.0).reshape(1, 4, 1)).ravel().tolist()
    [1.0, 3.0, 5.0]
    """
    return _pool("SumPool", _window_sums, window_shape, strides, padding, spec)


def AvgPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    spec: str | None = None,
) -> Layer:
    """A layer that takes the mean of the numbers in each window; padding does not count. Arguments as for `MaxPool`.

    >>> import numpy as np
    >>> AvgPool((2,), padding="SAME")[1]((), np.arange(4.0).reshape(1, 4, 1)).ravel().tolist()
    [0.5, 1.5, 2.5, 3.0]
    """
    return _pool("AvgPool", _window_means, window_shape, strides, padding, spec)


def _flatten_layer() -> Layer:
    def init_fun(rng: Operand, input_shape: Shape) -> tuple[Shape, PyTree]:
        return (input_shape[0], math.prod(input_shape[1:])), ()

    def apply_fun(params: PyTree, inputs: Operand, **kwargs: PyTree) -> Array:
        x = as_operand(inputs)
        return reshape(x, (x.type.shape[0], math.prod(x.type.shape[1:])))

    return init_fun, apply_fun


Flatten = _flatten_layer()


def _identity_layer() -> Layer:
    def init_fun(rng: Operand, input_shape: Shape) -> tuple[Shape, PyTree]:
        return input_shape, ()

    def apply_fun(params: PyTree, inputs: PyTree, **kwargs: PyTree) -> PyTree:
        return inputs

    return init_fun, apply_fun


Identity = _identity_layer()


def FanOut(num: int) -> Layer:
    """A layer that gives its input several times, as a list.

    >>> FanOut(2)[0](random.PRNGKey(0), (-1, 3))[0]
    [(-1, 3), (-1, 3)]
    """

    def init_fun(rng: Operand, input_shape: Shape) -> tuple[list[Shape], PyTree]:
        return [input_shape] * num, ()

    def apply_fun(params: PyTree, inputs: PyTree, **kwargs: PyTree) -> list[PyTree]:
        return [inputs] * num

    return init_fun, apply_fun


def _fan_in_sum_layer() -> Layer:
    def init_fun(rng: Operand, input_shape: Sequence[Shape]) -> tuple[Shape, PyTree]:
        return input_shape[0], ()

    def apply_fun(params: PyTree, inputs: Sequence[Array], **kwargs: PyTree) -> Array:
        result = as_operand(inputs[0])
        for x in inputs[1:]:
            result = result + x
        return result

    return init_fun, apply_fun


FanInSum = _fan_in_sum_layer()


def FanInConcat(axis: int = -1) -> Layer:
    """A layer that joins a list of inputs along an axis.

    >>> FanInConcat()[0](random.PRNGKey(0), [(-1, 3), (-1, 2)])[0]
    (-1, 5)
    """

    def init_fun(rng: Operand, input_shape: Sequence[Shape]) -> tuple[Shape, PyTree]:
        first = input_shape[0]
        resolved_axis = normalize_axis(axis, len(first))
        size = sum(shape[resolved_axis] for shape in input_shape)
        return (*first[:resolved_axis], size, *first[resolved_axis + 1 :]), ()

    def apply_fun(params: PyTree, inputs: Sequence[Operand], **kwargs: PyTree) -> Array:
        return concatenate(inputs, axis)

    return init_fun, apply_fun


def Dropout(rate: float, mode: str = "train") -> Layer:
    """A layer that keeps each number with a probability, and divides those that it keeps by it.

    Source: Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", 2014.

    Args:
        rate: the probability that a number is kept.
        mode: "train"; with any other the layer does nothing.

    Raises:
        TransformError: `apply_fun` got no keyword `rng`, a key, though the mode is "train".

    >>> print(Dropout(1.0)[1]((), 2.0, rng=random.PRNGKey(0)))
    2.0
    """

    def init_fun(rng: Operand, input_shape: Shape) -> tuple[Shape, PyTree]:
        return input_shape, ()

    def apply_fun(params: PyTree, inputs: Operand, **kwargs: PyTree) -> PyTree:
        rng = kwargs.get("rng")
        if rng is None:
            raise TransformError(
                "Dropout: apply_fun needs the keyword rng, a key: apply_fun(params, inputs, rng=rng)"
            )
        if mode != "train":
            return inputs
        x = as_operand(inputs)
        return where(random.bernoulli(rng, rate, x.type.shape), x / rate, 0)

    return init_fun, apply_fun


def serial(*layers: Layer) -> Layer:
    """A layer that applies layers one after another.

    Args:
        *layers: pairs of functions.

    Returns:
        A layer whose parameters are the list of theirs.

    >>> init_fun, apply_fun = serial(Dense(4), Relu, Dense(2))
    >>> shape, params = init_fun(random.PRNGKey(0), (-1, 3))
    >>> shape, len(params)
    ((-1, 2), 3)
    """

    def init_fun(rng: Operand, input_shape: PyTree) -> tuple[PyTree, PyTree]:
        params = []
        for init, _ in layers:
            rng, own = random.split(rng)
            input_shape, layer_params = init(own, input_shape)
            params.append(layer_params)
        return input_shape, params

    def apply_fun(params: Sequence[PyTree], inputs: PyTree, **kwargs: PyTree) -> PyTree:
        for (_, apply), own, rng in zip(layers, params, _layer_keys(kwargs, len(layers)), strict=True):
            inputs = apply(own, inputs, **{**kwargs, "rng": rng})
        return inputs

    return init_fun, apply_fun


def _layer_keys(kwargs: dict[str, PyTree], count: int) -> Sequence[PyTree]:
    """Returns a key for each layer, None without one."""
    rng = kwargs.get("rng")
    return [None] * count if rng is None else list(random.split(rng, count))


def parallel(*layers: Layer) -> Layer:
    """A layer that applies each of its layers to an input of its own; see `FanOut` and `FanInSum`.

    Args:
        *layers: pairs of functions.

    Returns:
        A layer of a list of inputs that gives a list of outputs; its parameters are the list of theirs.

    >>> init_fun, apply_fun = serial(FanOut(2), parallel(Dense(4), Identity), FanInConcat())
    >>> init_fun(random.PRNGKey(0), (-1, 3))[0]
    (-1, 7)
    """

    def init_fun(rng: Operand, input_shape: Sequence[PyTree]) -> tuple[list[PyTree], PyTree]:
        keys = random.split(rng, len(layers))
        results = [init(key, shape) for (init, _), key, shape in zip(layers, keys, input_shape, strict=True)]
        return [shape for shape, _ in results], tuple([params for _, params in results])

    def apply_fun(params: Sequence[PyTree], inputs: Sequence[PyTree], **kwargs: PyTree) -> list[PyTree]:
        keys = _layer_keys(kwargs, len(layers))
        return [
            apply(own, x, **{**kwargs, "rng": key})
            for (_, apply), own, x, key in zip(layers, params, inputs, keys, strict=True)
        ]

    return init_fun, apply_fun


def shape_dependent(make_layer: Callable[[PyTree], Layer]) -> Layer:
    """A layer that is made when the shape of its input is known.

    Args:
        make_layer: takes the shape, returns a layer.

    >>> init_fun, apply_fun = shape_dependent(lambda shape: Dense(2 * shape[-1]))
    >>> init_fun(random.PRNGKey(0), (-1, 3))[0]
    (-1, 6)
    """

    def init_fun(rng: Operand, input_shape: PyTree) -> tuple[PyTree, PyTree]:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply_fun(params: PyTree, inputs: PyTree, **kwargs: PyTree) -> PyTree:
        return make_layer(getattr(inputs, "shape", None) or [x.shape for x in inputs])[1](
            params, inputs, **kwargs
        )

    return init_fun, apply_fun
