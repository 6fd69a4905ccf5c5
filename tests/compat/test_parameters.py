"""Parameters of effx's operations as JAX has them: shown by equations, taken by `bind`, and passed to libraries' rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Array
from effx.compat.flat_trees import nones, pack
from effx.compat.jaxprs import JaxprEqn, eval_jaxpr, make_jaxpr
from effx.compat.modules import lax as primitives
from effx.compat.modules.interpreters import ad, batching
from effx.compat.modules.lax.linalg import qr_p
from effx.compat.primitives import OperationPrimitive
from effx.errors import TransformError
from effx.ir.ops.linalg import DotGeneral

X = np.arange(6, dtype=np.float32).reshape(2, 3)
ALL: Any = primitives

# What is called, and what JAX 0.12 shows of it.
SHOWN: dict[str, tuple[Callable[[Any], Any], dict[str, object]]] = {
    "broadcast_in_dim": (
        lambda x: lax.broadcast_in_dim(x, (4, 2, 3), (1, 2)),
        {"shape": (4, 2, 3), "broadcast_dimensions": (1, 2), "sharding": None},
    ),
    "reshape": (lambda x: lax.reshape(x, (6,)), {"new_sizes": (6,), "dimensions": None, "sharding": None}),
    "transpose": (lambda x: lax.transpose(x, (1, 0)), {"permutation": (1, 0)}),
    "rev": (lambda x: lax.rev(x, (0,)), {"dimensions": (0,)}),
    "concatenate": (lambda x: lax.concatenate([x, x], 1), {"dimension": 1}),
    "pad": (
        lambda x: lax.pad(x, np.float32(0), ((1, 0, 0), (0, 2, 1))),
        {"padding_config": ((1, 0, 0), (0, 2, 1))},
    ),
    "slice": (
        lambda x: lax.slice(x, (0, 1), (2, 3)),
        {"start_indices": (0, 1), "limit_indices": (2, 3), "strides": None},
    ),
    "slice by steps": (
        lambda x: lax.slice(x, (0, 0), (2, 3), (1, 2)),
        {"start_indices": (0, 0), "limit_indices": (2, 3), "strides": (1, 2)},
    ),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x, (0, 0), (1, 3)), {"slice_sizes": (1, 3)}),
    "iota": (
        lambda x: x + lax.broadcasted_iota("float32", (2, 3), 1),
        {"dtype": np.dtype("float32"), "shape": (2, 3), "dimension": 1, "sharding": None},
    ),
    "convert_element_type": (
        lambda x: lax.convert_element_type(x, "int32"),
        {"new_dtype": np.dtype("int32"), "weak_type": False, "sharding": None},
    ),
    "bitcast_convert_type": (
        lambda x: lax.bitcast_convert_type(x, "int32"),
        {"new_dtype": np.dtype("int32")},
    ),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 3), {"exponent_bits": 5, "mantissa_bits": 3}),
    "reduce_sum": (lambda x: enp.sum(x, 0), {"axes": (0,), "out_sharding": None}),
    "reduce_max": (lambda x: enp.max(x, 1), {"axes": (1,), "out_sharding": None}),
    "reduce_prod": (lambda x: enp.prod(x, 1), {"axes": (1,)}),
    "argmax": (lambda x: lax.argmax(x, 1, np.int32), {"axes": (1,), "index_dtype": np.dtype("int32")}),
    "cumsum": (lambda x: lax.cumsum(x, 1, reverse=True), {"axis": 1, "reverse": True}),
    "dot_general": (
        lambda x: lax.dot_general(x, x, (((1,), (1,)), ((0,), (0,)))),
        {
            "dimension_numbers": (((1,), (1,)), ((0,), (0,))),
            "precision": None,
            "preferred_element_type": np.dtype("float32"),
            "out_sharding": None,
        },
    ),
    "dot_general, precise": (
        lambda x: lax.dot_general(
            x, x, (((1,), (1,)), ((), ())), precision="highest", preferred_element_type=np.float32
        ),
        {
            "dimension_numbers": (((1,), (1,)), ((), ())),
            "precision": (lax.Precision.HIGHEST, lax.Precision.HIGHEST),
            "preferred_element_type": np.dtype("float32"),
            "out_sharding": None,
        },
    ),
    "integer_pow": (lambda x: lax.integer_pow(x, 3), {"y": 3}),
    "sort": (
        lambda x: lax.sort([x, x], dimension=0, num_keys=1),
        {"dimension": 0, "is_stable": True, "num_keys": 1},
    ),
    "exp": (lax.exp, {"accuracy": None}),
    "logistic": (lax.logistic, {"accuracy": None}),
    "sinh": (lax.sinh, {}),
    "add": (lambda x: x + x, {}),
    "select_n": (lambda x: lax.select_n(x > 1, x, x), {}),
}


def equation(name: str) -> JaxprEqn:
    f, _ = SHOWN[name]
    wanted = name.split(",")[0].split(" ")[0]
    found: JaxprEqn = next(e for e in make_jaxpr(f)(X).eqns if e.primitive.name == wanted)
    return found


@pytest.mark.parametrize("name", SHOWN)
def test_equations_show_what_jax_shows(name: str) -> None:
    _, expected = SHOWN[name]
    assert equation(name).params == expected


@pytest.mark.parametrize("name", SHOWN)
def test_bind_takes_what_equations_show(name: str) -> None:
    """And makes the same operation of it."""
    e = equation(name)
    assert isinstance(e.primitive, OperationPrimitive)
    again = make_jaxpr(lambda *xs: e.primitive.bind(*xs, **e.params))(
        *[enp.ones(v.aval.shape, v.aval.dtype) for v in e.invars]
    )
    assert again.eqns[-1].params == e.params
    assert again.eqns[-1].primitive is e.primitive
    assert [v.aval for v in again.eqns[-1].outvars] == [v.aval.strong() for v in e.outvars]


def test_values() -> None:
    np.testing.assert_array_equal(
        ALL.dot_general_p.bind(
            X, X, dimension_numbers=(((1,), (1,)), ((), ())), precision=None, preferred_element_type=None
        ),
        X @ X.T,
    )
    np.testing.assert_array_equal(
        ALL.dot_general_p.bind(X, X, dimension_numbers=([[0], [0]], [[], []]), precision="highest"), X.T @ X
    )
    np.testing.assert_array_equal(
        ALL.pad_p.bind(X, np.float32(7), padding_config=((0, 0, 0), (1, -1, 0))),
        np.pad(X, ((0, 0), (1, 0)), constant_values=7)[:, :3],
    )
    np.testing.assert_array_equal(ALL.pad_p.bind(np.float32(2), np.float32(7), padding_config=()), 2)
    np.testing.assert_array_equal(ALL.argmin_p.bind(-X, axes=(1,), index_dtype=np.dtype("int32")), [2, 2])
    np.testing.assert_array_equal(
        ALL.slice_p.bind(X, start_indices=(0, 1), limit_indices=(2, 3), strides=None), X[:, 1:]
    )
    np.testing.assert_array_equal(ALL.slice_p.bind(X, start_indices=(0, 0), limit_indices=(2, 3)), X)
    np.testing.assert_array_equal(
        ALL.iota_p.bind(dtype=np.dtype("int32"), shape=[2, 2], dimension=0, sharding=None), [[0, 0], [1, 1]]
    )
    np.testing.assert_array_equal(
        ALL.reshape_p.bind(X, new_sizes=(3, 2), dimensions=None, sharding=None), X.reshape(3, 2)
    )
    q, r = qr_p.bind(X[:, :2], full_matrices=False, pivoting=False, use_magma=None)
    np.testing.assert_allclose(q @ r, X[:, :2], atol=1e-5)


def test_effx_names_are_taken_too() -> None:
    np.testing.assert_array_equal(ALL.dot_general_p.bind(X, X, lhs_contract=(1,), rhs_contract=(1,)), X @ X.T)
    np.testing.assert_array_equal(ALL.transpose_p.bind(X, perm=(1, 0)), X.T)
    np.testing.assert_array_equal(ALL.argmax_p.bind(X, axis=0, index_dtype=np.dtype("int32")), [1, 1, 1])
    np.testing.assert_array_equal(
        ALL.pad_p.bind(X, np.float32(0), low=(0, 0), high=(0, 0), interior=(0, 0)), X
    )


def test_loops() -> None:
    """Counts and programs have JAX's names; a while loop's constants stand once for each of its programs."""
    loop = make_jaxpr(lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: c * 2.0, x))(X[0] + 1).eqns[-1]
    assert set(loop.params) == {"body_jaxpr", "cond_jaxpr", "cond_nconsts", "body_nconsts"}
    np.testing.assert_array_equal(loop.primitive.bind(X[0] + 1, **loop.params)[0], [4.0, 8.0, 12.0])
    scan = make_jaxpr(lambda x: lax.scan(lambda c, y: (c + y, c), 0.0, x))(X[0]).eqns[-1]
    assert {"jaxpr", "length", "reverse", "ft_in", "ft_out"} <= set(scan.params)
    assert [len(group) for group in scan.params["ft_in"].unpack()] == [0, 1, 1]
    assert [len(group) for group in scan.params["ft_out"].unpack()] == [1, 1]
    again = scan.primitive.bind(np.float32(0), X[0], **scan.params)
    np.testing.assert_array_equal(again[1], np.cumsum(X[0]) - X[0])


def test_a_loop_whose_programs_close_over_arrays() -> None:
    """JAX's order of operands is the condition's constants, the body's, the carry."""

    def double_below(x: Array, limit: Array, factor: Array) -> Array:
        return lax.while_loop(lambda c: c < limit, lambda c: c * factor, x)

    view = make_jaxpr(double_below)(1.0, 9.0, 2.0)
    loop = view.eqns[-1]
    n = loop.params["cond_nconsts"]
    assert (n, loop.params["body_nconsts"], len(loop.invars)) == (2, 2, 5)
    assert loop.invars[:n] == loop.invars[n : 2 * n]
    assert float(eval_jaxpr(view.jaxpr, view.consts, 1.0, 9.0, 2.0)[0]) == 16
    # As a library would make it: one constant of each.
    condition = make_jaxpr(lambda limit, c: c < limit)(9.0, 1.0)
    body = make_jaxpr(lambda factor, c: c * factor)(2.0, 1.0)
    parameters = {"cond_jaxpr": condition, "cond_nconsts": 1, "body_jaxpr": body, "body_nconsts": 1}
    assert float(loop.primitive.bind(9.0, 3.0, 1.0, **parameters)[0]) == 9


