"""Reviewed lists of tests of others that may fail, each kind with a reason."""

import fnmatch
from collections.abc import Iterable, Mapping


def parse_reasons(text: str) -> dict[str, str]:
    """Returns the reason for each pattern of tests that may fail: lines `pattern` below a line `# reason`.

    >>> parse_reasons("# in place\\ntest_a.py::test_*\\n\\n# NumPy's value\\ntest_b.py::test_c")
    {'test_a.py::test_*': 'in place', 'test_b.py::test_c': "NumPy's value"}
    """
    reasons: dict[str, str] = {}
    reason = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            reason = line[1:].strip()
        else:
            reasons[line] = reason
    return reasons


def is_allowed(test: str, patterns: Iterable[str]) -> bool:
    """Says whether a pattern allows a test to fail: `*` stands for anything, brackets are brackets.

    >>> is_allowed("f[1]", ["f[*]"]), is_allowed("f1", ["f[1]"])
    (True, False)
    """
    return any([fnmatch.fnmatchcase(test, p.replace("[", "[[]")) for p in patterns])


def compare_with_reasons(failed: Iterable[str], reasons: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Returns the failures that no pattern allows, and the patterns that no failure needs.

    >>> compare_with_reasons(["f[1]", "g"], {"f[*]": "", "h": ""})
    (['g'], ['h'])
    """
    failed = list(failed)
    unexpected = [test for test in failed if not is_allowed(test, reasons)]
    unneeded = [p for p in reasons if not any([is_allowed(test, [p]) for test in failed])]
    return unexpected, unneeded
