"""Names of scopes and calls: in the IR, in StableHLO and in compiled code."""

from __future__ import annotations

import re
import threading
from collections import Counter
from typing import Any

import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.effects import current_scope
from effx.errors import TransformError
from effx.handling import places
from effx.ir.ops.linalg import DotGeneral
from effx.ir.text import parse_program


def scoped(x: Any) -> Any:
    with effx.named_scope("layer1"):
        y = enp.sin(x)
        with effx.named_scope("attention"):
            y = enp.cos(y)
    return enp.exp(y)


def scopes(program: object) -> list[str]:
    return [e.scope for e in program.equations]  # type: ignore[attr-defined]  # a Program


def test_scopes_nest_in_the_program() -> None:
    """The text shows them, and is read back with them."""
    program = effx.make_jaxpr(scoped)(1.0)
    assert scopes(program) == ["layer1", "layer1/attention", ""]
    assert scopes(parse_program(str(program))) == scopes(program)
    assert str(parse_program(str(program))) == str(program)


def test_scopes_reach_stablehlo_and_compiled_code() -> None:
    """XLA keeps them as op_name."""
    lowered = effx.jit(scoped).lower(1.0)
    assert '"layer1/attention/cosine"' in lowered.as_text(debug_info=True) or "layer1/attention/cos" in (
        lowered.as_text(debug_info=True)
    )
    assert "layer1/attention/cos" in lowered.compile().as_text()


def test_scopes_survive_transformations() -> None:
    """Differentiated and batched programs keep the scopes of their operations, jitted ones inside too."""
    for f in (effx.grad(effx.jit(scoped)), effx.grad(effx.checkpoint(scoped))):
        assert "layer1/attention/sin" in effx.jit(f).lower(1.0).as_text(debug_info=True)
    assert "layer1/sin" in effx.jit(effx.vmap(effx.jit(scoped))).lower(enp.ones(3)).as_text(debug_info=True)


def labels(f: Any, *args: Any) -> list[str]:
    """The names of operations in StableHLO, which XLA's profiles show."""
    return re.findall(r'loc\("([^"]*)"', effx.jit(f).lower(*args).as_text(debug_info=True))


def test_profiles_show_transformations_around_scopes() -> None:
    """Each is around the next of the user's names, an outer one around an inner one; a call's name is its function's."""
    assert labels(effx.grad(scoped), 1.0)[:2] == ["jvp(layer1)/sin", "jvp(layer1)/cos"]
    assert labels(effx.grad(scoped), 1.0)[-2:] == [
        "transpose(jvp(layer1))/attention/mul",
        "transpose(jvp(layer1))/mul",
    ]
    assert labels(effx.vmap(effx.grad(scoped)), enp.ones(3))[0] == "vmap(jvp(layer1))/sin"
    assert labels(effx.named_scope("outer")(effx.vmap(scoped)), enp.ones(3)) == [
        "outer/vmap(layer1)/sin",
        "outer/vmap(layer1)/attention/cos",
        "outer/vmap()/exp",
    ]
    inside = labels(effx.grad(effx.jit(scoped)), 1.0)
    assert inside[0] == "jvp(jit(scoped))"
    assert inside[1] == "layer1/sin"
    assert "transpose(jvp(jit(scoped)))" in inside
    assert labels(effx.checkpoint(scoped), 1.0)[0] == "checkpoint"


def test_profiles_show_what_is_computed_twice() -> None:
    """The operations that a checkpoint repeats have a name of their own, the backward pass beside them does not."""
    derivative = effx.grad(effx.checkpoint(scoped))
    for f, x, around in (
        (derivative, 1.0, "transpose(jvp())"),
        (effx.vmap(derivative), enp.ones(3), "vmap(transpose(jvp()))"),
    ):
        repeated = labels(f, x)
        assert repeated[0] == f"{around}/checkpoint"
        assert repeated[2:] == [
            *[f"rematted_computation/layer1/{name}" for name in ("sin", "cos")],
            *[f"rematted_computation/layer1/attention/{name}" for name in ("cos", "sin", "neg")],
            "rematted_computation/exp",
            "mul",
            "layer1/attention/mul",
            "layer1/mul",
        ]
    save_all = effx.checkpoint(scoped, policy=effx.checkpoint_policies.everything_saveable)
    assert not any(["rematted" in label for label in labels(effx.grad(save_all), 1.0)])


