"""Arrays without device memory: boxes of handlers, and constants on the host."""

from typing import Any, ClassVar, final

import numpy as np
from typing_extensions import Unpack

from effx.effects import Frame, current_frame, describe_stack, is_in_scope
from effx.errors import (
    ConcretizationError,
    EscapedBoxError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    source_of,
)
from effx.ir.types import ArrayType
from effx.ir.values.array import Array
from effx.ir.values.described import HostData, Number
from effx.ir.values.parameters import DT, Dims
from effx.ir.values.printing import array_repr, host_text

# The advice for each Python conversion that a box refuses.
_ADVICE: dict[str, tuple[type[ConcretizationError], str]] = {
    "bool(x)": (TracerBoolConversionError, "use effx.numpy.where or effx.lax control flow"),
    "index(x)": (
        TracerIntegerConversionError,
        "use effx.lax control flow for loops, x.at and effx.numpy.take for indices",
    ),
    "numpy.asarray(x)": (TracerArrayConversionError, "use functions of effx.numpy instead of numpy's"),
}


class Box(Array[DT, Unpack[Dims]]):
    """An array that belongs to one installed handler. Libraries' traces make other arrays (`effx.compat.traces`).

    Attributes:
        frame: the handler's frame.
        payload: the handler's data: a dual number, a batched value, a variable.
        type: the type that the user's function sees.
    """

    __slots__ = ("__weakref__", "frame", "payload", "type")
    frame: Frame  # type: ignore[mutable-override]  # never None in a box, and never assigned again

    def __init__(self, frame: Frame, payload: Any, type: ArrayType) -> None:
        self.frame = frame
        self.payload = payload
        self.type = type

    @property
    def _trace(self) -> Frame:
        """The frame, by the name that JAX's libraries read."""
        return self.frame

    def __bool__(self) -> bool:
        # Only the truth value may be taken from a box: the handler's plain value chooses the path through the
        # program.
        if not self.frame.live:
            raise self.escaped_error()
        decide = getattr(self.frame.handler, "primal", None)
        plain = decide(self.payload) if decide is not None and self.type.size == 1 else None
        if plain is not None:
            return bool(plain)
        return super().__bool__()

    def host(self, asked: str) -> HostData:
        if not self.frame.live:
            raise self.escaped_error()
        handler = self.frame.handler
        kind, advice = _ADVICE.get(
            asked, (ConcretizationError, "keep it an array: use effx.numpy and effx.lax")
        )
        error = kind(
            f"{asked}: needs a concrete value, but x is an abstract {self.type!r} under {handler.describe()}"
            f"{f' ({self.frame.origin})' if self.frame.origin else ''}; {advice}"
            f"{', or mark the argument static' if handler.takes_static_arguments() else ''}"
        )
        error.handlers = describe_stack(current_frame())
        raise error

    def __repr__(self) -> str:
        return f"Traced<{self.type!r}>with<{self.frame.handler.describe()}>"

    def escaped_error(self) -> EscapedBoxError:
        """Returns the error for a box whose handler is not installed."""
        origin = f" of {self.frame.origin}" if self.frame.origin else ""
        source = self.frame.handler.made_at(self.frame, self.payload)
        handler = (
            f"{self.frame.handler.describe()}{origin}{f', made at {source_of(source)},' if source else ''}"
        )
        error = EscapedBoxError(
            f"escaped box: a value {self.type!r} that belongs to {handler} was used after that "
            f"handler had ended; return it from the function instead of keeping it in a variable outside"
            if not self.frame.live or not is_in_scope(self.frame)
            else f"escaped box: a value {self.type!r} of {handler} was used outside that handler"
        )
        error.frame = self.frame
        return error


@final
class HostArray(Array[DT, Unpack[Dims]]):
    """A constant whose data is on the host: a Python number or NumPy data.

    Attributes:
        value: a Python number for rank 0, or a NumPy array of the type's dtype and shape.
        type: the array type; a number is read as its dtype.
    """

    __slots__ = ("__weakref__", "type", "value")
    frame: ClassVar[None] = None  # type: ignore[misc, mutable-override]  # an instance slot in boxes

    def __init__(self, value: Number | HostData, type: ArrayType) -> None:
        self.value = value
        self.type = type

    def host(self, asked: str) -> HostData:
        return np.asarray(self.value, self.type.dtype)

    def __str__(self) -> str:
        return host_text(self)

    def __repr__(self) -> str:
        return array_repr(self)
