"""Random numbers from keys, with the bits of JAX's threefry2x32.

A key stands for a stream of numbers. Functions draw from it without changing it, so the same key
gives the same numbers: split a key to go on.

Never: hold a state, or draw from a source outside the key.
"""

# Each of these names would get lines of its own.
# fmt: off
# isort: off
from typing import TYPE_CHECKING

from effx.lazy import lazy

if TYPE_CHECKING:
    from effx.random.continuous import (
        cauchy as cauchy, exponential as exponential, gumbel as gumbel, laplace as laplace, logistic as
        logistic, normal as normal, truncated_normal as truncated_normal, uniform as uniform,
    )
    from effx.random.discrete import (
        bernoulli as bernoulli, bits as bits, categorical as categorical, rademacher as rademacher,
        randint as randint,
    )
    from effx.random.keys import (
        PRNGKey as PRNGKey, fold_in as fold_in, key as key, key_data as key_data, split as split,
        wrap_key_data as wrap_key_data,
    )
    from effx.random.selection import (
        choice as choice, permutation as permutation,
    )

__getattr__, __all__ = lazy(
    __name__,
    {
        "continuous": "cauchy exponential gumbel laplace logistic normal truncated_normal uniform",
        "discrete": "bernoulli bits categorical rademacher randint",
        "keys": "PRNGKey fold_in key key_data split wrap_key_data",
        "selection": "choice permutation",
    },
)