def test_hlo_has_the_names_around_loops_and_branches() -> None:
    """As XLA's own text before optimisation, with debugging information; without there are no names."""

    def f(x: Any, p: Any) -> Any:
        with effx.named_scope("outer"):
            x = lax.while_loop(lambda c: c < 9, effx.named_scope("body")(lambda c: c * 2), x)
            x = lax.scan(lambda c, _: (enp.sin(c), None), x, None, length=3)[0]
            return lax.cond(p, effx.named_scope("yes")(enp.cos), enp.tanh, x)

    lowered = effx.jit(f).lower(1.0, True)
    names = set(re.findall(r'op_name="([^"]*)"', lowered.as_text("hlo", debug_info=True)))
    assert {
        "outer/while/body/body/mul",
        "outer/while/cond/lt",
        "outer/while/body/sin",
        "outer/cond/branch_0_fun/tanh",
        "outer/cond/branch_1_fun/yes/cos",
    } <= names
    assert "op_name" not in lowered.as_text("hlo")


def test_handlers_and_printed_programs_see_the_users_scopes_alone() -> None:
    """A parameter's name, say, is the same under grad and vmap."""
    program = effx.make_jaxpr(effx.vmap(effx.grad(scoped)))(enp.ones(3))
    assert "layer1/attention" in str(program)
    assert "jvp" not in str(program)
    assert {p.scopes for p in places(program)} == {"layer1", "layer1/attention", ""}


def products(f: Any, *args: Any) -> Counter[str]:
    """How many matrix products a program has in each scope, inside loops too."""
    return Counter([p.scopes for p in places(effx.make_jaxpr(f)(*args)) if isinstance(p.op, DotGeneral)])


@pytest.mark.parametrize(
    "wrap",
    [lambda f: f, effx.jit, effx.checkpoint, lambda f: effx.vmap(f, (None, 0))],
    ids=["plain", "jit", "checkpoint", "vmap"],
)
def test_the_backward_pass_has_the_scopes_of_the_forward_pass(wrap: Any) -> None:
    """Each transpose stands where its operation stood; the scope around grad counts once."""

    def model(w: Any, x: Any) -> Any:
        with effx.named_scope("dense"):
            y = x @ w
        with effx.named_scope("turn"):
            return lax.scan(lambda c, _: (enp.sin(c @ w), None), y, None, length=3)[0]

    def loss(w: Any, x: Any) -> Any:
        return enp.sum(wrap(model)(w, x) ** 2)

    w, x = enp.ones((3, 3)) / 8, enp.ones((4, 3))

    def step(w: Any, x: Any) -> Any:
        with effx.named_scope("step"):
            return effx.grad(loss, (0, 1))(w, x)

    # Forward and two transposes; checkpoint computes the forward pass once more.
    repeats = (
        [f"rematted_computation/{name}" for name in ("dense", "turn")] if wrap is effx.checkpoint else []
    )
    assert products(step, w, x) == {"step/dense": 3, "step/turn": 3} | {f"step/{name}": 1 for name in repeats}

    def pulled(w: Any, x: Any) -> Any:
        with effx.named_scope("forward"):
            y, pull = effx.vjp(loss, w, x)
        with effx.named_scope("backward"):
            return pull(enp.ones_like(y))

    forward = {"forward/dense": 1, "forward/turn": 1}
    backward = {"backward/dense": 2, "backward/turn": 2} | {f"backward/{name}": 1 for name in repeats}
    assert products(pulled, w, x) == forward | backward


def test_a_jitted_function_does_not_remember_the_scope_of_its_first_call() -> None:
    """Its program is staged once and called from anywhere."""
    inner = effx.jit(enp.sin)

    def f(x: Any) -> Any:
        with effx.named_scope("first"):
            x = inner(x)
        with effx.named_scope("second"):
            return inner(x)

    program: Any = effx.make_jaxpr(f)(1.0)
    assert scopes(program) == ["first", "second"]
    assert scopes(program.equations[1].op.program) == [""]
    program = effx.make_jaxpr(effx.jit(f, inline=True))(1.0)
    assert scopes(program) == ["first", "second"]


