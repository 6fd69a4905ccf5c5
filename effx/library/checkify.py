"""Errors as values: the first error inside compiled code is returned, with the user's line.

The handler's state is the first error: the number of its message, and up to two numbers for it. The state is
threaded through programs, so checks work inside jit and loops; a branch that is not taken reports nothing.
Under an inner `vmap` all batch elements are checked at once, in all branches that any of them takes;
`vmap(checkify(f))` reports an error for each batch element.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, final

import attrs
import numpy as np

import effx.numpy as enp
from effx import Array
from effx.errors import EffxError, TransformError
from effx.families.convolution import Convolution
from effx.families.windows import WindowReduction
from effx.handling import ArrayOperation, Elementwise, Frame, InterceptHandler, Operation, Site
from effx.ir.ops.checkpoint import Identity
from effx.ir.ops.convert import Convert, Copy, StopGradient
from effx.ir.ops.elementwise import Div, IntegerPow, Pow, Rem, Select
from effx.ir.ops.index import Gather, Scatter
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.reduce import Cumulative, Reduction
from effx.ir.ops.shape import DynamicSlice, DynamicUpdateSlice
from effx.library.checks import Check, as_bits, check, from_bits
from effx.library.wrapping import under

__all__ = ["CheckError", "Error", "ErrorKind", "check", "checkify"]

P = ParamSpec("P")
R = TypeVar("R")
ErrorKind = Literal["nan", "index", "div", "user"]
KINDS: tuple[ErrorKind, ...] = ("nan", "index", "div", "user")


class CheckError(EffxError, ValueError):
    """A check inside checked code has failed."""


@final
@attrs.frozen
class Message:
    """The message of one check: a text with `{}` for its numbers, their kinds, and the check's line."""

    text: str
    kinds: str
    line: str


# Numbers of messages, from 1; 0 is no error. Compiled code refers to them, so they stay; a check has one for all its runs.
_messages: list[Message] = [Message("", "", "")]
_numbers: dict[Message, int] = {}


def number_of(message: Message) -> int:
    """Returns the number that stands for a message."""
    if message not in _numbers:
        _messages.append(message)
        _numbers[message] = len(_messages) - 1
    return _numbers[message]


@final
@attrs.frozen
class Error:
    """The first error of a run, as a value that jit and vmap return.

    Attributes:
        code: i32[], the number of the message; 0 for none.
        details: i32[2] (i64[2] with `enable_x64`), the bits of numbers that belong to the message.
    """

    code: Array
    details: Array

    def get(self) -> str | None:
        """Returns the message with the user's line, or None; of a batch, that of its first element."""
        codes, details = np.asarray(self.code).ravel(), np.asarray(self.details).reshape((-1, 2))
        bad = np.flatnonzero(codes)
        if not bad.size:
            return None
        i = int(bad[0])
        message = _messages[int(codes[i])]
        numbers = [from_bits(kind, n) for kind, n in zip(message.kinds, details[i], strict=False)]
        which = f" (batch element {i})" if self.code.ndim else ""
        return f"{message.text.format(*numbers)} at {message.line}{which}"

    def throw(self) -> None:
        """Raises the error, if there is one.

        Raises:
            CheckError: a check has failed.
        """
        text = self.get()
        if text is not None:
            raise CheckError(f"checkify: {text}")

    def or_else(self, bad: Array, text: str, line: str, *numbers: Array) -> "Error":
        """Returns this error, or one with the message if there is none and `bad` holds."""
        kinds = "".join([n.type.kind for n in numbers])
        code = enp.int32(number_of(Message(text, kinds, line)))
        zero = enp.zeros((), self.details.dtype)
        details = enp.stack([*[as_bits(n, zero) for n in numbers], zero, zero][:2])
        new = bad & (self.code == 0)
        return Error(enp.where(new, code, self.code), enp.where(new, details, self.details))


@final
@attrs.frozen
class Checkify(InterceptHandler[Error]):
    """Checks operations. The state is the first error.

    Attributes:
        kinds: what to look for.
    """

    kinds: frozenset[ErrorKind]

    def initial(self) -> Error:
        """No error."""
        wide = enp.result_type(int) == enp.int64
        return Error(enp.int32(0), enp.zeros(2, enp.int64 if wide else enp.int32))

    def merge_states(self, a: Error, b: Error) -> Error:
        """The first of two errors."""
        return Error(enp.where(a.code != 0, a.code, b.code), enp.where(a.code != 0, a.details, b.details))

    def returns(self, result: Any, frame: Frame) -> Any:
        """The error and the result."""
        return frame.state, result


Here = Site[Checkify, Error]


def report(site: Here, kind: ErrorKind, bad: Array, text: str, *numbers: Array) -> None:
    """Keeps an error if there is none yet."""
    if kind in site.handler.kinds:
        site.state = site.state.or_else(bad, text, site.line, *numbers)


def has_nan(*xs: Array) -> Array:
    """Says whether there is a NaN among arrays."""
    found = [enp.any(enp.isnan(x)) for x in xs if x.type.kind in "fc"]
    return enp.any(enp.stack(found)) if found else enp.asarray(False)


