"""What a function computes without some of its arguments is computed, and the rest is a program."""

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.compat.jaxprs import eval_jaxpr
from effx.compat.modules.interpreters import partial_eval as pe
from effx.compat.wrapped import wrap_init

X, Y = np.array([0.5, -1.0, 2.0], np.float32), np.array([3.0, 1.0, 0.0], np.float32)


def parts(x: Any, y: Any) -> Any:
    known = enp.sin(x) * 2
    return [known, known + enp.exp(y), y.shape[0]]


def through_jit(x: Any, y: Any) -> Any:
    return effx.jit(parts)(x, y)


def through_cond(x: Any, y: Any) -> Any:
    return effx.lax.cond(x[0] > 0, lambda: tuple(parts(x, y)), lambda: tuple(parts(y, x)))


def with_rules(x: Any, y: Any) -> Any:
    f = effx.custom_jvp(parts)
    f.defjvp(lambda p, t: (f(*p), parts(*t)))
    return f(x, y)


def mapped(x: Any, y: Any) -> Any:
    return [*effx.vmap(parts)(enp.stack([x, x]), enp.stack([y, y]))[:2], 3]


@pytest.mark.parametrize("f", [parts, through_jit, mapped])
def test_known_results_are_values(f: Any) -> None:
    pvals = [pe.PartialVal.known(enp.asarray(X)), pe.PartialVal.unknown(effx.typeof(Y))]
    jaxpr, found, consts = pe.trace_to_jaxpr_nounits(wrap_init(f), pvals)
    wanted = f(enp.asarray(X), enp.asarray(Y))
    assert [p.is_known() for p in found] == [True, False, True]
    np.testing.assert_allclose(found[0].get_known(), wanted[0], rtol=1e-6)
    assert int(found[2].get_known()) == 3
    aval, const = found[1]
    assert (aval, const) == (effx.typeof(wanted[1]), None)
    (rest,) = eval_jaxpr(jaxpr, consts, enp.asarray(Y))
    np.testing.assert_allclose(rest, wanted[1], rtol=1e-6)
    assert "sin" not in str(jaxpr)


@pytest.mark.parametrize("f", [parts, through_jit, through_cond, with_rules, mapped])
def test_the_rest_is_a_program(f: Any) -> None:
    """With all results asked for, it gives what the function gives."""
    pvals = [pe.PartialVal.known(enp.asarray(X)), pe.PartialVal.unknown(effx.typeof(Y))]
    jaxpr, found, consts = pe.trace_to_jaxpr_nounits(wrap_init(f), pvals, instantiate=True)
    assert not any([p.is_known() for p in found])
    wanted = f(enp.asarray(X), enp.asarray(Y))
    assert [p.get_aval().shape for p in found] == [np.shape(y) for y in wanted]
    for y, z in zip(eval_jaxpr(jaxpr, consts, enp.asarray(Y)), wanted, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-6)
    only = pe.trace_to_jaxpr_nounits(wrap_init(f), pvals, instantiate=[True, False, False])[1]
    assert not only[0].is_known()


def test_types_of_known_values() -> None:
    assert pe.PartialVal.known(X).get_aval() == effx.typeof(X)
    assert pe.PartialVal.unknown(effx.typeof(X)).get_aval() == effx.typeof(X)
