"""The functions and programs that are compiled for accelerators, written once for both libraries.

Each family of operations has a few, with operands large enough for the platform's own form to matter.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, final

import attrs

__all__ = ["FUNCTIONS", "Function", "Library"]

Tree: TypeAlias = Any


@final
class Library:
    """The namespaces of effx or of jax."""

    def __init__(self, name: str) -> None:
        """Imports the namespaces of the library `name`."""

        def load(part: str) -> Any:
            return importlib.import_module(f"{name}.{part}")

        self.name = name
        self.api: Any = importlib.import_module(name)
        self.xp, self.lax, self.nn, self.random = load("numpy"), load("lax"), load("nn"), load("random")
        self.special, self.linalg, self.fft = load("scipy.special"), load("numpy.linalg"), load("numpy.fft")
        self.scipy_linalg, self.lax_linalg = load("scipy.linalg"), load("lax.linalg")
        self.stats, self.signal, self.ops = load("scipy.stats"), load("scipy.signal"), load("ops")
        self.image, self.debug, self.sharding = load("image"), load("debug"), load("sharding")
        self.ad_checkpoint = load("ad_checkpoint")


@final
@attrs.frozen
class Shape:
    """The shape and dtype of an operand."""

    shape: tuple[int, ...]
    dtype: str = "float32"


@final
@attrs.frozen
class Function:
    """A function to compile.

    Attributes:
        name: unique.
        apply: takes the library and the operands.
        operands: their shapes and dtypes.
        axes: of a mesh of all of the topology's devices, if the function is for several.
        agreement: what two platforms must agree on: "values", "sizes" where signs or phases are free, or "shapes" where
            vectors or random bits are.
    """

    name: str
    apply: Callable[..., Tree]
    operands: tuple[Shape, ...]
    axes: tuple[str, ...] = ()
    agreement: str = "values"


VECTOR, LONG, IMAGE = Shape((8_192,)), Shape((1 << 17,)), Shape((8, 64, 64, 32))
ROWS, WIDE = Shape((512, 512)), Shape((128, 4_096))
SMALL, LARGE, BATCH = Shape((64, 64)), Shape((300, 300)), Shape((32, 8, 8))
COMPLEX_SMALL, COMPLEX = Shape((64, 64), "complex64"), Shape((4_096,), "complex64")
LABELS = Shape((8_192,), "int32")
KEY = Shape((2,), "uint32")
HALF = Shape((512, 512), "bfloat16")

_functions: list[Function] = []


_FREE_SIGNS = ("qr", "eigh", "svd")
_FREE_VECTORS = (
    "svd, full",
    "svd, wide",
    "complete",
    "rbg",
    "eigh, 300",
    "gradient of qr",
    "gradient of svd",
    "gradient of eigh",
)


def add(name: str, apply: Callable[..., Tree], *operands: Shape, axes: tuple[str, ...] = ()) -> None:
    """Adds a function to the list."""
    agreement = "values"
    if any([word in name for word in _FREE_SIGNS]):
        agreement = "sizes"
    if any([word in name for word in _FREE_VECTORS]):
        agreement = "shapes"
    _functions.append(Function(name, apply, operands, axes, agreement))


def add_with_gradient(name: str, apply: Callable[..., Tree], *operands: Shape) -> None:
    """Adds a function, and the gradient of the sum of the cubes of its results' real parts by the first operand."""

    def gradient(a: Library, *operands: Tree) -> Tree:
        def total(x: Tree, *rest: Tree) -> Tree:
            leaves = a.api.tree_util.tree_leaves(apply(a, x, *rest))
            return sum([a.xp.sum(a.xp.real(y) ** 3) for y in leaves])

        return a.api.grad(total)(*operands)

    add(name, apply, *operands)
    add(f"gradient of {name}", gradient, *operands)


# --- elementwise and special functions ------------------------------------------------------------

for _name in ("exp", "tanh", "log1p", "expm1", "arctan2", "cbrt", "sinc", "nan_to_num", "round", "sin"):
    _count = 2 if _name == "arctan2" else 1
    add(_name, lambda a, *x, name=_name: getattr(a.xp, name)(*x), *[VECTOR] * _count)
for _name in ("erf", "erf_inv", "lgamma", "digamma", "bessel_i0e", "bessel_i1e", "logistic"):
    add(_name, lambda a, x, name=_name: getattr(a.lax, name)(x), VECTOR)
