"""Staged programs on disk: how they are found, read and written, in one process and in several."""

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from string import Template
from typing import Any, cast

import numpy as np
import pytest

import effx
import effx.lower.text.module
import effx.numpy as enp
from effx import errors, flags
from effx.ir.ops.elementwise import Cos
from effx.lower.text import emit
from effx.program_cache import lookup
from tests.program_cache.users_programs import Outcome, loaded, outcome, run, same

# Under typeguard's hook effx's source is not effx's own, so no program is kept.
pytestmark = pytest.mark.unguarded

KINDS = (
    "k{i} = {c}\ndef f{i}(x): return {inner} + k{i}\n",
    "k{i} = {{'a': [{c}, 0.5]}}\ndef f{i}(x): return {inner} + k{i}['a'][0]\n",
    "def f{i}(x, k={c}): return {inner} + k\n",
    "def f{i}(x, *, k=(1.0, {c})): return {inner} + k[1]\n",
    "def make{i}(k):\n    def f{i}(x): return {inner} + k\n    return f{i}\nf{i} = make{i}({c})\n",
    "class A{i}:\n    k = {c}\n    def m(self, x): return {inner} + self.k\nf{i} = A{i}().m\n",
    "@attrs.frozen\nclass A{i}:\n    k: float\n    def __call__(self, x): return {inner} + self.k\nf{i} = A{i}({c})\n",
    "@dataclasses.dataclass\nclass A{i}: k: float = {c}\na{i} = [A{i}()]\ndef f{i}(x): return {inner} + a{i}[0].k\n",
    "def g{i}(k, x): return {inner} + k\nf{i} = functools.partial(g{i}, {c})\n",
    "k{i} = np.array([{c}, 1.0])\ndef f{i}(x): return {inner} + float(k{i}.tolist()[0])\n",
    "def f{i}(x):\n    def g(y): return y + {c}\n    return g({inner})\n",
    "class E{i}(enum.Enum):\n    K = {c}\ndef f{i}(x): return {inner} + E{i}.K.value\n",
    "class B{i}:\n  @property\n  def k(self): return {c}\nclass A{i}(B{i}): ...\ndef f{i}(x): return A{i}().k + {inner}\n",
    "f{i} = (lambda g: lambda x: g(x))(lambda x: {inner} + {c})\n",
)


def test_random_functions(directory: Path) -> None:
    """Chains of functions that hold numbers in all ways: another number is another program. The oracle is Python."""
    rng = random.Random(0)
    for _ in range(12):
        kinds = [rng.choice(KINDS) for _ in range(6)]
        constants = [float(rng.randrange(1, 64)) for _ in kinds]

        def source(constants: Sequence[float], kinds: Sequence[str] = kinds) -> str:
            inner = ["x", *[f"f{i}(x) * 2.0" for i in range(len(kinds))]]
            numbered = enumerate(zip(kinds, constants, strict=True))
            parts = [kind.format(i=i, c=c, inner=inner[i]) for i, (kind, c) in numbered]
            return "".join(parts) + f"f = f{len(kinds) - 1}\n"

        for _ in range(3):
            text = source(constants)
            first, again = run(text), run(text)
            assert first.refusal == ""
            assert not first.hit
            assert again.hit
            assert float(first.value) == float(again.value) == loaded(text).f(3.0)
            constants[rng.randrange(len(constants))] += 64.0


