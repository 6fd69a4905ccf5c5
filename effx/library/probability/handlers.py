"""Handlers of probabilistic programs: who chooses values, and who looks at them.

`seed`, `substitute`, `condition` and `replay` choose values; `trace` and `log_density` look at them; `block` hides
sites, `mask` and `scale` weigh their densities, `plate` makes independent copies. The innermost that knows a
site's value chooses it: `log_density(substitute(seed(model, key), values))` draws what is not substituted.

Source: Moore and Gorinova, "Effect Handling for Composable Program Transformations in Edward2", 2018; the names
are those of Pyro and NumPyro.

Never: know a distribution's formula.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, final

import attrs

import effx.numpy as enp
from effx import Array, random
from effx.array.values import Operand
from effx.errors import ShapeError, TransformError
from effx.handling import Frame, InterceptHandler, Site
from effx.library.probability.sites import GIVEN, SAMPLE, Given, Sample, distribution, given, sample
from effx.library.turns import Turns

__all__ = [
    "SiteRecord",
    "block",
    "condition",
    "log_density",
    "mask",
    "plate",
    "replay",
    "scale",
    "seed",
    "substitute",
    "trace",
]

P = ParamSpec("P")
R = TypeVar("R")
Values = Mapping[str, Operand]


@final
@attrs.frozen
class Seed(InterceptHandler[Array]):
    """Draws values. The state is a key, split at each site."""

    key: Array
    handles = frozenset({SAMPLE})

    def initial(self) -> Array:
        """The first key."""
        return self.key


@Seed.rule(Sample)
def _(site: Site[Seed, Array], op: Sample, *parameters: Array) -> Array:
    site.state, key = random.split(site.state)
    fn = distribution(op.structure, parameters)
    return given(op.key, fn, fn.sample(key), observed=False)


@final
@attrs.frozen
class Substitute(InterceptHandler[Turns]):
    """Chooses given values. The state counts the visits of each site, so that loops take values in turn.

    Attributes:
        values: by the sites' names.
        observed: True where the values are data.
    """

    values: Values
    observed: bool
    handles = frozenset({SAMPLE})

    def initial(self) -> Turns:
        """No visits."""
        return Turns.of(self.values)


@Substitute.rule(Sample)
def _(site: Site[Substitute, Turns], op: Sample, *parameters: Array) -> Array:
    handler = site.handler
    if op.key not in handler.values:
        forwarded: Array = site.forward()
        return forwarded
    what = "condition" if handler.observed else "substitute"
    x = site.state.row(what, op.key, handler.values[op.key], site.result_types[0])
    site.state = site.state.after(op.key)
    return given(op.key, distribution(op.structure, parameters), x, observed=handler.observed)


@attrs.frozen
class SiteRecord:
    """What a trace keeps of a site.

    Attributes:
        value: chosen or observed.
        log_prob: its log density, weighted, element by element.
        observed: a bool array, True for data.
    """

    value: Array
    log_prob: Array
    observed: Array


@final
@attrs.frozen
class Trace(InterceptHandler[None]):
    """Collects all sites by name."""

    handles = frozenset({GIVEN})
    collects = True

    def returns(self, result: Any, frame: Frame) -> Any:
        """The result and the sites."""
        return result, frame.collected


@Trace.rule(Given)
def _(site: Site[Trace, None], op: Given, value: Array, weight: Array, *parameters: Array) -> Array:
    log_prob = weighted(op, value, weight, parameters)
    site.collect(op.key, SiteRecord(value, log_prob, enp.asarray(op.observed)))
    forwarded: Array = site.forward()
    return forwarded


def weighted(op: Given, value: Array, weight: Array, parameters: tuple[Array, ...]) -> Array:
    """Returns a site's log density times its weight; where the weight is zero, zero even if the density is."""
    log_prob = distribution(op.structure, parameters).log_prob(value)
    return enp.where(weight == 0, 0.0, log_prob * weight)


@final
@attrs.frozen
class LogDensity(InterceptHandler[Array]):
    """Adds up the log densities of all sites."""

    handles = frozenset({GIVEN})

    def initial(self) -> Array:
        """log 1."""
        return enp.zeros((), enp.float64 if enp.result_type(float) == enp.float64 else enp.float32)

    def merge_states(self, a: Any, b: Any) -> Any:
        """Branches that both ran have no density."""
        raise TransformError("log_density: a branch that depends on a boxed value has no single density")

    def returns(self, result: Any, frame: Frame) -> Any:
        """The sum and the result."""
        return frame.state, result


@LogDensity.rule(Given)
def _(site: Site[LogDensity, Array], op: Given, value: Array, weight: Array, *parameters: Array) -> Array:
    site.state = site.state + enp.sum(weighted(op, value, weight, parameters)).astype(site.state.dtype)
    forwarded: Array = site.forward()
    return forwarded


