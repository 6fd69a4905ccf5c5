"""Arrays of no or one element pass through every operation that holds programs without ending the process.

Never: compares with another library; what comes out has the shapes and, of one element, the values of larger ones.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

PROGRAMS = """
import faulthandler
import numpy as np
import effx
import effx.numpy as enp
from effx import lax

faulthandler.enable()
choose = np.random.default_rng(0)


@effx.custom_jvp
def forward(x):
    return enp.sin(x)


forward.defjvp(lambda primals, tangents: (forward(*primals), enp.cos(primals[0]) * tangents[0]))


@effx.custom_vjp
def backward(x):
    return enp.sin(x)


backward.defvjp(lambda x: (enp.sin(x), enp.cos(x)), lambda c, ct: (ct * c,))

total = effx.jit(lambda x: enp.sum(x) < 3)

# What takes a function of an array and gives one of its kind.
HOLDERS = {
    "jit": lambda f: effx.jit(f),
    "checkpoint": lambda f: effx.checkpoint(f),
    "forward": lambda f: lambda x: f(forward(x)),
    "backward": lambda f: lambda x: f(backward(x)),
    "scan": lambda f: lambda x: lax.scan(lambda c, s: (f(c) + s, f(c)), x, enp.stack([x, x]))[0],
    "scan over": lambda f: lambda x: lax.scan(lambda c, s: (c, s * 2), f(x), x)[1] + f(x),
    "fori": lambda f: lambda x: lax.fori_loop(0, 2, lambda i, c: f(c) * 2, x),
    "while": lambda f: lambda x: lax.while_loop(
        lambda c: enp.all(c[1] < 2), lambda c: (f(c[0]), c[1] + 1.0), (x, x * 0))[0],
    "while of a call": lambda f: lambda x: lax.while_loop(
        lambda c: (c[1] < 2) & total(c[0]), lambda c: (f(c[0]), c[1] + 1), (x, 0))[0],
    "cond": lambda f: lambda x: lax.cond(enp.sum(x) < 9, f, lambda y: y * 2, x),
    "switch": lambda f: lambda x: lax.switch(x.size, [f, lambda y: y, f], x),
    "switch of a call": lambda f: lambda x: lax.cond(total(x), f, lambda y: enp.where(total(y), y, f(y)), x),
    "map": lambda f: lambda x: lax.map(f, enp.stack([x, x]))[1],
    "map over": lambda f: lambda x: lax.map(lambda a: a * 2, f(x)),
    "sort": lambda f: lambda x: enp.sort(f(x)) + enp.cumsum(x) + enp.concatenate([x, x])[: x.shape[0]],
}
AROUND = {
    "run": lambda f, x: f(x),
    "jit": lambda f, x: effx.jit(f)(x),
    "vmap": lambda f, x: effx.vmap(lambda _, y: f(y), in_axes=(0, None))(enp.ones(2), x)[0],
    "vmap of none": lambda f, x: effx.vmap(f)(enp.ones((0, *x.shape))).shape == (0, *x.shape) and x,
    "vmap over": lambda f, x: effx.vmap(lambda a: f(a[None])[0])(x),
    "jvp": lambda f, x: effx.jvp(f, (x,), (x,))[1],
    "jitted jvp": lambda f, x: effx.jit(lambda x: effx.jvp(f, (x,), (x,))[1])(x),
    "grad": lambda f, x: effx.grad(lambda x: enp.sum(f(x)))(x),
    "grad of vmap": lambda f, x: effx.grad(lambda x: enp.sum(effx.vmap(lambda a: f(a[None])[0])(x)))(x),
}
LOOPS = {"while", "while of a call"}


def attempt(holders, around, n):
    print(holders, around, n, flush=True)
    f = lambda y: y * 0.5
    for h in holders:
        f = HOLDERS[h](f)
    if around.startswith("grad") and LOOPS & set(holders) or "jvp" in around and "backward" in holders:
        return
    y = AROUND[around](f, enp.ones((n,)))
    assert y.shape == (n,), y.shape
    if n:
        assert np.isfinite(np.asarray(y)).all(), y


for i, h in enumerate(HOLDERS):
    for around in AROUND:
        attempt([h], around, 0)
    attempt([h], list(AROUND)[i % len(AROUND)], 1)
for _ in range(EXTRA):
    picks = [str(h) for h in choose.choice(list(HOLDERS), 2)]
    attempt(picks, str(choose.choice(list(AROUND))), int(choose.integers(2)))
"""


def test_programs_over_no_or_one_element() -> None:
    """Holders of programs, alone and in pairs, under every transformation."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAMS).replace("EXTRA", "20")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"at {done.stdout.splitlines()[-1:]}: {done.stderr[-3000:]}"
