"""Check flags' values, and parse them from environment variables.

Never: import another effx module.
"""

import os
from typing import Literal, cast, get_args

MatmulPrecision = Literal[
    "default", "high", "highest", "bfloat16", "tensorfloat32", "float32",
    "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM",
    "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6",
    "BF16_BF16_F32_X9", "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
]  # fmt: skip
RankPromotion = Literal["allow", "warn", "raise"]
DTypePromotion = Literal["standard", "strict"]
ExplicitX64 = Literal["warn", "error", "allow"]
PrngImplementation = Literal["threefry2x32", "rbg", "unsafe_rbg"]
TransferGuard = Literal["allow", "log", "disallow", "log_explicit", "disallow_explicit"]
CollectionGuard = Literal["allow", "log", "fatal"]
RawKeys = Literal["allow", "warn", "error"]
CpuCollectives = Literal["gloo", "mpi", "none"]
HostMemory = Literal["return", "keep"]
CompileMode = Literal["full", "fast", "tiered"]

_ON = ("1", "true", "yes", "on")
_OFF = ("0", "false", "no", "off")


def check_bool(where: str, value: object) -> bool:
    """Return a bool unchanged.

    >>> check_bool("enable_x64", 1)
    Traceback (most recent call last):
    TypeError: enable_x64: got 1 (int), expected a bool
    """
    if type(value) is bool:
        return value
    raise TypeError(f"{where}: got {value!r} ({type(value).__name__}), expected a bool")


def check_positive_int(where: str, value: object) -> int:
    """Return an int of at least 1 unchanged.

    >>> check_positive_int("num_cpu_devices", 0)
    Traceback (most recent call last):
    ValueError: num_cpu_devices: got 0, expected an int of at least 1
    """
    if type(value) is not int:
        raise TypeError(f"{where}: got {value!r} ({type(value).__name__}), expected an int of at least 1")
    if value < 1:
        raise ValueError(f"{where}: got {value}, expected an int of at least 1")
    return value


