"""diffrax: the gradient of a solve by Tsit5 with adaptive steps."""

import diffrax
import jax
import jax.numpy as jnp


def field(t, y, args):
    alpha, beta = args
    return jnp.stack([alpha * y[0] - beta * y[0] * y[1], -y[1] + y[0] * y[1]])


@jax.jit
@jax.value_and_grad
def loss(args, y0):
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Tsit5(), t0=0.0, t1=10.0, dt0=0.1, y0=y0, args=args,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 10.0, 21)),
        stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6), max_steps=256,
    )  # fmt: skip
    return jnp.sum(found.ys**2)


def start():
    """Returns what solves."""
    args, y0 = jnp.array([1.5, 1.0]), jnp.array([1.0, 0.5])
    return lambda: loss(args, y0)
