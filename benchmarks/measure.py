"""One row: a case, timed for each library in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.cases import Case
from benchmarks.peers import Peer
from benchmarks.report import Row
from benchmarks.timing import Effort, Sample, Thunk, interleave


def measure(case: Case, libraries: Sequence[Peer], effort: Effort) -> Row:
    """Measure one row; what a library raises becomes part of the row."""
    thunks: dict[str, Thunk] = {}
    finishers: dict[str, Callable[[object], object]] = {}
    errors: dict[str, str] = {}
    for peer in libraries:
        try:
            thunk = case.prepare(peer)
            for _ in range(case.before):
                thunk()
        except Exception as error:  # noqa: BLE001  whatever it is, it is this row's result
            errors[peer.name] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            continue
        thunks[peer.name] = thunk
        finishers[peer.name] = finisher(peer, thunk())
    samples: dict[str, Sample] = interleave(thunks, finishers, effort)
    return Row(case.title, case.budget, case.units, samples, errors)


def finisher(peer: Peer, result: object) -> Callable[[object], object]:
    """How to wait for a result: arrays are waited for, programs and text are there already."""
    try:
        peer.api.block_until_ready(result)
    except Exception:  # noqa: BLE001  not a tree of arrays
        return lambda _: None
    return peer.api.block_until_ready
