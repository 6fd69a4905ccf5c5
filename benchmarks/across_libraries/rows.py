"""What is computed: for each row its arguments, and a function of each library.

Never: imports a library at the top; a process loads the one that it measures.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias, final

import attrs
import numpy as np

Library: TypeAlias = Literal["effx", "jax", "torch", "numpy"]
Data: TypeAlias = np.ndarray[Any, Any]
# Of arrays of one library; these have no type in common.
Function: TypeAlias = Callable[..., Any]
LIBRARIES: tuple[Library, ...] = ("effx", "jax", "torch", "numpy")


@final
@attrs.frozen
class Row:
    """One call.

    Attributes:
        title: what is computed.
        arguments: makes the arguments, always the same.
        xla: makes the function for effx and JAX from the namespaces of one of them; it is compiled by `jit`.
        torch: makes PyTorch's from its module; None where it has none.
        numpy: makes that of NumPy or SciPy; None where they have none.
        moved: the bytes that are read and written at least, where memory limits the call; else None.
        eager: True to call effx's and JAX's functions without `jit`.
    """

    title: str
    arguments: Callable[[], tuple[Data, ...]]
    xla: Callable[[Namespaces], Function]
    torch: Callable[[Any], Function] | None = None
    numpy: Callable[[], Function] | None = None
    moved: int | None = None
    eager: bool = False


@final
class Namespaces:
    """The namespaces of effx or of JAX: `api`, `numpy`, `lax`, `nn`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.api: Any = importlib.import_module(name)
        self.numpy: Any = importlib.import_module(f"{name}.numpy")
        self.lax: Any = importlib.import_module(f"{name}.lax")
        self.nn: Any = importlib.import_module(f"{name}.nn")


def floats(*shape: int, seed: int = 0) -> Data:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def whole_numbers(limit: int, *shape: int) -> Data:
    return np.random.default_rng(1).integers(0, limit, shape).astype(np.int32)


def well_conditioned(*shape: int) -> Data:
    n = shape[-1]
    sum_with_diagonal: Data = floats(*shape) + 2 * n**0.5 * np.eye(n, dtype=np.float32)
    return sum_with_diagonal


def positive_definite(n: int) -> Data:
    a = floats(n, n)
    product: Data = a @ a.T + n * np.eye(n, dtype=np.float32)
    return product


def scipy(name: str) -> Any:
    return importlib.import_module(f"scipy.{name}")


FLOAT = 4
MILLION = 1_000_000


def _prefix_row(title: str, shape: tuple[int, ...], axis: int) -> Row:
    return Row(
        title,
        lambda: (floats(*shape),),
        lambda of: lambda x: of.numpy.cumsum(x, axis),
        lambda torch: lambda x: torch.cumsum(x, axis),
        lambda: lambda x: np.cumsum(x, axis),
        2 * FLOAT * math.prod(shape),
    )


def prefix_rows() -> list[Row]:
    """Prefix sums and running maxima."""
    vectors = {"2^22": 1 << 22, "2^22 - 5": (1 << 22) - 5, "2^20": 1 << 20}
    rows = [_prefix_row(f"cumsum of {name}", (n,), 0) for name, n in vectors.items()]
    rows.append(_prefix_row("cumsum along rows of 1024 x 1024", (1024, 1024), 1))
    rows.append(_prefix_row("cumsum along columns of 1024 x 1024", (1024, 1024), 0))
    rows.append(
        Row(
            "running maximum of 2^20",
            lambda: (floats(1 << 20),),
            lambda of: of.lax.cummax,
            lambda torch: lambda x: torch.cummax(x, 0)[0],
            lambda: np.maximum.accumulate,
            2 * FLOAT << 20,
        )
    )
    # What is computed before a prefix sum is fused with it, or not.
    rows.append(
        Row(
            "running maximum of 2 x, 2^20",
            lambda: (floats(1 << 20),),
            lambda of: lambda x: of.lax.cummax(2 * x),
            lambda torch: lambda x: torch.cummax(2 * x, 0)[0],
            lambda: lambda x: np.maximum.accumulate(2 * x),
            2 * FLOAT << 20,
        )
    )
    return rows


