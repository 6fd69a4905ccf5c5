"""flax.linen: an MLP with batch norm and dropout, trained with optax; attention, recurrence, and lifted transformations."""

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


# Layers under scan, each rematerialised, with parameters and dropout keys of their own, behind masked attention.
class Block(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        y = nn.MultiHeadDotProductAttention(num_heads=2, dropout_rate=0.1, deterministic=False)(
            nn.LayerNorm()(x), mask=mask
        )
        x = x + y
        return x + nn.Dense(4)(nn.gelu(nn.Dense(8)(nn.LayerNorm()(x)))), jnp.abs(x).mean()


class Transformer(nn.Module):
    layers: int

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(11, 4)(tokens)
        mask = nn.combine_masks(nn.make_causal_mask(tokens), nn.make_attention_mask(tokens > 0, tokens > 0))
        x, sizes = nn.scan(
            nn.remat(Block, prevent_cse=False),
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=nn.broadcast,
            length=self.layers,
        )()(x, mask)
        self.sow("intermediates", "sizes", sizes)
        return nn.Dense(11)(x)


tokens = jnp.array([[3, 1, 4, 1, 5, 9, 0], [2, 6, 5, 3, 5, 0, 0]])
model = Transformer(3)
variables = model.init({"params": jax.random.key(4), "dropout": jax.random.key(5)}, tokens)


@jax.jit
def loss(params, key):
    logits, kept = model.apply(
        {"params": params}, tokens[:, :-1], rngs={"dropout": key}, mutable=["intermediates"]
    )
    each = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
    return jnp.mean(each, where=tokens[:, 1:] > 0), kept["intermediates"]["sizes"][0]


(value, sizes), grads = jax.value_and_grad(loss, has_aux=True)(variables["params"], jax.random.key(6))
tell(transformer=value, sizes=sizes)
tell(**{f"transformer_{jax.tree_util.keystr(path)}": leaf for path, leaf in jax.tree.leaves_with_path(grads)})

ensemble = nn.vmap(
    nn.Dense, in_axes=None, out_axes=1, axis_size=3, variable_axes={"params": 0}, split_rngs={"params": True}
)
out, variables = ensemble(2).init_with_output(jax.random.key(7), x)
tell(ensemble=out, kernels=variables["params"]["kernel"])
bidirectional = nn.Bidirectional(nn.RNN(nn.GRUCell(3)), nn.RNN(nn.GRUCell(3)))
out, _ = bidirectional.init_with_output(jax.random.key(8), x[None, :5], seq_lengths=jnp.array([4]))
tell(bidirectional=out)


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(4, (3, 3))(x))
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        return nn.Dense(3)(nn.GroupNorm(num_groups=2)(nn.ConvTranspose(4, (2, 2))(x)).reshape(x.shape[0], -1))


out, _ = CNN().init_with_output(jax.random.key(9), jax.random.normal(jax.random.key(10), (2, 6, 6, 1)))
tell(cnn=out, table=float("Conv_0" in nn.tabulate(CNN(), jax.random.key(9))(jnp.ones((1, 6, 6, 1)))))
