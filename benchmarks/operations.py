"""Table 1: what one operation costs to trace, lower, differentiate, batch and dispatch.

Never: measures arithmetic; arrays are small enough for the library to be all of the cost.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.cases import SETTLED, Case, salt
from benchmarks.peers import Function, Peer, Value
from benchmarks.timing import Thunk

LENGTH = 8
BATCH = 4
LEAVES = 100
STEP = 6  # operations in one turn of the loop in `chain`


def chain(peer: Peer, operations: int) -> Callable[[Value], Value]:
    """A new function of that many operations, none of them like those of an earlier one."""
    xp, factor = peer.numpy, 2.0 + salt()

    def f(x: Value) -> Value:
        for _ in range(operations // STEP):
            y = xp.sin(x)
            x = xp.cos(x)
            x = xp.multiply(x, y)
            x = xp.add(x, y)
            x = x * factor
            x = xp.tanh(x)
        return x

    return f


def total(f: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """`f` with its results added up, to be differentiated."""
    return lambda x: f(x).sum()


def vector(peer: Peer) -> Value:
    return peer.numpy.asarray(np.linspace(0.1, 0.9, LENGTH, dtype=np.float32))


def matrix(peer: Peer) -> Value:
    return peer.numpy.asarray(np.linspace(0.1, 0.9, BATCH * LENGTH, dtype=np.float32).reshape(BATCH, LENGTH))


def cases(quick: bool) -> list[Case]:
    """The rows of the table."""
    many = STEP * (35 if quick else 167)
    few = STEP * (5 if quick else 20)

    def plain(peer: Peer) -> Function:
        return chain(peer, many)

    def gradient(peer: Peer) -> Function:
        return peer.api.grad(total(chain(peer, many)))

    def batched(peer: Peer) -> Function:
        return peer.api.vmap(chain(peer, many))

    def stage(make: Callable[[Peer], Function], argument: Callable[[Peer], Value]) -> Callable[[Peer], Thunk]:
        def prepare(peer: Peer) -> Thunk:
            x = argument(peer)
            return lambda: peer.api.make_jaxpr(make(peer))(x)

        return prepare

    def lower(make: Callable[[Peer], Function], argument: Callable[[Peer], Value]) -> Callable[[Peer], Thunk]:
        def prepare(peer: Peer) -> Thunk:
            x = argument(peer)
            return lambda: peer.lower(make(peer), x)

        return prepare

    def eager_gradient(peer: Peer) -> Thunk:
        x = vector(peer)
        return lambda: peer.api.grad(total(chain(peer, few)))(x)

    def eager_batched(peer: Peer) -> Thunk:
        x = matrix(peer)
        return lambda: peer.api.vmap(chain(peer, few))(x)

    return [
        Case("1,000 operations", "stage", stage(plain, vector), 0.12, many),
        Case("1,000 operations", "stage of grad", stage(gradient, vector), 0.12, many),
        Case("1,000 operations", "stage of vmap", stage(batched, matrix), 0.12, many),
        Case("1,000 operations", "stage and lower", lower(plain, vector), 0.12, many),
        Case("1,000 operations", "grad, stage and lower", lower(gradient, vector), 0.12, many),
        Case("eager", "grad", eager_gradient, 0.12, few, before=SETTLED),
        Case("eager", "vmap", eager_batched, 0.12, few, before=SETTLED),
        Case("eager", "x * y", eager_product, 1.0, before=SETTLED),
        Case("eager", "x + 1.0", eager_sum, 1.0, before=SETTLED),
        Case("eager", "sin(x)", eager_sine, 1.0, before=SETTLED),
        Case("jit dispatch", "one argument", dispatch_one, 1.1),
        Case("jit dispatch", f"{LEAVES}-leaf tree in", dispatch_tree_in, 1.25),
        Case("jit dispatch", f"{LEAVES}-leaf tree in and out", dispatch_tree_through, 1.25),
    ]


def eager_product(peer: Peer) -> Thunk:
    x, y = vector(peer), vector(peer)
    return lambda: x * y


def eager_sum(peer: Peer) -> Thunk:
    x = vector(peer)
    return lambda: x + 1.0


def eager_sine(peer: Peer) -> Thunk:
    x, sin = vector(peer), peer.numpy.sin
    return lambda: sin(x)


def dispatch_one(peer: Peer) -> Thunk:
    x, f = vector(peer), peer.api.jit(lambda x: x + 1.0)
    return lambda: f(x)


def tree(peer: Peer) -> dict[str, Value]:
    return {f"leaf{i:03d}": vector(peer) for i in range(LEAVES)}


def dispatch_tree_in(peer: Peer) -> Thunk:
    values, f = tree(peer), peer.api.jit(lambda t: sum(t.values()))
    return lambda: f(values)


def dispatch_tree_through(peer: Peer) -> Thunk:
    values, f = tree(peer), peer.api.jit(lambda t: {name: x + 1.0 for name, x in t.items()})
    return lambda: f(values)
