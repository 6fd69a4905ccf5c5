"""Probabilistic programs: models that name their random values, and handlers that choose and record these.

>>> import effx
>>> from effx.library.probability import Normal, sample, seed, trace
>>> model = lambda: sample("y", Normal(sample("x", Normal(0.0, 1.0)), 0.1))
>>> result, sites = trace(seed(model, effx.random.key(0)))()
>>> sorted(sites)
['x', 'y']
"""

from effx.lazy import list_names
from effx.library.probability.density import SiteRecord as SiteRecord
from effx.library.probability.density import block as block
from effx.library.probability.density import log_density as log_density
from effx.library.probability.density import mask as mask
from effx.library.probability.density import scale as scale
from effx.library.probability.density import trace as trace
from effx.library.probability.distributions import Bernoulli as Bernoulli
from effx.library.probability.distributions import Categorical as Categorical
from effx.library.probability.distributions import Cauchy as Cauchy
from effx.library.probability.distributions import Distribution as Distribution
from effx.library.probability.distributions import Exponential as Exponential
from effx.library.probability.distributions import HalfCauchy as HalfCauchy
from effx.library.probability.distributions import HalfNormal as HalfNormal
from effx.library.probability.distributions import Laplace as Laplace
from effx.library.probability.distributions import LogNormal as LogNormal
from effx.library.probability.distributions import Normal as Normal
from effx.library.probability.distributions import Uniform as Uniform
from effx.library.probability.hmc import Draws as Draws
from effx.library.probability.hmc import hmc as hmc
from effx.library.probability.sampling import condition as condition
from effx.library.probability.sampling import plate as plate
from effx.library.probability.sampling import replay as replay
from effx.library.probability.sampling import seed as seed
from effx.library.probability.sampling import substitute as substitute
from effx.library.probability.sites import sample as sample

__all__ = [
    "Bernoulli",
    "Categorical",
    "Cauchy",
    "Distribution",
    "Draws",
    "Exponential",
    "HalfCauchy",
    "HalfNormal",
    "Laplace",
    "LogNormal",
    "Normal",
    "SiteRecord",
    "Uniform",
    "block",
    "condition",
    "hmc",
    "log_density",
    "mask",
    "plate",
    "replay",
    "sample",
    "scale",
    "seed",
    "substitute",
    "trace",
]

__dir__ = list_names(__all__)
