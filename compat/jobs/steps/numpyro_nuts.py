"""numpyro: eight schools by NUTS. The first step warms up and draws; each other draws 200 times."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

DRAWS = 200


def eight_schools(sigma, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        standard = numpyro.sample("standard", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + tau * standard, sigma), obs=y)


def start():
    """Returns what draws: from the start first, and then from one state with one step size, by other keys.

    A chain amplifies the last bit of a density, and with it the step size that adaptation finds: of two libraries, one would
    have more to compute for no merit of the other.
    """
    y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    mcmc = MCMC(NUTS(eight_schools), num_warmup=DRAWS, num_samples=DRAWS, progress_bar=False)
    after, number = None, 0

    def step():
        nonlocal after, number
        if after is None:
            mcmc.run(jax.random.key(0), sigma, y)
            last = mcmc.last_state
            mass = jax.tree.map(jnp.ones_like, last.adapt_state.inverse_mass_matrix)
            adapted = last.adapt_state._replace(step_size=jnp.float32(0.4), inverse_mass_matrix=mass)
            after = last._replace(adapt_state=adapted)
        else:
            number += 1
            mcmc.post_warmup_state = after._replace(rng_key=jax.random.key(number))
            mcmc.run(mcmc.post_warmup_state.rng_key, sigma, y)
        return mcmc.get_samples()

    return step
