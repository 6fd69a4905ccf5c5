"""Rotations have SciPy's values in every form, and slopes at the identity too."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation as ScipyRotation
from scipy.spatial.transform import Slerp as ScipySlerp

import effx
from effx import random
from effx.errors import EffxError
from effx.scipy.spatial.transform import Rotation, Slerp

RNG = np.random.default_rng(0)
QUATS = RNG.normal(size=(20, 4))
# Half turns, the identity, small angles.
EDGES = np.array(
    [
        [1.0, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
        [0, 0, 0, -1],
        [1e-4, 2e-4, 0, 1],
        [1e-9, 0, 1e-9, -1],
    ]
)
ALL = np.concatenate([QUATS, EDGES])


@pytest.fixture(autouse=True)
def wide() -> Any:
    with effx.enable_x64(True):
        yield


def same(got: Any, want: Any, **kwargs: Any) -> None:
    np.testing.assert_allclose(got, want, **{"atol": 1e-12, "rtol": 1e-10, **kwargs})


def test_forms() -> None:
    here: Any = Rotation.from_quat(ALL)
    there = ScipyRotation.from_quat(ALL)
    same(here.as_quat(), there.as_quat())
    same(here.as_quat(canonical=True), there.as_quat(canonical=True))
    same(here.as_quat(scalar_first=True), there.as_quat(scalar_first=True))
    same(here.as_matrix(), there.as_matrix())
    same(here.as_mrp(), there.as_mrp())
    same(here.magnitude(), there.magnitude())
    # At half turns both axes are right.
    inner = np.r_[:20, 23:27]
    same(here[inner].as_rotvec(), there[inner].as_rotvec())
    same(here[inner].as_rotvec(degrees=True), there[inner].as_rotvec(degrees=True))
    same(here.inv().as_matrix(), there.inv().as_matrix())
    single = Rotation.from_quat(QUATS[0])
    assert single.single
    assert not here.single
    same(single.as_matrix(), there[0].as_matrix())


def test_made_of_forms() -> None:
    there = ScipyRotation.from_quat(ALL)
    vectors = there.as_rotvec()
    for made in (
        Rotation.from_matrix(there.as_matrix()),
        Rotation.from_mrp(there.as_mrp()),
        Rotation.from_rotvec(vectors),
        Rotation.from_rotvec(np.rad2deg(vectors), degrees=True),
    ):
        same(made.as_matrix(), there.as_matrix())
        same(np.linalg.norm(made.quat, axis=-1), np.ones(len(ALL)))
    batch = Rotation.from_rotvec(vectors[:6].reshape(2, 3, 3))
    same(batch.as_matrix()[1, 2], there[5].as_matrix())


SEQUENCES = ["".join(s) for s in product("xyz", repeat=3) if s[0] != s[1] != s[2]]


@pytest.mark.parametrize("upper", [False, True])
def test_angles_about_axes(upper: bool) -> None:
    """Every order of axes, and the poles, where the last angle is 0."""
    for seq in SEQUENCES[::4] if upper else SEQUENCES[1::2]:
        name = seq.upper() if upper else seq
        there = ScipyRotation.from_quat(QUATS[:8])
        same(Rotation.from_quat(QUATS[:8]).as_euler(name), there.as_euler(name))
        middle = 0.0 if seq[0] == seq[2] else np.pi / 2
        pole = np.array([[0.3, middle, 0.4], [0.3, middle + np.pi if middle == 0 else -middle, 0.4]])
        made = Rotation.from_euler(name, pole)
        same(made.as_matrix(), ScipyRotation.from_euler(name, pole).as_matrix())
        angles = made.as_euler(name)
        same(Rotation.from_euler(name, angles).as_matrix(), made.as_matrix(), atol=1e-7)
        same(angles[:, 2], np.zeros(2))
    there = ScipyRotation.from_quat(QUATS)
    same(Rotation.from_quat(QUATS).as_euler("xyz", degrees=True), there.as_euler("xyz", degrees=True))
    rows: list[tuple[str, Any]] = [
        ("x", 0.3),
        ("z", np.array([[0.1], [0.2]])),
        ("xy", np.array([0.1, 0.2])),
        ("YX", np.ones((4, 2))),
    ]
    for name, angles in rows:
        for degrees in (False, True):
            got = Rotation.from_euler(name, angles, degrees)
            same(got.as_matrix(), ScipyRotation.from_euler(name, angles, degrees).as_matrix())
    same(Rotation.from_euler("y", [0.1, 0.2]).as_rotvec(), [[0, 0.1, 0], [0, 0.2, 0]])


def test_composition() -> None:
    here: Any = Rotation.from_quat(QUATS)
    there = ScipyRotation.from_quat(QUATS)
    vectors = RNG.normal(size=(20, 3))
    same(here.apply(vectors), there.apply(vectors))
    same(here.apply(vectors, inverse=True), there.apply(vectors, inverse=True))
    same(here[0].apply(vectors), there[0].apply(vectors))
    same(here.apply([1.0, 2.0, 3.0]), there.apply([1.0, 2.0, 3.0]))
    same((here * here[3]).as_matrix(), (there * there[3]).as_matrix())
    same((here[3] * here).as_matrix(), (there[3] * there).as_matrix())
    for weights in (None, RNG.uniform(size=20)):
        same(here.mean(weights).as_matrix(), there.mean(weights).as_matrix())
    joined = Rotation.concatenate([here[0], here[1:3], here[3]])
    assert (len(joined), bool(joined), len(here[2:2])) == (4, True, 0)
    same(joined.as_matrix(), there[:4].as_matrix())
    assert [len(list(Rotation.identity(n).quat)) for n in (1, 3)] == [1, 3]
    assert Rotation.identity(dtype="float32").quat.tolist() == [0, 0, 0, 1]
    assert Rotation.identity(dtype="float32").quat.dtype == np.float32


def test_random_rotations() -> None:
    """Uniform: the mean of the matrices vanishes, and the angle has its density, whose mean is pi / 2 + 2 / pi."""
    many = Rotation.random(random.key(0), 4000)
    same(np.linalg.norm(many.quat, axis=-1), np.ones(4000))
    assert np.abs(many.as_matrix().mean(0)).max() < 0.04
    assert abs(float(many.magnitude().mean()) - (np.pi / 2 + 2 / np.pi)) < 0.04
    assert Rotation.random(random.key(1)).single


def test_interpolation() -> None:
    times = np.array([0.0, 1.0, 3.0, 4.0])
    slerp, there = (
        Slerp.init(times, Rotation.from_quat(QUATS[:4])),
        ScipySlerp(times, ScipyRotation.from_quat(QUATS[:4])),
    )
    at = np.array([0.0, 0.3, 1.0, 2.9, 4.0])
    same(slerp(at).as_matrix(), there(at).as_matrix())
    same(slerp(0.3).as_matrix(), there(0.3).as_matrix())
    step = slerp(3.9).inv() * slerp(4.0)
    same((slerp(4.0).inv() * slerp(4.1)).as_matrix(), step.as_matrix(), atol=1e-10)
    same(effx.jit(lambda s, t: s(t).as_matrix())(slerp, at), there(at).as_matrix())
    h = 1e-6
    slope = effx.jacfwd(lambda t: slerp(t).as_rotvec())(2.0)
    same(slope, (slerp(2.0 + h).as_rotvec() - slerp(2.0 - h).as_rotvec()) / (2 * h), atol=1e-8)


SLOPES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "quat of rotvec": (lambda v: Rotation.from_rotvec(v).as_quat(), 3),
    "rotvec": (lambda v: Rotation.from_rotvec(v).as_rotvec(), 3),
    "matrix": (lambda v: Rotation.from_rotvec(v).as_matrix(), 3),
    "of matrix": (lambda v: Rotation.from_matrix(np.eye(3) + v.reshape(3, 3)).as_quat(), 9),
    "mrp": (lambda v: Rotation.from_mrp(v).as_mrp(), 3),
    "applied": (lambda v: Rotation.from_rotvec(v).apply([1.0, 2.0, 3.0]), 3),
    "composed": (lambda v: (Rotation.from_rotvec(v) * Rotation.from_rotvec(2 * v)).as_rotvec(), 3),
    "angles": (lambda v: Rotation.from_euler("xyz", v).as_euler("zxz" if len(v) > 3 else "xyz"), 3),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes(name: str) -> None:
    """At the identity, near it and far from it, against finite differences; second ones are finite."""
    function, n = SLOPES[name]
    jacobian = effx.jit(effx.jacfwd(function))
    for x in (np.zeros(n), RNG.normal(size=n) * 1e-3, RNG.normal(size=n) * 0.3):
        if name == "of matrix" and x.any():
            continue
        h = 1e-6
        want = np.stack([(function(x + e) - function(x - e)) / (2 * h) for e in np.eye(n) * h], -1)
        same(jacobian(x), want, atol=1e-7)
    if name in ("rotvec", "composed", "mrp"):
        assert np.isfinite(effx.hessian(lambda x: (function(x) ** 2).sum())(np.zeros(n))).all()
    rows = RNG.normal(size=(2, n)) * 0.1
    same(effx.vmap(function)(rows)[1], function(rows[1]))


def test_pytrees() -> None:
    r = Rotation.from_quat(QUATS)
    same(effx.vmap(lambda r, v: r.apply(v))(r, np.ones((20, 3))), r.apply(np.ones((20, 3))))
    assert effx.tree.map(lambda q: q.shape, r).quat == (20, 4)
    assert Rotation.from_rotvec(np.ones(3, np.float32)).as_matrix().dtype == np.float32


ONE = Rotation.identity()
WRONG: Any = 1j * np.ones(3)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Rotation.from_quat(np.ones(3)), "Rotation.from_quat: quat must be [*batch, 4], got f64[3]"),
        (lambda: Rotation.from_matrix(np.ones((3, 2))),
         "Rotation.from_matrix: matrix must be [*batch, 3, 3], got f64[3,2]"),
        (lambda: Rotation.from_mrp(np.ones(4)), "Rotation.from_mrp: mrp must be [*batch, 3], got f64[4]"),
        (lambda: Rotation.from_rotvec(WRONG), "Rotation.from_rotvec: takes real numbers, got c128[3]"),
        (lambda: Rotation.from_euler("xyx", np.ones(2)),
         "Rotation.from_euler: angles must be [*batch, 3], got f64[2]"),
        (lambda: Rotation.from_euler("xX", np.ones(2)),
         "Rotation.from_euler: seq must be 1 to 3 of the axes x, y, z, or of X, Y, Z, no two neighbours the same, got 'xX'"),
        (lambda: ONE.as_euler("xy"),
         "Rotation.as_euler: seq must be 3 of the axes x, y, z, or of X, Y, Z, no two neighbours the same, got 'xy'"),
        (lambda: ONE.apply(np.ones(2)), "Rotation.apply: vectors must be [*batch, 3], got f64[2]"),
        (lambda: len(ONE), "Rotation: a single rotation has no length"),
        (lambda: ONE[0], "Rotation: a single rotation has no index"),
        (lambda: ONE.mean(), "Rotation: a single rotation has no mean"),
        (lambda: Rotation.identity(2).mean(np.ones(3)),
         "Rotation.mean: weights must be one for each of 2 rotations, got f64[3]"),
        (lambda: Rotation.concatenate([]), "Rotation.concatenate: needs a rotation"),
        (lambda: Slerp.init(np.ones(3), Rotation.identity(2)),
         "Slerp: needs a time for each of at least 2 rotations, got f64[3] and f64[2,4]"),
        (lambda: Slerp.init(np.arange(2.0), Rotation.identity(2))(np.ones((1, 1))),
         "Slerp: times must be a number or a vector, got f64[1,1]"),
    ],
)  # fmt: skip
def test_refused(call: Any, text: str) -> None:
    with pytest.raises(EffxError) as caught:
        call()
    assert str(caught.value).partition("\n")[0] == text
