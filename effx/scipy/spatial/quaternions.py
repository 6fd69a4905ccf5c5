"""Unit quaternions and other forms of rotations, along the last axis of arrays.

A quaternion is (x, y, z, w), with the real part last. Each form is differentiable at the identity too: where a formula
divides a small angle by itself, a series is used instead.
"""

from __future__ import annotations

import math

from effx.array import Array
from effx.array.arithmetic import absolute, remainder, where
from effx.array.reducing import argmax
from effx.array.reducing import sum as total
from effx.array.shaping import concatenate, expand_dims, stack, swapaxes
from effx.lax.linalg import eigh
from effx.numpy.binary import arctan2, hypot
from effx.numpy.elementwise import cos, sin, sqrt
from effx.numpy.indexing import take_along_axis
from effx.numpy.linear import cross, matmul
from effx.transforms.jit.jit import jit

# Below this square of an angle or of its tangent the series are as exact as the formulas, in double precision.
SMALL = 1e-4


def _last_index(*parts: Array) -> Array:
    return stack(parts, -1)


def _vector_and_scalar(q: Array) -> tuple[Array, Array]:
    """Returns vector and real part, the latter with an axis of size 1."""
    return q[..., :3], q[..., 3:]


def _safe_root(square: Array) -> tuple[Array, Array]:
    """Returns the root of a sum of squares with a finite slope, and where it is too small for its formulas."""
    small = square < SMALL
    return sqrt(where(small, 1, square)), small


@jit(inline=True)
def normalize(q: Array) -> Array:
    """Returns quaternions of length 1."""
    return q / sqrt(total(q * q, -1, keepdims=True))


@jit(inline=True)
def to_canonical(q: Array) -> Array:
    """Returns of q and -q the one whose last element that is not 0, from the real part on, is positive."""
    sign = where(
        q[..., 3] != 0,
        q[..., 3],
        where(q[..., 0] != 0, q[..., 0], where(q[..., 1] != 0, q[..., 1], q[..., 2])),
    )
    return where(expand_dims(sign < 0, -1), -q, q)


@jit(inline=True)
def multiply(p: Array, q: Array) -> Array:
    """Returns the product of quaternions: the rotation q, then p."""
    (u, a), (v, b) = _vector_and_scalar(p), _vector_and_scalar(q)
    vector = a * v + b * u + cross(u, v)
    return concatenate([vector, a * b - total(u * v, -1, keepdims=True)], -1)


@jit(inline=True)
def inverse(q: Array) -> Array:
    """Returns the rotations back."""
    u, w = _vector_and_scalar(q)
    return concatenate([-u, w], -1)


@jit(inline=True)
def rotate_vectors(q: Array, vectors: Array) -> Array:
    """Returns vectors rotated: v + 2 w (u x v) + 2 u x (u x v)."""
    u, w = _vector_and_scalar(q)
    twice = 2 * cross(u, vectors)
    return vectors + w * twice + cross(u, twice)


@jit(inline=True)
def angle(q: Array) -> Array:
    """Returns angles in [0, pi]."""
    u, w = _vector_and_scalar(q)
    length, small = _safe_root(total(u * u, -1))
    size = absolute(w[..., 0])
    near = total(u * u, -1)
    # The root of small squares has no slope at 0; there the angle is 0, and its slope is taken as 0.
    tiny = near == 0
    exact = where(small, where(tiny, 0, sqrt(where(tiny, 1, near))), length)
    return 2 * arctan2(exact, size)


@jit(inline=True)
def from_vector(v: Array) -> Array:
    """Returns the rotation about a vector by its length."""
    square = total(v * v, -1, keepdims=True)
    a, small = _safe_root(square)
    # The sine of half the angle over the angle, and its cosine.
    scale = where(small, 0.5 - square / 48 + square * square / 3840, sin(a / 2) / a)
    real = where(small, 1 - square / 8 + square * square / 384, cos(a / 2))
    return concatenate([scale * v, real], -1)


@jit(inline=True)
def to_vector(q: Array) -> Array:
    """Returns the axis of a rotation times its angle, at most pi."""
    u, w = _vector_and_scalar(q)
    u, w = where(w < 0, -u, u), absolute(w)
    square = total(u * u, -1, keepdims=True)
    length, small = _safe_root(square)
    # 2 arctan(t) / t / w with t = |u| / w
    t = square / where(small, w * w, 1)
    series = 2 * (1 - t / 3 + t * t / 5 - t * t * t / 7) / where(small, w, 1)
    return where(small, series, 2 * arctan2(length, w) / length) * u


