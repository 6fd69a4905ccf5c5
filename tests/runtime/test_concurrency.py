"""Threads that compile at the same time, and coroutines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.effects import current_frame
from effx.errors import ShapeError

COUNT = 16


def together(work: Callable[[int], Any]) -> list[Any]:
    """Runs work(0) to work(15) in threads that start at once; returns the results."""
    barrier, results = threading.Barrier(COUNT), [None] * COUNT
    failures: list[BaseException] = []

    def one(i: int) -> None:
        try:
            barrier.wait()
            results[i] = work(i)
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(COUNT)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any([t.is_alive() for t in threads])
    if failures:
        raise failures[0]
    return results


def loss(w: Any, x: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        return enp.tanh(c @ w), enp.sum(c)

    y, s = lax.scan(step, x, None, 4)
    return enp.sum(y) + enp.sum(s)


W, X = enp.ones((3, 3)) / 4, enp.ones((2, 3))
GRADIENT = np.asarray(effx.grad(loss)(W, X))


def test_one_function() -> None:
    """Sixteen threads meet one function that is not compiled yet."""
    f = effx.jit(effx.grad(loss))
    for found in together(lambda i: f(W, X)):
        np.testing.assert_allclose(np.asarray(found), GRADIENT, rtol=1e-5)


def test_different_functions() -> None:
    """Sixteen threads compile functions of their own, of several kinds, and others' alike."""

    def work(i: int) -> Any:
        f = effx.jit(lambda w: effx.grad(loss)(w, X) * (i + 1))
        single = effx.vmap(lambda w: enp.sum(enp.sort(w) * i))(W)
        return f(W), single, f(W)

    for i, (first, single, again) in enumerate(together(work)):
        np.testing.assert_allclose(np.asarray(first), GRADIENT * (i + 1), rtol=1e-5)
        np.testing.assert_allclose(np.asarray(single), np.asarray(W.sum(1)) * i, rtol=1e-5)
        np.testing.assert_allclose(np.asarray(again), np.asarray(first))


def test_caches_that_are_cleared_meanwhile() -> None:
    """Clearing caches while others compile and run costs time only."""
    f = effx.jit(effx.grad(loss))

    def work(i: int) -> Any:
        for _ in range(2):
            if i % 4 == 0:
                effx.clear_caches()
            f(W, X)
        return f(W, X)

    for found in together(work):
        np.testing.assert_allclose(np.asarray(found), GRADIENT, rtol=1e-5)


def test_errors_of_one_thread() -> None:
    """What one thread raises is its own."""

    def work(i: int) -> str:
        try:
            return str(float(effx.jit(lambda x: enp.sum(x + enp.ones(3)))(enp.ones(3 + i % 2))))
        except ShapeError as error:
            return error.message

    found = together(work)
    assert set(found[::2]) == {"6.0"}
    assert set(found[1::2]) == {"add: shapes do not fit: [3], [4] differ on axis -1: 3 and 4"}


def test_coroutines() -> None:
    """Coroutines compute; handlers and settings belong to a task, and go with it to a thread."""

    async def one(i: int) -> tuple[float, str, str]:
        with effx.enable_x64(i % 2 == 0):
            await asyncio.sleep(0)
            here = str(enp.ones(1).dtype)
            there = await asyncio.to_thread(lambda: str((enp.arange(3.0) * 1.0).dtype))
            value = await asyncio.to_thread(effx.jit(lambda x: x * i), 2.0)
            await asyncio.sleep(0)
            assert str(enp.ones(1).dtype) == here
        assert str(enp.ones(1).dtype) == "float32"
        return float(value), here, there

    async def main() -> list[tuple[float, str, str]]:
        return await asyncio.gather(*[one(i) for i in range(8)])

    for i, found in enumerate(asyncio.run(main())):
        kind = "float64" if i % 2 == 0 else "float32"
        assert found == (2.0 * i, kind, kind)
    assert current_frame() is None


def test_handlers_and_threads_of_tasks() -> None:
    """A task's handler is active in the thread that the task waits for, and not in an independent thread."""
    seen: list[object] = []

    async def inside(x: Any) -> Any:
        seen.append(await asyncio.to_thread(current_frame))
        thread = threading.Thread(target=lambda: seen.append(current_frame()))
        thread.start()
        thread.join()
        return await asyncio.to_thread(lambda: enp.sin(x) * 2.0)

    def f(x: Any) -> Any:
        return asyncio.run(inside(x))

    assert float(effx.grad(f)(0.0)) == 2.0
    assert seen[0] is not None
    assert seen[1] is None


def test_a_task_that_is_cancelled() -> None:
    """A cancelled task leaves no setting behind."""

    async def main() -> str:
        async def forever() -> None:
            with effx.enable_x64():
                await asyncio.sleep(60)

        task = asyncio.create_task(forever())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return str(enp.ones(1).dtype)

    assert asyncio.run(main()) == "float32"
