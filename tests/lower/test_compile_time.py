"""Nothing that effx writes keeps the compiler busy for long.

Never: measures how long; a limit far above what is usual tells a search without end from a slow machine.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

LIMIT = 20  # seconds for one program, which takes half of one

PRELUDE = f"""
import faulthandler, sys
import numpy as np
import effx
import effx.numpy as enp
from effx import lax, random

def within(name, f, *args):
    print(name, flush=True)
    faulthandler.dump_traceback_later({LIMIT}, exit=True)
    result = effx.jit(f)(*args)
    faulthandler.cancel_dump_traceback_later()
    return effx.tree_util.tree_map(np.asarray, result)
"""


def run(code: str) -> None:
    """Runs code in a process of its own, which ends itself when one program takes too long."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"at {done.stdout.splitlines()[-1:]}: {done.stderr[-2000:]}"


@pytest.mark.parametrize("shape", ["()", "(2,)"])
def test_draws_with_a_key_for_each_batch_element(shape: str) -> None:
    """A cipher of a cipher of the batch index compiles at once, and gives what one key at a time gives."""
    run(f"""
        shape, n = {shape}, 4
        key = random.key(0)
        draws = dict(
            normal=lambda k: random.normal(k, shape),
            bernoulli=lambda k: random.bernoulli(k, 0.5, shape),
            categorical=lambda k: random.categorical(k, enp.zeros((*shape, 3))),
        )
        for name, draw in draws.items():
            one = effx.jit(draw)
            folded = within(
                f"fold_in {{name}}", lambda k: effx.vmap(lambda i: draw(random.fold_in(k, i)))(enp.arange(n)), key
            )
            parted = within(f"split {{name}}", lambda k: effx.vmap(draw)(random.split(k, n)), key)
            for i in range(n):
                np.testing.assert_array_equal(folded[i], one(random.fold_in(key, i)))
                np.testing.assert_array_equal(parted[i], one(random.split(key, n)[i]))
    """)


def test_random_programs_over_keys() -> None:
    """Keys folded, split and scanned in any order, of each batch element, compile at once.

    Most of these programs hang without fences: four batch elements, whose keys come of a counter, and draws of up to
    two numbers that look at a comparison.
    """
    run("""
        choose = np.random.default_rng(0)

        def program(depth):
            if depth == 0:
                draw = [random.normal, random.bernoulli, random.gumbel][choose.integers(3)]
                shape = [(), (2,)][choose.integers(2)]
                return lambda k: draw(k, shape=shape)
            inner, kind = program(depth - 1), choose.choice(3, p=[0.45, 0.45, 0.1])
            number = int(choose.integers(2, 9))
            if kind == 0:
                return lambda k: inner(random.fold_in(k, number))
            if kind == 1:
                return lambda k: inner(random.split(k)[1])
            return lambda k: lax.scan(lambda k, i: (random.fold_in(k, i), inner(k)), k, enp.arange(number))[1]

        for i in range(6):
            inner = program(i % 3)
            each = lambda k, inner=inner: effx.vmap(lambda i: inner(random.fold_in(k, i)))(enp.arange(4))
            within(i, each, random.key(i))
            loop = lambda keys, inner=inner: lax.scan(lambda c, k: (c, inner(k)), 0, keys)[1]
            within(f"scan {i}", loop, random.split(random.key(i), 2))
    """)


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg"])
def test_scans_over_keys(implementation: str) -> None:
    """A draw with a key that is folded from a scanned one compiles at once: the words of typed keys are narrowed."""
    run(f"""
        keys = random.split(random.key(0, impl="{implementation}"), 2)
        draws = dict(
            normal=lambda k: random.normal(random.fold_in(k, 7), (4, 1)),
            truncated=lambda k: enp.ones(4) @ random.truncated_normal(random.fold_in(k, 7), -2.0, 2.0, (4, 1)),
            bernoulli=lambda k: random.bernoulli(random.split(random.fold_in(k, 7))[0], 0.5, (3,)),
        )
        for name, draw in draws.items():
            scanned = within(name, lambda keys: lax.scan(lambda c, k: (c, draw(k)), 0, keys)[1], keys)
            for i in range(2):
                np.testing.assert_allclose(scanned[i], effx.jit(draw)(keys[i]), rtol=1e-6)
    """)


