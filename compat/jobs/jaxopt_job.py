"""jaxopt: L-BFGS, projected gradient on the simplex, and gradients through a solution."""

import jax
import jax.numpy as jnp
import jaxopt
from told import tell

X = jax.random.normal(jax.random.key(0), (20, 4))
Y = X @ jnp.array([1.0, -2.0, 0.5, 0.0]) + 0.1


def ridge(w, l2):
    return jnp.mean((X @ w - Y) ** 2) + l2 * jnp.sum(w**2)


lbfgs = jaxopt.LBFGS(fun=ridge, maxiter=50, tol=1e-4)
tell(lbfgs=lbfgs.run(jnp.zeros(4), l2=0.1).params)
projected = jaxopt.ProjectedGradient(
    fun=ridge, projection=jaxopt.projection.projection_simplex, maxiter=200, tol=1e-4
)
tell(simplex=projected.run(jnp.full(4, 0.25), l2=0.1).params)
descent = jaxopt.GradientDescent(fun=ridge, maxiter=200, tol=1e-5, implicit_diff=True)
tell(implicit=jax.jacobian(lambda l2: descent.run(jnp.zeros(4), l2).params)(0.1))
tell(bisection=jaxopt.Bisection(lambda x: x**3 - x - 2.0, lower=1.0, upper=2.0).run().params)
