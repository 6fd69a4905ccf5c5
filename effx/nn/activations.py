"""Activation functions, element by element.

Each is compiled as one function. Derivatives come from the formulas. Where a formula may overflow, its
argument is bounded first, so that a branch not selected gives no NaN in the derivative.
"""

import math

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import promote_inexact, to_inexact, where
from effx.array.promotion import as_operand
from effx.array.shaping import normalize_axis
from effx.effects import perform
from effx.errors import DTypeError, ShapeError
from effx.families.special import Erfc
from effx.ir.ops import elementwise as e
from effx.ir.ops.convert import StopGradient
from effx.ir.ops.shape import Slice
from effx.ir.values.scalars import scalar
from effx.transforms.custom.custom_derivatives import custom_jvp
from effx.transforms.jit.jit import jit

__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity",
    "leaky_relu", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign",
    "softplus", "sparse_plus", "sparse_sigmoid", "squareplus", "swish", "tanh",
]  # fmt: skip


@jit
def relu(x: Operand) -> Array:
    """Returns max(x, 0); the derivative at 0 is 0.

    Source: Nair and Hinton, "Rectified linear units improve restricted Boltzmann machines", ICML
    2010.

    Args:
        x: real, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x is no array.

    >>> import numpy as np
    >>> relu(np.array([-1.0, 2.0]))
    Array([0., 2.], dtype=float32)
    """
    x = as_operand(x)
    return where(x <= 0, 0, x)


@jit
def relu6(x: Operand) -> Array:
    """Returns min(max(x, 0), 6); the derivative at 0 and 6 is 0.

    Source: Krizhevsky, "Convolutional deep belief networks on CIFAR-10", 2010.

    Args:
        x: real, of any shape.

    Returns:
        An array of x's shape and dtype; floating for integers.

    Raises:
        DTypeError: x is no array.

    >>> import numpy as np
    >>> relu6(np.array([-1.0, 2.0, 8.0]))
    Array([0., 2., 6.], dtype=float32)
    """
    x = to_inexact(as_operand(x))
    return where(x <= 0, 0, where(x >= 6, 6, x))