for _name, _count in (("igamma", 2), ("igammac", 2), ("betainc", 3), ("polygamma", 2), ("zeta", 2)):
    add(_name, lambda a, *x, name=_name: getattr(a.lax, name)(*x), *[VECTOR] * _count)
for _name in ("ndtri", "log_ndtr", "entr", "i0", "expi"):
    add(f"special.{_name}", lambda a, x, name=_name: getattr(a.special, name)(x), VECTOR)
for _name in ("gelu", "softplus", "silu", "elu", "relu"):
    add_with_gradient(f"nn.{_name}", lambda a, x, name=_name: getattr(a.nn, name)(x), VECTOR)
add_with_gradient("logsumexp", lambda a, x: a.special.logsumexp(x, -1), ROWS)
add_with_gradient("softmax", lambda a, x: a.nn.softmax(x), ROWS)
add("complex exp", lambda a, x: a.xp.exp(x), COMPLEX)
add("population_count", lambda a, x: a.lax.population_count(x), LABELS)
add("bitcast", lambda a, x: a.lax.bitcast_convert_type(x, "int32"), VECTOR)
add("convert to bfloat16", lambda a, x: x.astype("bfloat16") * 2, VECTOR)
add("where and clip", lambda a, x: a.xp.where(x > 0, a.xp.clip(x, -1, 1), x), VECTOR)

# --- shapes and indices ---------------------------------------------------------------------------

add("transpose", lambda a, x: x.T * 2, ROWS)
add("concatenate", lambda a, x, y: a.xp.concatenate([x, y]), VECTOR, VECTOR)
add("pad and reverse", lambda a, x: a.xp.flip(a.xp.pad(x, 3, mode="reflect")), VECTOR)
add("roll", lambda a, x: a.xp.roll(x, 7), VECTOR)
add("tril", lambda a, x: a.xp.tril(x), ROWS)
add_with_gradient("take", lambda a, x, i: a.xp.take(x, i), VECTOR, LABELS)
add("take_along_axis", lambda a, x, i: a.xp.take_along_axis(x, i, 1), ROWS, Shape((512, 8), "int32"))
add("scatter-add", lambda a, x, i: x.at[i].add(1.0), VECTOR, LABELS)
add("scatter-max", lambda a, x, i: x.at[i].max(1.0), VECTOR, LABELS)
add("dynamic_slice", lambda a, x, i: a.lax.dynamic_slice(x, (i,), (100,)), VECTOR, Shape((), "int32"))
add(
    "dynamic_update_slice",
    lambda a, x, i: a.lax.dynamic_update_slice(x, x[:100] * 2, (i,)),
    VECTOR,
    Shape((), "int32"),
)
add("one_hot", lambda a, i: a.nn.one_hot(i, 32), LABELS)
add("bincount", lambda a, i: a.xp.bincount(i, length=100), LABELS)
add("segment_sum", lambda a, x, i: a.ops.segment_sum(x, i, 100), VECTOR, LABELS)
add("searchsorted", lambda a, x, y: a.xp.searchsorted(x, y), VECTOR, VECTOR)
add("nonzero", lambda a, x: a.xp.nonzero(x > 0, size=100)[0], VECTOR)
add("unique", lambda a, i: a.xp.unique(i, size=100), LABELS)
add("histogram", lambda a, x: a.xp.histogram(x, 20, (0.0, 1.0))[0], VECTOR)

# --- reductions, prefixes, sorting ----------------------------------------------------------------

for _name in ("sum", "max", "argmax", "mean", "var", "prod", "all", "median"):
    add(_name, lambda a, x, name=_name: getattr(a.xp, name)(x, -1), ROWS)
