"""A sweep over the functions of arrays: how long each runs against JAX, at many sizes, along rows and along columns.

Never: measures Python or compiling; nothing has a budget of its own, only what is slower than `LIMIT` is listed.
"""

from __future__ import annotations

import argparse
import gc
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, final

import attrs
import numpy as np

from benchmarks import report
from benchmarks.cases import Case
from benchmarks.functions import Library
from benchmarks.measure import measure
from benchmarks.peers import Peer, Tree
from benchmarks.timing import Effort, Thunk

LIMIT = 1.2
# Why a function may stay above the limit: digits that JAX loses.
REASONS = {
    "standardize": "distances from the first element are squared, which leaves digits to elements far from 0",
    "digamma": "right to a rounding beside its root at 1.4616",
    **dict.fromkeys(("max", "min", "ptp", "window max"), "NaN stays, which JAX passes over"),
    "top_k": "NaN of both signs comes first, and zeros of both signs are equal",
    "kl_div": "numbers that are alike do not cancel",
    "log_ndtr": "exact in relative terms where ndtr underflows or is near 1",
    "gelu": "1 + tanh cancels where x is negative, the logistic function does not",
}


@final
@attrs.frozen
class Layout:
    """Shape of the operand, and the axis along which functions work."""

    name: str
    shape: tuple[int, ...]
    axis: int = -1


LINES = tuple([Layout(f"{n:,}", (n,)) for n in (1_000, 1_024, 30_000, 2**16, 10**6, 2**20, 3_000_000, 10**7)])
MATRICES = (
    Layout("50 rows of 20", (50, 20)),
    Layout("50,000 rows of 20", (50_000, 20)),
    Layout("50,000 columns of 20", (20, 50_000), 0),
    Layout("1,000 rows of 1,000", (1_000, 1_000)),
    Layout("1,000 columns of 1,000", (1_000, 1_000), 0),
    Layout("1,024 rows of 1,024", (1_024, 1_024)),
    Layout("1,024 columns of 1,024", (1_024, 1_024), 0),
    Layout("16 rows of 2^16", (16, 2**16)),
)
# What knows of no axis is the same for all shapes.
SIZES = tuple([layout for layout in LINES if layout.shape[0] in (1_000, 30_000, 2**20, 3_000_000)])
QUICK = (LINES[0], LINES[2], MATRICES[0], MATRICES[3])

Arrays: TypeAlias = tuple[np.ndarray[tuple[int, ...], np.dtype[np.generic]], ...]
Draw: TypeAlias = Callable[[Layout], Arrays]


def draw_normal(layout: Layout) -> Arrays:
    """Random numbers of a normal distribution."""
    return (np.random.default_rng(sum(layout.shape)).normal(size=layout.shape).astype(np.float32),)


def draw_positive(layout: Layout) -> Arrays:
    """Random numbers above one."""
    return (1 + np.abs(draw_normal(layout)[0]),)


def draw_unit(layout: Layout) -> Arrays:
    """Random numbers between 0.01 and 0.99."""
    return (np.random.default_rng(sum(layout.shape)).uniform(0.01, 0.99, layout.shape).astype(np.float32),)


def draw_pair(layout: Layout) -> Arrays:
    """Two arrays, the second one positive."""
    return draw_normal(layout) + draw_positive(layout)


def draw_indexed(layout: Layout) -> Arrays:
    """An array and for each element of its axis an index along it."""
    n = layout.shape[layout.axis]
    return (*draw_normal(layout), np.random.default_rng(n).integers(0, n, n).astype(np.int32))


