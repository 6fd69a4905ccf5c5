"""Recurrences for the Taylor coefficients of results (Griewank & Walther 2008, tables 13.1 and 13.2).

With x = sum of x_k t^k, the coefficient of t^k in each equation gives z_k from earlier ones. Other operations
have the general rule of `series`.
"""

import math
from collections.abc import Sequence
from functools import reduce
from operator import add

import effx.numpy as enp
from effx import Array
from effx.handling import Unary, ops
from effx.library.jets.series import Jet, Jets, padded

__all__ = ["divide", "product"]


def total(terms: Sequence[Array]) -> Array:
    """Returns the sum of one or more terms."""
    return reduce(add, terms)


def _broadcast_like(x: Array, like: Array) -> Array:
    return x if x.shape == like.shape else enp.broadcast_to(x, like.shape)


@Jets.rule(ops.Add, ops.Sub)
def plus(op: ops.Add | ops.Sub, x: Jet, y: Jet) -> Jet:
    z = op(x.primal, y.primal)
    if x.terms and y.terms:
        return Jet(z, tuple([op(a, b) for a, b in zip(x.terms, y.terms, strict=True)]))
    moved = x.terms if x.terms or type(op) is ops.Add else [-b for b in y.terms]
    return Jet(z, tuple([_broadcast_like(c, z) for c in moved or y.terms]))


@Jets.rule(ops.Mul, ops.DotGeneral)
def product(op: ops.Mul | ops.DotGeneral, x: Jet, y: Jet) -> Jet:
    # z_k = sum_i x_i y_{k-i}
    if not y.terms:
        return Jet(op(x.primal, y.primal), tuple([op(c, y.primal) for c in x.terms]))
    if not x.terms:
        return Jet(op(x.primal, y.primal), tuple([op(x.primal, c) for c in y.terms]))
    a, b = x.series, y.series
    z = [total([op(a[i], b[k - i]) for i in range(k + 1)]) for k in range(len(a))]
    return Jet(z[0], tuple(z[1:]))


@Jets.rule(ops.Square)
def square(op: ops.Square, x: Jet) -> Jet:
    return product(ops.Mul(), x, x)


@Jets.rule(ops.IntegerPow)
def integer_power(op: ops.IntegerPow, x: Jet) -> Jet:
    # By repeated squaring, which is defined for a base of 0.
    n, y, base = abs(op.exponent), Jet(enp.ones_like(x.primal), ()), x
    while n:
        if n % 2:
            y = product(ops.Mul(), y, base)
        n //= 2
        base = product(ops.Mul(), base, base) if n else base
    if op.exponent < 0:
        y = divide(ops.Div(), Jet(enp.ones_like(x.primal), ()), y)
    return Jet(op(x.primal), padded(y, len(x.terms)).terms)


@Jets.rule(ops.Div)
def divide(op: ops.Div, x: Jet, y: Jet) -> Jet:
    # z y = x, so z_k y_0 = x_k - sum_{i>0} z_{k-i} y_i
    z = [op(x.primal, y.primal)]
    if not y.terms:
        return Jet(z[0], tuple([_broadcast_like(op(c, y.primal), z[0]) for c in x.terms]))
    for k in range(1, len(y.series)):
        known_terms = total([z[k - i] * y.series[i] for i in range(1, k + 1)])
        z.append(op((x.series[k] - known_terms) if x.terms else -known_terms, y.primal))
    return Jet(z[0], tuple(z[1:]))


# Functions with y' = (a + b y + c y^2) x': the operation and (a, b, c).
FLOWS: dict[type[Unary], tuple[float, float, float]] = {
    ops.Exp: (0.0, 1.0, 0.0),
    ops.Exp2: (0.0, math.log(2.0), 0.0),
    ops.Expm1: (1.0, 1.0, 0.0),
    ops.Tan: (1.0, 0.0, 1.0),
    ops.Tanh: (1.0, 0.0, -1.0),
    ops.Logistic: (0.0, 1.0, -1.0),
}


@Jets.rule(*FLOWS)
def flow(op: Unary, x: Jet) -> Jet:
    # k y_k = sum_{i>0} i x_i w_{k-i} with w = a + b y + c y^2
    a, b, c = FLOWS[type(op)]
    y = [op(x.primal)]
    w: list[Array] = []
    for k in range(1, len(x.series)):
        parts = [y[k - 1] * b] if b else []
        if c:
            parts.append(total([y[i] * y[k - 1 - i] for i in range(k)]) * c)
        w.append(total(parts) + a if a and k == 1 else total(parts))
        y.append(total([x.series[i] * w[k - i] * float(i) for i in range(1, k + 1)]) * (1.0 / k))
    return Jet(y[0], tuple(y[1:]))


