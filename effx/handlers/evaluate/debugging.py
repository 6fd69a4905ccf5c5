"""What debugging flags ask of results and keys: NaN, infinities, keys that are used twice."""

from collections.abc import Sequence
from typing import final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.errors import NotFiniteError, source_in_force, source_of
from effx.flags import debug_infs, debug_nans


@final
@attrs.frozen
class Fault:
    """A result that is not finite.

    Attributes:
        said: which, and what is in it.
    """

    said: str

    def error(self, what: str) -> NotFiniteError:
        """Returns the error, which names the user's line."""
        error = NotFiniteError(f"{what}: {self.said}")
        place = source_in_force.get()
        if place is not None:
            error.at = source_of(place)
        return error


def debugging() -> bool:
    """Says whether results are looked at for NaN or infinities."""
    return debug_nans.value or debug_infs.value


def not_finite(results: Sequence[Array]) -> Fault | None:
    """Finds NaN or an infinity, as the flags debug_nans and debug_infs ask, in results."""
    for i, x in enumerate(results):
        if not dtypes.is_inexact(x.type.dtype):
            continue
        value = x.host("debug_nans")
        if value.dtype.kind == "V":
            value = value.astype(np.float32)
        for flag, what, test in ((debug_nans, "nan", np.isnan), (debug_infs, "inf", np.isinf)):
            if flag.value and (found := test(value)).any():
                where = tuple([int(n) for n in np.unravel_index(int(np.argmax(found)), found.shape)])
                which = "the result" if len(results) == 1 else f"result {i}"
                index = f" at index {list(where)}" if where else ""
                return Fault(f"{which} {x.type!r} has {what}{index}; {flag.name} is on")
    return None
