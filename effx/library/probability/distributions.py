"""Distributions of one number or label each, independent over the axes of their parameters."""

import math
from abc import abstractmethod
from typing import Self

import attrs

import effx.numpy as enp
from effx import Array, nn, random, tree
from effx.errors import ShapeError
from effx.ir.values.array import Operand

__all__ = [
    "Bernoulli",
    "Categorical",
    "Cauchy",
    "Distribution",
    "Exponential",
    "HalfCauchy",
    "HalfNormal",
    "Laplace",
    "LogNormal",
    "Normal",
    "Uniform",
]


def _to_array(x: Operand) -> Array:
    array = enp.asarray(x)
    return array if array.type.kind in "fc" else array.astype(enp.float32)


class Distribution:
    """A distribution; a pytree of its parameters, which broadcast against each other.

    Attributes:
        event_axes: how many axes at the end of the parameters belong to one draw.
        support: the values that have a density: "real", "positive", "unit" (between `low` and `high`) or "label".

    >>> import effx
    >>> from effx.library.probability import Distribution, Normal
    >>> x = Normal(effx.numpy.zeros(3), 1.0)
    >>> isinstance(x, Distribution), x.shape, x.sample(effx.random.key(0)).shape, x.support
    (True, (3,), (3,), 'real')
    """

    __slots__ = ()
    event_axes = 0
    support = "real"

    @abstractmethod
    def sample(self, key: Array) -> Array:
        """Draws one value for each element of the parameters.

        Args:
            key: u32[2].
        """

    @abstractmethod
    def log_prob(self, x: Operand) -> Array:
        """Returns the logarithm of the density (or probability) at x, element by element.

        It is minus infinity outside the support, and NaN where x is NaN.
        """

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a draw: the broadcast shape of the parameters, without the event's axes.

        Raises:
            ShapeError: the parameters do not broadcast, or have too few axes.
        """
        shapes = [enp.shape(x) for x in tree.leaves(self)]
        full_shape = enp.broadcast_shapes(*shapes)
        if len(full_shape) < self.event_axes:
            raise ShapeError(
                f"{type(self).__name__}: parameters need an axis for one draw, got shape {list(full_shape)}"
            )
        return full_shape[: len(full_shape) - self.event_axes]

    def expand(self, shape: tuple[int, ...]) -> Self:
        """Returns the distribution with draws of a larger shape, to which its own broadcasts, and parameters of one dtype.

        Raises:
            ShapeError: it does not.
        """
        own = self.shape
        if len(own) > len(shape) or any(
            [a not in (1, b) for a, b in zip(own[::-1], shape[::-1], strict=False)]
        ):
            raise ShapeError(f"expand: draws of shape {own} do not broadcast to {shape}")
        leaves, structure = tree.flatten(self)
        dtype = enp.result_type(*leaves)
        wide = [
            enp.broadcast_to(x, (*shape, *x.shape[x.ndim - self.event_axes :])).astype(dtype) for x in leaves
        ]
        result: Self = tree.unflatten(structure, wide)
        return result


@attrs.frozen
class Normal(Distribution):
    """The normal distribution: mean `loc`, standard deviation `scale`.

    >>> import effx.numpy as enp
    >>> print(f"{Normal(0.0, 2.0).log_prob(enp.array(1.0)):.4f}")
    -1.7371
    """

    loc: Array = attrs.field(default=0.0, converter=_to_array)
    scale: Array = attrs.field(default=1.0, converter=_to_array)

    def sample(self, key: Array) -> Array:
        """Draws loc + scale z."""
        return self.loc + self.scale * random.normal(key, self.shape, self.loc.dtype)

    def log_prob(self, x: Operand) -> Array:
        """-z²/2 - log(scale √2π)."""
        z = (x - self.loc) / self.scale
        return -0.5 * z * z - enp.log(self.scale) - 0.5 * math.log(2 * math.pi)


@attrs.frozen
class LogNormal(Distribution):
    """The exponential of a normal draw with mean `loc` and standard deviation `scale`.

    >>> import effx.numpy as enp
    >>> from effx.library.probability import LogNormal, Normal
    >>> print(LogNormal(0.0, 1.0).log_prob(1.0) == Normal(0.0, 1.0).log_prob(0.0), LogNormal(0.0, 1.0).log_prob(-1.0))
    True -inf
    """

    loc: Array = attrs.field(default=0.0, converter=_to_array)
    scale: Array = attrs.field(default=1.0, converter=_to_array)
    support = "positive"

    def sample(self, key: Array) -> Array:
        """Draws exp z for a normal z."""
        return enp.exp(Normal(self.loc, self.scale).sample(key))

    def log_prob(self, x: Operand) -> Array:
        """The normal density at log x, times 1/x, and zero at 0 and below."""
        x = enp.asarray(x)
        log_x = enp.log(enp.where(x <= 0, 1.0, x))
        return enp.where(x <= 0, -enp.inf, Normal(self.loc, self.scale).log_prob(log_x) - log_x)


@attrs.frozen
class HalfNormal(Distribution):
    """|z| of a normal z with mean 0 and standard deviation `scale`.

    >>> import effx.numpy as enp
    >>> from effx.library.probability import HalfNormal, Normal
    >>> x = enp.array([1.0, -1.0])
    >>> print(enp.exp(HalfNormal(1.0).log_prob(x) - Normal(0.0, 1.0).log_prob(x)))
    [2. 0.]
    """

    scale: Array = attrs.field(default=1.0, converter=_to_array)
    support = "positive"

    def sample(self, key: Array) -> Array:
        """Draws |scale z|."""
        return abs(self.scale * random.normal(key, self.shape, self.scale.dtype))

    def log_prob(self, x: Operand) -> Array:
        """Twice the normal density, and zero below 0."""
        inside = Normal(enp.zeros_like(self.scale), self.scale).log_prob(x) + math.log(2)
        return enp.where(enp.asarray(x) < 0, -enp.inf, inside)


@attrs.frozen
class Cauchy(Distribution):
    """The Cauchy distribution around `loc` of half width `scale`.

    >>> import effx.numpy as enp
    >>> from effx.library.probability import Cauchy
    >>> x = Cauchy(loc=1.0, scale=2.0)
    >>> print(f"{enp.exp(x.log_prob(1.0)) * enp.pi:.2f} {enp.exp(x.log_prob(3.0)) * enp.pi:.2f}")
    0.50 0.25
    """

    loc: Array = attrs.field(default=0.0, converter=_to_array)
    scale: Array = attrs.field(default=1.0, converter=_to_array)

    def sample(self, key: Array) -> Array:
        """Draws loc + scale z."""
        return self.loc + self.scale * random.cauchy(key, self.shape, self.loc.dtype)

    def log_prob(self, x: Operand) -> Array:
        """-log(π scale (1 + z²))."""
        z = (x - self.loc) / self.scale
        return -enp.log1p(z * z) - enp.log(self.scale) - math.log(math.pi)


@attrs.frozen
class HalfCauchy(Distribution):
    """|z| of a Cauchy z around 0 of half width `scale`.

    >>> import effx.numpy as enp
    >>> from effx.library.probability import Cauchy, HalfCauchy
    >>> x = enp.array([1.0, -1.0])
    >>> print(enp.exp(HalfCauchy(1.0).log_prob(x)) / enp.exp(Cauchy(0.0, 1.0).log_prob(x)))
    [2. 0.]
    """

    scale: Array = attrs.field(default=1.0, converter=_to_array)
    support = "positive"

    def sample(self, key: Array) -> Array:
        """Draws |scale z|."""
        return abs(self.scale * random.cauchy(key, self.shape, self.scale.dtype))

    def log_prob(self, x: Operand) -> Array:
        """Twice the Cauchy density, and zero below 0."""
        inside = Cauchy(enp.zeros_like(self.scale), self.scale).log_prob(x) + math.log(2)
        return enp.where(enp.asarray(x) < 0, -enp.inf, inside)


@attrs.frozen
class Laplace(Distribution):
    """The Laplace distribution around `loc` with mean deviation `scale`.

    >>> import effx.numpy as enp
    >>> from effx.library.probability import Laplace
    >>> print(enp.exp(Laplace(loc=1.0, scale=0.5).log_prob(1.0)))         # 1 / (2 scale)
    1.0
    """

    loc: Array = attrs.field(default=0.0, converter=_to_array)
    scale: Array = attrs.field(default=1.0, converter=_to_array)

    def sample(self, key: Array) -> Array:
        """Draws loc + scale z."""
        return self.loc + self.scale * random.laplace(key, self.shape, self.loc.dtype)

    def log_prob(self, x: Operand) -> Array:
        """-|z| - log(2 scale)."""
        return -enp.abs(x - self.loc) / self.scale - enp.log(self.scale) - math.log(2)


@attrs.frozen
class Exponential(Distribution):
    """The exponential distribution with mean 1 / `rate`.

    >>> import effx.numpy as enp
    >>> from effx.library.probability import Exponential
    >>> print(enp.exp(Exponential(rate=2.0).log_prob(enp.array([0.0, -1.0]))))
    [2. 0.]
    """

    rate: Array = attrs.field(default=1.0, converter=_to_array)
    support = "positive"

    def sample(self, key: Array) -> Array:
        """Draws z / rate."""
        return random.exponential(key, self.shape, self.rate.dtype) / self.rate

    def log_prob(self, x: Operand) -> Array:
        """The logarithm of rate, minus rate x; zero density below 0."""
        return enp.where(enp.asarray(x) < 0, -enp.inf, enp.log(self.rate) - self.rate * x)


@attrs.frozen
class Uniform(Distribution):
    """Evenly distributed between `low` and `high`.

    >>> import effx.numpy as enp
    >>> from effx.library.probability import Uniform
    >>> print(enp.exp(Uniform(1.0, 3.0).log_prob(enp.array([2.0, 4.0]))))
    [0.5 0. ]
    """

    low: Array = attrs.field(default=0.0, converter=_to_array)
    high: Array = attrs.field(default=1.0, converter=_to_array)
    support = "unit"

    def sample(self, key: Array) -> Array:
        """Draws low + (high - low) u."""
        return self.low + (self.high - self.low) * random.uniform(key, self.shape, self.low.dtype)

    def log_prob(self, x: Operand) -> Array:
        """-log(high - low) inside, zero density outside."""
        x = enp.asarray(x)
        outside = (x < self.low) | (x > self.high)
        # Zero times x keeps its NaN; infinities are outside.
        nothing = 0 * enp.where(outside, 0.0, x)
        return enp.where(outside, -enp.inf, nothing - enp.log(self.high - self.low))


@attrs.frozen
class Bernoulli(Distribution):
    """1 with probability sigmoid(`logits`), else 0; draws are i32.

    >>> import effx.numpy as enp
    >>> from effx.library.probability import Bernoulli
    >>> print(enp.exp(Bernoulli(logits=0.0).log_prob(enp.array([0, 1, 2]))))
    [0.5 0.5 0. ]
    """

    logits: Array = attrs.field(default=0.0, converter=_to_array)
    support = "label"

    def sample(self, key: Array) -> Array:
        """Draws whether u < p."""
        return random.bernoulli(key, nn.sigmoid(self.logits), self.shape).astype(enp.int32)

    def log_prob(self, x: Operand) -> Array:
        """The log sigmoid of the logits for 1, and of minus the logits for 0."""
        x = enp.asarray(x)
        inside = nn.log_sigmoid(enp.where(x == 1, self.logits, -self.logits))
        return enp.where((x == 0) | (x == 1), inside, -enp.inf)


@attrs.frozen
class Categorical(Distribution):
    """Label i with probability softmax(`logits`)[i] along the last axis; draws are i32.

    >>> import effx.numpy as enp
    >>> from effx.library.probability import Categorical
    >>> print(enp.exp(Categorical(enp.zeros(4)).log_prob(enp.array([0, 3, 4]))))
    [0.25 0.25 0.  ]
    """

    logits: Array = attrs.field(converter=_to_array)
    event_axes = 1
    support = "label"

    def sample(self, key: Array) -> Array:
        """Draws the label with the largest logit plus Gumbel noise."""
        return random.categorical(key, self.logits, axis=-1).astype(enp.int32)

    def log_prob(self, x: Operand) -> Array:
        """The label's entry of log softmax."""
        x, n = enp.asarray(x), self.logits.shape[-1]
        logs = nn.log_softmax(self.logits, axis=-1)
        labels = enp.arange(n) == x[..., None]
        inside = enp.sum(enp.where(labels, logs, 0.0), axis=-1)
        return enp.where(enp.any(labels, axis=-1), inside, -enp.inf)