def test_flat_trees() -> None:
    """Groups of values keep their sizes; other numbers of values are refused."""
    tree = pack((nones(2), nones(0), nones(1)))
    assert [group.vals for group in tree.update("abc").unpack()] == [("a", "b"), (), ("c",)]
    with pytest.raises(ValueError, match=r"^FlatTree.update: expected 3 values, got 1$"):
        tree.update([1])
    with pytest.raises(ValueError, match=r"^FlatTree.unpack: the tree is a flat list of values$"):
        nones(1).unpack()


IMAGE = np.array([[1, 5, 2, 5], [3, 5, 1, 0], [7, 2, 7, 1], [0, 1, 2, 3]], np.float32)
SOURCE = np.array([[1, 2], [3, 4]], np.float32)


@pytest.mark.parametrize(
    ("extent", "stride", "scattered", "gathered"),
    [
        (2, 2, {(0, 1): 1, (0, 3): 2, (2, 0): 3, (2, 2): 4}, [[1, 3], [8, 10]]),
        (3, 1, {(2, 0): 4, (2, 2): 6}, [[8, 10], [8, 10]]),
    ],
)
def test_windows_that_choose(
    extent: int, stride: int, scattered: dict[tuple[int, int], float], gathered: list[list[float]]
) -> None:
    """The first of equal largest elements gets the window's element of the source; by hand, as JAX's."""
    windows = {"window_dimensions": (extent,) * 2, "window_strides": (stride,) * 2, "padding": ((0, 0),) * 2}
    expected = np.zeros((4, 4))
    for place, value in scattered.items():
        expected[place] = value
    programs = {"select_jaxpr": make_jaxpr(lax.ge)(1.0, 1.0), "scatter_jaxpr": make_jaxpr(lax.add)(1.0, 1.0)}
    chosen = ALL.select_and_scatter_p.bind(IMAGE, SOURCE, np.float32(0), **programs, **windows)
    np.testing.assert_array_equal(chosen, expected)
    added = ALL.select_and_scatter_add_p.bind(SOURCE, IMAGE, select_prim=ALL.ge_p, **windows)
    np.testing.assert_array_equal(added, expected)
    dilations = {"base_dilation": (1, 1), "window_dilation": (1, 1)}
    positions = np.arange(16, dtype=np.float32).reshape(4, 4)
    picked = ALL.select_and_gather_add_p.bind(positions, IMAGE, select_prim=ALL.ge_p, **windows, **dilations)
    np.testing.assert_array_equal(picked, gathered)


