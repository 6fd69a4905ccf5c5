"""The tool that says which cases are left to deep runs."""

from tools.slow_tests import LIST, read_durations, read_list, select_slow_cases

LOG = """\
============ slowest durations ============
12.50s call     tests/test_a.py::test_sum[f8, (2, 3)]
0.50s setup    tests/test_a.py::test_sum[f8, (2, 3)]
7.00s call     tests/test_a.py::test_sum[f4]
4.00s call     tests/test_a.py::test_sum[f2]
40.00s call     tests/test_a.py::test_alone
0.01s teardown tests/test_a.py::test_quick[1]
"""


def test_what_is_slow() -> None:
    """The slow cases of a test whose quicker ones take ten seconds; a test with one case stays, as slow as it is."""
    seconds = read_durations(LOG)
    assert seconds["tests/test_a.py::test_sum[f8, (2, 3)]"] == 13.0
    assert select_slow_cases(seconds, set()) == [
        "tests/test_a.py::test_sum[f4]",
        "tests/test_a.py::test_sum[f8, (2, 3)]",
    ]


def test_what_was_not_measured_stays_in_the_list() -> None:
    listed = {"tests/test_b.py::test_b[1]", "tests/test_a.py::test_quick[1]"}
    assert select_slow_cases(read_durations(LOG), listed)[-1:] == ["tests/test_b.py::test_b[1]"]
    assert "tests/test_a.py::test_quick[1]" not in select_slow_cases(read_durations(LOG), listed)


def test_the_list_is_of_files_that_exist() -> None:
    cases = read_list()
    assert cases
    for case in cases:
        assert (LIST.parent.parent / case.split("::")[0]).is_file(), case
