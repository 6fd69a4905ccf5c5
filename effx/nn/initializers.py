"""Initial values of networks' parameters.

An initializer is a function of a key, a shape and a dtype. Those named after authors (Glorot, He, LeCun)
choose the variance by the number of inputs ("fan in") and outputs ("fan out").
"""

import math
from collections.abc import Callable, Sequence
from typing import Concatenate, Literal, ParamSpec, Protocol, cast

from effx import dtypes, random
from effx.array import Array, Operand
from effx.array.declared import declare_function
from effx.array.promotion import as_operand, broadcast_to, convert
from effx.array.shaping import moveaxis, normalize_axis, reshape
from effx.dtypes import DType, DTypeLike
from effx.errors import ShapeError
from effx.ir.ops import elementwise as e
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.types import Shape, array_type
from effx.ir.values.scalars import scalar
from effx.lazy import list_names
from effx.random.arguments import ShapeLike, check_sizes
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal", "truncated_normal", "uniform", "variance_scaling",
    "zeros",
]  # fmt: skip

__dir__ = list_names(__all__)

COMPLEX, COS, LOG1P, SIN, SQRT = e.Complex(), e.Cos(), e.Log1p(), e.Sin(), e.Sqrt()

P = ParamSpec("P")

Axes = int | Sequence[int]
Mode = Literal["fan_in", "fan_out", "fan_avg", "fan_geo_avg"]
Distribution = Literal["truncated_normal", "normal", "uniform"]

# The standard deviation of a standard normal number truncated to (-2, 2).
TRUNCATED_DEVIATION = 0.87962566103423978
# That by which JAX divides complex normal numbers within a circle of radius 2; the exact one is 0.96196.
TRUNCATED_COMPLEX_DEVIATION = 0.95311164380491208


class Initializer(Protocol):
    """A function that returns initial values of a parameter.

    >>> import effx, effx.numpy as enp
    >>> from effx.nn.initializers import Initializer
    >>> def halves(key, shape, dtype=None):
    ...     return enp.full(shape, 0.5, dtype)
    >>> init: Initializer = halves
    >>> print(init(effx.random.key(0), (2,)))
    [0.5 0.5]
    """

    def __call__(self, key: Operand, shape: ShapeLike, dtype: "DTypeLike | None" = None) -> Array:
        """Returns values of a shape and dtype, drawn with a key."""
        ...


def _resolve_dtype(requested: "DTypeLike | None", default: "DTypeLike | None" = None) -> DType:
    return dtypes.canonicalize(requested if requested is not None else float if default is None else default)


def _make_initializer(
    draw: Callable[[Operand, ShapeLike, DType], Array], default: "DTypeLike | None"
) -> Initializer:
    """Returns the initializer that draws by a function of a key, a shape and a dtype; `default` is the dtype's."""

    def init(key: Operand, shape: ShapeLike, dtype: "DTypeLike | None" = None) -> Array:
        return draw(key, shape, _resolve_dtype(dtype, default))

    return init


def _make_filled(value: Operand, shape: ShapeLike, dtype: DType) -> Array:
    filling = convert(as_operand(value), dtype)
    sizes = check_sizes(shape)
    if filling.type.shape:
        return broadcast_to(filling, sizes)
    return BroadcastInDim(sizes, ())(filling)


def zeros(
    key: Operand, shape: ShapeLike, dtype: "DTypeLike | None" = None, out_sharding: OutSharding = None
) -> Array:
    """Returns zeros; an initializer that does not use its key.

    Args:
        key: not used.
        shape: the result's shape.
        dtype: f32 by default, f64 with `enable_x64`.
        out_sharding: the sharding of the result; by default replicated.

    Returns:
        An array of the shape and dtype.

    Raises:
        ShapeError: it is no shape.

    >>> zeros(random.PRNGKey(0), (2,))
    Array([0., 0.], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, zeros, key, shape, dtype)
    return _make_filled(0, shape, _resolve_dtype(dtype))


def ones(
    key: Operand, shape: ShapeLike, dtype: "DTypeLike | None" = None, out_sharding: OutSharding = None
) -> Array:
    """Returns ones; an initializer that does not use its key.

    Args:
        key: not used.
        shape: the result's shape.
        dtype: f32 by default, f64 with `enable_x64`.
        out_sharding: the sharding of the result; by default replicated.

    Returns:
        An array of the shape and dtype.

    Raises:
        ShapeError: it is no shape.

    >>> ones(random.PRNGKey(0), (2,))
    Array([1., 1.], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, ones, key, shape, dtype)
    return _make_filled(1, shape, _resolve_dtype(dtype))


