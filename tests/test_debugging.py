"""What flags do: each has an effect, under jit too, and in the context that has it only.

Never: tests how flags are set; `test_flags` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import io
import itertools
import logging
import random
import signal
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Generator, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, flags, lax
from effx.effects import current_frame, current_scope, handle
from effx.errors import (
    EffxError,
    NotFiniteError,
    OptionError,
    ShapeError,
    active_source,
    without_internal_frames,
)
from effx.flags import FLAGS, Changes, config, flags_that_change, overrides
from effx.handling import ArrayOperation, ArrayType, InterceptHandler, Site, emits
from effx.ir.ops.elementwise import Sin
from tests.flag_probes import LEFT, PROBES, describe_call, describe_program, flipped, other_value


def logarithm(x: Any) -> Any:
    return enp.log(x) * 0.0 + 1.0


NEGATIVE = np.array([1.0, -3.0], np.float32)
FINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "eager": ("log", logarithm),
    "jit": ("log", lambda x: effx.jit(logarithm)(x)),
    "jit in jit": ("log", lambda x: effx.jit(effx.jit(logarithm))(x)),
    "grad": ("log", lambda x: effx.grad(lambda x: effx.jit(logarithm)(x).sum())(x)),
    "vmap": ("log", lambda x: effx.vmap(logarithm)(x)),
    "cond": ("log", lambda x: effx.jit(lambda x: lax.cond(True, logarithm, logarithm, x))(x)),
    "scan": ("scan", lambda x: lax.scan(lambda c, _: (logarithm(c), None), x, None, length=2)[0]),
    "donated": ("log", lambda x: effx.jit(logarithm, donate_argnums=0)(enp.array(x))),
}


@pytest.mark.parametrize("way", FINDS)
def test_debug_nans_names_the_operation(way: str) -> None:
    """Whichever way a function runs, the error names the operation that gave NaN, and its line."""
    name, run = FINDS[way]
    before = run(NEGATIVE)  # compiled already
    for _ in range(2):
        with flags.debug_nans(), pytest.raises(NotFiniteError) as error:
            run(NEGATIVE)
        assert error.value.message == f"{name}: the result f32[2] has nan at index [1]; debug_nans is on"
        assert error.value.at is not None
        assert error.value.at.startswith("test_debugging.py:")
        assert "logarithm" in error.value.at or name == "scan"
    np.testing.assert_array_equal(np.asarray(run(NEGATIVE)), np.asarray(before))
    with flags.debug_nans():
        run(abs(NEGATIVE))


@pytest.mark.parametrize("flag", [flags.debug_nans, flags.debug_infs])
def test_constants_are_found_too(flag: Any) -> None:
    """Those that are made eagerly, and results of branches that no operation gives."""
    value, kind = (np.nan, "nan") if flag is flags.debug_nans else (np.inf, "inf")
    fill: Any = lambda: enp.full(3, value)  # noqa: E731
    branch: Any = lambda: lax.cond(enp.ones((), bool), lambda: value, lambda: 2.0)  # noqa: E731
    for run, text in (
        (fill, f"broadcast_in_dim: the result f32[3]~ has {kind} at index [0]; {flag.name} is on"),
        (branch, f"cond: the result f32[]~ has {kind}; {flag.name} is on"),
    ):
        run()
        with flag(), pytest.raises(NotFiniteError) as error:
            run()
        assert error.value.message == text
    with flag():
        assert enp.full(3, 2.0).tolist() == [2.0] * 3
        assert float(lax.cond(enp.zeros((), bool), lambda: value, lambda: 2.0)) == 2.0


def test_donation_while_debugging() -> None:
    """A donated argument is deleted after a call without findings."""
    x = enp.ones(3)
    with flags.debug_nans():
        effx.jit(lambda x: x + 1.0, donate_argnums=0)(x)
    assert x.is_deleted()


@attrs.frozen
class Untruthful(ArrayOperation):
    """Says another type than it gives."""

    def infer(self, *types: ArrayType) -> ArrayType:
        return types[0] if self in TRUTHFUL else types[0].with_shape((7,))


TRUTHFUL: set[Untruthful] = set()


@emits(Untruthful)
def _(body: Any, op: Untruthful, inputs: Any, outputs: Any) -> str:
    return str(body.name(inputs[0]))


def raised(function: Callable[[], Any]) -> str:
    try:
        function()
    except EffxError as error:
        return f"{type(error).__name__}: {error.message}"
    return "nothing"


def staged_wrongly() -> str:
    TRUTHFUL.add(Untruthful())

    def f(x: Any) -> Any:
        y = Untruthful()(x)
        TRUTHFUL.clear()
        return y

    try:
        return raised(lambda: effx.jit(f).trace(enp.ones(2)))
    finally:
        TRUTHFUL.clear()


def logged(run: Callable[[Any], Any] = lambda f: f(1.0)) -> int:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign, assignment]  # the shortest way
    logger = logging.getLogger("effx")
    logger.addHandler(handler)
    propagates, logger.propagate = logger.propagate, False
    try:
        run(effx.jit(lambda x: x * random.random()))
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
    return len(records)


def frames_of_effx() -> bool:
    try:
        effx.jit(lambda x: enp.reshape(x, (2,)))(enp.ones(3))
    except ShapeError as error:
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_globals["__name__"].startswith("effx."):
                return True
            trace = trace.tb_next
    return False


def ranks() -> str:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        said = raised(lambda: enp.ones((2, 3)) + enp.ones(3))
    return said if not seen else "warning"


TRACES: list[int] = []


def counted(x: Any) -> Any:
    TRACES.append(0)
    return x + 1


def runs() -> int:
    f = effx.jit(counted)
    x = enp.ones(2)
    f(x)
    TRACES.clear()
    f(x)
    return len(TRACES)


def leaking() -> str:
    left: list[Any] = []

    def keeps(x: Any) -> Any:
        left.append(x * 2)
        return x

    return raised(lambda: effx.jit(keeps)(1.0))


def reusing() -> None:
    key = effx.random.key(0)
    effx.random.normal(key)
    effx.random.normal(key)


class Terminal(io.StringIO):
    """Takes colours."""

    def isatty(self) -> bool:
        return True


def shown_on_a_terminal() -> str:
    with contextlib.redirect_stdout(Terminal()):
        shown: str = effx.make_jaxpr(enp.sin)(1.0).pretty_print()
    return shown


HERE, RAW = enp.ones(3), effx.random.PRNGKey(0)
DOT_THERE = effx.jit(lambda x: x + 1, device=effx.devices()[1])
DOT = effx.jit(lambda x: enp.dot(x, x))


_numbers = itertools.count(1000)


def level_of_new_program() -> object:
    """The level of XLA's optimization for a program that was not compiled before."""
    number = float(next(_numbers))
    executable = effx.jit(lambda x: enp.sin(x) * number).lower(HERE).compile().executable
    return dict(executable.options).get("xla_backend_optimization_level")


