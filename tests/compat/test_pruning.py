"""Programs without dead code say which operands a result needs, through calls, branches and loops.

The expected operands are those that `jax.interpreters.partial_eval.dce_jaxpr` gives for the same functions.
"""

from itertools import compress
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.compat.jaxprs import eval_jaxpr, jaxpr_as_fun
from effx.compat.modules import lax as jax_lax
from effx.compat.modules import make_jaxpr
from effx.compat.modules.interpreters import partial_eval as pe
from effx.compat.wrapped import wrap_init
from effx.errors import CompatError, ProgramError

X, Y = np.array([0.5, -1.0, 2.0], np.float32), np.array([3.0, 1.0, 0.5], np.float32)


def both(x: Any, y: Any) -> Any:
    return enp.sin(x) * 2, x * y


def called(x: Any, y: Any) -> Any:
    return effx.jit(both)(x, y)


def nested(x: Any, y: Any) -> Any:
    return effx.jit(called)(x, y)


def rematerialised(x: Any, y: Any) -> Any:
    return effx.checkpoint(both)(x, y)


def branches(x: Any, y: Any) -> Any:
    return lax.cond(True, both, lambda x, y: (x, y), x, y)


def loop(x: Any, y: Any) -> Any:
    """The second carry needs the first in the end: found in a second round."""

    def body(s: Any, t: Any) -> Any:
        a, b, c = s
        return (a + t, b * 2, c + b), (a, enp.cos(c))

    (a, b, c), (_, cosines) = lax.scan(body, (x, y, y), enp.stack([x, x]))
    return a, b, c, cosines


def printing(x: Any, y: Any) -> Any:
    effx.debug.print("{}", y)
    return x + 1, y * 2


CASES: list[tuple[Any, list[bool], list[bool]]] = [
    (both, [True, False], [True, False]),
    (both, [False, True], [True, True]),
    (both, [False, False], [False, False]),
    (called, [True, False], [True, False]),
    (nested, [True, False], [True, False]),
    (nested, [False, True], [True, True]),
    (rematerialised, [True, False], [True, False]),
    (branches, [True, False], [True, False]),
    (branches, [False, True], [True, True]),
    (loop, [True, False, False, False], [True, False]),
    (loop, [False, True, False, False], [False, True]),
    (loop, [False, False, False, True], [False, True]),
    (loop, [True, True, True, True], [True, True]),
    (printing, [True, False], [True, True]),
]