@Jets.rule(ops.Sin, ops.Cos, ops.Sinh, ops.Cosh)
def wave(op: ops.Sin | ops.Cos | ops.Sinh | ops.Cosh, x: Jet) -> Jet:
    # s' = c x' and c' = -s x', with a plus for the hyperbolic ones
    circular = isinstance(op, ops.Sin | ops.Cos)
    s, c = ([f(x.primal)] for f in ((ops.Sin(), ops.Cos()) if circular else (ops.Sinh(), ops.Cosh())))
    sign = -1.0 if circular else 1.0
    for k in range(1, len(x.series)):
        moved = [x.series[i] * float(i) for i in range(1, k + 1)]
        ds = total([m * c[k - i] for i, m in enumerate(moved, 1)]) * (1.0 / k)
        dc = total([m * s[k - i] for i, m in enumerate(moved, 1)]) * (sign / k)
        s.append(ds)
        c.append(dc)
    y = s if isinstance(op, ops.Sin | ops.Sinh) else c
    return Jet(y[0], tuple(y[1:]))


def _logarithm(y: Array, x: Jet) -> Jet:
    # x y' = x', so k x_0 y_k = k x_k - sum_{0<i<k} i y_i x_{k-i}
    ys = [y]
    for k in range(1, len(x.series)):
        rest = [ys[i] * x.series[k - i] * (i / k) for i in range(1, k)]
        ys.append((x.series[k] - total(rest) if rest else x.series[k]) / x.primal)
    return Jet(y, tuple(ys[1:]))


@Jets.rule(ops.Log)
def logarithm(op: ops.Log, x: Jet) -> Jet:
    return _logarithm(op(x.primal), x)


@Jets.rule(ops.Log1p)
def logarithm_of_one_more(op: ops.Log1p, x: Jet) -> Jet:
    return _logarithm(op(x.primal), Jet(x.primal + 1.0, x.terms))


@Jets.rule(ops.Sqrt)
def square_root(op: ops.Sqrt, x: Jet) -> Jet:
    # y y = x, so 2 y_0 y_k = x_k - sum_{0<i<k} y_i y_{k-i}
    y = [op(x.primal)]
    for k in range(1, len(x.series)):
        rest = [y[i] * y[k - i] for i in range(1, k)]
        y.append((x.series[k] - total(rest) if rest else x.series[k]) * 0.5 / y[0])
    return Jet(y[0], tuple(y[1:]))


@Jets.rule(ops.Pow)
def power(op: ops.Pow, x: Jet, y: Jet) -> Jet:
    z = op(x.primal, y.primal)
    order = max(len(x.terms), len(y.terms))
    if not y.terms:
        # (x_0 + h)^y = sum_j binomial(y, j) x_0^(y-j) h^j, by Horner. Where the binomial is 0, so is the term,
        # also at x_0 = 0, where the power may be infinite.
        step = Jet(enp.zeros_like(x.primal), x.terms)
        factors = [enp.ones_like(y.primal)]
        for j in range(order):
            factors.append(factors[-1] * (y.primal - float(j)) / float(j + 1))
        coefficients = [
            z,
            *[_safe(op, f, x.primal, y.primal - float(j)) for j, f in enumerate(factors[1:], 1)],
        ]
        w = Jet(coefficients[-1], ())
        for c in reversed(coefficients[:-1]):
            w = product(ops.Mul(), w, step)
            w = Jet(_broadcast_like(w.primal + c, z), padded(w, order).terms)
        return Jet(z, tuple([_broadcast_like(c, z) for c in w.terms]))
    w = flow(ops.Exp(), product(ops.Mul(), y, logarithm(ops.Log(), x)))
    return Jet(z, tuple([_broadcast_like(c, z) for c in w.terms]))


def _safe(op: ops.Pow, factor: Array, x: Array, y: Array) -> Array:
    zero = factor == 0.0
    return enp.where(zero, 0.0, factor * op(x, enp.where(zero, 1.0, y)))


@Jets.rule(ops.Sort)
def sort(op: ops.Sort, *xs: Jet) -> tuple[Jet | Array, ...]:
    index_arrays = enp.broadcast_to(
        enp.expand_dims(
            enp.arange(xs[0].primal.shape[op.axis]), [i for i in range(xs[0].primal.ndim) if i != op.axis]
        ),
        xs[0].primal.shape,
    )
    *ys, order = op(*[x.primal for x in xs], index_arrays)
    return tuple(
        [
            Jet(y, tuple([enp.take_along_axis(c, order, axis=op.axis) for c in x.terms])) if x.terms else y
            for x, y in zip(xs, ys, strict=True)
        ]
    )


@Jets.rule(ops.Threefry2x32)
def random_bits(op: ops.Threefry2x32, *xs: Jet) -> tuple[Array, ...]:
    return op(*[x.primal for x in xs])
