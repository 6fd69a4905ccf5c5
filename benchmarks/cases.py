"""What is measured: a name, a budget and, for each library, a call to time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeAlias, final

import attrs

from benchmarks.peers import Peer
from benchmarks.timing import Thunk

# So many calls settle what eager evaluation compiles.
SETTLED = 40

Prepare: TypeAlias = Callable[[Peer], Thunk]

_salts = itertools.count(1)


def salt() -> float:
    """A small number, another each time.

    It goes into each freshly made function as a constant, so that no cache of either library,
    whether by function or by content, can answer for work that is to be measured.
    """
    return next(_salts) * 2.0**-20


@final
@attrs.frozen
class Case:
    """One row of a table.

    Attributes:
        group: what is shown before the colon; rows of one group stand together.
        name: what is measured.
        prepare: makes the call to time for a library.
        budget: greatest allowed ratio effx/JAX; None for a row that is only shown.
        units: what one call is divided by, such as the number of operations traced.
        slow: compiles in each call, so that fewer rounds have to do.
        before: how many calls do not count; eagerly, what is met often is compiled after some.
    """

    group: str
    name: str
    prepare: Prepare
    budget: float | None
    units: int = 1
    slow: bool = False
    before: int = 1

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"
