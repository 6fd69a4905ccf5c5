"""numpyro: eight schools by NUTS, not centred; and SVI with an automatic guide."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import log_density
from told import tell

y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
sigma = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools(sigma, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        standard = numpyro.sample("standard", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + tau * standard, sigma), obs=y)


at = {"mu": jnp.array(1.0), "tau": jnp.array(2.0), "standard": jnp.linspace(-1.0, 1.0, 8)}
tell(density=log_density(eight_schools, (sigma, y), {}, at)[0])
svi = SVI(eight_schools, AutoNormal(eight_schools), numpyro.optim.Adam(0.02), Trace_ELBO())
tell(svi=svi.run(jax.random.key(1), 30, sigma, y, progress_bar=False).losses)
early = MCMC(NUTS(eight_schools), num_warmup=4, num_samples=4, progress_bar=False)
early.run(jax.random.key(2), sigma, y)
tell(early=early.get_samples()["mu"])
mcmc = MCMC(NUTS(eight_schools), num_warmup=500, num_samples=4000, progress_bar=False)
mcmc.run(jax.random.key(0), sigma, y)
draws = mcmc.get_samples()
tell(statistics_mu=draws["mu"].mean(), statistics_logtau=jnp.log(draws["tau"]).mean())
