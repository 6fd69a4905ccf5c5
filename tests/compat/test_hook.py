"""`import jax` gives effx, where a user asked for it and nowhere else.

Each test is one fresh process: here jax itself is loaded by other tests.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unguarded
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")


def python(*arguments: str, folder: Path, compat: str = "") -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "EFFX_COMPAT": compat, "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment, cwd=folder
    )


def run(code: str, folder: Path, compat: str = "") -> None:
    done = python("-c", code, folder=folder, compat=compat)
    assert done.returncode == 0, done.stderr


def test_names_modules_and_settings_are_effx(tmp_path: Path) -> None:
    """Also those that are missing: the error has the requesting line, and `report` lists it."""
    (tmp_path / "asking.py").write_text("import jax\n\ndef ask():\n    return jax.lax.no_such\n")
    (tmp_path / "importing.py").write_text("\nimport jax.no_such.module\n")
    (tmp_path / "taking.py").write_text("\n\nfrom jax import no_such\n")
    run(
        """
import sys
from pathlib import Path
import effx, effx.compat
assert "jax" not in sys.modules and not effx.compat.installed()
import effx.compat.jax
from effx.compat import report
import jax._src.xla_bridge
assert jax._src.xla_bridge._backends == {}
assert effx.compat.installed() and str(report()).endswith("nothing is missing that was asked for")

import jax, jax.numpy as jnp, numpy as np
from jax import grad, lax
from jax.scipy.special import logsumexp
from jax.experimental import checkify
assert effx.compat.jax is jax and repr(jax) == "<module 'jax' of effx>" and jax.__version__ == "0.12.0"
assert jax.__version_info__ == (0, 12, 0)
with jax.ensure_compile_time_eval():
    assert type(jnp.array(0)) is type(jnp.ones(3)) and type(jnp.array(0)).__name__ == "ArrayImpl"
assert jax.jit is effx.jit and grad is effx.grad and lax.cond is effx.lax.cond and jnp.sin is effx.numpy.sin
assert jax.lax is lax and jax.numpy is sys.modules["jax.numpy"] and jnp.linalg.inv is effx.numpy.linalg.inv
assert logsumexp is effx.scipy.special.logsumexp and {"jit", "vmap", "config"} <= set(dir(jax))
np.testing.assert_allclose(jax.vmap(grad(lambda x: jnp.sin(x) ** 2))(jnp.arange(3.0)), np.sin(2 * np.arange(3)), 1e-6)

assert jax.config.jax_enable_x64 is False and jax.config.x64_enabled is False
from jax import config
config.update("jax_enable_x64", True)
assert config is jax.config and jnp.arange(2.0).dtype == "float64" and effx.config.enable_x64
assert config.read("jax_enable_x64") and config.values["jax_enable_x64"]
jax.config.update("enable_x64", False)
assert jnp.arange(2.0).dtype == "float32"

# What changes is asked each time.
import jax._src.xla_bridge as bridge
assert set(bridge._backends) == {"cpu"} and jnp.arange(2.0).sharding

import asking
here = Path("asking.py").resolve()
expected = []
def refused(error, name, file, line, act):
    where = f"{Path(file).resolve()}:{line}"
    expected.append(f"  {name:40} {where}")
    try:
        act()
    except error as got:
        assert str(got) == f"{name} is not in effx; {where} asks for it", got
    else:
        raise AssertionError("not refused")
refused(AttributeError, "jax.lax.no_such", "asking.py", 4, asking.ask)
refused(ModuleNotFoundError, "jax.no_such", "importing.py", 2, lambda: __import__("importing"))
refused(ImportError, "jax.no_such", "taking.py", 3, lambda: __import__("taking"))
assert not hasattr(jax, "__no_such__")
try:
    config.update("jax_no_such", 1)
except AttributeError as error:
    assert str(error).startswith("jax.config has no setting 'jax_no_such' in effx; <string>:"), error
    assert "asks for it; there are " in str(error) and "enable_x64" in str(error)
lines = str(report()).splitlines()
assert lines[0] == "effx.compat: asked for, and not there:" and lines[1:4] == expected, lines
assert [missing.name for missing in report().missing] == [
    "jax.lax.no_such", "jax.no_such", "jax.no_such", "jax.config.jax_no_such"]
""",
        tmp_path,
    )


def test_old_names_of_modules(tmp_path: Path) -> None:
    """What programs import from where it was once, or from where few look."""
    run(
        """
