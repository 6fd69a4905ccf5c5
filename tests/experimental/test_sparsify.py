"""Functions under `sparsify` give what they give for dense arrays, and stay sparse, or say why they cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import EffxError, NoRuleError, ShapeError, TransformError
from effx.experimental import sparse
from effx.experimental.sparse import BCOO, BCSR, COO, CSC, CSR, Sparsify, sparsify
from effx.families.sort import Sort
from effx.handling import coverage
from effx.ir.ops.elementwise import Sin
from effx.ir.ops.index import Scatter
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.reduce import CumSum

Function: TypeAlias = Callable[..., Any]
DENSE = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, -4, 0]], "f4")
SQUARE = DENSE[:, 1:]
ROW, COLUMN = np.arange(1, 5, dtype="f4"), np.arange(1, 4, dtype="f4")[:, None]


untyped: Any = effx  # for lambdas, whose types mypy cannot find


def messy() -> BCOO:
    """DENSE with duplicates, padding, and no order."""
    at = np.array([[2, 2], [0, 3], [0, 1], [2, 2], [3, 0], [0, 4], [2, 0], [-1, 1]], "i4")
    return BCOO((np.array([-1, 2, 1, -3, 9, 9, 3, 9], "f4"), at), shape=(3, 4))


@effx.custom_jvp
def tripled(x: Any) -> Any:
    """A function with a derivative of its own."""
    return 3 * x


tripled.defjvps(lambda dx, y, x: 3 * dx)


# What stays sparse, as a function of arrays that both take; the result has at most so many elements.
SPARSE: dict[str, tuple[Function, int]] = {
    "sin": (enp.sin, 8), "tanh": (enp.tanh, 8), "sign": (enp.sign, 8), "expm1": (enp.expm1, 8), "abs": (enp.abs, 8),
    "square": (enp.square, 8), "negative": (lambda m: -m, 8), "floor": (lambda m: enp.floor(m / 2), 8),
    "power": (lambda m: m**3, 8), "power_float": (lambda m: m**2.0, 8), "relu": (lambda m: enp.maximum(m, 0), 8),
    "clip": (lambda m: enp.clip(m, -1, 1), 8), "above": (lambda m: m > 1, 8), "differs": (lambda m: m != 0, 8),
    "remainder": (lambda m: lax.rem(m, np.full((3, 4), 3, "f4")), 8), "astype": (lambda m: m.astype(int), 8),
    "times_number": (lambda m: 3 * m, 8), "times_row": (lambda m: m * ROW, 8), "times_column": (lambda m: COLUMN * m, 8),
    "divided": (lambda m: m / 2, 8), "divided_by_row": (lambda m: m / ROW, 8), "hypot": (lambda m: enp.sqrt(m * m), 8),
    "add": (lambda m: m + m[::-1], 12), "subtract": (lambda m: m - m[::-1], 12), "multiply": (lambda m: m * m[::-1], 8),
    "maximum": (lambda m: enp.maximum(m, m[::-1]), 12), "arctan2": (lambda m: enp.arctan2(m, 2.0), 8),
    "where_sparse": (lambda m: enp.where(m > 0, m, 0), 12), "where_dense": (lambda m: enp.where(DENSE > 0, m, 0), 12),
    "where_other": (lambda m: enp.where(m > 0, enp.ones((3, 4)) * ROW, m), 12), "isnan": (enp.isnan, 8),
    "and": (lambda m: (m > 0) & (DENSE > 1), 12), "real": (lambda m: enp.real(m * 1j), 8), "sum": (lambda m: m.sum(0), 8),
    "mean": (lambda m: m.mean(1), 8), "transpose": (lambda m: m.T, 8), "reshape": (lambda m: m.reshape(2, -1), 8),
    "expand": (lambda m: m[:, None], 8), "squeeze": (lambda m: enp.squeeze(m[None, :, None]), 8),
    "broadcast": (lambda m: enp.broadcast_to(m, (2, 3, 4)), 24), "flip": (lambda m: enp.flip(m, 1), 8),
    "slice": (lambda m: m[1:, ::2], 8), "row": (lambda m: m[2], 8), "take": (lambda m: m[np.array([2, 0, 2])], 8),
    "take_columns": (lambda m: m[:, np.array([3, 1])], 9), "mask": (lambda m: m[np.array([True, False, True])], 8),
    "dynamic": (lambda m: lax.dynamic_slice(m, (enp.asarray(1), enp.asarray(0)), (2, 3)), 8),
    "stack": (lambda m: enp.stack([m, 2 * m], 1), 16), "concatenate": (lambda m: enp.concatenate([m, m[:, :2]], 1), 24),
    "pad": (lambda m: enp.pad(m, ((1, 0), (2, 1))), 8), "matmul": (lambda m: m @ m.T, 9),
    "tile": (lambda m: enp.tile(m, 2), 24),
    "einsum": (lambda m: enp.einsum("ij,kj->ki", m, m), 9), "outer": (lambda m: enp.einsum("i,j->ij", m[0], m[2]), 16),
    "roll": (lambda m: enp.roll(m, 1, 0), 12), "tril": (lambda m: m * enp.tril(enp.ones((3, 4))), 8),
    "vmap": (untyped.vmap(lambda row: enp.sin(row) * 2), 8), "vmap_columns": (untyped.vmap(enp.tan, 1, 1), 8),
    "jit": (untyped.jit(lambda m: enp.sinh(m).T), 8), "custom_jvp": (tripled, 8),
    "checkpoint": (untyped.checkpoint(lambda m: enp.sin(m) * 2), 8),
    "grad_inside": (untyped.grad(lambda m: (m**3).sum()), 8),
}  # fmt: skip

# What has no sparse axes, or a dense operand of the result's shape.
TO_DENSE: dict[str, Function] = {
    "total": lambda m: m.sum(), "matvec": lambda m: m @ ROW, "vecmat": lambda m: COLUMN[:, 0] @ m,
    "matmat": lambda m: enp.dot(m, enp.ones((4, 2))), "norm": enp.linalg.norm, "trace": enp.trace,
    "add_dense": lambda m: m + enp.ones((3, 4)), "subtract_from": lambda m: enp.ones((3, 4)) - m,
    "element": lambda m: m[2, np.array(0)], "elements": lambda m: m[np.array([0, 2]), np.array([3, 0])],
    "todense": lambda m: enp.cos(sparse.todense(m)), "documented": lambda m: 2 * enp.dot(enp.arctan(m.T), COLUMN[:, 0]) + 1,
    "grad_inside": untyped.grad(lambda m: (m @ ROW).sum()), "vmapped": untyped.vmap(lambda row: row @ ROW),
    "jitted_todense": untyped.jit(lambda m: sparse.todense(m) + 1),
}  # fmt: skip


@pytest.mark.parametrize("part", range(4))
def test_stays_sparse(part: int) -> None:
    """Elementwise operations that give 0 for 0, what moves elements, sums and products; many are compiled at once."""
    names = [*SPARSE][part::4]
    every = sparsify(lambda m: {name: SPARSE[name][0](m) for name in names})(messy())
    for name, found in every.items():
        function, most = SPARSE[name]
        assert isinstance(found, BCOO), name
        assert found.nse <= most, name
        want = np.asarray(function(enp.asarray(DENSE)))
        assert (found.shape, found.dtype) == (want.shape, want.dtype), name
        np.testing.assert_allclose(found.todense(), want, rtol=2e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("layout", [(0, 0), (1, 0), (0, 1)])
def test_becomes_dense(layout: tuple[int, int]) -> None:
    """Results without sparse axes are arrays."""
    mat = BCOO.fromdense(DENSE, n_batch=layout[0], n_dense=layout[1])
    every = sparsify(lambda m: {name: function(m) for name, function in TO_DENSE.items()})(mat)
    for name, found in every.items():
        assert isinstance(found, effx.Array), name
        want = TO_DENSE[name](enp.asarray(DENSE))
        np.testing.assert_allclose(found, want, rtol=2e-6, atol=1e-6, err_msg=name)


LAYOUTS = ["sin", "reshape", "take", "matmul", "where_sparse", "expand", "add", "maximum", "pad", "slice"]


@pytest.mark.parametrize("layout", [(1, 0), (0, 1)])
def test_layouts(layout: tuple[int, int]) -> None:
    """Of arrays with batch and dense axes, under jit."""
    mat = BCOO.fromdense(DENSE, n_batch=layout[0], n_dense=layout[1])
    every = sparsify(lambda m: {name: SPARSE[name][0](m) for name in LAYOUTS})
    for name, found in effx.jit(every)(mat).items():
        want = SPARSE[name][0](enp.asarray(DENSE))
        np.testing.assert_allclose(sparse.todense(found), want, rtol=2e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    "name", ["sin", "divided", "transpose", "row", "add", "multiply", "sum", "mask", "jit"]
)
def test_operation_by_operation(name: str) -> None:
    """As the function runs."""
    function, _ = SPARSE[name]
    found = sparsify(function, use_tracer=True)(messy())
    np.testing.assert_allclose(found.todense(), function(enp.asarray(DENSE)), rtol=2e-6, atol=1e-6)


LOOPS: dict[str, Function] = {
    "fori": lambda m: lax.fori_loop(0, 3, lambda i, x: x * 2, m),
    "grows": lambda m: lax.fori_loop(0, 3, lambda i, x: x + m[::-1], m),
    "becomes_dense": lambda m: lax.fori_loop(0, 3, lambda i, x: x + enp.ones((3, 4)), m),
    "starts_dense": lambda m: lax.fori_loop(0, 3, lambda i, x: m * (i + 1), enp.ones((3, 4))),
    "while": lambda m: lax.while_loop(lambda v: (v * v).sum() < 100, lambda v: v + m @ ROW, enp.ones(3)),
    "scan_rows": lambda m: lax.scan(lambda c, row: (c + row.sum(), row * 2), 0.0, m),
    "scan_carry": lambda m: lax.scan(lambda c, k: (c * k, c @ ROW), m, ROW)[1],
    "cond": lambda m: lax.cond(m.sum() > 0, lambda x: x, lambda x: x + x[::-1], m),
    "cond_dense": lambda m: lax.cond(m.sum() > 0, lambda x: x + enp.ones((3, 4)), lambda x: x, m),
    "cond_dense_last": lambda m: lax.cond(m.sum() > 9, lambda x: x, lambda x: x + enp.ones((3, 4)), m),
    "switch": lambda m: lax.switch(1, [lambda x: x[:2], lambda x: 2 * x[1:]], m),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_control_flow(name: str) -> None:
    """Loops and branches carry sparse arrays; what is dense somewhere is dense."""
    function = LOOPS[name]
    found, want = sparsify(function)(messy()), function(enp.asarray(DENSE))
    pairs = zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]
    for x, y in pairs:
        np.testing.assert_allclose(sparse.todense(x), y, rtol=2e-6, atol=1e-6)


def test_transformations() -> None:
    """Derivatives, batches and jit around it."""

    def f(m: Any) -> Any:
        return (enp.sin(m) @ enp.asarray(ROW)).sum()

    m = BCOO.fromdense(DENSE)
    g = sparsify(f)
    want = np.where(DENSE == 0, 0, np.asarray(effx.grad(f)(DENSE)))
    for transform in (sparse.grad(g), effx.jit(sparse.grad(g)), sparse.grad(effx.jit(g))):
        np.testing.assert_allclose(transform(m).todense(), want, rtol=1e-6)
    batch = BCOO.fromdense(np.stack([DENSE, 2 * DENSE]), n_batch=1)
    want_batch = [f(DENSE), f(2 * DENSE)]
    np.testing.assert_allclose(effx.vmap(g)(batch), want_batch, rtol=1e-6)
    sparse_rows = effx.vmap(sparsify(lambda row: 2 * row))(BCOO.fromdense(DENSE, n_batch=1))
    np.testing.assert_array_equal(sparse_rows.todense(), 2 * DENSE)
    _, dy = effx.jvp(lambda x: g(m.with_data(x)), (m.data,), (enp.ones(4),))
    np.testing.assert_allclose(dy, want.sum(), rtol=1e-6)
    np.testing.assert_allclose(
        sparse.jacrev(sparsify(lambda m: m @ ROW))(m).todense().sum((0, 1)), (DENSE != 0).sum(0) * ROW
    )


def test_logistic_regression() -> None:
    """A fit that knows nothing of sparse arrays, as in the documentation of jax's sparse arrays."""

    def sigmoid(x: Any) -> Any:
        return 0.5 * (enp.tanh(x / 2) + 1)

    def loss(params: Any, X: Any, y: Any) -> Any:
        chance = sigmoid(enp.dot(X, params[1:]) + params[0])
        return -enp.mean(y * enp.log(chance) + (1 - y) * enp.log(1 - chance))

    def fit(X: Any, y: Any) -> Any:
        def step(_: Any, params: Any) -> Any:
            return params - effx.grad(loss)(params, X, y)

        return lax.fori_loop(0, 20, step, enp.zeros(X.shape[1] + 1))

    rng = np.random.default_rng(0)
    X = (rng.normal(size=(30, 5)) * (rng.random((30, 5)) < 0.4)).astype("f4")
    y = (X @ rng.normal(size=5) > 0).astype("f4")
    np.testing.assert_allclose(sparsify(fit)(BCOO.fromdense(X), y), fit(X, y), rtol=1e-4, atol=1e-5)


