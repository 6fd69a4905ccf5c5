"""Settings that say where, when and why: devices, transfers, what may run, why a function is staged again."""

import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import errors, flags

THERE = effx.devices()[1]
HERE = effx.devices()[0]


def raised(call: Callable[[], object]) -> str:
    with pytest.raises(errors.EffxError) as error:
        call()
    return error.value.message


def double(x: Any) -> Any:
    return x * 2


f = effx.jit(double)


def test_default_device() -> None:
    """What no argument binds runs there, eager and compiled, and comes back; what is bound stays."""
    x = enp.ones(3)
    bound = effx.device_put(x, HERE)
    for _ in range(2):
        with effx.default_device(THERE):
            assert enp.zeros(2).device == THERE
            assert (x + 1.0).device == f(x).device == THERE
            assert f(2.0).device == f(np.ones(3, np.float32)).device == THERE
            assert f(bound).device == HERE
            np.testing.assert_array_equal(effx.vmap(f)(x), [2.0, 2.0, 2.0])
        assert (x + 1.0).device == f(x).device == HERE
    with effx.default_device("cpu"):
        assert enp.zeros(2).device == HERE
    with effx.default_device(THERE):
        assert (x * 3.0).device == THERE
        with effx.default_device(None):
            assert (x * 3.0).device == HERE
        with effx.enable_x64():
            assert (x * 3.0).device == THERE
    with effx.enable_x64():
        assert (x * 3.0).device == HERE
    with effx.default_device("tpu"):
        assert raised(lambda: enp.zeros(2)).startswith("devices: there is no platform 'tpu' on this machine")
    with pytest.raises(TypeError, match=r"default_device: got 3 .int., expected a device"):
        effx.default_device(3)


def test_transfers_that_are_forbidden() -> None:
    """Implicit ones are errors that name array, way and setting; explicit ones and numbers are not."""
    x, data = enp.ones(3), np.ones(3, np.float32)
    f(data)  # C++ knows the call
    with effx.transfer_guard("disallow"):
        assert raised(lambda: f(data)) == (
            "array: implicit transfer of f32[3] from the host to a device, but transfer_guard_host_to_device is "
            "'disallow'; say it with device_put or device_get"
        )
        assert raised(lambda: np.asarray(f(x))) == (
            "numpy.asarray(x): implicit transfer of f32[3] from a device to the host, but "
            "transfer_guard_device_to_host is 'disallow'; say it with device_put or device_get"
        )
        there = effx.device_put(data, THERE)
        assert effx.device_get(f(effx.device_put(data)) * 3.0).tolist() == [6.0] * 3
        assert effx.device_get(there).tolist() == [1.0] * 3
        for made in (
            enp.arange(3),
            enp.arange(3.0),
            enp.zeros(3),
            enp.eye(2),
            enp.linspace(0, 1, 4),
            *enp.tril_indices(2),
        ):
            assert effx.device_get(made).size > 0  # what effx computes is not the user's
        assert effx.device_get(effx.grad(lambda y: (y * y).sum())(x)).tolist() == [2.0] * 3
    assert np.asarray(f(data)).tolist() == [2.0] * 3


def test_transfers_between_devices() -> None:
    x = enp.ones(3)
    moving = effx.jit(double, device=THERE)
    with effx.transfer_guard_device_to_device("disallow"):
        assert raised(lambda: moving(x)) == (
            "array: implicit transfer of f32[3] between devices, but transfer_guard_device_to_device is 'disallow'; "
            "say it with device_put or device_get"
        )
        assert moving(effx.device_put(x, THERE)).device == THERE
    with effx.transfer_guard("disallow_explicit"):
        assert raised(lambda: effx.device_put(x, THERE)).startswith(
            "device_put: explicit transfer of f32[3] between"
        )


def test_transfers_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "effx"), effx.transfer_guard("log"):
        y = f(np.ones(3, np.float32))
        effx.device_get(y)
    assert [r.message.split(" at ")[0] for r in caplog.records] == [
        "array: implicit transfer of f32[3] from the host to a device"
    ]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "effx"), effx.transfer_guard("log_explicit"):
        effx.device_get(f(effx.device_put(np.ones(3, np.float32))))
    assert [r.message.split(" at ")[0] for r in caplog.records] == [
        "device_put: explicit transfer of f32[3] from the host to a device",
        "device_get: explicit transfer of f32[3] from a device to the host",
    ]


