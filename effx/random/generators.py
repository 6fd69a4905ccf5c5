"""Random generators of keys: draw bits, split keys, and fold in numbers.

A key is raw, the words u32[2] of threefry2x32, or typed, an element of a dtype that names the generator. What is made
of keys has their form. `rbg` and `unsafe_rbg` take their bits from XLA's generator, which is fast; its bits differ
between platforms, and under `vmap` the first key of a batch draws for all. Keys of `rbg` are split as two of
threefry2x32, those of `unsafe_rbg` by further draws.

All functions here are staged within the functions that use them.
"""

from effx import dtypes
from effx.array import Array
from effx.array.shaping import reshape, stack
from effx.effects import perform
from effx.families.bit_generators import RngBitGenerator
from effx.ir.ops.convert import Bitcast
from effx.ir.ops.elementwise import Xor
from effx.ir.ops.shape import Slice
from effx.ir.types import Shape
from effx.ir.values.scalars import scalar
from effx.lax.operands import element_count
from effx.random.threefry import threefry_bits, threefry_fold, threefry_split, unsigned_dtype

THREEFRY, RBG, UNSAFE = "threefry2x32", "rbg", "unsafe_rbg"
IMPLEMENTATIONS = {dtype: name for name, dtype in dtypes.KEYS.items()}
# Draws that unsafe_rbg makes and leaves for each key that it gives.
APART = 10


def key_data_words(key: Array) -> Array:
    """Returns the words of keys, along a last axis."""
    return Bitcast(dtypes.uint32)(key) if dtypes.is_key(key.type.dtype) else key


def select_key(keys: Array, i: int) -> Array:
    """Returns one of the keys that `split_key` gives for a number."""
    t = keys.type
    cut = Slice((i, *(0,) * (t.ndim - 1)), (i + 1, *t.shape[1:]), (1,) * t.ndim)(keys)
    return reshape(cut, t.shape[1:])


def random_bits(key: Array, width: int, shape: Shape) -> Array:
    """Returns random bits.

    Args:
        key: one key.
        width: 8, 16, 32 or 64.
        shape: the result's shape.
    """
    words = key_data_words(key)
    if IMPLEMENTATIONS.get(key.type.dtype, THREEFRY) == THREEFRY:
        return threefry_bits(words, width, shape)
    return RngBitGenerator(shape, unsigned_dtype(width))(words)[1]


def split_key(key: Array, shape: Shape) -> Array:
    """Returns keys of a shape that are independent of each other and of the key."""
    words, dtype = key_data_words(key), key.type.dtype
    implementation = IMPLEMENTATIONS.get(dtype, THREEFRY)
    if implementation == THREEFRY:
        keys = threefry_split(words, shape)
    elif implementation == RBG:
        halves = reshape(words, (2, 2))
        pair = [threefry_split(select_key(halves, i), shape) for i in range(2)]
        keys = reshape(stack(pair, -2), (*shape, 4))
    else:
        count = element_count(shape)
        random_words = RngBitGenerator((APART * count, 4), dtypes.uint32)(words)[1]
        keys = reshape(Slice((0, 0), (APART * count, 4), (APART, 1))(random_words), (*shape, 4))
    return Bitcast(dtype)(keys) if dtypes.is_key(dtype) else keys


def fold_words(key: Array, data: Array) -> Array:
    """Returns the key for an u32 number under another key."""
    words, dtype = key_data_words(key), key.type.dtype
    implementation = IMPLEMENTATIONS.get(dtype, THREEFRY)
    if implementation == THREEFRY:
        folded = threefry_fold(words, data)
    elif implementation == RBG:
        halves = reshape(words, (2, 2))
        folded = reshape(stack([threefry_fold(select_key(halves, i), data) for i in range(2)]), (4,))
    else:
        zero = scalar(0, dtypes.uint32, False)
        random_words = RngBitGenerator((APART, 4), dtypes.uint32)(stack([zero, data, zero, data]))[1]
        folded = perform(Xor(), (words, select_key(random_words, APART - 1)))
    return Bitcast(dtype)(folded) if dtypes.is_key(dtype) else folded
