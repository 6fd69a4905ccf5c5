"""Bits from keys: counters enciphered by Threefry-2x32, in JAX's two arrangements.

With `threefry_partitionable` (the default) the bits of an element depend on the key and on its own position
alone, so that parts of an array can be made independently: its 64-bit position, split into two words, is the
counter. Without it, the counters of all elements are enciphered in two halves, as JAX did before 0.5.

All functions here are staged within the functions that use them.
"""

from effx import dtypes
from effx.array import Array
from effx.array.promotion import convert, size_scalar
from effx.array.shaping import concatenate, reshape, stack, transpose
from effx.dtypes import DType
from effx.effects import perform
from effx.flags import threefry_partitionable
from effx.ir.ops import elementwise as e
from effx.ir.ops.random import Threefry2x32
from effx.ir.ops.shape import BroadcastInDim, Iota, Slice
from effx.ir.sizes.dimensions import has_symbolic, is_symbolic
from effx.ir.sizes.division import maximum
from effx.ir.types import Shape, array_type
from effx.ir.values.scalars import scalar
from effx.lax.operands import element_count

ADD, MUL, OR, XOR, AND = e.Add(), e.Mul(), e.Or(), e.Xor(), e.And()
SHIFT_LEFT, SHIFT_RIGHT = e.ShiftLeft(), e.ShiftRightLogical()
CIPHER = Threefry2x32()
u32, u64 = dtypes.uint32, dtypes.uint64


def unsigned_dtype(width: int) -> DType:
    """Returns the unsigned integer dtype of a width in bits."""
    return {8: dtypes.uint8, 16: dtypes.uint16, 32: u32, 64: u64}[width]


def key_words(key: Array) -> tuple[Array, Array]:
    """Returns the two words of a key."""
    return _word_at(key, 0), _word_at(key, 1)


def _word_at(x: Array, i: int) -> Array:
    return reshape(Slice((i,), (i + 1,), (1,))(x), ())


def position_words(shape: Shape) -> tuple[Array, Array]:
    """Returns the high and low words of each element's position in row-major order."""
    # A symbolic number of elements may be of any size.
    dtype = u32 if not has_symbolic(shape) and element_count(shape) <= 2**32 else u64
    total: Array = scalar(0, dtype)
    stride = 1
    # A sum over axes, so that a partitioner can split it along any of them.
    for axis in range(len(shape) - 1, -1, -1):
        if is_symbolic(shape[axis]) or shape[axis] > 1:
            along = Iota(array_type(dtype, shape), axis)()
            total = (
                along
                if type(stride) is int and stride == 1
                else perform(ADD, (total, perform(MUL, (along, size_scalar(stride, dtype)))))
            )
        stride *= maximum(shape[axis], 1)
    if total.type.shape != shape:
        total = BroadcastInDim(shape, ())(total)
    if dtype is u32:
        return scalar(0, u32, False), total
    return convert(perform(SHIFT_RIGHT, (total, scalar(32, u64))), u32), convert(total, u32)


def threefry_bits(key: Array, width: int, shape: Shape) -> Array:
    """Returns random bits.

    Args:
        key: u32[2].
        width: 8, 16, 32 or 64.
        shape: the result's shape.
    """
    if not threefry_partitionable.value:
        return _random_bits_by_halves(key, width, shape)
    high, low = perform(CIPHER, (*key_words(key), *position_words(shape)))
    if width == 64:
        return _join_words(high, low)
    return convert(perform(XOR, (high, low)), unsigned_dtype(width))


def _join_words(high: Array, low: Array) -> Array:
    return perform(OR, (perform(SHIFT_LEFT, (convert(high, u64), scalar(32, u64))), convert(low, u64)))


def threefry_split(key: Array, shape: Shape) -> Array:
    """Returns keys `[*shape, 2]` that are independent of each other and of the key."""
    if threefry_partitionable.value:
        return stack(perform(CIPHER, (*key_words(key), *position_words(shape))), -1)
    return reshape(_encipher_halves(key, 2 * element_count(shape)), (*shape, 2))


def threefry_fold(key: Array, data: Array) -> Array:
    """Returns the key for an u32 number under another key."""
    return stack(perform(CIPHER, (*key_words(key), scalar(0, u32, False), data)), -1)


# The original arrangement


def _encipher_halves(key: Array, count: int) -> Array:
    """Enciphers 0, 1, …, count - 1, as two halves."""
    half = (count + 1) // 2
    numbers = Iota(array_type(u32, (2 * half,)), 0)()
    if count % 2:  # the second half is padded with 0
        numbers = concatenate(
            [_slice_words(numbers, 0, count), BroadcastInDim((1,), ())(scalar(0, u32, False))], 0
        )
    words = perform(
        CIPHER, (*key_words(key), _slice_words(numbers, 0, half), _slice_words(numbers, half, 2 * half))
    )
    return _slice_words(concatenate(words, 0), 0, count)


def _slice_words(x: Array, start: int, limit: int) -> Array:
    return Slice((start,), (limit,), (1,))(x)


def _random_bits_by_halves(key: Array, width: int, shape: Shape) -> Array:
    size = element_count(shape)
    words = -(-width * size // 32)
    bits = _encipher_halves(key, words)
    if width == 64:
        bits = _join_words(_slice_words(bits, 0, size), _slice_words(bits, size, 2 * size))
    elif width < 32:
        # Each word is several elements, the lowest bits first.
        parts = [perform(SHIFT_RIGHT, (bits, scalar(width * i, u32))) for i in range(32 // width)]
        mixed = reshape(transpose(stack(parts), (1, 0)), (words * (32 // width),))
        bits = convert(_slice_words(mixed, 0, size), unsigned_dtype(width))
    return reshape(bits, shape)
