"""The oracle handler: every operation on NumPy arrays on the host, by its definition.

It is the oracle of the tests, so each rule is the plainest program for the operation's meaning,
written independently of the lowering to XLA.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast, final

import attrs
import numpy as np

from effx.array import Array, HostArray
from effx.array.promotion import as_operand
from effx.dtypes import DType
from effx.effects import Frame, Operation, RuleTable, handle, use_frame
from effx.errors import source_of
from effx.handlers.evaluate.interpreter import Interpreter
from effx.handlers.recursion.payloads import PayloadHandler, Rule, apply_typing_rule
from effx.ir.ops.control import HigherOrder
from effx.ir.types import ArrayType
from effx.ir.values.array import Operand
from effx.tree.registry import PyTree

R = TypeVar("R")

Data = np.ndarray[Any, Any]

# (op, *operands) -> result, of the inferred shape and dtype, except at rank 0,
# where NumPy returns scalars
NumPyRule = Callable[..., Any]


@final
@attrs.frozen
class Reference(PayloadHandler):
    """Runs operations on NumPy.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling import Reference, handle
    >>> with handle(Reference()):
    ...     print(effx.jit(enp.cumsum)(enp.array([1.0, 2.0, 3.0])))
    [1. 3. 6.]
    """

    name = "reference"
    intercepts = True
    rules: ClassVar["RuleTable[Rule]"] = RuleTable("reference")

    def apply_rule(
        self, frame: Frame, rule: Rule, op: Operation[object], operands: tuple[Array, ...]
    ) -> tuple[PyTree, PyTree]:
        """Calls a rule with NumPy arrays."""
        types = apply_typing_rule(op, operands)
        with np.errstate(all="ignore"):
            return rule(op, *[x.host(f"reference: {op.name}") for x in operands]), types

    def boxed_result(self, frame: Frame, y: Any, t: ArrayType, what: str = "") -> HostArray:
        """Checks a result, and returns it as an array on the host."""
        data = np.asarray(y)
        assert data.shape == t.shape, f"{what}: the reference gives shape {data.shape}, the type is {t!r}"
        assert data.dtype == t.dtype, f"{what}: the reference gives {data.dtype}, the type is {t!r}"
        return HostArray(data, t)

    def otherwise(self, frame: Frame, op: Operation[R], operands: tuple[Array, ...]) -> R | None:
        """Runs programs step by step."""
        if not isinstance(op, HigherOrder):
            return None
        with use_frame(frame):
            return cast("R", Interpreter(self).run(op, operands))


def rule(*kinds: type[Operation[object]]) -> Callable[[NumPyRule], NumPyRule]:
    """Registers a rule `(op, *NumPy arrays) -> NumPy array`; for several results it returns a tuple of them.

    >>> import effx.numpy as enp
    >>> from effx.handling import Reference, Unary, handle, reference_rule
    >>> class Cube(Unary):
    ...     __slots__ = ()
    >>> @reference_rule(Cube)
    ... def _(op, x): return x ** 3
    >>> with handle(Reference()):
    ...     print(Cube()(enp.array([1.0, 2.0])))
    [1. 8.]
    """
    return Reference.rules.register_function(*kinds)


def widen_floats(x: Data) -> Data:
    """Returns floats as f64 and complex numbers as c128, others unchanged.

    A sum, difference, product, quotient or root that is computed in f64 and rounded to f32 is the
    correctly rounded one, because 53 >= 2 * 24 + 2; so nothing is lost by rounding twice.
    """
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x.astype(np.float64) if x.dtype.kind in "fV" else x


def round_to_dtype(y: Any, dtype: DType) -> Data:
    """Rounds a result to the dtype of the operands."""
    data = np.asarray(y)
    return data if data.dtype == dtype else data.astype(dtype)


def evaluate(function: Callable[..., R], *arrays: Operand) -> R:
    """Runs a function of arrays on NumPy.

    Args:
        function: a function of arrays.
        arrays: arrays, numbers or NumPy arrays.

    Raises:
        AxisNameError: the function names an axis; the host has none.

    >>> import effx.numpy as enp
    >>> evaluate(lambda x: enp.sin(x) * 0.0 + x, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    code = getattr(function, "__code__", None)
    with handle(Reference(), "" if code is None else source_of((code, 0))):
        return function(*[as_operand(x) for x in arrays])
