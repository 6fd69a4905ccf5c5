"""Sorting in NumPy: each line along the axis by Python's own stable sort.

Never: compare floats by `<` alone, which NaN breaks.
"""

from typing import Any

import numpy as np

from effx.handlers.reference.handler import Data, tuple_rule
from effx.ir.ops.sort import Sort


def _key(value: Any) -> tuple[Any, ...]:
    """Orders numbers: -0.0 equal to 0.0, NaN last; complex ones by real part, then imaginary part."""
    if isinstance(value, complex | np.complexfloating):
        return (*_key(value.real), *_key(value.imag))
    number: Any = value.item() if isinstance(value, np.bool_ | np.integer) else float(value)
    return (True, 0) if number != number else (False, number)


@tuple_rule(Sort)
def sort(op: Sort, *operands: Data) -> tuple[Data, ...]:
    results = [np.array(x) for x in operands]
    shape = operands[0].shape
    for place in np.ndindex(*shape[: op.axis], 1, *shape[op.axis + 1 :]):
        line = tuple([slice(None) if i == op.axis else j for i, j in enumerate(place)])
        keys = [x[line] for x in operands[: op.num_keys]]
        ranked = [[_key(k[i]) for k in keys] for i in range(shape[op.axis])]
        order = sorted(range(shape[op.axis]), key=ranked.__getitem__)
        for result, x in zip(results, operands, strict=True):
            result[line] = x[line][order]
    return tuple(results)
