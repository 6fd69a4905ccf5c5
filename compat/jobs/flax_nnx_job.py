"""flax.nnx: MLP, CNN and attention trained with nnx.Optimizer; state, and the lifted transformations."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from told import tell


class MLP(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        # A bias before the norm has a gradient of nothing but rounding, which adam makes into steps.
        self.first = nnx.Linear(4, 16, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.last = nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(self.dropout(nnx.relu(self.norm(self.first(x)))))[:, 0]


x = jax.random.normal(jax.random.key(0), (32, 4))
y = jnp.sin(x).sum(1)
model = MLP(nnx.Rngs(0, dropout=1))
optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"))


@nnx.jit
def step(model, optimizer, metrics):
    value, grads = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    metrics.update(loss=value)
    optimizer.update(model, grads)
    return value


tell(losses=[step(model, optimizer, metrics) for _ in range(20)])
tell(average=metrics.compute()["loss"], bias=model.last.bias[...], mean=model.norm.mean[...])
model.eval()
tell(evaluated=model(x), draws=model.dropout.rngs.count[...])

# State: split, changed and merged; a copy of its own; by jax's own transformations.
graphdef, params, rest = nnx.split(model, nnx.Param, ...)
doubled = nnx.merge(graphdef, jax.tree.map(lambda w: 2 * w, params), rest)
tell(doubled=doubled(x), names=len(nnx.to_flat_state(nnx.state(model))))
pure = jax.jit(jax.grad(lambda params: jnp.sum(nnx.merge(graphdef, params, rest)(x) ** 2)))(params)
tell(pure=pure["first"]["kernel"][...])
nnx.update(doubled, nnx.state(model, nnx.Param))
tell(back=doubled(x), shapes=len(jax.tree.leaves(nnx.eval_shape(lambda: MLP(nnx.Rngs(0))))))


# Images, and gradients by parameters of one kind.
class CNN(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.conv = nnx.Conv(1, 4, kernel_size=(3, 3), rngs=rngs)
        self.norm = nnx.GroupNorm(4, num_groups=2, rngs=rngs)
        self.head = nnx.Linear(4 * 9, 3, rngs=rngs)

    def __call__(self, x):
        x = nnx.avg_pool(nnx.relu(self.norm(self.conv(x))), (2, 2), strides=(2, 2))
        return self.head(x.reshape(x.shape[0], -1))


images = jax.random.normal(jax.random.key(2), (5, 6, 6, 1))
cnn = CNN(nnx.Rngs(3))
grads = nnx.grad(
    lambda cnn: optax.softmax_cross_entropy_with_integer_labels(cnn(images), jnp.arange(5) % 3).mean()
)(cnn)
tell(conv=grads["conv"]["kernel"][...], head=grads["head"]["bias"][...])
only = nnx.grad(lambda cnn: cnn(images).sum(), argnums=nnx.DiffState(0, nnx.PathContains("head")))(cnn)
tell(only=only["head"]["kernel"][...], parts=len(jax.tree.leaves(only)))


# A transformer: its layers made by vmap, run by scan, each rematerialised.
class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 8, decode=False, dropout_rate=0.1, rngs=rngs)
        self.dense = nnx.Linear(8, 8, rngs=rngs)

    def __call__(self, x, mask):
        x = x + self.attention(self.norm(x), mask=mask, deterministic=False)
        return x + nnx.gelu(self.dense(x))


class Transformer(nnx.Module):
    def __init__(self, layers: int, rngs: nnx.Rngs):
        self.embed = nnx.Embed(11, 8, rngs=rngs)
        self.blocks = nnx.vmap(Block, in_axes=0, out_axes=0)(rngs.fork(split=layers))
        self.head = nnx.Linear(8, 11, rngs=rngs)

    def __call__(self, tokens):
        mask = nnx.make_causal_mask(tokens)

        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        @nnx.remat
        def run(x, block):
            return block(x, mask)

        return self.head(run(self.embed(tokens), self.blocks))


tokens = jnp.array([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]])
transformer = Transformer(3, nnx.Rngs(params=4, dropout=5))
tell(kernels=transformer.blocks.dense.kernel[...])


@nnx.jit
def loss(model):
    return optax.softmax_cross_entropy_with_integer_labels(model(tokens[:, :-1]), tokens[:, 1:]).mean()


value, grads = nnx.value_and_grad(loss)(transformer)
tell(transformer=value, again=loss(transformer))
tell(**{f"grad_{jax.tree_util.keystr(path)}": leaf for path, leaf in jax.tree.leaves_with_path(grads)})


# A variable of one's own kind that counts, under loops and branches.
class Count(nnx.Variable):
    pass


class Counter(nnx.Module):
    def __init__(self):
        self.count = Count(jnp.array(0))

    def __call__(self, x):
        self.count[...] += 1
        return x * self.count[...]


counter = Counter()
out = nnx.fori_loop(0, 3, lambda i, c: (c[0], c[0](c[1])), (counter, jnp.array(1.0)))[1]
out = nnx.while_loop(lambda c: c[1] < 100, lambda c: (c[0], c[0](c[1])), (counter, out))[1]
branch = nnx.cond(out > 1, lambda c, x: c(x), lambda c, x: x, counter, out)
tell(loop=out, branch=branch, count=counter.count[...])
rnn = nnx.RNN(nnx.LSTMCell(4, 6, rngs=nnx.Rngs(6)))
tell(lstm=rnn(x[None, :7]))
ensemble = nnx.vmap(lambda rngs: nnx.Linear(4, 2, rngs=rngs))(nnx.Rngs(7).fork(split=3))
tell(ensemble=nnx.vmap(lambda model, x: model(x), in_axes=(0, None))(ensemble, x[:5]))
