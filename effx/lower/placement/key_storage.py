"""What devices cannot store: random keys of 16 bytes, those of `rbg` and `unsafe_rbg`, on TPUs."""

from collections.abc import Iterable

from effx import dtypes
from effx.errors import BackendError
from effx.ir.passes.key_words import is_wide_key
from effx.ir.types import ArrayType


def check_keys_for_tpu(types: Iterable[ArrayType]) -> None:
    """Checks that a TPU is to store no keys of 16 bytes: it would compute their complex numbers of floats of 32 bits.

    Raises:
        BackendError: a type is of such keys.
    """
    for t in types:
        if is_wide_key(t):
            raise BackendError(
                f"random keys of {dtypes.short_name(t.dtype)}: a TPU has no element of 16 bytes to store them in; give "
                "compiled functions raw keys (random.PRNGKey, random.key_data) or those of threefry2x32"
            )