import effx.compat.jax, effx, jax, jax.numpy as jnp, numpy as np
from functools import partial
from jax.experimental.shard_map import shard_map
from jax.experimental.compilation_cache import compilation_cache
from jax.extend import backend
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("i",))
@partial(shard_map, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"), check_rep=False)
def f(x, y):
    return x * jax.lax.psum(y, "i")
np.testing.assert_array_equal(jax.jit(f)(jnp.arange(8.0), 3.0), np.arange(8.0) * 3 * len(jax.devices()))
try:
    shard_map(lambda x: x, mesh, P("i"), P())(jnp.arange(8.0))
except ValueError as error:
    assert "may differ along i" in str(error), error
else:
    raise AssertionError("not refused")

mesh = jax.make_mesh((8,), ("i",))
x = jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, P("i")))
assert str(jax.typeof(x)) == "float32[8@i]" and repr(jax.typeof(x)) == "f32[8@i]"
specs = jax.P(), jax.P("i"), jax.P(None, ("i", "j")), jax.typeof(x).sharding.spec
assert list(map(repr, specs)) == ["P()", "P('i',)", "P(None, ('i', 'j'))", "P('i',)"]
assert isinstance(jax.typeof(x).sharding, jax.sharding.NamedSharding)
assert effx.make_mesh((8,), ("i",)).axis_types[0] == jax.sharding.AxisType.Auto

compilation_cache.set_cache_dir("kept")
assert jax.config.jax_compilation_cache_dir == effx.config.cache_dir == "kept"
assert backend.get_backend() is backend.backends()["cpu"] is jax.devices()[0].client
assert backend.get_default_device() == jax.devices()[0]
assert jax.lax.linalg.cholesky_p.bind(jnp.array([[4.0]])) == jax.lax.linalg.cholesky(jnp.array([[4.0]])) == 2.0
jaxpr = jax.make_jaxpr(jnp.sin)(1.0)
traced = jax.jit(jnp.sin).trace(1.0)
assert traced.lojax.jaxpr is traced.jaxpr and str(traced.jaxpr) == str(jaxpr)
assert jaxpr.pretty_print(use_color=False) == str(jaxpr) and jaxpr.jaxpr.pretty_print(source_info=True).count("  # ") == 1
""",
        tmp_path,
    )


def test_the_dtype_bfloat16_is_a_class_as_in_jax(tmp_path: Path) -> None:
    """Equinox reads each number of a saved model by `isinstance(x, jax.dtypes.bfloat16)`."""
    run(
        """
import effx.compat.jax, jax, ml_dtypes, numpy
name = jax.dtypes.bfloat16
assert isinstance(ml_dtypes.bfloat16(2), name) and not isinstance(False, name)
assert type(name(2.0)) is ml_dtypes.bfloat16
assert jax.numpy.zeros(2, name).dtype == name == numpy.dtype(ml_dtypes.bfloat16)
assert jax.dtypes.issubdtype(name, numpy.floating) and jax.numpy.finfo(name).bits == 16
""",
        tmp_path,
    )


def test_errors_of_callbacks_are_of_both_classes(tmp_path: Path) -> None:
    """Equinox's `filter_jit` catches JAX's class and looks for the name of its own in the text."""
    run(
        """
import effx, numpy
import effx.compat.jax, jax

class Mine(KeyError):
    def __init__(self, text, number):
        super().__init__(text)
        self.number = number

def raises(x):
    try:
        1 / 0
    except ZeroDivisionError as error:
        raise Mine("no", 7) from error

def raises_io(x):
    raise FileNotFoundError(2, "gone", "a.txt")

def ask(fun):
    return lambda x: jax.pure_callback(fun, jax.ShapeDtypeStruct((), numpy.float32), x)

for wrap in (lambda f: f, jax.jit, lambda f: jax.jit(lambda x: jax.lax.cond(x > 0, f, lambda x: x, x))):
    f = wrap(ask(raises))
    for _ in range(3):
        try:
            f(1.0)
        except jax.errors.JaxRuntimeError as error:
            assert isinstance(error, Mine) and type(error).__name__ == "Mine", type(error)
            assert error.number == 7 and error.args == ("no",)
            assert str(error).splitlines()[0] == "Mine: 'no'", str(error)
            assert type(error.__cause__) is ZeroDivisionError
            names, traceback = [], error.__traceback__
            while traceback is not None:
                names.append(traceback.tb_frame.f_code.co_name)
                traceback = traceback.tb_next
            assert names[-1] == "raises", names
        else:
            raise AssertionError("no error")
    try:
        wrap(ask(raises_io))(1.0)
    except FileNotFoundError as error:
        assert error.errno == 2 and error.filename == "a.txt"
    for kind in (ValueError, RuntimeError, Exception):
        try:
            wrap(ask(lambda x: exec(f"raise {kind.__name__}('no')")))(1.0)
        except jax.errors.JaxRuntimeError as error:
            assert isinstance(error, kind) and type(error).__name__ == kind.__name__, type(error)
            assert str(error).splitlines()[0] == f"{kind.__name__}: no", str(error)
        else:
            raise AssertionError("no error")

