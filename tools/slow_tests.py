"""Which cases of tests are left to deep runs: those that take long where quicker cases of the same test stay.

    python -m pytest tests --durations=0 -vv > log
    python -m tools.slow_tests log

writes tests/slow_cases.txt, which tests/conftest.py reads. Cases that the log does not show, since they were left out, stay
in the list.
"""

from __future__ import annotations

import argparse
import collections
import re
from collections.abc import Mapping
from pathlib import Path

LIST = Path(__file__).parent.parent / "tests" / "slow_cases.txt"
HEAD = """\
# Cases of tests that only deep runs have, since they take more than two seconds, mostly of XLA's compiler.
# Written by `python -m tools.slow_tests` from measured times; every test keeps its quickest cases.
"""
# Seconds on a machine whose two cores are busy. With these numbers 1.5 % of the cases go, and a third of the time.
SLOW = 2.0  # of a case
ENOUGH = 10.0  # of all cases of a test, summed from the quickest on
DURATION = re.compile(r"^\s*([\d.]+)s (?:call|setup|teardown)\s+(\S+::.+)$", re.MULTILINE)


def read_durations(log: str) -> dict[str, float]:
    """Returns the seconds of each case that a log of pytest shows."""
    seconds: dict[str, float] = collections.defaultdict(float)
    for duration, case in DURATION.findall(log):
        seconds[case] += float(duration)
    return dict(seconds)


def read_list() -> set[str]:
    lines = LIST.read_text().splitlines() if LIST.exists() else []
    return {line for line in lines if line and not line.startswith("#")}


def name_test(case: str) -> str:
    """Returns the name of the test that a case is of: what stands before its parameters."""
    return case.split("[", 1)[0]


def select_slow_cases(seconds: Mapping[str, float], listed: set[str]) -> list[str]:
    """Returns the slow cases with which a test, from its quickest on, takes too long; and those listed and not measured."""
    slow = listed - seconds.keys()
    spent: dict[str, float] = collections.defaultdict(float)
    for case in sorted(seconds, key=lambda case: seconds[case]):
        test = name_test(case)
        is_first = test not in spent
        spent[test] += seconds[case]
        if seconds[case] > SLOW and spent[test] > ENOUGH and not is_first:
            slow.add(case)
    return sorted(slow)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path, nargs="+", help="what pytest printed, with --durations=0 -vv")
    seconds: dict[str, float] = {}
    for log in parser.parse_args().log:
        for case, s in read_durations(log.read_text()).items():
            seconds[case] = max(s, seconds.get(case, 0.0))
    cases = select_slow_cases(seconds, read_list())
    LIST.write_text(HEAD + "".join(f"{case}\n" for case in cases))
    spared = sum(seconds.get(case, 0.0) for case in cases)
    print(f"{len(cases)} cases are left to deep runs: {spared:.0f} of {sum(seconds.values()):.0f} s")


if __name__ == "__main__":
    main()
