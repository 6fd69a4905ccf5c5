"""Table 3: programs with loops and rematerialisation, traced, lowered, compiled and run; and their memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from benchmarks.cases import Case, salt
from benchmarks.peers import Function, Peer, Tree, Value
from benchmarks.programs import Program, first_call, lower, run, sample, trace

Weights: TypeAlias = dict[str, Value]

STEPS, WIDTH, ROWS = 100, 32, 16
BODIES = 64
LAYERS = 12


def gru_gradient(peer: Peer) -> Function:
    """Gradient of a gated recurrent unit over 100 steps with regard to its weights."""
    xp, nn, lax, scale = peer.numpy, peer.nn, peer.lax, 1.0 + salt()

    def loss(w: Weights, xs: Value) -> Value:
        def step(h: Value, x: Value) -> tuple[Value, Value]:
            z = nn.sigmoid(x @ w["xz"] + h @ w["hz"])
            r = nn.sigmoid(x @ w["xr"] + h @ w["hr"])
            new = xp.tanh(x @ w["xh"] + (r * h) @ w["hh"])
            h = (-z + 1.0) * h + z * new * scale
            return h, h

        h, hs = lax.scan(step, xp.zeros((ROWS, WIDTH)), xs)
        total: Value = (h * h).sum() + (hs * hs).sum() * 0.01
        return total

    return peer.api.grad(loss)


def gru_arguments(peer: Peer) -> tuple[Tree, ...]:
    asarray = peer.numpy.asarray
    names = ("xz", "hz", "xr", "hr", "xh", "hh")
    w = {name: asarray(sample(i, WIDTH, WIDTH) / np.float32(6)) for i, name in enumerate(names)}
    return w, asarray(sample(9, STEPS, ROWS, WIDTH))


def bodies_tangent(peer: Peer) -> Function:
    """Tangent of 50 leapfrog steps of bodies that attract each other."""
    xp, lax, step = peer.numpy, peer.lax, 1e-3 + 1e-3 * salt()

    def pull(x: Value) -> Value:
        gap = xp.expand_dims(x, 0) - xp.expand_dims(x, 1)
        distance = xp.sum(gap * gap, axis=-1, keepdims=True) + 0.01
        return xp.sum(gap / (distance * xp.sqrt(distance)), axis=1)

    def turn(i: Value, state: tuple[Value, Value]) -> tuple[Value, Value]:
        x, v = state
        v = v + pull(x) * step
        return x + v * step, v

    def positions(x: Value, v: Value) -> Value:
        last: Value = lax.fori_loop(0, 50, turn, (x, v))[0]
        return last

    return lambda x, v, dx, dv: peer.api.jvp(positions, (x, v), (dx, dv))


def bodies_arguments(peer: Peer) -> tuple[Tree, ...]:
    return tuple([peer.numpy.asarray(sample(i, BODIES, 3)) for i in range(4)])


def newton_batch(peer: Peer) -> Function:
    """Cube roots by Newton's method, each until it is there: a while loop under vmap."""
    xp, lax, least = peer.numpy, peer.lax, 1e-5 + 1e-6 * salt()

    def root(a: Value) -> Value:
        def far(x: Value) -> Value:
            return xp.abs(x * x * x - a) > least * a

        def turn(x: Value) -> Value:
            return x - (x * x * x - a) / (x * x * 3.0)

        result: Value = lax.while_loop(far, turn, a + 1.0)
        return result

    return peer.api.vmap(root)


def newton_arguments(peer: Peer) -> tuple[Tree, ...]:
    return (peer.numpy.asarray(np.linspace(1.0, 1000.0, 4096, dtype=np.float32)),)


def deep_gradient(peer: Peer, checkpoint: Callable[[Function], Function]) -> Function:
    """Gradient of a network of 12 layers of four products each."""
    xp, scale = peer.numpy, 1.0 + salt()

    def layer(w: Value, x: Value) -> Value:
        for _ in range(4):
            x = xp.tanh(x @ w * scale)
        return x

    again = checkpoint(layer)

    def loss(ws: list[Value], x: Value) -> Value:
        for w in ws:
            x = again(w, x)
        return (x * x).sum()

    return peer.api.grad(loss)


def checkpointed_gradient(peer: Peer) -> Function:
    return deep_gradient(peer, peer.api.checkpoint)


def deep_arguments(peer: Peer) -> tuple[Tree, ...]:
    asarray = peer.numpy.asarray
    ws = [asarray(sample(i, 128, 128) / np.float32(11)) for i in range(LAYERS)]
    return ws, asarray(sample(99, 256, 128))


PROGRAMS = (
    Program("GRU scan gradient", gru_gradient, gru_arguments),
    Program("n-body fori tangent", bodies_tangent, bodies_arguments),
    Program("Newton while batched", newton_batch, newton_arguments),
    Program("checkpointed layers", checkpointed_gradient, deep_arguments),
)


def peak(program: Program) -> Callable[[Peer], int]:
    """Bytes of temporary memory that XLA gives the compiled program."""

    def measure(peer: Peer) -> int:
        compiled = peer.api.jit(program.make(peer)).lower(*program.arguments(peer)).compile()
        return int(compiled.memory_analysis().temp_size_in_bytes)

    return measure


def cases() -> list[Case]:
    """The rows of the table: each program by each phase."""
    rows: list[Case] = []
    for program in PROGRAMS:
        rows += [
            Case(program.name, "trace", trace(program), 0.2),
            Case(program.name, "trace and lower", lower(program), 0.2),
            Case(program.name, "first call", first_call(program), 0.75, slow=True),
            Case(program.name, "run", run(program), 1.0),
        ]
    return rows


def memory() -> list[tuple[str, Callable[[Peer], int]]]:
    """Programs whose memory is compared, by title."""
    return [(f"{program.name}: temporary KB", peak(program)) for program in PROGRAMS]
