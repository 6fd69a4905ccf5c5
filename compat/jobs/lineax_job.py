"""lineax: direct and iterative solves, with gradients."""

import jax
import jax.numpy as jnp
import lineax as lx
from told import tell

A = jax.random.normal(jax.random.key(0), (5, 5))
b = jnp.arange(5.0)
spd = A @ A.T + 5 * jnp.eye(5)
tell(lu=lx.linear_solve(lx.MatrixLinearOperator(A), b).value)
positive = lx.MatrixLinearOperator(spd, lx.positive_semidefinite_tag)
tell(cg=lx.linear_solve(positive, b, lx.CG(rtol=1e-6, atol=1e-6)).value)
tell(cholesky=lx.linear_solve(positive, b, lx.Cholesky()).value)
tell(qr=lx.linear_solve(lx.MatrixLinearOperator(A[:, :3]), b, lx.QR()).value)
operator = lx.FunctionLinearOperator(lambda v: spd @ v, jax.ShapeDtypeStruct((5,), jnp.float32))
tell(gmres=lx.linear_solve(operator, b, lx.GMRES(rtol=1e-5, atol=1e-5)).value)
tell(grad=jax.grad(lambda m: lx.linear_solve(lx.MatrixLinearOperator(m), b).value.sum())(spd))
