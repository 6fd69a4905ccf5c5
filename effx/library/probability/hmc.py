"""Hamiltonian Monte Carlo on a model's unobserved sites.

Each site is sampled on the whole real line: positive values by their logarithm, values between bounds by
their logit, with the derivative of the change of variables in the density. The number of leapfrog steps is
random, so that no trajectory returns to its start. During warmup dual averaging adapts the step size, and the
mass of each coordinate becomes the inverse of its variance.

Source: Neal, "MCMC using Hamiltonian dynamics", 2011; Hoffman and Gelman, "The No-U-Turn Sampler", 2014, for the step size.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast, final

import attrs

import effx
import effx.numpy as enp
from effx import Array, lax, nn, random, tree
from effx.errors import ConcretizationError, TransformError
from effx.handling import Frame, InterceptHandler, Site
from effx.library.probability.density import log_density, trace
from effx.library.probability.sampling import seed
from effx.library.probability.sites import SAMPLE, Sample, distribution, perform_given
from effx.library.visit_counts import VisitCounts

__all__ = ["Draws", "hmc", "unconstrained"]

Values = dict[str, Array]


@final
@attrs.frozen
class Unconstrain(InterceptHandler[tuple[VisitCounts, Array]]):
    """Chooses values from points on the real line; the state counts visits and adds up the log derivatives.

    Attributes:
        points: by the sites' names.
    """

    points: Values
    handles = frozenset({SAMPLE})

    def initial(self) -> tuple[VisitCounts, Array]:
        """No visits, and the logarithm of 1."""
        return VisitCounts.of(self.points), enp.zeros(())

    def returns(self, result: Any, frame: Frame) -> Any:
        """The result and the log derivative."""
        _, total = cast("tuple[VisitCounts, Array]", frame.state)
        return result, total


@Unconstrain.rule(Sample)
def _(site: Site[Unconstrain, tuple[VisitCounts, Array]], op: Sample, *parameters: Array) -> Array:
    fn = distribution(op.structure, parameters)
    visits, total = site.state
    if fn.support == "label":
        raise TransformError(f"hmc: {op.key!r} is a label; only sites with a density can be sampled")
    z = visits.row("hmc", op.key, site.handler.points[op.key], site.result_types[0])
    if fn.support == "positive":
        x, slope = enp.exp(z), z
    elif fn.support == "unit":
        low, high = parameters
        u = nn.sigmoid(z)
        x, slope = low + (high - low) * u, enp.log(high - low) + nn.log_sigmoid(z) + nn.log_sigmoid(-z)
    else:
        x, slope = z, enp.zeros_like(z)
    site.state = visits.after(op.key), total + enp.sum(slope).astype(total.dtype)
    return perform_given(op.key, fn, x, observed=False)


def unconstrained(
    model: Callable[[], Any], key: Array
) -> tuple[Callable[[Values], Array], Callable[[Values], Values], Values]:
    """Returns a model's density on the real line.

    Args:
        model: of no arguments.
        key: for one run that finds the sites.

    Returns:
        The log density of points by name, up to a constant; the function from points to values; and initial
        points.

    Raises:
        TransformError: when called, a site has no density.
    """
    sites = trace(seed(model, key))()[1]
    start = {k: enp.zeros_like(s.value) for k, s in sites.items() if not s.observed}

    def density(points: Values) -> Array:
        total, (_, slope) = log_density(lambda: Unconstrain(points).run(model))()
        result: Array = total + slope
        return result

    def values(points: Values) -> Values:
        constrained = trace(lambda: Unconstrain(points).run(model))()[1]
        return {name: constrained[name].value for name in points}

    return density, values, start


@final
@attrs.frozen
class Draws:
    """A sampler's draws.

    Attributes:
        values: by the sites' names, with the draws in front.
        accepted: f32[], the mean probability with which proposals were accepted.
        step_size: f32[].

    >>> import effx
    >>> from effx.library.probability import Normal, sample
    >>> draws = hmc(lambda: sample("x", Normal(0.0, 1.0)), effx.random.key(0), draws=20, warmup=10)
    >>> draws.values["x"].shape, 0.0 <= draws.accepted <= 1.0
    ((20,), Array(True, dtype=bool))
    """

    values: Values
    accepted: Array
    step_size: Array


def hmc(
    model: Callable[[], Any],
    key: Array,
    draws: int = 1000,
    warmup: int = 1000,
    leapfrogs: int = 16,
    target: float = 0.8,
) -> Draws:
    """Draws from the posterior of a model by Hamiltonian Monte Carlo.

    Args:
        model: of no arguments; its data are observed sites.
        key: u32[2].
        draws, warmup: the number of draws, and of steps before them.
        leapfrogs: the mean number of integrator steps for one draw; the number is random, up to twice that.
        target: the acceptance that the step size is adapted to.

    Returns:
        The draws, each f[draws, *site].

    Raises:
        TransformError: an argument is out of range, no site is left to sample, one is a label, or the density
            is not finite at the start (not checked inside jit).

    >>> from effx.library.probability import Normal, sample
    >>> model = lambda: sample("y", Normal(sample("x", Normal(0.0, 1.0)), 1.0), obs=2.0)
    >>> found = hmc(model, effx.random.key(0), draws=400, warmup=200)
    >>> abs(float(found.values["x"].mean()) - 1.0) < 0.2
    True
    """
    if draws < 1 or warmup < 4 or leapfrogs < 1 or not 0 < target < 1:
        raise TransformError(
            f"hmc: needs 1 draw, 4 steps of warmup, 1 leapfrog and a target between 0 and 1, got draws={draws}, "
            f"warmup={warmup}, leapfrogs={leapfrogs}, target={target}"
        )
    first, key = random.split(key)
    density, values, start = unconstrained(model, first)
    slope = effx.value_and_grad(density)

    def leapfrog(
        z: Values, p: Values, size: Array, inverse_mass: Values, count: Array
    ) -> tuple[Values, Values, Array]:
        def step(
            _: Array, state: tuple[Values, Values, Values, Array]
        ) -> tuple[Values, Values, Values, Array]:
            z, p, g, _ = state
            p = tree.map(lambda p, g: p + 0.5 * size * g, p, g)
            z = tree.map(lambda z, p, m: z + size * m * p, z, p, inverse_mass)
            value, g = slope(z)
            return z, tree.map(lambda p, g: p + 0.5 * size * g, p, g), g, value

        value, g = slope(z)
        z, p, _, value = lax.fori_loop(0, count, step, (z, p, g, value))
        return z, p, value

    def energy(value: Array, p: Values, inverse_mass: Values) -> Array:
        kinetic: list[Array] = tree.leaves(tree.map(lambda p, m: 0.5 * enp.sum(m * p * p), p, inverse_mass))
        total: Array = sum(kinetic, -value)
        return total

    def propose(z: Values, key: Array, size: Array, inverse_mass: Values) -> tuple[Values, Array]:
        key, how_far, toss = random.split(key, 3)
        leaves, structure = tree.flatten(z)
        keys = random.split(key, len(leaves))
        noise = [random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
        p = tree.map(lambda n, m: n / enp.sqrt(m), tree.unflatten(structure, noise), inverse_mass)
        before = energy(density(z), p, inverse_mass)
        count = random.randint(how_far, (), 1, 2 * leapfrogs + 1)
        new, q, value = leapfrog(z, p, size, inverse_mass, count)
        change = before - energy(value, q, inverse_mass)
        accept = enp.where(enp.isnan(change), 0.0, enp.exp(enp.minimum(change, 0.0)))
        is_accepted = random.uniform(toss) < accept
        return tree.map(lambda a, b: enp.where(is_accepted, a, b), new, z), accept

    @effx.jit
    def run(z: Values, key: Array) -> tuple[Values, Array, Array]:
        ones = tree.map(enp.ones_like, z)

        def adapt(
            z: Values, key: Array, inverse_mass: Values, steps: int, size: Array
        ) -> tuple[Values, Array, Values]:
            # Dual averaging of the step size's logarithm, around ten times the initial one.
            centre = enp.log(10.0 * size)

            def step(state: Any, inputs: tuple[Array, Array]) -> tuple[Any, Values]:
                z, log_size, averaged, error = state
                key, t = inputs
                z, accept = propose(z, key, enp.exp(log_size), inverse_mass)
                error = (1 - 1 / (t + 10)) * error + (target - accept) / (t + 10)
                log_size = centre - enp.sqrt(t) / 0.05 * error
                weight = t**-0.75
                return (z, log_size, weight * log_size + (1 - weight) * averaged, error), z

            t = enp.arange(1, steps + 1, dtype=enp.float32)
            state = (z, enp.log(size), enp.zeros(()), enp.zeros(()))
            (z, _, averaged, _), path = lax.scan(step, state, (random.split(key, steps), t))
            # For few draws the variance is regularised towards a small one, as in Stan.
            n = steps - steps // 2
            variance = tree.map(lambda x: (n * enp.var(x[-n:], axis=0) + 5e-3) / (n + 5), path)
            return z, enp.exp(averaged), variance

        one, two, three = random.split(key, 3)
        z, size, variance = adapt(z, one, ones, warmup // 2, enp.array(0.1))
        z, size, _ = adapt(z, two, variance, warmup - warmup // 2, size)

        def keep(z: Values, key: Array) -> tuple[Values, tuple[Values, Array]]:
            z, accept = propose(z, key, size, variance)
            return z, (z, accept)

        _, (path, accept) = lax.scan(keep, z, random.split(three, draws))
        return effx.vmap(values)(path), enp.mean(accept), size

    if not start:
        raise TransformError("hmc: the model has no unobserved sites")
    with suppress(ConcretizationError):  # not concrete inside jit
        if not math.isfinite(float(density(start))):
            raise TransformError("hmc: the density is not finite where sampling starts")
    samples, accepted, size = run(start, key)
    return Draws(samples, accepted, size)
