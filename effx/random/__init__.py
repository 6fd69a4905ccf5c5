"""Random numbers from keys, with the bits of JAX's threefry2x32.

A key stands for a stream of numbers. Functions draw from it without changing it, so the same key
gives the same numbers: split a key to go on.

Never: hold a state, or draw from a source outside the key.
"""

from effx.random.continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    normal,
    truncated_normal,
    uniform,
)
from effx.random.discrete import bernoulli, bits, categorical, rademacher, randint
from effx.random.keys import PRNGKey, fold_in, key, key_data, split, wrap_key_data
from effx.random.selection import choice, permutation

__all__ = [
    "PRNGKey",
    "bernoulli",
    "bits",
    "categorical",
    "cauchy",
    "choice",
    "exponential",
    "fold_in",
    "gumbel",
    "key",
    "key_data",
    "laplace",
    "logistic",
    "normal",
    "permutation",
    "rademacher",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
    "wrap_key_data",
]
