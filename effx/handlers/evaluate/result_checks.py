"""The outermost handler with checks of results and keys, for `debug_nans`, `debug_infs`, `enable_checks` and others.

Never: be imported before one of these flags is on, or a compiled function returned a value that is not finite.
"""

from collections.abc import Callable
from typing import TypeVar, cast, final

import attrs

from effx import dtypes, ports
from effx.array import Array
from effx.effects import Frame, Handler, Operation, Value, all_optional
from effx.errors import ProgramError
from effx.flags import debug_key_reuse, enable_checks
from effx.handlers.evaluate.debugging import find_not_finite, is_debugging
from effx.handlers.evaluate.handler import Evaluate, higher_order_program, operation_program
from effx.handlers.sharding_types.axes_in_types import infer_result_types
from effx.handlers.sharding_types.program_types import conform_operation
from effx.handlers.staging.stage import run_program
from effx.ir.ops.control import Call, Cond, HigherOrder
from effx.lower.placement.concrete import to_device_operand
from effx.lower.placement.transfer_guards import check_execution

R = TypeVar("R")


EVALUATE = Evaluate()


def _run_watching_keys(op: Operation[R], arrays: tuple[Array, ...], run: Callable[[], R]) -> R:
    """Runs an operation and checks the random keys that it uses."""
    keys = any([dtypes.is_key(x.type.dtype) for x in arrays])
    if not isinstance(op, HigherOrder) and not keys:
        return run()
    concrete = tuple([to_device_operand(x) for x in arrays])
    types = tuple([x.type for x in arrays])
    program = higher_order_program(op, types) if isinstance(op, HigherOrder) else operation_program(op, types)
    results: list[R] = []

    def run_once() -> tuple[Array, ...]:
        results.append(run())
        return cast("tuple[Array, ...]", results[0] if op.multiple else (results[0],))

    if isinstance(op, HigherOrder):
        ports.random_keys.reuse.watched(program, concrete, run_once)
    else:
        ports.random_keys.reuse.run_watched(op, program, concrete, run_once)
    return results[0]


@final
@attrs.frozen
class CheckedEvaluate(Handler):
    """Runs operations on XLA, and checks their results by the debugging flags."""

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Runs one operation; calls and branches operation by operation."""
        arrays = cast("tuple[Array, ...]", operands)
        check_execution(op.name)
        if is_debugging() and type(op) is Call and all_optional(op.effects):
            return tuple(run_program(op.program, arrays))  # type: ignore[return-value]  # a call's results
        if is_debugging() and type(op) is Cond:
            outputs = tuple(run_program(op.branch_at(int(arrays[0].host("cond"))), arrays[1:]))
            if (fault := find_not_finite(outputs)) is not None:  # no operation gives a constant
                raise fault.make_error(op.name)
            return outputs  # type: ignore[return-value]  # a cond's results
        if debug_key_reuse.value:
            result = _run_watching_keys(op, arrays, lambda: EVALUATE.handle(frame, op, operands))
        else:
            result = EVALUATE.handle(frame, op, operands)
        results = cast("tuple[Array, ...]", result if op.multiple else (result,))
        if is_debugging() and (fault := find_not_finite(results)) is not None:
            raise fault.make_error(op.name)
        if enable_checks.value:
            types = [x.type for x in arrays]
            typed_op = conform_operation(op, types) if isinstance(op, HigherOrder) else op
            for x, t in zip(results, infer_result_types(typed_op, types), strict=True):
                if x.type is not t:
                    raise ProgramError(f"{op.name}: gives {x.type!r}, but its typing rule says {t!r}")
        return result
