"""Eight schools: what coaching did for test scores, by Hamiltonian Monte Carlo on a model of eight lines.

    python examples/eight_schools.py

The data are those of Rubin (1981), as in Gelman et al., Bayesian Data Analysis, section 5.5: in each school an
estimate of the effect and its standard error. The effects are unknown and so is how much schools differ, which
is where a posterior by simulation helps. The answer is checked against an integral over a grid.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

import effx
import effx.numpy as enp
from effx.library.probability import Draws, HalfCauchy, Normal, hmc, plate, sample

PICTURE = Path(__file__).resolve().parent / "out" / "eight_schools.png"
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)


def model() -> effx.Array:
    """How effects come about: schools differ by tau around mu, and each estimate has its error."""
    mu = sample("mu", Normal(0.0, 5.0))
    tau = sample("tau", HalfCauchy(5.0))
    with plate("schools", 8):
        standard = sample("standard", Normal(0.0, 1.0))
    theta = mu + tau * standard
    return sample("effects", Normal(theta, ERRORS), obs=EFFECTS)


def posterior(draws: int, seed: int) -> Draws:
    """Draws from the posterior."""
    return hmc(model, effx.random.key(seed), draws=draws, warmup=draws // 2)


def on_a_grid() -> tuple[float, float]:
    """Posterior means of mu and tau by a sum over a grid; the schools' effects integrate out exactly."""
    mu = np.linspace(-30, 40, 701)[:, None, None]
    tau = np.linspace(1e-3, 60, 1200)[None, :, None]
    variance = ERRORS.astype(float) ** 2 + tau**2
    log = -0.5 * ((EFFECTS - mu) ** 2 / variance + np.log(variance)).sum(-1)
    log += -0.5 * (mu[..., 0] / 5) ** 2 - np.log1p((tau[..., 0] / 5) ** 2)
    weight = np.exp(log - np.max(log))
    weight /= weight.sum()
    return float((weight * mu[..., 0]).sum()), float((weight * tau[..., 0]).sum())


def draw(theta: npt.NDArray[np.float32]) -> None:
    """Saves a picture of the schools' estimates and of their posteriors."""
    low, middle, high = np.quantile(theta, [0.05, 0.5, 0.95], axis=0)
    figure, axes = plt.subplots(figsize=(6, 3))
    axes.errorbar(np.arange(8) - 0.1, EFFECTS, 1.645 * ERRORS, fmt="o", label="estimate")
    axes.errorbar(np.arange(8) + 0.1, middle, (middle - low, high - middle), fmt="o", label="posterior")
    axes.set_xticks(np.arange(8), list("ABCDEFGH"))
    axes.set_title("effects of coaching, 5 % to 95 %")
    axes.legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, bbox_inches="tight")
    plt.close(figure)


def main(arguments: list[str] | None = None, say: Callable[[str], None] = print) -> tuple[float, float]:
    """Runs the example; returns the posterior means of mu and tau."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    found = posterior(options.draws, options.seed)
    mu, tau = found.values["mu"], found.values["tau"]
    theta = mu[:, None] + tau[:, None] * found.values["standard"]
    say(f"accepted {float(found.accepted):.0%} with steps of {float(found.step_size):.3f}")
    say("school   estimate   error   effect   5 % to 95 %")
    for i in range(8):
        low, high = np.quantile(np.asarray(theta[:, i]), [0.05, 0.95])
        mean = float(enp.mean(theta[:, i]))
        say(f"{'ABCDEFGH'[i]:>6} {EFFECTS[i]:10.0f} {ERRORS[i]:7.0f} {mean:8.1f} {low:8.1f} to {high:.1f}")
    grid = on_a_grid()
    say(f"mu  {float(mu.mean()):5.2f}, on a grid {grid[0]:5.2f}")
    say(f"tau {float(tau.mean()):5.2f}, on a grid {grid[1]:5.2f}")
    draw(np.asarray(theta))
    say(f"picture: {os.path.relpath(PICTURE)}")
    return float(mu.mean()), float(tau.mean())


if __name__ == "__main__":
    main()