def test_chains_after_a_bitcast() -> None:
    """Numbers whose bits are read as narrower ones start chains too."""
    run("""
        def f(x):
            words = lax.bitcast_convert_type(x, np.uint32)
            y, z = words[..., 0], words[..., 1]
            for _ in range(60):
                y = y * z + 1
                z = z * y
            return z + enp.arange(4, dtype="uint32")[:, None]

        x = np.arange(3, dtype=np.uint64) * 2**33 + 5
        with effx.enable_x64():
            within("scan", lambda x: lax.scan(lambda c, x: (c, f(x)), 0, x)[1], x)
            within("map", effx.vmap(f), x)
    """)


def test_random_chains_of_shared_values() -> None:
    """Two hundred operations on shared values compile at once, from any conversion, in maps and loops."""
    run("""
        choose = np.random.default_rng(1)
        starts = [
            lambda n: np.arange(n, dtype=np.int32),
            lambda n: np.arange(n) % 2 == 1,
            lambda n: np.arange(n, dtype=np.float16),
            lambda n: np.arange(n, dtype=np.uint8),
        ]
        steps = [lambda x, y, a: x * a + y, lambda x, y, a: (x - y) * a, lambda x, y, a: x * a - y * y]

        def chain(picks):
            def f(x, a):
                y = x + a
                for kind in picks:
                    x = steps[kind](x, y, a)
                    y = y * x
                return abs(x)
            return f

        def near(given, wanted):
            np.testing.assert_allclose(given, wanted, rtol=1e-3, atol=1e-6)

        for i, start in enumerate(starts):
            f = chain(choose.integers(len(steps), size=60).tolist())
            host = start(100)
            small = lambda h: (h if i else enp.arange(100)).astype("float32") / 256
            values = host.astype(np.float32) / 256
            once = f(values, values)
            near(within(("plain", i), lambda h: f(small(h), small(h)), host), once)
            mapped = lambda h: effx.vmap(lambda a: f(a, a))(small(h))
            near(within(("map", i), mapped, host), once)
            scanned = lambda h: lax.scan(lambda x, _: (f(x, small(h)), None), small(h), None, length=2)[0]
            near(within(("scan", i), scanned, host), f(once, values))
            looped = lambda h: lax.fori_loop(0, 2, lambda _, x: f(x, small(h)), small(h))
            near(within(("loop", i), looped, host), f(once, values))
    """)


def test_chains_through_called_functions() -> None:
    """The conversion and the steps stand in functions of their own, and operations use their operand several times."""
    run("""
        def step(x, y, a):
            x = x * a + y
            return x, y * x

        def convert(h):
            return h.astype("float32") / 256

        def chain(step, convert=convert):
            def f(h, a):
                x = convert(h)
                y = x + a
                for _ in range(60):
                    x, y = step(x, y, a)
                return abs(x)
            return f

        ruled = effx.custom_jvp(step)
        ruled.defjvp(lambda primals, tangents: (ruled(*primals), tangents[:2]))
        h, a = np.arange(100, dtype=np.uint8), np.linspace(0, 1, 100, dtype=np.float32)
        plain = within("plain", chain(step), h, a)
        same = {
            "conversion": chain(step, effx.jit(convert)),
            "conversion in two": chain(step, effx.jit(lambda h: effx.jit(convert)(h))),
            "steps": chain(effx.jit(step)),
            "steps with a rule": chain(ruled),
            "steps of checkpoints": chain(effx.checkpoint(step)),
            "all": effx.jit(chain(effx.jit(step), effx.jit(convert))),
        }
        for name, f in same.items():
            np.testing.assert_allclose(within(name, f, h, a), plain, rtol=1e-4, err_msg=name)
        several = {"squares": lax.square, "powers": lambda x: x**3, "errors": lax.erf, "widths": lambda x: enp.hypot(x, 1.0)}
        for name, g in several.items():
            within(name, chain(lambda x, y, a: (g(x) / 2 + a / 4, y)), h, a)
    """)