def test_directions_in_one() -> None:
    """The common setting gives each direction its value, and has none where they differ."""
    seen = [effx.config.transfer_guard]
    with effx.transfer_guard("log"), effx.transfer_guard_host_to_device("disallow"):
        assert flags.transfer_guard_device_to_host.value == "log"
        seen.append(effx.config.transfer_guard)
    assert seen == ["allow", None]
    effx.config.update("transfer_guard", "log")
    try:
        assert {flag.value for flag in flags.transfer_guard.flags} == {"log"}
    finally:
        effx.config.update("transfer_guard", "allow")
    wrong: Any = "never"
    with pytest.raises(
        ValueError, match="transfer_guard_host_to_device: got 'never', expected one of 'allow'"
    ):
        effx.transfer_guard(wrong)


def test_nothing_runs_and_nothing_is_staged() -> None:
    x = enp.ones(3)
    f(x)
    with effx.no_execution():
        assert raised(lambda: f(x)) == "jit: double: no_execution is on, and running a program is refused"
        assert raised(lambda: x + x) == "add: no_execution is on, and running a program is refused"
        assert f.lower(x).as_text().startswith("module")
    with effx.no_tracing():
        assert f(x).tolist() == [2.0] * 3
        with pytest.raises(RuntimeError):
            f(enp.ones(4))
        assert raised(lambda: f(enp.ones(4))).startswith(
            "jit: no_tracing is on, and staging double at test_config.py:"
        )
    assert f(x).tolist() == [2.0] * 3


@pytest.mark.unguarded  # each check collects garbage, of which typeguard's hook leaves much
def test_leaks() -> None:
    """A value that outlives its function is found when the function has been staged, and the rest is quiet."""
    left: list[Any] = []

    def leaks(x: Any) -> Any:
        left.append(x * 2)
        return x

    def scans(x: Any) -> Any:
        return effx.lax.scan(lambda c, y: (effx.jit(enp.sin)(c) + y, c), 0.0, x)[0]

    with effx.checking_leaks():
        message = raised(lambda: effx.jit(leaks)(1.0))
        assert message.startswith("jit: leaks at test_config.py:")
        assert message.endswith(" leaked 1 value: f32[]~ is held by list after the transformation has ended")
        effx.vmap(effx.grad(scans))(enp.ones((2, 3)))
    left.clear()


@pytest.mark.unguarded
@pytest.mark.parametrize(
    ("name", "transform"),
    [
        ("vmap", effx.vmap),
        ("jvp", lambda f: lambda x: effx.jvp(f, (x,), (x,))),
        ("jvp", lambda f: effx.grad(lambda x: f(x).sum())),
        ("jvp", lambda f: lambda x: effx.linearize(f, x)),
        ("jvp", effx.jacfwd),
        ("jvp", effx.jacrev),
        ("jvp", lambda f: effx.hessian(lambda x: f(x).sum())),
        ("checkpoint", effx.checkpoint),
        ("scan", lambda f: lambda x: effx.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]),
        ("cond", lambda f: lambda x: effx.lax.cond(x[0] > 0, f, enp.cos, x)),
        ("fori_loop", lambda f: lambda x: effx.lax.fori_loop(0, 2, lambda _, c: f(c), x)),
    ],
)
def test_leaks_of_every_transformation(name: str, transform: Any) -> None:
    """Of a value that its function leaves somewhere, and of one that a custom rule leaves; nothing else is found."""
    left: list[Any] = []

    def leak(x: Any) -> Any:
        left.append(x * 2)
        return enp.sin(x)

    @effx.custom_vjp
    def with_rules(x: Any) -> Any:
        return enp.sin(x)

    with_rules.defvjp(lambda x: (enp.sin(x), x), lambda x, ct: (enp.cos(x) * ct,))
    x = enp.ones(3)
    with effx.checking_leaks():
        transform(lambda x: enp.sin(x) * x)(x)
        effx.vmap(effx.grad(lambda x: (with_rules(x) * x).sum()))(enp.ones((2, 3)))
        message = raised(lambda: transform(leak)(x))
        assert message.startswith(f"{name}: ")
        assert message.endswith("is held by list after the transformation has ended")
        left.clear()
        with_rules.defvjp(lambda x: (leak(x), x), lambda x, ct: (ct,))
        message = raised(lambda: effx.jit(effx.grad(with_rules))(1.0))
        assert message.endswith("is held by list after the transformation has ended")
    left.clear()
    assert transform(leak)(x) is not None
    left.clear()


def test_raw_and_typed_keys() -> None:
    raw = effx.random.PRNGKey(0)
    with effx.enable_custom_prng():
        assert effx.random.PRNGKey(0).dtype == effx.random.key(0).dtype
        assert effx.random.key_data(effx.random.PRNGKey(3)).tolist() == [0, 3]
    with effx.legacy_prng_key("error"):
        assert raised(lambda: effx.random.normal(raw)) == (
            "normal: got the raw key u32[2], and legacy_prng_key is 'error'; make keys with random.key"
        )
        effx.random.normal(effx.random.key(0))
    with effx.legacy_prng_key("warn"), pytest.warns(UserWarning, match="normal: got the raw key"):
        effx.random.normal(raw)