@jit(inline=True)
def to_matrix(q: Array) -> Array:
    """Returns rotation matrices."""
    x, y, z, w = [q[..., i] for i in range(4)]
    rows = [
        _last_index(1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)),
        _last_index(2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)),
        _last_index(2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)),
    ]
    return stack(rows, -2)


@jit(inline=True)
def from_matrix(m: Array) -> Array:
    """Returns quaternions of matrices, by that of four formulas that divides by the largest number.

    Source: Shepperd, "Quaternion from rotation matrix", 1978.
    """
    d = [m[..., i, i] for i in range(3)]
    trace = d[0] + d[1] + d[2]
    largest = argmax(_last_index(*d, trace), -1)
    forms = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts = [d[i]] * 4
        parts[i] = 1 - trace + 2 * d[i]
        parts[j] = m[..., j, i] + m[..., i, j]
        parts[k] = m[..., k, i] + m[..., i, k]
        parts[3] = m[..., k, j] - m[..., j, k]
        forms.append(_last_index(*parts))
    odd = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]]
    forms.append(_last_index(*odd, 1 + trace))
    at = expand_dims(largest, (-2, -1))
    candidates = take_along_axis(stack(forms, -2), at, axis=-2)
    return normalize(candidates[..., 0, :])


@jit(inline=True)
def from_mrp(p: Array) -> Array:
    """Returns quaternions of modified Rodrigues parameters."""
    square = total(p * p, -1, keepdims=True)
    return concatenate([2 * p, 1 - square], -1) / (1 + square)


@jit(inline=True)
def to_mrp(q: Array) -> Array:
    """Returns modified Rodrigues parameters of length at most 1."""
    u, w = _vector_and_scalar(q)
    return where(w < 0, -u, u) / (1 + absolute(w))


@jit(static_argnames=("axes", "intrinsic"), inline=True)
def from_axes(axes: str, intrinsic: bool, angles: Array) -> Array:
    """Returns the quaternions of rotations about axes by `[*batch, k]` angles, one after another."""
    result: Array | None = None
    for i, axis in enumerate(axes):
        half = angles[..., i] / 2
        parts = [half * 0] * 3
        parts["xyz".index(axis)] = sin(half)
        q = _last_index(*parts, cos(half))
        result = q if result is None else multiply(result, q) if intrinsic else multiply(q, result)
    assert result is not None
    return result


@jit(static_argnames=("axes", "intrinsic"), inline=True)
def to_axes(q: Array, axes: str, intrinsic: bool) -> Array:
    """Returns `[*batch, 3]` angles about axes.

    Source: Bernardes and Viollet, "Quaternion to Euler angles conversion: a direct, general and computationally
    efficient method", 2022.
    """
    first, second, third = ["xyz".index(c) for c in (axes[::-1] if intrinsic else axes)]
    proper = first == third
    if proper:
        third = 3 - first - second
    sign = (first - second) * (second - third) * (third - first) // 2
    x, y, z, w = q[..., first], q[..., second], q[..., third] * sign, q[..., 3]
    a, b, c, d = (w, x, y, z) if proper else (w - y, x + z, y + w, z - x)
    middle = 2 * arctan2(hypot(c, d), hypot(a, b))
    half_sum, half_difference = arctan2(b, a), arctan2(d, c)
    # At the poles only the sum or the difference of the outer angles is known; the last one is then 0.
    low, high = absolute(middle) <= 1e-7, absolute(middle - math.pi) <= 1e-7
    one, other = half_sum - half_difference, half_sum + half_difference
    free = where(low, 2 * half_sum, 2 * half_difference * (1 if intrinsic else -1))
    pole = low | high
    if intrinsic:
        one, other = where(pole, 0, one), where(pole, free, other)
    else:
        one, other = where(pole, free, one), where(pole, 0, other)
    if not proper:
        other, middle = other * sign, middle - math.pi / 2
    angles = [other, middle, one] if intrinsic else [one, middle, other]
    turn = 2 * math.pi
    return _last_index(*[remainder(t + math.pi, turn) - math.pi for t in angles])


@jit(inline=True)
def mean(q: Array, weights: Array) -> Array:
    """Returns the mean of `[n, 4]` quaternions: the eigenvector of the largest eigenvalue of their outer products' sum.

    Source: Markley, Cheng, Crassidis and Oshman, "Averaging quaternions", 2007.
    """
    outer = matmul(swapaxes(q, -1, -2) * weights, q, precision="highest")
    vectors, _ = eigh(outer)
    return vectors[..., -1]
