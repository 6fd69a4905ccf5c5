"""Traits of operations that are Python functions on the host, and their effects."""

from typing import Final, Self

from effx.effects import Effect, Label
from effx.errors import ProgramError
from effx.ir.ops.base import TupleOperation
from effx.ir.values.array import Array
from effx.ir.values.described import HostData

# The effects of debugging, and other side effects: in any order, or in program order.
DEBUG: Final = Label("debug", optional=True, ordered=False)
ORDERED_DEBUG: Final = Label("ordered debug", optional=True)
IO: Final = Label("io", optional=True, ordered=False)
ORDERED_IO: Final = Label("ordered io", optional=True)

# The side effect of a foreign function.
FFI: Final = Label("ffi", optional=True, ordered=False)

ORDERED: Final = frozenset({ORDERED_DEBUG, ORDERED_IO})


def describe_side_effect(effects: frozenset[Effect]) -> str:
    """Describes, for errors, a side effect that must not happen more often than written; "" for none."""
    if not {IO, ORDERED_IO}.isdisjoint(effects):
        return "an io_callback"
    return "a foreign function with a side effect" if FFI in effects else ""


class Hosted(TupleOperation):
    """Trait: runs as a Python function on the host, wherever the program runs."""

    __slots__ = ()

    @property
    def called_function(self) -> str:
        """The name of effx's function that the user called."""
        return self.name

    def run_on_host(self, *values: HostData) -> tuple[HostData, ...]:
        """Computes the results."""
        raise ProgramError(
            f"{self.name}: the operation does not say what it does on the host; override on_host"
        )

    def with_token(self) -> Self:
        """Returns the operation with a token, i32[], as one more operand and result in front.

        Each such operation waits for the previous one by this operand, so that nothing else depends on their order.
        """
        raise ProgramError(f"{self.name}: the operation has no order; override with_token")


class RunsEagerly:
    """Trait: outside of programs the operation is a Python function of arrays, without a compiled kernel."""

    __slots__ = ()

    @property
    def can_compile(self) -> bool:
        """Whether compiled programs may hold it."""
        return True

    def run_eagerly(self, *operands: Array) -> tuple[Array, ...]:
        """Computes the results."""
        raise ProgramError(f"{self!r}: the operation does not say what it does eagerly; override eagerly")
