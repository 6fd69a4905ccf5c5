"""Evaluates the expressions in this process's library: `python -m tools.differences.evaluate jax|effx results.json`.

One process has one of the two libraries: each sets up XLA for itself.
"""

import importlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tools.differences import values
from tools.differences.expressions import all_expressions

MODULES = "numpy lax random nn scipy.special scipy.stats scipy.linalg numpy.fft numpy.linalg".split()  # noqa: SIM905
LARGEST = 4096
"""Of larger results only so many elements are kept."""


def load_namespace(library: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the names that expressions use.

    Args:
        library: "jax" or "effx". settings: of the library, by their names without a prefix.
    """
    root = importlib.import_module(library)
    for name in MODULES:
        importlib.import_module(f"{library}.{name}")
    prefix = "jax_" if library == "jax" else ""
    for name, value in settings.items():
        root.config.update(prefix + name, value)
    arrays = {name: x for name, x in vars(values).items() if name[0].isupper() and name != "RNG"}
    return {"jax": root, "np": root.numpy, "lax": root.lax, "onp": np, **arrays}


def describe(x: Any) -> Any:
    """Returns what is compared of a result: dtype, shape, weakness and elements, or the structure's parts."""
    if isinstance(x, bool | int | float | str | complex | None):
        return {"python": type(x).__name__, "elements": [str(x)]}
    if isinstance(x, tuple | list):
        return [describe(part) for part in x]
    if isinstance(x, dict):
        return {key: describe(part) for key, part in sorted(x.items())}
    if isinstance(x, np.dtype | type):
        return {"python": "dtype", "elements": [np.dtype(x).name]}
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        data = np.asarray(x).reshape(-1)[:LARGEST]
        wide = data.astype(np.complex128) if data.dtype.kind == "c" else data
        elements = (
            [repr(complex(v)) for v in wide] if data.dtype.kind == "c" else [str(v) for v in data.tolist()]
        )
        return {
            "dtype": str(x.dtype),
            "shape": list(x.shape),
            "weak": bool(getattr(x, "weak_type", False)),
            "elements": elements,
        }
    return {"python": "object", "elements": [type(x).__name__]}


def evaluate(text: str, namespace: dict[str, Any]) -> Any:
    """Returns the description of an expression's value, or of the error that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return describe(eval(text, dict(namespace)))
    except RecursionError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it raises is compared
        return {"error": type(error).__name__, "text": str(error).split("\n")[0][:200]}


def main(library: str, target: str, *options: str) -> None:
    """Writes the results of all expressions, or of every n-th one."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    settings: dict[str, Any] = {}
    step, start = 1, 0
    for option in options:
        name, _, value = option.partition("=")
        if name == "every":
            step = int(value)
        elif name == "from":
            start = int(value)
        else:
            settings[name] = {"true": True, "false": False}.get(value, value)
    namespace = load_namespace(library, settings)
    texts = all_expressions()[start::step]
    Path(target).write_text(json.dumps({text: evaluate(text, namespace) for text in texts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