@final
@attrs.frozen
class Block(InterceptHandler[None]):
    """Hides sites from the handlers outside.

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


@final
@attrs.frozen
class Plate(InterceptHandler[None]):
    """Gives every site inside an axis of independent draws.

    Attributes:
        size: of the axis.
        axis: its place in draws, counted from the end.
    """

    size: int
    axis: int
    handles = frozenset({SAMPLE})


@Plate.rule(Sample)
def _(site: Site[Plate, None], op: Sample, *parameters: Array) -> Array:
    fn, n, place = distribution(op.structure, parameters), site.handler.size, -site.handler.axis
    shape = [1] * max(place - len(fn.shape), 0) + list(fn.shape)
    if shape[-place] not in (1, n):
        raise ShapeError(
            f"plate: {op.key!r} has draws of shape {fn.shape}, whose axis {-place} is {shape[-place]}, not {n}"
        )
    shape[-place] = n
    wide = fn.expand(tuple(shape))
    return sample(op.key, wide)


def _under(handler: InterceptHandler[Any], fun: Callable[P, Any]) -> Callable[P, Any]:
    def handled(*args: P.args, **kwargs: P.kwargs) -> Any:
        return handler.run(fun, *args, **kwargs)

    return handled


def seed(fun: Callable[P, R], key: Array) -> Callable[P, R]:
    """Draws all values that no handler further in chooses.

    >>> import effx
    >>> from effx.library.probability.distributions import Normal
    >>> from effx.library.probability.sites import sample
    >>> model = lambda: sample("x", Normal(10.0, 0.001))
    >>> print(f"{seed(model, effx.random.key(0))():.1f}")
    10.0
    """
    return _under(Seed(enp.asarray(key)), fun)


def substitute(fun: Callable[P, R], values: Values) -> Callable[P, R]:
    """Chooses values by name; what a scan asks for step by step has an axis of steps in front."""
    return _under(Substitute(dict(values), False), fun)


def condition(fun: Callable[P, R], values: Values) -> Callable[P, R]:
    """Makes sites observed, with values by name."""
    return _under(Substitute(dict(values), True), fun)


def replay(fun: Callable[P, R], sites: Mapping[str, SiteRecord]) -> Callable[P, R]:
    """Chooses the values of an earlier trace, but for its observed sites."""
    chosen = {name: site.value for name, site in sites.items() if not enp.any(site.observed)}
    return _under(Substitute(chosen, False), fun)


def trace(fun: Callable[P, R]) -> Callable[P, tuple[R, dict[str, SiteRecord]]]:
    """Also gives all sites by name: values, log densities, whether observed."""
    return _under(Trace(), fun)


def log_density(fun: Callable[P, R]) -> Callable[P, tuple[Array, R]]:
    """Gives the sum of the log densities of all sites, chosen or observed, and the result.

    >>> import effx, effx.numpy as enp
    >>> from effx.library.probability.distributions import Normal
    >>> from effx.library.probability.sites import sample
    >>> model = lambda: sample("y", Normal(sample("x", Normal(0.0, 1.0)), 1.0), obs=2.0)
    >>> total, _ = log_density(substitute(model, {"x": 1.0}))()
    >>> print(f"{total:.4f}")
    -2.8379
    """
    return _under(LogDensity(), fun)


def block(
    fun: Callable[P, R], hide: Collection[str] | None = None, expose: Collection[str] = ()
) -> Callable[P, R]:
    """Hides sites from handlers outside, once a handler inside has chosen their values.

    Args:
        fun: a model.
        hide: names; by default all.
        expose: names that are not hidden.
    """
    return _under(Block(None if hide is None else frozenset(hide), frozenset(expose)), fun)


def mask(fun: Callable[P, R], where: Operand) -> Callable[P, R]:
    """Counts the log densities of sites only where a bool array is true; it broadcasts against them."""
    return _under(Weigh(enp.asarray(where)), fun)


def scale(fun: Callable[P, R], factor: Operand) -> Callable[P, R]:
    """Multiplies the log densities of all sites inside."""
    return _under(Weigh(enp.asarray(factor)), fun)


@contextmanager
def plate(name: str, size: int, axis: int = -1) -> Iterator[Array]:
    """Makes every `sample` in a `with` block draw independently along an axis.

    Args:
        name: of the plate, for errors.
        size: of the axis.
        axis: its place in draws, counted from the end; plates nest by taking different ones.

    Returns:
        The indices along the axis, i32[size].

    Raises:
        TransformError: the size is no positive int, or the axis is not negative.
    """
    if type(size) is not int or size < 1 or type(axis) is not int or axis >= 0:
        raise TransformError(
            f"plate: {name!r} needs a positive size and a negative axis, got {size!r} and {axis!r}"
        )
    with Plate(size, axis).installed():
        yield enp.arange(size)
