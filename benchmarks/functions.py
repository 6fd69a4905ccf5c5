"""Table 6: functions whose speed the lowering decides, at three sizes: how long a run takes, and the first call.

Never: measures Python; arrays are large enough for the compiled program, or its compilation, to be all of the cost.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, TypeAlias, final

import attrs
import numpy as np

from benchmarks.cases import Case, salt
from benchmarks.peers import Function, Peer, Tree
from benchmarks.timing import Thunk

SIZES = (1_000, 30_000, 600_000)
BUDGET = 1.05


@final
class Library:
    """One library's namespaces, for functions of few letters."""

    def __init__(self, peer: Peer) -> None:
        def part(name: str) -> Any:
            return importlib.import_module(f"{peer.name}.{name}")

        self.api: Any = peer.api
        self.xp, self.lax, self.nn, self.random = part("numpy"), part("lax"), part("nn"), part("random")
        self.special, self.linalg = part("scipy.special"), part("numpy.linalg")


Apply: TypeAlias = Callable[[Library, Tree], Tree]
Make: TypeAlias = Callable[[Library, int], Tree]


def line(library: Library, n: int) -> Tree:
    return library.xp.asarray(np.random.default_rng(n).normal(size=n).astype(np.float32))


def rows(width: int) -> Make:
    """Matrices with rows of some width."""
    return lambda library, n: line(library, n - n % width).reshape(-1, width)


