"""checkpoint changes the residuals, never the results."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jaxlib import version

import effx
import effx.numpy as enp
from effx import Array, lax
from effx import checkpoint_policies as policies
from effx.ad_checkpoint import checkpoint_name, print_saved_residuals
from effx.errors import TransformError, TreeError
from effx.ir.checker import check_program
from effx.ir.ops.checkpoint import Checkpoint
from effx.ir.ops.control import Cond, Scan
from effx.ir.text import parse_program
from effx.transforms.autodiff.checkpoint import saved_residuals

W = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32) * 0.4
X = np.random.default_rng(1).normal(size=4).astype(np.float32)

POLICIES: dict[str, Any] = {
    "none": None,
    "everything": policies.everything_saveable,
    "nothing": policies.nothing_saveable,
    "dots": policies.dots_saveable,
    "dots without batch": policies.dots_with_no_batch_dims_saveable,
    "names": policies.save_only_these_names("hidden"),
    "names but": policies.save_any_names_but_these("other"),
    "anything but": policies.save_anything_except_these_names("hidden"),
    "both": policies.save_from_both_policies(
        policies.dots_saveable, policies.save_only_these_names("hidden")
    ),
    "offload dots": policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
    "offload names": policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["other"], names_which_can_be_offloaded=["hidden"]
    ),
    "own": lambda op, *types, **parameters: op.name == "sin",
}


def network(w: Any, x: Any) -> Any:
    y = checkpoint_name(enp.sin(w @ x), "hidden")
    return enp.sin(w @ enp.tanh(w @ y)).sum()


def close(a: Any, b: Any, tolerance: float = 1e-5) -> None:
    for x, y in zip(effx.tree.leaves(a), effx.tree.leaves(b), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=tolerance, atol=tolerance)


def twice(f: Callable[..., Any]) -> list[Callable[..., Any]]:
    return [f, effx.jit(f)]


@pytest.mark.parametrize("name", POLICIES)
def test_derivatives_are_those_of_the_function(name: str) -> None:
    """With any residuals: first and second order, batched inside and outside, compiled or not."""
    f = effx.checkpoint(network, policy=POLICIES[name])
    w, x = enp.asarray(W), enp.asarray(X)
    xs = enp.stack([x, -x, 2 * x])
    close(f(w, x), network(w, x))
    pairs: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (effx.grad(f, (0, 1)), effx.grad(network, (0, 1))),
        (lambda w, x: effx.jvp(f, (w, x), (w, x)), lambda w, x: effx.jvp(network, (w, x), (w, x))),
        (effx.hessian(f, 1), effx.hessian(network, 1)),
        (effx.jacrev(effx.jacrev(f, 1), 1), effx.hessian(network, 1)),
    ]
    for g, reference in pairs:
        for h in twice(g):
            close(h(w, x), reference(w, x), 1e-4)
    batched = effx.vmap(effx.grad(network, 1), in_axes=(None, 0))(w, xs)
    close(effx.vmap(effx.grad(f, 1), in_axes=(None, 0))(w, xs), batched)
    close(effx.grad(lambda xs: effx.vmap(f, in_axes=(None, 0))(w, xs).sum())(xs), batched)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("none", []),
        ("nothing", []),
        ("dots", ["output of dot_general"] * 3),
        ("names", ["named 'hidden'"]),
        ("names but", ["named 'hidden'"]),
        ("own", ["output of sin"]),
    ],
)
def test_policies_choose_the_residuals(name: str, kept: list[str]) -> None:
    """The arguments and no more than the policy allows."""
    found = saved_residuals(effx.checkpoint(network, policy=POLICIES[name]), W, X)
    assert [text.partition(" from ")[0] for _, text in found[:2]] == [
        "from the argument w",
        "from the argument x",
    ]
    assert [text.partition(" from ")[0] for _, text in found[2:]] == kept


def test_residuals_are_printed_with_their_source_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Without checkpoint every nonlinearity keeps its derivative."""

    def f(p: dict[str, Array]) -> Any:
        return enp.sin(p["w"]).sum() * 2.0

    print_saved_residuals(f, {"w": W})
    line = capsys.readouterr().out
    assert line.startswith("f32[4,4] output of cos from ")
    assert line.endswith(f"test_checkpoint.py:{f.__code__.co_firstlineno + 1} (f)\n")
    print_saved_residuals(effx.checkpoint(f), {"w": W})
    assert capsys.readouterr().out == "f32[4,4] from the argument p['w']\n"