def test_arguments() -> None:
    """Sparse arrays of any format in pytrees, numbers, keywords; arrays that a function closes over, sparse or dense."""
    for kind in (BCSR, COO, CSR, CSC):
        found = sparsify(lambda d, k: {"y": (d["m"] * k) @ d["v"]})(
            {"m": kind.fromdense(DENSE), "v": ROW}, k=2
        )
        np.testing.assert_allclose(found["y"], 2 * DENSE @ ROW)
    m = BCOO.fromdense(DENSE)
    closed = sparsify(lambda x: (x + m.todense(), m @ sparse.todense(x).T))(BCOO.fromdense(2 * DENSE))
    np.testing.assert_allclose(closed[0], 3 * DENSE)
    np.testing.assert_allclose(closed[1], 2 * DENSE @ DENSE.T)
    nested = sparsify(lambda x: sparsify(lambda y: y @ sparse.todense(x).T)(m))(m)
    np.testing.assert_allclose(sparse.todense(nested), DENSE @ DENSE.T)
    looks = sparsify(lambda m, v: m if v.sum() > 0 else -m, use_tracer=True)
    np.testing.assert_array_equal(looks(m, ROW).todense(), DENSE)
    assert sparse.todense(ROW).tolist() == ROW.tolist()


@pytest.mark.parametrize("dtype", ["bfloat16", "complex64", "int32", "bool"])
def test_dtypes(dtype: str) -> None:
    """Each is kept, as by dense arrays."""
    x = enp.asarray(np.abs(DENSE)).astype(dtype)
    m = BCOO.fromdense(x)
    functions: list[Function] = [
        lambda m: m, lambda m: m.T, lambda m: m * m, lambda m: m @ m.T, lambda m: m.sum(0), lambda m: m[1:, ::-1],
        lambda m: enp.where(m != 0, m, enp.zeros((), m.dtype)), lambda m: enp.concatenate([m, m]),
    ]  # fmt: skip
    every = effx.jit(lambda m: [sparse.todense(sparsify(f, use_tracer=True)(m)) for f in functions])
    for got, function in zip(every(m), functions, strict=True):
        want = function(x)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_double_precision() -> None:
    """f64 and i64 under `enable_x64`."""
    with effx.enable_x64(True):
        for dtype in ("float64", "int64"):
            m = BCOO.fromdense(DENSE.astype(dtype), index_dtype="int64")
            found = sparsify(lambda m: (m * m) @ m.T)(m)
            assert (found.dtype.name, found.indices.dtype.name) == (dtype, "int64")
            np.testing.assert_array_equal(found.todense(), (DENSE**2 @ DENSE.T).astype(dtype))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (1,), (1, 1), (2, 0, 3)])
