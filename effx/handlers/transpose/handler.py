"""The backward pass over a linear program, and the decorator of transpose rules.

A linear program y = A x is transposed by walking its equations backwards: each computes its operands'
cotangents from its results' by the transpose of one operation. None means a zero cotangent.

The walk runs under the current handlers, so transposition is as composable as they are.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar, cast, final, overload

import attrs

from effx.array import Array, HostArray
from effx.effects import Operation, RuleTable, current_frame, current_scope
from effx.errors import NoRuleError, active_source, explain_rule_error
from effx.handlers.linear.recorder import record_linear
from effx.handlers.recursion.payloads import Rule
from effx.handlers.sharding_types.axes_in_types import (
    is_tracking,
    match_cotangent_axes,
    tracked_axes,
    zeros_of_type,
)
from effx.handlers.staging.stage import SourceTracker
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.ops.control import HigherOrder, contains_operation
from effx.ir.ops.custom import CustomTangent
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.passes.partial_sums import cotangent_sums, has_sums, left_sums, others_are_zeros
from effx.ir.passes.sharding_propagation import allow_unresolved
from effx.ir.program import Atom, Equation, Program, Var
from effx.ir.types import INVARIANT, ArrayType

A = TypeVar("A", bound=ArrayOperation)
T = TypeVar("T", bound=TupleOperation)

Cotangent = Array | None


# Not frozen: one is made for each linear operand, and attrs' frozen __init__ costs twice as much.
@final
@attrs.define(eq=False)
class LinearOperand:
    """A linear operand in a rule: it has a type but no value.

    >>> import effx
    >>> from effx.handling import Binary, LinearOperand, transpose_rule
    >>> class Times(Binary):
    ...     __slots__ = ()
    ...     def decompose(self, x, y): return x * y
    >>> @transpose_rule(Times)
    ... def _(op, ct, operands):
    ...     x, y = operands
    ...     return (ct * y, None) if isinstance(x, LinearOperand) else (None, ct * x)
    >>> print(*effx.linear_transpose(lambda x: Times()(x, 5.0), 1.0)(2.0))
    10.0
    """

    type: ArrayType


Operand = Array | LinearOperand

# (op, cotangent of the result, operands) -> cotangents of the operands; None for known ones
ArrayRule = Callable[[A, Array, tuple[Operand, ...]], Sequence[Cotangent]]
TupleRule = Callable[[T, Sequence[Cotangent], tuple[Operand, ...]], Sequence[Cotangent]]

rules: "RuleTable[Rule]" = RuleTable("transpose")


@overload
def rule(kind: type[A], /, *kinds: type[A]) -> Callable[[ArrayRule[A]], ArrayRule[A]]: ...
@overload
def rule(kind: type[T], /, *kinds: type[T]) -> Callable[[TupleRule[T]], TupleRule[T]]: ...
def rule(*kinds: type[Operation[object]]) -> Rule:
    """Registers a transpose rule `(op, ct, operands) -> cotangents`.

    For an operation with several results `ct` is a sequence, with None for a zero cotangent.

    >>> import effx
    >>> from effx.handling import Linear, Unary, transpose_rule
    >>> class Twice(Unary, Linear):
    ...     __slots__ = ()
    ...     kinds = "f"
    ...     def decompose(self, x): return x + x
    >>> @transpose_rule(Twice)
    ... def _(op, ct, operands): return (op(ct),)
    >>> print(*effx.linear_transpose(Twice(), 1.0)(3.0))
    6.0
    """
    return rules.register_function(*kinds)


def backward_pass(
    program: Program, residuals: Sequence[Array], cotangents: Sequence[Cotangent]
) -> list[Cotangent]:
    """Transposes a linear program and applies it, under the current handlers.

    Args:
        program: linear in its inputs after the residuals.
        residuals: known values of the first inputs.
        cotangents: one for each output, None for zero.

    Returns:
        One cotangent for each linear input, None for zero.

    Raises:
        NoRuleError: an operation is not linear in its linear operands.
    """
    if not is_tracking(program.in_types):
        return _run_backward_pass(program, residuals, cotangents)
    with allow_unresolved(True):  # each cotangent has its primal's sharding
        return _run_backward_pass(program, residuals, cotangents)


def _run_backward_pass(
    program: Program, residuals: Sequence[Array], cotangents: Sequence[Cotangent]
) -> list[Cotangent]:
    n = len(residuals)
    known: dict[Var, Array] = dict(zip(program.inputs[:n], residuals, strict=True))
    cotangents_by_variable: dict[Var, Array] = {}
    searched_equations = program.equations if tracked_axes.value else ()
    broadcasts = {e.outputs[0]: e for e in searched_equations if type(e.op) is BroadcastInDim}

    def move_before_broadcast(x: Var, ct: Array) -> tuple[Var, Array]:
        # Sums over devices are summed on each device first: for a bias only its own elements are sent, not the batch's.
        e = broadcasts.get(x)
        if e is None or type(e.inputs[0]) is not Var or e.inputs[0] in known:
            return x, ct
        (operand_ct,) = _transpose_equation(e, [ct], known)
        return e.inputs[0], cast("Array", operand_ct)

    def add(atoms: Sequence[Atom], cts: Sequence[Cotangent]) -> None:
        for atom, ct in zip(atoms, cts, strict=True):
            if ct is not None and type(atom) is Var and atom not in known:
                sharding = atom.type.explicit_sharding
                if (
                    ct.type.vma is not atom.type.vma
                    or ct.type.explicit_sharding is not sharding
                    or (sharding is not None and sharding.spec.has_sums)
                ):
                    if ct.type.vma - atom.type.vma:
                        atom, ct = move_before_broadcast(atom, ct)
                    ct = match_cotangent_axes(ct, atom.type)
                accumulated = cotangents_by_variable.get(atom)
                cotangents_by_variable[atom] = ct if accumulated is None else accumulated + ct

    add(program.outputs, cotangents)
    # A backward rule of users runs though all the cotangents of its results are zero, as in JAX, wherever another rule
    # gave them (None, say): rules return new statistics in the place of cotangents, as flax's for 8-bit products do.
    # So, where there are such rules, the operands of what has been transposed are known.
    runs_users_rules = contains_operation(program, CustomTangent)
    reached: set[Var] = set()
    tracker = SourceTracker()
    try:
        for e in reversed(program.equations):
            cts = [cotangents_by_variable.pop(v, None) for v in e.outputs]
            is_reached = not reached.isdisjoint(e.outputs)
            if is_reached:
                if not _runs_users_rules(e.op):
                    reached.update([x for x in e.inputs if type(x) is Var])
                elif type(e.op) is not CustomTangent:
                    cts = [
                        zeros_of_type(v.type) if ct is None and v in reached else ct
                        for ct, v in zip(cts, e.outputs, strict=True)
                    ]
            runs_on_zeros = is_reached and type(e.op) is CustomTangent
            if all([ct is None for ct in cts]) and not runs_on_zeros:
                continue
            tracker.move_to(e)
            add(e.inputs, _transpose_equation(e, cts, known))
            if runs_users_rules:
                reached.update([x for x in e.inputs if type(x) is Var])
    finally:
        try:
            active_source.set(tracker.source)
        finally:
            current_scope.set(tracker.outer)
    return [cotangents_by_variable.get(x) for x in program.inputs[n:]]


def _runs_users_rules(op: Operation[object]) -> bool:
    return type(op) is CustomTangent or (
        isinstance(op, HigherOrder) and any([contains_operation(p, CustomTangent) for p in op.programs])
    )


def _transpose_equation(e: Equation, cts: list[Cotangent], known: dict[Var, Array]) -> Sequence[Cotangent]:
    """Returns the cotangents of one equation's operands from those of its results."""
    op = e.op
    operands: tuple[Operand, ...] = tuple(
        [
            HostArray(x.value, x.type)
            if type(x) is not Var
            else known[x]
            if x in known
            else LinearOperand(x.type)
            for x in e.inputs
        ]
    )
    transpose = rules.find(type(op))
    if transpose is None and op.can_decompose():
        return _transpose_decomposition(op, cts, operands)
    if transpose is None:
        raise NoRuleError(f"transpose: {op.name} is not linear in its operands, or has no transpose")
    try:
        return _apply_transpose(transpose, e, cts, operands)
    except Exception as error:
        explain_rule_error(error, transpose, f"transpose: the rule for {op.name}")
        raise


