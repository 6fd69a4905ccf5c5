"""Loops, branches and transformations inside of an expression."""

from effx.laws.portable.cases import Family
from effx.laws.portable.families.shapes import BOOLEANS

LOOPS = [
    Family(
        "loops",
        [
            "lax.scan(lambda c, x: (c * x + 0.3, (c, x * x)), x1, x0, reverse={reverse}, unroll={unroll})[1][0]",
            "lax.scan(lambda c, x: (c * x, c), x1, x0, reverse={reverse}, unroll={unroll})[0]",
            "lax.scan(lambda c, _: (c * x0.sum(), c), x1, None, length=3)[1]",
            "lax.scan(lambda c, x: ((c[1], c[0] * x), None), (x1, x1 * 2), x0, reverse={reverse})[0][0]",
            "lax.scan(lambda c, x: (c, c), x1, x0)[1]",
            "lax.map(lambda x: x * x1 + enp.sin(x), x0)",
            "lax.map(lambda x: x * x1, x0, batch_size=2)",
            "lax.fori_loop(0, x0.shape[0], lambda i, c: c * x0[i] + 1.0, x1)",
            "lax.fori_loop(1, 3, lambda i, c: c * i, x1) + x0",
            "lax.scan(lambda c, x: (lax.cond(x > 0.1357, lambda v: v * x, lambda v: v + x, c), c), x1, x0)[1]",
            "lax.scan(effx.checkpoint(lambda c, x: (enp.sin(c) * x, c)), x1, x0)[1]",
            "lax.scan(lambda c, x: (lax.scan(lambda d, y: (d * y, d), c, x0)[0] + x, c), x1, x0)[1]",
            "effx.vmap(lambda x: lax.cond(x > 0.1357, lambda: x * x1, lambda: x1))(x0)",
            "effx.vmap(lambda x, y: x * y, (0, None), 0)(x0, x1)",
            "effx.vmap(lambda x: x1)(x0)",
            "effx.jit(lambda x, y: (x * y).sum())(x0, x1) * x0",
            "effx.grad(lambda x: (x ** 3 * x1).sum())(x0)",
            "effx.jvp(lambda x: x ** 3 * x1, (x0,), (x0,))[1]",
            "effx.vmap(effx.grad(lambda x: enp.sin(x) * x1))(x0)",
            "effx.hessian(lambda x: (enp.sin(x) * x1).sum())(x0)",
            "effx.jacfwd(lambda x: x * x.sum() * x1)(x0)",
            "effx.jacrev(lambda x: x * x.sum() * x1)(x0)",
            "effx.linearize(lambda x: x ** 2 * x1, x0)[1](x0)",
            "effx.vjp(lambda x: x ** 2 * x1, x0)[1](x0)[0]",
            "effx.checkpoint(lambda x: enp.sin(x * x1))(x0)",
            "lax.custom_linear_solve(lambda v: v * (x1 + 2), x0, lambda mv, b: b / (x1 + 2), symmetric=True)",
            "lax.reduce(x0, x1, lax.add, (0,))",
            "lax.reduce(x0, 1.0, lax.mul, (0,)) * x1",
        ],
        [((3,), ()), ((1,), ()), ((4,), ())],
        {"reverse": BOOLEANS, "unroll": ("1", "2", "5", "True")},
    ),
]
