"""What control flow refuses, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import ConcretizationError, DTypeError, EffxError, ShapeError, TransformError, TreeError

# What type checkers refuse too.
untyped: Any = lax
X = np.ones(3, np.float32)
F = np.float32(1)


def f(x: Any) -> Any:
    return x


def g(c: Any, x: Any) -> Any:
    return c, x


def body(i: Any, x: Any) -> Any:
    return x


def more(x: Any) -> Any:
    return True


def pair(x: Any) -> Any:
    return x, x


def keyed(x: Any) -> Any:
    return {"a": [x]}


def wide(x: Any) -> Any:
    return {"a": [enp.ones(2)]}


def whole(x: Any) -> Any:
    return {"a": [enp.int32(1)]}


def solver(matvec: Any, b: Any) -> Any:
    return b


ERRORS: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (lambda: untyped.cond(X > 0, f, f, F), ShapeError, "cond: pred must be a scalar, got bool[3]"),
    (lambda: untyped.cond(1j, f, f, F), DTypeError, "cond: pred must be bool[] or a real number, got c64[]~"),
    (
        lambda: untyped.cond("yes", f, f, F),
        DTypeError,
        "cond: expected an array or a number, got 'yes' of type str",
    ),
    (
        lambda: untyped.cond(True, 3, f),
        TransformError,
        "cond: true_fun must be a function, got 3 of type int",
    ),
    (
        lambda: untyped.cond(True, f, None, F),
        TransformError,
        "cond: false_fun must be a function, got None of type NoneType",
    ),
    (
        lambda: untyped.cond(True, f, f, F, operand=F),
        TransformError,
        "cond: operands were given by position and by the keyword operand",
    ),
    (
        lambda: untyped.cond(True, f, f, {"a": "b"}),
        DTypeError,
        "cond: operands[0]['a'] must be an array or a number, got 'b' of type str",
    ),
    (
        lambda: untyped.cond(True, f, lambda x: "b", F),
        DTypeError,
        "cond: <lambda> must return arrays, numbers, or pytrees of them, got 'b' of type str",
    ),
    (
        lambda: untyped.cond(True, f, pair, F),
        TreeError,
        (
            "cond: the branches must return the same structure: true_fun returns PyTreeDef(*), "
            "false_fun returns PyTreeDef((*, *))"
        ),
    ),
    (
        lambda: untyped.cond(True, keyed, wide, F),
        ShapeError,
        (
            "cond: the branches must return the same types: result['a'][0] of true_fun is f32[], "
            "of false_fun f32[2]"
        ),
    ),
    (
        lambda: untyped.cond(True, keyed, whole, F),
        DTypeError,
        "cond: the branches must return the same types: result['a'][0] of true_fun is f32[], of false_fun i32[]",
    ),
    (lambda: untyped.switch(X, [f], F), ShapeError, "switch: index must be a scalar, got f32[3]"),
    (lambda: untyped.switch(1.0, [f, f], F), DTypeError, "switch: index must be an integer, got f32[]~"),
    (lambda: untyped.switch(True, [f, f], F), DTypeError, "switch: index must be an integer, got bool[]"),
    (lambda: untyped.switch(0, []), TransformError, "switch: needs at least one branch"),
    (
        lambda: untyped.switch(0, [f, 2], F),
        TransformError,
        "switch: branches[1] must be a function, got 2 of type int",
    ),
    (
        lambda: untyped.switch(0, [f], F, operand=F),
        TransformError,
        "switch: operands were given by position and by the keyword operand",
    ),
    (
        lambda: untyped.switch(0, [f, f, whole], F),
        TreeError,
        (
            "switch: the branches must return the same structure: branches[0] returns PyTreeDef(*), "
            "branches[2] returns PyTreeDef({'a': [*]})"
        ),
    ),
    (lambda: untyped.scan(3, F, X), TransformError, "scan: f must be a function, got 3 of type int"),
    (
        lambda: untyped.scan(lambda c, x: c, F, X),
        TreeError,
        "scan: <lambda> must return a pair (carry, y), got PyTreeDef(*)",
    ),
    (
        lambda: untyped.scan(lambda c, x: (c, c, x), F, X),
        TreeError,
        "scan: <lambda> must return a pair (carry, y), got PyTreeDef((*, *, *))",
    ),
    (
        lambda: untyped.scan(g, F, {"a": F}),
        ShapeError,
        "scan: inputs must have a leading axis to loop over, got xs['a'] f32[]",
    ),
    (
        lambda: untyped.scan(g, F, (X, X[:2])),
        ShapeError,
        "scan: leading axes of the inputs differ: xs[0] f32[3] has 3, xs[1] f32[2] has 2",
    ),
    (
        lambda: untyped.scan(g, F, {"a": X}, length=2),
        ShapeError,
        "scan: length is 2, but xs['a'] f32[3] has a leading axis of 3",
    ),
    (lambda: untyped.scan(g, F), TransformError, "scan: without inputs it needs a length"),
    (lambda: untyped.scan(g, F, length=-1), ShapeError, "scan: length must not be negative, got -1"),
    (
        lambda: effx.jit(lambda n: untyped.scan(g, F, length=n))(3),
        ConcretizationError,
        "scan: length must be an int, got Traced<i32[]~>with<jit>",
    ),
    (lambda: untyped.scan(g, F, length=1.5), TransformError, "scan: length must be an int, got 1.5"),
    (lambda: untyped.scan(g, F, X, unroll=-1), TransformError, "scan: unroll must be at least 1, got -1"),
    (lambda: untyped.scan(g, F, X, unroll=1.5), TransformError, "scan: unroll must be an int, got 1.5"),
    (
        lambda: untyped.scan(g, {"a": "b"}, X),
        DTypeError,
        "scan: init['a'] must be an array or a number, got 'b' of type str",
    ),
    (
        lambda: untyped.scan(lambda c, x: ({"a": [c["a"][0] + X]}, x), {"a": [F]}, X),
        ShapeError,
        "scan: the carry must keep its types: carry['a'][0] starts as f32[], but <lambda> returns f32[3]",
    ),
    (
        lambda: untyped.scan(lambda c, x: ((c[0], c[1] * 2.5), x), (F, np.int32(1)), X),
        DTypeError,
        "scan: the carry must keep its types: carry[1] starts as i32[], but <lambda> returns f32[]~",
    ),
    (
        lambda: untyped.scan(lambda c, x: ((c, c), x), F, X),
        TreeError,
        "scan: the carry must keep its structure: it starts as PyTreeDef(*), but <lambda> returns PyTreeDef((*, *))",
    ),
    (
        lambda: untyped.scan(lambda c, x: (({"a": F, "b": F}, F), x), ({"a": F}, F), X),
        TreeError,
        (
            "scan: the carry must keep its structure: it starts as PyTreeDef(({'a': *}, *)), but <lambda> returns "
            "PyTreeDef(({'a': *, 'b': *}, *)); at [0] the carry lacks the keys ['b'], the result has ['a', 'b']"
        ),
    ),
    (
        lambda: untyped.while_loop(lambda c: True, lambda c: (F, [F, F]), (F, F)),
        TreeError,
        (
            "while_loop: the carry must keep its structure: it starts as PyTreeDef((*, *)), but <lambda> returns "
            "PyTreeDef((*, [*, *])); at [1] the result is a list, the carry a leaf"
        ),
    ),
    (
        lambda: untyped.fori_loop(0, 3, lambda i, c: (F, F), (F, [F])),
        TreeError,
        (
            "fori_loop: the carry must keep its structure: it starts as PyTreeDef((*, [*])), but <lambda> returns "
            "PyTreeDef((*, *)); at [1] the carry is a list, the result a leaf"
        ),
    ),
    (lambda: untyped.map(None, X), TransformError, "map: f must be a function, got None of type NoneType"),
    (lambda: untyped.map(f, ()), TransformError, "map: xs must hold at least one array"),
    (lambda: untyped.map(f, X, batch_size=0), TransformError, "map: batch_size must be at least 1, got 0"),
    (
        lambda: untyped.map(f, F),
        ShapeError,
        "map: inputs must have a leading axis to loop over, got xs f32[]",
    ),
    (
        lambda: untyped.while_loop(1, f, F),
        TransformError,
        "while_loop: cond_fun must be a function, got 1 of type int",
    ),
    (
        lambda: untyped.while_loop(more, 1, F),
        TransformError,
        "while_loop: body_fun must be a function, got 1 of type int",
    ),
    (lambda: untyped.while_loop(f, f, F), DTypeError, "while_loop: f must return one bool[], got f32[]"),
    (
        lambda: untyped.while_loop(lambda x: x > 0, f, X),
        ShapeError,
        "while_loop: <lambda> must return one bool[], got bool[3]",
    ),
    (
        lambda: untyped.while_loop(pair, f, F),
        TreeError,
        "while_loop: pair must return one bool[], got the structure PyTreeDef((*, *))",
    ),
    (
        lambda: untyped.while_loop(more, lambda c: {"a": c["a"] + X}, {"a": F}),
        ShapeError,
        "while_loop: the carry must keep its types: carry['a'] starts as f32[], but <lambda> returns f32[3]",
    ),
    (
        lambda: untyped.while_loop(more, f, F, max_steps=0),
        TransformError,
        "while_loop: max_steps must be at least 1, got 0",
    ),
    (
        lambda: untyped.fori_loop(0, 3, 1, F),
        TransformError,
        "fori_loop: body_fun must be a function, got 1 of type int",
    ),
    (
        lambda: untyped.fori_loop(0.5, 3, body, F),
        DTypeError,
        "fori_loop: lower and upper must have the same dtype, got f32[]~ and i32[]~",
    ),
    (
        lambda: untyped.fori_loop(0j, 3, body, F),
        DTypeError,
        "fori_loop: lower must be an integer or a float, got c64[]~",
    ),
    (lambda: untyped.fori_loop(0, X, body, F), ShapeError, "fori_loop: upper must be a scalar, got f32[3]"),
    (
        lambda: untyped.fori_loop(np.int8(0), np.int16(3), body, F),
        DTypeError,
        "fori_loop: lower and upper must have the same dtype, got i8[] and i16[]",
    ),
    (
        lambda: effx.jit(lambda n: untyped.fori_loop(0, n, body, F, unroll=2))(3),
        TransformError,
        "fori_loop: unroll needs bounds that are known when the loop is staged",
    ),
    (
        lambda: untyped.fori_loop(0, 3, body, F, unroll=-1),
        TransformError,
        "fori_loop: unroll must be at least 1, got -1",
    ),
    (
        lambda: untyped.fori_loop(0, 3, lambda i, x: x + X, F),
        ShapeError,
        "fori_loop: the carry must keep its types: carry starts as f32[], but <lambda> returns f32[3]",
    ),
    (
        lambda: untyped.associative_scan(1, X),
        TransformError,
        "associative_scan: fn must be a function, got 1 of type int",
    ),
    (
        lambda: untyped.associative_scan(enp.add, X, axis=1),
        ShapeError,
        "associative_scan: axis 1 is out of range for the 1 axes of f32[3]",
    ),
    (
        lambda: untyped.associative_scan(body, {"a": X, "b": X[:2]}),
        ShapeError,
        "associative_scan: sizes along axis 0 differ: elems['a'] f32[3] has 3, elems['b'] f32[2] has 2",
    ),
    (
        lambda: untyped.associative_scan(body, ()),
        TransformError,
        "associative_scan: elems must hold at least one array",
    ),
    (
        lambda: untyped.associative_scan(g, X),
        TreeError,
        "associative_scan: g must return the structure of elems, PyTreeDef(*), got PyTreeDef((*, *))",
    ),
    (
        lambda: untyped.custom_linear_solve(f, np.int32(1), solver),
        DTypeError,
        "custom_linear_solve: b must be floating or complex, got i32[]",
    ),
    (
        lambda: untyped.custom_linear_solve(pair, F, solver),
        TreeError,
        "custom_linear_solve: pair must return the structure of b, PyTreeDef(*), got PyTreeDef((*, *))",
    ),
    (
        lambda: untyped.custom_linear_solve(lambda x: x[:2], X, solver),
        ShapeError,
        "custom_linear_solve: <lambda> must return the types of b: b is f32[3], got f32[2]",
    ),
    (
        lambda: untyped.custom_linear_solve(f, F, solver, has_aux=True),
        TreeError,
        "custom_linear_solve: with has_aux solver must return a pair (x, aux), got PyTreeDef(*)",
    ),
    (
        lambda: untyped.custom_linear_solve(f, F, None),
        TransformError,
        "custom_linear_solve: solve must be a function, got None of type NoneType",
    ),
    (
        lambda: untyped.custom_root(f, F, None, solver),
        TransformError,
        "custom_root: solve must be a function, got None of type NoneType",
    ),
    (
        lambda: untyped.custom_root(whole, {"a": [F]}, solver, solver),
        DTypeError,
        "custom_root: whole must return the types of initial_guess: initial_guess['a'][0] is f32[], got i32[]",
    ),
    (
        lambda: untyped.custom_root(f, F, solver, lambda g, y: g((y, y))),
        TreeError,
        ("g: <lambda> must call g with the structure of initial_guess, PyTreeDef(*), got PyTreeDef((*, *))"),
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS, ids=[text[:50] for _, _, text in ERRORS])
def test_refused(call: Callable[[], object], error: type[EffxError], text: str) -> None:
    """With the class and the whole text."""
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert caught.value.message == text


def test_python_form_refuses_the_same() -> None:
    """With jit disabled, steps are checked one by one."""
    loops: list[Callable[[], object]] = [
        lambda: untyped.scan(lambda c, x: (c + X, x), F, X),
        lambda: untyped.while_loop(more, lambda c: c + X, F),
        lambda: untyped.fori_loop(0, 3, lambda i, c: c + X, F),
    ]
    for what, loop in zip(("scan", "while_loop", "fori_loop"), loops, strict=True):
        with effx.disable_jit(), pytest.raises(ShapeError) as caught:
            loop()
        assert caught.value.message == (
            f"{what}: the carry must keep its types: carry starts as f32[], but <lambda> returns f32[3]"
        )
