"""Making and splitting keys.

A key is an array u32[2]. Each key should be used once; to draw again, split it first.
"""

from collections.abc import Sequence

import numpy as np

from effx import dtypes
from effx.array import Array, Operand
from effx.array.promotion import as_operand, convert, scalar
from effx.array.shaping import stack
from effx.effects import current_frame, perform
from effx.errors import DTypeError
from effx.flags import enable_x64
from effx.ir.ops.elementwise import ShiftRightLogical
from effx.lower.concrete import put
from effx.random.arguments import KEY, as_key, sizes_of
from effx.random.threefry import fold_words, split_key
from effx.transforms.jit import jit

__all__ = ["PRNGKey", "clone", "fold_in", "key", "key_data", "key_impl", "split", "wrap_key_data"]

IMPLEMENTATIONS = ("threefry2x32",)


def _check_implementation(what: str, impl: str | None) -> None:
    if impl is not None and impl not in IMPLEMENTATIONS:
        raise DTypeError(f"{what}: impl must be one of {', '.join(IMPLEMENTATIONS)}, got {impl!r}")


def PRNGKey(seed: Operand, *, impl: str | None = None) -> Array:
    """Returns the key for a seed.

    Args:
        seed: an integer. Without `enable_x64` its lowest 32 bits count, with it 64.
        impl: the generator's name; "threefry2x32" is the only one.

    Returns:
        A key u32[2].

    Raises:
        DTypeError: the seed is no integer scalar.
        OverflowError: the seed is a Python int of more than 64 bits.

    >>> PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    _check_implementation("PRNGKey", impl)
    if type(seed) is int:
        if not -(2**63) <= seed < 2**63:
            raise OverflowError(f"python int {seed} is out of bounds for i64")
        high = (seed >> 32) & 0xFFFFFFFF if enable_x64.value else 0
        data = np.asarray([high, seed & 0xFFFFFFFF], np.uint32)
        # Under a handler the key is a constant like any other.
        return put(data, KEY) if current_frame() is None else as_operand(data)
    x = as_operand(seed, "PRNGKey")
    if x.type.kind not in "biu" or x.type.shape:
        raise DTypeError(f"PRNGKey: the seed must be an integer scalar, got {x.type!r}")
    low = convert(x, dtypes.uint32)
    if dtypes.bits(x.type.dtype) < 64:
        return stack([scalar(0, dtypes.uint32, False), low])
    high_word = perform(ShiftRightLogical(), (x, scalar(32, x.type.dtype)))
    return stack([convert(high_word, dtypes.uint32), low])


def key(seed: Operand, *, impl: str | None = None) -> Array:
    """Returns the key for a seed; the same as `PRNGKey`, until keys have a dtype of their own.

    Args:
        seed: an integer. Without `enable_x64` its lowest 32 bits count, with it 64.
        impl: the generator's name; "threefry2x32" is the only one.

    Returns:
        A key u32[2].

    Raises:
        DTypeError: the seed is no integer scalar.

    >>> key(7)
    Array([0, 7], dtype=uint32)
    """
    return PRNGKey(seed, impl=impl)


def key_data(keys: Operand) -> Array:
    """Returns the words that keys consist of.

    Args:
        keys: `u32[*s, 2]`.

    Returns:
        The array `u32[*s, 2]`.

    Raises:
        DTypeError: they are no keys.

    >>> key_data(key(7))
    Array([0, 7], dtype=uint32)
    """
    return _keys("key_data", keys)


def wrap_key_data(key_bits_array: Operand, *, impl: str | None = None) -> Array:
    """Returns the keys made of words.

    Args:
        key_bits_array: `u32[*s, 2]`.
        impl: the generator's name; "threefry2x32" is the only one.

    Returns:
        Keys `u32[*s, 2]`.

    Raises:
        DTypeError: the words have another dtype or number.

    >>> import numpy as np
    >>> wrap_key_data(np.array([0, 7], np.uint32))
    Array([0, 7], dtype=uint32)
    """
    _check_implementation("wrap_key_data", impl)
    return _keys("wrap_key_data", key_bits_array)


def _keys(what: str, keys: Operand) -> Array:
    x = as_operand(keys, what)
    if x.type.dtype != dtypes.uint32 or x.type.shape[-1:] != (2,):
        raise DTypeError(f"{what}: takes keys u32[..., 2], got {x.type!r}")
    return x


_split = jit(split_key, static_argnames=("shape",))
_fold = jit(fold_words)


def split(key: Operand, num: int | Sequence[int] = 2) -> Array:
    """Returns keys that are independent of each other and of the key.

    Args:
        key: a key u32[2], not to be used again.
        num: how many, or a shape of keys.

    Returns:
        Keys `u32[num, 2]`, or `u32[*num, 2]`.

    Raises:
        DTypeError: it is no key.
        ShapeError: `num` is neither a number nor a shape.

    >>> split(PRNGKey(0))
    Array([[1797259609, 2579123966],
           [ 928981903, 3453687069]], dtype=uint32)
    """
    return _split(
        as_key("split", key), shape=(num,) if type(num) is int and num >= 0 else sizes_of("split", num)
    )


def fold_in(key: Operand, data: Operand) -> Array:
    """Returns the key for a number under a key.

    Args:
        key: a key u32[2].
        data: an integer scalar; its lowest 32 bits count.

    Returns:
        A key u32[2], independent of the keys for other numbers.

    Raises:
        DTypeError: it is no key, or the number is no integer scalar.
        OverflowError: the number is a Python int that is negative or has more than 32 bits.

    >>> fold_in(PRNGKey(0), 1)
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    if type(data) is int:
        return _fold(as_key("fold_in", key), scalar(data, dtypes.uint32, False))
    number = as_operand(data, "fold_in")
    if number.type.kind not in "biu" or number.type.shape:
        raise DTypeError(f"fold_in: the number must be an integer scalar, got {number.type!r}")
    return _fold(as_key("fold_in", key), convert(number, dtypes.uint32))


def clone(key: Operand) -> Array:
    """Returns the same keys, to say that they are used again on purpose.

    >>> clone(PRNGKey(7))
    Array([0, 7], dtype=uint32)
    """
    return _keys("clone", key)


def key_impl(keys: Operand) -> str:
    """Returns the name of the keys' generator.

    >>> key_impl(PRNGKey(7))
    'threefry2x32'
    """
    _keys("key_impl", keys)
    return IMPLEMENTATIONS[0]
