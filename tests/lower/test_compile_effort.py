"""`compile="fast"` and "tiered": values, what XLA compiles and how, and what happens as a call changes over."""

from __future__ import annotations

import copy
import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import flags, lax
from effx.errors import BackendError
from effx.flags import CompileMode
from effx.lower.runtime import compile_effort, executables
from effx.sharding import Mesh, NamedSharding, PartitionSpec
from effx.stages import wait_for_compilations
from effx.transforms.jit.function import Function
from tests.flag_probes import flipped

LEVEL = compile_effort.LEVEL
MODES: tuple[CompileMode, ...] = ("full", "fast", "tiered")
X = np.linspace(0.1, 0.9, 12, dtype=np.float32).reshape(3, 4)
CALLS = 16  # so often a program is called, at most, before it is compiled in full
everywhere = pytest.mark.parametrize("globally", [False, True], ids=["context", "global"])


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No program that another test compiled, no compilation that goes on, and no jax that another test imported.

    Beside jax C++ takes no calls with arrays of NumPy.
    """
    monkeypatch.delitem(sys.modules, "jax._src.config", raising=False)
    effx.clear_caches()
    yield
    wait_for_compilations()


@pytest.fixture
def levels(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The levels of all compilations so far; None for XLA's default."""
    seen: list[object] = []
    compile_text = executables._compile

    def record(text: str, devices: Any, name: str, chosen: Any, calls: Any) -> Any:
        seen.append(dict(chosen).get(LEVEL))
        return compile_text(text, devices, name, chosen, calls)

    monkeypatch.setattr(executables, "_compile", record)
    return seen


def is_run_by_cpp(f: Any, *args: Any) -> bool:
    """Says whether a call goes by C++, without Python."""
    ran: list[object] = []
    run = Function.run

    def note(self: Any, *args: Any) -> Any:
        ran.append(self)
        return run(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Function, "run", note)
        f(*args)
    return not ran


def call_often(f: Any, *args: Any) -> Any:
    """Calls until the compilation in full is asked for, and waits for it; returns the last result before that."""
    results = [f(*args) for _ in range(CALLS)]
    wait_for_compilations()
    return results[-1]


def statistics(x: Any) -> Any:
    """A function whose text has some tens of lines."""
    y = enp.sort(enp.cumsum(enp.tanh(x) * x, axis=1), axis=1)
    return {"mean": enp.mean(y * y, axis=0), "std": enp.std(enp.exp(-y)), "y": y}


def statistics_by_numpy(x: Any) -> dict[str, Any]:
    y = np.sort(np.cumsum(np.tanh(x) * x, axis=1), axis=1)
    return {"mean": np.mean(y * y, axis=0), "std": np.std(np.exp(-y)), "y": y}


def check(result: Any, x: Any = X) -> None:
    for name, value in statistics_by_numpy(x.astype(np.float64)).items():
        np.testing.assert_allclose(np.asarray(result[name]), value, rtol=2e-6)


def jitted(mode: CompileMode | None, **options: Any) -> Any:
    return effx.jit(lambda x: statistics(x), compile=mode, **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", MODES)
def test_values(mode: CompileMode, dtype: type) -> None:
    with flags.enable_x64(dtype is np.float64):
        f = jitted(mode)
        for call in range(3):
            x = X.astype(dtype) + dtype(call)
            check(call_often(f, x), x)


GRADIENTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "scan": (
        lambda x: lax.scan(lambda c, r: (c * 0.5 + enp.sin(r), c), enp.zeros(4), x)[0].sum(),
        lambda x: np.cos(x) * 0.5 ** np.arange(len(x))[::-1, None],
    ),
    "while": (
        lambda x: lax.while_loop(lambda s: s[1] < 5, lambda s: (s[0] * s[0], s[1] + 1), (x, 0), max_steps=8)[
            0
        ].sum(),
        lambda x: 32 * x**31,
    ),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, enp.sin, enp.cos, x).sum(), np.cos),
    "logsumexp": (lambda x: effx.nn.logsumexp(x), lambda x: np.exp(x) / np.exp(x).sum()),
    "solve": (
        lambda x: enp.linalg.solve(x[:, :3] + 3 * enp.eye(3), x[:, 3]).sum() * 0 + (x**3).sum(),
        lambda x: 3 * x**2,
    ),
}


