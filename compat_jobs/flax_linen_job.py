"""flax.linen: an MLP with batch norm and dropout, trained with optax."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax.training import train_state
from told import tell


class MLP(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x, train):
        x = nn.relu(nn.Dense(self.width)(x))
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.Dropout(0.2, deterministic=not train)(x)
        x = nn.LayerNorm()(nn.Dense(self.width)(x))
        return nn.Dense(1)(x)[:, 0]


class State(train_state.TrainState):
    batch_stats: dict


x = jax.random.normal(jax.random.key(0), (32, 4))
y = jnp.sin(x).sum(1)
model = MLP(16)
variables = model.init(jax.random.key(1), x, train=False)
state = State.create(
    apply_fn=model.apply,
    params=variables["params"],
    tx=optax.adamw(1e-2),
    batch_stats=variables["batch_stats"],
)


@jax.jit
def step(state, key):
    def loss(params):
        out, changed = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats},
            x,
            train=True,
            rngs={"dropout": key},
            mutable=["batch_stats"],
        )
        return jnp.mean((out - y) ** 2), changed

    (value, changed), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
    return state.apply_gradients(grads=grads, batch_stats=changed["batch_stats"]), value


tell(start=model.apply(variables, x, train=False))
losses = []
for i in range(20):
    state, value = step(state, jax.random.key(i))
    losses.append(value)
tell(losses=losses)
attention = nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=8)
out, _ = attention.init_with_output(jax.random.key(2), x[None, :5])
tell(attention=out)
cell = nn.RNN(nn.LSTMCell(6))
out, _ = cell.init_with_output(jax.random.key(3), x[None, :7])
tell(lstm=out)
