"""Table 2: whole programs, each traced, lowered, compiled, run and evaluated without jit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeAlias, final

import attrs
import numpy as np
import numpy.typing as npt

from benchmarks.cases import SETTLED, Case, salt
from benchmarks.operations import chain, total
from benchmarks.peers import Function, Peer, Tree, Value
from benchmarks.timing import Thunk

Layers: TypeAlias = list[tuple[Value, Value]]


def sample(seed: int, *shape: int) -> npt.NDArray[np.float32]:
    """Standard normal numbers, the same in every run."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def one_hot(seed: int, rows: int, classes: int) -> npt.NDArray[np.float32]:
    labels = np.random.default_rng(seed).integers(classes, size=rows)
    return np.eye(classes, dtype=np.float32)[labels]


def weights(peer: Peer, *widths: int) -> Layers:
    """Weights and biases of a multi-layer perceptron."""
    pairs = enumerate(itertools.pairwise(widths))
    asarray = peer.numpy.asarray
    return [(asarray(sample(i, n, m) / np.sqrt(n)), asarray(0.1 * sample(i, m))) for i, (n, m) in pairs]


def perceptron_loss(peer: Peer) -> Callable[[Layers, Value, Value], Value]:
    """Mean cross entropy of a multi-layer perceptron; works for a batch and for one example."""
    xp, nn, scale = peer.numpy, peer.nn, 1.0 + salt()

    def loss(layers: Layers, x: Value, target: Value) -> Value:
        for w, b in layers[:-1]:
            x = nn.relu(x @ w + b)
        w, b = layers[-1]
        scores = nn.log_softmax((x @ w + b) * scale)
        return -xp.mean(xp.sum(scores * target, axis=-1))

    return loss


def perceptron_gradient(peer: Peer) -> Function:
    return peer.api.grad(perceptron_loss(peer))


def perceptron_arguments(peer: Peer) -> tuple[Tree, ...]:
    asarray = peer.numpy.asarray
    return weights(peer, 64, 256, 256, 10), asarray(sample(1, 128, 64)), asarray(one_hot(2, 128, 10))


def per_example_gradients(peer: Peer) -> Function:
    return peer.api.vmap(peer.api.grad(perceptron_loss(peer)), in_axes=(None, 0, 0))


def per_example_arguments(peer: Peer) -> tuple[Tree, ...]:
    asarray = peer.numpy.asarray
    return weights(peer, 64, 64, 10), asarray(sample(1, 128, 64)), asarray(one_hot(2, 128, 10))


def chain_gradient(peer: Peer) -> Function:
    return peer.api.grad(total(chain(peer, 300)))


def chain_arguments(peer: Peer) -> tuple[Tree, ...]:
    return (peer.numpy.asarray(0.1 * sample(0, 4096)),)