def half_sum(x: effx.Array) -> effx.Array:
    return effx.lax.reduce_sum(x, [0])


# For each flag: a value, and something to see, which is other under it than otherwise.
EFFECTS: dict[str, tuple[object, Callable[[], object]]] = {
    "enable_x64": (True, lambda: str(effx.jit(lambda: enp.arange(3.0))().dtype)),
    "explicit_x64_dtypes": ("error", lambda: raised(lambda: effx.jit(lambda: enp.zeros(3, "float64"))())),
    "allow_f16_reductions": (False, lambda: raised(lambda: effx.jit(half_sum)(enp.ones(3, "float16")))),
    "check_static_indices": (False, lambda: raised(lambda: effx.jit(lambda x: x[5])(enp.ones(3)))),
    "disable_jit": (True, runs),
    "threefry_partitionable": (False, lambda: effx.random.bits(effx.random.key(1), (3,)).tolist()),
    "enable_checks": (True, staged_wrongly),
    "debug_nans": (True, lambda: raised(lambda: effx.jit(enp.log)(-1.0))),
    "debug_infs": (True, lambda: raised(lambda: effx.jit(enp.log)(0.0))),
    "debug_key_reuse": (True, lambda: raised(reusing)),
    "log_compiles": (True, logged),
    "traceback_filtering": (False, frames_of_effx),
    "default_matmul_precision": ("highest", lambda: DOT.lower(enp.ones(3)).as_text()),
    "numpy_rank_promotion": ("raise", ranks),
    "numpy_dtype_promotion": (
        "strict",
        lambda: raised(lambda: enp.ones(2, "float32") + enp.ones(2, "int32")),
    ),
    "default_prng_impl": ("rbg", lambda: effx.random.PRNGKey(0).shape == (4,)),
    "compile": ("fast", level_of_new_program),
    "explain_cache_misses": (True, lambda: logged(lambda f: (f(1.0), f(1)))),
    "check_tracer_leaks": (True, leaking),
    "no_tracing": (True, lambda: raised(lambda: effx.jit(lambda x: x + 1)(1.0))),
    "no_execution": (True, lambda: raised(lambda: DOT(HERE)) + raised(lambda: HERE + HERE)),
    "enable_custom_prng": (True, lambda: str(effx.random.PRNGKey(0).dtype)),
    "legacy_prng_key": ("error", lambda: raised(lambda: effx.random.normal(RAW))),
    "default_device": (effx.devices()[1], lambda: str((enp.ones(3) + 1.0).device)),
    "transfer_guard": ("disallow", lambda: raised(lambda: HERE + np.ones(3, "float32"))),
    "transfer_guard_host_to_device": ("disallow", lambda: raised(lambda: DOT(np.ones(3, "float32")))),
    "transfer_guard_device_to_device": ("disallow", lambda: raised(lambda: DOT_THERE(HERE))),
    "pprint_use_color": (False, shown_on_a_terminal),
    "transfer_guard_device_to_host": ("disallow", lambda: raised(lambda: float((HERE + 0)[0]))),
}
# What takes effect when the backend starts is asked of a process of its own, in test_jit and test_backends.
AT_START = {"cpu_collectives_implementation", "host_memory", "num_cpu_devices", "platforms"}
# What changes files is seen in tests/lower/test_cache_dir and test_program_files.
ON_DISK = {"cache_dir", "cache_max_size", "cache_min_compile_seconds", "cache_programs"}
# What ends or warns in jaxlib's C++ is asked of processes of their own, in tests/runtime/test_guards.
IN_CPP = {"array_garbage_collection_guard", "thread_guard"}