@jax.jit
def asks(x):
    return jax.pure_callback(lambda x: exec("raise SystemExit(3)"), jax.ShapeDtypeStruct((), numpy.float32), x)

try:
    asks(1.0)
except SystemExit as error:
    assert error.code == 3
else:
    raise AssertionError("no exit")
""",
        tmp_path,
    )


def test_shapes_and_dtypes_that_do_not_fit_are_caught_as_in_jax(tmp_path: Path) -> None:
    """JAX raises a TypeError or a ValueError of either; effx alone raises one kind, which NumPy's functions pass on."""
    run(
        """
import effx.numpy
assert not issubclass(effx.errors.ShapeError, TypeError) and not issubclass(effx.errors.DTypeError, ValueError)
import effx.compat.jax, jax, jax.numpy as jnp

x = jnp.ones((2, 3))
for kind in (TypeError, ValueError):
    for call in (
        lambda: x @ x,
        lambda: x + jnp.ones(2),
        lambda: x.reshape(4),
        lambda: jnp.concatenate([x, jnp.ones(2)]),
        lambda: jax.grad(lambda x: x)(x),
        lambda: len(jnp.float32(1) + 1),
        lambda: jax.random.normal(jax.random.key(0), (2,), "int32"),
        lambda: jax.random.normal(jax.random.split(jax.random.key(0))),
        lambda: jnp.ones(2, "no dtype"),
    ):
        try:
            call()
        except kind as error:
            assert isinstance(error, effx.errors.ShapeError | effx.errors.DTypeError)
        else:
            raise AssertionError("no error")
""",
        tmp_path,
    )


@needs_jax
def test_after_jax_it_refuses(tmp_path: Path) -> None:
    """One process cannot mix both; by EFFX_COMPAT neither."""
    run(
        """\
import os, jax, effx

for _ in range(2):
    try:
        import effx.compat.jax
    except effx.errors.CompatError as error:
        assert str(error) == (
            f"effx.compat: jax is loaded already, from {jax.__file__}, and one process cannot mix both; "
            "import effx.compat.jax before anything that imports jax\\n  at   <string>:5 in <module>"
        ), error
    else:
        raise AssertionError
assert not effx.compat.installed() and "of effx" not in repr(jax)
""",
        tmp_path,
    )
    done = python("-c", "import jax, effx", folder=tmp_path, compat="1")
    assert done.returncode == 1
    assert "CompatError: effx.compat: jax is loaded already, from" in done.stderr


