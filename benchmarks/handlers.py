"""Table 4: what users' handlers cost, against the same work in effx without them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, final

import attrs
import numpy as np

from benchmarks.operations import STEP, chain, vector
from benchmarks.peers import Peer
from benchmarks.timing import Thunk


@final
@attrs.frozen
class Pair:
    """One row: the same work with a handler and without.

    Attributes:
        title: what is measured.
        budget: greatest allowed ratio; None for a row that is only shown.
        units: what one call is divided by.
        handled, plain: the calls to time.
    """

    title: str
    budget: float | None
    units: int
    handled: Thunk
    plain: Thunk


def pairs(peer: Peer, quick: bool) -> list[Pair]:
    """The rows of the table."""
    import effx
    from effx.handling import BoxHandler, InterceptHandler
    from effx.ir.ops import elementwise as e

    @attrs.frozen
    class Carried:
        value: effx.Array

    @attrs.frozen
    class Boxes(BoxHandler[Carried]):
        def lift(self, x: effx.Array) -> Carried:
            return Carried(x)

    @attrs.frozen
    class Watch(InterceptHandler[None]): ...

    @attrs.frozen
    class Count(InterceptHandler[effx.Array]):
        def initial(self) -> effx.Array:
            return effx.numpy.int32(0)

    def counted(site: Any, op: Any, *xs: effx.Array) -> Any:
        site.state = site.state + 1
        return op(*xs)

    five = (e.Sin, e.Cos, e.Mul, e.Add, e.Tanh)
    for kind in five:
        Boxes.rule(kind)(lambda op, *xs: Carried(op(*[x.value for x in xs])))
        Watch.rule(kind)(lambda site, op, *xs: site.forward())
        Count.rule(kind)(counted)

    many = STEP * (35 if quick else 167)
    x: Any = vector(peer)

    def staged(run: Callable[[Any], Any]) -> Thunk:
        return lambda: effx.make_jaxpr(run(chain(peer, many)))(x)

    plain = staged(lambda f: lambda x: f(x))
    # Staging costs about 3 us an operation, and a handler may cost 5 us more.
    allowed = (3.0 + 5.0) / 3.0
    rows = [
        Pair(
            "stage under a boxing handler",
            allowed,
            many,
            staged(lambda f: lambda x: Boxes().run(f, Carried(x))),
            plain,
        ),
        Pair(
            "stage under a watching handler",
            allowed,
            many,
            staged(lambda f: lambda x: Watch().run(f, x)),
            plain,
        ),
        # The count itself is one more operation for each.
        Pair(
            "stage under a handler that counts",
            None,
            many,
            staged(lambda f: lambda x: Count().run(f, x)),
            plain,
        ),
    ]
    return [*rows, *laplacians()]


def laplacians() -> list[Pair]:
    """The forward Laplacian of a network with 30 inputs against the trace of its Hessian."""
    import effx
    import effx.numpy as enp
    from effx.library.laplacian import laplacian

    rng = np.random.default_rng(0)
    sizes = (30, 128, 128, 128, 1)
    weights = [rng.normal(size=(a, b)).astype(np.float32) / a**0.5 for a, b in pairwise(sizes)]

    def net(x: Any) -> Any:
        for w in weights[:-1]:
            x = enp.tanh(x @ w)
        return (x @ weights[-1])[0]

    def by_hessian(x: Any) -> Any:
        along = lambda v: effx.jvp(effx.grad(net), (x,), (v,))[1] @ v  # noqa: E731
        return enp.sum(effx.vmap(along)(enp.eye(30)))

    rows: list[Pair] = []
    for batch in (1, 64):
        data = enp.asarray(rng.normal(size=(batch, 30)).astype(np.float32))
        forward = effx.jit(effx.vmap(lambda x: laplacian(net)(x)[1]))
        back = effx.jit(effx.vmap(by_hessian))
        rows.append(
            Pair(
                f"Laplacian, batch {batch}, against Hessian",
                1.0,
                1,
                lambda f=forward, d=data: effx.block_until_ready(f(d)),  # type: ignore[misc]  # bound now
                lambda f=back, d=data: effx.block_until_ready(f(d)),  # type: ignore[misc]  # bound now
            )
        )
    return rows