def test_a_scope_decorates_functions_in_any_thread() -> None:
    """Each call enters a scope of its own."""

    @effx.named_scope("deco")
    def f(x: Any) -> Any:
        return enp.sin(x)

    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append(scopes(effx.make_jaxpr(f)(1.0)))) for _ in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [["deco"]] * 4
    assert scopes(effx.make_jaxpr(lambda x: enp.sin(x))(1.0)) == [""]


def test_a_scope_ends_with_an_error() -> None:
    """The next operation has none."""
    with pytest.raises(ZeroDivisionError), effx.named_scope("failing"):
        _ = 1 / 0
    assert scopes(effx.make_jaxpr(enp.sin)(1.0)) == [""]


def test_named_calls_are_subprograms() -> None:
    """With the given name, through differentiation, with leaves that are no arrays."""

    def f(x: Any, mode: str, scale: Any) -> Any:
        return enp.sin(x) * scale if mode == "sin" else x

    wave = effx.named_call(f, name="wave")
    assert float(wave(enp.float32(0.5), "cos", enp.float32(2.0))) == 0.5
    program: Any = effx.make_jaxpr(lambda x, s: wave(x, "sin", s))(1.0, 2.0)
    assert program.equations[0].op.program.name == "wave"
    assert "@wave" in effx.jit(lambda x: wave(x, "sin", x)).lower(1.0).as_text()
    assert "wave" in effx.jit(lambda x: wave(x, "sin", x)).lower(1.0).compile().as_text()
    gradient = effx.grad(lambda x: wave(x, "sin", x))(0.5)
    assert abs(float(gradient) - float(effx.grad(lambda x: enp.sin(x) * x)(0.5))) < 1e-6
    assert wave.__name__ == "wave"
    assert effx.named_call(f).__name__ == "f"


@pytest.mark.unguarded
@pytest.mark.parametrize("name", [3, "", None])
def test_wrong_names(name: object) -> None:
    """A scope's name is a string that is not empty."""
    with pytest.raises(TransformError) as error:
        effx.named_scope(name)  # type: ignore[arg-type]  # wrong on purpose
    assert error.value.message == f"named_scope: the name must be a string that is not empty, got {name!r}"


@pytest.mark.unguarded
def test_named_call_needs_a_function() -> None:
    """The text has what it got."""
    with pytest.raises(TransformError) as error:
        effx.named_call(3, name="x")  # type: ignore[arg-type]  # wrong on purpose
    assert error.value.message == "named_call: expected a function, got 3 of type int"


def test_a_named_call_decides_by_known_values() -> None:
    """Outside of jit it is the function itself, under derivatives too; inside it is a program."""
    f = effx.named_call(lambda x: x * x if x > 0 else -x, name="part")
    assert (float(f(3.0)), float(effx.grad(f)(3.0)), float(effx.grad(f)(-3.0))) == (9.0, 6.0, -1.0)
    assert effx.jvp(f, (3.0,), (1.0,))[1] == 6.0
    g = effx.named_call(enp.sin, name="part")
    for program in (
        effx.make_jaxpr(g)(1.0),
        effx.make_jaxpr(effx.grad(g))(1.0),
        effx.make_jaxpr(effx.vmap(g))(enp.ones(2)),
    ):
        assert "part" in str(program)


def test_threads_enter_one_scope() -> None:
    """Each has its own names, whoever leaves first."""
    scope, both_inside, first_left = effx.named_scope("shared"), threading.Barrier(2), threading.Event()
    seen: dict[str, list[str]] = {}

    def work(name: str) -> None:
        with effx.named_scope(name):
            with scope:
                both_inside.wait(30)
                if name == "b":
                    first_left.wait(30)
                inside = current_scope.get()
            seen[name] = [inside, current_scope.get()]
            first_left.set()

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert seen == {"a": ["a/shared", "a"], "b": ["b/shared", "b"]}


def test_a_scope_is_entered_again_within_itself() -> None:
    scope = effx.named_scope("again")
    with scope:
        with scope:
            assert current_scope.get() == "again/again"
        assert current_scope.get() == "again"
    assert current_scope.get() == ""
