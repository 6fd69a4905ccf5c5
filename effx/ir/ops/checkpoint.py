"""Rematerialisation: programs whose linearisation computes again what it does not save, and names for values."""

from collections.abc import Callable
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


@final
@attrs.frozen
class Checkpoint(Calling):
    """Calls a program whose linearisation saves few residuals: the others are computed again.

    Attributes:
        policy: which of the program's intermediate results are saved; None for none.
        prevent_cse: True to keep XLA from merging the second computation with the first.
    """

    policy: Policy | None = None
    prevent_cse: bool = True


def contains_python_function(program: Program) -> bool:
    """Says whether a program holds an operation of which only a Python function is known, so that it cannot be compiled.

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
        """Says whether it has a meaning for an array of this type."""
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
class Offload(Identity):
    """The identity, in another memory of the device. On a CPU, whose memories are one, nothing moves inside of programs;
    what a program returns is in that memory on every platform.

    Returned by a policy, it means that a value is saved there.

    >>> Offload("device", "pinned_host").dst
    'pinned_host'

    StableHLO: custom_call annotate_device_placement.

    Attributes:
        src: the kind of memory that computations use.
        dst: the kind of memory to keep the value in, such as "pinned_host".
        back: True for the copy back.
    """

    src: str = attrs.field(validator=attrs.validators.instance_of(str))
    dst: str = attrs.field(validator=attrs.validators.instance_of(str))
    back: bool = False


def is_named(op: Operation[object], labels: frozenset[str]) -> bool:
    """Says whether an operation names a value by one of these labels."""
    return type(op) is CheckpointName and op.label in labels