def test_every_flag_is_listed() -> None:
    """A new flag needs a line above."""
    assert set(EFFECTS) | AT_START | ON_DISK | IN_CPP == {
        name for name in FLAGS if not name.startswith("test")
    }


@pytest.mark.parametrize("name", EFFECTS)
def test_every_flag_has_an_effect(name: str) -> None:
    """A flag changes what is seen under it, set for all or for one context, and nothing afterwards."""
    value, see = EFFECTS[name]
    flag: Any = FLAGS[name]
    plain = see()
    assert see() == plain
    before = flag.value
    config.update(name, value)
    try:
        changed = see()
    finally:
        config.update(name, before)
    assert changed != plain
    assert see() == plain
    with flag(value):
        assert see() == changed
        with flag(before):
            assert see() == plain
    assert flag(value)(see)() == changed  # as a decorator
    assert see() == plain


# Untruthful operations alone show the first, and those in a program that is staged as it should not be. The second changes
# last bits, on some processors; tests/lower/test_compile_effort has it.
WITHOUT_PROBE = {"enable_checks", "compile"}
NAMES = [name for name in FLAGS if not name.startswith("test")]
IN_PROGRAMS = {flag.name for flag in flags_that_change(Changes.TRACES)}
everywhere = pytest.mark.parametrize("globally", [False, True], ids=["context", "global"])


def test_every_flag_of_keys_has_a_probe() -> None:
    """A flag that is part of keys needs a function there that tells its values apart."""
    assert set(PROBES) | WITHOUT_PROBE == {flag.name for flag in flags_that_change(Changes.CALLS)}


@everywhere
@pytest.mark.parametrize("name", PROBES)
def test_no_call_gets_what_is_of_another_value(name: str, globally: bool) -> None:
    """A function that was called before gives what a new one gives under the flag, and afterwards what it gave before."""

    def look(f: Any) -> tuple[str, str]:
        return describe_call(f, x), describe_program(f, x)

    f, new = [effx.jit(lambda x: PROBES[name](x)) for _ in range(2)]
    x = enp.ones(3)
    before = look(f)
    with flipped(name, other_value(name), globally):
        changed = look(f)
        assert changed == look(new)
        assert look(f) == changed
    assert changed != before
    assert look(f) == before
    LEFT.clear()


