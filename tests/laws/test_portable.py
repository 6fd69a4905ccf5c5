"""Portable laws hold of effx and JAX on chosen sources, notice what is false, and print programs that run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import effx
from effx import lax
from effx.errors import TransformError
from effx.laws.__main__ import main
from effx.laws.control_oracle import ReplacedNames
from effx.laws.portable import PORTABLE_LAWS, Implementation, find_implementation, of_effx, run_laws
from effx.laws.portable.against import describe_tallies
from effx.laws.portable.cases import Case

ROOT = Path(__file__).resolve().parent.parent.parent


def _scale(tree: Any, factor: float) -> Any:
    return tuple([_scale(x, factor) for x in tree]) if isinstance(tree, (tuple, list)) else tree * factor


def _spoil_gradient(argnums: Any, f: Any) -> Any:
    return lambda *xs: _scale(effx.grad(f, argnums)(*xs), 2.0)


def _replace_names(module: str, **functions: Any) -> Callable[[Implementation], Implementation]:
    def spoil(i: Implementation) -> Implementation:
        names = dict(i.namespace)
        names[module] = ReplacedNames(names[module], **functions)
        return attrs.evolve(i, namespace=names)

    return spoil


def _spoil_jvp(f: Any, xs: Any, vs: Any) -> Any:
    y, dy = effx.jvp(f, xs, vs)
    return y, _scale(dy, 2.0)


def _spoil_vjp(f: Any, *xs: Any) -> Any:
    y, pull = effx.vjp(f, *xs)
    return y, lambda ct: _scale(pull(ct), 2.0)


def _spoil_linearize(f: Any, *xs: Any) -> Any:
    y, push = effx.linearize(f, *xs)
    return y, lambda *vs: _scale(push(*vs), 2.0)


def _forget_rows(f: Any, in_axes: Any, out_axes: int) -> Any:
    g = effx.vmap(f, tuple(in_axes), out_axes)
    return lambda *xs: _scale(g(*xs), 1.001)


def _shift_square(i: Implementation) -> Implementation:
    return attrs.evolve(i, jit=lambda f: effx.jit(lambda *xs: _scale(f(*xs), 1.001)))


# A spoilt implementation, the law that must notice, and a source of its cases.
FALSE: list[tuple[str, Callable[[Implementation], Implementation], str, str]] = [
    ("jit", _shift_square, "jit_keeps_values", "sums"),
    ("jit of gradients", _shift_square, "jit_keeps_gradients", "sums"),
    ("jit of tangents", _shift_square, "jit_keeps_tangents", "sums"),
    ("jit of batches", _shift_square, "jit_keeps_batches", "sums"),
    ("jvp", lambda i: attrs.evolve(i, jvp=_spoil_jvp), "tangents_are_slopes", "elementwise"),
    ("jvp in 32 bits", lambda i: attrs.evolve(i, jvp=_spoil_jvp), "short_floats_are_near", "sums"),
    ("vjp", lambda i: attrs.evolve(i, vjp=_spoil_vjp), "pullback_is_the_adjoint", "sums"),
    ("linearize", lambda i: attrs.evolve(i, linearize=_spoil_linearize), "linearize_is_jvp", "sums"),
    ("grad", lambda i: attrs.evolve(i, grad=lambda f, n: _spoil_gradient(n, f)), "jit_keeps_gradients", "sums"),
    ("vmap", lambda i: attrs.evolve(i, vmap=_forget_rows), "vmap_is_a_loop", "sums"),
    ("vmap of vmap", lambda i: attrs.evolve(i, vmap=_forget_rows), "vmap_nests", "sums"),
    ("vmap of jvp", lambda i: attrs.evolve(i, vmap=_forget_rows), "vmap_of_tangents", "sums"),
    ("vmap of grad", lambda i: attrs.evolve(i, vmap=_forget_rows), "vmap_of_gradients", "sums"),
    ("vmap of no rows", lambda i: attrs.evolve(i, vmap=lambda f, a, o: f), "vmap_of_nothing", "sums"),
    (
        "a rule that is not used",
        lambda i: attrs.evolve(i, custom_jvp=lambda f, rule: f),
        "rules_are_used",
        "sums",
    ),
    (
        "a rule of cotangents that is not used",
        lambda i: attrs.evolve(i, custom_vjp=lambda f, forward, backward: f),
        "rules_are_used",
        "sums",
    ),
    (
        "a rule that is changed",
        lambda i: attrs.evolve(i, custom_jvp=lambda f, rule: effx.checkpoint(lambda *xs: _scale(f(*xs), 1.1))),
        "true_tangent_rules_change_nothing",
        "sums",
    ),
    (
        "a rule of cotangents that is changed",
        lambda i: attrs.evolve(i, custom_vjp=lambda f, a, b: lambda *xs: _scale(f(*xs), 1.1)),
        "true_cotangent_rules_change_nothing",
        "sums",
    ),
    (
        "checkpoint",
        lambda i: attrs.evolve(i, checkpoint=lambda f: lambda *xs: _scale(f(*xs), 1.1)),
        "checkpoint_changes_nothing",
        "sums",
    ),
    ("stop_gradient", lambda i: attrs.evolve(i, stop_gradient=lambda x: x), "stop_gradient_stops", "sums"),
    (
        "value_and_grad",
        lambda i: attrs.evolve(i, value_and_grad=lambda f, n: lambda *xs: (f(*xs) + 1, None)),
        "derivatives_keep_values",
        "sums",
    ),
    ("tangents", lambda i: attrs.evolve(i, jvp=lambda f, xs, vs: (f(*xs), _scale(vs[0], 0.0) + 1.0)), "tangents_are_linear",
     "elementwise"),
    ("pullback", lambda i: attrs.evolve(i, vjp=lambda f, *xs: (f(*xs), lambda ct: tuple([x + 1.0 for x in xs]))),
     "pullback_is_linear", "sums"),
    ("jacrev", _replace_names("effx", jacrev=lambda f, n: lambda *xs: _scale(effx.jacrev(f, n)(*xs), 2.0)),
     "jacobians_agree", "sums"),
    ("fori_loop", _replace_names("lax", scan=lambda f, *a, **k: _scale(lax.scan(f, *a, **k), 2.0)), "control_flow_is_python",
     "loops"),
    ("scan's gradient",
     _replace_names("lax", scan=lambda f, *a, **k: lax.scan(f, lax.stop_gradient(a[0]), *a[1:], **k)),
     "gradients_of_control_flow", "loops"),
    ("sum", _replace_names("enp", sum=lambda *a, **k: effx.numpy.sum(*a, **k) * 2.0), "values_are_the_references", "sums"),
    ("sin", _replace_names("enp", sin=effx.numpy.cos), "derivatives_at_special_points", "sin"),
    ("sin's value", _replace_names("enp", sin=effx.numpy.cos), "values_of_elementwise_functions", "sin"),
    ("gamma", _replace_names("special", gamma=effx.scipy.special.gammaln), "values_of_special_functions",
     "special.gamma of 1"),
    ("gcd", _replace_names("enp", gcd=effx.numpy.lcm), "values_of_integers", "gcd"),
    ("jit at points", _shift_square, "special_points_under_transformations", "sin"),
    (
        "grad of grad",
        lambda i: attrs.evolve(i, jvp=_spoil_jvp),
        "second_derivatives_are_slopes",
        "elementwise",
    ),
    ("forward over reverse", lambda i: attrs.evolve(i, jvp=lambda f, xs, vs: (f(*xs), _scale(effx.jvp(f, xs, vs)[1], 3.0))
        if len(vs) == 1 else effx.jvp(f, xs, vs)), "modes_agree", "elementwise"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spoil", "law", "source"), [row[1:] for row in FALSE], ids=[row[0] for row in FALSE]
)
def test_what_is_false_is_noticed(
    spoil: Callable[[Implementation], Implementation], law: str, source: str
) -> None:
    """The failure has a program."""
    failure = PORTABLE_LAWS[law].run(spoil(of_effx()), source, 12, shrink=False).failure
    assert failure is not None
    assert (failure.law, failure.source) == (law, source)
    assert "import effx" in failure.program


def test_every_law_notices_something() -> None:
    """`FALSE` has a row for each law."""
    assert {law for _, _, law, _ in FALSE} == set(PORTABLE_LAWS)


def test_programs_of_failures_run() -> None:
    """What is printed is a program: run by itself, it prints both sides of the law."""
    spoilt = attrs.evolve(of_effx(), linearize=_spoil_linearize)
    failure = PORTABLE_LAWS["linearize_is_jvp"].run(spoilt, "elementwise", 12).failure
    assert failure is not None
    done = subprocess.run(
        [sys.executable, "-c", failure.program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second


def test_points_of_failures_are_those_that_are_wrong() -> None:
    spoilt = _replace_names(
        "enp", floor=lambda x: effx.numpy.where(x == 2.5, 3.0, effx.numpy.floor(x)).astype(x.dtype)
    )
    failure = PORTABLE_LAWS["values_of_elementwise_functions"].run(spoilt(of_effx()), "floor", 4).failure
    assert failure is not None
    assert failure.message.splitlines() == [
        "eager: enp.floor in f4: 1 of 38 are wrong",
        "at 2.5: 3.0, not 2.0",
    ]
    assert "xs = (np.array([2.5], np.float32),)" in failure.program


def test_a_refusal_is_no_failure() -> None:
    """What raises NotImplementedError is counted apart."""

    def refuse(*xs: Any) -> Any:
        raise NotImplementedError("not yet")

    verdict = PORTABLE_LAWS["linearize_is_jvp"].run(attrs.evolve(of_effx(), linearize=refuse), "sums", 3)
    assert (verdict.held, verdict.refused, verdict.failure) == (0, 3, None)


def test_an_error_is_a_failure() -> None:
    def fail(*xs: Any) -> Any:
        raise KeyError("linearize")

    failure = (
        PORTABLE_LAWS["linearize_is_jvp"].run(attrs.evolve(of_effx(), linearize=fail), "sums", 3).failure
    )
    assert failure is not None
    assert failure.message == "KeyError: 'linearize'"


def test_laws_that_need_what_is_not_there_do_not_run() -> None:
    without = attrs.evolve(of_effx(), jit=None)
    names = [name for name, law in PORTABLE_LAWS.items() if law.applies_to(without)]
    assert "jit_keeps_values" not in names
    assert "vmap_is_a_loop" in names


def test_points() -> None:
    """Plain numbers are all different; ties are not."""
    case = Case("def f(x0): return x0", ((20,),), seed=3)
    (x,) = case.data()
    assert np.unique(x).size == 20
    assert np.abs(x).max() <= 1
    (ties,) = attrs.evolve(case, kind="ties").data()
    assert np.unique(ties).size <= 4
    (special,) = attrs.evolve(case, kind="special").data()
    assert not np.isfinite(special).all()


def test_report() -> None:
    texts: list[str] = []
    spoilt = attrs.evolve(of_effx(), linearize=_spoil_linearize)
    tallies = run_laws(spoilt, 0, ["linearize_is_jvp"], 2, ["sums", "elementwise"], texts.append)
    assert [f.source for f in tallies["linearize_is_jvp"].failures] == ["elementwise", "sums"]
    assert texts[0] == f"effx {effx.__version__}: 1 laws on 2 sources of cases\n"
    assert texts[1].startswith("linearize_is_jvp, elementwise: linearize f(x) v = jvp f(x) v\n")
    assert texts[-1] == describe_tallies(tallies)


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--law", "jit_keeps_values", "--source", "sums", "--examples", "1"]
    assert main(["--against", "effx", *options]) == 0
    assert capsys.readouterr().out.startswith(f"effx {effx.__version__}: 1 laws on 1 sources of cases\n")
    assert main(["--against", "numpy"]) == 2
    error = "find_implementation: a name is one of effx, jax, torch, got 'numpy'\n"
    assert capsys.readouterr().err == error
    assert main(["--against", "effx", "--law", "gravity"]) == 2
    assert capsys.readouterr().err.endswith("; got 'gravity'\n")
    assert main(["--against", "effx", "--law", "vmap_nests", "--source", "nothing"]) == 2
    assert capsys.readouterr().err == "laws: there is no source of cases 'nothing'\n"


def test_names_are_known() -> None:
    with pytest.raises(TransformError, match="a name is one of effx, jax, torch, got 'numpy'"):
        find_implementation("numpy")


@pytest.mark.parametrize("name", ["jax", "torch"])
def test_a_peer_that_is_not_installed(name: str) -> None:
    # SciPy asks whether a torch is loaded, so it comes first.
    start = "import sys; import effx.laws.portable; from effx.laws.__main__ import main"
    code = f"{start}; sys.modules[{name!r}] = None; sys.exit(main(['--against', {name!r}]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"effx.laws: --against {name} needs {name}, which is not installed\n"


# Where JAX keeps the laws; what it does not keep, docs/laws-against-jax.md says.
KEPT = ("sums", "ternary", "moves of matrices", "products", "sin", "add", "special.expit of 1", "multiply")


@pytest.mark.parametrize("law", PORTABLE_LAWS)
def test_laws_on_jax(law: str) -> None:
    """They hold on some sources through the adapter."""
    pytest.importorskip("jax")
    jax = find_implementation("jax")
    chosen = PORTABLE_LAWS[law]
    sources = [s for s in chosen.sources(jax) if s in KEPT] or ["loops"]
    for source in sources[:2]:
        verdict = chosen.run(jax, source, 2)
        assert verdict.failure is None, verdict.failure
        assert verdict.held


def test_programs_on_jax() -> None:
    """A bounded loop, which JAX has not, is spelt with one that it has."""
    jax = pytest.importorskip("jax")
    implementation = find_implementation("jax")
    loop = "lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + 1, s[1] * x0), (0, x0), max_steps=3)"
    source = f"def f(x0):\n    return {loop}[1]"
    case = Case(source, ((),), seed=1)
    (x,) = case.arguments(implementation)
    np.testing.assert_allclose(case.function(implementation)(x), x**4, rtol=1e-6)
    program = case.print_program(implementation, ("f(*xs)",))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(float(done.stdout), case.data()[0] ** 4, rtol=1e-9)
    assert implementation.version == jax.__version__


@pytest.mark.parametrize("law", PORTABLE_LAWS)
def test_laws_on_torch(law: str) -> None:
    """They hold on some sources through the adapter, or need what it has not."""
    pytest.importorskip("torch")
    torch = find_implementation("torch")
    chosen = PORTABLE_LAWS[law]
    if chosen.applies_to(torch):
        sources = [s for s in ("elementwise above 1", "sin", "add") if s in chosen.sources(torch)]
        for source in sources[:1]:
            failure = chosen.run(torch, source, 3).failure
            # PyTorch has no batches without rows.
            assert (failure is None) == (law != "vmap_of_nothing"), failure
