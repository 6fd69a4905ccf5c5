"""Primitives of JAX's that effx performs as other operations, so that no equation has them: `lax.squeeze_p` and the like.

Libraries write rules for them in tables of their own, and bind them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, final

from effx import lax
from effx.array import Array
from effx.array.promotion import as_operand
from effx.compat.defined import Primitive
from effx.errors import TransformError
from effx.ir.types import ArrayType, array_type
from effx.transforms.jit.make_jaxpr import eval_shape
from effx.tree.registry import PyTree

__all__ = ["COMPOSED", "ComposedPrimitive"]

F = TypeVar("F", bound=Callable[..., PyTree])


@final
class ComposedPrimitive(Primitive):
    """A primitive that is a function of other operations.

    Attributes:
        function: of arrays and of the primitive's parameters.
    """

    def __init__(self, name: str, function: Callable[..., PyTree], multiple_results: bool = False) -> None:
        super().__init__(name)
        self.function = function
        self.multiple_results = multiple_results

    def bind(self, /, *args: PyTree, **params: object) -> PyTree:
        """Calls the function."""
        results = self.function(*[as_operand(x, self.name) for x in args], **params)
        return list(results) if self.multiple_results else results

    def impl(self, /, *args: PyTree, **params: object) -> PyTree:
        """Calls the function."""
        return self.bind(*args, **params)

    def types(self, in_types: Sequence[ArrayType], params: Mapping[str, object]) -> tuple[ArrayType, ...]:
        """Returns the types of what the function gives."""
        results = eval_shape(lambda *xs: self.function(*xs, **params), *in_types)
        return tuple(
            [array_type(x.dtype, x.shape) for x in (results if self.multiple_results else [results])]
        )

    def def_impl(self, impl: F) -> F:
        """Raises a TransformError: effx defines how its functions are computed."""
        raise TransformError(f"{self.name}: is a function of effx; def_impl is for primitives of one's own")


def _reduce(
    *operands: Array, computation: Callable[..., PyTree], dimensions: Sequence[int], **_: object
) -> list[Array]:
    """Reduces arrays; the initial values are the second half of the operands."""
    half = len(operands) // 2
    if half == 1:
        return [lax.reduce(operands[0], operands[1], computation, dimensions)]
    return list(lax.reduce(operands[:half], operands[half:], computation, dimensions))


COMPOSED: Mapping[str, ComposedPrimitive] = {
    "add_jaxvals": ComposedPrimitive("add_any", lax.add),
    "reduce": ComposedPrimitive("reduce", _reduce, multiple_results=True),
    "split": ComposedPrimitive("split", lax.split, multiple_results=True),
    "squeeze": ComposedPrimitive("squeeze", lax.squeeze),
    "stack": ComposedPrimitive("stack", lambda *xs, axis: lax.stack(xs, axis)),
    "tile": ComposedPrimitive("tile", lax.tile),
    "unstack": ComposedPrimitive("unstack", lax.unstack, multiple_results=True),
}
"""By the names of the variables that hold them in JAX, without `_p`."""