def matrices(size: int) -> Make:
    """A batch of well-conditioned symmetric matrices."""

    def make(library: Library, n: int) -> Tree:
        x = np.random.default_rng(n).normal(size=(n // size**2, size, size)).astype(np.float32)
        return library.xp.asarray(x @ x.transpose(0, 2, 1) + size * np.eye(size, dtype=np.float32))

    return make


def labelled(library: Library, n: int) -> Tree:
    """Numbers and for each a label below n / 10."""
    labels = np.random.default_rng(n).integers(0, max(1, n // 10), n).astype(np.int32)
    return line(library, n), library.xp.asarray(labels)


def few_labels(library: Library, n: int) -> Tree:
    labels = np.random.default_rng(n).integers(0, 32, n // 32).astype(np.int32)
    return library.xp.asarray(labels), line(library, 32 * 16).reshape(32, 16)


def key(library: Library, n: int) -> Tree:
    return library.random.PRNGKey(n), n


def image(channels: int) -> Make:
    """A batch of images of 16 by 16 and a kernel for them."""

    def make(library: Library, n: int) -> Tree:
        batch = max(1, n // (256 * channels))
        x = line(library, batch * 256 * channels).reshape(batch, 16, 16, channels)
        return x, line(library, 9 * channels * channels).reshape(3, 3, channels, channels)

    return make


def convolved(library: Library, pair: Tree, groups: int = 1) -> Tree:
    x, k = pair
    return library.lax.conv_general_dilated(
        x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


def square(n: int) -> int:
    return max(2, 1 << (math.isqrt(n).bit_length() - 1))


def grid(library: Library, n: int) -> Tree:
    return line(library, square(n) ** 2).reshape(square(n), square(n))


@final
@attrs.frozen
class Measured:
    """A function: its name, what it does to its operands, and how these are made for a size."""

    name: str
    apply: Apply
    make: Make = line


def drawn(sample: Callable[[Any, Tree, tuple[int, ...]], Tree]) -> Apply:
    return lambda library, pair: sample(library.random, pair[0], (pair[1],))


FUNCTIONS = (
    Measured("sort", lambda a, x: a.xp.sort(x)),
    Measured("sort of rows", lambda a, x: a.xp.sort(x, -1), rows(50)),
    Measured("argsort", lambda a, x: a.xp.argsort(x)),
    Measured("median", lambda a, x: a.xp.median(x)),
    Measured("quantile", lambda a, x: a.xp.quantile(x, 0.3)),
    Measured("unique", lambda a, x: a.xp.unique(a.xp.round(x, 1), size=50)),
    Measured("top_k", lambda a, x: a.lax.top_k(x, 10)),
    Measured("searchsorted", lambda a, x: a.xp.searchsorted(a.xp.cumsum(a.xp.abs(x)), x)),
    Measured("cumsum", lambda a, x: a.xp.cumsum(x)),
    Measured("cumsum of rows", lambda a, x: a.xp.cumsum(x, -1), rows(50)),
    Measured("cumsum of columns", lambda a, x: a.xp.cumsum(x, 0), rows(50)),
    Measured("cumprod", lambda a, x: a.xp.cumprod(x)),
    Measured("cummax", lambda a, x: a.lax.cummax(x)),
    Measured("cumlogsumexp", lambda a, x: a.lax.cumlogsumexp(x)),
    Measured("bits", drawn(lambda r, k, s: r.bits(k, s)), key),
    Measured("uniform", drawn(lambda r, k, s: r.uniform(k, s)), key),
    Measured("normal", drawn(lambda r, k, s: r.normal(k, s)), key),
    Measured("randint", drawn(lambda r, k, s: r.randint(k, s, 0, 100)), key),
    Measured("gamma", drawn(lambda r, k, s: r.gamma(k, 2.0, s)), key),
    Measured("permutation", drawn(lambda r, k, s: r.permutation(k, s[0])), key),
    Measured("scatter-add", lambda a, p: a.xp.zeros(p[0].shape[0] // 10).at[p[1]].add(p[0]), labelled),
    Measured("segment maxima", lambda a, p: a.xp.zeros(p[0].shape[0] // 10).at[p[1]].max(p[0]), labelled),
    Measured("take", lambda a, p: a.xp.take(p[0], p[1]), labelled),
    Measured("bincount", lambda a, p: a.xp.bincount(p[1], length=100), labelled),
    Measured("one_hot matmul", lambda a, p: a.nn.one_hot(p[0], 32) @ p[1], few_labels),
    Measured("det 3x3", lambda a, x: a.linalg.det(x), matrices(3)),
    Measured("inv 3x3", lambda a, x: a.linalg.inv(x), matrices(3)),
    Measured("cholesky 3x3", lambda a, x: a.linalg.cholesky(x), matrices(3)),
    Measured("eigh 3x3", lambda a, x: a.linalg.eigh(x), matrices(3)),
    Measured("svd 3x3", lambda a, x: a.linalg.svd(x), matrices(3)),
    Measured("solve 5x5", lambda a, x: a.linalg.solve(x, x), matrices(5)),
    Measured("convolution", convolved, image(8)),
    Measured("depthwise convolution", lambda a, p: convolved(a, (p[0], p[1][:, :, :1]), 8), image(8)),
    Measured("logsumexp", lambda a, x: a.special.logsumexp(x, -1), rows(50)),
    Measured("softmax", lambda a, x: a.nn.softmax(x), rows(50)),
    Measured(
        "softmax gradient", lambda a, x: a.api.grad(lambda v: (a.nn.softmax(v) ** 2).sum())(x), rows(50)
    ),
    Measured("fft", lambda a, x: a.xp.fft.fft(x), rows(50)),
    Measured("rfft2", lambda a, x: a.xp.fft.rfft2(x), grid),
    Measured("argmax of rows", lambda a, x: a.xp.argmax(x, -1), rows(50)),
    Measured("nonzero", lambda a, x: a.xp.nonzero(x > 1, size=100)[0]),
)


def scaled(library: Library, measured: Measured, operands: Tree) -> tuple[Function, list[Tree]]:
    """The function of its arrays alone, new to every cache, and these."""
    leaves, structure = library.api.tree.flatten(operands)
    places = [i for i, leaf in enumerate(leaves) if hasattr(leaf, "dtype")]
    factor = 1.0 + salt()

    def f(*arrays: Tree) -> Tree:
        given = list(leaves)
        for i, array in zip(places, arrays, strict=True):
            given[i] = array * factor if array.dtype == np.float32 else array
        # Of keys alone: the results differ by the factor, so that the program is new.
        found = measured.apply(library, library.api.tree.unflatten(structure, given))
        return found, factor

    return f, [leaves[i] for i in places]


def first_call(measured: Measured, n: int) -> Callable[[Peer], Thunk]:
    def prepare(peer: Peer) -> Thunk:
        library = Library(peer)
        operands = measured.make(library, n)

        def thunk() -> object:
            f, arrays = scaled(library, measured, operands)
            return peer.api.block_until_ready(peer.api.jit(f)(*arrays))

        return thunk

    return prepare


def run(measured: Measured, n: int) -> Callable[[Peer], Thunk]:
    def prepare(peer: Peer) -> Thunk:
        library = Library(peer)
        f, arrays = scaled(library, measured, measured.make(library, n))
        compiled = peer.api.jit(f)
        return lambda: peer.api.block_until_ready(compiled(*arrays))

    return prepare


def cases(quick: bool) -> list[Case]:
    """The rows of the table: each function at each size, run and first call."""
    found: list[Case] = []
    for measured in FUNCTIONS:
        for n in SIZES[1:2] if quick else SIZES:
            found += [
                Case(f"{measured.name} {n:,}", "run", run(measured, n), BUDGET),
                Case(f"{measured.name} {n:,}", "first call", first_call(measured, n), BUDGET, slow=True),
            ]
    return found
