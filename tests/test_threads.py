"""Threads and asyncio tasks: handler stacks, tracing, compiling and dispatch side by side."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import effx
import effx.numpy as enp
from effx import lax
from effx.handlers.staging.stage import run_program

THREADS = 16


def together(work: Callable[[int], Any]) -> list[Any]:
    """Runs `work(i)` in sixteen threads that start at one moment."""
    barrier = threading.Barrier(THREADS)

    def run(i: int) -> Any:
        barrier.wait()
        return work(i)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_one_function_many_threads() -> None:
    f = effx.jit(lambda x: enp.sin(x).sum() * 2.0)
    expected = [2.0 * float(np.sin(np.full(i % 4 + 1, i, "f4")).sum()) for i in range(THREADS)]

    def work(i: int) -> float:
        x = enp.full(i % 4 + 1, float(i))  # four shapes, so that some compile while others run
        return [float(f(x)) for _ in range(20)][-1]

    np.testing.assert_allclose(together(work), expected, rtol=1e-5, atol=1e-6)


def test_rules_of_one_program_in_many_threads() -> None:
    """What a rule closes over, of a trace that has ended, stands for each thread's own value while both rules run."""
    barrier = threading.Barrier(THREADS)

    def scaled(w: Any, x: Any) -> Any:
        f = effx.custom_jvp(lambda v: v * w)

        @f.defjvp
        def rule(primals: Any, tangents: Any) -> Any:
            barrier.wait(60)
            again = effx.jit(lambda t: enp.sin(w) * t)
            return primals[0] * w, again(tangents[0]) + lax.scan(
                lambda c, _: (c * w, None), w, None, length=2
            )[0]

        return f(x)

    program = effx.make_jaxpr(scaled)(1.0, 1.0)  # the boxes that the rule closes over belong to this trace

    def work(i: int) -> float:
        w = enp.asarray(float(i))
        return float(effx.jvp(lambda x: run_program(program, [w, x])[0], (2.0,), (1.0,))[1])

    expected = [np.sin(float(i)) + float(i) ** 3 for i in range(THREADS)]
    np.testing.assert_allclose(together(work), expected, rtol=1e-4)


def test_different_functions_and_transformations() -> None:
    def work(i: int) -> float:
        g = effx.jit(lambda x: x**3 * i)
        value = 0.0
        for _ in range(5):
            value = float(effx.grad(g)(2.0)) + float(effx.vmap(g)(enp.arange(3.0)).sum())
            value += float(effx.jit(effx.grad(lambda x: g(x) * x))(1.0))
        return value

    expected = [12.0 * i + 9.0 * i + 4.0 * i for i in range(THREADS)]
    np.testing.assert_allclose(together(work), expected, rtol=1e-5)


def test_flags_are_each_threads_own() -> None:
    f = effx.jit(lambda x: x + 1)

    def work(i: int) -> str:
        if i % 2:
            with effx.enable_x64():
                return "".join(str(f(1.0).dtype) for _ in range(10))
        return "".join(str(f(1.0).dtype) for _ in range(10))

    assert together(work) == ["float32" * 10, "float64" * 10] * (THREADS // 2)


def test_an_open_handler_is_no_other_threads() -> None:
    f = effx.jit(lambda x: x * 2.0)
    f(enp.ones(2))
    inside, done = threading.Event(), threading.Event()
    seen: list[str] = []

    def hold(x: Any) -> Any:
        inside.set()
        assert done.wait(30)
        return f(x) + f(enp.ones(2))

    thread = threading.Thread(target=lambda: seen.append(str(effx.jit(hold)(enp.ones(2)))))
    thread.start()
    assert inside.wait(30)
    assert str(f(enp.ones(2))) == "[2. 2.]"  # concrete here, while the other thread stages
    done.set()
    thread.join()
    assert seen == ["[4. 4.]"]


def test_tasks_interleave() -> None:
    async def slow(x: float) -> float:
        # A frame stays open over an await only by hand; a context manager does it here.
        from effx.effects import handle
        from effx.handlers.staging.stage import Recorder, Stage

        with handle(Stage()) as frame:
            frame.state = Recorder()
            before = enp.sin(x)
            await asyncio.sleep(0.01)
            after = enp.cos(x)
            assert repr(before).startswith("Traced")
            assert repr(after).startswith("Traced")
            recorder = frame.state
            assert isinstance(recorder, Recorder)
            return float(len(recorder.equations))

    async def quick(x: float) -> float:
        result = 0.0
        f = effx.jit(lambda x: x * 2.0)
        for _ in range(5):
            await asyncio.sleep(0.003)
            result += float(f(x)) + float(enp.ones(()) * 1.0)
        return result

    async def main() -> list[float]:
        return list(await asyncio.gather(slow(1.0), quick(1.0), slow(2.0), quick(2.0)))

    assert asyncio.run(main()) == [2.0, 15.0, 2.0, 25.0]
    assert float(effx.jit(lambda x: x + 1)(1.0)) == 2.0
