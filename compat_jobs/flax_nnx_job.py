"""flax.nnx: an MLP trained with nnx.Optimizer under nnx.jit."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from told import tell


class MLP(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.first = nnx.Linear(4, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.last = nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.relu(self.norm(self.first(x))))[:, 0]


x = jax.random.normal(jax.random.key(0), (32, 4))
y = jnp.sin(x).sum(1)
model = MLP(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)


@nnx.jit
def step(model, optimizer):
    value, grads = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    optimizer.update(model, grads)
    return value


tell(losses=[step(model, optimizer) for _ in range(20)])
tell(bias=model.last.bias[...], mean=model.norm.mean[...])