def watched(site: Here, op: ArrayOperation, *xs: Array) -> Array:
    """Performs an operation and looks for NaN in its results."""
    y: Array = site.forward()
    if "nan" in site.handler.kinds and y.type.kind in "fc":
        bad, came = has_nan(y), has_nan(*xs)
        report(site, "nan", bad & came, f"{op.name}: nan in an operand")
        report(site, "nan", bad, f"{op.name}: nan in the result {y.type!r}")
    return y


Checkify.rule(Elementwise, Reduction, Cumulative, WindowReduction, DotGeneral, Convolution)(watched)


@Checkify.rule(Select, Convert, Copy, StopGradient, Identity)
def _(site: Here, op: ArrayOperation, *xs: Array) -> Array:
    y: Array = site.forward()  # choosing and copying make no NaN, and may serve to remove them
    return y


@Checkify.rule(Div, Rem)
def _(site: Here, op: Div | Rem, x: Array, y: Array) -> Array:
    report(site, "div", enp.any(y == 0), f"{op.name}: division by zero")
    return watched(site, op, x, y)


@Checkify.rule(Pow)
def _(site: Here, op: Pow, x: Array, y: Array) -> Array:
    if y.type.kind == "f":
        report(site, "div", enp.any((x == 0) & (y < 0)), "pow: division by zero")
    return watched(site, op, x, y)


@Checkify.rule(IntegerPow)
def _(site: Here, op: IntegerPow, x: Array) -> Array:
    if op.exponent < 0:
        report(site, "div", enp.any(x == 0), "integer_pow: division by zero")
    return watched(site, op, x)


def in_range(site: Here, op: Operation[Any], starts: Array, room: Sequence[int]) -> None:
    """Reports starts (along the last axis) of slices that are out of range."""
    if "index" not in site.handler.kinds or not starts.size:
        return
    largest = int(np.iinfo(starts.dtype).max)
    most = enp.asarray([min(n, largest) for n in room], starts.dtype)
    outside = (starts < 0) | (starts > most)
    worst = enp.argmax(enp.ravel(outside))
    numbers = enp.ravel(starts)[worst], enp.ravel(enp.broadcast_to(most, starts.shape))[worst]
    text = f"{op.name}: index {{}} is out of bounds, the last is {{}}"
    report(site, "index", enp.any(outside), text, *numbers)


@Checkify.rule(Gather)
def _(site: Here, op: Gather, x: Array, indices: Array) -> Array:
    in_range(site, op, indices, [x.shape[a] - op.slice_sizes[a] for a in op.start_index_map])
    y: Array = site.forward()
    return y


@Checkify.rule(Scatter)
def _(site: Here, op: Scatter, x: Array, indices: Array, updates: Array) -> Array:
    kept = [a for a in range(x.ndim) if a not in op.inserted + op.operand_batch]
    window = {a: updates.shape[d] for a, d in zip(kept, op.window_dims, strict=True)}
    in_range(site, op, indices, [x.shape[a] - window.get(a, 1) for a in op.start_index_map])
    return watched(site, op, x, updates)


@Checkify.rule(DynamicSlice, DynamicUpdateSlice)
def _(site: Here, op: ArrayOperation, x: Array, *rest: Array) -> Array:
    sizes = site.result_types[0].shape if isinstance(op, DynamicSlice) else rest[0].shape
    starts = rest if isinstance(op, DynamicSlice) else rest[1:]
    if starts:
        in_range(site, op, enp.stack(starts), [n - s for n, s in zip(x.shape, sizes, strict=True)])
    y: Array = site.forward()
    return y


@Checkify.rule(Check)
def _(site: Here, op: Check, holds: Array, *numbers: Array) -> Array:
    which = enp.argmin(enp.ravel(holds))
    report(site, "user", ~enp.all(holds), op.message, *[enp.ravel(n)[which] for n in numbers])
    return holds


def checkify(
    fun: Callable[P, R], errors: ErrorKind | Iterable[ErrorKind] = KINDS
) -> Callable[P, tuple[Error, R]]:
    """Returns a function that also gives the first error as a value.

    Args:
        fun: any function.
        errors: what to look for, one or several: "nan" in results, "index" out of bounds (after negative ones
            are counted from the end), "div" by zero, "user" checks.

    Returns:
        A function with the result `(error, result)`; it may be jitted and vmapped. `error.get()` gives the message,
        `error.throw()` raises it.

    Raises:
        TransformError: an unknown kind of error.

    >>> import effx, effx.numpy as enp
    >>> error, y = effx.jit(checkify(lambda x: enp.log(x)))(enp.array([1.0, -1.0]))
    >>> print(error.get())
    log: nan in the result f32[2] at ... in <lambda>
    """
    kinds = frozenset({errors} if isinstance(errors, str) else errors)
    for kind in kinds:
        if kind not in KINDS:
            raise TransformError(f"checkify: errors must be among {', '.join(KINDS)}, got {kind!r}")
    return under(Checkify(kinds), fun)