def ordering_rows() -> list[Row]:
    """Sorting, and what needs an order."""
    return [
        Row(
            "median of a million",
            lambda: (floats(MILLION),),
            lambda of: of.numpy.median,
            lambda torch: torch.median,
            lambda: np.median,
        ),
        Row(
            "sort a million",
            lambda: (floats(MILLION),),
            lambda of: of.numpy.sort,
            lambda torch: lambda x: torch.sort(x)[0],
            lambda: np.sort,
        ),
        Row(
            "argsort a million",
            lambda: (floats(MILLION),),
            lambda of: of.numpy.argsort,
            lambda torch: torch.argsort,
            lambda: np.argsort,
        ),
        Row(
            "sort rows of 1000 x 1000",
            lambda: (floats(1000, 1000),),
            lambda of: of.numpy.sort,
            lambda torch: lambda x: torch.sort(x)[0],
            lambda: np.sort,
        ),
        Row(
            "top 10 of rows of 256 x 10,000",
            lambda: (floats(256, 10_000),),
            lambda of: lambda x: of.lax.top_k(x, 10),
            lambda torch: lambda x: torch.topk(x, 10),
        ),
        Row(
            "top 10 of a million integers",
            lambda: (whole_numbers(MILLION, MILLION),),
            lambda of: lambda x: of.lax.top_k(x, 10),
            lambda torch: lambda x: torch.topk(x, 10),
        ),
        Row(
            "maxima of rows of integers, 1000 x 1000",
            lambda: (whole_numbers(MILLION, 1000, 1000),),
            lambda of: lambda x: of.numpy.max(x, 1),
            lambda torch: lambda x: torch.amax(x, 1),
            lambda: lambda x: x.max(1),
            FLOAT * MILLION,
        ),
        Row(
            "count a million numbers below 1000",
            lambda: (whole_numbers(1000, MILLION),),
            lambda of: lambda x: of.numpy.bincount(x, length=1000),
            lambda torch: lambda x: torch.bincount(x, minlength=1000),
            lambda: lambda x: np.bincount(x, minlength=1000),
        ),
    ]


def linear_algebra_rows() -> list[Row]:
    """Factorizations, transforms and copies."""
    return [
        Row(
            "invert 10,000 of 5 x 5",
            lambda: (well_conditioned(10_000, 5, 5),),
            lambda of: of.numpy.linalg.inv,
            lambda torch: torch.linalg.inv,
            lambda: np.linalg.inv,
        ),
        Row(
            "solve 10,000 of 5 x 5",
            lambda: (well_conditioned(10_000, 5, 5), floats(10_000, 5, 1)),
            lambda of: of.numpy.linalg.solve,
            lambda torch: torch.linalg.solve,
            lambda: np.linalg.solve,
        ),
        Row(
            "qr of 256 x 256",
            lambda: (floats(256, 256),),
            lambda of: of.numpy.linalg.qr,
            lambda torch: torch.linalg.qr,
            lambda: np.linalg.qr,
        ),
        Row(
            "cholesky of 512 x 512",
            lambda: (positive_definite(512),),
            lambda of: of.numpy.linalg.cholesky,
            lambda torch: torch.linalg.cholesky,
            lambda: np.linalg.cholesky,
        ),
        Row(
            "fft of 64 rows of 4096",
            lambda: (floats(64, 4096).astype(np.complex64),),
            lambda of: of.numpy.fft.fft,
            lambda torch: torch.fft.fft,
            lambda: scipy("fft").fft,
        ),
        Row(
            "transpose 2048 x 2048",
            lambda: (floats(2048, 2048),),
            lambda of: lambda x: x.T,
            lambda torch: lambda x: x.t().contiguous(),
            lambda: lambda x: x.T.copy(),
            2 * FLOAT * 2048**2,
        ),
        Row(
            "take 100,000 rows of 64",
            lambda: (floats(100_000, 64), whole_numbers(100_000, 100_000)),
            lambda of: lambda x, i: of.numpy.take(x, i, axis=0),
            lambda torch: lambda x, i: torch.index_select(x, 0, i),
            lambda: lambda x, i: np.take(x, i, axis=0),
            2 * FLOAT * 64 * 100_000,
        ),
        Row(
            "2 x + 1 of 16 million",
            lambda: (floats(16 * MILLION),),
            lambda of: lambda x: 2 * x + 1,
            lambda torch: lambda x: 2 * x + 1,
            lambda: lambda x: 2 * x + 1,
            2 * FLOAT * 16 * MILLION,
        ),
        Row(
            "geometric mean of 46 rows of 10,000",
            lambda: (np.exp(floats(46, 10_000)),),
            lambda of: lambda x: of.numpy.exp(of.numpy.log(x).mean(0)),
            lambda torch: lambda x: torch.exp(torch.log(x).mean(0)),
            lambda: lambda x: np.exp(np.log(x).mean(0)),
        ),
    ]


def _gradient_of_torch(make: Callable[[Any], Function], torch: Any) -> Function:
    """The gradients of the sum of squares of a result, with respect to all arguments."""
    f = make(torch)

    def gradient(*xs: Any) -> Any:
        xs = tuple([x.detach().requires_grad_() for x in xs])
        return torch.autograd.grad((f(*xs) ** 2).sum(), xs)

    return gradient


def _gradient_of_xla(make: Callable[[Namespaces], Function], count: int, of: Namespaces) -> Function:
    """The same for effx and JAX."""
    f = make(of)
    gradient: Function = of.api.grad(lambda *xs: (f(*xs) ** 2).sum(), tuple(range(count)))
    return gradient