AGAIN = (
    "never seen function, but another function defined on the same line was staged before; programs are kept with the "
    "function, so make it once and call it often"
)


def explained(caplog: pytest.LogCaptureFixture, run: Callable[[], object]) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "effx"), effx.explain_cache_misses():
        run()
    return [r.message.split(": ", 2)[2] for r in caplog.records]


def test_misses_are_explained(caplog: pytest.LogCaptureFixture) -> None:
    """Each new staging logs what differs from the nearest earlier one; a cached call logs nothing."""

    def power(w: dict[str, Any], x: Any, n: float = 2) -> Any:
        return (w["a"] * x**n).sum()

    g = effx.jit(power, static_argnames="n")
    w, x = {"a": enp.ones(3)}, enp.ones(3)
    assert explained(caplog, lambda: (g(w, x), g(w, x))) == ["never seen function"]
    near = "unlike the nearest call before, "
    many = "; it has {} programs".format
    assert explained(caplog, lambda: g(w, 1.0)) == [
        near + "different input types: at x, now f32[]~ and before f32[3]"
    ]
    assert explained(caplog, lambda: g(w, enp.float32(1))) == [
        near
        + "different input types: at x, now f32[] and before f32[]~ (weak: made of a Python number)"
        + many(2)
    ]
    assert explained(caplog, lambda: g(w, x, n=3)) == [
        near + "different static arguments: at n, now 3 and before left out" + many(3)
    ]
    assert explained(caplog, lambda: g(w, x, n=2.5)) == [
        near + "different static arguments: at n, now 2.5 and before 3" + many(4)
    ]
    assert explained(caplog, lambda: g({"a": x, "b": x}, x)) == [
        near
        + "different input pytree: now PyTreeDef((({'a': *, 'b': *}, *), {})) and before "
        + "PyTreeDef((({'a': *}, *), {}))"
        + many(5)
    ]
    with effx.default_matmul_precision("highest"):
        assert explained(caplog, lambda: g(w, x)) == [
            near
            + "different tracing context: default_matmul_precision, now highest and before None"
            + many(6)
        ]
    assert explained(caplog, lambda: effx.vmap(lambda y: g(w, y), axis_name="i")(enp.ones((2, 3)))) == [
        near + "different tracing context: axes in scope, now i: 2 and before none" + many(7)
    ]
    assert explained(caplog, lambda: [effx.jit(lambda y: y + 1)(x) for _ in range(2)]) == [
        "never seen function",
        AGAIN,
    ]


def test_every_flag_is_described() -> None:
    lines = effx.config.describe().splitlines()
    assert [line.split("=")[0] for line in lines] == sorted(
        n for n in flags.FLAGS if not n.startswith("test")
    )
    assert all(
        f"(EFFX_{line.split('=')[0].upper()}): " in line and len(line.split("): ")[1]) > 10 for line in lines
    )


def test_guard_of_the_environment() -> None:
    code = "import effx, numpy as np; print(effx.config.transfer_guard); effx.jit(lambda x: x)(np.ones(3))"
    environment = {"EFFX_TRANSFER_GUARD": "disallow", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "disallow\n"
    assert "implicit transfer of f32[3] from the host to a device" in done.stderr


def test_settings_of_users() -> None:
    """Each value has programs of its own, in blocks, for all, in nested functions and under transformations."""
    scale = effx.make_user_context(1.0)
    traces: list[float] = []

    @effx.jit
    def times(x: Any) -> Any:
        traces.append(scale.value)
        return x * scale.value

    nested = effx.jit(lambda x: times(x) + 0.0)
    assert [float(times(1.0)), float(times(1.0)), float(nested(1.0))] == [1.0, 1.0, 1.0]
    with scale(2.0):
        assert [float(times(1.0)), float(nested(1.0)), float(effx.grad(times)(1.0))] == [2.0, 2.0, 2.0]
        with scale(3.0):
            assert float(nested(1.0)) == 3.0
        assert float(times(1.0)) == 2.0
    assert float(times(1.0)) == float(nested(1.0)) == 1.0
    scale.set(4.0)
    assert float(times(1.0)) == float(nested(1.0)) == 4.0
    scale.set_global(1.0)
    assert float(times(1.0)) == 1.0
    with scale(2.0):
        assert (scale.get_global(), scale.value) == (1.0, 2.0)
    assert sorted(set(traces)) == [1.0, 2.0, 3.0, 4.0]
    wrong: Any = []
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        scale(wrong)