def test_sizes(shape: tuple[int, ...]) -> None:
    """No elements, no places, one of them."""
    x = np.ones(shape, "f4")

    def f(m: Any) -> list[Any]:
        return [enp.sin(m), m + m, m * m, m[None], m.sum(0), m.T]

    for found, want in zip(sparsify(f)(BCOO.fromdense(x)), f(enp.asarray(x)), strict=True):
        np.testing.assert_allclose(sparse.todense(found), want, rtol=1e-6)


def test_gather() -> None:
    """Of all forms of `lax.gather`: windows, batches, what is out of range."""
    m = BCOO.fromdense(DENSE)
    windows = lax.GatherDimensionNumbers(offset_dims=(0, 2), collapsed_slice_dims=(), start_index_map=(1,))
    rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    paired = lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    cases: list[tuple[Any, Any, Any, dict[str, Any]]] = [
        (np.array([[2], [9], [-1]]), windows, (3, 2), {}),
        (np.array([[[2]], [[0]]]), lax.GatherDimensionNumbers((2,), (0,), (0,)), (1, 3), {}),
        (np.array([[7], [2]]), rows, (1, 4), {"mode": "fill", "fill_value": 0}),
        (np.array([[3], [0], [0]]), paired, (1, 1), {}),
    ]
    for starts, numbers, sizes, extra in cases:
        found = sparse.bcoo_gather(m, starts, numbers, sizes, **extra)
        np.testing.assert_array_equal(
            sparse.todense(found), lax.gather(DENSE, starts, numbers, sizes, **extra)
        )


