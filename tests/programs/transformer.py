"""A transformer of one block by hand: embeddings, attention, layer norms, training, greedy text, sampled text."""

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


def by_hand(q: effx.Array, k: effx.Array, v: effx.Array) -> effx.Array:
    """Causal attention with einsum; heads last but one."""
    logits = enp.einsum("tnh,snh->nts", q, k) / enp.sqrt(q.shape[-1])
    logits = enp.where(enp.tril(enp.ones(logits.shape[1:], bool)), logits, -enp.inf)
    return enp.einsum("nts,snh->tnh", nn.softmax(logits), v)


def loss(block: Block, tokens: effx.Array) -> effx.Array:
    logits = nn.log_softmax(apply(block, tokens[:, :-1]))
    return -enp.mean(enp.take_along_axis(logits, tokens[:, 1:, None], axis=-1))


def continued(block: Block, tokens: effx.Array, start: int) -> effx.Array:
    """The likeliest letters from `start` on."""

    def one(i: effx.Array, tokens: effx.Array) -> effx.Array:
        best = enp.argmax(apply(block, tokens)[i - 1])
        return lax.dynamic_update_index_in_dim(tokens, best.astype(tokens.dtype), i, 0)

    return lax.fori_loop(start, tokens.shape[0], one, tokens)


def results() -> dict[str, object]:
    a, b, c = random.split(random.PRNGKey(6), 3)
    codes = enp.array([LETTERS.index(letter) for letter in TEXT])
    rows = enp.arange(0, len(TEXT) - LENGTH, 5)[:, None] + enp.arange(LENGTH)
    tokens, block = codes[rows], initial(a)
    found: dict[str, object] = {"logits": apply(block, tokens[:2]), "loss": loss(block, tokens)}
    found["gradient"] = effx.jit(effx.grad(loss))(block, tokens)
    q, k, v = random.normal(b, (3, 5, HEADS, 4))
    found["attention"] = by_hand(q, k, v), nn.dot_product_attention(q, k, v, is_causal=True)
    wide = nn.dot_product_attention(
        q[None],
        k[None, :, :1],
        v[None, :, :1],
        mask=enp.arange(5) < 4,
        bias=enp.ones((1, 1, 5, 5)),
        scale=0.3,
    )
    found["shared heads"] = wide

    @effx.jit
    def descend(block: Block, _: None) -> tuple[Block, effx.Array]:
        value, slope = effx.value_and_grad(loss)(block, tokens)
        return effx.tree.map(lambda p, g: p - 0.1 * g, block, slope), value

    trained, values = lax.scan(descend, block, None, length=15)
    found["training"] = values
    prompt = enp.where(enp.arange(LENGTH) < 4, codes[:LENGTH], 0)
    found["continued"] = effx.jit(continued, static_argnums=2)(block, prompt, 4)
    found["sampled"] = random.categorical(c, 0.5 * apply(block, prompt), axis=-1)
    found["likeliest"] = lax.top_k(apply(trained, tokens[0])[-1], 3)[1]
    found["perplexity"] = enp.exp(loss(trained, tokens)) < enp.exp(loss(block, tokens))
    return found