def test_jax_beside_the_metadata_is_refused(tmp_path: Path) -> None:
    """Both are installed only by mistake; a module `jax.py`, the metadata's own, is none."""
    (tmp_path / "effx_jax_compat-0.12.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: effx-jax-compat\nVersion: 0.12.0\n"
    (tmp_path / "effx_jax_compat-0.12.0.dist-info" / "METADATA").write_text(metadata)
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("")
    run(
        f"""\
import effx.errors


try:
    import effx.compat.jax
except effx.errors.CompatError as error:
    assert str(error) == (
        "effx.compat: jax is installed, at {tmp_path / "jax"}, and so is effx-jax-compat, which tells pip that it is not; "
        "pip uninstall effx-jax-compat: effx.compat works beside an installed jax without it\\n"
        "  at   <string>:5 in <module>"), error
else:
    raise AssertionError
""",
        tmp_path,
    )


def test_a_program_runs_as_python_runs_it(tmp_path: Path) -> None:
    """Arguments, name, neighbours, exit code and modules; missing names are errors where they are requested."""
    (tmp_path / "beside.py").write_text("import jax\nVALUE = repr(jax)\n")
    (tmp_path / "script.py").write_text(
        "import sys, beside\nprint(__name__, sys.argv, beside.VALUE)\n"
        "import jax\nhasattr(jax, 'no_such')\nsys.exit(7 if __file__.endswith('script.py') else 1)\n"
    )
    said = "<module 'jax' of effx>\n"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = python("-m", "effx.compat", "../script.py", "a", "--report", "-m", folder=elsewhere)
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout == f"__main__ ['../script.py', 'a', '--report', '-m'] {said}"

    done = python("-m", "effx.compat", "--report", "-m", "script", "b", folder=tmp_path)
    assert done.returncode == 7
    assert done.stdout == f"__main__ [{str(tmp_path / 'script.py')!r}, 'b'] {said}"
    assert done.stderr == (
        f"effx.compat: asked for, and not there:\n  {'jax.no_such':40} {tmp_path / 'script.py'}:4\n"
    )
    done = python("-m", "effx.compat", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "usage: python -m effx.compat [--report] (script.py | -m module) [args …]\n"


def test_the_variable_installs_it_with_effx(tmp_path: Path) -> None:
    """And only where it is set."""
    run("import effx, jax; assert jax.jit is effx.jit", tmp_path, compat="1")
    code = "import sys, effx; assert not [m for m in sys.modules if m.startswith(('effx.compat', 'jax.'))]"
    run(code, tmp_path)
    done = python("-c", "import effx", folder=tmp_path, compat="perhaps")
    assert done.stderr.splitlines()[-1] == (
        "ValueError: EFFX_COMPAT: got 'perhaps', expected one of 1, true, yes, on, 0, false, no, off"
    )


def test_a_lazy_import(tmp_path: Path) -> None:
    """By Python's own recipe, as some libraries import jax before the program does."""
    run(
        """
import effx.compat.jax, importlib.util, sys
for name in [name for name in sys.modules if name == "jax" or name.startswith("jax.")]:
    del sys.modules[name]
spec = importlib.util.find_spec("jax")
spec.loader = importlib.util.LazyLoader(spec.loader)
lazy = importlib.util.module_from_spec(spec)
sys.modules["jax"] = lazy
spec.loader.exec_module(lazy)
import jax, jax.numpy as jnp
assert jax is lazy and jax.config is not None and jax.numpy.arange(3).tolist() == [0, 1, 2]
assert jax.jit(lambda x: jnp.sin(x))(0.0) == 0
try:
    jax.no_such
except AttributeError as error:
    assert "jax.no_such is not in effx" in str(error)
""",
        tmp_path,
    )


def test_ints_out_of_range(tmp_path: Path) -> None:
    """They read the nearest element, and write nothing, as in JAX; with a mode they do as it says."""
    run(
        """
import effx.compat.jax, jax, jax.numpy as jnp
x, m = jnp.array([3., 1., 2.]), jnp.arange(6.).reshape(2, 3)
for f, want in [
    (lambda: x[10], 2), (lambda: x[-10], 3), (lambda: x.at[10].set(9.), [3, 1, 2]), (lambda: x.at[-10].add(9.), [3, 1, 2]),
    (lambda: x.at[10].get(), 2), (lambda: m[5], [3, 4, 5]), (lambda: m[5, 0], 3), (lambda: m[:, 7], [2, 5]),
    (lambda: m[5, jnp.array([0, 1])], [3, 4]), (lambda: m.at[:, 7].set(1.), m.tolist()),
    (lambda: x.at[3].multiply(0.), [3, 1, 2]),
    (lambda: x.at[10].get(mode="fill", fill_value=7.), 7), (lambda: x.at[10].set(9., mode="clip"), [3, 1, 9]),
    (lambda: x.at[10].apply(jnp.sin), [3, 1, 2]), (lambda: jnp.arange(3)[5], 2),
    (lambda: jax.vmap(lambda r: r[9])(m), [2, 5]), (lambda: jax.grad(lambda x: x[10])(x), [0, 0, 1]),
]:
    for g in (f, jax.jit(f)):
        assert g().tolist() == want, (g(), want)
try:
    jnp.zeros(0)[0]
except IndexError:
    pass
else:
    raise AssertionError("of an axis without elements")
""",
        tmp_path,
    )


def test_attrs_classes_are_leaves_until_they_are_registered(tmp_path: Path) -> None:
    run(
        """
import effx.compat.jax, attrs, effx, jax
from effx.library.probability.distributions import Distribution

@attrs.frozen
class Settings:
    width: int
    depth: int

@attrs.frozen
class Layer:
    weight: float

@attrs.frozen
class Twice(Distribution):
    location: float

assert jax.tree.leaves(Settings(3, 4)) == [Settings(3, 4)]
assert jax.tree.leaves(Twice(2.0)) == [2.0]  # it is written for effx
effx.tree.register_record(Layer)
assert jax.tree.leaves(Layer(2.0)) == [2.0] and jax.grad(lambda p: p.weight ** 2)(Layer(3.0)) == Layer(6.0)
lowered = jax.jit(lambda x: 2 * x).lower(1.0)
assert [len(jax.tree.leaves(x)) for x in (lowered, lowered.compile(), jax.make_jaxpr(lambda x: x)(1.0))] == [1, 1, 1]
""",
        tmp_path,
    )
