"""The arguments of one call of a jitted function: dynamic leaves, their structure and types, and static arguments."""

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
        tree: the structure of the dynamic arguments. types: the types of its leaves.
        static: the static arguments.
        donated: for each leaf whether its memory may be reused.
        leaves: the dynamic leaves as the user passed them. arrays: the same as arrays.
    """

    tree: PyTreeDef
    types: tuple[ArrayType, ...]
    static: StaticArguments
    donated: tuple[bool, ...]
    leaves: list[PyTree]
    arrays: list[Array]
    _concrete: list[ConcreteArray] | None = None

    def concrete_arrays(self) -> list[ConcreteArray]:
        """Returns the arrays on a device; they are moved there once."""
        if self._concrete is None:
            pairs = zip(self.arrays, self.donated, strict=True)  # a donated array must not share memory
            self._concrete = [to_concrete(x) if donated else to_device_operand(x) for x, donated in pairs]
        return self._concrete


def bind_static_arguments(
    static: StaticArguments,
) -> tuple[Hashable, Callable[[Arguments], Arguments] | None]:
    """Returns a cache key for the static arguments, and a function that adds them to the dynamic ones."""
    if not static:
        return None, None
    return tuple([(where, exact_key(value)) for where, value in static]), partial(
        merge_static_arguments, static
    )