def check_platforms(where: str, value: object) -> str | None:
    """Return a comma-separated list of platform names without spaces, or None.

    >>> check_platforms("platforms", "cuda, cpu")
    'cuda,cpu'
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{where}: got {value!r} ({type(value).__name__}), expected a str or None")
    names = [name.strip() for name in value.split(",")]
    if not all(names):
        raise ValueError(f"{where}: got {value!r}, expected platform names separated by commas")
    return ",".join(names)


def check_matmul_precision(where: str, value: object) -> MatmulPrecision | None:
    """Return one of the names in `MatmulPrecision`, of a precision or of an algorithm, or None, unchanged.

    >>> check_matmul_precision("default_matmul_precision", "highest")
    'highest'
    """
    if value is None:
        return None
    return cast("MatmulPrecision", _check_choice(where, value, MatmulPrecision, " or None"))


def check_rank_promotion(where: str, value: object) -> RankPromotion:
    """Return one of the names in `RankPromotion` unchanged.

    >>> check_rank_promotion("numpy_rank_promotion", "warn")
    'warn'
    """
    return cast("RankPromotion", _check_choice(where, value, RankPromotion))


def check_explicit_x64(where: str, value: object) -> ExplicitX64:
    """Return one of the names in `ExplicitX64` unchanged.

    >>> check_explicit_x64("explicit_x64_dtypes", "no")
    Traceback (most recent call last):
    ValueError: explicit_x64_dtypes: got 'no', expected one of 'warn', 'error', 'allow'
    """
    return cast("ExplicitX64", _check_choice(where, value, ExplicitX64))


def check_dtype_promotion(where: str, value: object) -> DTypePromotion:
    """Return one of the names in `DTypePromotion` unchanged.

    >>> check_dtype_promotion("numpy_dtype_promotion", "lax")
    Traceback (most recent call last):
    ValueError: numpy_dtype_promotion: got 'lax', expected one of 'standard', 'strict'
    """
    return cast("DTypePromotion", _check_choice(where, value, DTypePromotion))


def check_prng_impl(where: str, value: object) -> PrngImplementation:
    """Return one of the names in `PrngImplementation` unchanged.

    >>> check_prng_impl("default_prng_impl", "rbg")
    'rbg'
    """
    return cast("PrngImplementation", _check_choice(where, value, PrngImplementation))


def _check_choice(where: str, value: object, literal: object, also: str = "") -> object:
    choices = get_args(literal)
    if type(value) is str and value in choices:
        return value
    error = ValueError if isinstance(value, str) else TypeError
    raise error(f"{where}: got {value!r}, expected one of {', '.join(map(repr, choices))}{also}")


def parse_bool(where: str, text: str) -> bool:
    """Read an environment variable's text as a bool.

    >>> parse_bool("EFFX_ENABLE_X64", "yes"), parse_bool("EFFX_ENABLE_X64", "0")
    (True, False)
    """
    word = text.strip().lower()
    if word in _ON:
        return True
    if word in _OFF:
        return False
    raise ValueError(f"{where}: got {text!r}, expected one of {', '.join(_ON + _OFF)}")


def parse_int(where: str, text: str) -> int:
    """Read an environment variable's text as an int.

    >>> parse_int("EFFX_NUM_CPU_DEVICES", " 4 ")
    4
    """
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{where}: got {text!r}, expected an int") from None


def parse_text(where: str, text: str) -> str | None:
    """Read an environment variable's text as a name; empty text and 'none' mean None.

    >>> parse_text("EFFX_PLATFORMS", "cpu"), parse_text("EFFX_PLATFORMS", "")
    ('cpu', None)
    """
    word = text.strip()
    return None if word.lower() in ("", "none") else word


def check_transfer_guard(where: str, value: object) -> TransferGuard:
    """Return one of the names in `TransferGuard` unchanged.

    >>> check_transfer_guard("transfer_guard", "disallow")
    'disallow'
    """
    return cast("TransferGuard", _check_choice(where, value, TransferGuard))


def check_collection_guard(where: str, value: object) -> CollectionGuard:
    """Return one of the names in `CollectionGuard` unchanged.

    >>> check_collection_guard("array_garbage_collection_guard", "log")
    'log'
    """
    return cast("CollectionGuard", _check_choice(where, value, CollectionGuard))


def check_raw_keys(where: str, value: object) -> RawKeys:
    """Return one of the names in `RawKeys` unchanged.

    >>> check_raw_keys("legacy_prng_key", "warn")
    'warn'
    """
    return cast("RawKeys", _check_choice(where, value, RawKeys))


def check_cpu_collectives(where: str, value: object) -> CpuCollectives:
    """Return one of the names in `CpuCollectives` unchanged; None is "none".

    >>> check_cpu_collectives("cpu_collectives_implementation", "gloo")
    'gloo'
    """
    return cast("CpuCollectives", _check_choice(where, "none" if value is None else value, CpuCollectives))


def check_host_memory(where: str, value: object) -> HostMemory:
    """Return one of the names in `HostMemory` unchanged.

    >>> check_host_memory("host_memory", "free")
    Traceback (most recent call last):
    ValueError: host_memory: got 'free', expected one of 'return', 'keep'
    """
    return cast("HostMemory", _check_choice(where, value, HostMemory))


def check_compile_mode(where: str, value: object) -> CompileMode:
    """Return one of the names in `CompileMode` unchanged.

    >>> check_compile_mode("compile", "quick")
    Traceback (most recent call last):
    ValueError: compile: got 'quick', expected one of 'full', 'fast', 'tiered'
    """
    return cast("CompileMode", _check_choice(where, value, CompileMode))


def check_device(where: str, value: object) -> object:
    """Return a device, a platform's name or None unchanged.

    >>> check_device("default_device", 3)
    Traceback (most recent call last):
    TypeError: default_device: got 3 (int), expected a device, a platform's name or None
    """
    if value is None or isinstance(value, str) or (hasattr(value, "platform") and hasattr(value, "id")):
        return value
    raise TypeError(
        f"{where}: got {value!r} ({type(value).__name__}), expected a device, a platform's name or None"
    )


def check_path(where: str, value: object) -> str | None:
    """Return a path as a string, or None.

    >>> check_path("cache_dir", "~/.cache/effx")
    '~/.cache/effx'
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return str(value)
    raise TypeError(f"{where}: got {value!r} ({type(value).__name__}), expected a path or None")


def check_seconds(where: str, value: object) -> float:
    """Return a number of seconds, not negative, as a float.

    >>> check_seconds("cache_min_compile_seconds", 1)
    1.0
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value >= 0:
            return float(value)
        raise ValueError(f"{where}: got {value}, expected seconds that are not negative")
    raise TypeError(f"{where}: got {value!r} ({type(value).__name__}), expected a number of seconds")


def parse_float(where: str, text: str) -> float:
    """Read an environment variable's text as a number.

    >>> parse_float("EFFX_CACHE_MIN_COMPILE_SECONDS", "0.5")
    0.5
    """
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{where}: got {text!r}, expected a number") from None
