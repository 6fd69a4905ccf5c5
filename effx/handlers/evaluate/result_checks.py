"""The outermost handler of `debug_nans`, `debug_infs` and `enable_checks`, which look at results, and of others.

Never: be loaded before one of these flags is on, or a compiled function gave something that is not finite.
"""

from collections.abc import Callable
from typing import TypeVar, cast, final

import attrs

from effx import dtypes, ports
from effx.array import Array
from effx.effects import Frame, Handler, Operation, Value, are_optional
from effx.errors import ProgramError
from effx.flags import debug_key_reuse, enable_checks
from effx.handlers.evaluate.debugging import debugging, not_finite
from effx.handlers.evaluate.handler import Evaluate, alone, program_of
from effx.handlers.staging.stage import run_program
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.ops.control import Call, Cond, HigherOrder
from effx.lower.placement.concrete import on_device
from effx.lower.placement.transfer_guards import check_execution

R = TypeVar("R")


PLAIN = Evaluate()


def _watched(op: Operation[R], arrays: tuple[Array, ...], run: Callable[[], R]) -> R:
    """Runs an operation with a look at the keys that it uses."""
    keys = any([dtypes.is_key(x.type.dtype) for x in arrays])
    if not isinstance(op, HigherOrder) and not keys:
        return run()
    concrete = tuple([on_device(x) for x in arrays])
    types = tuple([x.type for x in arrays])
    program = alone(op, types) if isinstance(op, HigherOrder) else program_of(op, types)
    results: list[R] = []

    def once() -> tuple[Array, ...]:
        results.append(run())
        return cast("tuple[Array, ...]", results[0] if op.multiple else (results[0],))

    if isinstance(op, HigherOrder):
        ports.random_keys.reuse.watched(program, concrete, once)
    else:
        ports.random_keys.reuse.watched_operation(op, program, concrete, once)
    return results[0]


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
        if debug_key_reuse.value:
            result = _watched(op, arrays, lambda: PLAIN.handle(frame, op, operands))
        else:
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
