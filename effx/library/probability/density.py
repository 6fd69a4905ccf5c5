"""Handlers that record a probabilistic program: `trace`, `log_density`; `block` hides sites, `mask` and
`scale` weigh densities.

Source: Moore and Gorinova, "Effect Handling for Composable Program Transformations in Edward2", 2018; the names
are those of Pyro and NumPyro.
"""

from collections.abc import Callable, Collection
from typing import Any, ParamSpec, TypeVar, final

import attrs

import effx.numpy as enp
from effx import Array
from effx.errors import DTypeError, check_function
from effx.handling import Frame, InterceptHandler, Site
from effx.ir.values.array import Operand
from effx.library.probability.sites import GIVEN, Given, distribution
from effx.library.wrapping import under

__all__ = ["SiteRecord", "block", "log_density", "mask", "scale", "trace"]

P = ParamSpec("P")
R = TypeVar("R")


@final
@attrs.frozen
class SiteRecord:
    """A trace's record of a site.

    Attributes:
        value: chosen or observed.
        log_prob: its log density, weighted, element by element.
        observed: True for data.

    >>> from effx.library.probability import Uniform, sample, trace
    >>> _, sites = trace(lambda: sample("y", Uniform(0.0, 4.0), obs=1.0))()
    >>> site = sites["y"]
    >>> print(site.value, f"{site.log_prob:.4f}", site.observed)         # the log of 1/4
    1.0 -1.3863 True
    """

    value: Array
    log_prob: Array
    observed: bool = attrs.field(metadata={"static": True})


@final
@attrs.frozen
class SiteTrace(InterceptHandler[None]):
    """Collects all sites by name."""

    name = "trace"

    handles = frozenset({GIVEN})
    collects = True

    def returns(self, result: Any, frame: Frame) -> Any:
        """The result and the sites."""
        return result, frame.collected


@SiteTrace.rule(Given)
def _(site: Site[SiteTrace, None], op: Given, value: Array, weight: Array, *parameters: Array) -> Array:
    log_prob = weighted_log_density(op, value, weight, parameters)
    site.collect(op.key, SiteRecord(value, log_prob, op.observed))
    forwarded: Array = site.forward()
    return forwarded


def weighted_log_density(op: Given, value: Array, weight: Array, parameters: tuple[Array, ...]) -> Array:
    """Returns a site's log density times its weight; a weight of zero gives zero for any density."""
    log_prob = distribution(op.structure, parameters).log_prob(value)
    return enp.where(weight == 0, 0.0, log_prob * weight)


@final
@attrs.frozen
class LogDensity(InterceptHandler[Array]):
    """Sums the log densities of all sites."""

    handles = frozenset({GIVEN})

    def initial(self) -> Array:
        """The logarithm of 1."""
        return enp.zeros((), enp.float64 if enp.result_type(float) == enp.float64 else enp.float32)

    def split_state(self, state: Array, size: int) -> Array:
        """The first replica of a pmap starts with the sum, the others with zero."""
        return enp.zeros(size, state.dtype).at[0].set(state)

    def merge_states(self, a: Array, b: Array) -> Array:
        """Sums over replicas."""
        return a + b

    def returns(self, result: Any, frame: Frame) -> Any:
        """The sum and the result."""
        return frame.state, result


@LogDensity.rule(Given)
def _(site: Site[LogDensity, Array], op: Given, value: Array, weight: Array, *parameters: Array) -> Array:
    site.state = site.state + enp.sum(weighted_log_density(op, value, weight, parameters)).astype(
        site.state.dtype
    )
    forwarded: Array = site.forward()
    return forwarded


@final
@attrs.frozen
class Block(InterceptHandler[None]):
    """Hides sites from outer handlers.

    Attributes:
        hidden: names; None hides all but `exposed`.
        exposed: names.
    """

    hidden: frozenset[str] | None
    exposed: frozenset[str]
    handles = frozenset({GIVEN})


