"""The command line: the table of laws, `python -m effx.laws > docs/tables/laws.md`, or a run against an implementation.

`python -m effx.laws --against jax --minutes 20 --law pullback_is_the_adjoint` runs the portable laws on JAX; without
`--law` all of them.
"""

import argparse
import sys

from effx.errors import EffxError
from effx.laws.table import render


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; the status is 1 if a law fails, 2 if the implementation is not installed.

    Args:
        arguments: of the command line; those of the process if None.
    """
    parser = argparse.ArgumentParser(
        prog="python -m effx.laws", description="Print the table of laws, or run laws."
    )
    parser.add_argument("--against", metavar="NAME", help="run the portable laws on effx, jax or torch")
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="how long to draw cases; one round at least"
    )
    parser.add_argument("--law", action="append", default=[], help="a law to run; may be repeated")
    parser.add_argument("--source", action="append", default=[], help="a source of cases; may be repeated")
    parser.add_argument("--examples", type=int, default=8, help="cases of each source in each round")
    options = parser.parse_args(arguments)
    if options.against is None:
        sys.stdout.write(render())
        return 0
    try:
        from effx.laws.portable import find_implementation, run_laws

        implementation = find_implementation(options.against)
        tallies = run_laws(
            implementation, options.minutes, options.law, options.examples, options.source, _write_at_once
        )
    except (ImportError, EffxError) as error:
        sys.stderr.write(f"{error.message if isinstance(error, EffxError) else error}\n")
        return 2
    return int(any([tally.failures for tally in tallies.values()]))


def _write_at_once(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
