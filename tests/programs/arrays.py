"""Arrays as in NumPy: types of results, indexing, broadcasting, sorting, sets, polynomials, Fourier, linear algebra."""

from __future__ import annotations

import numpy as np

import effx
import effx.numpy as enp

GENERATOR = np.random.default_rng(1)
TABLE = GENERATOR.normal(size=(4, 5)).astype(np.float32)
COUNTS = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3], np.int32)


def results() -> dict[str, object]:
    x, n = enp.asarray(TABLE), enp.asarray(COUNTS)
    found: dict[str, object] = {}
    kinds = ["int8", "uint8", "int32", "float16", "bfloat16", "float32", "complex64"]
    found["types"] = [str(enp.promote_types(a, b)) for a in kinds for b in kinds]
    found["weak"] = [
        str(v.dtype) for v in (x + 1, n + 1.5, n / 2, n**2, enp.arange(3) * 2.0, enp.mean(n), enp.sum(n > 2))
    ]

    found["index"] = (
        x[1],
        x[-1, ::2],
        x[:, None, 1:3],
        x[..., -1],
        x[enp.array([0, 2]), 1],
        x[x > 0].size,
        x[enp.array([True, False, True, False])],
        x[enp.array([[0], [3]]), enp.array([1, 2])],
        n[n.argsort()],
        x[1:3].at[0, 1].set(9.0),
    )
    found["broadcast"] = (
        x - x.mean(1, keepdims=True),
        enp.outer(n, n)[:2],
        enp.add.outer(n[:3], n[:2]),
        x * enp.arange(4.0)[:, None],
    )
    found["sort"] = (
        enp.sort(x, 0),
        enp.argsort(n),
        enp.lexsort((n, n % 2)),
        enp.partition(n, 4)[4],
        enp.searchsorted(enp.sort(n), 4),
    )
    found["sets"] = (
        enp.unique(n, return_counts=True, return_inverse=True),
        enp.intersect1d(n, enp.array([1, 9, 7])),
        enp.isin(n, n[:2]),
    )
    found["cumulative"] = (
        enp.cumsum(x, 1),
        enp.cumprod(n[:4]),
        enp.maximum.accumulate(n),
        enp.diff(x, axis=1),
        enp.add.reduceat(n, enp.array([0, 4, 7])),
    )
    found["statistics"] = (
        enp.median(x),
        enp.percentile(x, 30.0, axis=0),
        enp.var(x, ddof=1),
        enp.corrcoef(x),
        enp.bincount(n),
        enp.histogram(x, 4),
    )
    found["shape"] = (
        enp.concatenate([x, x[:1]]),
        enp.stack([n, n], 1),
        enp.tile(n[:2], (2, 2)),
        enp.pad(x[:2, :2], 1, mode="reflect"),
        enp.block([[x[:2, :2], x[:2]], [x[2:, :2], x[2:]]]),
    )
    found["split"] = (
        enp.split(n, 2),
        enp.array_split(n, 3),
        enp.moveaxis(x[None], 0, -1),
        enp.rot90(x),
        enp.flip(n),
        enp.roll(x, 2, axis=1),
    )
    found["where"] = (
        enp.where(x > 0, x, 0.0),
        enp.clip(x, -1, 1),
        enp.nan_to_num(enp.log(x)),
        enp.isnan(enp.sqrt(x)),
        enp.argwhere(x > 1),
        enp.piecewise(x, [x < 0], [lambda v: -v, 2.0]),
    )
    found["polynomials"] = (
        enp.polyval(enp.array([1.0, -2.0, 3.0]), x[0]),
        enp.polyfit(enp.arange(5.0), x[0], 2),
        enp.polymul(n[:3], n[3:5]),
        enp.sort(enp.abs(enp.roots(enp.array([1.0, -3.0, 2.0])))),
    )
    found["fourier"] = (
        enp.fft.fft(x),
        enp.fft.rfftfreq(6),
        enp.fft.ifft(enp.fft.fft(x[0])).real,
        enp.fft.fft2(x),
    )
    square = x[:, :4] @ x[:, :4].T + enp.eye(4)
    found["algebra"] = (
        enp.linalg.inv(square),
        enp.linalg.det(square),
        enp.linalg.eigvalsh(square),
        enp.linalg.svd(x, compute_uv=False),
        enp.linalg.lstsq(x.T, n[:5].astype(enp.float32))[0],
        enp.linalg.norm(x, axis=1),
        enp.linalg.matrix_power(square, 3),
        enp.linalg.pinv(x),
        enp.linalg.cond(square),
    )
    found["products"] = (
        enp.einsum("ij,kj->ik", x, x),
        enp.tensordot(x, x, axes=([1], [1])),
        enp.kron(x[:2, :2], n[:2]),
        enp.cross(x[:, :3], x[:, 1:4]),
        enp.vdot(x, x),
        enp.trace(square),
    )
    found["numbers"] = (
        enp.gcd(n, 6),
        enp.floor_divide(-n, 4),
        enp.remainder(-n, 4),
        enp.divmod(n, 3),
        enp.bitwise_xor(n, 5),
        n << 2,
        enp.sign(x),
        enp.hypot(x, 2.0),
        enp.arctan2(x, 1.0),
        enp.round(x, 1),
    )
    found["interp"] = (
        enp.interp(enp.linspace(0, 4, 7), enp.arange(5.0), x[0]),
        enp.gradient(x[0]),
        enp.trapezoid(x[0]),
        enp.digitize(x, enp.array([-1.0, 0.0, 1.0])),
    )
    found["slopes"] = (
        effx.grad(lambda v: enp.sum(enp.sort(v) * enp.arange(5.0)))(x[0]),
        effx.grad(lambda v: enp.linalg.slogdet(v)[1])(square),
        effx.grad(lambda v: enp.median(v))(x),
        effx.jacfwd(enp.cumprod)(x[0]),
    )
    found["in a batch"] = (
        effx.vmap(enp.linalg.solve, (None, 0))(square, x.T),
        effx.vmap(enp.sort)(x),
        effx.vmap(lambda v: v[enp.argmax(v)])(x),
    )
    return found
