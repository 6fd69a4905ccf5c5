"""Large programs: many lines, equations, inputs, captured values, bytes of constants; cost is to be linear in each.

Never: compiles; what XLA makes of a program is measured on programs that people run.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence

import attrs
import numpy as np

from benchmarks.cases import Case
from benchmarks.peers import Function, Peer, Value
from benchmarks.timing import Thunk

BUDGET = 0.5


@attrs.frozen
class Large:
    """A program that is large in one respect.

    Attributes:
        name: what there is much of.
        make: for a library, a function and its arguments.
    """

    name: str
    make: Callable[[Peer], tuple[Function, Sequence[Value]]]


def vector(peer: Peer) -> Value:
    return peer.numpy.asarray(np.linspace(0.1, 0.9, 8, dtype=np.float32))


def lines(count: int) -> Large:
    """A function of as many distinct lines, each an operation."""
    source = "\n".join(
        ["def f(x):", *[f"    x = sin(x) if {i} % 2 else cos(x)" for i in range(count)], "    return x"]
    )
    code = compile(source, "many_lines.py", "exec")

    def make(peer: Peer) -> tuple[Function, Sequence[Value]]:
        scope: dict[str, Function] = {"sin": peer.numpy.sin, "cos": peer.numpy.cos}
        exec(code, scope)
        return scope["f"], (vector(peer),)

    return Large(f"{count:,} lines", make)


def equations(count: int) -> Large:
    """One line, run as often."""

    def make(peer: Peer) -> tuple[Function, Sequence[Value]]:
        sin = peer.numpy.sin

        def f(x: Value) -> Value:
            for _ in range(count):
                x = sin(x)
            return x

        return f, (vector(peer),)

    return Large(f"{count:,} equations", make)


def inputs(count: int) -> Large:
    def make(peer: Peer) -> tuple[Function, Sequence[Value]]:
        return lambda *xs: sum(xs[1:], xs[0]), tuple([vector(peer) for _ in range(count)])

    return Large(f"{count:,} inputs", make)


def captured(count: int) -> Large:
    """A function that closes over as many arrays."""

    def make(peer: Peer) -> tuple[Function, Sequence[Value]]:
        constants = [vector(peer) for _ in range(count)]
        return lambda x: sum(constants, x), (vector(peer),)

    return Large(f"{count:,} constants", make)


def bytes_of_constants(megabytes: int) -> Large:
    """A function that closes over one array."""

    def make(peer: Peer) -> tuple[Function, Sequence[Value]]:
        constant = peer.numpy.asarray(np.arange(megabytes * 2**18, dtype=np.float32))
        return lambda x: x + constant, (constant,)

    return Large(f"a constant of {megabytes:,} MB", make)


def trace(large: Large) -> Callable[[Peer], Thunk]:
    def prepare(peer: Peer) -> Thunk:
        f, arguments = large.make(peer)
        # A function that is new each time, so that no cache answers.
        return lambda: peer.api.make_jaxpr(lambda *xs: f(*xs))(*arguments)

    return prepare


def text(large: Large) -> Callable[[Peer], Thunk]:
    def prepare(peer: Peer) -> Thunk:
        f, arguments = large.make(peer)
        return lambda: peer.api.jit(lambda *xs: f(*xs)).lower(*arguments).as_text()

    return prepare


def peak(large: Large) -> Callable[[Peer], int]:
    """Bytes that Python and NumPy allocate at most while a program is traced and written as text."""

    def measure(peer: Peer) -> int:
        thunk = text(large)(peer)
        thunk()  # caches that last are not this program's
        tracemalloc.start()
        try:
            thunk()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measure


def programs(quick: bool) -> list[Large]:
    part = 10 if quick else 1
    return [
        lines(20_000 // part),
        equations(50_000 // part),
        inputs(500 // part),
        captured(200 // part),
        bytes_of_constants(100 // part),
    ]


def cases(quick: bool) -> list[Case]:
    """The rows of times."""
    return [
        Case(large.name, name, prepare(large), BUDGET, slow=True)
        for large in programs(quick)
        for name, prepare in (("trace", trace), ("trace and text", text))
    ]


def memory(quick: bool) -> list[tuple[str, Callable[[Peer], int]]]:
    """The rows of memory, by title."""
    return [(f"{large.name}: peak KB", peak(large)) for large in programs(quick)]