def test_windows_that_choose_beyond_the_edge() -> None:
    """What padding adds is never chosen."""
    windows = {"window_dimensions": (2,), "window_strides": (2,), "padding": ((1, 1),)}
    programs = {"select_jaxpr": make_jaxpr(lax.ge)(1.0, 1.0), "scatter_jaxpr": make_jaxpr(lax.add)(1.0, 1.0)}
    x = np.array([-3, -1, -2, -5], np.float32)
    chosen = ALL.select_and_scatter_p.bind(
        x, np.array([1, 2, 4], np.float32), np.float32(0), **programs, **windows
    )
    np.testing.assert_array_equal(chosen, [1, 2, 0, 4])


def test_total_order() -> None:
    """NaN equals itself and stands at the end, -0. before 0."""
    x, y = np.array([[0.0, np.nan, -0.0, 1.0], [-0.0, np.nan, 0.0, np.nan]], np.float32)
    np.testing.assert_array_equal(ALL.eq_to_p.bind(x, y), [False, True, False, False])
    np.testing.assert_array_equal(ALL.lt_to_p.bind(x, y), [False, False, True, True])
    np.testing.assert_array_equal(ALL.le_to_p.bind(x, y), [False, True, True, True])
    np.testing.assert_array_equal(ALL.lt_to_p.bind(*np.array([[1, -2], [1, -1]])), [False, True])