def constant(value: Operand, dtype: "DTypeLike | None" = None) -> Initializer:
    """Returns an initializer to given values.

    Args:
        value: broadcasts to the requested shapes.
        dtype: the default dtype.

    >>> constant(7.0)(random.PRNGKey(0), (2,))
    Array([7., 7.], dtype=float32)
    """
    return _make_initializer(lambda key, shape, dtype: _make_filled(value, shape, dtype), dtype)


def uniform(scale: float = 1e-2, dtype: "DTypeLike | None" = None) -> Initializer:
    """Returns an initializer to numbers that are uniform in [0, scale).

    Args:
        scale: the upper bound.
        dtype: the default dtype.

    >>> uniform(10.0)(random.PRNGKey(0), (2,))
    Array([9.47667 , 9.785799], dtype=float32)
    """
    return _make_initializer(
        lambda key, shape, dtype: _scale_inexact(random.uniform(key, shape, dtype), scale), dtype
    )


def normal(stddev: float = 1e-2, dtype: "DTypeLike | None" = None) -> Initializer:
    """Returns an initializer to normal numbers of mean 0.

    Args:
        stddev: their standard deviation.
        dtype: the default dtype.

    >>> normal(1.0)(random.PRNGKey(0), (2,))
    Array([1.6226422, 2.0252647], dtype=float32)
    """
    return _make_initializer(
        lambda key, shape, dtype: _scale_inexact(random.normal(key, shape, dtype), stddev), dtype
    )


