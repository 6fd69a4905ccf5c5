"""Probability distributions and statistics, named as in jax.scipy.stats; each distribution is a module.

Functions of distributions take real arrays that broadcast against each other, and give floats: integers become floats,
and floats of 16 bits are computed in 32. `pdf` is the density and `pmf` the probability of an integer, `cdf` the
probability of numbers up to x, `sf` ("survival") that of numbers above x, and `logpdf`, `logpmf`, `logcdf` and `logsf`
are their logarithms, which stay exact where the probability underflows or is near 1. `ppf` and `isf` are the inverses
of `cdf` and `sf`.

Where there are `loc` and `scale`, the distribution is that of `loc + scale * y`, where y has the standard form that the
module describes. As in SciPy, values outside of the support have probability 0, and the result is NaN where an operand
is NaN, where scale is not positive, where another parameter is not allowed, and where q is no probability. Derivatives
outside of the support are 0, and at its ends one of the two one-sided derivatives, or 0.

Raises:
    DTypeError: an operand is complex, or no array.
    ShapeError: operands do not broadcast.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
