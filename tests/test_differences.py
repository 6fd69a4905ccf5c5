"""The tool that compares effx with JAX: its list, its comparison, and a part of the list itself."""

import sys
from typing import Any

import pytest

from tools.differences.__main__ import run_both
from tools.differences.compare import compare_elements, difference
from tools.differences.expressions import all_expressions, split_calls
from tools.differences.reasons import REASONS, find_reason


def array(*elements: str, dtype: str = "float32", weak: bool = False) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [len(elements)], "weak": weak, "elements": list(elements)}


def test_the_list() -> None:
    texts = all_expressions()
    assert len(texts) == len(set(texts)) > 5000
    for text in texts:
        compile(text, text, "eval")


def test_calls_are_split_at_spaces_outside_of_brackets() -> None:
    assert split_calls("f(1, 2) g([1, (2, 3)])\nh(x = 1)[0: 2]") == [
        "f(1, 2)",
        "g([1, (2, 3)])",
        "h(x = 1)[0: 2]",
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "text"),
    [
        (array("1.0"), array("1.0000001"), None),
        (array("1.0"), array("1.1"), "value 0: 1.0, 1.1 in JAX"),
        (array("nan", "inf"), array("nan", "inf"), None),
        (array("nan"), array("1.0"), "value 0: nan, 1.0 in JAX"),
        (array("-inf"), array("inf"), "value 0"),
        (array("1", dtype="int32"), array("2", dtype="int32"), "value 0: 1, 2 in JAX"),
        (array("1.0"), array("1.0", dtype="float16"), "dtype: float32, float16 in JAX"),
        (array("1.0"), array("1.0", "1.0"), "shape"),
        (array("1.0"), array("1.0", weak=True), "weak type: False, True in JAX"),
        ([array("1.0")], array("1.0"), "structure"),
        ([array("1.0")], [array("1.0"), array("1.0")], "structure: 1 parts, 2 in JAX"),
        ({"error": "ShapeError", "text": "a"}, {"error": "TypeError", "text": "b"}, None),
        ({"error": "ShapeError", "text": "a"}, array("1.0"), "error: ShapeError (a); in JAX float32"),
        (array("1.0"), {"error": "TypeError", "text": "b"}, "error: float32[1]; in JAX TypeError (b)"),
    ],
)  # fmt: skip
def test_differences(ours: Any, theirs: Any, text: str | None) -> None:
    result = difference(ours, theirs)
    assert result is None if text is None else text in str(result)


def test_complex_elements() -> None:
    assert compare_elements(["(1+2j)"], ["(1+2.0000001j)"], 1e-5) is None
    assert compare_elements(["(1+2j)"], ["(1-2j)"], 1e-5) is not None


def test_reasons_are_whole_patterns() -> None:
    assert find_reason("np.sinc(F)", "value 0: nan, 0.0 in JAX") is not None
    assert find_reason("np.sinc(F) + 1", "value 0: nan, 0.0 in JAX") is None
    assert all(reason for _, _, reason in REASONS)


@pytest.mark.unguarded
def test_a_part_of_the_list() -> None:
    """Each difference to the JAX that is installed has a reason; `make differences` looks at the whole."""
    pytest.importorskip("jax")
    ours, theirs = run_both(sys.executable, ["every=60"])
    differences = {text: difference(ours[text], theirs[text]) for text in ours}
    without_reason = {t: d for t, d in differences.items() if d is not None and find_reason(t, d) is None}
    assert without_reason == {}
    assert sum(d is None for d in differences.values()) > 0.8 * len(ours)
