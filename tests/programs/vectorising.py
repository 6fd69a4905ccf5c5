"""One example's code for many: axes in and out, nests, trees, names of axes, loops of unequal length."""

from __future__ import annotations

import numpy as np

import effx
import effx.numpy as enp
from effx import lax

SIGNAL = np.array([0.0, 1.0, -2.0, 3.0, 0.5, 4.0], np.float32)
WINDOW = np.array([2.0, 3.0, -1.0], np.float32)


def moving(x: effx.Array, w: effx.Array) -> effx.Array:
    """Weighted sums of three neighbours."""
    return enp.stack([enp.dot(x[i - 1 : i + 2], w) for i in range(1, x.shape[0] - 1)])


def kernel(x: effx.Array, y: effx.Array) -> effx.Array:
    return enp.exp(-enp.sum((x - y) ** 2))


def halvings(x: effx.Array) -> tuple[effx.Array, effx.Array]:
    """How often a number is halved until it is below 1, and what is left."""
    return lax.while_loop(lambda s: s[1] >= 1.0, lambda s: (s[0] + 1, s[1] / 2.0), (enp.array(0), x))


def affine(p: dict[str, effx.Array], x: effx.Array) -> effx.Array:
    return p["a"] @ x + p["b"]


def standard(x: effx.Array) -> effx.Array:
    """A number among those of the axis `i`: its distance from their mean, in their deviation."""
    centred = x - lax.pmean(x, "i")
    return centred / enp.sqrt(lax.pmean(centred**2, "i"))


def results() -> dict[str, object]:
    x, w = enp.asarray(SIGNAL), enp.asarray(WINDOW)
    xs, ws = enp.stack([x, 2 * x, enp.sin(x)]), enp.stack([w, w[::-1], w**2])
    found: dict[str, object] = {}
    found["one"] = moving(x, w)
    found["both"] = effx.vmap(moving)(xs, ws)
    found["first"] = effx.vmap(moving, in_axes=(0, None))(xs, w)
    found["columns"] = effx.vmap(moving, in_axes=1, out_axes=1)(xs.T, ws.T)
    found["every pair"] = effx.vmap(effx.vmap(moving, (None, 0)), (0, None))(xs, ws)
    found["compiled"] = effx.jit(effx.vmap(moving))(xs, ws)

    points = enp.stack([x[:4], x[1:5], x[2:]], 0)
    found["kernel"] = effx.vmap(lambda a: effx.vmap(lambda b: kernel(a, b))(points))(points)
    found["slopes of the kernel"] = effx.vmap(effx.vmap(effx.grad(kernel), (None, 0)), (0, None))(
        points, points
    )

    p = {"a": enp.arange(12.0).reshape(2, 2, 3), "b": enp.ones(2)}
    found["axes of a tree"] = effx.vmap(affine, ({"a": 0, "b": None}, 1))(p, enp.arange(6.0).reshape(3, 2))
    found["several results"] = effx.vmap(
        lambda v: (v.sum(), {"most": v.max(), "where": v.argmax()}), out_axes=0
    )(xs)
    found["loops"] = effx.vmap(halvings)(enp.array([0.5, 3.0, 100.0, 7.0]))
    found["branches"] = effx.vmap(lambda v: lax.cond(v > 0, lambda u: enp.log(u), lambda u: u**2, v))(x)
    found["slope of branches"] = effx.vmap(effx.grad(lambda v: lax.cond(v > 0, enp.log, lambda u: u**2, v)))(
        x
    )
    found["names"] = effx.vmap(standard, axis_name="i")(x)
    found["index"] = effx.vmap(lambda v: v * lax.axis_index("i"), axis_name="i")(x)
    found["sum of all"] = effx.vmap(lambda v: lax.psum(v, "i") - lax.pmax(v, "i"), axis_name="i")(x)
    found["two names"] = effx.vmap(
        effx.vmap(lambda v: lax.psum(v, ("i", "j")) + lax.psum(v, "j"), axis_name="j"), axis_name="i"
    )(xs)
    found["turn"] = effx.vmap(
        lambda v: lax.ppermute(v, "i", [(k, (k + 1) % 6) for k in range(6)]), axis_name="i"
    )(x)
    found["all of them"] = effx.vmap(lambda v: lax.all_gather(v, "i"), axis_name="i", out_axes=None)(x)
    found["signature"] = enp.vectorize(enp.dot, signature="(n),(n)->()")(xs[:, None, :3], ws)
    found["how many"] = effx.vmap(lambda _: enp.array(3), axis_size=4, in_axes=None)(0)
    return found