def _apply_transpose(
    transpose: Rule, e: Equation, cts: list[Cotangent], operands: tuple[Operand, ...]
) -> Sequence[Cotangent]:
    op = e.op
    operand_cts: Sequence[Cotangent]
    is_plain = isinstance(op, HigherOrder) or not allow_unresolved.value  # nearly all
    if is_plain or not has_sums([x.type for x in (*e.inputs, *e.outputs)]):
        operand_cts = transpose(op, cts if op.multiple else cts[0], operands)
        return operand_cts
    unreduced = INVARIANT.union(*[cotangent_sums(x.type)[0] for x in e.inputs])
    # Outside of programs each operation is a program, which takes its sums.
    with others_are_zeros(True), left_sums(INVARIANT if current_frame() is None else unreduced):
        operand_cts = transpose(op, cts if op.multiple else cts[0], operands)
        return operand_cts


def _transpose_decomposition(
    op: Operation[object], cts: list[Cotangent], operands: tuple[Operand, ...]
) -> list[Cotangent]:
    """Transposes the decomposition of an operation without a rule."""

    def function(boxes: list[Array]) -> Sequence[Array]:
        remaining_boxes = iter(boxes)
        result = op.decompose(
            *[next(remaining_boxes) if isinstance(x, LinearOperand) else x for x in operands]
        )
        return cast("Sequence[Array]", result) if op.multiple else [cast("Array", result)]

    linear, dependent = record_linear(
        function, [Var(x.type) for x in operands if isinstance(x, LinearOperand)]
    )
    remaining_cts = iter(
        backward_pass(
            linear.program, linear.residuals, [ct for ct, d in zip(cts, dependent, strict=True) if d]
        )
    )
    return [next(remaining_cts) if isinstance(x, LinearOperand) else None for x in operands]


def known_value(x: Operand) -> Array:
    """Returns a known operand of a rule."""
    assert not isinstance(x, LinearOperand)
    return x