def test_it_is_one_operation_in_the_program() -> None:
    """Staged, differentiated and staged: the programs check, and read back from their text without a policy."""
    f = effx.checkpoint(network)
    program = effx.make_jaxpr(f)(W, X)
    assert [type(e.op) for e in program.equations] == [Checkpoint]
    check_program(program)
    assert str(parse_program(str(program))) == str(program)
    check_program(effx.make_jaxpr(effx.grad(f))(W, X))


def memory(f: Callable[..., Any], *args: Any) -> int:
    """Bytes of temporary memory that XLA gives the compiled gradient."""
    return int(effx.jit(effx.grad(f)).lower(*args).compile().memory_analysis().temp_size_in_bytes)


def layer(x: Any) -> Any:
    for _ in range(6):
        x = enp.sin(x @ x)
    return x


@pytest.mark.skipif(
    version.__version_info__ < (0, 12), reason="XLA:CPU of jaxlib 0.10 drops barriers before it merges"
)
def test_recomputation_survives_compilation() -> None:
    """XLA's own count of temporary memory falls."""

    def chain(layer: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            for _ in range(10):
                x = layer(x)
            return x.sum()

        return f

    x = enp.ones((96, 96)) * 0.01
    assert memory(chain(effx.checkpoint(layer)), x) < 0.4 * memory(chain(layer), x)


def test_a_scan_keeps_less() -> None:
    """Its residuals are stacked, so that no XLA can keep more than is asked for."""

    def chain(layer: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: lax.scan(lambda c, _: (layer(c), None), x, None, length=10)[0].sum()

    x = enp.ones((96, 96)) * 0.01
    assert memory(chain(effx.checkpoint(layer, prevent_cse=False)), x) < 0.4 * memory(chain(layer), x)


def test_checkpoints_nest() -> None:
    """The recursion of the reference: a chain split in two again and again."""

    def recursive(funs: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
        if len(funs) == 1:
            return funs[0]
        if len(funs) == 2:
            f1, f2 = funs
            return lambda x: f1(f2(x))
        f1 = recursive(funs[: len(funs) // 2])
        f2 = recursive(funs[len(funs) // 2 :])
        return lambda x: f1(effx.checkpoint(f2)(x))

    def plain(x: Any) -> Any:
        for _ in range(8):
            x = enp.sin(x)
        return x

    f = recursive([enp.sin] * 8)
    close(effx.grad(f)(2.0), effx.grad(plain)(2.0))
    close(effx.jit(effx.grad(effx.grad(f)))(2.0), effx.grad(effx.grad(plain))(2.0))


def test_inside_scan_and_cond() -> None:
    """A checkpointed step keeps the carry of each step and nothing else."""

    def f(c: Any, xs: Any) -> Any:
        return Scan(step_program, 5, 0, 1)(c, xs)[0]

    def body(c: Any, x: Any) -> tuple[Array, Array]:
        y = effx.checkpoint(lambda c, x: enp.sin(c) * enp.exp(x) * c)(c, x)
        return y, c

    step_program = effx.make_jaxpr(body)(enp.float32(0), enp.float32(0))

    def unrolled(c: Any, xs: Any) -> Any:
        for i in range(5):
            c = enp.sin(c) * enp.exp(xs[i]) * c
        return c

    xs = enp.linspace(0.0, 0.5, 5)
    c = enp.float32(0.7)
    close(effx.grad(f, (0, 1))(c, xs), effx.grad(unrolled, (0, 1))(c, xs))
    close(effx.hessian(f)(c, xs), effx.hessian(unrolled)(c, xs), 1e-4)
    kept = [str(t) for t, _ in saved_residuals(f, c, xs)]
    assert sorted(kept) == ["f32[5]", "f32[5]"]

    def branches(i: Any, c: Any) -> Any:
        programs = tuple([effx.make_jaxpr(effx.checkpoint(g))(enp.float32(0)) for g in (enp.sin, enp.exp)])
        return Cond(programs)(i, c)[0]

    for i, g in enumerate((enp.cos, enp.exp)):
        close(effx.grad(branches, 1)(enp.int32(i), c), g(c))


def in_scan(step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda w, x: lax.scan(lambda c, _: (step(w, c), enp.sum(c)), x, None, length=3)[0].sum()


def in_cond(step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda w, x: lax.cond(x[0] < 10, step, lambda w, x: w.sum(1) * x, w, x).sum()


def in_jit(step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda w, x: effx.jit(step)(w, x).sum()


def in_both(step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def body(w: Any, c: Any) -> Any:
        return lax.cond(c[0] < 10, effx.jit(step), lambda w, x: x, w, c)

    return lambda w, x: in_scan(body)(w, x)


HOLDERS = {"scan": in_scan, "cond": in_cond, "jit": in_jit, "cond in scan": in_both}


def step_of_two_products(w: Any, x: Any) -> Any:
    return enp.tanh(w @ checkpoint_name(enp.sin(w @ x), "hidden"))


@pytest.mark.parametrize("policy", ["dots", "names", "anything but", "offload names"])
@pytest.mark.parametrize("holder", HOLDERS)
def test_policies_reach_into_branches_and_loops(holder: str, policy: str) -> None:
    """What a policy saves is a residual of the loop or branch that it is in; derivatives of two orders do not change."""
    f = HOLDERS[holder](step_of_two_products)
    g = effx.checkpoint(f, policy=POLICIES[policy])
    close(effx.grad(g, (0, 1))(W, X), effx.grad(f, (0, 1))(W, X))
    close(effx.jit(effx.grad(g))(W, X), effx.grad(f)(W, X))
    if policy == "names":
        second = effx.grad(lambda w: effx.grad(f)(w, X).sum())(W)
        close(effx.grad(lambda w: effx.grad(g)(w, X).sum())(W), second, 1e-4)
        batched = effx.vmap(effx.grad(g), (None, 0))(W, enp.stack([X, X]))
        close(batched, enp.stack([effx.grad(f)(W, X)] * 2))


@pytest.mark.parametrize(
    ("policy", "products", "sines"),
    [("none", 2, 1), ("dots", 0, 1), ("names", 2, 0), ("everything", 0, 0), ("offload names", 2, 0)],
)
@pytest.mark.parametrize("holder", HOLDERS)
def test_what_is_saved_inside_is_not_computed_again(
    holder: str, policy: str, products: int, sines: int
) -> None:
    """Of two products and a sine of the forward pass the pull-back computes those again that the policy does not save.

    It has four products of its own. The sine of the first is saved with its name, its cosine is not.
    """
    g = effx.checkpoint(HOLDERS[holder](step_of_two_products), policy=POLICIES[policy])
    y, pull_back = effx.vjp(g, W, X)
    text = str(effx.make_jaxpr(pull_back)(y))
    assert (text.count(" dot_general["), text.count(" sin ")) == (4 + products, sines)


def pins(prevent_cse: Any, policy: Any = None) -> list[int]:
    """The numbers of values behind the barriers of a gradient, of a layer of a dict of weights and of a vector."""
    layer = effx.checkpoint(lambda p, x: enp.sin(p["w"] @ x + p["b"]), prevent_cse=prevent_cse, policy=policy)
    loss = lambda p, x: layer(p, x).sum()  # noqa: E731
    p = {"w": enp.asarray(W), "b": enp.asarray(X)}
    text = effx.jit(effx.grad(loss, (0, 1))).lower(p, X).as_text()
    close(
        effx.jit(effx.grad(loss, (0, 1)))(p, X),
        effx.grad(lambda p, x: enp.sin(p["w"] @ x + p["b"]).sum(), (0, 1))(p, X),
    )
    close(effx.vmap(effx.grad(loss, 1), (None, 0))(p, enp.stack([X, X]))[0], effx.grad(loss, 1)(p, X))
    return [line.split(":")[0].count(",") + 1 for line in re.findall("optimization_barrier (.*)", text)]


@pytest.mark.parametrize(
    ("prevent_cse", "count"),
    [
        (True, 4),
        (False, None),
        ((True, True), 4),
        ((False, True), 2),
        ((True, False), 3),
        (({"w": False, "b": True}, False), 2),
        (((True, False), True), 3),  # a tuple for the dict, in the order of its keys: b, w
        ((False, False), None),
    ],
)
def test_arguments_that_are_pinned(prevent_cse: Any, count: int | None) -> None:
    """The chosen ones and the cotangent are behind the barrier, so that what is computed from them is computed again."""
    assert pins(prevent_cse) == ([] if count is None else [count])


def test_prevent_cse_of_other_arguments_is_refused() -> None:
    """When called: a container of another size than the argument's."""
    with pytest.raises(TreeError) as caught:
        pins((True, True, True))
    assert caught.value.message == (
        "checkpoint: prevent_cse must be a prefix of the primals, but has a container of 3 for a container of 2"
    )


def test_what_a_policy_saves_is_pinned() -> None:
    """Without any argument that is: the recomputed sine starts from the product, with the cotangent."""
    assert pins((False, False), policies.dots_saveable) == [2]


def test_closures_and_static_arguments() -> None:
    """What the function closes over is differentiated too; static arguments choose a program."""

    @effx.checkpoint(static_argnums=(1,))
    def power(x: Any, n: int) -> Any:
        return x**n if n > 1 else x

    close(effx.grad(power)(3.0, 3), 27.0)
    close(effx.grad(power)(3.0, 1), 1.0)

    def outer(w: Any, x: Any) -> Any:
        return effx.checkpoint(lambda x: enp.sin(w * x))(x)

    close(effx.grad(outer)(0.3, 2.0), 2.0 * np.cos(0.6))
    close(effx.vmap(effx.grad(outer))(enp.ones(2), enp.ones(2)), np.full(2, np.cos(1.0)))


@pytest.mark.parametrize("wrap", [lambda f: f, effx.jit])
def test_static_arguments_that_do_not_hash(wrap: Any) -> None:
    """Libraries pass trees with the arrays taken out: a list, or a dict by its name, is read anew at each call."""
    powers = {"n": [3]}

    @effx.checkpoint(static_argnums=1, static_argnames="more")
    def power(x: Any, at: list[str], *, more: dict[str, list[int]] | None = None) -> Any:
        assert type(at) is list
        return x ** powers[at[0]][0] * (1.0 if more is None else sum(more["by"]))

    def derived(x: float, more: dict[str, list[int]] | None = None) -> Any:
        return wrap(effx.grad(lambda x: power(x, ["n"], more=more)))(x)

    close(derived(3.0), 27.0)
    powers["n"][0] = 2
    close(derived(3.0), 6.0)
    by = {"by": [1, 2]}
    close(derived(3.0, by), 18.0)
    by["by"].append(4)
    close(derived(3.0, by), 42.0)
    ref = effx.new_ref(enp.zeros(()))

    def writing(x: Any, ref: Any, at: list[str]) -> Any:
        ref[...] = x * len(at)
        return enp.sin(x)

    close(effx.checkpoint(writing, static_argnums=2)(2.0, ref, ["a", "b"]), np.sin(2.0))
    close(ref[...], 4.0)


@pytest.mark.unguarded
def test_wrong_input_is_explained() -> None:
    """Each with the whole text."""
    with pytest.raises(TransformError) as error:
        effx.checkpoint(3)  # type: ignore[call-overload]  # wrong on purpose
    assert error.value.message == "checkpoint: expected a function, got 3 of type int"
    with pytest.raises(TransformError) as error:
        effx.checkpoint(network, concrete=True)
    assert error.value.message == (
        "checkpoint: concrete=True is not supported: the function is staged; name the arguments that Python "
        "control flow reads in static_argnums"
    )
    with pytest.raises(TransformError) as error:
        effx.checkpoint(network, policy="dots")  # type: ignore[call-overload]  # wrong on purpose
    assert error.value.message == "checkpoint: policy must be callable, got 'dots' of type str"
    with pytest.raises(TransformError) as error:
        policies.save_only_these_names(3)  # type: ignore[arg-type]  # wrong on purpose
    assert error.value.message == "save_only_these_names: names must be strings, got 3"
    with pytest.raises(TransformError) as error:
        policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"], names_which_can_be_offloaded=["a"]
        )
    assert error.value.message == (
        "save_and_offload_only_these_names: names cannot be both saved and offloaded: ['a']"
    )
    with pytest.raises(TransformError) as error:
        checkpoint_name(1.0, 2)  # type: ignore[arg-type]  # wrong on purpose
    assert error.value.message == "checkpoint_name: the name must be a string, got 2"


def test_offloading_is_lowered_for_accelerators() -> None:
    """On a GPU the value is moved to the host's memory and back; a CPU has one memory."""
    f = effx.grad(effx.checkpoint(network, policy=POLICIES["offload names"]))
    text = effx.jit(f).trace(W, X).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count('_xla_buffer_placement = "pinned_host"') == 1
    assert text.count('_xla_buffer_placement = "device"') == 1
    assert "annotate_device_placement" not in effx.jit(f).lower(W, X).as_text()


def test_static_names() -> None:
    """Arguments that Python reads may be named; they are no operands, and their values are part of the program."""

    @effx.checkpoint(static_argnames=("depth", "name"))
    def f(x: Any, depth: int = 1, *, name: str = "sin") -> Any:
        for _ in range(depth):
            x = getattr(enp, name)(x)
        return x

    x = enp.float32(0.5)
    for depth, name in ((1, "sin"), (2, "sin"), (2, "cos")):
        want = effx.grad(lambda y, d=depth, n=name: f.__wrapped__(y, d, name=n))(x)  # type: ignore[attr-defined]  # set by wraps
        close(effx.grad(f)(x, depth, name=name), want)
        close(effx.grad(f)(x, depth=depth, name=name), want)
    with pytest.raises(TransformError) as error:
        effx.checkpoint(f, static_argnames="width")
    assert error.value.message == "checkpoint: static_argnames names 'width', but f has no such parameter"


def test_answers_of_policies() -> None:
    """JAX's names for what a policy answers."""
    from effx.ad_checkpoint import Offloadable, Recompute, Saveable

    def f(x: Any) -> Any:
        return enp.sin(enp.sin(enp.sin(x)))

    def kept(policy: Any) -> int:
        return len(effx.make_jaxpr(effx.vjp(effx.checkpoint(f, policy=policy), 1.0)[1])(1.0).constants)

    offloaded = Offloadable(src="device", dst="pinned_host")
    assert (offloaded.src, offloaded.dst) == ("device", "pinned_host")
    assert isinstance(offloaded, Offloadable)
    assert kept(lambda *_, **__: Recompute) < kept(lambda *_, **__: Saveable)
    close(
        effx.grad(effx.checkpoint(f, policy=lambda *_: Offloadable("device", "pinned_host")))(1.0),
        effx.grad(f)(1.0),
    )


def test_a_static_keyword_that_does_not_hash_alone() -> None:
    """There is no positional argument by which the call would differ."""
    f = effx.checkpoint(lambda *, x, n: x * n[0], static_argnames="n")
    assert f(x=enp.ones(2), n=[3]).tolist() == [3.0, 3.0]
    assert f(x=enp.ones(2), n=[4]).tolist() == [4.0, 4.0]