@jit
def sigmoid(x: Operand) -> Array:
    """Returns 1 / (1 + exp(-x)).

    Args:
        x: real or complex, of any shape.

    Returns:
        A floating or complex array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> sigmoid(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return perform(e.Logistic(), (to_inexact(x),))


@jit
def silu(x: Operand) -> Array:
    """Returns x * sigmoid(x).

    Source: Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units for neural network function
    approximation in reinforcement learning", 2017.

    Args:
        x: real or complex, of any shape.

    Returns:
        A floating or complex array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> silu(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    x = to_inexact(x)
    return x * perform(e.Logistic(), (x,))


swish = silu


@jit
def softplus(x: Operand) -> Array:
    """Returns log(1 + exp(x)), without overflow.

    Source: Dugas et al., "Incorporating second-order functional knowledge for better option
    pricing", NIPS 2001.

    Args:
        x: real or complex, of any shape.

    Returns:
        A floating or complex array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> softplus(0.0)
    Array(0.6931472, dtype=float32, weak_type=True)
    """
    # log(1 + e^x) = max(x, 0) + log(1 + e^-|x|): both exponents are at most 0, and at 0 the
    # derivatives, taken from the right, 1 and -1/2, add up to the right 1/2.
    x = to_inexact(x)
    if x.type.kind == "c":
        # The principal value: log(1 + (e^(x - m) + e^-m - 1)) + m for the real m = max(Re x, 0), whose derivative cancels.
        real = perform(StopGradient(), (perform(e.Real(), (x,)),))
        largest = where((real > 0) & perform(e.IsFinite(), (real,)), real, 0.0)
        rest = perform(e.Exp(), (x - largest,)) + perform(e.Expm1(), (-largest,))
        return perform(e.Log1p(), (rest,)) + largest
    return where(x >= 0, x, 0.0) + perform(e.Log1p(), (perform(e.Exp(), (-perform(e.Abs(), (x,)),)),))


@jit
def log_sigmoid(x: Operand) -> Array:
    """Returns log(sigmoid(x)), without overflow.

    Args:
        x: real or complex, of any shape.

    Returns:
        A floating or complex array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> log_sigmoid(0.0)
    Array(-0.6931472, dtype=float32, weak_type=True)
    """
    return -softplus(-to_inexact(x))


@custom_jvp
def _soft_sign(x: Array) -> Array:
    return x / (perform(e.Abs(), (x,)) + 1.0)


@_soft_sign.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    size = perform(e.Abs(), (x,))
    if x.type.kind == "c":
        # (dx - y d|x|) / (1 + |x|), of which the real case below leaves dx / (1 + |x|)²; d|x| = Re(conj(x) dx) / |x|.
        along = perform(e.Real(), (perform(e.Conj(), (x,)) * dx,)) / where(size == 0, 1.0, size)
        y = _soft_sign(x)
        return y, (dx - y * along) / (size + 1.0)
    return _soft_sign(x), dx * (size + 1.0) ** -2


@jit
def soft_sign(x: Operand) -> Array:
    """Returns x / (1 + abs(x)).

    Args:
        x: real or complex, of any shape.

    Returns:
        A floating or complex array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> soft_sign(1.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return _soft_sign(to_inexact(x))


@jit
def tanh(x: Operand, /) -> Array:
    """Returns the hyperbolic tangent.

    Args:
        x: real or complex, of any shape.

    Returns:
        A floating or complex array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> tanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return perform(e.Tanh(), (to_inexact(x),))


@jit
def hard_tanh(x: Operand) -> Array:
    """Returns x bounded to [-1, 1]; the derivative at the bounds is 1.

    Args:
        x: real, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x is no array.

    >>> import numpy as np
    >>> hard_tanh(np.array([-2.0, 0.5, 2.0]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    x = as_operand(x)
    return where(x > 1, 1, where(x < -1, -1, x))


@jit
def hard_sigmoid(x: Operand) -> Array:
    """Returns relu6(x + 3) / 6.

    Args:
        x: real, of any shape.

    Returns:
        A floating array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> hard_sigmoid(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return relu6(to_inexact(x) + 3.0) / 6.0


@jit
def hard_silu(x: Operand) -> Array:
    """Returns x * hard_sigmoid(x).

    Source: Howard et al., "Searching for MobileNetV3", ICCV 2019.

    Args:
        x: real, of any shape.

    Returns:
        A floating array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> hard_silu(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    x = to_inexact(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@jit
def mish(x: Operand) -> Array:
    """Returns x * tanh(softplus(x)).

    Source: Misra, "Mish: a self regularized non-monotonic activation function", BMVC 2020.

    Args:
        x: real or complex, of any shape.

    Returns:
        A floating or complex array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> mish(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    x = to_inexact(x)
    return x * perform(e.Tanh(), (softplus(x),))


@jit
def selu(x: Operand) -> Array:
    """Returns scaled exponential linear units: scale * elu(x, alpha) with fixed constants.

    Source: Klambauer et al., "Self-normalizing neural networks", NIPS 2017.

    Args:
        x: real, of any shape.

    Returns:
        A floating array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> import numpy as np
    >>> selu(np.array([-1.0, 1.0]))
    Array([-1.1113307,  1.050701 ], dtype=float32)
    """
    # The constants solve the fixed-point equations of section 2 for mean 0 and variance 1.
    return elu(x, 1.6732632423543772) * 1.0507009873554805


@jit
def elu(x: Operand, alpha: Operand = 1.0) -> Array:
    """Returns x where x is positive, else alpha * (exp(x) - 1).

    Source: Clevert, Unterthiner, Hochreiter, "Fast and accurate deep network learning by exponential
    linear units", ICLR 2016.

    Args:
        x: real, of any shape.
        alpha: broadcasts to x.

    Returns:
        A floating array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> elu(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    x = to_inexact(x)
    positive = x > 0
    return where(positive, x, alpha * perform(e.Expm1(), (where(positive, 0.0, x),)))


@jit
def celu(x: Operand, alpha: Operand = 1.0) -> Array:
    """Returns x where x is positive, else alpha * (exp(x / alpha) - 1): smooth at 0 for any alpha.

    Source: Barron, "Continuously differentiable exponential linear units", 2017.

    Args:
        x: real, of any shape.
        alpha: broadcasts to x.

    Returns:
        A floating array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> celu(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    x = to_inexact(x)
    positive = x > 0
    return where(positive, x, alpha * perform(e.Expm1(), (where(positive, 0.0, x) / alpha,)))


@jit
def leaky_relu(x: Operand, negative_slope: Operand = 0.01) -> Array:
    """Returns x where x is not negative, else negative_slope * x.

    Source: Maas, Hannun, Ng, "Rectifier nonlinearities improve neural network acoustic models", 2013.

    Args:
        x: real, of any shape.
        negative_slope: broadcasts to x.

    Returns:
        A floating array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> import numpy as np
    >>> leaky_relu(np.array([-1.0, 1.0]))
    Array([-0.01,  1.  ], dtype=float32)
    """
    x = to_inexact(x)
    return where(x >= 0, x, negative_slope * x)


# The coefficients of twice the cubic in gelu's formula.
_LINEAR = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715 * _LINEAR


def _twice_the_cubic(x: Array) -> tuple[Array, Array]:
    """Returns twice the cubic in gelu's formula, and its slope."""
    # Beyond |x| = 20 gates of it are 0 or 1 in any dtype, while the square may overflow.
    near = perform(e.Clamp(), (scalar(-20.0, x.dtype), x, scalar(20.0, x.dtype)))
    square = perform(e.Square(), (near,))
    return near * (_LINEAR + _CUBIC * square), _LINEAR + (3 * _CUBIC) * square


@custom_jvp
def _gelu_by_tanh(x: Array) -> Array:
    # (1 + tanh(u)) / 2 is the logistic function of 2 u, which does not cancel where x is negative.
    return x * perform(e.Logistic(), (_twice_the_cubic(x)[0],))


@_gelu_by_tanh.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    cubic, slope = _twice_the_cubic(x)
    # The gate and what is left of 1 by one exponential, neither of them by a difference.
    positive = cubic >= 0
    small = perform(e.Exp(), (where(positive, -cubic, cubic),))
    larger = 1.0 / (1.0 + small)
    smaller = small * larger
    gate, rest = where(positive, larger, smaller), where(positive, smaller, larger)
    # The gates first: times x the slope may overflow.
    return x * gate, dx * (gate + x * (gate * rest) * slope)


@jit(static_argnames=("approximate",))
def gelu(x: Operand, approximate: bool = True) -> Array:
    """Returns x times the probability that a standard normal number is below x.

    Source: Hendrycks and Gimpel, "Gaussian error linear units (GELUs)", 2016.

    Args:
        x: real, of any shape; also complex for the formula with tanh.
        approximate: True for the formula with tanh, False for the one with the error function.

    Returns:
        A floating or complex array of x's shape.

    Raises:
        DTypeError: x is no array, or complex for the error function.

    >>> gelu(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    x = to_inexact(x)
    if approximate and x.type.kind == "c":
        return x * perform(e.Logistic(), (x * (_LINEAR + _CUBIC * (x * x)),))
    if approximate:
        return _gelu_by_tanh(x)
    return 0.5 * x * perform(Erfc(), (x * -math.sqrt(0.5),))


def _root_with_direction(x: Array, b: Array) -> tuple[Array, Array]:
    """Returns sqrt(x² + b) without overflow of the square, and x divided by it."""
    largest = math.sqrt(float(dtypes.finfo(x.dtype).max)) / 4
    size = perform(e.Abs(), (x,))
    far = size > largest
    near = where(far, 0.0, x)
    root = perform(e.Sqrt(), (near * near + b,))
    direction = near / where(root == 0.0, 1.0, root)
    return where(far, size, root), where(far, perform(e.Sign(), (x,)), direction)


@custom_jvp
def _squareplus(x: Array, b: Array) -> Array:
    root, _ = _root_with_direction(x, b)
    # For negative x the sum cancels; times its conjugate root + |x| it is b.
    return where(x < 0, b / (2.0 * (root + perform(e.Abs(), (x,)))), 0.5 * (x + root))


@custom_jvp
def _squareplus_slope(x: Array, b: Array) -> Array:
    # squareplus divided by the root.
    root, direction = _root_with_direction(x, b)
    below = b / root / (2.0 * (root + perform(e.Abs(), (x,))))
    return where(x < 0, below, 0.5 + 0.5 * direction)


_squareplus.defjvps(
    lambda dx, y, x, b: dx * _squareplus_slope(x, b),
    lambda db, y, x, b: db * (0.25 / _root_with_direction(x, b)[0]),
)


@_squareplus_slope.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, b), (dx, db) = primals, tangents
    root, direction = _root_with_direction(x, b)
    change = dx * (0.5 * b / root) - db * (0.25 * direction)
    return _squareplus_slope(x, b), change * root**-2


@jit
def squareplus(x: Operand, b: Operand = 4) -> Array:
    """Returns (x + sqrt(x^2 + b)) / 2, a smooth relu without exponentials.

    Source: Barron, "Squareplus: a softplus-like algebraic rectifier", 2021.

    Args:
        x: real, of any shape.
        b: the smoothness at 0; broadcasts to x.

    Returns:
        A floating array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> squareplus(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return _squareplus(*promote_inexact(x, b))


@jit(static_argnames=("axis",))
def glu(x: Operand, axis: int = -1) -> Array:
    """Returns the first half of x along an axis, times the sigmoid of the second half.

    Source: Dauphin et al., "Language modeling with gated convolutional networks", ICML 2017.

    Args:
        x: real or complex, of an even size along the axis.
        axis: the axis; negative ones count from the end.

    Returns:
        A floating or complex array of half the size along the axis.

    Raises:
        ShapeError: the axis is out of range, or its size is odd.

    >>> import numpy as np
    >>> glu(np.array([3.0, 0.0]))
    Array([1.5], dtype=float32)
    """
    x = to_inexact(x)
    t = x.type
    resolved_axis = normalize_axis(axis, t.ndim, t)
    n = t.shape[resolved_axis]
    if n % 2:
        raise ShapeError(f"glu: axis {resolved_axis} of {t!r} has the odd size {n}")
    ones = (1,) * t.ndim
    middle = tuple([n // 2 if i == resolved_axis else m for i, m in enumerate(t.shape)])
    second = tuple([n // 2 if i == resolved_axis else 0 for i in range(t.ndim)])
    first, gate = Slice((0,) * t.ndim, middle, ones)(x), Slice(second, t.shape, ones)(x)
    return first * perform(e.Logistic(), (gate,))


def identity(x: Operand) -> Array:
    """Returns its operand.

    Args:
        x: of any dtype and shape.

    Returns:
        The operand as an array.

    Raises:
        DTypeError: x is no array.

    >>> identity(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return as_operand(x)


@jit
def sparse_plus(x: Operand) -> Array:
    """Returns 0 up to -1, x from 1 on, and (x + 1)^2 / 4 between: a smooth relu that is exactly 0 somewhere.

    Source: Blondel, Martins and Niculae, "Learning with Fenchel-Young losses", 2020.

    Args:
        x: real, of any shape.

    Returns:
        A floating array of x's shape.

    Raises:
        DTypeError: x is no array, or complex.

    >>> import numpy as np
    >>> sparse_plus(np.array([-2.0, 0.0, 3.0]))
    Array([0.  , 0.25, 3.  ], dtype=float32)
    """
    x = to_inexact(x)
    if x.type.kind == "c":
        raise DTypeError(f"sparse_plus: takes real numbers, got {x.type!r}")
    inner = perform(e.Clamp(), (scalar(-1.0, x.dtype), x, scalar(1.0, x.dtype)))
    return where(x <= -1, 0.0, where(x >= 1, x, (inner + 1.0) ** 2 / 4))


@jit
def sparse_sigmoid(x: Operand) -> Array:
    """Returns 0 up to -1, 1 from 1 on, and (x + 1) / 2 between: the derivative of `sparse_plus`.

    Args:
        x: real, of any shape.

    Returns:
        A floating array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> import numpy as np
    >>> sparse_sigmoid(np.array([-2.0, 0.0, 3.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x = to_inexact(x)
    return where(x <= -1, 0.0, where(x >= 1, 1.0, (x + 1.0) / 2))
