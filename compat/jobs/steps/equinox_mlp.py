"""equinox: an MLP trained by filter_jit and filter_value_and_grad, with optax's adam."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


def start():
    """Initialises the model and its optimizer, and returns what takes one step."""
    x = jax.random.normal(jax.random.key(0), (128, 16))
    y = jnp.sin(x).sum(1)
    model = eqx.nn.MLP(16, 1, 64, 3, activation=jax.nn.gelu, key=jax.random.key(1))
    optimizer = optax.adam(1e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_value_and_grad
    def loss(model, x, y):
        return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)

    @eqx.filter_jit
    def update(model, state, x, y):
        value, grads = loss(model, x, y)
        updates, state = optimizer.update(grads, state, model)
        return eqx.apply_updates(model, updates), state, value

    def step():
        nonlocal model, state
        model, state, value = update(model, state, x, y)
        return value

    return step
