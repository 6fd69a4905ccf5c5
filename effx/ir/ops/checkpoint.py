"""Rematerialisation (`Checkpoint`): calls whose linearisation recomputes unsaved values; and names for values."""

from collections.abc import Callable, Sequence
from typing import ClassVar, final

import attrs

from effx.effects import Operation
from effx.ir.ops.base import Elementwise, Linear, elementwise_type
from effx.ir.ops.control import Calling, contains_operation, higher_order_operations
from effx.ir.ops.host import RunsEagerly
from effx.ir.program import Program
from effx.ir.types import ArrayType

Policy = Callable[..., object]
"""`(op, *operand types) -> bool`: whether the results of an operation are saved; or an `Offload`."""


def _ask_with_operation(policy: Policy, op: Operation[object], types: Sequence[ArrayType]) -> object:
    return policy(op, *types)


# How a policy is asked whether an operation's results are saved; `effx.compat` puts in JAX's form.
ask_policy: list[Callable[[Policy, Operation[object], Sequence[ArrayType]], object]] = [_ask_with_operation]


@final
@attrs.frozen
class Checkpoint(Calling):
    """Calls a program whose linearisation saves few residuals: the others are recomputed.

    Attributes:
        policy: which of the program's intermediate results are saved; None for none.
        prevent_cse: True to prevent XLA from merging the second computation with the first.
    """

    policy: Policy | None = None
    prevent_cse: bool = True


def contains_python_function(program: Program) -> bool:
    """Returns whether a program holds an operation with only a Python implementation, so that it cannot be compiled.

    Such a program may be checkpointed, outside of `jit`: its operations run one by one.
    """
    if not contains_operation(program, RunsEagerly):
        return False
    return any([isinstance(e.op, RunsEagerly) and not e.op.can_compile for e in program.equations]) or any(
        [contains_python_function(p) for op in higher_order_operations(program) for p in op.programs]
    )


@attrs.frozen
class Identity(Elementwise, Linear):
    """Trait: returns its operand."""

    kinds: ClassVar[str] = "biufc"

    def applies_to(self, t: ArrayType) -> bool:
        """Returns whether the operation is defined for this type."""
        return True

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        return elementwise_type(self, types)


@final
@attrs.frozen
class CheckpointName(Identity):
    """The identity, with a name by which policies refer to the value.

    Attributes:
        label: the name.
    """

    label: str = attrs.field(validator=attrs.validators.instance_of(str))


@final
@attrs.frozen
class Unpinned(Identity):
    """The identity, on an argument of a checkpoint: XLA may merge what the second computation makes of it with the first."""


@final
@attrs.frozen
class Offload(Identity):
    """The identity, into another memory of the device. On a CPU, which has a single memory, nothing moves inside programs;
    a program's result is in that memory on every platform.

    Returned by a policy, it means that a value is saved there.

    >>> Offload("device", "pinned_host").dst
    'pinned_host'

    StableHLO: custom_call annotate_device_placement.

    Attributes:
        src: the kind of memory that computations use.
        dst: the kind of memory to store the value in, such as "pinned_host".
        back: True for the copy back.
    """

    src: str = attrs.field(validator=attrs.validators.instance_of(str))
    dst: str = attrs.field(validator=attrs.validators.instance_of(str))
    back: bool = False


def is_named(op: Operation[object], labels: frozenset[str]) -> bool:
    """Returns whether an operation names a value by one of these labels."""
    return type(op) is CheckpointName and op.label in labels
