"""Making and splitting keys.

A typed key is an element of an array whose dtype names the generator: `key` makes one. A raw key is the words
themselves, u32[2] or u32[4], and is read by the flag `default_prng_impl`: `PRNGKey` makes one. Each key
should be used once; to draw again, split it first.
"""

from collections.abc import Sequence
from typing import NewType

import numpy as np

from effx import dtypes
from effx.array import Array, Operand
from effx.array.promotion import as_operand, convert, convert_whole_float
from effx.array.shaping import concatenate, stack
from effx.dtypes import DType, SupportsDType
from effx.effects import current_frame, perform
from effx.errors import DTypeError, OptionError, name_user_call
from effx.flags import debug_key_reuse, default_prng_impl, enable_custom_prng, enable_x64
from effx.ir.ops.convert import Bitcast
from effx.ir.ops.elementwise import ShiftRightLogical
from effx.ir.types import array_type
from effx.ir.values.scalars import scalar
from effx.lower.placement.concrete import place_on_device
from effx.random.arguments import check_key, check_sizes, mark_keys_used
from effx.random.generators import IMPLEMENTATIONS, fold_words, key_data_words, split_key
from effx.transforms.jit.jit import jit

__all__ = [
    "Key", "PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "split", "wrap_key_data",
]  # fmt: skip

Key = NewType("Key", Array)
"""An array of typed keys, for annotations."""

KeyDTypeLike = str | DType | SupportsDType | None


def _dtype_of(requested: KeyDTypeLike) -> DType:
    """Returns the dtype of keys that a user named: by the generator, or itself; None for the default one."""
    if requested is None:
        return dtypes.KEYS[default_prng_impl.value]
    if isinstance(requested, str):
        entry = dtypes.KEYS.get(requested)
        if entry is not None:
            return entry
    else:
        dtype = getattr(requested, "dtype", requested)
        if isinstance(dtype, np.dtype) and dtypes.is_key(dtype):
            return dtype
    names = ", ".join(dtypes.KEYS)
    raise OptionError(
        f"{name_user_call()}: impl must be one of {names}, or a dtype of keys, got {requested!r}"
    )


def _choose_dtype(impl: KeyDTypeLike, dtype: KeyDTypeLike) -> DType:
    if impl is not None and dtype is not None:
        raise DTypeError(f"{name_user_call()}: takes impl or dtype, got both")
    return _dtype_of(impl if dtype is None else dtype)