def normalize(peer: Peer, x: Value) -> Value:
    """Each row with mean 0 and variance 1."""
    xp = peer.numpy
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    return centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def attention_gradient(peer: Peer) -> Function:
    """Gradient of a transformer block with 4 heads with regard to its weights."""
    xp, nn, heads, scale = peer.numpy, peer.nn, 4, 1.0 + salt()

    def split(x: Value) -> Value:
        length, width = x.shape
        return x.reshape(length, heads, width // heads).transpose(1, 0, 2)

    def loss(block: dict[str, Value], x: Value) -> Value:
        h = normalize(peer, x)
        q, k, v = split(h @ block["q"]), split(h @ block["k"]), split(h @ block["v"])
        weight = nn.softmax(q @ k.transpose(0, 2, 1) * (scale / q.shape[-1] ** 0.5))
        mixed = (weight @ v).transpose(1, 0, 2).reshape(*x.shape)
        x = x + mixed @ block["out"]
        x = x + nn.gelu(normalize(peer, x) @ block["up"]) @ block["down"]
        return xp.mean(x * x)

    return peer.api.grad(loss)


def attention_arguments(peer: Peer) -> tuple[Tree, ...]:
    width, length = 64, 64
    shapes = dict.fromkeys(("q", "k", "v", "out"), (width, width))
    shapes |= {"up": (width, 4 * width), "down": (4 * width, width)}
    block = {
        name: peer.numpy.asarray(sample(i, *shape) / np.sqrt(np.float32(shape[0])))
        for i, (name, shape) in enumerate(shapes.items())
    }
    return block, peer.numpy.asarray(sample(9, length, width))


def logistic_hessian(peer: Peer) -> Function:
    xp, nn, scale = peer.numpy, peer.nn, 1.0 + salt()

    def loss(w: Value, x: Value, sign: Value) -> Value:
        return xp.mean(nn.softplus(-(x @ w) * sign * scale))

    return peer.api.hessian(loss)


def logistic_arguments(peer: Peer) -> tuple[Tree, ...]:
    asarray = peer.numpy.asarray
    return asarray(0.1 * sample(0, 20)), asarray(sample(1, 500, 20)), asarray(np.sign(sample(2, 500)))


def sorting(peer: Peer) -> Function:
    factor = 1.0 + salt()
    return lambda x: peer.lax.sort(x * factor)


def summing(peer: Peer) -> Function:
    factor = 1.0 + salt()
    return lambda x: peer.numpy.cumsum(x * factor)


def line_arguments(peer: Peer) -> tuple[Tree, ...]:
    return (peer.numpy.asarray(sample(0, 65_536)),)


@final
@attrs.frozen
class Program:
    """A program: how a new instance of its function is made, and what it is applied to."""

    name: str
    make: Callable[[Peer], Function]
    arguments: Callable[[Peer], tuple[Tree, ...]]


PROGRAMS = (
    Program("MLP gradient", perceptron_gradient, perceptron_arguments),
    Program("chain gradient", chain_gradient, chain_arguments),
    Program("attention gradient", attention_gradient, attention_arguments),
    Program("logistic Hessian", logistic_hessian, logistic_arguments),
    Program("per-example gradients", per_example_gradients, per_example_arguments),
    Program("sort 65,536", sorting, line_arguments),
    Program("cumsum 65,536", summing, line_arguments),
)


def trace(program: Program) -> Callable[[Peer], Thunk]:
    def prepare(peer: Peer) -> Thunk:
        arguments = program.arguments(peer)
        return lambda: peer.api.make_jaxpr(program.make(peer))(*arguments)

    return prepare


def lower(program: Program) -> Callable[[Peer], Thunk]:
    def prepare(peer: Peer) -> Thunk:
        arguments = program.arguments(peer)
        return lambda: peer.lower(program.make(peer), *arguments)

    return prepare


def first_call(program: Program) -> Callable[[Peer], Thunk]:
    def prepare(peer: Peer) -> Thunk:
        arguments = program.arguments(peer)
        return lambda: peer.api.block_until_ready(peer.api.jit(program.make(peer))(*arguments))

    return prepare


def run(program: Program) -> Callable[[Peer], Thunk]:
    def prepare(peer: Peer) -> Thunk:
        arguments, f = program.arguments(peer), peer.api.jit(program.make(peer))
        return lambda: peer.api.block_until_ready(f(*arguments))

    return prepare


def eager(program: Program) -> Callable[[Peer], Thunk]:
    def prepare(peer: Peer) -> Thunk:
        # One function for all calls: eager evaluation may keep kernels, and users' loops do as well.
        arguments, f = program.arguments(peer), program.make(peer)
        return lambda: peer.api.block_until_ready(f(*arguments))

    return prepare


def cases() -> list[Case]:
    """The rows of the table: each program by each phase."""
    rows: list[Case] = []
    for program in PROGRAMS:
        rows += [
            Case(program.name, "trace", trace(program), 0.12),
            Case(program.name, "trace and lower", lower(program), 0.12),
            Case(program.name, "first call", first_call(program), 0.75, slow=True),
            Case(program.name, "run", run(program), 1.0),
            Case(program.name, "eager", eager(program), 1.0, before=SETTLED),
        ]
    return rows
