"""Compares the two libraries' results of one expression."""

import math
from typing import Any

TOLERANCES = {
    "float16": 4e-3,
    "bfloat16": 2e-2,
    "float32": 2e-5,
    "complex64": 5e-5,
    "float64": 1e-10,
    "complex128": 1e-10,
}
"""Relative to the larger of the two numbers and, for results of a common size, to the largest element."""


def difference(ours: Any, theirs: Any) -> str | None:
    """Returns what differs between two descriptions of `evaluate.describe`; None if nothing does."""
    if isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            return f"structure: {len(ours)} parts, {len(theirs)} in JAX"
        return next(
            (d for a, b in zip(ours, theirs, strict=True) if (d := difference(a, b)) is not None), None
        )
    if isinstance(ours, list) or isinstance(theirs, list):
        return f"structure: {kind_of(ours)}, {kind_of(theirs)} in JAX"
    if "error" in ours or "error" in theirs:
        if "error" in ours and "error" in theirs:
            return None
        return f"error: {kind_of(ours)}; in JAX {kind_of(theirs)}"
    for key in ("python", "dtype", "shape"):
        if ours.get(key) != theirs.get(key):
            return f"{key}: {ours.get(key)}, {theirs.get(key)} in JAX"
    if "elements" not in ours:
        return next((d for key in ours if (d := difference(ours[key], theirs.get(key))) is not None), None)
    if ours.get("weak") != theirs.get("weak"):
        return f"weak type: {ours['weak']}, {theirs['weak']} in JAX"
    return compare_elements(ours["elements"], theirs["elements"], TOLERANCES.get(ours.get("dtype", ""), 0.0))


def kind_of(x: Any) -> str:
    """Returns a few words for a description."""
    if isinstance(x, list):
        return f"{len(x)} parts"
    if "error" in x:
        return f"{x['error']} ({x['text'][:90]})"
    return f"{x.get('dtype', x.get('python', 'a dict'))}{x.get('shape', '')}"


def compare_elements(ours: list[str], theirs: list[str], tolerance: float) -> str | None:
    """Compares numbers, by text where they must be equal."""
    if ours == theirs:
        return None
    if not tolerance:
        i = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
        return f"value {i}: {ours[i]}, {theirs[i]} in JAX"
    a, b = [complex(x) for x in ours], [complex(x) for x in theirs]
    size = max([abs(x) for x in b if math.isfinite(abs(x))], default=0.0)
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if not (_are_close(x.real, y.real, tolerance, size) and _are_close(x.imag, y.imag, tolerance, size)):
            return f"value {i}: {ours[i]}, {theirs[i]} in JAX"
    return None


def _are_close(x: float, y: float, tolerance: float, size: float) -> bool:
    if math.isnan(x) or math.isnan(y):
        return math.isnan(x) and math.isnan(y)
    if math.isinf(x) or math.isinf(y):
        return x == y
    return abs(x - y) <= tolerance * max(abs(x), abs(y)) + 0.02 * tolerance * size + 1e-37