add("sum of all", lambda a, x: a.xp.sum(x), LONG)
add_with_gradient("cumsum", lambda a, x: a.xp.cumsum(x), VECTOR)
add("cumsum of rows", lambda a, x: a.xp.cumsum(x, -1), ROWS)
add("cumsum of columns", lambda a, x: a.xp.cumsum(x, 0), ROWS)
add("cumsum, long", lambda a, x: a.xp.cumsum(x), LONG)
add("cumsum, reversed", lambda a, x: a.lax.cumsum(x, reverse=True), VECTOR)
add_with_gradient("cumprod", lambda a, x: a.xp.cumprod(x), VECTOR)
add_with_gradient("cummax", lambda a, x: a.lax.cummax(x), VECTOR)
add("cumlogsumexp", lambda a, x: a.lax.cumlogsumexp(x), VECTOR)
add("associative_scan", lambda a, x: a.lax.associative_scan(a.xp.add, x), VECTOR)
add("sort", lambda a, x: a.xp.sort(x), VECTOR)
add("sort of rows", lambda a, x: a.xp.sort(x, -1), ROWS)
add("sort of integers", lambda a, x: a.xp.sort(x), LABELS)
add("argsort", lambda a, x: a.xp.argsort(x), VECTOR)
add("argsort, descending", lambda a, x: a.xp.argsort(x, descending=True), VECTOR)
add("lexsort", lambda a, x, y: a.xp.lexsort((x, y)), VECTOR, VECTOR)
add("sort of pairs", lambda a, x, i: a.lax.sort((x, i), num_keys=1), VECTOR, LABELS)
add("rankdata", lambda a, x: a.stats.rankdata(x), VECTOR)
add("quantile", lambda a, x: a.xp.quantile(x, 0.3, axis=-1), ROWS)
add("top_k", lambda a, x: a.lax.top_k(x, 10), ROWS)
add("top_k of one row", lambda a, x: a.lax.top_k(x, 10), VECTOR)
add("approx_max_k", lambda a, x: a.lax.approx_max_k(x, 10), WIDE)
add("approx_min_k", lambda a, x: a.lax.approx_min_k(x, 10), WIDE)

# --- products and convolutions --------------------------------------------------------------------