CONTEXT = effx.make_user_context("one")
CALLS: dict[str, tuple[str, Callable[[], contextlib.AbstractContextManager[object]]]] = {
    "shape": ("effx.jit(f)(enp.ones(2))", contextlib.nullcontext),
    "dtype": ("effx.jit(f)(3)", contextlib.nullcontext),
    "weakness": ("effx.jit(f)(enp.float32(3.0))", contextlib.nullcontext),
    "structure": ("effx.jit(f)(3.0, None)", contextlib.nullcontext),
    "keyword": ("effx.jit(f)(x=3.0)", contextlib.nullcontext),
    "static value": ("effx.jit(f, static_argnums=1)(3.0, 7)", contextlib.nullcontext),
    "other static value": ("effx.jit(f, static_argnums=1)(3.0, 8)", contextlib.nullcontext),
    "static type": ("effx.jit(f, static_argnums=1)(3.0, 7.0)", contextlib.nullcontext),
    "static function": ("effx.jit(f, static_argnums=1)(3.0, g)", contextlib.nullcontext),
    "unused inputs": ("effx.jit(f, keep_unused=True)(3.0)", contextlib.nullcontext),
    "donated": ("effx.jit(f, donate_argnums=0)(enp.ones(2))", contextlib.nullcontext),
    "committed": ("effx.jit(f)(effx.device_put(3.0, effx.devices()[0]))", contextlib.nullcontext),
    "device": ("effx.jit(f, device=effx.devices()[0])(3)", contextlib.nullcontext),
    "option": (
        "effx.jit(f, compiler_options={'xla_embed_ir_in_executable': True})(3.0)",
        contextlib.nullcontext,
    ),
    "sizes": ("effx.jit(f, abstracted_axes={0: 'n'})(enp.ones(8))", contextlib.nullcontext),
    "other sizes": ("effx.jit(f, abstracted_axes={0: '2*n'})(enp.ones(8))", contextlib.nullcontext),
    "x64": ("effx.jit(f)(3.0)", lambda: flags.enable_x64(True)),
    "precision": ("effx.jit(f)(3.0)", lambda: flags.default_matmul_precision("highest")),
    "promotion": ("effx.jit(f)(3.0)", lambda: flags.numpy_rank_promotion("raise")),
    "generator": ("effx.jit(f)(3.0)", lambda: flags.default_prng_impl("rbg")),
    "user context": ("effx.jit(f)(3.0)", lambda: CONTEXT("other")),
}


def test_kinds_of_calls(directory: Path) -> None:
    """Each finds its own program, and none another's."""
    source = "def g(x): return x\ndef f(x, y=None, k=2.0): return enp.sin(x) * k\n"
    plain = run(source)
    for call, setting in CALLS.values():
        with setting():
            first, second = run(source, call), run(source, call)
        assert (first.hit, first.refusal, second.hit) == (False, "", True), call
        assert same(first.value, second.value)
        assert first.value.dtype == second.value.dtype
    found = run(source)
    assert found.hit
    assert same(found.value, plain.value)
    call = CALLS["static function"][0]
    assert not run(source.replace("return x\n", "return -x\n"), call).hit


def test_modules_of_the_user(directory: Path) -> None:
    """A function that is reached through another module of the user's is looked into."""
    loaded("def g(x): return x * 2.0\n", "users_other")
    source = "import users_other\ndef f(x): return users_other.g(x)\n"
    assert not run(source).hit
    found = run(source)
    assert found.hit
    assert float(found.value) == 6.0
    loaded("def g(x): return x * 4.0\n", "users_other")
    found = run(source)
    assert not found.hit
    assert float(found.value) == 12.0


