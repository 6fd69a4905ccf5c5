"""The result of a minimization."""

from typing import NamedTuple

from effx.array import Array

__all__ = ["OptimizeResults"]


class OptimizeResults(NamedTuple):
    """The end of a minimization.

    Attributes:
        x: the last point.
        success: whether it is a minimum within the tolerance.
        status: 0 for that; 1 for too many iterations, 2 too many values, 3 too many gradients, 5 no step that makes the
            value smaller.
        fun: the value there.
        jac: the gradient there.
        hess_inv: an approximation of the inverse of the Hessian; None if the method has none.
        nfev, njev: how many values and gradients were computed.
        nit: how many steps were made.

    >>> import effx.numpy as enp
    >>> from effx.scipy.optimize import minimize
    >>> result = minimize(lambda x: ((x - 3.0) ** 2).sum(), enp.zeros(1), method="BFGS")
    >>> print(result.success, result.x)
    True [3.]
    """

    x: Array
    success: bool | Array
    status: int | Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: int | Array
    njev: int | Array
    nit: int | Array