def draw_batch(layout: Layout) -> Arrays:
    """As many elements in well-conditioned matrices of 3 by 3."""
    x = np.random.default_rng(9).normal(size=(max(1, math.prod(layout.shape) // 9), 3, 3))
    return ((x @ x.transpose(0, 2, 1) + 3 * np.eye(3)).astype(np.float32),)


def draw_square(layout: Layout) -> Arrays:
    """A square matrix of at most as many elements."""
    n = math.isqrt(math.prod(layout.shape))
    return draw_normal(Layout(layout.name, (n, n)))


@final
@attrs.frozen
class Function:
    """A function that is measured.

    Attributes:
        name: what is shown.
        apply: what it does to its operands, whatever library gives the namespaces.
        layouts: at which sizes.
        draw: makes the operands for a size.
        has_gradient: whether its gradient is measured too.
        has_oracle: whether `apply` is as good with the namespaces of NumPy and SciPy.
    """

    name: str
    apply: Callable[..., Tree]
    layouts: tuple[Layout, ...] = SIZES
    draw: Draw = draw_normal
    has_gradient: bool = False
    has_oracle: bool = True


def name_functions(
    part: str, names: str, layouts: tuple[Layout, ...] = SIZES, draw: Draw = draw_normal
) -> list[Function]:
    """Functions of a namespace that are called with the operands alone; an asterisk asks for the gradient too."""

    def call(name: str) -> Callable[..., Tree]:
        return lambda a, layout, *xs: getattr(getattr(a, part), name)(*xs)

    return [
        Function(name.rstrip("*"), call(name.rstrip("*")), layouts, draw, name.endswith("*"), part != "nn")
        for name in names.split()
    ]


def along_axis(part: str, names: str, draw: Draw = draw_normal) -> list[Function]:
    """Functions of a namespace that take an axis."""

    def call(name: str) -> Callable[..., Tree]:
        return lambda a, layout, *xs: getattr(getattr(a, part), name)(*xs, axis=layout.axis)

    return [
        Function(
            name.rstrip("*"), call(name.rstrip("*")), LINES + MATRICES, draw, name.endswith("*"), part != "nn"
        )
        for name in names.split()
    ]


def cumulate(name: str) -> Function:
    def apply(a: Library, layout: Layout, x: Tree) -> Tree:
        return getattr(a.lax, name)(x, axis=layout.axis % x.ndim)

    return Function(name, apply, LINES + MATRICES, has_oracle=False)


def put_along(layout: Layout, index: object) -> tuple[object, ...]:
    """An index along the layout's axis."""
    return (slice(None),) * (layout.axis % len(layout.shape)) + (index,)


def sum_windows(a: Library, layout: Layout, x: Tree, width: int = 8) -> Tree:
    window = tuple([width if i == layout.axis % x.ndim else 1 for i in range(x.ndim)])
    return a.lax.reduce_window(x, 0.0, a.lax.add, window, (1,) * x.ndim, "VALID")


def largest_in_windows(a: Library, layout: Layout, x: Tree, width: int = 8) -> Tree:
    window = tuple([width if i == layout.axis % x.ndim else 1 for i in range(x.ndim)])
    return a.lax.reduce_window(x, -np.inf, a.lax.max, window, window, "VALID")


def mixed(x: Tree) -> Tree:
    """Finite numbers, NaN and infinities."""
    return x / (abs(x) > 0.1)


AXES = LINES + MATRICES
FUNCTIONS: tuple[Function, ...] = (
    *name_functions(
        "xp",
        "abs negative positive sign square exp* exp2 expm1 sin* cos tan tanh* sinh cosh arcsinh arctan sinc* "
        "floor ceil rint trunc round isfinite isnan isinf isposinf isneginf signbit nan_to_num* cbrt reciprocal "
        "deg2rad rad2deg logical_not i0* iscomplex isreal angle real conj spacing frexp modf",
    ),
    *name_functions("xp", "log* log2 log10 log1p* sqrt* arccosh", draw=draw_positive),
    *name_functions("xp", "arcsin arccos arctanh", draw=draw_unit),
    *name_functions(
        "xp",
        "add subtract multiply* divide* maximum* minimum fmax arctan2* hypot logaddexp* logaddexp2 power fmod "
        "remainder floor_divide divmod copysign heaviside nextafter float_power less equal not_equal logical_and isclose",
        draw=draw_pair,
    ),
    *name_functions(
        "special",
        "erf* erfc expit* i0e i1 i1e ndtr* log_ndtr gammaln* digamma entr",
    ),
    *name_functions("special", "erfinv* logit ndtri", draw=draw_unit),
    *name_functions("special", "gamma loggamma", draw=draw_positive),
    *name_functions("special", "xlogy xlog1py rel_entr kl_div", draw=lambda t: draw_positive(t) * 2),
    *name_functions(
        "nn", "relu* relu6 gelu* silu* softplus* sigmoid log_sigmoid elu selu celu leaky_relu hard_tanh mish"
    ),
    *along_axis("nn", "softmax* log_softmax* standardize"),
    *along_axis("special", "logsumexp*"),
    *along_axis(
        "xp",
        "sum* prod* max* min mean* var* std* argmax argmin ptp median nansum nanmean nanmax nanvar nanargmax "
        "count_nonzero any all average sort* argsort cumsum* cumprod* diff* gradient* trapezoid* flip",
    ),
    *[cumulate(name) for name in ("cummax", "cummin", "cumlogsumexp")],
    Function("norm", lambda a, t, x: a.linalg.norm(x, axis=t.axis), AXES, has_gradient=True),
    Function("quantile", lambda a, t, x: a.xp.quantile(x, 0.3, axis=t.axis), AXES),
    Function("percentiles", lambda a, t, x: a.xp.percentile(x, np.array([5.0, 50.0]), axis=t.axis), LINES),
    Function("sum of all", lambda a, t, x: a.xp.sum(x), MATRICES),
    Function("argmax of all", lambda a, t, x: a.xp.argmax(x), MATRICES),
    Function("sort descending", lambda a, t, x: a.xp.flip(a.xp.sort(x, axis=t.axis), t.axis), AXES),
    Function(
        "top_k", lambda a, t, x: a.lax.top_k(a.xp.moveaxis(x, t.axis, -1), 10)[0], AXES, has_oracle=False
    ),
    Function("partition", lambda a, t, x: a.xp.partition(x, 5, axis=t.axis), (*LINES[:3], *MATRICES[:3])),
    Function("roll", lambda a, t, x: a.xp.roll(x, 3, axis=t.axis), AXES),
    Function("window sum", sum_windows, AXES, has_oracle=False, has_gradient=True),
    Function("window max", largest_in_windows, AXES, has_oracle=False, has_gradient=True),
    Function("clip", lambda a, t, x: a.xp.clip(x, -1.0, 1.0), has_gradient=True),
    Function("where", lambda a, t, x: a.xp.where(x > 0, x, 2 * x), has_gradient=True),
    Function("nan_to_num of mixed", lambda a, t, x: a.xp.nan_to_num(mixed(x))),
    Function("integer power", lambda a, t, x: x**3, has_gradient=True),
    Function("logical mean", lambda a, t, x: a.xp.mean(x > 0, axis=t.axis), AXES),
    Function("sum of integers", lambda a, t, x: a.xp.sum(x.astype(np.int32), axis=t.axis), AXES),
    Function("every second", lambda a, t, x: x[put_along(t, slice(None, None, 2))], AXES, has_gradient=True),
    Function("backwards", lambda a, t, x: x[put_along(t, slice(None, None, -1))], AXES),
    Function("tail", lambda a, t, x: x[put_along(t, slice(1, None))], AXES, has_gradient=True),
    Function("take", lambda a, t, x, i: a.xp.take(x, i, axis=t.axis), AXES, draw_indexed),
    Function(
        "take with a stride",
        lambda a, t, x: a.xp.take(x, np.arange(0, x.shape[t.axis], 3), axis=t.axis),
        AXES,
        has_gradient=True,
    ),
    Function("index", lambda a, t, x, i: x[put_along(t, i)], AXES, draw_indexed),
    Function(
        "take_along_axis",
        lambda a, t, x: a.xp.take_along_axis(x, a.xp.argsort(x, axis=t.axis), axis=t.axis),
        (*LINES[:3], *MATRICES[:3]),
    ),
    Function(
        "at set",
        lambda a, t, x: x.at[put_along(t, slice(None, None, 2))].set(0.0),
        AXES,
        has_oracle=False,
        has_gradient=True,
    ),
    Function(
        "at add", lambda a, t, x, i: x.at[put_along(t, i)].add(1.0), AXES, draw_indexed, has_oracle=False
    ),
    Function(
        "dynamic slice",
        lambda a, t, x, i: a.lax.dynamic_slice_in_dim(x, i[0], x.shape[t.axis] // 2, t.axis % x.ndim),
        AXES,
        draw_indexed,
        has_oracle=False,
    ),
    Function("pad", lambda a, t, x: a.xp.pad(x, 2), AXES, has_gradient=True),
    Function("pad by reflection", lambda a, t, x: a.xp.pad(x, 2, mode="reflect"), AXES),
    Function("concatenate", lambda a, t, x: a.xp.concatenate([x, x], axis=t.axis), AXES, has_gradient=True),
    Function("stack", lambda a, t, x: a.xp.stack([x, x], axis=t.axis), AXES),
    Function("repeat", lambda a, t, x: a.xp.repeat(x, 3, axis=t.axis), AXES),
    Function("tile", lambda a, t, x: a.xp.tile(x, 2), AXES),
    Function("transpose", lambda a, t, x: a.xp.copy(x.T) + 1, MATRICES),
    Function("tril", lambda a, t, x: a.xp.tril(x), MATRICES, has_gradient=True),
    Function("triu", lambda a, t, x: a.xp.triu(x, 1), MATRICES),
    Function("diagonal", lambda a, t, x: a.xp.diagonal(x), MATRICES),
    Function("trace", lambda a, t, x: a.xp.trace(x), SIZES, draw_square),
    Function("diag", lambda a, t, x: a.xp.diag(x), LINES[:2]),
    Function("searchsorted", lambda a, t, x: a.xp.searchsorted(a.xp.sort(x), x), LINES[:6]),
    Function("digitize", lambda a, t, x: a.xp.digitize(x, np.linspace(-2, 2, 20).astype(np.float32))),
    Function("histogram", lambda a, t, x: a.xp.histogram(x, 20, (-3.0, 3.0))[0]),
    Function(
        "bincount",
        lambda a, t, x, i: a.xp.bincount(i % 100, length=100),
        SIZES,
        draw_indexed,
        has_oracle=False,
    ),
    Function("interp", lambda a, t, x: a.xp.interp(x, np.arange(9.0), np.arange(9.0) ** 2)),
    Function("unique", lambda a, t, x: a.xp.unique(a.xp.round(x, 1), size=60), LINES[:6], has_oracle=False),
    Function("nonzero", lambda a, t, x: a.xp.nonzero(x > 1, size=100)[0], LINES, has_oracle=False),
    Function(
        "convolve", lambda a, t, x: a.xp.convolve(x, np.ones(5, np.float32), "same"), LINES, has_gradient=True
    ),
    Function("correlate", lambda a, t, x: a.xp.correlate(x, np.arange(5, dtype=np.float32)), LINES),
    Function("polyval", lambda a, t, x: a.xp.polyval(np.arange(4, dtype=np.float32), x), has_gradient=True),
    Function("dot", lambda a, t, x, y: a.xp.dot(x, y), LINES, draw_pair, has_gradient=True),
    Function("outer", lambda a, t, x: a.xp.outer(x[:1_000], x[:1_000]), SIZES),
    Function("matmul", lambda a, t, x: x @ x, SIZES[:3], draw_square, has_gradient=True),
    Function("matrix by vector", lambda a, t, x: x @ x[0], SIZES, draw_square),
    Function("products of pairs", lambda a, t, x, y: a.xp.einsum("ij,ij->i", x, y), MATRICES, draw_pair),
    Function("cross", lambda a, t, x: a.xp.cross(x[..., :3], x[..., 1:4]), MATRICES[:2]),
    Function("cov", lambda a, t, x: a.xp.cov(x), (MATRICES[0], MATRICES[3])),
    Function("kron", lambda a, t, x: a.xp.kron(x[:30], x[:30]), SIZES[:1]),
    Function("vander", lambda a, t, x: a.xp.vander(x, 5), SIZES[:3]),
    Function("det 3x3", lambda a, t, x: a.linalg.det(x), SIZES, draw_batch, has_gradient=True),
    Function("inv 3x3", lambda a, t, x: a.linalg.inv(x), SIZES[:3], draw_batch),
    Function("cholesky 3x3", lambda a, t, x: a.linalg.cholesky(x), SIZES[:3], draw_batch),
    Function("solve 3x3", lambda a, t, x: a.linalg.solve(x, x), SIZES[:3], draw_batch),
    Function("matmul 3x3", lambda a, t, x: x @ x, SIZES, draw_batch, has_gradient=True),
)


def pull_back(function: Function, layout: Layout, library: Library) -> Callable[..., Tree]:
    """The gradient of half the sum of the squares of what a function gives, with respect to its first operand."""

    def f(x: Tree, *rest: Tree) -> Tree:
        y, pull = library.api.vjp(lambda v: function.apply(library, layout, v, *rest), x)
        return pull(y)[0]

    return f


def apply_to_arrays(function: Function, layout: Layout, library: Library) -> Callable[..., Tree]:
    """The function of its arrays alone."""
    return lambda *xs: function.apply(library, layout, *xs)


def prepare_run(function: Function, layout: Layout, is_gradient: bool) -> Callable[[Peer], Thunk]:
    """How to make the call of a compiled function."""

    def prepare(peer: Peer) -> Thunk:
        library = Library(peer)
        operands = [library.xp.asarray(x) for x in function.draw(layout)]
        compiled = peer.api.jit((pull_back if is_gradient else apply_to_arrays)(function, layout, library))
        return lambda: compiled(*operands)

    return prepare


def cases(quick: bool) -> list[Case]:
    """Every function at every size, and its gradient."""
    rows: list[Case] = []
    for function in FUNCTIONS:
        for layout in function.layouts:
            if quick and layout not in QUICK:
                continue
            for kind in ("", "gradient of ") if function.has_gradient else ("",):
                run = prepare_run(function, layout, bool(kind))
                slow = math.prod(layout.shape) > 2**20
                rows.append(Case(kind + function.name, layout.name, run, None, slow=slow))
    return rows


def compare_minima(row: report.Row) -> float | None:
    """The ratio of the shortest runs: what else a machine does makes runs longer, never shorter."""
    if row.errors or len(row.samples) < 2:
        return None
    return min(row.samples["effx"].seconds) / min(row.samples["jax"].seconds)


def summarize(ratios: Sequence[tuple[str, float]]) -> Iterable[str]:
    """The lines below the table: the geometric mean, and what is above the limit, slowest first."""
    if not ratios:
        return
    mean = math.exp(sum(math.log(ratio) for _, ratio in ratios) / len(ratios))
    above = sorted([(ratio, title) for title, ratio in ratios if ratio > LIMIT], reverse=True)
    yield f"{len(ratios)} rows, geometric mean {mean:.3f} of JAX's time, {len(above)} above {LIMIT}"
    for ratio, title in above:
        reason = REASONS.get(title.partition(":")[0].removeprefix("gradient of "))
        yield f"{ratio:8.2f}  {title}{'' if reason is None else f' ({reason})'}"


def print_sweep(options: argparse.Namespace, libraries: Sequence[Peer]) -> int:
    """Measure, print, write JSON; what is above the limit is measured again before it is said so."""
    names = [peer.name for peer in libraries]
    rows: list[report.Row] = []
    ratios: list[tuple[str, float]] = []
    columns = "".join([f"{name + ' us':>13}" for name in names])
    print(f"\nSweep: functions of arrays, the shortest of some runs\n{'':44}{columns}{'ratio':>9}")
    effort = Effort(rounds=5, least=0.002) if options.quick else Effort(rounds=11, least=0.004)
    for case in cases(options.quick):
        if re.search(options.filter, case.title) is None:
            continue
        # Each timing collects garbage first: not what both libraries have loaded, which is most of all time.
        gc.freeze()
        case_effort = attrs.evolve(effort, rounds=3) if case.slow else effort
        row = measure(case, libraries, case_effort)
        ratio = compare_minima(row)
        if ratio is not None and ratio > LIMIT:
            row = measure(case, libraries, attrs.evolve(effort, rounds=2 * case_effort.rounds))
            ratio = compare_minima(row)
        rows.append(row)
        times = [row.samples.get(name) for name in names]
        text = "".join([f"{'-':>13}" if t is None else f"{min(t.seconds) * 1e6:13,.1f}" for t in times])
        print(
            f"{row.title:44}{text}{'' if ratio is None else f'{ratio:9.3f}'}{report.tell_errors(row)}",
            flush=True,
        )
        if ratio is not None:
            ratios.append((row.title, ratio))
    report.write(rows, names, "sweep")
    print()
    for text in summarize(ratios):
        print(text)
    return 1 if options.check and any(ratio > LIMIT for _, ratio in ratios) else 0
