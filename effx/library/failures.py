"""Failed checks as values: a message has a number for compiled code, and the arrays in it are words of 32 bits.

So an `Error` is a pytree of two arrays, without static data: it passes through jit, vmap, loops and branches, and only
this process can look up the message of its number.
"""

import string
import threading
from collections.abc import Mapping, Sequence
from typing import final

import attrs
import numpy as np
from numpy.typing import NDArray

import effx.numpy as enp
from effx import Array, lax, random, tree
from effx.errors import EffxError, TransformError, name_user_call
from effx.handling import ArrayType
from effx.lazy import list_names

__all__ = ["CheckError", "Error", "Message", "number_of", "shown", "template", "words_in", "words_of"]
__dir__ = list_names(__all__)

HostData = NDArray[np.generic]


class CheckError(EffxError, ValueError):
    """A check has failed.

    >>> from effx.library.checkify import CheckError, check, checkify
    >>> error, _ = checkify(lambda x: check(x < 3, "{} is too large", x))(5)
    >>> try:
    ...     error.throw()
    ... except CheckError as failure:
    ...     print(failure)
    5 is too large (`check` failed at ... in <lambda>)...
    """


# --- arrays as words ------------------------------------------------------------------------------


def words_of(x: Array) -> Array:
    """Returns an array's bits as u32[n]; elements of fewer bits get a word each."""
    if x.type.kind == "V":
        return enp.ravel(random.key_data(x)).astype(enp.uint32)
    if x.type.kind == "c":
        return enp.concatenate([words_of(enp.real(x)), words_of(enp.imag(x))])
    if x.dtype.itemsize < 4:
        x = x.astype(enp.float32 if x.type.kind == "f" else enp.int32)
    return enp.ravel(lax.bitcast_convert_type(x, enp.uint32))


