"""`debug_key_reuse`: a key that is used twice is an error wherever it is, and nothing else is."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax, random
from effx.errors import JAXTypeError, KeyReuseError

normal, split = random.normal, random.split


def key() -> Any:
    return random.key(0)


def keys() -> Any:
    return split(key(), 3)


def two(k: Any) -> Any:
    first = normal(k)
    return first + random.uniform(k)  # the line to blame


def three(f: Callable[..., Any], carry: Any, xs: Any = None, n: int | None = 3) -> Any:
    """Scans."""
    return lax.scan(f, carry, xs, None if xs is not None else n)


def between_jits() -> None:
    k, f = key(), effx.jit(lambda k: normal(k))
    f(k)
    f(k)


def after_a_jit() -> None:
    k = key()
    effx.jit(normal)(k)
    random.bits(k)


def closed_over() -> None:
    k = key()
    effx.jit(lambda x: x + normal(k))(1.0)
    effx.jit(lambda x: x - normal(k))(1.0)


def elements() -> None:
    ks = keys()
    normal(ks[0])
    normal(ks[-3])


TWICE: dict[str, Callable[[], object]] = {
    "eager": lambda: two(key()),
    "jit": lambda: effx.jit(two)(key()),
    "made in jit": lambda: effx.jit(lambda s: two(random.key(s)))(0),
    "between jits": between_jits,
    "after a jit": after_a_jit,
    "closed over": closed_over,
    "closed over by vmap": lambda: effx.jit(lambda k: effx.vmap(lambda x: x * two(k))(enp.ones(3)))(key()),
    "vmap": lambda: effx.vmap(two)(keys()),
    "vmap of jit": lambda: effx.vmap(effx.jit(two))(keys()),
    "constant of a scan": lambda: effx.jit(lambda k: three(lambda c, _: (c + normal(k), None), 0.0))(key()),
    "carry of a scan": lambda: effx.jit(lambda k: three(lambda c, _: (c, normal(c)), k))(key()),
    "eager scan": lambda: three(lambda c, _: (c, normal(c)), key()),
    "for": lambda: effx.jit(lambda k: lax.fori_loop(0, 3, lambda i, c: c + normal(k), 0.0))(key()),
    "condition of a loop": lambda: effx.jit(
        lambda k: lax.while_loop(lambda c: c < normal(k), lambda c: c + 1, 0.0)
    )(key()),
    "slices": lambda: effx.jit(
        lambda ks: (three(lambda c, k: (c + normal(k), None), 0.0, ks), normal(ks[1]))
    )(keys()),
    "elements": elements,
    "elements in jit": lambda: effx.jit(lambda ks: (normal(ks[0]), normal(ks.reshape(3, 1)[-3, 0])))(keys()),
    "repeated": lambda: effx.vmap(normal)(enp.broadcast_to(key(), (3,))),
    "joined": lambda: effx.jit(lambda a, b: (effx.vmap(normal)(enp.stack([a, b])), normal(b)))(
        key(), random.key(1)
    ),
    "split": lambda: (lambda k: (split(k), normal(k)))(key()),
    "branch": lambda: effx.jit(lambda k, p: (lax.cond(p, lambda: normal(k), lambda: 0.0), random.bits(k)))(
        key(), True
    ),
    "grad": lambda: effx.grad(lambda x, k: x * two(k))(1.0, key()),
    "jit of grad": lambda: effx.jit(effx.grad(lambda x, k: x * two(k)))(1.0, key()),
    "pmap": lambda: effx.pmap(two)(split(key(), 1)),
    "checkpoint": lambda: effx.checkpoint(two)(key()),
}


@pytest.mark.parametrize("name", TWICE)
def test_found(name: str) -> None:
    """A second use is an error, with the flag only, and each time."""
    TWICE[name]()
    for _ in range(2):
        with effx.debug_key_reuse(True), pytest.raises(KeyReuseError):
            TWICE[name]()
    TWICE[name]()


def remade(prevent_cse: bool) -> Callable[..., Any]:
    return effx.checkpoint(lambda x, k: enp.sin(enp.sin(x) * normal(k)), prevent_cse=prevent_cse)


def summed(f: Callable[..., Any], x: Any, ks: Any) -> Any:
    return three(lambda c, k: (f(c, k), None), x, ks)[0]


def copied(k: Any) -> Any:
    return normal(k) + normal(random.clone(k))


def chained(k: Any, _: Any) -> Any:
    first, second = split(k)
    return first, normal(second)


ONCE: dict[str, Callable[[], object]] = {
    "once": lambda: normal(key()),
    "split": lambda: effx.jit(lambda k: [normal(x) for x in split(k, 3)])(key()),
    "eager split": lambda: [normal(x) for x in keys()],
    "branches": lambda: effx.jit(lambda k, p: lax.cond(p, lambda: normal(k), lambda: random.uniform(k)))(
        key(), True
    ),
    "clone": lambda: copied(key()),
    "clone in jit": lambda: effx.jit(copied)(key()),
    "fold_in": lambda: [normal(random.fold_in(k, i)) for k in [key()] for i in range(3)],
    "chain": lambda: effx.jit(lambda k: three(chained, k))(key()),
    "slices": lambda: effx.jit(lambda ks: three(lambda c, k: (c + normal(k), None), 0.0, ks))(keys()),
    "elements that a run knows": lambda: effx.jit(
        lambda ks: lax.fori_loop(0, 3, lambda i, c: c + normal(ks[i]), 0.0)
    )(keys()),
    "elements": lambda: (lambda ks: (normal(ks[0]), normal(ks[1]), normal(ks[enp.array(2)])))(keys()),
    "vmap": lambda: effx.vmap(normal)(keys()),
    "sampler that splits": lambda: effx.jit(effx.vmap(lambda k: random.gamma(k, 2.0)))(keys()),
    "one iteration": lambda: effx.jit(lambda k: three(lambda c, _: (c + normal(k), None), 0.0, n=1))(key()),
    "no iteration": lambda: effx.jit(
        lambda k: (three(lambda c, _: (c + normal(k), None), 0.0, n=0), normal(k))
    )(key()),
    "words": lambda: two(random.PRNGKey(0)),
    "looked at": lambda: (lambda k: (random.key_data(k), repr(k), random.key_impl(k), normal(k)))(key()),
    "checkpoint": lambda: effx.grad(remade(True))(1.0, key()),
    "checkpoint merged": lambda: effx.grad(remade(False))(1.0, key()),
    "checkpoint in jit": lambda: effx.jit(effx.grad(remade(False)))(1.0, key()),
    "scan": lambda: effx.jit(effx.grad(lambda x, ks: summed(lambda c, k: enp.sin(c * normal(k)), x, ks)))(
        1.0, keys()
    ),
    "scan of checkpoint": lambda: effx.jit(effx.grad(lambda x, ks: summed(remade(True), x, ks)))(1.0, keys()),
    "scan of checkpoint merged": lambda: effx.jit(effx.grad(lambda x, ks: summed(remade(False), x, ks)))(
        1.0, keys()
    ),
    "jvp": lambda: effx.jvp(lambda x: x * normal(key()), (1.0,), (1.0,)),
    "unitary matrices": lambda: random.orthogonal(key(), 3),
    "no jit": lambda: effx.disable_jit(True)(lambda: three(chained, key()))(),
}


@pytest.mark.parametrize("name", ONCE)
def test_nothing_else(name: str) -> None:
    """What uses each key once gives with the flag what it gives without."""
    want = ONCE[name]()
    with effx.debug_key_reuse(True):
        got = ONCE[name]()
    for g, w in zip(effx.tree.leaves(got), effx.tree.leaves(want), strict=True):
        if isinstance(w, effx.Array) and not effx.dtypes.is_key(w.dtype):
            np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-6)


def test_messages() -> None:
    """The whole text: who uses which key, who did so before, and where; what to do."""
    first = two.__code__.co_firstlineno + 1
    for f in (two, effx.jit(two)):
        with effx.debug_key_reuse(True), pytest.raises(KeyReuseError) as caught:
            f(key())
        assert str(caught.value).splitlines()[:2] == [
            (
                f"uniform: the key was used by normal at test_key_reuse.py:{first} in two, key<fry>[]; split it, or "
                f"copy it by random.clone to mean the same numbers"
            ),
            f"  at   test_key_reuse.py:{first + 1} in two",
        ]
    with effx.debug_key_reuse(True), pytest.raises(KeyReuseError) as caught:
        effx.jit(lambda k: three(lambda c, _: (c + normal(k), None), 0.0))(key())
    assert caught.value.message == (
        "normal: the same key is used here each time, key<fry>[]; split it, or copy it by random.clone to mean the "
        "same numbers"
    )
    assert isinstance(caught.value, JAXTypeError)
    assert isinstance(caught.value, TypeError)


def test_flag() -> None:
    """A context, a decorator, and a global value; what C++ has seen without the flag is looked at with it."""
    f, k = effx.jit(lambda k: normal(k)), key()
    f(k)
    assert f(k) == f(k)

    @effx.debug_key_reuse(True)
    def checked() -> None:
        f(k)
        f(k)

    with pytest.raises(KeyReuseError):
        checked()
    assert f(k) == f(k)
    effx.config.update("debug_key_reuse", True)
    try:
        k = key()
        f(k)
        with pytest.raises(KeyReuseError):
            f(k)
    finally:
        effx.config.update("debug_key_reuse", False)
    assert f(k) == f(k)


def test_no_key_is_kept_alive() -> None:
    """What is known of a key goes with it."""
    from effx.random.reuse import TrackedKey

    with effx.debug_key_reuse(True):
        for _ in range(10):
            normal(key())
        gc.collect()
        assert len([x for x in gc.get_objects() if type(x) is TrackedKey]) < 10
