"""How devices store random keys of 16 bytes, those of `rbg` and `unsafe_rbg`."""

from collections.abc import Iterable

from effx import dtypes
from effx.errors import BackendError
from effx.ir.types import ArrayType


def is_stored_as_complex(t: ArrayType) -> bool:
    """Says whether a type is of keys of 16 bytes, for which XLA has no other dtype than complex numbers."""
    return dtypes.is_key(t.dtype) and t.mlir.endswith("complex<f64>>")


def check_keys_for_tpu(types: Iterable[ArrayType]) -> None:
    """Checks that a TPU is to store no keys of 16 bytes: it would compute their complex numbers of floats of 32 bits.

    Raises:
        BackendError: a type is of such keys.
    """
    for t in types:
        if is_stored_as_complex(t):
            raise BackendError(
                f"random keys of {dtypes.short_name(t.dtype)}: a TPU has no element of 16 bytes to store them in; use raw "
                "keys (random.PRNGKey, random.key_data) or those of threefry2x32"
            )
