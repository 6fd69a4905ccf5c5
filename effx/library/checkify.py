"""Errors as values: what goes wrong inside compiled code is carried out of it, with the user's line.

The handler's state is the first error: a number that stands for its message, and up to two numbers that belong to it. Programs
carry it along, so that checks work inside jit and loops; of a branch that is not taken nothing is reported.

Never: stop a computation: after the first error it goes on with what it has.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal, ParamSpec, TypeVar, final

import attrs

import effx.numpy as enp
from effx import Array
from effx.array.values import Operand
from effx.errors import EffxError, TransformError
from effx.handling import (
    ArrayOperation,
    Elementwise,
    Frame,
    InterceptHandler,
    Label,
    Operation,
    Site,
    array_type,
    jvp_rule,
    materialize,
    vmap_rule,
)
from effx.ir.ops.elementwise import Div, Rem
from effx.ir.ops.index import Gather, Scatter
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.reduce import Cumulative, Reduction
from effx.ir.ops.shape import DynamicSlice, DynamicUpdateSlice

__all__ = ["CheckError", "Error", "ErrorKind", "check", "checkify"]

P = ParamSpec("P")
R = TypeVar("R")
ErrorKind = Literal["nan", "index", "div", "user"]
KINDS: tuple[ErrorKind, ...] = ("nan", "index", "div", "user")
CHECK = Label("check", optional=True)


class CheckError(EffxError, ValueError):
    """A check inside checked code has failed."""


@final
@attrs.frozen
class Message:
    """What one check says, and where it stands."""

    text: str
    line: str


# Numbers of messages, from 1; 0 is no error. A check keeps its number as long as the process lives.
_messages: list[Message] = [Message("", "")]
_numbers: dict[Message, int] = {}


def number_of(text: str, line: str) -> int:
    """Returns the number that stands for a message."""
    message = Message(text, line)
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
        details: f32[2], numbers that belong to the message.
    """

    code: Array
    details: Array

    def get(self) -> str | None:
        """Returns the message with the user's line; None where all went well. Of a batch, that of the first member."""
        codes, details = enp.ravel(self.code), enp.reshape(self.details, (-1, 2))
        bad = enp.flatnonzero(codes)
        if not bad.size:
            return None
        i = int(bad[0])
        message = _messages[int(codes[i])]
        first, second = [float(d) for d in details[i]]
        which = f" (member {i})" if self.code.ndim else ""
        return f"{message.text.format(first, second)} at {message.line}{which}"

    def throw(self) -> None:
        """Raises the error, if there is one.

        Raises:
            CheckError: a check has failed.
        """
        text = self.get()
        if text is not None:
            raise CheckError(f"checkify: {text}")


@final
@attrs.frozen
class Check(ArrayOperation):
    """The identity on a bool that shall be true. Operands: the bool, up to two numbers for the message.

    Attributes:
        message: with `{}` for the numbers.
    """

    message: str
    effects = frozenset({CHECK})

    def infer(self, *types: Any) -> Any:
        """A bool scalar, or one for each member of a batch."""
        return array_type(enp.bool_.dtype, types[0].shape)

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
    """Says that a condition holds; without `checkify` outside nothing is checked.

    Args:
        condition: a bool array, all of whose elements shall be true.
        message: what to say if not, with `{}` for each of the numbers.
        numbers: at most two scalars.
    """
    if len(numbers) > 2:
        raise TransformError(f"check: a message takes at most 2 numbers, got {len(numbers)}")
    Check(message)(enp.all(enp.asarray(condition)), *[enp.asarray(n).astype(enp.float32) for n in numbers])


@final
@attrs.frozen
class Checkify(InterceptHandler[Error]):
    """Watches operations. The state is the first error.

    Attributes:
        kinds: what to look for.
    """

    kinds: frozenset[ErrorKind]

    def initial(self) -> Error:
        """No error."""
        return Error(enp.int32(0), enp.zeros(2, enp.float32))

    def merge_states(self, a: Error, b: Error) -> Error:
        """The first of two errors."""
        return Error(enp.where(a.code != 0, a.code, b.code), enp.where(a.code != 0, a.details, b.details))

    def returns(self, result: Any, frame: Frame) -> Any:
        """The error and the result."""
        return frame.state, result


