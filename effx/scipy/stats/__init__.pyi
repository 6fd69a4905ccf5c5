from effx.scipy.stats.density_estimates import *
from effx.scipy.stats.ranking import *

from . import bernoulli, beta, betabinom, binom, cauchy, chi2, dirichlet, expon, gamma, gennorm, geom
from . import gumbel_l, gumbel_r, laplace, logistic, multinomial, multivariate_normal, nbinom, norm
from . import pareto, poisson, t, truncnorm, uniform, vonmises, wrapcauchy
