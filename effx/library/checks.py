"""The operation of checks: a bool that must be true, with a message and up to two numbers for it."""

from typing import Any, final

import attrs
import numpy as np

import effx.numpy as enp
from effx import Array, lax
from effx.errors import TransformError
from effx.handling import ArrayOperation, ArrayType, Label, jvp_rule, materialize, vmap_rule
from effx.ir.values.array import Operand

__all__ = ["Check", "as_bits", "check", "from_bits"]

CHECK = Label("check", optional=True)


def as_bits(n: Array, like: Array) -> Array:
    """Stores a number's bits in an integer of the details' dtype."""
    if n.type.kind != "f":
        return n.astype(like.dtype)
    return lax.bitcast_convert_type(n.astype(f"float{8 * like.dtype.itemsize}"), like.dtype)


def from_bits(kind: str, bits: np.signedinteger[Any]) -> float:
    """Returns the number from its bits."""
    number: float = bits.view(f"{kind}{bits.itemsize}").item() if kind != "b" else bool(bits)
    return number


@final
@attrs.frozen
class Check(ArrayOperation):
    """The identity on a bool that must be true. Operands: the bool, up to two numbers for the message.

    Attributes:
        message: with `{}` for the numbers.
    """

    message: str
    effects = frozenset({CHECK})

    def infer(self, *types: ArrayType) -> ArrayType:
        """A bool scalar, or one for each batch element."""
        return types[0]

    def decompose(self, *operands: Any) -> Array:
        """The bool."""
        found: Array = operands[0]
        return found


@jvp_rule(Check)
def _(op: Check, xs: tuple[Array, ...], dxs: Any) -> tuple[Array, None]:
    return op(*xs), None


@vmap_rule(Check)
def _(handler: Any, op: Check, values: tuple[Array, ...], axes: tuple[int | None, ...]) -> tuple[Array, int]:
    return op(*[materialize(handler, x, a) for x, a in zip(values, axes, strict=True)]), 0


def check(condition: Operand, message: str, *numbers: Operand) -> None:
    """Requires a condition to hold; checked only under `checkify`.

    Args:
        condition: an array, all of whose elements must be true.
        message: the error's text, with `{}` for each of the numbers. Messages are kept as long as the process
            lives.
        numbers: at most two real scalars.

    Raises:
        TransformError: the message is no string or does not fit the numbers.

    >>> from effx.library.checkify import checkify
    >>> error, _ = checkify(lambda x: check(x < 3, "{} is not less than {}", x, 3))(5)
    >>> print(error.get())
    5 is not less than 3 at ... in <lambda>
    """
    found = [enp.asarray(n) for n in numbers]
    if len(found) > 2:
        raise TransformError(f"check: a message takes at most 2 numbers, got {len(found)}")
    for n in found:
        if n.shape or n.type.kind == "c":
            raise TransformError(f"check: the numbers of a message are real scalars, got {n.type!r}")
    try:
        message.format(*[from_bits(n.type.kind, np.int32(0)) for n in found])
    except (AttributeError, IndexError, KeyError, ValueError) as error:
        shown = ", ".join([repr(n.type) for n in found]) or "no numbers"
        raise TransformError(f"check: the message {message!r} does not fit {shown}: {error}") from None
    Check(message)(enp.all(enp.asarray(condition)), *found)
