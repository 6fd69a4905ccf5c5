"""Handlers that choose the values of a probabilistic program: `seed`, `substitute`, `condition`, `replay`;
and `plate`.

Given values take precedence over draws, and those of the outermost handler over others; data are not replaced. So
`substitute(seed(model, key), values)` and `seed(substitute(model, values), key)` both draw the values not
given.

Source: Moore and Gorinova, "Effect Handling for Composable Program Transformations in Edward2", 2018; the names
are those of Pyro and NumPyro.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ParamSpec, TypeVar, final

import attrs

import effx.numpy as enp
from effx import Array, random
from effx.errors import ShapeError, TransformError, check_function
from effx.handling import ArrayType, InterceptHandler, Site
from effx.ir.values.array import Operand
from effx.library.probability.density import SiteRecord
from effx.library.probability.sites import GIVEN, SAMPLE, Given, Sample, distribution, perform_given, sample
from effx.library.visit_counts import VisitCounts
from effx.library.wrapping import under

__all__ = ["condition", "plate", "replay", "seed", "substitute"]

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

    def split_state(self, state: Array, size: int) -> Array:
        """A key for each replica of a pmap."""
        return random.split(state, size)

    def merge_states(self, a: Array, b: Array) -> Array:
        """The first replica's final key, which no other replica has used."""
        return a


@Seed.rule(Sample)
def _(site: Site[Seed, Array], op: Sample, *parameters: Array) -> Array:
    site.state, key = random.split(site.state)
    fn = distribution(op.structure, parameters)
    return perform_given(op.key, fn, fn.sample(key), observed=False)


@final
@attrs.frozen
class Substitute(InterceptHandler[VisitCounts]):
    """Chooses given values. The state counts the visits of each site, so that iteration i of a loop takes
    value i.

    Attributes:
        values: by the sites' names.
        observed: True where the values are data.
    """

    values: Values
    observed: bool
    handles = frozenset({SAMPLE, GIVEN})

    def initial(self) -> VisitCounts:
        """No visits."""
        return VisitCounts.of(self.values)

    def merge_states(self, a: VisitCounts, b: VisitCounts) -> VisitCounts:
        """The visits of replicas, which get the same values."""
        return a.join(b)


def next_value(site: Site[Substitute, VisitCounts], name: str, t: ArrayType) -> Array:
    """Returns the value for this visit of a site."""
    visits, verb = site.state, "condition" if site.handler.observed else "substitute"
    site.state = visits.after(name)
    return visits.row(verb, name, site.handler.values[name], t)


@Substitute.rule(Sample)
def _(site: Site[Substitute, VisitCounts], op: Sample, *parameters: Array) -> Array:
    if op.key not in site.handler.values:
        forwarded: Array = site.forward()
        return forwarded
    x = next_value(site, op.key, site.result_types[0])
    return perform_given(op.key, distribution(op.structure, parameters), x, observed=site.handler.observed)


@Substitute.rule(Given)
def _(site: Site[Substitute, VisitCounts], op: Given, value: Array, *rest: Array) -> Array:
    # A handler further in, such as seed, has chosen a value already.
    if op.observed or op.key not in site.handler.values:
        forwarded: Array = site.forward()
        return forwarded
    x = next_value(site, op.key, value.type)
    return Given(op.key, op.structure, site.handler.observed)(x, *rest)


@final
@attrs.frozen
class Plate(InterceptHandler[None]):
    """Gives every site inside an axis of independent draws.

    Attributes:
        label: the plate's name, for errors.
        size: of the axis.
        axis: its index in draws, counted from the end.
    """

    label: str
    size: int
    axis: int
    handles = frozenset({SAMPLE, GIVEN})


