"""blackjax: NUTS with window adaptation on a Gaussian."""

import blackjax
import jax
import jax.numpy as jnp
from told import tell

MEAN, SCALE = jnp.array([1.0, -2.0]), jnp.array([0.5, 2.0])


def logdensity(x):
    return -0.5 * jnp.sum(((x["x"] - MEAN) / SCALE) ** 2)


start = {"x": jnp.zeros(2)}
fixed = blackjax.nuts(logdensity, step_size=0.5, inverse_mass_matrix=SCALE**2)
state, info = jax.jit(fixed.step)(jax.random.key(1), fixed.init(start))
tell(one_position=state.position["x"], one_density=state.logdensity, one_steps=info.num_integration_steps)

warmup = blackjax.window_adaptation(blackjax.nuts, logdensity)
(state, parameters), _ = warmup.run(jax.random.key(2), start, num_steps=300)
kernel = blackjax.nuts(logdensity, **parameters).step


@jax.jit
def sample(key, state):
    def one(state, key):
        state, _ = kernel(key, state)
        return state, state.position["x"]

    return jax.lax.scan(one, state, jax.random.split(key, 1000))[1]


draws = sample(jax.random.key(3), state)
tell(statistics_mean=draws.mean(0), statistics_std=draws.std(0))
