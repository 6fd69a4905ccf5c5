"""Errors of functions with rules, whole texts.

Never: checks a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import custom_gradient, custom_jvp, custom_vjp, grad, jit, jvp, vmap
from effx.custom_batching import custom_vmap
from effx.errors import (
    ClosedOverError,
    DTypeError,
    EffxError,
    ProgramError,
    ShapeError,
    TransformError,
    TreeError,
    UndefinedRuleError,
)
from effx.ir.text import parse_program


def f(x: Any, y: Any) -> Any:
    return x * y


def pair(x: Any, y: Any) -> Any:
    return {"a": x, "b": y}


def with_jvp(rule: Callable[..., Any], fun: Callable[..., Any] = f) -> Any:
    g: Any = custom_jvp(fun)
    rule.__name__ = "rule"
    g.defjvp(rule)
    return g


def with_vjp(bwd: Callable[..., Any], fun: Callable[..., Any] = f, fwd: Any = None) -> Any:
    g: Any = custom_vjp(fun)
    bwd.__name__ = "bwd"
    fwd = fwd or (lambda x, y: (fun(x, y), None))
    fwd.__name__ = "fwd"
    g.defvjp(fwd, bwd)
    return g


def with_vmap(rule: Callable[..., Any], fun: Callable[..., Any] = f) -> Any:
    g: Any = custom_vmap(fun)
    rule.__name__ = "rule"
    g.def_vmap(rule)
    return g


def closing_over(kind: str) -> Callable[[Any, Any], Any]:
    def outer(x: Any, y: Any) -> Any:
        if kind == "jvp":
            inner: Any = custom_jvp(lambda x: x * y)
            inner.defjvp(lambda p, t: (p[0] * y, t[0] * y))
        elif kind == "fwd":
            inner = custom_vjp(lambda x: x * y)
            inner.defvjp(lambda x: (x * y, None), lambda _, ct: (ct,))
        else:
            inner = custom_vjp(lambda x: x * y)
            inner.defvjp(lambda x: (x, None), lambda _, ct: (ct * y,))
        inner.__name__ = "inner"
        return inner(x)

    return outer


KNOWS_NOTHING = (
    "inner depends on a value that is being differentiated and of which its rules know nothing: it closes over it, "
    "or has it as a nondiff argument; make it an ordinary argument, by hand or with closure_convert"
)
NO_FORWARD = (
    "custom_vjp: can't apply forward-mode autodiff (jvp, jacfwd, hessian) to f, which has only rules for reverse mode; "
    "give it a rule for forward mode too, as custom_vjp(custom_jvp(f)) has"
)
reverse_only = with_vjp(lambda _, ct: (ct, ct))
THREE = np.ones(3, np.float32)

ERRORS: dict[str, tuple[Callable[[], Any], type[EffxError], str]] = {
    "jvp of no function": (
        lambda: custom_jvp(3),  # type: ignore[arg-type]  # on purpose
        TransformError,
        "custom_jvp: expected a function, got 3 of type int",
    ),
    "vjp of no function": (
        lambda: custom_vjp("f"),  # type: ignore[arg-type]  # on purpose
        TransformError,
        "custom_vjp: expected a function, got 'f' of type str",
    ),
    "gradient of no function": (
        lambda: custom_gradient(3),  # type: ignore[call-overload]  # on purpose
        TransformError,
        "custom_gradient: expected a function, got 3 of type int",
    ),
    "vmap of no function": (
        lambda: custom_vmap(()),  # type: ignore[arg-type]  # on purpose
        TransformError,
        "custom_vmap: expected a function, got () of type tuple",
    ),
    "closure of no function": (
        lambda: effx.closure_convert(1),  # type: ignore[call-overload]  # on purpose
        TransformError,
        "closure_convert: expected a function, got 1 of type int",
    ),
    "no jvp rule": (
        lambda: grad(custom_jvp(f))(1.0, 2.0),
        UndefinedRuleError,
        "custom_jvp: f was called before its rule was defined with defjvp",
    ),
    "no vjp rule": (
        lambda: grad(custom_vjp(f))(1.0, 2.0),
        UndefinedRuleError,
        "custom_vjp: f was called before its rule was defined with defvjp",
    ),
    "no vmap rule": (
        lambda: vmap(custom_vmap(f))(THREE, THREE),
        UndefinedRuleError,
        "custom_vmap: f was called before its rule was defined with def_vmap",
    ),
    "a rule that is no function": (
        lambda: custom_jvp(f).defjvp(3),  # type: ignore[call-overload]  # on purpose
        TransformError,
        "custom_jvp: defjvp takes functions, got 3 of type int",
    ),
    "a backward rule that is no function": (
        lambda: custom_vjp(f).defvjp(f, None),  # type: ignore[call-overload]  # on purpose
        TransformError,
        "custom_vjp: defvjp takes functions, got None of type NoneType",
    ),
    "a batching rule that is no function": (
        lambda: custom_vmap(f).def_vmap(3),  # type: ignore[type-var]  # on purpose
        TransformError,
        "custom_vmap: def_vmap takes a function, got 3 of type int",
    ),
    "argnums out of range": (
        lambda: custom_jvp(f, nondiff_argnums=(2,)),
        TransformError,
        "custom_jvp: nondiff_argnums names argument 2, but f takes 2 positional arguments",
    ),
    "argnums no ints": (
        lambda: custom_vjp(f, nondiff_argnums="x"),  # type: ignore[arg-type]  # on purpose
        TransformError,
        "custom_vjp: nondiff_argnums must be an int or a sequence of ints, got 'x'",
    ),
    "argnames unknown": (
        lambda: custom_jvp(f, nondiff_argnames=("z",)),
        TransformError,
        "custom_jvp: nondiff_argnames names 'z', but f has no such parameter",
    ),
    "argnames no strings": (
        lambda: custom_jvp(f, nondiff_argnames=(1,)),  # type: ignore[arg-type]  # on purpose
        TransformError,
        "custom_jvp: nondiff_argnames must be a string or a sequence of strings, got (1,)",
    ),
    "two kinds with different nondiff arguments": (
        lambda: custom_vjp(custom_jvp(f, nondiff_argnums=(0,))),
        TransformError,
        "custom_vjp: custom_jvp of f has nondiff_argnums (0,), but custom_vjp has (); they must be the same",
    ),
    "defjvps with too few rules": (
        lambda: custom_jvp(f).defjvps(None),
        TransformError,
        "custom_jvp: defjvps of f got 1 rules, but the function takes 2 arguments",
    ),
    "defjvps with nondiff arguments": (
        lambda: custom_jvp(f, nondiff_argnums=(0,)).defjvps(None),
        TransformError,
        "custom_jvp: defjvps of f cannot serve a function with nondiff_argnums; use defjvp",
    ),
    "keyword-only arguments": (
        lambda: with_jvp(lambda p, t: (1.0, 1.0), lambda x, *, y: x)(1.0, y=2.0),
        TransformError,
        "custom_jvp: rules take arguments by position, but these of <lambda> are keyword-only: y",
    ),
    "arguments that the function does not take": (
        lambda: grad(lambda x: reverse_only(x, 2.0, z=3.0))(1.0),
        TransformError,
        "custom_vjp: f: got an unexpected keyword argument 'z'",
    ),
    "an argument that is no array": (
        lambda: grad(lambda x: with_jvp(lambda p, t: (p[0], t[0]), lambda x, y: x)(x, {"mode": "a"}))(1.0),
        DTypeError,
        (
            "custom_jvp: argument 1['mode'] of <lambda> must be an array, a number, or a pytree of them, got 'a' of "
            "type str; name arguments of other kinds in nondiff_argnums"
        ),
    ),
    "jvp rule gives no pair": (
        lambda: jvp(with_jvp(lambda p, t: p[0]), (1.0, 2.0), (1.0, 1.0)),
        TransformError,
        "custom_jvp: rule must return a pair (primal_out, tangent_out), got Array",
    ),
    "jvp rule gives a tangent of another structure": (
        lambda: jvp(with_jvp(lambda p, t: (p[0], (t[0],))), (1.0, 2.0), (1.0, 1.0)),
        TreeError,
        (
            "custom_jvp: rule gives a primal_out of structure PyTreeDef(*) and a tangent_out of structure "
            "PyTreeDef((*,)); they must be the same"
        ),
    ),
    "jvp rule gives a tangent of another shape": (
        lambda: jvp(with_jvp(lambda p, t: (p[0], enp.ones(3))), (1.0, 2.0), (1.0, 1.0)),
        ShapeError,
        "custom_jvp: tangent_out of rule is f32[3], but primal_out is f32[]~; their shapes must agree",
    ),
    "jvp rule gives a tangent of another dtype": (
        lambda: jvp(
            with_jvp(lambda p, t: ({"a": p[0]}, {"a": t[0].astype("float16")})), (1.0, 2.0), (1.0, 1.0)
        ),
        DTypeError,
        "custom_jvp: tangent_out['a'] of rule is f16[], but primal_out['a'] is f32[]~; their dtypes must agree",
    ),
    "jvp rule gives a tangent that is no array": (
        lambda: jvp(with_jvp(lambda p, t: (p[0], "t")), (1.0, 2.0), (1.0, 1.0)),
        DTypeError,
        "custom_jvp: tangent_out of rule must be an array, got 't' of type str",
    ),
    "jvp rule gives a float tangent of an integer": (
        lambda: jvp(with_jvp(lambda p, t: (3, 1.0)), (1.0, 2.0), (1.0, 1.0)),
        DTypeError,
        "custom_jvp: tangent_out of rule is f32[]~, but primal_out is i32[]~, whose derivative has dtype float0 or is None",
    ),
    "jvp rule gives float0 for a float": (
        lambda: jvp(with_jvp(lambda p, t: (p[0], np.zeros((), effx.dtypes.float0))), (1.0, 2.0), (1.0, 1.0)),
        DTypeError,
        "custom_jvp: tangent_out of rule has dtype float0, but primal_out is f32[]~",
    ),
    "jvp rule gives another structure than the function": (
        lambda: jvp(jit(with_jvp(lambda p, t: ({"a": p[0]}, {"a": t[0]}))), (1.0, 2.0), (1.0, 1.0)),
        TreeError,
        "custom_jvp: rule gives primal_out of structure PyTreeDef({'a': *}), but f gives PyTreeDef(*)",
    ),
    "jvp rule gives another shape than the function": (
        lambda: jvp(jit(with_jvp(lambda p, t: (enp.ones(3), enp.ones(3)))), (1.0, 2.0), (1.0, 1.0)),
        ShapeError,
        "custom_jvp: rule gives primal_out of type f32[3], but f gives f32[]~",
    ),
    "fwd gives no pair": (
        lambda: grad(with_vjp(lambda _, ct: (ct, ct), fwd=lambda x, y: x))(1.0, 2.0),
        TransformError,
        "custom_vjp: fwd must return a pair (primal_out, residuals), got Array",
    ),
    "fwd gives three values": (
        lambda: grad(with_vjp(lambda _, ct: (ct, ct), fwd=lambda x, y: (x, y, x)))(1.0, 2.0),
        TransformError,
        "custom_vjp: fwd must return a pair (primal_out, residuals), got 3 values",
    ),
    "fwd gives another dtype than the function": (
        lambda: grad(
            jit(with_vjp(lambda _, ct: (ct, ct), pair, lambda x, y: ({"a": x, "b": enp.ones((), int)}, None)))
        )(1.0, 2.0),
        DTypeError,
        "custom_vjp: fwd gives primal_out['b'] of type i32[], but pair gives f32[]~",
    ),
    "bwd gives too few": (
        lambda: grad(with_vjp(lambda _, ct: (ct,)))(1.0, 2.0),
        TreeError,
        "custom_vjp: bwd must return one cotangent for each of the 2 differentiable arguments of f, got 1",
    ),
    "bwd gives no tuple": (
        lambda: grad(jit(with_vjp(lambda _, ct: ct)))(1.0, 2.0),
        TreeError,
        (
            "custom_vjp: bwd must return a tuple with one cotangent for each of the 2 differentiable arguments of f, "
            "got Array"
        ),
    ),
    "bwd gives another structure": (
        lambda: grad(with_vjp(lambda _, ct: (ct, (ct, None))))(1.0, 2.0),
        TreeError,
        (
            "custom_vjp: bwd gives cotangents of structure PyTreeDef((*, (*, None))), but the differentiable arguments "
            "of f have the structure PyTreeDef((*, *))"
        ),
    ),
    "bwd gives an array for a tree": (
        lambda: grad(lambda x: with_vjp(lambda _, ct: (ct, ct), lambda x, y: x * y[0])(x, (1.0, 2.0)))(1.0),
        TreeError,
        (
            "custom_vjp: bwd gives cotangents of structure PyTreeDef((*, *)), but the differentiable arguments "
            "of <lambda> have the structure PyTreeDef((*, (*, *)))"
        ),
    ),
    "bwd gives another shape": (
        lambda: grad(
            lambda x: with_vjp(lambda _, ct: (ct, {"w": enp.ones(3)}), lambda x, y: x * y["w"])(x, {"w": 2.0})
        )(1.0),
        ShapeError,
        (
            "custom_vjp: the cotangent of argument 1['w'] that bwd gives is f32[3], but the argument of <lambda> is f32[]~; "
            "their shapes must agree"
        ),
    ),
    "bwd gives a complex number for a real one": (
        lambda: grad(with_vjp(lambda _, ct: (enp.ones((), complex), ct)))(1.0, 2.0),
        DTypeError,
        (
            "custom_vjp: the cotangent of argument 0 that bwd gives is c64[], but the argument of f is f32[]~; "
            "their dtypes must agree"
        ),
    ),
    "vjp_fun gives too many": (
        lambda: grad(custom_gradient(lambda x: (x, lambda ct: (ct, ct))))(1.0),
        TreeError,
        (
            "custom_vjp: the vjp_fun of <lambda> must return one cotangent for each of the 1 differentiable arguments of "
            "<lambda>, got 2"
        ),
    ),
    "custom_gradient gives no pair": (
        lambda: custom_gradient(lambda x: x)(1.0),
        TransformError,
        "custom_gradient: <lambda> must return a pair (value, vjp_fun), got float",
    ),
    "forward mode eager": (lambda: jvp(reverse_only, (1.0, 2.0), (1.0, 1.0)), TransformError, NO_FORWARD),
    "forward mode in jit": (
        lambda: jit(lambda x: jvp(reverse_only, (x, x), (x, x)))(1.0),
        TransformError,
        NO_FORWARD,
    ),
    "forward mode of jit": (
        lambda: jvp(jit(reverse_only), (1.0, 2.0), (1.0, 1.0)),
        TransformError,
        NO_FORWARD,
    ),
    "forward mode of vmap": (
        lambda: jvp(vmap(reverse_only), (THREE, THREE), (THREE, THREE)),
        TransformError,
        NO_FORWARD,
    ),
    "forward mode in vmap": (
        lambda: vmap(lambda x: jvp(reverse_only, (x, x), (x, x)))(THREE),
        TransformError,
        NO_FORWARD,
    ),
    "jacfwd": (lambda: effx.jacfwd(reverse_only)(1.0, 2.0), TransformError, NO_FORWARD),
    "closing over what is differentiated, jvp": (
        lambda: grad(closing_over("jvp"), (0, 1))(1.0, 2.0),
        ClosedOverError,
        f"custom_jvp: {KNOWS_NOTHING}",
    ),
    "closing over what is differentiated, fwd": (
        lambda: grad(closing_over("fwd"), (0, 1))(1.0, 2.0),
        ClosedOverError,
        f"custom_vjp: {KNOWS_NOTHING}",
    ),
    "closing over what is differentiated, bwd": (
        lambda: grad(closing_over("bwd"), (0, 1))(1.0, 2.0),
        ClosedOverError,
        f"custom_vjp: {KNOWS_NOTHING}",
    ),
    "closing over what is differentiated, jit": (
        lambda: grad(jit(closing_over("fwd")), (0, 1))(1.0, 2.0),
        ClosedOverError,
        f"custom_vjp: {KNOWS_NOTHING}",
    ),
    "batching rule gives no pair": (
        lambda: vmap(with_vmap(lambda n, b, x, y: x))(THREE, THREE),
        TransformError,
        "custom_vmap: rule must return a pair (result, out_batched), got Array",
    ),
    "batching rule marks another structure": (
        lambda: vmap(with_vmap(lambda n, b, x, y: (x, [True])))(THREE, THREE),
        TreeError,
        "custom_vmap: rule must give out_batched as bools in the structure of the result, PyTreeDef(*), got [True]",
    ),
    "batching rule gives no batch": (
        lambda: vmap(with_vmap(lambda n, b, x, y: (x[:2], True)))(THREE, THREE),
        ShapeError,
        "custom_vmap: rule gives result of type f32[2], marked as batched; expected a leading axis of 3",
    ),
    "batching rule gives another structure": (
        lambda: vmap(jit(with_vmap(lambda n, b, x, y: ((x,), True))))(THREE, THREE),
        TreeError,
        "custom_vmap: rule gives a result of structure PyTreeDef((*,)), but f gives PyTreeDef(*)",
    ),
    "batching rule gives another shape": (
        lambda: vmap(jit(with_vmap(lambda n, b, x, y: (x, False))))(THREE, THREE),
        ShapeError,
        "custom_vmap: rule gives result of type f32[3], marked as not batched, but f gives f32[]",
    ),
    "closure_convert with other arguments": (
        lambda: effx.closure_convert(lambda x: x, 1.0)[0](enp.ones(3)),
        ShapeError,
        "closure_convert: <lambda> was converted for f32[]~ as leaf 0 of its arguments, got f32[3]",
    ),
    "closure_convert with another structure": (
        lambda: effx.closure_convert(lambda x: x, 1.0)[0](1.0, 2.0),
        TreeError,
        "closure_convert: <lambda> was converted for arguments of structure PyTreeDef((*,)), got PyTreeDef((*, *))",
    ),
    "rules in a program's text": (
        lambda: parse_program(str(effx.make_jaxpr(reverse_only)(1.0, 2.0))),
        ProgramError,
        "parse: line 7: got <vjp.rules.of.f>, which stands for functions of Python's that no text holds",
    ),
}


@pytest.mark.unguarded
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    """Each error has expected and got."""
    function, kind, message = ERRORS[name]
    with pytest.raises(kind) as info:
        function()
    assert type(info.value) is kind
    assert info.value.message == message


def test_positions() -> None:
    """An error names the user's line and the handlers."""
    with pytest.raises(TransformError) as info:
        jit(lambda x: vmap(lambda x: jvp(reverse_only, (x, x), (x, x)))(x))(THREE)
    assert "test_custom_errors.py" in str(info.value)
