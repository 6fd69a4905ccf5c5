"""chex: a dataclass as a tree, assertions of shapes and trees, a counted staging."""

import chex
import jax
import jax.numpy as jnp
from told import tell


@chex.dataclass
class State:
    position: chex.Array
    velocity: chex.Array


@jax.jit
@chex.assert_max_traces(n=1)
def step(state: State) -> State:
    chex.assert_shape(state.position, (3,))
    chex.assert_equal_shape([state.position, state.velocity])
    return State(position=state.position + 0.1 * state.velocity, velocity=0.9 * state.velocity)


state = State(position=jnp.zeros(3), velocity=jnp.arange(3.0))
for _ in range(5):
    state = step(state)
chex.assert_tree_all_finite(state)
chex.assert_trees_all_close(state, jax.tree.map(lambda x: x + 0.0, state))
chex.assert_type(state.position, jnp.float32)
chex.assert_rank(state.position, 1)
try:
    chex.assert_shape(state.position, (4,))
except AssertionError:
    tell(refused=1)
tell(position=state.position, velocity=state.velocity)
