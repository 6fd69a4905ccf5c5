"""jaxtyping: shapes and dtypes checked by isinstance, also inside of jit, and trees of arrays."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree, Scalar
from told import tell

x = jnp.ones((2, 3))
checks = [
    isinstance(x, Float[Array, "2 3"]),
    isinstance(x, Float[Array, "2 4"]),
    isinstance(x, Int[Array, "2 3"]),
    isinstance(jnp.arange(3), Int[Array, "n"]),
    isinstance(jax.random.key(0), Key[Array, ""]),
    isinstance(jax.random.key(0), PRNGKeyArray),
    isinstance(jnp.array(1.0), Scalar),
    isinstance({"a": x, "b": (x,)}, PyTree[Float[Array, "2 3"]]),
    isinstance({"a": x, "b": 1}, PyTree[Float[Array, "2 3"]]),
]


@jax.jit
def inside(x):
    assert isinstance(x, Float[Array, "2 3"])
    assert not isinstance(x, Float[Array, "3 2"])
    return x.sum()


tell(checks=checks, inside=inside(x))