def network_rows() -> list[Row]:
    """Layers, and their gradients."""
    image, kernel, depthwise = (8, 56, 56, 64), (3, 3, 64, 64), (3, 3, 1, 64)

    def make_convolution(of: Namespaces, groups: int) -> Function:
        return lambda x, w: of.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
        )

    def make_convolution_of_torch(torch: Any, groups: int) -> Function:
        # Channels last in memory, as for the others.
        def f(x: Any, w: Any) -> Any:
            y = torch.nn.functional.conv2d(
                x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1, groups=groups
            )
            return y.permute(0, 2, 3, 1)

        return f

    def make_pool(of: Namespaces) -> Function:
        return lambda x: of.lax.reduce_window(x, -np.inf, of.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def make_pool_of_torch(torch: Any) -> Function:
        return lambda x: torch.nn.functional.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)

    def make_norm(of: Namespaces) -> Function:
        def f(x: Any, scale: Any, shift: Any) -> Any:
            centered = x - x.mean(-1, keepdims=True)
            variance = (centered * centered).mean(-1, keepdims=True)
            return centered * of.lax.rsqrt(variance + 1e-5) * scale + shift

        return f

    def make_norm_of_torch(torch: Any) -> Function:
        return lambda x, scale, shift: torch.nn.functional.layer_norm(x, (512,), scale, shift)

    def make_lstm(of: Namespaces) -> Function:
        def cell(state: Any, x: Any, u: Any, w: Any) -> Any:
            h, c = state
            i, f, g, o = of.numpy.split(x @ w + h @ u, 4, -1)
            c = of.nn.sigmoid(f) * c + of.nn.sigmoid(i) * of.numpy.tanh(g)
            h = of.nn.sigmoid(o) * of.numpy.tanh(c)
            return (h, c), h

        def f(x: Any, w: Any, u: Any) -> Any:
            start = of.numpy.zeros((x.shape[1], u.shape[0]), np.float32)
            return of.lax.scan(lambda state, x: cell(state, x, u, w), (start, start), x)[1]

        return f

    def make_lstm_of_torch(torch: Any) -> Function:
        module = torch.nn.LSTM(256, 256, bias=False)

        def f(x: Any, w: Any, u: Any) -> Any:
            return torch.func.functional_call(
                module, {"weight_ih_l0": w.t().contiguous(), "weight_hh_l0": u.t().contiguous()}, (x,)
            )[0]

        return f

    def lstm_arguments() -> tuple[Data, ...]:
        return floats(50, 32, 256), floats(256, 1024) / 16, floats(256, 1024, seed=1) / 16

    def norm_arguments() -> tuple[Data, ...]:
        return floats(64, 128, 512), floats(512), floats(512, seed=1)

    layers: dict[
        str,
        tuple[
            Callable[[], tuple[Data, ...]], Callable[[Namespaces], Function], Callable[[Any], Function], int
        ],
    ] = {
        "convolution 3 x 3, 64 channels": (
            lambda: (floats(*image), floats(*kernel) / 24),
            lambda of: make_convolution(of, 1),
            lambda torch: make_convolution_of_torch(torch, 1),
            2,
        ),
        "depthwise convolution 3 x 3, 64 channels": (
            lambda: (floats(*image), floats(*depthwise)),
            lambda of: make_convolution(of, 64),
            lambda torch: make_convolution_of_torch(torch, 64),
            2,
        ),
        "max pool 2 x 2": (lambda: (floats(*image),), make_pool, make_pool_of_torch, 1),
        "layer norm of 8192 x 512": (norm_arguments, make_norm, make_norm_of_torch, 3),
        "LSTM of 50 steps, batch 32, width 256": (lstm_arguments, make_lstm, make_lstm_of_torch, 3),
    }
    return [
        Row(name, arguments, xla_form, torch_form)
        for title, (arguments, xla, in_torch, count) in layers.items()
        for name, xla_form, torch_form in (
            (title, xla, in_torch),
            (
                f"{title}: gradient",
                partial(_gradient_of_xla, xla, count),
                partial(_gradient_of_torch, in_torch),
            ),
        )
    ]


def eager_rows() -> list[Row]:
    """Many small operations, one after the other."""

    def chain(sin: Function, maximum: Function) -> Function:
        def f(x: Any) -> Any:
            for _ in range(12):
                x = maximum(sin(x) * 0.5 + x, 0.1 * x)
            return x

        return f

    return [
        Row(
            "eager: 60 operations on 16 numbers",
            lambda: (floats(16),),
            lambda of: chain(of.numpy.sin, of.numpy.maximum),
            lambda torch: chain(torch.sin, torch.maximum),
            lambda: chain(np.sin, np.maximum),
            eager=True,
        )
    ]


def all_rows() -> Mapping[str, Row]:
    """All rows by title."""
    groups = (prefix_rows, ordering_rows, linear_algebra_rows, network_rows, eager_rows)
    return {row.title: row for group in groups for row in group()}
