"""`jax.extend.random`: the generators of random keys as objects, and the cipher of the default one."""

from typing import final

import attrs

from effx.array import Array, Operand
from effx.array.promotion import as_operand
from effx.array.shaping import concatenate, reshape
from effx.dtypes import KEYS, DType, uint32
from effx.effects import perform
from effx.errors import DTypeError, ShapeError
from effx.ir.types import Shape
from effx.random.keys import key
from effx.random.threefry import CIPHER
from effx.transforms.maps.vmap import vmap

__all__ = [
    "random_seed", "rbg_prng_impl", "seed_with_impl", "threefry_2x32", "threefry_prng_impl", "unsafe_rbg_prng_impl",
]  # fmt: skip


@final
@attrs.frozen
class KeyImplementation:
    """A generator of random numbers, which `impl=` of `jax.random.key` takes.

    Attributes:
        name: by which it is known: "threefry2x32", "rbg" or "unsafe_rbg".
        tag: its short name.
        key_shape: how many words a key has.
        dtype: of its keys.
    """

    name: str
    tag: str
    key_shape: Shape
    dtype: DType

    def __str__(self) -> str:
        return self.tag


threefry_prng_impl, rbg_prng_impl, unsafe_rbg_prng_impl = [
    KeyImplementation(name, tag, shape, KEYS[name])
    for name, tag, shape in (
        ("threefry2x32", "fry", (2,)),
        ("rbg", "rbg", (4,)),
        ("unsafe_rbg", "urbg", (4,)),
    )
]


def implementation_of(keys: Array) -> KeyImplementation:
    """Returns the generator of an array of keys, which is its `_impl` in JAX.

    Raises:
        AttributeError: they are no keys.
    """
    for impl in (threefry_prng_impl, rbg_prng_impl, unsafe_rbg_prng_impl):
        if keys.type.dtype == impl.dtype:
            return impl
    raise AttributeError(f"{type(keys).__name__!r} object has no attribute '_impl'")


def seed_with_impl(impl: KeyImplementation, seed: Operand) -> Array:
    """Returns the key of a seed for a generator.

    >>> seed_with_impl(rbg_prng_impl, 0).dtype == rbg_prng_impl.dtype
    True
    """
    return key(seed, impl=impl.dtype)


def random_seed(seeds: Operand, impl: KeyImplementation) -> Array:
    """Returns the keys of seeds, an array of any shape.

    >>> import numpy as np
    >>> random_seed(np.arange(6).reshape(2, 3), threefry_prng_impl).shape
    (2, 3)
    """
    if isinstance(seeds, int):
        return key(seeds, impl=impl.dtype)
    numbers = as_operand(seeds)
    if not numbers.type.shape:
        return key(numbers, impl=impl.dtype)
    keys: Array = vmap(lambda seed: key(seed, impl=impl.dtype))(reshape(numbers, -1))
    return reshape(keys, numbers.type.shape)


def threefry_2x32(keypair: tuple[Operand, Operand], count: Operand) -> Array:
    """Returns numbers `u32[*shape]` enciphered by Threefry of 2 words and 20 rounds, the first half with the second.

    Args:
        keypair: the two words of the key, u32.
        count: the numbers, `u32[*shape]`.

    Raises:
        DTypeError: a word or a number is not u32.
        ShapeError: a word is no scalar.

    >>> import numpy as np
    >>> words = np.uint32([0, 0])
    >>> [hex(x) for x in threefry_2x32((words[0], words[1]), np.uint32([0, 0])).tolist()]
    ['0x6b200159', '0x99ba4efe']
    """
    first, second, numbers = [as_operand(x) for x in (*keypair, count)]
    for x in (first, second, numbers):
        if x.type.dtype != uint32:
            raise DTypeError(f"threefry_2x32: words and numbers must be u32, got {x.type!r}")
    if first.type.shape or second.type.shape:
        raise ShapeError(f"threefry_2x32: a key is two scalars, got {first.type!r} and {second.type!r}")
    shape, n = numbers.type.shape, numbers.type.size
    flat = reshape(numbers, -1)
    if n % 2:
        flat = concatenate([flat, flat[:1] * 0], 0)
    half = flat.type.size // 2
    words = perform(CIPHER, (first, second, flat[:half], flat[half:]))
    return reshape(concatenate(words, 0)[:n], shape)
