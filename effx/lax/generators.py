"""XLA's own random number generators; those of `effx.random` give the same numbers on every platform."""

from collections.abc import Sequence
from enum import IntEnum

from effx import dtypes
from effx.array import Array, Operand
from effx.array.promotion import as_operand
from effx.array.shaping import to_shape
from effx.dtypes import DTypeLike
from effx.errors import OptionError, ShapeError, name_user_call
from effx.families.bit_generators import RngBitGenerator, RngUniform
from effx.ir.types import Shape
from effx.lax.operands import adapt_operands
from effx.transforms.placement.meshes import reshard_as
from effx.transforms.placement.out_sharding import OutSharding

__all__ = ["RandomAlgorithm", "rng_bit_generator", "rng_uniform"]


class RandomAlgorithm(IntEnum):
    """The algorithms of XLA's bit generator; the default one is the platform's choice.

    >>> import effx.lax as lax, effx.numpy as enp
    >>> key = enp.array([1, 2, 3, 4], enp.uint32)
    >>> state, bits = lax.rng_bit_generator(key, (3,), algorithm=lax.RandomAlgorithm.RNG_PHILOX)
    >>> bits.shape, bits.dtype
    ((3,), dtype('uint32'))
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


def _check_shape(shape: int | Sequence[int]) -> Shape:
    sizes = to_shape(shape)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"{name_user_call()}: sizes must not be negative, got {list(sizes)}")
    return sizes


def rng_bit_generator(
    key: Operand,
    shape: int | Sequence[int],
    dtype: "DTypeLike" = dtypes.uint32,
    algorithm: RandomAlgorithm | int = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: OutSharding = None,
) -> tuple[Array, Array]:
    """Returns the state of XLA's bit generator after a draw, and the bits. Under `vmap` the first batch
    element's generator draws for all of them.

    Args:
        key: the state, `u32[4]` or `u64[2]`: 64 bits of key, then a counter.
        shape: of the bits.
        dtype: an unsigned integer dtype of 8 to 64 bits.
        algorithm: which generator; by default the platform's choice, Philox on CPUs.
        out_sharding: the sharding of the bits; by default replicated.

    Returns:
        The state to go on with, of the key's type, and bits of the shape and dtype.

    Raises:
        DTypeError: the state or the dtype is another, or there is no such algorithm.
        ShapeError: it is no shape.

    >>> import numpy as np
    >>> rng_bit_generator(np.array([1, 2, 3, 4], np.uint32), (2,), algorithm=RandomAlgorithm.RNG_PHILOX)
    (Array([1, 2, 4, 4], dtype=uint32), Array([ 512747620, 1298009047], dtype=uint32))
    """
    try:
        chosen = RandomAlgorithm(algorithm)
    except ValueError:
        names = ", ".join(a.name for a in RandomAlgorithm)
        raise OptionError(f"rng_bit_generator: algorithm must be one of {names}, got {algorithm!r}") from None
    op = RngBitGenerator(
        _check_shape(shape),
        dtypes.canonicalize_requested(dtype),
        chosen.name.removeprefix("RNG_"),
    )
    state, bits = op(as_operand(key))
    return state, bits if out_sharding is None else reshard_as("rng_bit_generator", bits, out_sharding)


def rng_uniform(a: Operand, b: Operand, shape: int | Sequence[int]) -> Array:
    """Returns numbers that are uniform in [a, b), from a state that XLA holds: each call draws new ones.

    Args:
        a: a scalar, the lower bound.
        b: a scalar of the same dtype, above a.
        shape: of the numbers.

    Returns:
        An array of the shape and the bounds' dtype.

    Raises:
        DTypeError: the bounds have different dtypes, or are complex or boolean.
        ShapeError: a bound is no scalar, or it is no shape.

    >>> rng_uniform(2.0, 3.0, (4,)).shape
    (4,)
    """
    sizes = _check_shape(shape)
    return RngUniform(sizes)(*adapt_operands(a, b))
