"""TensorFlow Probability on JAX: distributions, a bijector, and HMC."""

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp
from told import tell

tfd, tfb = tfp.distributions, tfp.bijectors
x = jnp.array([0.1, 0.5, 0.9])
tell(
    beta=tfd.Beta(2.0, 3.0).log_prob(x),
    gamma=tfd.Gamma(2.0, 3.0).log_prob(x),
    student=tfd.StudentT(3.0, 0.0, 1.0).log_prob(x),
)
tell(normal=tfd.Normal(1.0, 2.0).sample(4, seed=jax.random.PRNGKey(0)))
lognormal = tfd.TransformedDistribution(tfd.Normal(0.0, 1.0), tfb.Exp())
tell(transformed=lognormal.log_prob(x), grad=jax.grad(lambda s: tfd.Normal(0.0, s).log_prob(x).sum())(2.0))


@jax.jit
def chain(key):
    kernel = tfp.mcmc.HamiltonianMonteCarlo(
        tfd.Normal(1.0, 2.0).log_prob, step_size=1.0, num_leapfrog_steps=4
    )
    return tfp.mcmc.sample_chain(500, 0.0, kernel=kernel, num_burnin_steps=100, trace_fn=None, seed=key)


draws = chain(jax.random.PRNGKey(1))
tell(statistics_mean=draws.mean(), statistics_std=draws.std())
