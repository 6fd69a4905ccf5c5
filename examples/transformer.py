"""A transformer of one block, written by hand, that learns a sentence and says it.

python examples/transformer.py
"""

from __future__ import annotations

import effx
import effx.numpy as enp
from effx import lax, nn, random

Block = dict[str, effx.Array]
TEXT = "to be or not to be that is the question whether tis nobler in the mind to suffer "
LETTERS = sorted(set(TEXT))
WIDTH, HEADS, LENGTH = 16, 2, 12


def initial(key: effx.Array) -> Block:
    shapes = {
        "embed": (len(LETTERS), WIDTH), "place": (LENGTH, WIDTH), "qkv": (WIDTH, 3 * WIDTH), "mix": (WIDTH, WIDTH),
        "up": (WIDTH, 2 * WIDTH), "down": (2 * WIDTH, WIDTH),
    }  # fmt: skip
    keys = dict(zip(sorted(shapes), random.split(key, len(shapes)), strict=True))
    return {n: random.normal(keys[n], s) / enp.sqrt(s[0]) for n, s in shapes.items()}


def apply(block: Block, tokens: effx.Array) -> effx.Array:
    """Logits of the next letter at each place; f32[*batch, t, letters] of i32[*batch, t]."""
    t = tokens.shape[-1]
    x = enp.take(block["embed"], tokens, axis=0) + block["place"][:t]
    q, k, v = enp.split(nn.standardize(x) @ block["qkv"], 3, axis=-1)
    heads = (*x.shape[:-1], HEADS, WIDTH // HEADS)
    seen = nn.dot_product_attention(q.reshape(heads), k.reshape(heads), v.reshape(heads), is_causal=True)
    x = x + seen.reshape(x.shape) @ block["mix"]
    x = x + nn.gelu(nn.standardize(x) @ block["up"]) @ block["down"]
    return nn.standardize(x) @ block["embed"].T


def loss(block: Block, tokens: effx.Array) -> effx.Array:
    logits = nn.log_softmax(apply(block, tokens[:, :-1]))
    return -enp.mean(enp.take_along_axis(logits, tokens[:, 1:, None], axis=-1))


def continued(block: Block, tokens: effx.Array, start: int) -> effx.Array:
    """The likeliest letters from `start` on."""

    def one(i: effx.Array, tokens: effx.Array) -> effx.Array:
        best = enp.argmax(apply(block, tokens)[i - 1])
        return lax.dynamic_update_index_in_dim(tokens, best.astype(tokens.dtype), i, 0)

    return lax.fori_loop(start, tokens.shape[0], one, tokens)


def train(block: Block, tokens: effx.Array, steps: int) -> tuple[Block, effx.Array]:
    """Plain descent; returns the losses on the way too."""

    def descend(block: Block, _: None) -> tuple[Block, effx.Array]:
        value, slope = effx.value_and_grad(loss)(block, tokens)
        return effx.tree.map(lambda p, g: p - 0.2 * g, block, slope), value

    return lax.scan(descend, block, None, length=steps)


def main() -> None:
    """Runs the example."""
    codes = enp.array([LETTERS.index(letter) for letter in TEXT])
    windows = codes[enp.arange(len(TEXT) - LENGTH + 1)[:, None] + enp.arange(LENGTH)]
    block, losses = effx.jit(train, static_argnums=2)(initial(random.key(0)), windows, 800)
    print(f"loss {float(losses[0]):.2f}, after 800 steps {float(losses[-1]):.2f}")
    said = effx.jit(continued, static_argnums=2)(
        block, enp.where(enp.arange(LENGTH) < 4, codes[:LENGTH], 0), 4
    )
    print("said: " + "".join([LETTERS[int(i)] for i in said]))
    print("text: " + TEXT[:LENGTH])


if __name__ == "__main__":
    main()
