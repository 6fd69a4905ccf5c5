"""Masked execution: under `vmap`, elements also run branches that they do not take, and iterations after their last.

Those results are ignored. But a loop inside may never end on values for which it was not meant, and a check may fail; so
loops and checks get a mask, which is False there.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from effx import dtypes
from effx.array import Array
from effx.effects import Operation
from effx.handlers.recursion.staging import cache_on_program
from effx.handlers.staging.stage import run_program, stage
from effx.ir.ops.checkpoint import Checkpoint
from effx.ir.ops.control import Call, Cond, Scan, While
from effx.ir.ops.elementwise import And
from effx.ir.program import Program
from effx.ir.types import array_type

MaskedForm = Callable[..., tuple[Array, ...]]
"""Performs an operation where a mask, `bool[]`, is True: from the operation, the mask and the tuple of operands to its
results.
"""

F = TypeVar("F", bound=MaskedForm)
_BOOL = array_type(dtypes.bool_)
_masked_forms: dict[type[Operation[object]], MaskedForm] = {}


def masked_form(*kinds: type[Operation[object]]) -> Callable[[F], F]:
    """Registers `(op, mask, operands) -> result` for operation classes: how they run under a mask, a bool.

    Under `vmap` an element runs branches that it does not take, and iterations after its last. There the mask is False: the
    operation must not loop, fail or have effects, and its result is ignored.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling import Unary, masked_form
    >>> class Log(Unary):
    ...     __slots__ = ()
    ...     kinds = "f"
    ...     def decompose(self, x): return enp.log(x)
    >>> @masked_form(Log)
    ... def _(op, mask, operands): return op(enp.where(mask, operands[0], 1.0))
    >>> f = effx.vmap(lambda x: effx.lax.cond(x > 0, lambda x: Log()(x), lambda x: x, x))
    >>> print(f(enp.array([-1.0, 1.0])))         # the logarithm of -1 is not computed
    [-1.  0.]
    """

    def register(form: F) -> F:
        _masked_forms.update(dict.fromkeys(kinds, form))
        return form

    return register


def needs_mask(program: Program) -> bool:
    """Says whether a program contains a `While`, or another operation that must know the mask."""
    result = program.derived.get("needs mask")
    if result is None:
        result = program.derived["needs mask"] = any([_operation_needs_mask(e.op) for e in program.equations])
    return result is True


def _operation_needs_mask(op: Operation[object]) -> bool:
    if type(op) not in _masked_forms:
        return False
    return not isinstance(op, _MASKED_FOR_CONTENTS) or any(map(needs_mask, op.programs))


def mask_program(program: Program) -> Program:
    """Returns the program with a mask as its first input."""
    return cache_on_program(
        program,
        "masked",
        lambda: (
            stage(
                lambda arrays: _run_masked(program, arrays[0], arrays[1:]),
                (_BOOL, *program.in_types),
                program.name,
                "vmap",
            ).program
        ),
    )


def _run_masked(program: Program, mask: Array, arguments: Sequence[Array]) -> list[Array]:
    def mask_operation(op: Operation[object]) -> Callable[..., object]:
        if not _operation_needs_mask(op):
            return op
        form = _masked_forms[type(op)]
        return lambda *operands: form(op, mask, operands)

    return run_program(program, arguments, mask_operation)


@masked_form(While)
def _mask_while(op: While, mask: Array, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    def make_condition() -> Program:
        def evaluate(arrays: list[Array]) -> list[Array]:
            (holds,) = _run_masked(op.condition, arrays[0], arrays[1:])
            return [And()(holds, arrays[0])]

        return stage(evaluate, (_BOOL, *op.condition.in_types), op.condition.name, "vmap").program

    condition = cache_on_program(op.condition, "masked condition", make_condition)
    return While(condition, mask_program(op.body), op.constants + 1)(mask, *operands)


@masked_form(Call, Checkpoint)
def _mask_call(op: Call | Checkpoint, mask: Array, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return attrs.evolve(op, program=mask_program(op.program))(mask, *operands)


@masked_form(Cond)
def _mask_cond(op: Cond, mask: Array, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    index, *rest = operands
    return attrs.evolve(op, branches=tuple(map(mask_program, op.branches)))(index, mask, *rest)


@masked_form(Scan)
def _mask_scan(op: Scan, mask: Array, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    return attrs.evolve(op, body=mask_program(op.body), constants=op.constants + 1)(mask, *operands)


# They need a mask only if a program inside them does.
_MASKED_FOR_CONTENTS = (Call, Checkpoint, Cond, Scan)