@Block.rule(Given)
def _(site: Site[Block, None], op: Given, value: Array, *rest: Array) -> Array:
    handler = site.handler
    if op.key in handler.exposed or (handler.hidden is not None and op.key not in handler.hidden):
        forwarded: Array = site.forward()
        return forwarded
    return value


@final
@attrs.frozen
class Weigh(InterceptHandler[None]):
    """Multiplies the weights of sites' densities."""

    factor: Array
    handles = frozenset({GIVEN})


@Weigh.rule(Given)
def _(site: Site[Weigh, None], op: Given, value: Array, weight: Array, *parameters: Array) -> Array:
    factor = enp.broadcast_to(site.handler.factor.astype(weight.dtype), weight.shape)
    forwarded: Array = site.forward(value, weight * factor, *parameters)
    return forwarded


def trace(fun: Callable[P, R]) -> Callable[P, tuple[R, dict[str, SiteRecord]]]:
    """Also returns all sites by name: values, log densities, whether observed.

    Raises:
        TransformError: when called, two sites have one name.

    >>> from effx.library.probability import Normal
    >>> from effx.library.probability import sample
    >>> print(trace(lambda: sample("y", Normal(0.0, 1.0), obs=0.0))()[1]["y"].log_prob)
    -0.9189385
    """
    return under(SiteTrace(), fun)


def log_density(fun: Callable[P, R]) -> Callable[P, tuple[Array, R]]:
    """Returns the sum of the log densities of all sites, chosen or observed, and the result.

    >>> import effx, effx.numpy as enp
    >>> from effx.library.probability import Normal
    >>> from effx.library.probability import sample
    >>> model = lambda: sample("y", Normal(sample("x", Normal(0.0, 1.0)), 1.0), obs=2.0)
    >>> from effx.library.probability import substitute
    >>> total, _ = log_density(substitute(model, {"x": 1.0}))()
    >>> print(f"{total:.4f}")
    -2.8379
    """
    return under(LogDensity(), fun)


def block(
    fun: Callable[P, R], hide: Collection[str] | None = None, expose: Collection[str] = ()
) -> Callable[P, R]:
    """Hides sites from outer handlers, once an inner handler has chosen their values.

    Args:
        fun: a model.
        hide: names, one or several; by default all.
        expose: names that are not hidden.

    >>> from effx.library.probability import Normal
    >>> from effx.library.probability import sample
    >>> trace(block(lambda: sample("y", Normal(0.0, 1.0), obs=2.0)))()[1]
    {}
    """
    hidden = None if hide is None else frozenset({hide} if isinstance(hide, str) else hide)
    return under(Block(hidden, frozenset({expose} if isinstance(expose, str) else expose)), fun)


def mask(fun: Callable[P, R], where: Operand) -> Callable[P, R]:
    """Counts the log densities of sites only where a bool array is true; it broadcasts against them.

    Raises:
        DTypeError: it is no bool array.

    >>> from effx.library.probability import Normal
    >>> from effx.library.probability import sample
    >>> print(log_density(mask(lambda: sample("y", Normal(0.0, 1.0), obs=[0.0, 9.0]), [True, False]))()[0])
    -0.9189385
    """
    check_function(fun)
    mask_array = enp.asarray(where)
    if mask_array.type.kind != "b":
        raise DTypeError(f"mask: expected a bool array, got {mask_array.type!r}; scale weighs by numbers")
    return under(Weigh(mask_array), fun)


def scale(fun: Callable[P, R], factor: Operand) -> Callable[P, R]:
    """Multiplies the log densities of all sites inside: by n / m for m of n data.

    >>> from effx.library.probability import Normal
    >>> from effx.library.probability import sample
    >>> print(log_density(scale(lambda: sample("y", Normal(0.0, 1.0), obs=0.0), 2.0))()[0])
    -1.837877
    """
    check_function(fun)
    return under(Weigh(enp.asarray(factor)), fun)
