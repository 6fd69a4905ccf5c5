"""The outermost handler of `debug_nans`, `debug_infs` and `enable_checks`, which look at results, and of `no_execution`.

Never: be loaded before one of these flags is on, or a compiled function gave something that is not finite.
"""

from collections.abc import Sequence
from typing import TypeVar, cast, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.effects import Frame, Handler, Operation, Value, are_optional
from effx.errors import NotFiniteError, ProgramError, source_in_force, source_of
from effx.flags import debug_infs, debug_nans, enable_checks
from effx.handlers.evaluate import Evaluate
from effx.handlers.stage import run_program
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.ops.control import Call, Cond
from effx.lower.guards import check_execution

R = TypeVar("R")
PLAIN = Evaluate()


@final
@attrs.frozen
class Fault:
    """A result that is not finite.

    Attributes:
        said: which, and what is in it.
    """

    said: str

    def error(self, what: str) -> NotFiniteError:
        """Returns the error, which names the user's line."""
        error = NotFiniteError(f"{what}: {self.said}")
        place = source_in_force.get()
        if place is not None:
            error.at = source_of(place)
        return error


def debugging() -> bool:
    """Says whether results are looked at for NaN or infinities."""
    return debug_nans.value or debug_infs.value


def not_finite(results: Sequence[Array]) -> Fault | None:
    """Finds NaN or an infinity, as the flags debug_nans and debug_infs ask, in results."""
    for i, x in enumerate(results):
        if not dtypes.is_inexact(x.type.dtype):
            continue
        value = x.host("debug_nans")
        if value.dtype.kind == "V":
            value = value.astype(np.float32)
        for flag, what, test in ((debug_nans, "nan", np.isnan), (debug_infs, "inf", np.isinf)):
            if flag.value and (found := test(value)).any():
                where = tuple([int(n) for n in np.unravel_index(int(np.argmax(found)), found.shape)])
                which = "the result" if len(results) == 1 else f"result {i}"
                index = f" at index {list(where)}" if where else ""
                return Fault(f"{which} {x.type!r} has {what}{index}; {flag.name} is on")
    return None


@final
@attrs.frozen
class Checked(Handler):
    """Runs operations on XLA, and looks at what they give as the debugging flags ask."""

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Runs one operation; calls and branches operation by operation."""
        arrays = cast("tuple[Array, ...]", operands)
        check_execution(op.name)
        if debugging() and type(op) is Call and are_optional(op.effects):
            return tuple(run_program(op.program, arrays))  # type: ignore[return-value]  # what a call gives
        if debugging() and type(op) is Cond:
            return tuple(run_program(op.taken(int(arrays[0].host("cond"))), arrays[1:]))  # type: ignore[return-value]  # what a cond gives
        result = PLAIN.handle(frame, op, operands)
        results = cast("tuple[Array, ...]", result if op.multiple else (result,))
        if debugging() and (found := not_finite(results)) is not None:
            raise found.error(op.name)
        if enable_checks.value:
            types = [x.type for x in arrays]
            if op.multiple:
                expected = cast("TupleOperation", op).infer(*types)
            else:
                expected = (cast("ArrayOperation", op).infer(*types),)
            for x, t in zip(results, expected, strict=True):
                if x.type is not t:
                    raise ProgramError(f"{op.name}: gives {x.type!r}, but its typing rule says {t!r}")
        return result