@Plate.rule(Sample)
def _(site: Site[Plate, None], op: Sample, *parameters: Array) -> Array:
    fn, n, plate_axis = distribution(op.structure, parameters), site.handler.size, -site.handler.axis
    shape = [1] * max(plate_axis - len(fn.shape), 0) + list(fn.shape)
    if shape[-plate_axis] not in (1, n):
        raise ShapeError(
            f"plate: {op.key!r} has draws of shape {fn.shape}, whose axis {-plate_axis} is {shape[-plate_axis]}, not {n}"
        )
    shape[-plate_axis] = n
    wide = fn.expand(tuple(shape))
    return sample(op.key, wide)


@Plate.rule(Given)
def _(site: Site[Plate, None], op: Given, value: Array, *rest: Array) -> Array:
    plate, shape = site.handler, value.shape
    if len(shape) < -plate.axis or shape[plate.axis] != plate.size:
        what = "data" if op.observed else "a value, chosen inside of the plate,"
        raise ShapeError(
            f"plate: {op.key!r} has {what} of shape {shape}, but {plate.label!r} is {plate.size} along axis {plate.axis}"
        )
    forwarded: Array = site.forward()
    return forwarded


def seed(fun: Callable[P, R], key: Array) -> Callable[P, R]:
    """Draws all values that no inner handler chooses.

    >>> import effx
    >>> from effx.library.probability import Normal
    >>> from effx.library.probability import sample
    >>> model = lambda: sample("x", Normal(10.0, 0.001))
    >>> print(f"{seed(model, effx.random.key(0))():.1f}")
    10.0
    """
    return under(Seed(enp.asarray(key)), fun)


def substitute(fun: Callable[P, R], values: Values) -> Callable[P, R]:
    """Chooses values by name; the first axis of a value for a scan is that of its iterations.

    >>> from effx.library.probability import Normal
    >>> print(substitute(lambda: sample("x", Normal(0.0, 1.0)) + 1.0, {"x": 2.0})())
    3.0
    """
    return under(Substitute(dict(values), False), fun)


def condition(fun: Callable[P, R], values: Values) -> Callable[P, R]:
    """Makes sites observed, with values by name.

    >>> from effx.library.probability import Normal
    >>> from effx.library.probability import trace
    >>> trace(condition(lambda: sample("x", Normal(0.0, 1.0)), {"x": 2.0}))()[1]["x"].observed
    True
    """
    check_function(fun)
    return under(Substitute(dict(values), True), fun)


def replay(fun: Callable[P, R], sites: Mapping[str, SiteRecord]) -> Callable[P, R]:
    """Chooses the values of an earlier trace, but for its observed sites.

    >>> import effx
    >>> from effx.library.probability import Normal
    >>> from effx.library.probability import trace
    >>> model = lambda: sample("x", Normal(0.0, 1.0))
    >>> x, sites = trace(seed(model, effx.random.key(0)))()
    >>> bool(replay(model, sites)() == x)
    True
    """
    check_function(fun)
    chosen = {name: site.value for name, site in sites.items() if not site.observed}
    return under(Substitute(chosen, False), fun)


@contextmanager
def plate(name: str, size: int, axis: int = -1) -> Iterator[Array]:
    """Makes every `sample` in a `with` block draw independently along an axis.

    Args:
        name: of the plate, for errors.
        size: of the axis.
        axis: its index in draws, counted from the end; nested plates take different ones.

    Returns:
        The indices along the axis, i32[size].

    Raises:
        TransformError: the size is no positive int, or the axis is not negative.
        ShapeError: in the block, data or draws have another size along the axis.

    >>> import effx
    >>> from effx.library.probability import Normal
    >>> def model():
    ...     with plate("rows", 3):
    ...         return sample("x", Normal(0.0, 1.0))
    >>> seed(model, effx.random.key(0))().shape
    (3,)
    """
    if type(size) is not int or size < 1 or type(axis) is not int or axis >= 0:
        raise TransformError(
            f"plate: {name!r} needs a positive size and a negative axis, got {size!r} and {axis!r}"
        )
    with Plate(name, size, axis).installed():
        yield enp.arange(size)
