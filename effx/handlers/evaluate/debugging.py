"""Checks of the debugging flags: find NaN and infinities in results."""

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
        description: the result's number and type, and the value found in it.
    """

    description: str

    def make_error(self, name: str) -> NotFiniteError:
        """Returns the error with the user's line."""
        error = NotFiniteError(f"{name}: {self.description}")
        source = active_source.get()
        if source is not None:
            error.at = source_of(source)
        return error


def is_debugging() -> bool:
    """Returns whether results are checked for NaN or infinities."""
    return debug_nans.value or debug_infs.value


def find_not_finite(results: Sequence[Array]) -> NotFiniteResult | None:
    """Finds NaN or an infinity in results, by the flags debug_nans and debug_infs."""
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
