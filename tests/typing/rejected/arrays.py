"""Mistakes with dtypes and sizes that a type checker finds. Each wrong line has the expected message."""

import effx.numpy as enp
from effx import Array, Scalar, Size


class K(Size): ...


class M(Size): ...


class N(Size): ...


def sizes(x: Array[enp.float32, M, N], v: Array[enp.float32, N], u: Array[enp.float32, K]) -> None:
    x @ x  # expect: operator
    x @ u  # expect: operator
    v @ u  # expect: operator
    u @ x  # expect: operator
    x.T @ x.T  # expect: operator
    a: Array[enp.float32, N] = x  # expect: assignment "Array[float32, M, N]"
    b: Array[enp.float32, N, M] = x  # expect: assignment
    c: Array[enp.float32, N, M] = x.T
    d: Array[enp.float32, N] = u  # expect: assignment
    e: Scalar[enp.float32] = v  # expect: assignment
    gram = x @ x.T
    f: Array[enp.float32, N, N] = gram  # expect: assignment "Array[float32, M, M]"
    for row in v.sum():  # expect: misc
        print(row)
    print(a, b, c, d, e, f)


def dtypes(x: Array[enp.float32, N], i: Array[enp.int32, N], b: Array[enp.bool_, N]) -> None:
    a: Array[enp.int32, N] = x  # expect: assignment
    half = x.astype(enp.float16)
    c: Array[enp.bfloat16, N] = half  # expect: assignment "Array[float16, N]"
    d: Array[enp.float32, N] = x > 0  # expect: assignment "Array[bool_, N]"
    e: Array[enp.float32, N] = i + 1  # expect: assignment "Array[int32, N]"
    f: Array[enp.int32, N] = enp.sin(x)  # expect: assignment
    g: Array[enp.int32, N] = enp.isnan(x)  # expect: assignment
    h: Scalar[enp.int32] = x.sum()  # expect: assignment
    zeros, bytes_ = enp.zeros_like(x), enp.zeros(N(3), enp.int8)
    j: Array[enp.int32, N] = zeros  # expect: assignment
    k: Array[enp.int16, N] = bytes_  # expect: assignment
    m: Array[enp.int8, M] = bytes_  # expect: assignment "Array[int8, N]"
    print(a, b, c, d, e, f, g, h, j, k, m)


def ranks(x: Array[enp.float32, M, N]) -> None:
    a: Array[enp.float32, M] = x[0]  # expect: assignment "Array[float32, N]"
    b: Array[enp.float32, M, N] = x[0]  # expect: assignment
    c: Array[enp.float32, N] = x.mean()  # expect: assignment
    d: list[Array[enp.float32, M]] = list(x)  # expect: arg-type
    print(a, b, c, d)


def arguments(x: Array[enp.float32, N]) -> None:
    enp.sin("a")  # expect: call-overload
    enp.sin(x, x)  # expect: call-overload
    x + "a"  # expect: operator
    x.astype()  # expect: call-overload
    x.summ()  # expect: attr-defined
    x.at[0].sett(1.0)  # expect: attr-defined
