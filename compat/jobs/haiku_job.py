"""dm-haiku: an MLP with state, transformed and trained."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax
from told import tell


def forward(x, is_training):
    x = hk.Linear(16)(x)
    x = hk.BatchNorm(True, True, 0.9)(x, is_training)
    return hk.nets.MLP([16, 1])(x)[:, 0]


x = jax.random.normal(jax.random.key(0), (32, 4))
y = jnp.sin(x).sum(1)
model = hk.without_apply_rng(hk.transform_with_state(forward))
params, state = model.init(jax.random.PRNGKey(1), x, True)
optimizer = optax.adam(1e-2)
opt_state = optimizer.init(params)


@jax.jit
def step(params, state, opt_state):
    def loss(params):
        out, changed = model.apply(params, state, x, True)
        return jnp.mean((out - y) ** 2), changed

    (value, state), grads = jax.value_and_grad(loss, has_aux=True)(params)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), state, opt_state, value


losses = []
for _ in range(20):
    params, state, opt_state, value = step(params, state, opt_state)
    losses.append(value)
tell(losses=losses)
recurrent = hk.transform(lambda x: hk.dynamic_unroll(hk.LSTM(5), x, hk.LSTM(5).initial_state(2))[0])
sequence = jnp.ones((3, 2, 4))
tell(lstm=recurrent.apply(recurrent.init(jax.random.PRNGKey(2), sequence), None, sequence))