def truncated_normal(
    stddev: float = 1e-2, dtype: "DTypeLike | None" = None, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """Returns an initializer to normal numbers between two bounds.

    Args:
        stddev: the standard deviation before truncation.
        dtype: the default dtype.
        lower, upper: the bounds, in standard deviations.

    >>> truncated_normal(1.0)(random.PRNGKey(0), (2,))
    Array([1.4559592, 1.7147487], dtype=float32)
    """
    return _make_initializer(
        lambda key, shape, dtype: _scale_inexact(
            random.truncated_normal(key, lower, upper, shape, dtype), stddev
        ),
        dtype,
    )


def _scale_inexact(x: Array, factor: float) -> Array:
    return x * scalar(float(factor), x.type.dtype)


def _fan_in_and_out(
    shape: Sequence[int], in_axis: Axes, out_axis: Axes, batch_axis: Axes
) -> tuple[float, float]:
    """Returns the numbers of inputs and outputs of one unit, times the receptive field's size."""
    t = array_type(dtypes.float32, tuple(shape))
    if t.ndim < 2 and in_axis == -2 and out_axis == -1:
        raise ShapeError(
            f"variance_scaling: shape {list(shape)} has no axis of inputs and one of outputs; give in_axis and out_axis"
        )

    def size(axes: Axes) -> int:
        total = 1
        for axis in axes if isinstance(axes, Sequence) else (axes,):
            total *= t.shape[normalize_axis(axis, t.ndim)]
        return total

    inputs, outputs = size(in_axis), size(out_axis)
    field = t.size / max(inputs * outputs * size(batch_axis), 1)
    return inputs * field, outputs * field


def variance_scaling(
    scale: float,
    mode: Mode,
    distribution: Distribution,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: "DTypeLike | None" = None,
) -> Initializer:
    """Returns an initializer to numbers of mean 0 and variance scale / n.

    Args:
        scale: the factor.
        mode: the meaning of n: "fan_in" (inputs), "fan_out" (outputs), "fan_avg" (their mean) or
            "fan_geo_avg" (their geometric mean).
        distribution: "truncated_normal" (at two standard deviations), "normal" or "uniform"; of complex numbers, within
            a circle.
        in_axis, out_axis: the weights' axes, or several, of inputs and outputs. Further axes belong
            to the receptive field of a convolution.
        batch_axis: axes that are neither.
        dtype: the default dtype.

    Raises:
        ShapeError: `mode` or `distribution` is unknown, or, when called, axes do not fit the shape.

    >>> variance_scaling(1.0, "fan_in", "normal")(random.PRNGKey(0), (4, 2)).shape
    (4, 2)
    """
    if mode not in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"):
        raise ShapeError(
            f"variance_scaling: mode must be fan_in, fan_out, fan_avg or fan_geo_avg, got {mode!r}"
        )
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ShapeError(
            f"variance_scaling: distribution must be truncated_normal, normal or uniform, got {distribution!r}"
        )

    def draw(key: Operand, shape: ShapeLike, dtype: DType) -> Array:
        sizes = check_sizes(shape)
        inputs, outputs = _fan_in_and_out(sizes, in_axis, out_axis, batch_axis)
        n = {
            "fan_in": inputs,
            "fan_out": outputs,
            "fan_avg": (inputs + outputs) / 2,
            "fan_geo_avg": math.sqrt(inputs * outputs),
        }[mode]
        deviation = math.sqrt(scale / n) if n else 0.0  # without inputs the result is empty
        if distribution == "normal":
            return _scale_inexact(random.normal(key, sizes, dtype), deviation)
        if dtypes.is_complex(dtype):
            return _draw_on_disc(key, sizes, dtype, distribution == "uniform", deviation)
        if distribution == "uniform":
            # A uniform number in [-a, a) has the variance a^2 / 3.
            return _scale_inexact(random.uniform(key, sizes, dtype, -1.0, 1.0), math.sqrt(3) * deviation)
        samples = random.truncated_normal(key, -2.0, 2.0, sizes, dtype)
        return _scale_inexact(samples, deviation / TRUNCATED_DEVIATION)

    return _make_initializer(draw, dtype)


def _draw_on_disc(key: Operand, shape: Shape, dtype: DType, is_uniform: bool, deviation: float) -> Array:
    """Draws complex numbers of mean 0, uniform on a disc or normal within two standard deviations."""
    radii, angles = random.split(key)
    u = random.uniform(radii, shape, dtypes.real_dtype(dtype))
    angle = random.uniform(angles, shape, u.type.dtype) * (2 * math.pi)
    if is_uniform:
        # The mean of the squares is half of that of the radius.
        radius = SQRT(u) * (math.sqrt(2) * deviation)
    else:
        radius = SQRT(-LOG1P(u * math.expm1(-4.0))) * (deviation / TRUNCATED_COMPLEX_DEVIATION)
    return COMPLEX(radius * COS(angle), radius * SIN(angle))


def orthogonal(scale: Operand = 1.0, column_axis: int = -1, dtype: "DTypeLike | None" = None) -> Initializer:
    """Returns an initializer to orthogonal matrices times a number.

    Source: Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning", 2014.

    Args:
        scale: the factor.
        column_axis: the weights' axis that counts the columns; all others together count the rows.
        dtype: the default dtype.

    Raises:
        ShapeError: when called, with fewer than two axes.

    >>> orthogonal()(random.PRNGKey(0), (2, 3)).shape
    (2, 3)
    """

    def draw(key: Operand, shape: ShapeLike, dtype: DType) -> Array:
        sizes = check_sizes(shape)
        if len(sizes) < 2:
            raise ShapeError(f"orthogonal: weights must have at least 2 axes, got shape {list(sizes)}")
        axis = normalize_axis(column_axis, len(sizes))
        rest = sizes[:axis] + sizes[axis + 1 :]
        orthogonal_rows = random.orthogonal(key, math.prod(rest), (), dtype, sizes[axis])
        weights = moveaxis(reshape(orthogonal_rows, (*rest, sizes[axis])), -1, axis)
        return convert(as_operand(scale), dtype) * weights

    return _make_initializer(draw, dtype)


def delta_orthogonal(
    scale: Operand = 1.0, column_axis: int = -1, dtype: "DTypeLike | None" = None
) -> Initializer:
    """Returns an initializer to convolutions that are an orthogonal matrix at the middle, and zeros elsewhere.

    Source: Xiao, Bahri, Sohl-Dickstein, Schoenholz and Pennington, "Dynamical isometry and a mean field theory of
    CNNs", 2018.

    Args:
        scale: the factor.
        column_axis: the axis of the matrix that counts the columns.
        dtype: the default dtype.

    Raises:
        ShapeError: when called, unless the weights are `[*window, inputs, outputs]` with a window of one to three
            axes and no fewer outputs than inputs.

    >>> delta_orthogonal()(random.PRNGKey(0), (3, 2, 2))[0].tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """

    def draw(key: Operand, shape: ShapeLike, dtype: DType) -> Array:
        sizes = check_sizes(shape)
        if len(sizes) not in (3, 4, 5) or sizes[-1] < sizes[-2]:
            raise ShapeError(
                f"delta_orthogonal: weights must be [*window, inputs, outputs] with 1 to 3 window axes and no fewer "
                f"outputs than inputs, got shape {list(sizes)}"
            )
        matrix = orthogonal(scale, column_axis, dtype)(key, sizes[-2:])
        middle = tuple([(n - 1) // 2 for n in sizes[:-2]])
        return BroadcastInDim(sizes, ())(scalar(0, dtype, False)).at[middle].set(matrix)

    return _make_initializer(draw, dtype)


GLOROT = """Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks",
AISTATS 2010."""
HE = 'He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV 2015.'
LECUN = 'LeCun, Bottou, Orr, Müller, "Efficient backprop", 1998.'


def _declare_scaling(
    make: Callable[Concatenate[float, Mode, Distribution, P], Initializer],
    name: str,
    scale: float,
    mode: Mode,
    distribution: Distribution,
    variance: str,
    source: str,
) -> Callable[P, Initializer]:
    """Declares the function that scales by the number of inputs or outputs as an author advises.

    Args:
        make: `variance_scaling`.
        name: the function's.
        scale, mode, distribution: of `make`.
        variance: the variance that they mean, as a formula.
        source: where the author says so.
    """
    documentation = f"""Returns an initializer to {distribution.replace("_", " ")} numbers of mean 0 and variance {variance}.

Source: {source}

Args:
    in_axis, out_axis: the weights' axes, or several, of inputs and outputs.
    batch_axis: axes that are neither, nor belong to a receptive field.
    dtype: the default dtype.

>>> {name}()(random.PRNGKey(0), (4, 2)).shape
(4, 2)
"""
    annotations = {
        "in_axis": Axes, "out_axis": Axes, "batch_axis": Axes, "dtype": "DTypeLike | None", "return": Initializer,
    }  # fmt: skip
    act: Callable[..., Initializer] = make
    function = declare_function(
        lambda in_axis=-2, out_axis=-1, batch_axis=(), dtype=None: act(
            scale, mode, distribution, in_axis, out_axis, batch_axis, dtype
        ),
        name,
        annotations,
        documentation,
    )
    return cast("Callable[P, Initializer]", function)


glorot_normal = _declare_scaling(
    variance_scaling, "glorot_normal", 1.0, "fan_avg", "truncated_normal", "2 / (inputs + outputs)", GLOROT
)
glorot_uniform = _declare_scaling(
    variance_scaling, "glorot_uniform", 1.0, "fan_avg", "uniform", "2 / (inputs + outputs)", GLOROT
)
he_normal = _declare_scaling(
    variance_scaling, "he_normal", 2.0, "fan_in", "truncated_normal", "2 / inputs", HE
)
he_uniform = _declare_scaling(variance_scaling, "he_uniform", 2.0, "fan_in", "uniform", "2 / inputs", HE)
lecun_normal = _declare_scaling(
    variance_scaling, "lecun_normal", 1.0, "fan_in", "truncated_normal", "1 / inputs", LECUN
)
lecun_uniform = _declare_scaling(
    variance_scaling, "lecun_uniform", 1.0, "fan_in", "uniform", "1 / inputs", LECUN
)

xavier_normal = glorot_normal
xavier_uniform = glorot_uniform
kaiming_normal = he_normal
kaiming_uniform = he_uniform