@pytest.mark.parametrize(("f", "results", "operands"), CASES)
def test_which_operands_are_left(f: Any, results: list[bool], operands: list[bool]) -> None:
    whole = make_jaxpr(f)(X, Y)
    jaxpr, used = pe.dce_jaxpr(whole.jaxpr, results)
    assert used == operands
    assert len(jaxpr.invars) == sum(used)
    found = eval_jaxpr(jaxpr, whole.consts, *compress([X, Y], used))
    for got, wanted in zip(found, compress(f(enp.asarray(X), enp.asarray(Y)), results), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_operands_that_stay_and_errors() -> None:
    whole = make_jaxpr(both)(X, Y).jaxpr
    assert pe.dce_jaxpr(whole, [True, False], True)[1] == [True, True]
    assert pe.dce_jaxpr(whole, False, [False, True])[1] == [False, True]
    assert str(pe.dce_jaxpr(whole, True)[0]) == str(whole)
    assert pe.dce_jaxpr(make_jaxpr(both)(X, Y), [True, False])[1] == [True, False]
    with pytest.raises(ProgramError) as caught:
        pe.dce_jaxpr(whole, [True])
    assert caught.value.message == "dce_jaxpr: used_outputs has 1 entries for 2"


def test_constants_stay() -> None:
    def f(x: Any) -> Any:
        return [x * inner for inner in held]

    held = [enp.asarray(X), enp.asarray(Y)]
    jaxpr, types, consts = pe.trace_to_jaxpr_dynamic(wrap_init(f), [effx.typeof(X)])
    assert types == [effx.typeof(X)] * 2
    assert list(map(id, consts)) == list(map(id, held))
    smaller, used = pe.dce_jaxpr(jaxpr, [False, True])
    assert used == [True]
    assert len(smaller.constvars) == 2
    np.testing.assert_array_equal(eval_jaxpr(smaller, consts, X)[0], X * Y)


def test_staged_inside_of_a_transformation() -> None:
    """As flax does: what does not depend on the operands is evaluated outside of the loop, and differentiated."""

    def loss(w: Any) -> Any:
        flat = wrap_init(lambda x: [w * 2.0, x + w])
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(flat, [effx.typeof(X)])
        jaxpr, used = pe.dce_jaxpr(jaxpr, [True, False])
        assert used == [False]
        return eval_jaxpr(jaxpr, consts)[0].sum()

    np.testing.assert_array_equal(effx.jit(effx.grad(loss))(X), np.full(3, 2.0, np.float32))


def test_which_operands_the_function_takes() -> None:
    t = effx.typeof(X)
    jaxpr, types, consts = pe.trace_to_jaxpr_dynamic(
        wrap_init(lambda x: [x]), [t, t], keep_inputs=[False, True]
    )
    assert (types, consts, jaxpr.outvars) == ([t], [], [jaxpr.invars[1]])


def test_dead_code_is_left_out_where_asked_for() -> None:
    def f(x: Any) -> Any:
        enp.exp(x)
        return [enp.sin(x)]

    t = effx.typeof(X)
    for auto_dce, names in ((False, ["exp", "sin"]), (True, ["sin"])):
        jaxpr, _, _ = pe.trace_to_jaxpr_dynamic(
            wrap_init(f), [t, t], keep_inputs=[True, False], auto_dce=auto_dce
        )
        assert [e.primitive.name for e in jaxpr.eqns] == names
        assert len(jaxpr.invars) == 2


def test_scan_takes_its_transpose() -> None:
    def total(scan: Any, **told: Any) -> Any:
        return effx.grad(lambda x: scan(lambda c, t: (c * t, None), 1.0, x, **told)[0])(Y)

    np.testing.assert_array_equal(total(jax_lax.scan, _split_transpose=False), total(lax.scan))
    with pytest.raises(CompatError) as caught:
        total(jax_lax.scan, _split_transpose=True)
    assert caught.value.message == "scan: effx transposes a loop to one loop; leave _split_transpose=False"


@effx.custom_jvp
def wave(x: Any, y: Any) -> Any:
    return enp.sin(x), x + enp.cos(y)


@wave.defjvp
def wave_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return wave(x, y), (2 * enp.cos(x) * dx, 1.5 * dx - 0.5 * enp.sin(y) * dy)


@effx.custom_vjp
def wave_back(x: Any, y: Any) -> Any:
    return enp.sin(x), x + enp.cos(y)


wave_back.defvjp(
    lambda x, y: (wave_back(x, y), (enp.cos(x), enp.sin(y))),
    lambda res, cts: (2 * res[0] * cts[0] + 1.5 * cts[1], -0.5 * res[1] * cts[1]),
)


@effx.custom_batching.custom_vmap
def wave_rows(x: Any, y: Any) -> Any:
    return enp.sin(x), x + enp.cos(y)


@wave_rows.def_vmap
def wave_rows_rule(size: int, batched: Any, x: Any, y: Any) -> Any:
    return (2 * enp.sin(x), x - enp.cos(y)), (True, True)


@pytest.mark.parametrize("function", [wave, wave_back])
@pytest.mark.parametrize("transform", [lambda f: f, effx.jit, effx.checkpoint], ids=["", "jit", "checkpoint"])
def test_functions_with_rules_keep_them(function: Any, transform: Any) -> None:
    """The program inside gives the used results alone, and derivatives are the rule's."""
    x, y = np.array([0.1, 2.0], np.float32), np.array([-1.3, 0.4], np.float32)
    expected: dict[tuple[bool, bool], Any] = {
        (True, False): (np.sin(x), 2 * np.cos(x), 0 * x),
        (False, True): (x + np.cos(y), 1.5 + 0 * x, -0.5 * np.sin(y)),
    }
    for results, (value, dx, dy) in expected.items():
        jaxpr, used = pe.dce_jaxpr(make_jaxpr(function)(0.1, -1.3).jaxpr, list(results))
        assert used == [True, True]
        inner = [e.primitive.name for e in jaxpr.eqns[0].params["call_jaxpr"].eqns]
        assert ("sin" in inner, "cos" in inner) == results

        def f(x: Any, y: Any, jaxpr: Any = jaxpr) -> Any:
            return eval_jaxpr(jaxpr, (), x, y)[0]

        gradients: Any = effx.vmap(effx.grad(transform(f), argnums=(0, 1)))(x, y)
        np.testing.assert_allclose(effx.vmap(f)(x, y), value, rtol=1e-6)
        np.testing.assert_allclose(np.stack(gradients), [dx, dy], rtol=1e-6)


def test_a_batching_rule_is_kept() -> None:
    """For the results that are used."""
    jaxpr, _ = pe.dce_jaxpr(make_jaxpr(wave_rows)(0.1, -1.3).jaxpr, [False, True])
    results = effx.vmap(lambda x, y: eval_jaxpr(jaxpr, (), x, y)[0])(X, Y)
    np.testing.assert_allclose(results, X - np.cos(Y), rtol=1e-6)


def test_a_closed_program_stays_closed() -> None:
    """With the values of its constants, and a program itself has them too."""
    whole = make_jaxpr(lambda x, y: (x * X, y))(X, Y)
    smaller, _ = pe.dce_jaxpr(whole, [True, False])
    assert smaller.consts is whole.consts
    assert smaller.jaxpr.jaxpr is smaller.jaxpr
    np.testing.assert_array_equal(whole.jaxpr.consts[0], X)
    np.testing.assert_array_equal(jaxpr_as_fun(smaller)(Y)[0], X * Y)