def _seed_words(seed: Operand, count: int) -> Array | np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """The words of the key for a seed: on the host if the seed is a Python int."""
    if isinstance(seed, np.ndarray | np.generic) and seed.dtype in (np.int64, np.uint64) and not seed.shape:
        # Its lowest words count, as for a Python int: a seed is no number that a narrower dtype would change.
        value = int(seed)
        seed = value - 2**64 if value >= 2**63 else value
    if type(seed) is int:
        if not -(2**63) <= seed < 2**63:
            raise OverflowError(f"python int {seed} is out of bounds for i64")
        high = (seed >> 32) & 0xFFFFFFFF if enable_x64.value else 0
        return np.asarray([high, seed & 0xFFFFFFFF] * (count // 2), np.uint32)
    x = as_operand(seed)
    if x.type.kind not in "biu" or x.type.shape:
        raise DTypeError(f"{name_user_call()}: the seed must be an integer scalar, got {x.type!r}")
    low = convert(x, dtypes.uint32)
    high_word: Array = scalar(0, dtypes.uint32, False)
    if dtypes.bits(x.type.dtype) == 64:
        shifted = perform(ShiftRightLogical(), (x, scalar(32, x.type.dtype)))
        high_word = convert(shifted, dtypes.uint32)
    words = stack([high_word, low])
    return words if count == 2 else concatenate([words, words], 0)


def PRNGKey(seed: Operand, *, impl: KeyDTypeLike = None) -> Array:
    """Returns the raw key for a seed.

    Args:
        seed: an integer. Without `enable_x64` its lowest 32 bits count, with it 64.
        impl: the generator's name, "threefry2x32", "rbg" or "unsafe_rbg"; by default the flag's.

    Returns:
        The words of a key: u32[2] for threefry2x32, u32[4] for the others. A typed key, as `key` gives it, where
        `enable_custom_prng` is on.

    Raises:
        DTypeError: the seed is no integer scalar, or there is no such generator.
        OverflowError: the seed is a Python int of more than 64 bits.

    >>> PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    if enable_custom_prng.value:
        return key(seed, impl=impl)
    words = _seed_words(seed, _dtype_of(impl).itemsize // 4)
    if isinstance(words, Array):
        return words
    # Under a handler the key is a constant like any other.
    return (
        place_on_device(words, array_type(dtypes.uint32, words.shape))
        if current_frame() is None
        else as_operand(words)
    )


def key(seed: Operand, *, impl: KeyDTypeLike = None, dtype: KeyDTypeLike = None) -> Array:
    """Returns the typed key for a seed.

    Args:
        seed: an integer. Without `enable_x64` its lowest 32 bits count, with it 64.
        impl: the generator's name, "threefry2x32", "rbg" or "unsafe_rbg"; by default the flag's.
        dtype: the same, or a dtype of keys.

    Returns:
        A key, of rank 0.

    Raises:
        DTypeError: the seed is no integer scalar, there is no such generator, or it is given twice.
        OverflowError: the seed is a Python int of more than 64 bits.

    >>> key(7)
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    key_type = _choose_dtype(impl, dtype)
    words = _seed_words(seed, key_type.itemsize // 4)
    if isinstance(words, Array):
        return Bitcast(key_type)(words)
    typed = words.view(key_type).reshape(())
    return place_on_device(typed, array_type(key_type)) if current_frame() is None else as_operand(typed)


def key_dtype(impl_spec: KeyDTypeLike = None) -> DType:
    """Returns the dtype of a generator's keys.

    Args:
        impl_spec: the generator's name, "threefry2x32", "rbg" or "unsafe_rbg", or a dtype of keys; by default
            what the flag `default_prng_impl` says.

    Raises:
        DTypeError: there is no such generator.

    >>> key_dtype("rbg") == key(0, impl="rbg").dtype
    True
    """
    return _dtype_of(impl_spec)


def key_data(keys: Operand) -> Array:
    """Returns the words that keys consist of.

    Args:
        keys: typed keys `[*s]`, or raw ones.

    Returns:
        The words `u32[*s, n]`, where n is 2 for threefry2x32 and 4 for the others.

    Raises:
        DTypeError: they are no keys.

    >>> key_data(key(7))
    Array([0, 7], dtype=uint32)
    """
    return key_data_words(_check_keys(keys))


def wrap_key_data(key_bits_array: Operand, *, impl: KeyDTypeLike = None, dtype: KeyDTypeLike = None) -> Array:
    """Returns the typed keys made of words.

    Args:
        key_bits_array: `u32[*s, n]`, where n is 2 for threefry2x32 and 4 for the others.
        impl: the generator's name, "threefry2x32", "rbg" or "unsafe_rbg"; by default the flag's.
        dtype: the same, or a dtype of keys.

    Returns:
        Keys of shape `s`.

    Raises:
        DTypeError: the words have another dtype or number, there is no such generator, or it is given twice.

    >>> import numpy as np
    >>> wrap_key_data(np.array([0, 7], np.uint32))
    Array((), dtype=key<fry>) overlaying:
    [0 7]
    """
    key_type = _choose_dtype(impl, dtype)
    x = as_operand(key_bits_array)
    count = key_type.itemsize // 4
    if x.type.dtype != dtypes.uint32 or x.type.shape[-1:] != (count,):
        raise DTypeError(
            f"wrap_key_data: words of {IMPLEMENTATIONS[key_type]} keys are u32[..., {count}], got {x.type!r}"
        )
    return Bitcast(key_type)(x)


def _check_keys(keys: Operand) -> Array:
    x = as_operand(keys)
    if dtypes.is_key(x.type.dtype):
        return x
    count = dtypes.KEYS[default_prng_impl.value].itemsize // 4
    if x.type.dtype != dtypes.uint32 or x.type.shape[-1:] != (count,):
        raise DTypeError(
            f"{name_user_call()}: takes typed keys, or the words u32[..., {count}], got {x.type!r}"
        )
    return x


_split = jit(split_key, static_argnames=("shape",))
_fold = jit(fold_words)


def _match_rawness(original: Array, made: Array) -> Array:
    """Keys made of raw ones are raw."""
    typed = dtypes.is_key(made.type.dtype) and not dtypes.is_key(original.type.dtype)
    return key_data_words(made) if typed else made


def split(key: Operand, num: int | Sequence[int] = 2) -> Array:
    """Returns keys that are independent of each other and of the key.

    Args:
        key: a key, not to be used again.
        num: how many, or a shape of keys.

    Returns:
        Keys of the shape `[num]`, or `num`; of a raw key raw ones, `u32[num, 2]` say.

    Raises:
        DTypeError: it is no key.
        ShapeError: `num` is neither a number nor a shape.

    >>> split(PRNGKey(0))
    Array([[1797259609, 2579123966],
           [ 928981903, 3453687069]], dtype=uint32)
    """
    shape = (num,) if type(num) is int and num >= 0 else check_sizes(num)
    original = as_operand(key)
    return _match_rawness(original, _split(check_key(original), shape=shape))


def fold_in(key: Operand, data: Operand) -> Array:
    """Returns the key for a number under a key.

    Args:
        key: a key.
        data: an integer scalar; its lowest 32 bits count.

    Returns:
        A key of the same form, independent of the keys for other numbers.

    Raises:
        DTypeError: it is no key, or the number is no integer scalar.
        OverflowError: the number is a Python int that is negative or has more than 32 bits.

    >>> fold_in(PRNGKey(0), 1)
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    original = as_operand(key)
    checked_key = check_key(original, uses=False)
    data = convert_whole_float(data)
    if type(data) is int:
        return _match_rawness(original, _fold(checked_key, scalar(data, dtypes.uint32, False)))
    number = as_operand(data)
    if number.type.kind not in "biu" or number.type.shape:
        raise DTypeError(f"fold_in: the number must be an integer scalar, got {number.type!r}")
    return _match_rawness(original, _fold(checked_key, convert(number, dtypes.uint32)))


def clone(key: Operand) -> Array:
    """Returns the same keys, to say that they are used again on purpose: `debug_key_reuse` takes them for new ones.

    >>> clone(PRNGKey(7))
    Array([0, 7], dtype=uint32)
    """
    checked_keys = _check_keys(key)
    return (
        mark_keys_used(checked_keys, None)
        if debug_key_reuse.value and dtypes.is_key(checked_keys.type.dtype)
        else checked_keys
    )


def key_impl(keys: Operand) -> str:
    """Returns the name of the keys' generator; of raw keys that of the flag `default_prng_impl`.

    >>> key_impl(PRNGKey(7)), key_impl(key(7, impl="rbg"))
    ('threefry2x32', 'rbg')
    """
    return IMPLEMENTATIONS.get(_check_keys(keys).type.dtype, default_prng_impl.value)
