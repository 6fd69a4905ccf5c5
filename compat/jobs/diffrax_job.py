"""diffrax: Tsit5 with adaptive steps, saved values, and a gradient through the solve."""

import diffrax
import jax
import jax.numpy as jnp
from told import tell


def field(t, y, args):
    alpha, beta = args
    return jnp.stack([alpha * y[0] - beta * y[0] * y[1], -y[1] + y[0] * y[1]])


def solve(args, **given):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Tsit5(), t0=0.0, t1=3.0, dt0=0.1, y0=jnp.array([1.0, 0.5]), args=args,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 3.0, 7)), **given,
    )  # fmt: skip


steps = diffrax.PIDController(rtol=1e-4, atol=1e-6)
args = jnp.array([1.5, 1.0])
tell(fixed=solve(args).ys)
found = solve(args, stepsize_controller=steps)
tell(adaptive=found.ys, number=found.stats["num_steps"])
tell(grad=jax.grad(lambda args: solve(args, stepsize_controller=steps).ys[-1].sum())(args))
path = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(), key=jax.random.key(0))
tell(brownian=path.evaluate(0.0, 1.0))
