"""The handler of padded arrays.

A payload is an array of padded sizes, and the shape that the user's function sees, whose sizes are symbolic. The
elements within the lengths are those of the function without padding; the padding may have any values, NaN included.
Rules keep it so: what combines elements along an axis first replaces those beyond the length by what changes nothing.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeVar, cast, final

import attrs

import effx.numpy as enp
from effx import Array, lax
from effx.errors import NoRuleError
from effx.handling import ArrayType, BoxHandler, Operation, array_type
from effx.ir.sizes.dimensions import has_symbolic, is_symbolic
from effx.ir.sizes.evaluation import evaluate, is_largest, substitute, variables
from effx.tree import PyTree

O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - the literature's name


@final
@attrs.frozen
class Padded:
    """An array of padded sizes.

    Attributes:
        value: the elements.
        shape: the one that the function sees; sizes may be symbolic.

    >>> import effx, effx.numpy as enp
    >>> from effx.library.padding import Padded
    >>> n, = effx.export.symbolic_shape("n")
    >>> x = Padded(enp.array([3.0, 1.0, 0.0, 0.0]), (n,))       # as many as n says are elements
    >>> x.value.shape, x.shape
    ((4,), (n,))
    """

    value: Array
    shape: tuple[int, ...] = attrs.field(metadata={"static": True})


@final
@attrs.frozen
class Padding(BoxHandler[Padded]):
    """Computes with padded arrays. It intercepts every operation, since a program may make arrays of symbolic sizes.

    Attributes:
        lengths: the values of the dimension variables: how many elements count.
        sizes: the values that the padded arrays have.

    >>> import effx, effx.numpy as enp
    >>> from effx.library.padding import Padded, Padding
    >>> n, = effx.export.symbolic_shape("n")
    >>> x = Padded(enp.array([3.0, 1.0, 7.0, 7.0]), (n,))
    >>> print(Padding({"n": enp.int32(2)}, {"n": 4}).run(enp.sum, x).value)
    4.0
    """

    lengths: Mapping[str, Array]
    sizes: Mapping[str, int] = attrs.field(metadata={"static": True})
    intercepts: ClassVar[bool] = True

    def lift(self, x: Array) -> Padded:
        """A plain array has no padding."""
        return Padded(x, x.type.shape)

    def primal(self, payload: Padded) -> Array | None:
        """The array itself, where it has no padding; so a scalar selects a branch."""
        return None if has_symbolic(payload.shape) else payload.value

    def type_of(self, payload: Padded) -> ArrayType:
        """The type that the function sees."""
        t = payload.value.type
        return array_type(t.dtype, payload.shape, t.weak)

    def length(self, n: int) -> Array | int:
        """Returns a size's value: how many elements count."""
        if not is_symbolic(n):
            return n
        return evaluate(n, self.lengths, lambda c: enp.asarray(c, enp.int32), _operate)

    def size(self, n: int) -> int:
        """Returns a size's value for the padded arrays.

        Raises:
            NoRuleError: for some lengths it is larger than for the padded sizes.
        """
        return padded_size(n, tuple(self.sizes.items())) if is_symbolic(n) else n

    def padded(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the padded sizes of a shape."""
        return tuple([self.size(n) for n in shape])

    def inside(self, shape: tuple[int, ...], axes: Sequence[int]) -> Array | None:
        """Returns which elements of a padded array count along some axes; None for all."""
        result: Array | None = None
        sizes = self.padded(shape)
        for axis in axes:
            if is_symbolic(shape[axis]):
                here = lax.broadcasted_iota(enp.int32, sizes, axis) < self.length(shape[axis])
                result = here if result is None else result & here
        return result

    def filled(self, x: Padded, axes: Sequence[int], fill: Any) -> Array:
        """Returns an array's elements, with a number for those beyond the lengths of some axes."""
        in_bounds = self.inside(x.shape, axes)
        return (
            x.value if in_bounds is None else enp.where(in_bounds, x.value, enp.asarray(fill, x.value.dtype))
        )

    def repeated(self, x: Array, shape: tuple[int, ...]) -> Array:
        """Returns an array with its padding replaced by the last element within the length, along each axis.

        Results for these are finite where the others are. So are derivatives, in which they are multiplied by zeros.
        """
        for axis, n in enumerate(shape):
            if is_symbolic(n):
                x = enp.take(x, enp.minimum(enp.arange(x.shape[axis]), self.length(n) - 1), axis, mode="clip")
        return x

    def fixed(self, op: O) -> O:
        """Returns an operation with padded sizes for the symbolic ones among its parameters."""
        kind: Any = type(op)
        if not attrs.has(kind):
            return op
        changed = {}
        for field in attrs.fields(kind):
            value = getattr(op, field.name)
            fixed_value = self._fixed(value)
            if fixed_value is not value:
                changed[field.name.lstrip("_")] = fixed_value
        if not changed:
            return op
        fixed_value = attrs.evolve(cast("Any", op), **changed)
        return cast("O", fixed_value)

    def _fixed(self, value: Any) -> Any:
        if is_symbolic(value):
            return self.size(value)
        if isinstance(value, tuple):
            parts = tuple([self._fixed(part) for part in value])
            return parts if any([a is not b for a, b in zip(parts, value, strict=True)]) else value
        if isinstance(value, ArrayType) and has_symbolic(value.shape):
            return value.with_shape(self.padded(value.shape))
        return value


def _operate(name: str, x: Array, y: Array) -> Array:
    match name:
        case "add":
            return x + y
        case "mul":
            return x * y
        case "floordiv":
            return x // y
        case "mod":
            return x % y
        case "max":
            return enp.maximum(x, y)
    return enp.minimum(x, y)


@lru_cache(4096)
def padded_size(n: int, sizes: tuple[tuple[str, int], ...]) -> int:
    """Returns a size's value for padded sizes, which must be the largest for all lengths up to them.

    Raises:
        NoRuleError: it is not, as that of `10 - n`: no array of the padded size could hold all elements that count.
    """
    values = dict(sizes)
    result = substitute(n, values)
    if not is_largest(n, values):
        values_text = ", ".join([f"{v} = {values[v]}" for v in variables(n)])
        raise NoRuleError(
            f"mask: the size {n} is {result} for the padded {values_text}, and larger for smaller lengths; only sizes "
            "that grow "
            f"with the lengths fit padded arrays"
        )
    return result


def refusal_error(op: Operation[PyTree], why: str) -> NoRuleError:
    """Returns the error of an operation that padded arrays do not go through."""
    return NoRuleError(f"mask: {op.name} {why}")


def is_padded(*types: ArrayType) -> bool:
    """Says whether a size is symbolic."""
    return any([has_symbolic(t.shape) for t in types])
