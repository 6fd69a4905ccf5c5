"""Expressions that act on each element."""

from effx.laws.portable.cases import Family
from effx.laws.portable.families.shapes import ANY, PAIRS, TRIPLES, call_each

ELEMENTWISE = [
    Family(
        "elementwise",
        [
            *call_each(
                "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh exp exp2 expm1 log1p square sinc i0 "
                "negative positive deg2rad rad2deg nan_to_num cbrt real abs sign"
            ),
            *call_each("logistic erf erfc erf_inv bessel_i0e bessel_i1e tanh expm1", module="lax"),
            *call_each("erf erfc erfinv expit ndtr log_ndtr i0 i1 i0e i1e", module="special"),
            *call_each(
                "softplus silu sigmoid soft_sign log_sigmoid elu selu celu gelu squareplus mish hard_tanh",
                module="nn",
            ),
            "nn.gelu(x0, approximate=False)",
            "lax.integer_pow(x0, 3)",
            "x0 ** 2",
            "x0 ** 3",
            "x0 ** 0",
            "x0 ** 1",
        ],
        ANY,
        domain=(-0.9, 0.9),
    ),
    Family(
        "elementwise of positive numbers",
        [
            *call_each("log log2 log10 sqrt reciprocal"),
            *call_each("rsqrt lgamma digamma sqrt", module="lax"),
            *call_each("gammaln digamma gamma entr exp1 expi spence factorial", module="special"),
            "x0 ** 0.5",
            "x0 ** -1",
            "x0 ** -2",
            "x0 ** 1.5",
            "2.0 ** x0",
            "special.polygamma(1, x0)",
            "special.multigammaln(x0 + 1.0, 2)",
        ],
        ANY,
        domain=(0.3, 2.5),
    ),
    Family(
        "elementwise above 1",
        ["enp.arccosh(x0)", "special.zeta(x0, 2.0)", "special.logit(1 / x0)"],
        ANY,
        domain=(1.3, 3.0),
    ),
    Family(
        "steps",
        [
            *call_each("floor ceil trunc rint round sign"),
            "enp.where(enp.isfinite(x0), x0, 0.0)",
            "enp.heaviside(x0, 0.5)",
            "enp.clip(x0, -0.3, 0.4)",
            "nn.relu(x0)",
            "nn.relu6(x0 * 9)",
            "nn.leaky_relu(x0)",
            "enp.fabs(x0)",
            "enp.modf(x0 * 3)[0]",
            "enp.unwrap(x0 * 9)",
            "lax.clamp(-0.3, x0, 0.4)",
            "(x0 > 0.1357).astype(x0.dtype)",
            "enp.spacing(x0) + x0",
            "enp.frexp(x0)[0] + x0",
        ],
        [((3,),), ((2, 3),), ((1,),)],
    ),
    Family(
        "binary",
        [
            *call_each(
                "add subtract multiply maximum minimum hypot logaddexp logaddexp2 fmax fmin arctan2 copysign",
                "x0, x1",
            ),
            "enp.where(x0 > x1, x0 * 2, x1)",
            "x0 / (x1 + 2.5)",
            "enp.divide(x0, x1 * x1 + 0.5)",
            "enp.power(x0 + 1.5, x1)",
            "enp.float_power(x0 + 1.5, x1)",
            "(x0 + 1.5) ** x1",
            "x0 * x1 + x0",
            "enp.remainder(x0 * 5, x1 + 2.3)",
            "enp.fmod(x0 * 5, x1 + 2.3)",
            "x0 * 5 % (x1 + 2.3)",
            "enp.floor_divide(x0 * 5, x1 + 2.3)",
            "enp.divmod(x0 * 5, x1 + 2.3)[1]",
            "special.xlogy(x0, x1 + 1.5)",
            "special.xlog1py(x0, x1 + 1.5)",
            "enp.where(x1 > 0.0123, x0, 0.0)",
            "enp.ldexp(x0, 3) * x1",
            "enp.maximum(x0, 0.1) * x1",
            "x0 - 0.5 * x1",
        ],
        PAIRS,
    ),
    Family(
        "binary of positive numbers",
        [
            *call_each("betaln gammainc gammaincc rel_entr kl_div beta poch", "x0, x1", "special"),
            "special.zeta(x0 + 1.2, x1)",
            "special.betainc(x0, x1, 0.3)",
            "lax.igamma(x0 + 0 * x1, x1 + 0 * x0)",
            "lax.igammac(x0 + 0 * x1, x1 + 0 * x0)",
            "enp.power(x0, x1)",
            "x0 ** x1",
            "lax.pow(x0 + 0 * x1, x1 + 0 * x0)",
        ],
        [((3,), (3,)), ((), ()), ((2, 1), (2,))],
        domain=(0.4, 2.5),
    ),
    Family(
        "ternary",
        [
            "enp.where(x0 > 0.0123, x1, x2)",
            "enp.clip(x0, x1 - 1, x2 + 1)",
            "x0 * x1 + x2",
            "enp.select([x0 > x1, x0 > x2], [x1, x2], x0)",
            "enp.where(enp.isnan(x0), x1, x0 * x2)",
            "enp.interp(x0, enp.asarray([-1.0, 0.1, 1.0]), enp.asarray([0.5, 0.7, -0.3])) + x1 + x2",
        ],
        TRIPLES,
    ),
]