def test_primitives_of_several_operations() -> None:
    """What is one primitive in JAX and a function in effx can be bound."""
    x = np.arange(4, dtype=np.float32)
    values, places = ALL.top_k_p.bind(x, k=2, axis=0, is_stable=True)
    assert (values.tolist(), places.tolist()) == ([3, 2], [3, 2])
    np.testing.assert_allclose(
        ALL.cumlogsumexp_p.bind(x, axis=0, reverse=False), np.logaddexp.accumulate(x), rtol=1e-6
    )
    windows = {"window_dimensions": (2,), "window_strides": (2,), "padding": ((0, 0),)}
    (products,) = ALL.reduce_window_p.bind(
        x + 1, np.float32(1), jaxpr=make_jaxpr(lax.mul)(1.0, 1.0), consts=(), **windows
    )
    np.testing.assert_array_equal(products, [2, 12])
    (moved,) = ALL.device_put_p.bind(x, devices=(None,), srcs=(None,), copy_semantics=())
    np.testing.assert_array_equal(moved, x)
    token = ALL.after_all_p.bind(ALL.create_token_p.bind(), ALL.create_token_p.bind())
    assert token.shape == (0,)


def test_what_effx_does_not_do() -> None:
    with pytest.raises(TransformError, match=r"reduce_sum: out_sharding must be None, got 3"):
        ALL.reduce_sum_p.bind(X, axes=(0,), out_sharding=3)
    with pytest.raises(TransformError, match=r"exp: accuracy must be None, got 'high'"):
        ALL.exp_p.bind(X, accuracy="high")
    with pytest.raises(TypeError, match=r"Exp\(\) takes no parameters"):
        ALL.exp_p.bind(X, no_such=1)
    with pytest.raises(TypeError, match="perm"):
        ALL.transpose_p.bind(X)


def test_rules_are_called_with_them() -> None:
    """effx's rules as JAX's tables have them, of parameters as JAX has them."""
    numbers = (((1,), (0,)), ((), ()))
    ys, dys = ad.primitive_jvps[ALL.dot_general_p](
        (X, X.T),
        (X, ad.Zero(effx.typeof(enp.asarray(X.T)))),
        dimension_numbers=numbers,
        precision=None,
        preferred_element_type=None,
    )
    np.testing.assert_array_equal(ys, X @ X.T)
    np.testing.assert_array_equal(dys, X @ X.T)
    y, axis = batching.primitive_batchers[ALL.reduce_sum_p]((X,), (0,), axes=(0,), out_sharding=None)
    np.testing.assert_array_equal(np.moveaxis(y, axis, 0), X.sum(1))
    (ct, rest) = ad.primitive_transposes[ALL.dot_general_p](
        enp.ones((2, 2)),
        ad.UndefinedPrimal(effx.typeof(enp.asarray(X))),
        X.T,
        dimension_numbers=numbers,
        precision=None,
    )
    assert rest is None
    np.testing.assert_array_equal(ct, np.ones((2, 2)) @ X)


def test_every_field_is_named() -> None:
    """A product with all its parameters goes there and back."""
    op = DotGeneral((2,), (1,), (0,), (0,), ("HIGH", "DEFAULT"), np.dtype("float32"))
    x = enp.ones((2, 3, 4))
    (e,) = make_jaxpr(lambda x, y: op(x, y))(x, enp.ones((2, 4, 5))).eqns
    (again,) = make_jaxpr(lambda x, y: e.primitive.bind(x, y, **e.params))(x, enp.ones((2, 4, 5))).eqns
    assert e.params == again.params
    assert e.params["precision"] == (lax.Precision.HIGH, lax.Precision.DEFAULT)
