"""Rotations of space, and interpolation between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from effx import dtypes, random
from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, broadcast_to, convert, promote_dtypes
from effx.array.shaping import concatenate, expand_dims, reshape
from effx.dtypes import DTypeLike
from effx.errors import DTypeError, ShapeError, name_user_call
from effx.ir.values.array import Index
from effx.lazy import list_names
from effx.numpy.creation import array
from effx.numpy.sorting import searchsorted
from effx.scipy.spatial import quaternions

__all__ = ["Rotation", "Slerp"]
__dir__ = list_names(__all__)

Numbers = Operand | Sequence[float] | Sequence[Sequence[float]]


def _to_real(x: Numbers) -> Array:
    a = arithmetic.to_inexact(array(x) if isinstance(x, list | tuple) else as_operand(x))  # type: ignore[arg-type]  # no sequence
    if a.type.kind == "c":
        raise DTypeError(f"{name_user_call()}: takes real numbers, got {a.type!r}")
    return convert(a, a.type.dtype)


def _check_trailing_axis(name: str, x: Numbers, *sizes: int) -> Array:
    a = _to_real(x)
    if a.type.shape[max(a.type.ndim - len(sizes), 0) :] != sizes:
        raise ShapeError(
            f"{name_user_call()}: {name} must be [*batch, {', '.join(map(str, sizes))}], got {a.type!r}"
        )
    return a


def _check_axes(seq: str, least: int) -> tuple[str, bool]:
    """Returns the letters of axes in lower case, and whether they turn with the body."""
    valid = least <= len(seq) <= 3 and (set(seq) <= set("xyz") or set(seq) <= set("XYZ"))
    if not valid or any([a == b for a, b in pairwise(seq)]):
        count = "3" if least == 3 else "1 to 3"
        raise DTypeError(
            f"{name_user_call()}: seq must be {count} of the axes x, y, z, or of X, Y, Z, no two neighbours the same, "
            f"got {seq!r}"
        )
    return seq.lower(), seq.isupper()


class Rotation(NamedTuple):
    """A rotation of space, or an array of rotations; a pytree.

    Attributes:
        quat: `[4]` or `[*batch, 4]` quaternions (x, y, z, w) of length 1.

    >>> r = Rotation.from_euler("z", 90, degrees=True)
    >>> r.apply(np.array([1.0, 0.0, 0.0])).round(3).tolist()
    [0.0, 1.0, 0.0]
    """

    quat: Array

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Joins rotations to one array of them.

        Raises:
            ShapeError: there are none.

        >>> len(Rotation.concatenate([Rotation.identity(2), Rotation.identity()]))
        3
        """
        parts = [r.quat if r.quat.type.ndim > 1 else expand_dims(r.quat, 0) for r in rotations]
        if not parts:
            raise ShapeError("Rotation.concatenate: needs a rotation")
        return cls(concatenate(parts, 0))

    @classmethod
    def from_euler(cls, seq: str, angles: Numbers, degrees: bool = False) -> Rotation:
        """Rotations about up to three axes, one after another.

        Args:
            seq: the axes: lower case for those of space, upper case for those that turn with the body.
            angles: `[*batch, k]` for k axes; for one axis `[*batch]` too.
            degrees: True for angles in degrees.

        Raises:
            ShapeError: not one angle for each axis.
            DTypeError: there are no such axes.

        >>> Rotation.from_euler("xyz", [0.0, 0.0, 60.0], degrees=True).as_quat().round(3).tolist()[2]
        0.5
        """
        axes, intrinsic = _check_axes(seq, 1)
        values = _to_real(angles)
        if len(axes) == 1 and not (values.type.ndim == 2 and values.type.shape[-1] == 1):
            values = expand_dims(values, -1)
        values = _check_trailing_axis("angles", values, len(axes))
        if degrees:
            values = values * (math.pi / 180)
        return cls(quaternions.from_axes(axes, intrinsic, values))

    @classmethod
    def from_matrix(cls, matrix: Numbers) -> Rotation:
        """Rotations of `[*batch, 3, 3]` orthogonal matrices of determinant 1.

        >>> Rotation.from_matrix(np.eye(3)).as_quat().tolist()
        [0.0, 0.0, 0.0, 1.0]
        """
        return cls(quaternions.from_matrix(_check_trailing_axis("matrix", matrix, 3, 3)))

    @classmethod
    def from_mrp(cls, mrp: Numbers) -> Rotation:
        """Rotations of `[*batch, 3]` modified Rodrigues parameters: axes times the tangent of a quarter of the angle.

        >>> Rotation.from_mrp(np.zeros(3)).as_quat().tolist()
        [0.0, 0.0, 0.0, 1.0]
        """
        return cls(quaternions.from_mrp(_check_trailing_axis("mrp", mrp, 3)))

    @classmethod
    def from_quat(cls, quat: Numbers) -> Rotation:
        """Rotations of `[*batch, 4]` quaternions (x, y, z, w), which are brought to the length 1.

        >>> Rotation.from_quat(np.array([0.0, 0.0, 0.0, 2.0])).quat.tolist()
        [0.0, 0.0, 0.0, 1.0]
        """
        return cls(quaternions.normalize(_check_trailing_axis("quat", quat, 4)))

    @classmethod
    def from_rotvec(cls, rotvec: Numbers, degrees: bool = False) -> Rotation:
        """Rotations about `[*batch, 3]` vectors by their lengths.

        Args:
            rotvec: the vectors.
            degrees: True for lengths in degrees.

        >>> Rotation.from_rotvec([0.0, 0.0, 60.0], degrees=True).as_quat().round(3).tolist()[2]
        0.5
        """
        vectors = _check_trailing_axis("rotvec", rotvec, 3)
        return cls(quaternions.from_vector(vectors * (math.pi / 180) if degrees else vectors))

    @classmethod
    def identity(cls, num: int | None = None, dtype: DTypeLike = float) -> Rotation:
        """The rotation that changes nothing, or `num` of it.

        >>> Rotation.identity(2).quat.shape
        (2, 4)
        """
        unit = convert(as_operand(np.array([0, 0, 0, 1], np.int32)), dtypes.canonicalize_requested(dtype))
        return cls(unit if num is None else broadcast_to(unit, (num, 4)))

    @classmethod
    def random(cls, random_key: Operand, num: int | None = None) -> Rotation:
        """Uniformly distributed rotations.

        Args:
            random_key: a key.
            num: how many, for an array of them; one by default.

        Source: Muller, "A note on a method for generating points uniformly on n-dimensional spheres", 1959.

        >>> from effx import random
        >>> Rotation.random(random.PRNGKey(0), 3).quat.shape
        (3, 4)
        """
        return cls(quaternions.normalize(random.normal(random_key, (4,) if num is None else (num, 4))))

    def __getitem__(self, indexer: Index) -> Rotation:  # type: ignore[override]  # an array of rotations, no tuple
        """Chooses among an array of rotations."""
        self._count("an index")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        """The number of rotations in an array of them."""
        return self._count("a length")

    def __bool__(self) -> bool:
        """True; an array of no rotations is one too."""
        return True

    def __mul__(self, other: Rotation) -> Rotation:  # type: ignore[override]  # composes, and repeats no tuple
        """The rotation `other`, then this one."""
        return Rotation(quaternions.multiply(*promote_dtypes(self.quat, other.quat)))

    def _count(self, name: str) -> int:
        if self.single:
            raise ShapeError(f"Rotation: a single rotation has no {name.partition(' ')[2]}")
        size: int = self.quat.type.shape[0]
        return size

    def apply(self, vectors: Numbers, inverse: bool = False) -> Array:
        """Rotates `[*batch, 3]` vectors.

        Args:
            vectors: of a batch that broadcasts with that of rotations.
            inverse: True to rotate back.

        >>> Rotation.identity().apply([1.0, 2.0, 3.0]).tolist()
        [1.0, 2.0, 3.0]
        """
        v = _check_trailing_axis("vectors", vectors, 3)
        q, v = promote_dtypes(quaternions.inverse(self.quat) if inverse else self.quat, v)
        return quaternions.rotate_vectors(q, v)

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """The angles of rotations about three axes, one after another.

        At the poles, where two axes fall together, the last angle is 0.

        Args:
            seq: the axes: lower case for those of space, upper case for those that turn with the body.
            degrees: True for angles in degrees.

        Returns:
            `[*batch, 3]` angles; the outer ones in [-pi, pi], the middle one in [0, pi] where the first axis is the last
            one too, else in [-pi / 2, pi / 2].

        Raises:
            DTypeError: there are no such axes.

        >>> Rotation.from_euler("x", 0.5).as_euler("xyz").round(3).tolist()
        [0.5, 0.0, 0.0]
        """
        angles = quaternions.to_axes(self.quat, *_check_axes(seq, 3))
        return angles * (180 / math.pi) if degrees else angles

    def as_matrix(self) -> Array:
        """The `[*batch, 3, 3]` matrices.

        >>> Rotation.identity().as_matrix().diagonal().tolist()
        [1.0, 1.0, 1.0]
        """
        return quaternions.to_matrix(self.quat)

    def as_mrp(self) -> Array:
        """The `[*batch, 3]` modified Rodrigues parameters, of length at most 1.

        >>> Rotation.identity().as_mrp().tolist()
        [0.0, 0.0, 0.0]
        """
        return quaternions.to_mrp(self.quat)

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """The `[*batch, 4]` quaternions.

        Args:
            canonical: True for that of q and -q whose real part is positive, or whose first other part is.
            scalar_first: True for the order (w, x, y, z).

        >>> Rotation.identity().as_quat(scalar_first=True).tolist()
        [1.0, 0.0, 0.0, 0.0]
        """
        q = quaternions.to_canonical(self.quat) if canonical else self.quat
        return concatenate([q[..., 3:], q[..., :3]], -1) if scalar_first else q

    def as_rotvec(self, degrees: bool = False) -> Array:
        """The `[*batch, 3]` axes, times the angles, which are at most pi.

        >>> Rotation.from_euler("x", 0.5).as_rotvec().round(3).tolist()
        [0.5, 0.0, 0.0]
        """
        vectors = quaternions.to_vector(self.quat)
        return vectors * (180 / math.pi) if degrees else vectors

    def inv(self) -> Rotation:
        """The rotations back.

        >>> Rotation.from_euler("x", 0.5).inv().as_rotvec().round(3).tolist()[0]
        -0.5
        """
        return Rotation(quaternions.inverse(self.quat))

    def magnitude(self) -> Array:
        """The angles, in [0, pi].

        >>> float(Rotation.from_euler("x", 0.5).magnitude().round(3))
        0.5
        """
        return quaternions.angle(self.quat)

    def mean(self, weights: Numbers | None = None) -> Rotation:
        """The mean of an array of rotations: that of the least squared distances.

        Args:
            weights: `[n]`, one for each; 1 by default.

        Raises:
            ShapeError: this is a single rotation, or there is not one weight for each.

        >>> Rotation.from_euler("x", [0.4, 0.6]).mean().as_rotvec().round(3).tolist()[0]
        0.5
        """
        count = self._count("a mean")
        w = _to_real(np.ones(count, np.float32) if weights is None else weights)
        if w.type.shape != (count,) or self.quat.type.ndim != 2:
            raise ShapeError(
                f"Rotation.mean: weights must be one for each of {count} rotations, got {w.type!r}"
            )
        return Rotation(quaternions.mean(self.quat, convert(w, self.quat.type.dtype)))

    @property
    def single(self) -> bool:
        """Whether this is one rotation and no array of them."""
        return self.quat.type.ndim == 1