def report(site: Site[Checkify, Error], bad: Array, text: str, *numbers: Array) -> None:
    """Keeps an error if there is none yet."""
    state = site.state
    code = enp.int32(number_of(text, site.line))
    details = [n.astype(enp.float32) for n in numbers] + [enp.float32(0)] * (2 - len(numbers))
    new = bad & (state.code == 0)
    site.state = Error(enp.where(new, code, state.code), enp.where(new, enp.stack(details), state.details))


def watched(site: Site[Checkify, Error], op: Operation[Any]) -> Any:
    """Performs an operation and looks for NaN in what it gives."""
    y = site.forward()
    if "nan" in site.handler.kinds:
        for part in y if isinstance(y, tuple) else (y,):
            if part.type.kind in "fc":
                report(
                    site,
                    enp.any(enp.isnan(part)),
                    f"{op.name}: nan in the result {part.type!r}".replace("{", "{{"),
                )
    return y


@Checkify.rule(ArrayOperation)
def _(site: Site[Checkify, Error], op: ArrayOperation, *xs: Array) -> Array:
    computes = isinstance(op, Elementwise | Reduction | Cumulative | DotGeneral | Scatter)
    y: Array = watched(site, op) if computes else site.forward()
    return y


@Checkify.rule(Div, Rem)
def _(site: Site[Checkify, Error], op: Div | Rem, x: Array, y: Array) -> Array:
    if "div" in site.handler.kinds:
        report(site, enp.any(y == 0), f"{op.name}: division by zero")
    z: Array = watched(site, op)
    return z


def in_range(site: Site[Checkify, Error], op: Operation[Any], starts: Array, room: list[int]) -> None:
    """Reports starts, on the last axis, that leave no room for a slice."""
    if "index" not in site.handler.kinds or not starts.size:
        return
    if starts.type.kind == "u":
        starts = starts.astype(enp.int32)
    most = enp.asarray(room, starts.dtype)
    outside = (starts < 0) | (starts > most)
    worst = enp.argmax(enp.ravel(outside))
    report(
        site,
        enp.any(outside),
        f"{op.name}: index {{:.0f}} is out of bounds, the last is {{:.0f}}",
        enp.ravel(starts)[worst],
        enp.ravel(enp.broadcast_to(most, starts.shape))[worst],
    )


@Checkify.rule(Gather)
def _(site: Site[Checkify, Error], op: Gather, x: Array, indices: Array) -> Array:
    in_range(site, op, indices, [x.shape[a] - op.slice_sizes[a] for a in op.start_index_map])
    y: Array = watched(site, op)
    return y


@Checkify.rule(Scatter)
def _(site: Site[Checkify, Error], op: Scatter, x: Array, indices: Array, updates: Array) -> Array:
    kept = [a for a in range(x.ndim) if a not in op.inserted + op.operand_batch]
    window = {a: updates.shape[d] for a, d in zip(kept, op.window_dims, strict=True)}
    in_range(site, op, indices, [x.shape[a] - window.get(a, 1) for a in op.start_index_map])
    y: Array = watched(site, op)
    return y


@Checkify.rule(DynamicSlice, DynamicUpdateSlice)
def _(site: Site[Checkify, Error], op: ArrayOperation, x: Array, *rest: Array) -> Array:
    sizes = site.result_types[0].shape if isinstance(op, DynamicSlice) else rest[0].shape
    starts = rest if isinstance(op, DynamicSlice) else rest[1:]
    if starts:
        in_range(site, op, enp.stack(starts), [n - s for n, s in zip(x.shape, sizes, strict=True)])
    y: Array = site.forward()
    return y


@Checkify.rule(Check)
def _(site: Site[Checkify, Error], op: Check, holds: Array, *numbers: Array) -> Array:
    if "user" in site.handler.kinds:
        member = enp.argmin(enp.ravel(holds))
        report(site, ~enp.all(holds), op.message, *[enp.ravel(n)[member] for n in numbers])
    return holds


def checkify(fun: Callable[P, R], errors: Iterable[ErrorKind] = KINDS) -> Callable[P, tuple[Error, R]]:
    """Returns a function that also gives the first error as a value.

    Args:
        fun: any function.
        errors: what to look for: "nan" in results, "index" out of bounds, "div" by zero, "user" checks.

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
    kinds = frozenset(errors)
    for kind in kinds:
        if kind not in KINDS:
            raise TransformError(f"checkify: errors must be among {', '.join(KINDS)}, got {kind!r}")
    handler = Checkify(kinds)

    def checked(*args: P.args, **kwargs: P.kwargs) -> tuple[Error, R]:
        found: tuple[Error, R] = handler.run(fun, *args, **kwargs)
        return found

    return checked