@everywhere
@pytest.mark.parametrize("name", NAMES)
def test_what_is_staged_again(name: str, globally: bool, tmp_path: Path) -> None:
    """A function is staged once for each value of a flag that changes what staging gives, and once for all of others."""
    if name in AT_START and globally:
        pytest.skip("it cannot be set after the backend has started")
    stagings: list[int] = []

    @effx.jit
    def f(x: Any) -> Any:
        stagings.append(0)
        return x * 2

    x = enp.ones(3)
    f(x)
    refused = pytest.raises(EffxError) if name == "no_execution" else contextlib.nullcontext()
    with flipped(name, str(tmp_path) if name == "cache_dir" else other_value(name), globally), refused:
        f(x)
    f(x)
    assert len(stagings) == (2 if name in IN_PROGRAMS else 1)


def test_sums_in_sixteen_bits() -> None:
    """Only sums of several elements in 16 bits are refused; `sum` adds in 32 bits, and has none."""
    with effx.allow_f16_reductions(False):
        for dtype in ("float16", "bfloat16"):
            x = enp.ones((1, 3), dtype)
            assert effx.lax.reduce_sum(x, [0]).tolist() == [1.0, 1.0, 1.0]
            assert effx.lax.reduce_sum(x, []).shape == (1, 3)
            assert float(enp.sum(x)) == 3.0
            with pytest.raises(
                OptionError, match=r"^reduce_sum: a sum of b?f16\[1,3\] is not allowed, with "
            ):
                effx.lax.reduce_sum(x, [0, 1])
        assert float(effx.lax.reduce_sum(enp.ones(3), [0])) == 3.0


def test_checks_name_what_is_wrong() -> None:
    """A program that does not fit its typing rules is found when it is staged."""
    with flags.enable_checks():
        assert staged_wrongly() == (
            "ProgramError: check: f: equation 0: untruthful: the result is f32[2], but the typing rule gives f32[7]"
        )


MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
MASK = MATRIX > 3
ROW = np.arange(4, dtype=np.float32)
INTERNAL: dict[str, Callable[[Any], Any]] = {
    "sum where": lambda x: enp.sum(x, axis=0, where=MASK),
    "var where": lambda x: enp.var(x, axis=0, where=MASK),
    "any where": lambda x: enp.any(x, axis=0, where=MASK) * x[0],
    "gather": lambda x: x[enp.array([0, 1]), enp.array([1, 2])],
    "take_along_axis": lambda x: enp.take_along_axis(x, enp.argsort(x, axis=1), axis=1),
    "scatter max": lambda x: x.at[enp.array([0, 0])].max(x[1:]),
    "sort": lambda x: enp.sort(x, axis=0),
    "top_k": lambda x: lax.top_k(x, 2)[0],
    "cummax": lambda x: lax.cummax(x, 0),
    "median": lambda x: enp.median(x, axis=0),
    "nanmedian": lambda x: enp.nanmedian(x, axis=0),
    "quantile": lambda x: enp.quantile(x, np.array([0.1, 0.5], np.float32), axis=0),
    "pad": lambda x: enp.pad(x, 1, mode="reflect"),
    "linspace": lambda x: enp.linspace(x[0], x[1], 3),
    "trapezoid": lambda x: enp.trapezoid(x, ROW),
    "isin": lambda x: enp.isin(x, ROW) * x,
    "softmax": lambda x: effx.nn.softmax(x),
    "norm": lambda x: effx.nn.standardize(x),
}


@pytest.mark.parametrize("name", INTERNAL)
def test_rank_promotion_is_the_users(name: str) -> None:
    """Functions and their derivatives do not break the rule that numpy_rank_promotion sets for users."""
    f = INTERNAL[name]

    def value(x: Any) -> Any:
        return (f(x) * 1.0).sum()

    wanted = f(enp.array(MATRIX)), effx.grad(value)(enp.array(MATRIX))
    with flags.numpy_rank_promotion("raise"):
        found = f(enp.array(MATRIX)), effx.grad(value)(enp.array(MATRIX))
        with pytest.raises(ShapeError):
            effx.grad(lambda x: (x + ROW).sum())(enp.array(MATRIX))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


# Contexts


