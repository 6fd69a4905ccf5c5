"""Gaussian-process regression of the progress of diabetes, with a kernel that is learnt.

python examples/gaussian_process.py

Source: Rasmussen and Williams, "Gaussian processes for machine learning", 2006, chapter 5. The kernel is linear, plus
the exponential of squared distances with a length for each measurement; sizes, lengths and noise are the likeliest ones,
found by BFGS. The data are scikit-learn's: 442 patients, ten measurements each. It saves a picture of
what each measurement matters, and of predictions.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import effx
import effx.numpy as enp
from effx import Array
from effx.scipy.linalg import cho_factor, cho_solve, solve_triangular
from effx.scipy.optimize import minimize
from effx.scipy.stats import norm

PICTURE = Path(__file__).resolve().parent / "out" / "gaussian_process.png"


def covariance(p: Array, a: Array, b: Array) -> Array:
    """f64[n, m] of f64[n, 10] and f64[m, 10]; p has logarithms: of sizes and noise, then a length for each column."""
    near = a / enp.exp(p[3:]), b / enp.exp(p[3:])
    squares = ((near[0][:, None] - near[1][None]) ** 2).sum(-1)
    return enp.exp(2 * p[0] - 0.5 * squares) + enp.exp(2 * p[1]) * (a @ b.T)


def noisy(p: Array, x: Array) -> Array:
    return covariance(p, x, x) + (enp.exp(2 * p[2]) + 1e-6) * enp.eye(x.shape[0])


def cost(p: Array, x: Array, y: Array) -> Array:
    """The negative logarithm of the posterior density of p, for each row: lengths are thought to be about exp(2)."""
    lower = enp.linalg.cholesky(noisy(p, x))
    white = norm.logpdf(solve_triangular(lower, y, lower=True)).sum() - enp.log(enp.diag(lower)).sum()
    return -(white + norm.logpdf(p[3:], 2.0, 0.5).sum()) / y.size


def predicted(p: Array, x: Array, y: Array, new: Array) -> tuple[Array, Array]:
    """Means and standard deviations of what would be measured at new rows."""
    factor = cho_factor(noisy(p, x), lower=True)
    between = covariance(p, x, new)
    reduction = enp.sum(between * cho_solve(factor, between), axis=0)
    own = enp.diag(covariance(p, new, new))
    return between.T @ cho_solve(factor, y), enp.sqrt(own - reduction + enp.exp(2 * p[2]))


def main() -> None:
    """Runs the example."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    steps: int = parser.parse_args().steps
    data = load_diabetes(scaled=False)
    rows = (data.data - data.data.mean(0)) / data.data.std(0)
    target = (data.target - data.target.mean()) / data.target.std()
    with effx.enable_x64(True):
        x, unseen, y, truth = map(enp.asarray, train_test_split(rows, target, test_size=0.3, random_state=0))
        first = enp.concatenate([enp.array([-1.0, -1.0, -0.5]), enp.full(10, 1.0)])
        found = effx.jit(lambda p: minimize(cost, p, (x, y), method="BFGS", options={"maxiter": steps}))(
            first
        )
        p = found.x
        print(
            f"cost {float(cost(first, x, y)):.4f}, after {int(found.nit)} steps of BFGS {float(found.fun):.4f}"
        )
        mean, spread = effx.jit(predicted)(p, x, y, unseen)
        error = enp.sqrt(enp.mean((mean - truth) ** 2))
        plain = enp.linalg.lstsq(x, y)[0]
        linear = enp.sqrt(enp.mean((unseen @ plain - truth) ** 2))
        inside = enp.mean(abs(truth - mean) < 2 * spread)
        density = norm.logpdf(truth, mean, spread).mean()
    print(
        f"error on unseen patients {float(error):.3f} of the deviation, of least squares {float(linear):.3f}"
    )
    print(f"within two standard deviations {100 * float(inside):.1f}%, log-density {float(density):.3f}")

    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    axes[0].barh(data.feature_names, np.exp(-np.asarray(p)[3:]))
    axes[0].set_title("how fast the curve may change, 1 / length")
    axes[1].errorbar(np.asarray(truth), np.asarray(mean), 2 * np.asarray(spread), fmt=".", alpha=0.5)
    axes[1].axline((0, 0), slope=1, color="gray")
    axes[1].set_title("predicted against true, with two deviations")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, bbox_inches="tight")
    print(f"picture: {os.path.relpath(PICTURE)}")


if __name__ == "__main__":
    main()
