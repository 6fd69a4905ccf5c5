"""`jax._src.random.threefry2x32`: quax asks here for the default generator, by keys as words of integers."""

from effx.array import Array, Operand
from effx.ir.types import Shape
from effx.random import bits, key, key_data, split, wrap_key_data

__all__ = ["threefry_random_bits", "threefry_seed", "threefry_split"]


def threefry_seed(seed: Operand) -> Array:
    """Returns the key of a seed, `u32[2]`."""
    return key_data(key(seed, impl="threefry2x32"))


def threefry_split(key_words: Array, shape: Shape) -> Array:
    """Returns keys that a key gives, `u32[*shape, 2]`."""
    return key_data(split(wrap_key_data(key_words, impl="threefry2x32"), shape))


def threefry_random_bits(key_words: Array, bit_width: int, shape: Shape) -> Array:
    """Returns random unsigned integers of 8, 16, 32 or 64 bits."""
    return bits(wrap_key_data(key_words, impl="threefry2x32"), shape, f"uint{bit_width}")