@pytest.mark.parametrize("mode", MODES[1:])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, mode: CompileMode) -> None:
    fun, gradient = GRADIENTS[name]
    f = effx.jit(effx.grad(fun), compile=mode)
    for _ in range(2):
        expected = gradient(X.astype(np.float64))
        np.testing.assert_allclose(np.asarray(call_often(f, X)), expected, rtol=3e-5, atol=1e-6)


def test_what_is_compiled(levels: list[object]) -> None:
    """In full: once. Fast: once, at level 0. Tiered: at level 0, and in full from a later call on."""
    full = jitted("full")
    full(X), full(X)
    assert levels == [None]
    effx.clear_caches()
    fast = jitted("fast")
    fast(X), fast(X)
    assert levels == [None, 0]
    assert is_run_by_cpp(fast, X)
    effx.clear_caches()
    tiered = jitted("tiered")
    for _ in range(CALLS - 1):
        check(tiered(X))
        wait_for_compilations()
    assert levels == [None, 0, 0]
    assert not is_run_by_cpp(tiered, X)  # the last of these calls
    wait_for_compilations()
    assert levels == [None, 0, 0, None]
    for _ in range(3):
        check(tiered(X))
    wait_for_compilations()
    assert levels == [None, 0, 0, None]
    assert is_run_by_cpp(tiered, X)