@attrs.frozen
class Negate(InterceptHandler[None]):
    """Gives the opposite of each sine."""


@Negate.rule(Sin)
def _(site: Site[Negate, None], op: Sin, x: Array) -> Array:
    return -op(x)


@effx.jit
def seen(x: Any) -> Any:
    """Shows what is in force: the width of a float, and whether sines are negated."""
    return enp.arange(1.0), enp.sin(x)


def look(x: Any) -> tuple[bool, bool]:
    wide, sine = seen(x)
    return wide.dtype == np.float64, float(sine) < 0


def within(
    rng: random.Random, depth: int, state: tuple[bool, bool], use: Callable[[tuple[bool, bool]], None]
) -> None:
    """Opens and closes flags and handlers at random, and looks inside."""
    use(state)
    for _ in range(2 if depth else 0):
        if rng.random() < 0.5:
            wide = rng.random() < 0.5
            with effx.enable_x64(wide):
                within(rng, depth - 1, (wide, state[1]), use)
        else:
            with handle(Negate()):
                within(rng, depth - 1, (state[0], not state[1]), use)
        use(state)


def test_contexts_in_threads_and_elsewhere() -> None:
    """A compiled function sees the flags and handlers of the context that it is called in, in whatever thread."""
    x = enp.float32(1.0)
    rng = random.Random(0)
    saved: list[tuple[contextvars.Context, tuple[bool, bool]]] = []
    wrong: list[Any] = []

    def use(state: tuple[bool, bool]) -> None:
        if look(x) != state:
            wrong.append(state)
        if rng.random() < 0.3:
            saved.append((contextvars.copy_context(), state))
        if saved:
            context, there = rng.choice(saved)
            if there[1]:
                return  # its handlers may have ended
            if rng.random() < 0.5:
                found = [context.copy().run(look, x)]
            else:
                found = []
                thread = threading.Thread(target=lambda: found.append(context.copy().run(look, x)))
                thread.start()
                thread.join()
            if found != [there]:
                wrong.append((found, there))

    for _ in range(4):
        within(rng, 3, (False, False), use)
    assert saved
    assert wrong == []


def test_contexts_in_tasks() -> None:
    """Tasks that interleave each see their own flags and handlers, and so do the threads that they ask."""
    x = enp.float32(1.0)

    async def task(wide: bool, negated: bool) -> list[tuple[bool, bool]]:
        found: list[tuple[bool, bool]] = []

        async def step() -> None:
            for _ in range(4):
                found.append(look(x))
                await asyncio.sleep(0)
                found.append(await asyncio.to_thread(look, x))

        with effx.enable_x64(wide):
            if not negated:
                await step()
                return found
            with handle(Negate()):
                await step()
        return found

    async def main() -> None:
        kinds = [(a, b) for a in (False, True) for b in (False, True)] * 2
        for kind, found in zip(kinds, await asyncio.gather(*[task(*k) for k in kinds]), strict=True):
            assert found == [kind] * 8

    asyncio.run(main())
    assert look(x) == (False, False)


# Interrupts


def stacks() -> tuple[object, ...]:
    return current_frame(), current_scope.get(), active_source.get(), overrides()


def busy(x: Any) -> None:
    """Goes through handlers, scopes, flags, staging and programs."""

    def f(x: Any) -> Any:
        with effx.named_scope("part"):
            return enp.sin(x) * x

    with handle(Negate()):
        f(x)
    effx.grad(f)(x)
    with effx.enable_checks(False):
        effx.make_jaxpr(effx.vmap(effx.grad(effx.jit(f))))(enp.ones(2))
    effx.jit(f)(x)


# Guarded, Python 3.12.1 itself ends by a fault where an interrupt comes while it evaluates an alias of Callable.
@pytest.mark.unguarded
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one in a finalizer
def test_interrupts_leave_everything_clean() -> None:
    """An interrupt at any time leaves the handler stack, the scopes, the flags and the fast path as they were."""
    x = enp.float32(1.0)
    busy(x)
    rng = random.Random(0)
    old = signal.getsignal(signal.SIGALRM)

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    caught, dirty = 0, []
    try:
        for _ in range(500):
            started = time.perf_counter()
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 4e-3))
                while time.perf_counter() - started < 0.02:
                    busy(x)
            except KeyboardInterrupt:
                caught += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if stacks() != (None, "", None, None):
                dirty.append(stacks())
                break
    finally:
        signal.signal(signal.SIGALRM, old)
    assert dirty == []
    assert caught > 100  # under load few of them come while there is something to interrupt
    assert look(x) == (False, False)


