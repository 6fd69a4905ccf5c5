"""Checks of samplers' arguments."""

from collections.abc import Sequence

from effx import dtypes
from effx.array import Array, Operand
from effx.array.promotion import as_operand, broadcast_shapes
from effx.array.shaping import to_shape
from effx.dtypes import DType, DTypeLike
from effx.errors import DTypeError, OptionError, ShapeError, name_user_call, warn_user
from effx.flag_values import RawKeys
from effx.flags import debug_key_reuse, default_prng_impl, legacy_prng_key
from effx.ir.ops.convert import Bitcast
from effx.ir.types import ArrayType, Shape, array_type

KEY = array_type(dtypes.uint32, (2,))
ShapeLike = int | Sequence[int]


def check_key(key: Operand, uses: bool = True) -> Array:
    """Returns one key as an array: typed, or the words u32[2] where raw keys are those of threefry2x32.

    Args:
        uses: whether the key is used up, which `debug_key_reuse` checks.

    Raises:
        DTypeError: it is no key, or there are several.
    """
    result = key if isinstance(key, Array) else as_operand(key)
    t, default = result.type, default_prng_impl.value
    if t.dtype == dtypes.uint32 and (level := legacy_prng_key.value) != "allow":
        refuse_raw(t, level)
    if t is KEY and default == "threefry2x32":
        return result
    if dtypes.is_key(t.dtype):
        if t.shape:
            raise DTypeError(f"{name_user_call()}: takes one key, got {t!r}; use vmap for many keys")
        return mark_keys_used(result, name_user_call()) if uses and debug_key_reuse.value else result
    count = dtypes.KEYS[default].itemsize // 4
    if t.dtype == dtypes.uint32 and t.shape == (count,):
        return result if count == 2 else Bitcast(dtypes.KEYS[default])(result)
    if t.dtype == dtypes.uint32 and t.ndim > 1 and t.shape[-1] == count:
        raise DTypeError(f"{name_user_call()}: takes one key u32[{count}], got {t!r}; use vmap for many keys")
    raise DTypeError(
        f"{name_user_call()}: takes a key as random.key gives it, or its words u32[{count}], got {t!r}"
    )


def mark_keys_used(keys: Array, user: str | None) -> Array:
    """Returns keys that are marked for `debug_key_reuse` as used up; for None, as new ones."""
    from effx.random.reuse import TakeKey  # for few

    return TakeKey(user)(keys)


def refuse_raw(t: ArrayType, level: RawKeys) -> None:
    """Warns of a key of plain words, or refuses it.

    Raises:
        DTypeError: `legacy_prng_key` is "error".
    """
    text = f"{name_user_call()}: got the raw key {t!r}, and legacy_prng_key is {level!r}; make keys with random.key"
    if level == "error":
        raise DTypeError(text)
    warn_user(text)


def check_sizes(shape: int | Sequence[int]) -> Shape:
    """Returns a shape as a tuple of sizes.

    Raises:
        ShapeError: it is no shape.
    """
    if type(shape) is tuple and all([type(n) is int and n >= 0 for n in shape]):
        return shape
    sizes = to_shape(shape)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"{name_user_call()}: sizes must not be negative, got {list(sizes)}")
    return sizes


def floating_dtype(dtype: "DTypeLike | None", kinds: str = "f") -> DType:
    """Returns the floating dtype that a user requests, the default one for None.

    Raises:
        DTypeError: it is another dtype.
    """
    result = dtypes.canonicalize_requested(float if dtype is None else dtype)
    if result == dtypes.float4_e2m1fn:
        raise DTypeError(
            f"{name_user_call()}: the dtype must have 8 bits or more, got {result}; draw others and convert them"
        )
    if dtypes.is_floating(result) or ("c" in kinds and dtypes.is_complex(result)):
        return result
    raise DTypeError(
        f"{name_user_call()}: the dtype must be floating{' or complex' * ('c' in kinds)}, got {result}"
    )


def is_high_precision(mode: str | None) -> bool:
    """Says whether a sampler's mode requests twice the digits.

    Raises:
        DTypeError: the mode is neither "high" nor "low" (or None).
    """
    if mode in ("high", "low", None):
        return mode == "high"
    raise OptionError(f"{name_user_call()}: mode must be 'high' or 'low', got {mode!r}")


def check_gumbel_mode(mode: str | None) -> str:
    """Returns the mode of Gumbel noise: how many bits make a number.

    Raises:
        DTypeError: the mode is none of "low" (or None), "high" and "highest".
    """
    if mode in ("highest", "high", "low", None):
        return mode or "low"
    raise OptionError(f"{name_user_call()}: mode must be 'highest', 'high' or 'low', got {mode!r}")


def can_broadcast(shape: Shape, target: Shape) -> bool:
    """Says whether an array of one shape broadcasts to the other."""
    offset = len(target) - len(shape)
    return offset >= 0 and all([n in (1, target[i + offset]) for i, n in enumerate(shape)])


def check_sample_shape(shape: ShapeLike | None, *bounds: Operand) -> Shape:
    """Returns the shape of a sample; its parameters must broadcast to it.

    Raises:
        ShapeError: they do not.
    """
    arrays = [as_operand(b) for b in bounds]
    joint = broadcast_shapes(*[a.type.shape for a in arrays])
    if shape is None:
        return joint
    sizes = check_sizes(shape)
    if not can_broadcast(joint, sizes):
        raise ShapeError(
            f"{name_user_call()}: parameters {', '.join(repr(a.type) for a in arrays)} do not broadcast to "
            f"shape {list(sizes)}"
        )
    return sizes
