"""optimistix: Newton's method, Levenberg-Marquardt, BFGS and a fixed point, with a gradient through the root."""

import jax
import jax.numpy as jnp
import optimistix as optx
from told import tell


def root(y, a):
    return y - a * jnp.cos(y)


solver = optx.Newton(rtol=1e-5, atol=1e-5)
tell(newton=optx.root_find(root, solver, jnp.array(0.5), args=1.0).value)
tell(grad=jax.grad(lambda a: optx.root_find(root, solver, jnp.array(0.5), args=a).value)(1.0))
tell(
    fixed=optx.fixed_point(
        lambda y, _: jnp.cos(y), optx.FixedPointIteration(1e-5, 1e-5), jnp.array(0.5)
    ).value
)


def residuals(y, _):
    return jnp.array([10 * (y[1] - y[0] ** 2), 1 - y[0]])


start = jnp.array([-1.2, 1.0])
tell(lm=optx.least_squares(residuals, optx.LevenbergMarquardt(1e-5, 1e-5), start).value)
tell(bfgs=optx.minimise(lambda y, a: jnp.sum(residuals(y, a) ** 2), optx.BFGS(1e-5, 1e-5), start).value)