def test_patched_libraries(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user puts in the place of effx's or NumPy's own functions is seen."""
    source = "def f(x): return enp.sin(x) * np.sin(1.0)\n"
    run(source)
    assert run(source).hit
    patches: list[tuple[object, str, object]] = [
        (enp, "sin", lambda x: x),
        (enp, "sin", enp.cos),
        (np, "sin", np.cos),
        (np, "sin", lambda x: 1.0),
    ]
    for module, name, value in patches:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            found = run(source)
            with flags.cache_programs(False):
                assert same(found.value, run(source).value)
        assert not found.hit
    assert run(source).hit
    with monkeypatch.context() as patch:
        patch.setattr(
            effx.lower.text.module,
            "function_lines",
            lambda *args, **named: emit.function_lines(*args, **named),
        )
        assert run(source).refusal == "effx.lower.text.module.function_lines is not effx's own"
    with monkeypatch.context() as patch:
        patch.setattr(effx.Array, "twice", lambda self: self * 2.0, raising=False)
        assert run(source).refusal == "Array.twice is not effx's own"


def test_functions_that_effx_makes(directory: Path) -> None:
    """Functions of one declaration share their code, and have programs of their own."""
    calls = [f"effx.jit(g.{name})(0.2)" for name in ("pdf", "cdf", "sf", "ppf", "isf")]
    source = "from effx.scipy.stats import norm as g\n"
    first = [run(source, call) for call in calls]
    second = [run(source, call) for call in calls]
    assert [result.hit for result in first + second] == [False] * 5 + [True] * 5
    assert all([same(a.value, b.value) for a, b in zip(first, second, strict=True)])
    assert len({float(result.value) for result in second}) == 5


def test_captured_arrays(directory: Path) -> None:
    """A function finds its own arrays again, which need not be in the entry; deleted or donated ones are errors as ever."""
    source = "k = enp.arange(400_000.0)\ndef f(x): return (x * k)[-1]\n"
    run(source)
    assert sum([path.stat().st_size for path in directory.glob("p*")]) < 10_000
    assert run(source).hit
    module = loaded(source)
    module.k.delete()
    with pytest.raises(errors.DonatedArrayError, match="closes over the array"):
        outcome(lambda: effx.jit(module.f)(3.0))
    source = "k = enp.ones(3)\ndef f(x): return x * k\n"
    run(source, "effx.jit(f, donate_argnums=0)(enp.ones(3))")
    with pytest.raises(errors.DonatedArrayError, match="that it is given as a donated argument"):
        run(source, "effx.jit(f, donate_argnums=0)(k)")


def test_captured_arrays_of_numpy(directory: Path) -> None:
    """They are found again as well, and count with their elements."""
    source = (
        "k = np.arange(400_000, dtype='float32')\ndef f(x): return (enp.asarray(k) * x)[-1] + (x * k)[-2]\n"
    )
    first, second = run(source), run(source)
    assert (first.refusal, second.hit) == ("", True)
    assert float(first.value) == float(second.value) == 3.0 * 399_999 + 3.0 * 399_998
    assert sum([path.stat().st_size for path in directory.glob("p*")]) < 10_000
    changed = run(source + "k[-1] = 0\n")
    assert not changed.hit
    assert float(changed.value) == 3.0 * 399_998


def test_what_is_too_much(directory: Path) -> None:
    """A walk over very much would take longer than staging."""
    found = run("k = np.zeros(2**24 + 1, 'float32')\ndef f(x): return x * k.size\n")
    assert found.refusal.endswith("with others more than 64 MiB of arrays")
    found = run("k = [0.0] * 200_000\ndef f(x): return x * len(k)\n")
    assert found.refusal.endswith("one of more than 200000 values")
    found = run("k = []\nfor _ in range(2000): k = [k]\ndef f(x): return x * len(k)\n")
    assert found.refusal == "what it reaches is nested too deeply"


def test_classes_that_a_user_registers(directory: Path) -> None:
    """How a class of Python's own is taken apart is part of the key."""
    source = "import string\nN = string.Template\ndef f(x): return effx.tree.map(lambda z: z, [N(x)])[0].template\n"
    assert run(source).refusal == ""
    assert run(source).hit
    effx.tree_util.register_pytree_node(
        Template, lambda n: ((cast("Any", n.template) * 2.0,), None), lambda _, c: Template(cast("Any", c[0]))
    )
    found = run(source)
    assert not found.hit
    assert float(found.value) == 6.0
    assert run(source).hit


def test_objects_that_raise(directory: Path) -> None:
    """What raises when it is looked at costs the program on disk, not the result."""
    source = (
        "class A:\n    k = 2.0\n    @property\n    def __class__(self): raise ValueError('no')\n"
        "a = A()\ndef f(x): return x * a.k\n"
    )
    found = run(source)
    assert found.refusal == "looking at what it reaches raised ValueError: no"
    assert float(found.value) == 6.0


def test_changed_source(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where effx's files are newer than what runs, versions say nothing."""
    monkeypatch.setattr(lookup, "start_time", 0.0)
    found = run("def f(x): return x\n")
    assert found.refusal == "effx's source has changed since it was loaded"


def test_arrays_that_staging_makes(directory: Path) -> None:
    """Small ones are part of the entry, for large ones it is not worth it."""
    source = (
        "def f(x):\n"
        "    with effx.ensure_compile_time_eval(): k = enp.arange(3.0) + 1.0\n"
        "    return (x * k)[-1]\n"
    )
    first, second = run(source), run(source)
    assert (first.refusal, second.hit) == ("", True)
    assert float(first.value) == float(second.value) == 9.0
    large = source.replace("3.0", "400_000.0")
    assert run(large).refusal == "it closes over arrays that are made when it is staged"


def test_results_of_classes(directory: Path) -> None:
    """A structure of a user's classes is built again, also where no such object was there before."""
    source = (
        "@attrs.frozen\nclass A:\n    a: typing.Any\n    b: str = attrs.field(default='b', metadata={'static': True})\n"
        "class N(typing.NamedTuple):\n    a: typing.Any\n"
        "def f(x): return {'k': [A(x + 1.0), N((x, None))]}\n"
    )
    assert run(source).refusal == ""
    module = loaded(source)
    found = outcome(lambda: effx.jit(module.f)(3.0))
    assert found.hit
    a, n = found.value["k"]
    assert (type(a), type(n), a.b, float(a.a), float(n.a[0]), n.a[1]) == (
        module.A,
        module.N,
        "b",
        4.0,
        3.0,
        None,
    )


def test_the_program_itself_is_loaded_on_demand(directory: Path) -> None:
    """Transformations and stages of a function whose program came from disk stage it."""
    source = "def f(x): return enp.sin(x) * 2.0\n"
    run(source)
    effx.clear_caches()
    f: Any = effx.jit(loaded(source).f)
    value = f(3.0)
    assert not f.trace.__self__.traces
    assert f._cache_size() == 1
    np.testing.assert_allclose(effx.grad(f)(3.0), 2 * np.cos(3.0), rtol=1e-6)
    np.testing.assert_allclose(effx.vmap(f)(enp.full(2, 3.0)), [value, value], rtol=1e-6)
    assert "sine" in f.lower(3.0).as_text()
    f.clear_cache()
    assert outcome(lambda: f(3.0)).hit


def test_settings(directory: Path) -> None:
    """Off means off; quick compilations are not stored; debugging flags stage each time."""
    source = "def f(x): return enp.sin(x) * 2.0\n"
    with flags.cache_programs(False):
        run(source)
    assert not list(directory.glob("p*"))
    with flags.cache_min_compile_seconds(60.0):
        found = run("def f(x): return enp.cos(x) * 7.0\n")
    assert found.refusal == "it was compiled too quickly (cache_min_compile_seconds)"
    run(source)
    assert len(list(directory.glob("p*"))) == 1
    for setting in (flags.debug_nans, flags.enable_checks, flags.check_tracer_leaks):
        with setting(True):
            assert not run(source).hit
    with flags.no_tracing():
        assert run(source).hit


SETTINGS = """
import contextlib, json, sys
import effx, effx.numpy as enp
from effx import flags
from tests.flag_probes import PROBES, describe_call, flipped, other_value
from tests.program_cache.users_programs import outcome
def call(name, f, context):
    def run():
        with context:
            return describe_call(effx.jit(f), enp.ones(3))
    return outcome(run)
def look(name, f):
    plain = call(name, f, contextlib.nullcontext()).hit
    if sys.argv[1] == "plain":
        return plain, plain, True
    other = call(name, f, flipped(name, other_value(name), False))
    with flags.cache_dir(None):
        expected = call(name, f, flipped(name, other_value(name), False))
    return plain, other.hit, str(other.value) == str(expected.value)
rest = {name for name in flags.FLAGS if name not in ("cache_dir", "transfer_guard")} - PROBES.keys()
probes = {**PROBES, **{name: lambda x: x * 2.0 for name in sorted(rest)}}
print(json.dumps({name: look(name, f) for name, f in probes.items() if name in sys.argv[2:] or not sys.argv[2:]}))
"""
# What keeps C++ or the disk cache out.
NOTHING_FROM_DISK = {"cache_programs", "no_execution"} | {
    f"transfer_guard_{way}" for way in ("host_to_device", "device_to_device", "device_to_host")
}


def test_settings_of_another_process(tmp_path: Path) -> None:
    """A program on disk answers a process with other settings only where these change neither programs nor calls."""

    def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        settings = {
            "EFFX_CACHE_DIR": str(tmp_path / "cache"),
            "EFFX_CACHE_MIN_COMPILE_SECONDS": "0",
            "EFFX_NUM_CPU_DEVICES": "2",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        command = [sys.executable, "-c", SETTINGS, *arguments]
        return subprocess.Popen(command, env=settings | environment, stdout=subprocess.PIPE, text=True)

    def finish(process: subprocess.Popen[str]) -> dict[str, tuple[bool, bool, bool]]:
        lines = process.communicate(timeout=240)[0].splitlines()
        assert process.returncode == 0
        return {name: tuple(seen) for name, seen in json.loads(lines[-1]).items()}

    finish(start("plain"))
    seen = finish(start("flipped"))
    # Not kept are an error, and what leaves a value elsewhere.
    assert [name for name, (is_kept, _, _) in seen.items() if not is_kept] == [
        "check_static_indices",
        "check_tracer_leaks",
    ]
    irrelevant = {flag.name for flag in flags.flags_that_change(flags.Changes.NOTHING)} - {"cache_dir"}
    irrelevant -= {flag.name for flag in flags.flags_that_change(flags.Changes.PROCESSES)}
    assert {name for name, (_, is_hit, _) in seen.items() if is_hit} == irrelevant - NOTHING_FROM_DISK
    # Without the disk, the function would be staged, which is refused.
    assert [name for name, (_, _, is_same) in seen.items() if not is_same] == ["no_tracing"]
    others = [
        start("plain", "enable_x64", EFFX_NUM_CPU_DEVICES="3"),
        start("plain", "enable_x64", EFFX_PLATFORMS="cpu"),
        start("plain", "enable_x64", EFFX_CPU_COLLECTIVES_IMPLEMENTATION="none"),
        start("plain", "enable_x64"),
    ]
    assert [finish(process)["enable_x64"][0] for process in others] == [False, False, False, True]


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: b"", lambda d: d[:60] + b"x" + d[61:], lambda d: d * 2]
)
def test_damaged_entries(damage: Callable[[bytes], bytes], directory: Path) -> None:
    """They are ignored with one warning, and written anew; so is an entry whose executable is missing."""
    source = "def f(x): return enp.sin(x) * 2.0\n"
    first = run(source)
    (entry,) = directory.glob("p*")
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    with pytest.warns(RuntimeWarning, match="the program is damaged: its checksum is wrong"):
        second = run(source)
    assert not second.hit
    assert same(first.value, second.value)
    assert entry.read_bytes() == whole
    for path in directory.iterdir():
        if path != entry:
            path.unlink()
    assert not run(source).hit
    assert run(source).hit


def test_remembered_results(directory: Path) -> None:
    """What a function remembered before may not be what it would compute now."""
    source = "t = [2.0]\n@functools.lru_cache\ndef k(): return t[0]\ndef f(x): return x * k()\n"
    run(source)
    module = loaded(source)
    module.k()
    module.t[0] = 5.0
    found = outcome(lambda: effx.jit(module.f)(3.0))
    assert found.refusal.endswith("which is k, which remembers earlier results")
    assert float(found.value) == 6.0


INNER = {
    "jit": "g = effx.jit(lambda x: x * k)\ndef f(x): return g(x) + 1.0\n",
    "scan": "def g(c, y): return c * k, y\ndef f(x): return effx.lax.scan(g, x, None, 2)[0] + 1.0\n",
    "checkpoint": "g = effx.checkpoint(lambda x: x * k)\ndef f(x): return g(x) + 1.0\n",
}


@pytest.mark.parametrize("name", INNER)
def test_functions_that_were_staged_before(name: str, directory: Path) -> None:
    """What an inner function read when it was staged is in the program; another process would read what is there."""
    source = "k = 2.0\n" + INNER[name]
    first_use = "effx.lax.scan(g, 3.0, None, 2)" if name == "scan" else "g(3.0)"

    def both(k: float) -> tuple[Outcome, float]:
        module = loaded(source)
        effx.clear_caches()
        with flags.cache_programs(False):
            eval(first_use, module.__dict__)
        module.__dict__["k"] = k
        found = outcome(lambda: effx.jit(module.f)(3.0), forget=False)
        return found, module.f(3.0)

    found, wanted = both(5.0)
    assert not found.hit
    assert "which was staged before, perhaps with other values" in found.refusal
    assert float(found.value) == wanted
    fresh = run(source.replace("k = 2.0", "k = 5.0"))
    assert not fresh.hit
    assert float(fresh.value) == (76.0 if name == "scan" else 16.0)


def test_a_second_kind_of_arguments(directory: Path) -> None:
    """Inner functions that were staged for the first kind, with the same values, are no reason against the second."""
    source = "k = 2.0\n" + INNER["jit"]
    calls = "h = effx.jit(f)\nh(3.0)\nh(enp.ones(2))\nh(enp.ones(3))\n"
    for hit in (False, True):
        module = loaded(source)
        effx.clear_caches()
        exec(calls, module.__dict__)
        found = outcome(partial(module.h, enp.ones(4)), forget=False)
        assert (found.hit, found.refusal) == (hit, "")


def test_many_threads(directory: Path) -> None:
    """Threads that ask for and write the same programs get right results."""
    found: list[tuple[int, float]] = []

    def work(n: int) -> None:
        module = loaded(f"def f(x): return enp.sin(x) * {n}.0\n", f"users_thread_{n}")
        with flags.cache_dir(str(directory)), flags.cache_min_compile_seconds(0.0):
            found.append((n, float(effx.jit(module.f)(1.0))))

    effx.clear_caches()
    threads = [threading.Thread(target=work, args=(1 + i % 3,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 12
    for n, value in found:
        np.testing.assert_allclose(value, n * np.sin(1.0), rtol=1e-6)


PROGRAM = """
import attrs, effx, effx.numpy as enp
from effx import monitoring
SCALE = {scale}
@attrs.frozen
class State:
    w: object
    n: object
def loss(state, x):
    return enp.mean(enp.tanh(x @ state.w) ** 2) * SCALE + state.n
def step(state, x):
    g = effx.grad(loss)(state, x)
    return State(state.w - 0.1 * g.w, state.n + 1.0)
monitoring.register_event_duration_secs_listener(lambda event, *_, **k: print(event, k.get("fun_name")))
f = effx.jit(step)
state = State(enp.eye(3), enp.float32(0.0))
for _ in range(2):
    state = f(state, enp.ones((2, 3)))
print(type(state).__name__, state.w.tolist(), float(state.n))
"""


def test_processes(tmp_path: Path) -> None:
    """The next process traces nothing, lowers nothing and compiles nothing; hashes of strings differ between the two."""

    def start(scale: float, seed: int) -> subprocess.Popen[str]:
        environment = {
            "EFFX_CACHE_DIR": str(tmp_path / "cache"),
            "EFFX_CACHE_MIN_COMPILE_SECONDS": "0",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONHASHSEED": str(seed),
        }
        file = tmp_path / f"program_{seed}.py"
        file.write_text(PROGRAM.replace("{scale}", str(scale)))
        return subprocess.Popen(
            [sys.executable, str(file)], env=environment, stdout=subprocess.PIPE, text=True
        )

    def finish(process: subprocess.Popen[str]) -> tuple[str, list[str]]:
        lines = process.communicate(timeout=120)[0].splitlines()
        assert process.returncode == 0
        return lines[-1], [line for line in lines if line.endswith((" step", " loss"))]

    first, staged = finish(start(1.0, 1))
    assert {"/effx/stage step", "/effx/lower step", "/effx/compile step"} <= set(staged)
    for process in [start(1.0, 2), start(1.0, 3)]:  # at once
        assert finish(process) == (first, [])
    changed, staged = finish(start(3.0, 4))
    assert "/effx/stage step" in staged
    assert changed != first


def test_rules_of_a_user_for_operations_of_effx(directory: Path) -> None:
    """They may give another program, whatever functions reach."""
    source = "def f(x): return enp.cos(x)\n"
    run(source)
    own = emit.rules.find(Cos)
    assert own is not None
    emit.emits(Cos)(lambda body, op, inputs, outputs: own(body, op, inputs, outputs))
    try:
        found = run(source)
    finally:
        emit.emits(Cos)(own)
    assert found.refusal == "the rule of stablehlo for Cos is not effx's own"
    assert run(source).hit
