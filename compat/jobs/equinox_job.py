"""equinox: an MLP with filter_jit and filter_value_and_grad, trained with optax."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from told import tell

x = jax.random.normal(jax.random.key(0), (32, 4))
y = jnp.sin(x).sum(1)
model = eqx.nn.MLP(4, 1, 16, 2, activation=jax.nn.gelu, key=jax.random.key(1))
optimizer = optax.adam(1e-2)
state = optimizer.init(eqx.filter(model, eqx.is_array))


@eqx.filter_jit
def step(model, state):
    def loss(model):
        return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)

    value, grads = eqx.filter_value_and_grad(loss)(model)
    updates, state = optimizer.update(grads, state, model)
    return eqx.apply_updates(model, updates), state, value


losses = []
for _ in range(20):
    model, state, value = step(model, state)
    losses.append(value)
tell(losses=losses)
attention = eqx.nn.MultiheadAttention(2, 4, key=jax.random.key(2))
tell(attention=attention(x[:5], x[:5], x[:5]))
