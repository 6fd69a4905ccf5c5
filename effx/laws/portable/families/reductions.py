"""Sums, products, extremes, running results, logarithms of sums and norms."""

from effx.laws.portable.cases import Family
from effx.laws.portable.families.shapes import ARRAYS, AXES, BOOLEANS, EMPTY, call_each

REDUCTIONS = [
    Family(
        "sums",
        [
            *call_each("sum mean prod nansum nanmean nanprod", "x0, axis={axis}, keepdims={keep}"),
            "enp.sum(x0, axis={axis}, where=x0 > 0.1)",
            "enp.prod(x0, axis={axis}, where=x0 < 0.3, initial=0.7)",
            "enp.average(x0, axis={axis})",
            "enp.mean(x0, axis={axis}, where=x0 < 2)",
            "enp.linalg.norm(x0 + 3, axis=0)",
            "enp.count_nonzero(x0, axis={axis}).astype(x0.dtype) + x0.sum(axis={axis})",
        ],
        ARRAYS,
        {"axis": AXES, "keep": BOOLEANS},
    ),
    Family(
        "sums of nothing",
        [*call_each("sum prod cumsum cumprod", "x0, axis={axis}"), "enp.max(x0, axis={axis}, initial=0.5)"],
        [*EMPTY, ((3, 2),)],
        {"axis": ("0", "-1")},
    ),
    Family(
        "spreads",
        [
            *call_each("var std nanvar nanstd", "x0, axis={axis}, ddof={ddof}"),
            "nn.standardize(x0, axis={axis})",
            "enp.cov(x0)",
            "enp.corrcoef(x0)",
        ],
        [((4,),), ((2, 3),), ((3, 4),)],
        {"axis": ("0", "-1"), "ddof": ("0", "1")},
        total=False,
    ),
    Family(
        "extremes",
        [
            *call_each("max min nanmax nanmin ptp median nanmedian", "x0, axis={axis}, keepdims={keep}"),
            "enp.max(x0, axis={axis}, initial=0.1357, where=x0 < 0.5)",
            "enp.min(x0, axis={axis}, initial=0.1357)",
            "enp.quantile(x0, {q}, axis={axis}, method={method})",
            "enp.percentile(x0, 37.5, axis={axis}, method={method})",
            "enp.nanquantile(x0, {q}, axis={axis}, method={method})",
            "enp.argmax(x0, axis={axis}).astype(x0.dtype)",
            "lax.top_k(x0, 1)[0]",
        ],
        ARRAYS,
        {
            "axis": AXES,
            "keep": BOOLEANS,
            "q": ("0.3", "0.75", "0.0", "1.0"),
            "method": ("'linear'", "'lower'", "'higher'", "'midpoint'", "'nearest'"),
        },
    ),
    Family(
        "running",
        [
            *call_each("cumsum cumprod nancumsum nancumprod", "x0, axis={axis}"),
            *call_each(
                "cumsum cumprod cummax cummin cumlogsumexp", "x0, axis={at}, reverse={reverse}", "lax"
            ),
            "lax.associative_scan(enp.multiply, x0, axis={at}, reverse={reverse})",
            "lax.associative_scan(lambda a, b: a * b + a, x0, axis={at}, reverse={reverse})",
            "enp.diff(x0, n={n}, axis={at})",
            "enp.diff(x0, axis={at}, prepend=0.3)",
            "enp.trapezoid(x0, axis={at})",
            "enp.ediff1d(x0)",
        ],
        [*ARRAYS, ((5,),)],
        {"axis": AXES, "at": ("0", "1 - 1"), "reverse": BOOLEANS, "n": ("1", "2", "0")},
    ),
    Family(
        "logarithms of sums",
        [
            "nn.logsumexp(x0, axis={axis})",
            "special.logsumexp(x0, axis={axis}, b=x0 + 1.5)",
            "special.logsumexp(x0, axis={axis}, keepdims=True)",
            "nn.softmax(x0, axis={at})",
            "nn.log_softmax(x0, axis={at})",
            "nn.softmax(x0, axis={at}, where=x0 < 0.4)",
            "nn.log_softmax(x0, axis={at}, where=x0 < 2)",
            "special.softmax(x0, axis={at})",
            "nn.glu(enp.concatenate([x0, x0], -1))",
            "nn.logmeanexp(x0, axis={axis})",
        ],
        [((3,),), ((2, 3),), ((1, 4),)],
        {"axis": AXES, "at": ("0", "-1")},
    ),
    Family(
        "norms",
        [
            "enp.linalg.norm(x0, {order}, axis=0)",
            "enp.linalg.norm(x0)",
            "enp.linalg.vector_norm(x0, axis=-1, ord={order})",
            "nn.standardize(x0 + 0.1)",
        ],
        [((3,),), ((2, 3),)],
        {"order": ("2", "1", "3", "np.inf", "-np.inf", "0.5", "-1", "2.5", "0")},
        domain=(0.2, 1.4),
        total=False,
    ),
]
