"""A run of portable laws against an implementation, for some minutes, and its report."""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import final

import attrs

from effx.errors import TransformError
from effx.laws.portable.implementation import Implementation
from effx.laws.portable.registry import PORTABLE_LAWS, Failure, PortableLaw

Write = Callable[[str], object]


@final
@attrs.define
class Tally:
    """What became of a law so far."""

    held: int = 0
    skipped: int = 0
    refused: int = 0
    sources: int = 0
    refusals: dict[str, str] = attrs.field(factory=dict)
    failures: list[Failure] = attrs.field(factory=list)


def choose_laws(implementation: Implementation, names: Sequence[str] = ()) -> list[PortableLaw]:
    """Returns the laws of these names, or all, that are about what the implementation has.

    Args:
        implementation: on which they are to run.
        names: of laws; all if there are none.

    Raises:
        TransformError: there is no law of a name.
    """
    strange = [name for name in names if name not in PORTABLE_LAWS]
    if strange:
        raise TransformError(f"run_laws: laws are {', '.join(PORTABLE_LAWS)}; got {strange[0]!r}")
    laws = [PORTABLE_LAWS[name] for name in names or PORTABLE_LAWS]
    return [law for law in laws if law.applies_to(implementation)]


def run_laws(
    implementation: Implementation,
    minutes: float,
    names: Sequence[str] = (),
    examples: int = 8,
    only: Sequence[str] = (),
    write: Write = print,
) -> dict[str, Tally]:
    """Runs laws on drawn cases, round after round, until the time is over; one round at least.

    In each round a law sees some cases of each of its sources. A law that failed with some functions does not run with them
    again, so that one fault does not hide others, nor with random programs once it failed on three.

    Args:
        implementation: on which they run.
        minutes: after how many no further source is begun.
        names: of laws; all if there are none.
        examples: of each source in each round.
        only: sources; all if there are none.
        write: takes the report, text by text.

    Raises:
        TransformError: there is no law, or no source, of a name.

    >>> from effx.laws.portable.peers import of_effx
    >>> tallies = run_laws(of_effx(), 0, ["jit_keeps_values"], 1, ["sums"], write=lambda text: None)
    >>> tallies["jit_keeps_values"].failures
    []
    """
    laws = choose_laws(implementation, names)
    tallies = {law.name: Tally() for law in laws}
    sources = [(law, s) for law in laws for s in law.sources(implementation) if not only or s in only]
    unknown = set(only) - {source for law in laws for source in law.sources(implementation)}
    if unknown:
        raise TransformError(f"laws: there is no source of cases {', '.join(map(repr, sorted(unknown)))}")
    # Every source of one kind after the other would leave some laws for later rounds, which may not come.
    sources.sort(key=lambda pair: list(pair[0].sources(implementation)).index(pair[1]))
    for law, _ in sources:
        tallies[law.name].sources += 1
    write(
        f"{implementation.name} {implementation.version}: {len(laws)} laws on {len(sources)} sources of cases\n"
    )
    end = time.monotonic() + 60 * minutes
    failed: dict[tuple[str, str], list[str]] = {(law.name, source): [] for law, source in sources}
    for round_number in itertools.count():
        for law, source in sources:
            if round_number and time.monotonic() > end:
                break  # after the first round, in which every source has its turn
            keys = failed[law.name, source]
            if source == "programs" and len(keys) > 2:
                continue
            verdict = law.run(implementation, source, examples, round_number, left_out=keys)
            tally = tallies[law.name]
            tally.refusals |= verdict.refusals
            tally.held += verdict.held
            tally.skipped += verdict.skipped
            tally.refused += verdict.refused
            if verdict.failure is not None:
                keys.append(verdict.failure.key)
                tally.failures.append(verdict.failure)
                write(describe_failure(verdict.failure))
        if time.monotonic() > end:
            break
    for law in laws:
        for key, words in tallies[law.name].refusals.items():
            write(f"{law.name} is refused for {key}: {words}")
    write(describe_tallies(tallies))
    return tallies


def describe_failure(failure: Failure) -> str:
    """Returns the text of a failure: the law, what went wrong, and the program."""
    message = failure.message.replace("\n", "\n  ")
    return f"{failure.law}, {failure.source}: {failure.statement}\n  {message[:2000]}\n\n{failure.program}\n{'-' * 80}"


def describe_tallies(tallies: dict[str, Tally]) -> str:
    """Returns the table of laws with the numbers of examples and failures.

    >>> print(describe_tallies({"one_law": Tally(held=3, sources=2)}))
    law     sources held skipped refused failures
    one_law       2    3       0       0        0
    in all        2    3       0       0        0
    """
    total = Tally()
    for tally in tallies.values():
        total.held += tally.held
        total.skipped += tally.skipped
        total.refused += tally.refused
        total.sources += tally.sources
        total.failures += tally.failures
    rows: list[tuple[str, ...]] = [("law", "sources", "held", "skipped", "refused", "failures")]
    for name, t in [*tallies.items(), ("in all", total)]:
        rows.append((name, *[str(n) for n in (t.sources, t.held, t.skipped, t.refused, len(t.failures))]))
    widths = [max([len(row[i]) for row in rows]) for i in range(6)]
    lines = [
        " ".join(
            [
                cell.ljust(w) if i == 0 else cell.rjust(w)
                for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            ]
        )
        for row in rows
    ]
    return "\n".join(lines)
