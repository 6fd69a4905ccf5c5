"""What debugging flags ask of results and keys: NaN, infinities, keys that are used twice."""

from collections.abc import Sequence
from typing import final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.errors import NotFiniteError, active_source, source_of
from effx.flags import debug_infs, debug_nans


@final
@attrs.frozen
class NotFiniteResult:
    """A result that is not finite.

    Attributes:
        description: which, and what is in it.
    """

    description: str

    def make_error(self, name: str) -> NotFiniteError:
        """Returns the error, which names the user's line."""
        error = NotFiniteError(f"{name}: {self.description}")
        source = active_source.get()
        if source is not None:
            error.at = source_of(source)
        return error


def is_debugging() -> bool:
    """Says whether results are looked at for NaN or infinities."""
    return debug_nans.value or debug_infs.value


def find_not_finite(results: Sequence[Array]) -> NotFiniteResult | None:
    """Finds NaN or an infinity, as the flags debug_nans and debug_infs ask, in results."""
    for i, x in enumerate(results):
        if not dtypes.is_inexact(x.type.dtype):
            continue
        value = x.host("debug_nans")
        if value.dtype.kind == "V":
            value = value.astype(np.float32)
        for flag, kind, test in ((debug_nans, "nan", np.isnan), (debug_infs, "inf", np.isinf)):
            if flag.value and (mask := test(value)).any():
                position = tuple([int(n) for n in np.unravel_index(int(np.argmax(mask)), mask.shape)])
                which = "the result" if len(results) == 1 else f"result {i}"
                index = f" at index {list(position)}" if position else ""
                return NotFiniteResult(f"{which} {x.type!r} has {kind}{index}; {flag.name} is on")
    return None