def words_in(t: ArrayType) -> int:
    """Returns how many words the values of a type have, which a batch has for each element."""
    if t.kind == "V":
        return t.size * (t.dtype.itemsize // 4)  # of a key: the words of its generator
    return t.size * max(1, t.dtype.itemsize // 4)


def decode_words(words: HostData, t: ArrayType) -> HostData:
    """Returns the array that was stored as words; of low precision as float32, of keys their words."""
    if t.kind == "V":
        return words
    if t.kind == "c":
        real, imag = np.split(words, 2)
        half = np.dtype(f"f{t.dtype.itemsize // 2}")
        decoded: HostData = (real.view(half) + 1j * imag.view(half)).astype(t.dtype)
    elif t.dtype.itemsize < 4:
        wide = words.view(np.float32 if t.kind == "f" else np.int32)
        decoded = wide.astype(bool) if t.kind == "b" else wide
    else:
        decoded = words.view(t.dtype)
    return decoded.reshape(t.shape)


# --- messages -------------------------------------------------------------------------------------


@final
@attrs.frozen
class Message:
    """The message of one check.

    Attributes:
        text: with fields, as of `str.format`, for values.
        structure: of the values: a tuple of those by position, and a dict of those by name.
        types: of the leaves.
        line: of the check, in the user's source.
        user: True for a check of the user's.
    """

    text: str
    structure: tree.PyTreeDef
    types: tuple[ArrayType, ...]
    line: str
    user: bool = False

    @property
    def room(self) -> int:
        """How many words the values take."""
        return sum([words_in(t) for t in self.types])

    def filled(self, words: HostData) -> str:
        """Returns the text with the values, and the line."""
        leaves, at = [], 0
        for t in self.types:
            leaves.append(decode_words(words[at : at + words_in(t)], t))
            at += words_in(t)
        text = shown(self.text, self.structure, leaves)
        return f"{text} (`check` failed at {self.line})" if self.user else f"{text} at {self.line}"


def shown(text: str, structure: tree.PyTreeDef, leaves: Sequence[HostData]) -> str:
    """Returns a message's text with its values: scalars as NumPy's scalars, which take formats of numbers."""
    args, named = tree.unflatten(structure, [x[()] for x in leaves])
    return _FORMATTER.vformat(text, args, named)


class _Formatter(string.Formatter):
    """Shows float32's 0.1 as 0.1: formatted, NumPy's scalar is a Python float of 17 digits."""

    def format_field(self, value: object, format_spec: str) -> str:
        return format(value, format_spec) if format_spec else str(value)


_FORMATTER = _Formatter()


def template(
    message: str, args: Sequence[object], named: Mapping[str, object]
) -> tuple[tree.PyTreeDef, list[Array]]:
    """Returns the structure and the leaves of a message's values, after a check that the message fits them.

    Raises:
        TransformError: a value is no array, or the message does not fit.
    """
    leaves, structure = tree.flatten((tuple(args), dict(named)))
    for x in leaves:
        if not isinstance(x, Array | np.ndarray | np.generic | bool | int | float | complex):
            raise TransformError(
                f"{name_user_call()}: the values of a message are pytrees of arrays, got {x!r} of type {type(x).__name__}"
            )
    arrays = [enp.asarray(x) for x in leaves]
    try:
        shown(
            message, structure, [decode_words(np.zeros(words_in(x.type), np.uint32), x.type) for x in arrays]
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        types = ", ".join([repr(x.type) for x in arrays]) or "no values"
        raise TransformError(
            f"{name_user_call()}: the message {message!r} does not fit {types}: {error}"
        ) from None
    return structure, arrays


# Numbers of messages, from 1; 0 is no error. Compiled code refers to them, so they stay; a check has one for all its
# runs.
_messages: list[Message | None] = [None]
_numbers: dict[Message, int] = {}
_lock = threading.Lock()


def number_of(message: Message) -> int:
    """Returns the number of a message."""
    with _lock:
        if message not in _numbers:
            _messages.append(message)
            _numbers[message] = len(_messages) - 1
        return _numbers[message]


# --- errors ---------------------------------------------------------------------------------------


@final
@attrs.frozen(repr=False)
class Error:
    """The first error of a run, as a value that jit, vmap, loops and branches return.

    Attributes:
        code: i32[*batch], the number of the message; 0 for none.
        details: u32[*batch, n] with n > 0, the words of the values in the message.

    >>> import effx, effx.numpy as enp
    >>> from effx.library.checkify import check, checkify
    >>> f = effx.jit(checkify(lambda x: check(x < 3, "{} is too large", x)))
    >>> error, _ = f(5)
    >>> print(error.get())
    5 is too large (`check` failed at ... in <lambda>)
    >>> print(f(2)[0].get())
    None
    """

    code: Array
    details: Array

    def get(self) -> str | None:
        """Returns the message with the user's line, or None.

        Of a batch it returns a line for each element with an error.

        Raises:
            TracerArrayConversionError: the error is not known yet, as inside jit.
        """
        codes = np.asarray(self.code)
        details = np.asarray(self.details).reshape((*codes.shape, -1)) if codes.size else None
        lines = []
        for index in np.argwhere(codes):
            assert details is not None
            code = int(codes[tuple(index)])
            message = _messages[code] if 0 < code < len(_messages) else None
            if message is None:
                text = f"check {code} failed, whose message only the process knows that staged it"
            else:
                text = message.filled(details[tuple(index)])
            where = f"at mapped index {', '.join(map(str, index))}: " if codes.ndim else ""
            lines.append(where + text)
        return "\n".join(lines) or None

    def get_exception(self) -> CheckError | None:
        """Returns what `throw` raises, or None."""
        text = self.get()
        return None if text is None else CheckError(text)

    def throw(self) -> None:
        """Raises the error, if there is one.

        Raises:
            CheckError: a check has failed.
        """
        exception = self.get_exception()
        if exception is not None:
            raise exception

    def __str__(self) -> str:
        """The message."""
        return f"Error({self.get()})"

    def __repr__(self) -> str:
        """The arrays, which may be traced."""
        return f"Error(code={self.code!r}, details={self.details!r})"

    def with_room(self, words: int) -> "Error":
        """Returns the error with at least so many words."""
        missing = words - self.details.shape[-1]
        if missing <= 0:
            return self
        return Error(self.code, enp.concatenate([self.details, enp.zeros(missing, enp.uint32)]))

    def first(self) -> "Error":
        """Returns the first error of a batch."""
        codes = enp.ravel(self.code)
        if not codes.size:
            return Error.none(1)
        which = enp.argmax(codes != 0)
        return Error(codes[which], enp.reshape(self.details, (codes.size, self.details.shape[-1]))[which])

    def or_else(self, other: "Error") -> "Error":
        """Returns this error; if it is none, the other."""
        a, b = self.with_room(other.details.shape[-1]), other.with_room(self.details.shape[-1])
        new = a.code == 0
        return Error(enp.where(new, b.code, a.code), enp.where(new, b.details, a.details))

    @classmethod
    def none(cls, words: int) -> "Error":
        """Returns no error, with room for so many words."""
        return cls(enp.int32(0), enp.zeros(words, enp.uint32))

    @classmethod
    def where(cls, bad: Array, message: Message, values: Sequence[Array]) -> "Error":
        """Returns an error with a message where `bad` holds."""
        parts = [words_of(x) for x in values]
        details = enp.concatenate(parts) if message.room else enp.zeros(1, enp.uint32)
        return cls(enp.where(bad, enp.int32(number_of(message)), enp.int32(0)), details)