def call_interrupted(function: Callable[[], object], at: int) -> bool:
    """Calls a function with an interrupt right after it sets a context variable for the `at`-th time.

    Returns:
        Whether it set one that often.
    """
    count = itertools.count()

    def interrupt(frame: Any, event: str, called: Any) -> None:
        is_setting = event == "c_return" and getattr(called, "__name__", "") in ("set", "reset")
        if is_setting and isinstance(called.__self__, ContextVar) and next(count) == at:
            raise KeyboardInterrupt  # which also ends the profiling

    sys.setprofile(interrupt)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def test_interrupts_after_any_set_leave_everything_clean() -> None:
    """The places where a signal that comes by chance seldom falls, each once."""
    x = enp.float32(1.0)
    busy(x)
    at = 0
    while call_interrupted(lambda: busy(x), at):
        assert stacks() == (None, "", None, None), at
        at += 1
    assert at > 50
    assert look(x) == (False, False)


def test_finalisers_run_only_after_interrupts() -> None:
    """Python drops an interrupt that comes while it calls a finaliser."""
    x = enp.float32(1.0)
    finalised = []

    def look_for_finalisers(frame: Any, event: str, called: Any) -> None:
        if event == "call" and frame.f_code.co_name == "__del__":
            finalised.append(frame.f_code.co_filename)

    sys.setprofile(look_for_finalisers)
    try:
        busy(x)
    finally:
        sys.setprofile(None)
    assert [file for file in finalised if "effx" in file] == []


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="jaxlib's C++ aborts at 3.11's limit, which counts its frames"
)
def test_recursion_limits_leave_everything_clean() -> None:
    """So does a RecursionError, at whatever depth it comes."""
    x = enp.float32(1.0)
    busy(x)
    limit, depth = sys.getrecursionlimit(), len(list(frames()))
    caught = 0
    for extra in range(8, 160):
        try:
            sys.setrecursionlimit(depth + extra)
            busy(x)
        except RecursionError:
            caught += 1
        finally:
            sys.setrecursionlimit(limit)
        assert stacks() == (None, "", None, None)
    assert caught > 10
    assert look(x) == (False, False)


def frames() -> Iterator[Any]:
    frame: Any = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def test_a_recursion_error_inside_a_staged_function() -> None:
    """The fast path is in use again after an error inside a function that was being staged."""

    def endless(x: Any) -> Any:
        return endless(x)

    with pytest.raises(RecursionError):
        effx.jit(endless)(1.0)
    assert runs() == 0
    x = enp.ones(2)
    f = effx.jit(counted)
    f(x)
    assert current_frame() is None


def test_generators_that_hold_handlers() -> None:
    """Handlers that are left in another order than they were entered in leave no frame behind."""

    def hold() -> Generator[None]:
        with handle(Negate()):
            yield

    rng = random.Random(0)
    x = enp.float32(1.0)
    for _ in range(30):
        open_: list[Generator[None]] = []
        for _ in range(12):
            if open_ and rng.random() < 0.5:
                open_.pop(rng.randrange(len(open_))).close()
            else:
                generator = hold()
                next(generator)
                open_.append(generator)
            assert look(x) == (False, len(open_) % 2 == 1)
            assert current_frame() is None or current_frame().live  # type: ignore[union-attr]  # as asked
        for generator in open_:
            generator.close()
        assert stacks() == (None, "", None, None)


def test_an_interrupt_between_lines_has_a_line() -> None:
    """An instruction may belong to no line; the traceback without effx's frames keeps its frame."""
    code = compile("def stop():\n    raise KeyboardInterrupt", "between.py", "exec").co_consts[0]
    stop = types.FunctionType(code.replace(co_linetable=b""), {})
    with pytest.raises(KeyboardInterrupt) as caught:
        stop()
    kept = without_internal_frames(caught.value.__traceback__)
    names = []
    while kept is not None:
        names.append((kept.tb_frame.f_code.co_name, type(kept.tb_lineno)))
        kept = kept.tb_next
    assert names[-1] == ("stop", int)
