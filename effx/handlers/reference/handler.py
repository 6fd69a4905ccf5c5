"""The reference handler: every operation on NumPy arrays on the host, as its definition says.

It is the oracle of the tests, so each rule is the plainest program for the operation's meaning,
written without a look at what XLA is told to do.

Never: be fast, or look at what StableHLO says.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast, final

import attrs
import numpy as np

from effx.array import Array, HostArray
from effx.array.promotion import as_operand
from effx.dtypes import DType
from effx.effects import Frame, Handler, Operation, RuleTable, Value, handle, no_rule, resumed
from effx.errors import source_of
from effx.handlers.interpret import Interpreter
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.ops.control import HigherOrder
from effx.ir.types import ArrayType
from effx.ir.values.array import Operand

__all__ = ["Data", "Reference", "evaluate", "narrow", "rule", "tuple_rule", "wide"]

R = TypeVar("R")
A = TypeVar("A", bound=ArrayOperation)
T = TypeVar("T", bound=TupleOperation)

Data = np.ndarray[Any, Any]

# (op, *operands) -> result, of the inferred shape; of the inferred dtype but for rank 0,
# where NumPy gives scalars
ArrayRule = Callable[..., Any]


@final
@attrs.frozen
class Reference(Handler):
    """Runs operations on NumPy."""

    name = "reference"
    intercepts = True
    rules: ClassVar["RuleTable[ArrayRule]"] = RuleTable("reference")

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Runs one operation."""
        arrays = cast("tuple[Array, ...]", operands)
        if isinstance(op, HigherOrder):
            with resumed(frame):
                return cast("R", Interpreter(self).run(op, arrays))
        found = self.rules.find(type(op))
        if found is None:
            if op.can_decompose():
                with resumed(frame):
                    return op.decompose(*operands)
            raise no_rule(op, self)
        types = [x.type for x in arrays]
        expected = cast("ArrayOperation | TupleOperation", op).infer(*types)
        with np.errstate(all="ignore"):
            result = found(op, *[x.host(f"reference: {op.name}") for x in arrays])
        if isinstance(expected, tuple):
            return cast("R", tuple([_host(op, y, t) for y, t in zip(result, expected, strict=True)]))
        return cast("R", _host(op, result, expected))


def _host(op: Operation[Any], y: Any, t: ArrayType) -> HostArray:
    data = np.asarray(y)
    assert data.shape == t.shape, f"{op.name}: the reference gives shape {data.shape}, the type is {t!r}"
    assert data.dtype == t.dtype, f"{op.name}: the reference gives {data.dtype}, the type is {t!r}"
    return HostArray(data, t)


def rule(*kinds: type[A]) -> Callable[[ArrayRule], ArrayRule]:
    """Registers a rule `(op, *NumPy arrays) -> NumPy array`."""
    return Reference.rules.register(*kinds)


def tuple_rule(*kinds: type[T]) -> Callable[[ArrayRule], ArrayRule]:
    """Registers a rule `(op, *NumPy arrays) -> tuple of NumPy arrays`."""
    return Reference.rules.register(*kinds)


def wide(x: Data) -> Data:
    """Returns floats as f64 and complex numbers as c128, others as they are.

    A sum, difference, product, quotient or root that is computed in f64 and rounded to f32 is the
    correctly rounded one, because 53 >= 2 * 24 + 2; so nothing is lost by rounding twice.
    """
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x.astype(np.float64) if x.dtype.kind in "fV" else x


def narrow(y: Any, dtype: DType) -> Data:
    """Rounds a result to the dtype of the operands."""
    data = np.asarray(y)
    return data if data.dtype == dtype else data.astype(dtype)


def evaluate(function: Callable[..., R], *arrays: Operand) -> R:
    """Runs a function of arrays on NumPy.

    Args:
        function: of arrays; what it returns is returned.
        arrays: arrays, numbers or NumPy arrays.

    Raises:
        AxisNameError: the function names an axis; there are none here.

    >>> import effx.numpy as enp
    >>> evaluate(lambda x: enp.sin(x) * 0.0 + x, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    code = getattr(function, "__code__", None)
    with handle(Reference(), "" if code is None else source_of((code, 0))):
        return function(*[as_operand(x, "reference") for x in arrays])