class Slerp(NamedTuple):
    """Interpolation between rotations at the speed of a great circle.

    Source: Shoemake, "Animating rotation with quaternion curves", 1985.

    Attributes:
        times: `[n]` rising times.
        timedelta: `[n - 1]` differences of them.
        rotations: at these times, but for the last one.
        rotvecs: `[n - 1, 3]`, the ways from one to the next.

    >>> slerp = Slerp.init(np.array([0.0, 1.0]), Rotation.from_euler("x", [0.0, 1.0]))
    >>> slerp(0.25).as_rotvec().round(3).tolist()
    [0.25, 0.0, 0.0]
    """

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: Numbers, rotations: Rotation) -> Slerp:
        """Makes an interpolation.

        Args:
            times: `[n]` rising numbers, at least two.
            rotations: n of them.

        Raises:
            ShapeError: there is not one time for each rotation, or there are fewer than two.
        """
        at = _to_real(times)
        q = rotations.quat
        if at.type.ndim != 1 or q.type.shape != (at.type.size, 4) or at.type.size < 2:
            raise ShapeError(
                f"Slerp: needs a time for each of at least 2 rotations, got {at.type!r} and {q.type!r}"
            )
        begin = Rotation(q[:-1])
        return cls(at, at[1:] - at[:-1], begin, (begin.inv() * Rotation(q[1:])).as_rotvec())

    def __call__(self, times: Numbers) -> Rotation:
        """The rotations at times; before the first and after the last one, further along the outermost ways.

        Args:
            times: a number, or `[m]`.

        Raises:
            ShapeError: times of more than one axis.
        """
        t = _to_real(times)
        if t.type.ndim > 1:
            raise ShapeError(f"Slerp: times must be a number or a vector, got {t.type!r}")
        i = arithmetic.clip(searchsorted(self.times, t, side="right") - 1, 0, self.timedelta.type.size - 1)
        share = (t - self.times[i]) / self.timedelta[i]
        way = reshape(share, (*t.type.shape, 1)) * self.rotvecs[i]
        return Rotation(self.rotations.quat[i]) * Rotation.from_rotvec(way)
