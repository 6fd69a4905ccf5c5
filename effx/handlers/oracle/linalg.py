"""Matrix products in NumPy.

Never: use the precision parameter; sums are in 64 bits or, for integers, wrap.
"""

import numpy as np

from effx.handlers.oracle.handler import Data, round_to_dtype, rule, widen_floats
from effx.ir.ops.linalg import DotGeneral


@rule(DotGeneral)
def dot_general(op: DotGeneral, lhs: Data, rhs: Data) -> Data:
    dtype = lhs.dtype if op.preferred is None else op.preferred
    left, right = list(range(lhs.ndim)), list(range(lhs.ndim, lhs.ndim + rhs.ndim))
    for i, j in zip(op.lhs_contract + op.lhs_batch, op.rhs_contract + op.rhs_batch, strict=True):
        right[j] = left[i]
    free = [left[i] for i in range(lhs.ndim) if i not in op.lhs_contract + op.lhs_batch]
    free += [right[j] for j in range(rhs.ndim) if j not in op.rhs_contract + op.rhs_batch]
    result = [*[left[i] for i in op.lhs_batch], *free]
    if dtype.kind == "b":
        total = np.einsum(lhs.astype(int), left, rhs.astype(int), right, result)
        return np.asarray(total != 0)
    total = np.einsum(widen_floats(lhs.astype(dtype)), left, widen_floats(rhs.astype(dtype)), right, result)
    return round_to_dtype(total, dtype)
