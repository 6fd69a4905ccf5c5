"""Compiles the functions for a target with one library, and writes what XLA says of each as JSON.

python -m tools.accelerators.compiling LIBRARY TARGET FILE [--only WORD] [--limit SECONDS]
"""

from __future__ import annotations

import argparse
import json
import re
import time
import traceback
from pathlib import Path
from typing import Any, TypedDict

import ml_dtypes  # noqa: F401  # gives NumPy the names of short dtypes
import numpy as np

from tools.accelerators.functions import FUNCTIONS, Function, Library
from tools.accelerators.targets import describe_devices, prepare_environment
from tools.accelerators.training_step import (
    NAME,
    Exchange,
    compile_training_step,
    count_collectives,
    count_memory,
)

__all__ = ["Outcome", "count_kernels", "count_kernels_within"]


class Outcome(TypedDict, total=False):
    """What became of a function: an error, or numbers. The training step has its memory and collectives."""

    error: str
    kernels: int
    kernels_within: int
    bytes: float
    temporaries: int
    memory: int
    collectives: dict[str, Exchange]
    seconds: float


# What a computation does without a kernel of its own.
_FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier", "partition-id",
    "replica-id",
}  # fmt: skip
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?[\w.-]+ = .*?[\])}] ([a-z][\w-]*)\(", re.MULTILINE)
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) .*\{\n((?:.*\n)*?)\}", re.MULTILINE)
_BODY = re.compile(r"\bbody=%?([\w.-]+)")
_BRANCHES = re.compile(r"\b(?:branch_computations=\{([^}]*)\}|(?:true|false)_computation=(%?[\w.-]+))")


def count_kernels(text: str) -> int:
    """Returns how many instructions of the entry computation of HLO's text do something.

    >>> count_kernels("ENTRY %main {\\n  %x = f32[3]{0} parameter(0)\\n  ROOT %y = f32[3]{0} fusion(%x)\\n}")
    1
    """
    entry = text[text.index("\nENTRY ") if "\nENTRY " in text else text.index("ENTRY ") :]
    entry = entry[: entry.index("\n}")]
    return sum([name not in _FREE for name in _INSTRUCTION.findall(entry)])


def count_kernels_within(text: str) -> int:
    """Returns the count of kernels with those of loops, as if each ran once, and of the longer branch of each choice.

    >>> body = "%b (x: f32[3]) -> f32[3] {\\n  ROOT %y = f32[3]{0} fusion(%x)\\n}\\n\\n"
    >>> count_kernels_within(
    ...     body + "ENTRY %main {\\n  %z = f32[3]{0} copy(%x)\\n  ROOT %w = f32[3]{0} while(%z), condition=%c, body=%b\\n}"
    ... )
    2
    """
    computations = {name: lines for _, name, lines in _COMPUTATION.findall(text)}
    entry = next(lines for is_entry, _, lines in _COMPUTATION.findall(text) if is_entry)

    def count(lines: str) -> int:
        total = 0
        for line in lines.splitlines():
            instruction = _INSTRUCTION.match(line)
            kind = instruction[1] if instruction else "parameter"
            if kind == "while":
                total += sum([count(computations[name]) for name in _BODY.findall(line)])
            elif kind == "conditional":
                names = re.findall(r"[\w.-]+", " ".join(map(" ".join, _BRANCHES.findall(line))))
                total += max([count(computations[name]) for name in names], default=0)
            else:
                total += kind not in _FREE
        return total

    return count(entry)


def describe_error(error: Exception) -> Outcome:
    """Returns the outcome of what does not compile: the error's first line, and where it was raised."""
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    frames = traceback.extract_tb(error.__traceback__)
    return {"error": f"{type(error).__name__}: {first[:300]} [{frames[-1].name}]"}


def measure_training_step(library: str) -> Outcome:
    """Compiles the training step for 256 chips; returns what it takes and exchanges."""
    started = time.perf_counter()
    try:
        compiled = compile_training_step(library)
    except Exception as error:  # noqa: BLE001 - the report shows every error
        return describe_error(error)
    return {
        "memory": count_memory(compiled.memory_analysis()),
        "collectives": count_collectives(compiled.as_text(), 256),
        "seconds": time.perf_counter() - started,
    }


def compile_function(library: Library, function: Function, devices: list[Any]) -> Outcome:
    """Compiles one function, on all devices if it is for several and else on the first."""
    api, sharding = library.api, library.sharding
    started = time.perf_counter()

    def apply(*operands: Any) -> Any:
        return function.apply(library, *operands)

    if function.axes:
        mesh = sharding.Mesh(np.array(devices), function.axes)
        placement = sharding.NamedSharding(mesh, sharding.PartitionSpec(*function.axes))
        spec = sharding.PartitionSpec(*function.axes)
        mapped = api.shard_map(apply, mesh=mesh, in_specs=spec, out_specs=spec)
    else:
        placement, mapped = sharding.SingleDeviceSharding(devices[0]), apply
    operands = [
        api.ShapeDtypeStruct(s.shape, np.dtype(s.dtype), sharding=placement) for s in function.operands
    ]
    try:
        compiled = api.jit(mapped).lower(*operands).compile()
    except Exception as error:  # noqa: BLE001 - the report shows every error
        return describe_error(error)
    # The compiler for CUDA without a card estimates none.
    costs = compiled.cost_analysis() if devices[0].platform == "tpu" else {}
    costs = costs[0] if isinstance(costs, list) else costs
    text = compiled.as_text()
    return {
        "kernels": count_kernels(text),
        "kernels_within": count_kernels_within(text),
        "bytes": float((costs or {}).get("bytes accessed", 0.0)),
        "temporaries": int(compiled.memory_analysis().temp_size_in_bytes),
        "seconds": time.perf_counter() - started,
    }


def main() -> None:
    """Compiles all functions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=("effx", "jax"))
    parser.add_argument("target", choices=("cuda", "tpu"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="compile functions with this word in their name")
    parser.add_argument(
        "--limit", type=float, default=float("inf"), help="seconds after which no function is begun"
    )
    options = parser.parse_args()
    ends = time.perf_counter() + options.limit
    prepare_environment()
    library = Library(options.library)
    one, several = describe_devices(options.library, options.target)
    outcomes: dict[str, Outcome] = {}
    # First, since it takes a minute, and begun behind others could end after the limit.
    if options.target == "tpu" and options.only in NAME:
        outcomes[NAME] = measure_training_step(options.library)
        options.file.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
    for function in FUNCTIONS:
        if options.only in function.name and time.perf_counter() < ends:
            outcomes[function.name] = compile_function(library, function, several if function.axes else one)
            options.file.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