@pytest.mark.parametrize(
    "options",
    [
        {"padding": "SAME"}, {"window_strides": [2], "padding": [(2, 1)], "rhs_dilation": [2]},
        {"lhs_dilation": [2], "padding": [(1, 0)]}, {"feature_group_count": 2}, {"batch_group_count": 2},
    ],
)  # fmt: skip
def test_convolution(options: dict[str, Any]) -> None:
    """Of what is stored with what is stored, or with a dense kernel."""
    rng = np.random.default_rng(0)
    x = (rng.integers(-2, 3, (2, 4, 7)) * rng.integers(0, 2, (2, 4, 7))).astype("f4")
    kernel = rng.integers(-2, 3, (4, 4 // options.get("feature_group_count", 1), 3)).astype("f4")
    given = {"window_strides": [1], "padding": "VALID", **options}
    want = lax.conv_general_dilated(x, kernel, **given)
    for right in (BCOO.fromdense(kernel), kernel):
        found = sparse.bcoo_conv_general_dilated(BCOO.fromdense(x), right, **given)
        np.testing.assert_array_equal(found.todense(), want)


def test_convolution_of_images() -> None:
    """Along two axes."""
    rng = np.random.default_rng(0)
    x = (rng.integers(-2, 3, (1, 1, 4, 5)) * rng.integers(0, 2, (1, 1, 4, 5))).astype("f4")
    kernel = rng.integers(-2, 3, (2, 1, 2, 3)).astype("f4")
    found = sparse.bcoo_conv_general_dilated(BCOO.fromdense(x), kernel, window_strides=[1, 2], padding="SAME")
    np.testing.assert_array_equal(found.todense(), lax.conv_general_dilated(x, kernel, [1, 2], "SAME"))


def test_operators() -> None:
    """Of BCOO outside of functions: powers, quotients and arrays as indices."""
    m, filled = messy(), DENSE + 2 * (DENSE == 0)
    for got, want in [
        (m**2, DENSE**2), (m**2.0, DENSE**2), (m / 2, DENSE / 2), (m / filled, DENSE / filled),
        (filled / BCOO.fromdense(filled), filled / filled), (filled ** BCOO.fromdense(DENSE), filled**DENSE),
        (m[np.array([2, 0])], DENSE[[2, 0]]), (m[..., enp.array([3])], DENSE[..., [3]]), (m / COLUMN, DENSE / COLUMN),
    ]:  # fmt: skip
        np.testing.assert_allclose(sparse.todense(got), want, rtol=1e-6)


def test_coverage() -> None:
    """The operations that the handler has rules for."""
    table = coverage(Sparsify)
    assert (table[DotGeneral].how, table[Sin].how) == ("rule", "trait")
    assert {Sort, CumSum} <= {*table.refused} >= {Scatter}


SHOWN = "BCOO(float32[3, 4], nse=8)"
USE = "sparse.todense makes an operand dense"
WRONG: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (
        lambda: sparsify(enp.cos)(messy()), NoRuleError,
        f"cos: the result is not 0 wherever an operand is, got {SHOWN}; {USE}",
    ),
    (
        lambda: sparsify(lambda m: m + 1)(messy()), NoRuleError,
        f"add: a number is added to what is not stored, too, so that the result is dense, got {SHOWN}, f32[]~; {USE}",
    ),
    (
        lambda: sparsify(enp.sort)(messy()), NoRuleError, f"sort: has no sparse form, got {SHOWN}; {USE}",
    ),
    (
        lambda: sparsify(lambda m: enp.hstack([m, enp.ones((3, 1))]))(messy()), NoRuleError,
        f"concatenate: takes sparse arrays or dense ones, got {SHOWN}, f32[3,1]; {USE}",
    ),
    (
        lambda: sparsify(lambda m: enp.pad(m, 1, constant_values=2))(messy()), NoRuleError,
        f"pad: a number other than 0 is not stored, got {SHOWN}, f32[]; {USE}",
    ),
    (
        lambda: sparsify(lambda m: m / m)(messy()), NoRuleError,
        f"div: the result is not 0 wherever an operand is, got {SHOWN}, {SHOWN}; {USE}",
    ),
    (
        lambda: sparsify(lambda m: lax.fori_loop(0, 9, lambda i, x: x + m, m))(BCOO.fromdense(enp.eye(20))), TransformError,
        "sparsify: what <lambda> carries keeps growing; its payloads have no largest structure",
    ),
    (
        lambda: sparsify(3), TransformError, "sparsify: expected a function, got 3 of type int",  # type: ignore[arg-type]  # wrong on purpose
    ),
    (
        lambda: sparsify(enp.sin, 1), TransformError, "sparsify: use_tracer must be a bool, got 1",  # type: ignore[arg-type]  # wrong on purpose
    ),
    (
        lambda: sparse.bcoo_conv_general_dilated(DENSE, DENSE, window_strides=[], padding=[]), TransformError,
        "bcoo_conv_general_dilated: one operand must be sparse",
    ),
    (
        lambda: 2 ** messy(), ShapeError,
        ("power: a dense operand must have the result's shape, so that no sparse array becomes dense unseen, got i32[]~ "
        f"with {SHOWN}; use todense"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_wrong_inputs(call: Callable[[], object], error: type[EffxError], text: str) -> None:
    """The whole text of errors."""
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).split("\n")[0] == text