add_with_gradient("matmul", lambda a, x, y: x @ y, ROWS, ROWS)
add("matmul of bfloat16", lambda a, x, y: x @ y, HALF, HALF)
add("matmul, highest", lambda a, x, y: a.xp.matmul(x, y, precision="highest"), ROWS, ROWS)
for precision in ("high", "tensorfloat32", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6"):
    add(
        f"matmul, {precision}",
        lambda a, x, y, precision=precision: a.lax.dot(x, y, precision=precision),
        ROWS,
        ROWS,
    )
add(
    "matmul of int8",
    lambda a, x, y: a.lax.dot(x, y, preferred_element_type="int32"),
    *[Shape((512, 512), "int8")] * 2,
)
for dtype in ("int4", "bool", "float8_e4m3fn"):
    add(
        f"matmul of {dtype}, summed in float32",
        lambda a, x, y: a.lax.dot(x, y, preferred_element_type="float32"),
        *[Shape((512, 512), dtype)] * 2,
    )
add("batched einsum", lambda a, x, y: a.xp.einsum("bij,bjk->bik", x, y), BATCH, BATCH)
add(
    "ragged_dot",
    lambda a, x, y, n: a.lax.ragged_dot(x, y, n),
    ROWS,
    Shape((4, 512, 128)),
    Shape((4,), "int32"),
)


def convolve_images(a: Library, x: Tree, k: Tree, groups: int = 1, stride: int = 1) -> Tree:
    """Convolves images [batch, height, width, channels]."""
    return a.lax.conv_general_dilated(
        x, k, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


add_with_gradient("convolution", convolve_images, IMAGE, Shape((3, 3, 32, 64)))
add("depthwise convolution", lambda a, x, k: convolve_images(a, x, k, 32), IMAGE, Shape((3, 3, 1, 32)))
add("strided convolution", lambda a, x, k: convolve_images(a, x, k, 1, 2), IMAGE, Shape((3, 3, 32, 64)))
add("convolve", lambda a, x, y: a.xp.convolve(x, y, mode="same"), VECTOR, Shape((64,)))
add("convolve2d", lambda a, x, y: a.signal.convolve2d(x, y, mode="same"), ROWS, Shape((5, 5)))


def pool(a: Library, x: Tree, kind: str) -> Tree:
    """Returns the maxima or sums of windows of 2 by 2."""
    init, combine = (-a.xp.inf, a.lax.max) if kind == "max" else (0.0, a.lax.add)
    return a.lax.reduce_window(x, init, combine, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


add_with_gradient("max_pool", lambda a, x: pool(a, x, "max"), IMAGE)
add_with_gradient("sum_pool", lambda a, x: pool(a, x, "sum"), IMAGE)
add("fft", lambda a, x: a.fft.fft(x), COMPLEX)
add("rfft and irfft", lambda a, x: a.fft.irfft(a.fft.rfft(x) * 2), VECTOR)
add("fft2", lambda a, x: a.fft.fft2(x), ROWS)
add("image.resize", lambda a, x: a.image.resize(x, (8, 32, 32, 32), "bilinear"), IMAGE)

# --- linear algebra -------------------------------------------------------------------------------


def symmetric(a: Library, x: Tree) -> Tree:
    """Returns symmetric positive definite matrices."""
    return x @ a.xp.swapaxes(x, -1, -2) + x.shape[-1] * a.xp.eye(x.shape[-1], dtype=x.dtype)


for _size, _shape in (("64", SMALL), ("300", LARGE), ("batch", BATCH)):
    add(f"cholesky, {_size}", lambda a, x: a.linalg.cholesky(symmetric(a, x)), _shape)
    add(f"qr, {_size}", lambda a, x: a.linalg.qr(x), _shape)
    add(f"eigh, {_size}", lambda a, x: a.linalg.eigh(symmetric(a, x)), _shape)
    add(f"svd, {_size}", lambda a, x: a.linalg.svd(x), _shape)
    add(f"lu, {_size}", lambda a, x: a.lax_linalg.lu(x), _shape)
    add(f"solve, {_size}", lambda a, x: a.linalg.solve(x, x), _shape)
    add(f"inv, {_size}", lambda a, x: a.linalg.inv(x), _shape)
add("det", lambda a, x: a.linalg.det(x), SMALL)
add("slogdet", lambda a, x: a.linalg.slogdet(x), SMALL)
add("pinv", lambda a, x: a.linalg.pinv(x), SMALL)
add("matrix_rank", lambda a, x: a.linalg.matrix_rank(x), SMALL)
add("lstsq", lambda a, x, y: a.linalg.lstsq(x, y)[0], Shape((128, 16)), Shape((128,)))
add("expm", lambda a, x: a.scipy_linalg.expm(x), SMALL)
add("polyfit", lambda a, x, y: a.xp.polyfit(x, y, 3), Shape((1_000,)), Shape((1_000,)))
add("triangular_solve", lambda a, x, y: a.scipy_linalg.solve_triangular(x, y, lower=True), SMALL, SMALL)
add("svd, full matrices", lambda a, x: a.linalg.svd(x, full_matrices=True), Shape((96, 32)))
add("svd, wide", lambda a, x: a.linalg.svd(x, full_matrices=False), Shape((32, 96)))
add("svd, values", lambda a, x: a.linalg.svd(x, compute_uv=False), SMALL)
add("qr, complete", lambda a, x: a.linalg.qr(x, mode="complete"), Shape((96, 32)))
add("eigvalsh", lambda a, x: a.linalg.eigvalsh(symmetric(a, x)), SMALL)
add("complex cholesky", lambda a, x: a.linalg.cholesky(x @ x.conj().T + 64 * a.xp.eye(64)), COMPLEX_SMALL)
add("complex eigh", lambda a, x: a.linalg.eigh(x @ x.conj().T), COMPLEX_SMALL)
add("complex qr", lambda a, x: a.linalg.qr(x), COMPLEX_SMALL)
add("complex svd", lambda a, x: a.linalg.svd(x), COMPLEX_SMALL)
add(
    "tridiagonal_solve",
    lambda a, d, x: a.lax_linalg.tridiagonal_solve(d, d + 4, d, x),
    Shape((64,)),
    Shape((64, 4)),
)


def add_gradient(name: str, apply: Callable[..., Tree], *operands: Shape) -> None:
    """Adds the gradient of a function alone."""
    add_with_gradient(name, apply, *operands)
    del _functions[-2]


add_gradient("cholesky", lambda a, x: a.linalg.cholesky(symmetric(a, x)), SMALL)
add_gradient("qr", lambda a, x: a.linalg.qr(x), SMALL)
add_gradient("eigh", lambda a, x: a.linalg.eigh(symmetric(a, x)), SMALL)
add_gradient("svd", lambda a, x: a.linalg.svd(x, full_matrices=False), SMALL)
add_gradient("solve", lambda a, x, y: a.linalg.solve(x, y), SMALL, Shape((64, 3)))
add_gradient("inv", lambda a, x: a.linalg.inv(x), SMALL)
add_gradient("slogdet", lambda a, x: a.linalg.slogdet(x)[1], SMALL)

# --- random numbers -------------------------------------------------------------------------------

for _name, _draw in {
    "bits": lambda r, k: r.bits(k, (8_192,)),
    "uniform": lambda r, k: r.uniform(k, (8_192,)),
    "normal": lambda r, k: r.normal(k, (8_192,)),
    "randint": lambda r, k: r.randint(k, (8_192,), 0, 100),
    "permutation": lambda r, k: r.permutation(k, 8_192),
    "gamma": lambda r, k: r.gamma(k, 2.0, (4_096,)),
    "poisson": lambda r, k: r.poisson(k, 3.0, (4_096,)),
    "choice": lambda r, k: r.choice(k, 1_000, (64,), replace=False),
    "truncated_normal": lambda r, k: r.truncated_normal(k, -1.0, 1.0, (8_192,)),
    "split": lambda r, k: r.split(k, 100),
}.items():
    add(f"random.{_name}", lambda a, k, draw=_draw: draw(a.random, k), KEY)
add("random.categorical", lambda a, k, x: a.random.categorical(k, x), KEY, ROWS)
add(
    "rbg normal",
    lambda a, k: a.random.normal(a.random.wrap_key_data(k, impl="rbg"), (8_192,)),
    Shape((4,), "uint32"),
)

# --- control flow, calls of Python ----------------------------------------------------------------


def run_scan(a: Library, x: Tree, w: Tree) -> Tree:
    """Multiplies by one matrix again and again."""
    return a.lax.scan(lambda c, _: (a.xp.tanh(c @ w), None), x, None, length=20)[0]


def run_recurrence(a: Library, x: Tree) -> Tree:
    """Returns the states of a recurrence over rows."""
    return a.lax.scan(lambda c, row: (a.xp.sin(c) + row, c), x[0], x)[1]


add_with_gradient("scan", run_scan, SMALL, SMALL)
add_with_gradient("scan over rows", run_recurrence, ROWS)
add_with_gradient(
    "checkpointed scan",
    lambda a, x: a.lax.scan(a.api.checkpoint(lambda c, _: (a.xp.sin(c), None)), x, None, length=10)[0],
    VECTOR,
)
add("while_loop", lambda a, x: a.lax.while_loop(lambda y: a.xp.sum(y) < 1e3, lambda y: y * 2, x), VECTOR)
add("fori_loop", lambda a, x: a.lax.fori_loop(0, 10, lambda i, y: y * 1.1 + i, x), VECTOR)
add_with_gradient("cond", lambda a, x: a.lax.cond(x[0] > 0, a.xp.sin, a.xp.cos, x), VECTOR)
add(
    "switch under vmap",
    lambda a, i, x: a.api.vmap(lambda i, y: a.lax.switch(i % 3, [a.xp.sin, a.xp.cos, a.xp.tanh], y))(i, x),
    LABELS,
    VECTOR,
)
add(
    "custom_root",
    lambda a, x: a.lax.custom_root(
        lambda y: y**3 - x,
        x,
        lambda f, y: a.lax.fori_loop(0, 8, lambda _, z: z - f(z) / (3 * z * z), y),
        lambda g, y: y / g(a.xp.ones_like(y)),
    ),
    VECTOR,
)


def call_python(a: Library, x: Tree) -> Tree:
    """Calls a function of NumPy."""
    return a.api.pure_callback(lambda v: v * 2, a.api.ShapeDtypeStruct(x.shape, x.dtype), x) + 1


def print_sum(a: Library, x: Tree) -> Tree:
    """Prints while it computes."""
    a.debug.print("sum {}", a.xp.sum(x))
    return x * 2


add("pure_callback", call_python, VECTOR)
add(
    "pure_callback in scan",
    lambda a, x: a.lax.scan(lambda c, _: (call_python(a, c), None), x, None, length=3)[0],
    VECTOR,
)
add(
    "pure_callback under vmap",
    lambda a, x: a.api.vmap(
        lambda row: a.api.pure_callback(
            lambda v: v * 2, a.api.ShapeDtypeStruct(row.shape, row.dtype), row, vmap_method="sequential"
        )
    )(x),
    Shape((4, 8)),
)
add("debug.print", print_sum, VECTOR)
add(
    "debug.print in scan",
    lambda a, x: a.lax.scan(lambda c, _: (print_sum(a, c), None), x, None, length=3)[0],
    VECTOR,
)

# --- programs -------------------------------------------------------------------------------------


def attend(a: Library, q: Tree, k: Tree, v: Tree) -> Tree:
    """Causal attention."""
    return a.nn.dot_product_attention(q, k, v, is_causal=True)


QUERIES = Shape((4, 256, 8, 64), "bfloat16")
add_with_gradient("attention", attend, QUERIES, QUERIES, QUERIES)


def normalize(a: Library, x: Tree) -> Tree:
    """Layer norm."""
    mean = a.xp.mean(x, -1, keepdims=True)
    return (x - mean) / a.xp.sqrt(a.xp.mean((x - mean) ** 2, -1, keepdims=True) + 1e-6)


add_with_gradient("layer norm", normalize, ROWS)


def transformer_loss(a: Library, wq: Tree, wo: Tree, up: Tree, down: Tree, x: Tree) -> Tree:
    """The mean square of a block of a transformer."""
    batch, length, width = x.shape
    h = normalize(a, x)
    q, k, v = a.xp.split((h @ wq).reshape(batch, length, 3, 8, width // 8), 3, axis=2)
    mixed = attend(a, q[:, :, 0], k[:, :, 0], v[:, :, 0]).reshape(batch, length, width)
    x = x + mixed @ wo
    x = x + a.nn.gelu(normalize(a, x) @ up) @ down
    return a.xp.mean(x**2)


WEIGHTS = (Shape((256, 768)), Shape((256, 256)), Shape((256, 1_024)), Shape((1_024, 256)))
add(
    "transformer step",
    lambda a, *ws: a.api.value_and_grad(lambda *w: transformer_loss(a, *w), (0, 1, 2, 3))(*ws),
    *WEIGHTS,
    Shape((8, 128, 256)),
)


def mlp_step(a: Library, ws: Tree, x: Tree) -> Tree:
    """A step of gradient descent on four layers."""

    def loss(ws: Tree) -> Tree:
        return a.xp.mean(a.lax.scan(lambda h, w: (a.xp.tanh(h @ w), None), x, ws)[0] ** 2)

    return ws - 0.1 * a.api.grad(loss)(ws)


add("MLP step", mlp_step, Shape((4, 512, 512)), ROWS)


def name_layers(a: Library, w: Tree, x: Tree) -> Tree:
    """The sum of the last of four layers, each of which has a name."""
    for _ in range(4):
        x = a.ad_checkpoint.checkpoint_name(a.xp.sin(x @ w), "layer")
    return a.xp.sum(x)


def add_offloaded(name: str, policy: Callable[[Any], Any]) -> None:
    """Adds a gradient whose residuals wait in the host's memory."""
    add(
        name,
        lambda a, w, x: a.api.grad(
            a.api.checkpoint(partial(name_layers, a), policy=policy(a.api.checkpoint_policies))
        )(w, x),
        ROWS,
        ROWS,
    )


add_offloaded(
    "offloaded layers",
    lambda policies: policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["layer"],
        offload_src="device",
        offload_dst="pinned_host",
    ),
)
add_offloaded(
    "offloaded products", lambda policies: policies.offload_dot_with_no_batch_dims("device", "pinned_host")
)
add(
    "lstm",
    lambda a, x, w, u: a.lax.scan(
        lambda c, row: (
            (
                lambda g: (
                    a.nn.sigmoid(g[:, :64]) * c[1] + a.xp.tanh(g[:, 64:128]),
                    a.nn.sigmoid(g[:, 128:192]) * a.xp.tanh(c[1]),
                )
            )(row @ w + c[0] @ u),
            None,
        ),
        (x[0, :, :64], x[0, :, :64]),
        x,
    )[0],
    Shape((32, 16, 64)),
    Shape((64, 192)),
    Shape((64, 192)),
)
add(
    "hessian of a quartic",
    lambda a, x: a.api.hessian(lambda y: a.xp.sum(y**4) + a.xp.prod(y[:3]))(x),
    Shape((64,)),
)
add("jacfwd of a field", lambda a, x: a.api.jacfwd(lambda y: a.xp.sin(y) * a.xp.roll(y, 1))(x), Shape((256,)))


def sum_over_devices(a: Library, x: Tree) -> Tree:
    """Subtracts the mean over the devices."""
    return x - a.lax.pmean(x, "devices")


def exchange(a: Library, x: Tree) -> Tree:
    """Sends each device's part on, gathers all parts, and scatters sums."""
    n = a.lax.axis_size("devices") if hasattr(a.lax, "axis_size") else a.lax.psum(1, "devices")
    shifted = a.lax.ppermute(x, "devices", [(i, (i + 1) % n) for i in range(n)])
    full = a.lax.all_gather(shifted, "devices", tiled=True)
    return a.lax.psum_scatter(full, "devices", tiled=True)


add("shard_map: pmean", sum_over_devices, Shape((64, 128)), axes=("devices",))
add("shard_map: exchange", exchange, Shape((64, 128)), axes=("devices",))
add(
    "shard_map: all_to_all",
    lambda a, x: a.lax.all_to_all(x, "devices", 1, 0, tiled=True),
    Shape((64, 128)),
    axes=("devices",),
)

FUNCTIONS: Sequence[Function] = tuple(_functions)
"""All of them."""
