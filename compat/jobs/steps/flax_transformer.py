"""flax.linen: six layers of a transformer, trained with optax's adam; a step is one jitted function."""

import jax
import optax
from flax import linen as nn

WORDS, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 128, 64, 4, 6, 64, 2


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        x = x + nn.MultiHeadDotProductAttention(num_heads=HEADS)(nn.LayerNorm()(x), mask=mask)
        h = nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(x)))
        return x + nn.Dense(WIDTH)(h)


class Transformer(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        position = self.param("position", nn.initializers.normal(0.02), (LENGTH, WIDTH))
        x = nn.Embed(WORDS, WIDTH)(tokens) + position
        mask = nn.make_causal_mask(tokens)
        for _ in range(LAYERS):
            x = Block()(x, mask)
        return nn.Dense(WORDS)(nn.LayerNorm()(x))


def start():
    """Initialises the model and its optimizer, and returns what takes one step."""
    tokens = jax.random.randint(jax.random.key(0), (BATCH, LENGTH), 0, WORDS)
    model, optimizer = Transformer(), optax.adam(1e-3)
    params = model.init(jax.random.key(1), tokens)
    state = optimizer.init(params)

    @jax.jit
    def update(params, state, tokens):
        def loss(params):
            logits = model.apply(params, tokens)[:, :-1]
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    def step():
        nonlocal params, state
        params, state, value = update(params, state, tokens)
        return value

    return step