def test_changing_over(levels: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls go on while XLA compiles; afterwards they run what it compiled, by C++."""
    go, compile_text = threading.Event(), executables._compile

    def wait_in_full(text: str, devices: Any, name: str, chosen: Any, calls: Any) -> Any:
        if LEVEL not in dict(chosen):
            assert go.wait(60)
        return compile_text(text, devices, name, chosen, calls)

    monkeypatch.setattr(executables, "_compile", wait_in_full)
    f = jitted("tiered")
    try:
        first = [np.asarray(f(X)["std"]) for _ in range(CALLS + 2)]
        assert levels == [0]
        assert is_run_by_cpp(f, X)
    finally:
        go.set()
    wait_for_compilations()
    assert levels == [0, None]
    assert not is_run_by_cpp(f, X)
    after = np.asarray(f(X)["std"])
    assert is_run_by_cpp(f, X)
    assert len({x.tobytes() for x in first}) == 1
    in_full = jitted("full")(X)["std"]
    assert levels == [0, None]  # the same text
    assert np.asarray(in_full).tobytes() == after.tobytes() == np.asarray(f(X)["std"]).tobytes()


def test_signatures_change_over_one_by_one(levels: list[object]) -> None:
    f = jitted("tiered")
    wide = np.tile(X, (1, 2))
    f(wide), call_often(f, X)
    assert levels == [0, 0, None]
    check(f(X))
    check(call_often(f, wide), wide)
    assert levels == [0, 0, None, None]
    check(f(X))
    check(f(wide), wide)
    assert is_run_by_cpp(f, X)
    assert is_run_by_cpp(f, wide)


@pytest.mark.parametrize(("steps", "calls"), [(1, 16), (20, 12), (50, 6), (100, 3), (800, 2)])
def test_after_how_many_calls(steps: int, calls: int, levels: list[object]) -> None:
    """The longer a program runs, the sooner it is compiled in full."""

    @effx.jit(compile="tiered")
    def f(c: Any) -> Any:
        return lax.scan(lambda c, _: (enp.cos(c) * 0.9 + enp.sin(c), None), c, None, length=steps)[0]

    for call in range(calls):
        assert levels == [0] * (call > 0)
        f(enp.full(1024, 0.5))
        wait_for_compilations()
    assert levels == [0, None]


def test_what_is_short_or_runs_for_long(levels: list[object]) -> None:
    """A short text has no second compilation; a program of many elements is compiled in full at once."""
    short = effx.jit(lambda x: x * 2 + enp.sin(x), compile="tiered")
    short(X)
    assert levels == [None]
    assert is_run_by_cpp(short, X)

    def long(c: Any, n: int) -> Any:
        return lax.scan(lambda c, _: (c * 0.9 + enp.sin(c), None), c, None, length=n)[0]

    for length, level in ((100, 0), (10_000, None)):
        lowered = effx.jit(long, static_argnums=1, compile="fast").lower(enp.ones(4096), length)
        lowered.compile()
        assert levels[-1] is level


@everywhere
def test_the_setting(globally: bool, levels: list[object]) -> None:
    with flipped("compile", "fast", globally):
        assert effx.config.compile == "fast"
        f = jitted(None)
        check(f(X))
        check(jitted("full")(X))
        check(f(X))
    assert levels == [0, None]
    assert effx.config.read("compile") == "full"


@everywhere
def test_what_was_compiled_fast_does_not_serve_in_full(globally: bool, levels: list[object]) -> None:
    f = jitted(None)
    with flipped("compile", "fast", globally):
        f(X), f(X)
    check(f(X))
    f(X)
    assert levels == [0, None]
    with flipped("compile", "fast", globally):
        check(f(X))  # what there is serves
    assert levels == [0, None]


@everywhere
def test_what_was_compiled_in_full_serves(globally: bool, levels: list[object]) -> None:
    jitted("full")(X)
    for mode in MODES[1:]:
        f = jitted(mode)
        f(X)
        assert is_run_by_cpp(f, X)
        with flipped("compile", mode, globally):
            jitted(None)(X)
    wait_for_compilations()
    assert levels == [None]


@everywhere
def test_single_operations(globally: bool, levels: list[object]) -> None:
    """They follow the setting; none that was compiled fast serves afterwards."""
    x = enp.asarray(X)
    with flipped("compile", "fast", globally):
        np.testing.assert_allclose(np.asarray(enp.arctan(x)), np.arctan(X), rtol=1e-6)
        enp.arctan(x)
    assert levels == [0]
    np.testing.assert_allclose(np.asarray(enp.arctan(x)), np.arctan(X), rtol=1e-6)
    enp.arctan(x)
    assert levels == [0, None]
    with flipped("compile", "tiered", globally):
        call_often(enp.arccos, x)
    assert levels == [0, None, None]  # short


def test_loops_without_jit(levels: list[object]) -> None:
    def body(c: Any, r: Any) -> Any:
        return enp.sort(c * enp.tanh(r)) + enp.sin(r), enp.cumsum(c)

    def by_numpy() -> Any:
        c = np.ones(4)
        for r in X.astype(np.float64):
            c = np.sort(c * np.tanh(r)) + np.sin(r)
        return c

    with flags.compile("tiered"):
        for _ in range(2):
            result = call_often(lax.scan, body, enp.ones(4), X)[0]
            np.testing.assert_allclose(np.asarray(result), by_numpy(), rtol=1e-5)
    assert levels == [0, None]


def test_the_users_level_counts_more(levels: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in MODES:
        check(jitted(mode, compiler_options={LEVEL: 1})(X))
    assert levels == [1]
    for mode in MODES[1:]:
        jitted(mode).lower(X).compile({LEVEL: 2})
    assert levels == [1, 2]
    monkeypatch.setenv("XLA_FLAGS", f"--{LEVEL}=3")
    check(jitted("fast")(X))
    assert levels == [1, 2, None]


def test_other_options_of_the_user_are_used_too(levels: list[object]) -> None:
    compiled = jitted("fast", compiler_options={"xla_embed_ir_in_executable": True}).lower(X).compile()
    assert dict(compiled.executable.options) == {
        **dict(compiled.executable.options),
        LEVEL: 0,
        "xla_embed_ir_in_executable": True,
    }


def test_ahead_of_time(levels: list[object]) -> None:
    """Ahead of a call there is no hurry: what is tiered is compiled in full."""
    for mode, expected in (("fast", 0), ("tiered", None)):
        effx.clear_caches()
        compiled = jitted(mode).lower(X).compile()  # type: ignore[arg-type]  # a literal in a tuple
        check(compiled(X))
        check(compiled(X))
        wait_for_compilations()
        assert levels.pop() is expected
        assert not levels
    with flags.compile("fast"):
        lowered = jitted(None).lower(X)
    effx.clear_caches()
    lowered.compile()
    assert levels == [0]  # the setting where it was traced


@pytest.mark.unguarded
def test_wrong_values() -> None:
    text = r"^jit: compile: got 'quick', expected one of 'full', 'fast', 'tiered'$"
    with pytest.raises(ValueError, match=text):
        effx.jit(statistics, compile="quick")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=text):
        effx.jit(compile="quick")(statistics)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"^jit: compile: got 1, expected one of 'full', 'fast', 'tiered'$"):
        effx.jit(statistics, compile=1)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"^compile: got 'quick', expected one of 'full', 'fast', 'tiered'$"):
        effx.config.update("compile", "quick")
    run = subprocess.run(
        [sys.executable, "-c", "import effx.flags"],
        env={**os.environ, "EFFX_COMPILE": "quick"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "EFFX_COMPILE: got 'quick', expected one of 'full', 'fast', 'tiered'" in run.stderr


def test_the_environment() -> None:
    code = (
        "import effx, effx.numpy as enp; f = effx.jit(lambda x: enp.sin(x) + 1)\n"
        f"print(effx.config.compile, dict(f.lower(1.0).compile().executable.options)['{LEVEL}'])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "EFFX_COMPILE": "fast"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "fast 0\n"


def test_decorators_and_copies(levels: list[object]) -> None:
    @effx.jit(compile="fast")
    def f(x: Any) -> Any:
        return statistics(x)

    check(f(X))

    check(copy.deepcopy(f)(X))
    again = pickle.loads(pickle.dumps(effx.jit(statistics, compile="fast")))
    check(again(X))
    assert levels == [0, 0]  # by the name in the text


def test_the_outermost_jit_says(levels: list[object]) -> None:
    inner = jitted("fast")
    check(effx.jit(lambda x: inner(x))(X))
    assert levels == [None]
    check(effx.jit(lambda x: jitted("full")(x), compile="fast")(X + 1), X + 1)


def test_donation() -> None:
    """A donated argument is deleted in each call, before and after."""
    f = effx.jit(
        lambda w, x: enp.sort(enp.cumsum(w * 0.5 + enp.tanh(x), axis=0), axis=1) - enp.std(w),
        donate_argnums=0,
        compile="tiered",
    )

    def by_numpy(w: Any, x: Any) -> Any:
        return np.sort(np.cumsum(w * 0.5 + np.tanh(x), axis=0), axis=1) - np.std(w)

    w, expected = enp.asarray(X), X.astype(np.float64)
    before = w
    for _ in range(CALLS + 3):
        before, w, expected = w, f(w, X), by_numpy(expected, X.astype(np.float64))
        assert before.is_deleted()
        np.testing.assert_allclose(np.asarray(w), expected, rtol=1e-4, atol=1e-5)
        wait_for_compilations()
    with pytest.raises(effx.errors.DonatedArrayError):
        f(before, X)


def test_callbacks(levels: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    """What calls Python does so once in each call, before and after, and raises what Python raises."""
    seen: list[float] = []

    def note(total: Any) -> None:
        seen.append(float(total))
        if seen[-1] < 0:
            raise KeyError("below")

    @effx.jit(compile="tiered")
    def f(x: Any) -> Any:
        result = statistics(x)
        effx.debug.callback(note, x.sum())
        return result | {"host": effx.pure_callback(np.sin, effx.ShapeDtypeStruct((3, 4), np.float32), x)}

    for call in range(CALLS + 3):
        result = f(X)
        np.testing.assert_allclose(np.asarray(result.pop("host")), np.sin(X), rtol=1e-6)
        check(result)
        effx.effects_barrier()
        assert len(seen) == call + 1
        wait_for_compilations()
        with pytest.raises(KeyError, match="below"):
            f(-X)
        seen.pop()
    assert levels == [0, None]


def test_references() -> None:
    counter = effx.new_ref(enp.zeros(()))

    @effx.jit(compile="tiered")
    def f(x: Any) -> Any:
        counter[...] += 1.0
        return statistics(x)

    for call in range(CALLS + 3):
        check(f(X))
        assert float(counter[...]) == call + 1
        wait_for_compilations()


def test_several_devices(levels: list[object]) -> None:
    mesh = Mesh(np.array(effx.devices()[:4]), ("i",))
    rows = NamedSharding(mesh, PartitionSpec("i"))
    x = np.linspace(-1.0, 1.0, 32, dtype=np.float32).reshape(8, 4)
    f = effx.jit(lambda x: statistics(x), in_shardings=rows, compile="tiered")
    shardings = []
    for _ in range(CALLS + 3):
        result = f(effx.device_put(x, rows))
        check({**result, "std": np.std(np.exp(-statistics_by_numpy(x)["y"]))}, x)
        np.testing.assert_allclose(float(result["std"]), statistics_by_numpy(x)["std"], rtol=1e-5)
        shardings.append(result["y"].sharding)
        wait_for_compilations()
    assert len(set(shardings)) == 1
    assert levels[:2] == [0, None]
    assert is_run_by_cpp(f, effx.device_put(x, rows))


@pytest.mark.parametrize("mode", MODES[1:])
def test_parallel_maps(mode: CompileMode) -> None:
    x = np.linspace(-1.0, 1.0, 32, dtype=np.float32).reshape(4, 8)
    expected = np.sort(np.cumsum(np.tanh(x), axis=1), axis=1) - x.sum()

    def row(r: Any) -> Any:
        return enp.sort(enp.cumsum(enp.tanh(r))) - lax.psum(r.sum(), "i")

    mesh = Mesh(np.array(effx.devices()[:4]), ("i",))
    spec = PartitionSpec("i")
    mapped = effx.shard_map(lambda b: row(b[0])[None], mesh=mesh, in_specs=spec, out_specs=spec)
    with flags.compile(mode):
        for f in (effx.pmap(row, "i"), effx.jit(mapped)):
            for _ in range(2):
                np.testing.assert_allclose(np.asarray(call_often(f, x)), expected, rtol=1e-4, atol=1e-5)


def test_a_failure_in_the_thread(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is lost: the program runs on, and one warning says so."""
    compile_text = executables._compile

    def refuse_in_full(text: str, devices: Any, name: str, chosen: Any, calls: Any) -> Any:
        if LEVEL not in dict(chosen):
            raise BackendError("compile: no memory")
        return compile_text(text, devices, name, chosen, calls)

    monkeypatch.setattr(executables, "_compile", refuse_in_full)
    f = effx.jit(statistics, compile="tiered")
    with caplog.at_level(logging.WARNING, "effx"):
        for _ in range(CALLS + 3):
            check(f(X))
            wait_for_compilations()
    (message,) = [r.getMessage() for r in caplog.records]
    assert message.startswith(
        "compile: statistics stays as it was compiled first, since compiling in full failed: compile: no mem"
    )
    assert is_run_by_cpp(f, X)


def test_what_is_dropped_is_not_compiled(levels: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    go, compile_text = threading.Event(), executables._compile

    def wait_in_full(text: str, devices: Any, name: str, chosen: Any, calls: Any) -> Any:
        if LEVEL not in dict(chosen):
            assert go.wait(60)
        return compile_text(text, devices, name, chosen, calls)

    monkeypatch.setattr(executables, "_compile", wait_in_full)
    kept = jitted("tiered")
    dropped = effx.jit(lambda x: enp.std(statistics(x)["y"] + 1.0), compile="tiered")
    try:
        for f in (kept, dropped):
            for _ in range(CALLS):
                f(X)
        del f, dropped
    finally:
        go.set()
    wait_for_compilations()
    assert levels == [0, 0, None]


def test_threads(levels: list[object]) -> None:
    f = jitted("tiered")
    errors: list[BaseException] = []

    def call() -> None:
        try:
            for _ in range(20):
                check(f(X))
        except Exception as error:  # noqa: BLE001  shown below
            errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    wait_for_compilations()
    check(f(X))
    assert is_run_by_cpp(f, X)
    assert levels.count(None) == 1


def test_clearing_caches(levels: list[object]) -> None:
    f = jitted("tiered")
    for _ in range(3):
        for _ in range(CALLS):
            check(f(X))
        effx.clear_caches()
        wait_for_compilations()
    f.clear_cache()
    check(f(X))
    assert levels[0] == 0  # what is cleared before its turn is not compiled in full


def test_while_results_are_checked() -> None:
    f = effx.jit(lambda x: enp.std(enp.sort(enp.log(x)), axis=0), compile="tiered")
    with flags.debug_nans():
        for _ in range(2):
            call_often(f, X)
        with pytest.raises(effx.errors.NotFiniteError, match="log"):
            f(-X)


def test_on_disk(directory: Path, levels: list[object]) -> None:
    """Entries of both kinds are told apart, and one in full serves a later process that asks for less."""
    check(jitted("fast")(X))
    effx.clear_caches()
    check(jitted("fast")(X))
    assert levels == [0]
    effx.clear_caches()
    check(jitted("full")(X))
    assert levels == [0, None]
    for mode in (*MODES[1:], "full"):
        effx.clear_caches()
        check(jitted(mode)(X))
    assert levels == [0, None]


PROGRAM = """
import sys
import numpy as np
import effx, effx.numpy as enp
from effx.stages import wait_for_compilations
def f(x):
    return enp.std(enp.sort(enp.cumsum(enp.tanh(x)))) + enp.var(enp.exp(x))
f = effx.jit(f)
x = np.linspace(0.0, 1.0, 9, dtype=np.float32)
events = []
effx.monitoring.register_event_listener(lambda event, **about: events.append(event))
effx.monitoring.register_event_duration_secs_listener(lambda event, seconds, **about: events.append(event))
for _ in range(int(sys.argv[1])):
    y = f(x)
    {wait}
print(events.count("/effx/compile"), events.count("/effx/stage/cache_dir_hit"), round(float(y), 4))
{end}
"""
EXPECTED = np.linspace(0.0, 1.0, 9)
EXPECTED_VALUE = round(float(np.std(np.sort(np.cumsum(np.tanh(EXPECTED)))) + np.var(np.exp(EXPECTED))), 4)


def run_program(
    tmp_path: Path, calls: int, wait: str = "wait_for_compilations()", end: str = "", **environment: str
) -> str:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.replace("{wait}", wait).replace("{end}", end))
    settings = {
        "EFFX_COMPILE": "tiered",
        "EFFX_CACHE_MIN_COMPILE_SECONDS": "0",
        "PYTHONPATH": os.pathsep.join(sys.path),
        **environment,
    }
    done = subprocess.run(
        [sys.executable, str(file), str(calls)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.unguarded
def test_between_processes(tmp_path: Path) -> None:
    """What a process compiled in full serves the next one, which compiles nothing; the third one stages nothing either."""
    cache = {"EFFX_CACHE_DIR": str(tmp_path / "cache")}
    outputs = [run_program(tmp_path, calls, **cache) for calls in (1, CALLS, CALLS, 2)]
    # The first process stores what it compiled at level 0, which serves the second one's first call.
    assert outputs == [
        f"{compilations} {hits} {EXPECTED_VALUE}\n" for compilations, hits in ((1, 0), (1, 0), (0, 0), (0, 1))
    ]


@pytest.mark.parametrize(
    "end", ["", "import atexit; atexit.register(lambda: [f(x[:n]) for n in (5, 6) for _ in range(16)])"]
)
def test_the_end_of_the_process(tmp_path: Path, end: str) -> None:
    """A process ends well while a compilation runs or waits, and where calls in exit functions ask for one."""
    for _ in range(3):
        assert run_program(tmp_path, CALLS, wait="", end=end).endswith(f" 0 {EXPECTED_VALUE}\n")


def test_a_fork(tmp_path: Path) -> None:
    """The child has no compilations to wait for."""
    end = "import os\nif not (child := os.fork()):\n    wait_for_compilations(); os._exit(7)\n"
    end += "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7"
    run = run_program(tmp_path, CALLS, wait="", end=end, PYTHONWARNINGS="ignore")
    assert run.endswith(f" 0 {EXPECTED_VALUE}\n")
