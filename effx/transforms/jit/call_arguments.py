"""The arguments of one call of a jitted function, taken apart."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import final

import attrs

from effx.array import Array
from effx.caching import exact_key
from effx.ir.types import ArrayType
from effx.lower.placement.concrete import ConcreteArray, to_concrete, to_device_operand
from effx.tracing.arguments import Arguments, StaticArguments, merge_static_arguments
from effx.tree.registry import PyTree, PyTreeDef


@final
@attrs.define(eq=False)
class CallArguments:
    """The arguments of one call.

    Attributes:
        tree: the structure of the dynamic ones. types: of their leaves.
        static: the others.
        donated: for each leaf whether its memory may be reused.
        leaves, arrays: as they were given, and as arrays.
    """

    tree: PyTreeDef
    types: tuple[ArrayType, ...]
    static: StaticArguments
    donated: tuple[bool, ...]
    leaves: list[PyTree]
    arrays: list[Array]
    _concrete: list[ConcreteArray] | None = None

    def concrete_arrays(self) -> list[ConcreteArray]:
        """Returns the arrays on a device, moved there once."""
        if self._concrete is None:
            pairs = zip(self.arrays, self.donated, strict=True)  # what is donated is nobody else's
            self._concrete = [to_concrete(x) if donated else to_device_operand(x) for x, donated in pairs]
        return self._concrete


def bind_static_arguments(
    static: StaticArguments,
) -> tuple[Hashable, Callable[[Arguments], Arguments] | None]:
    """Returns what adds static arguments to the dynamic ones, and before it the key for what it adds."""
    if not static:
        return None, None
    return tuple([(where, exact_key(value)) for where, value in static]), partial(
        merge_static_arguments, static
    )
