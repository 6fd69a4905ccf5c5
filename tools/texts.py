"""Writes the StableHLO texts, for CPUs, of the table of operations and of functions and programs; compares two states.

python -m tools.texts FILE                writes them: values, tangents, gradients and batches
python -m tools.texts --compare OLD NEW   prints what differs

A change that is to leave programs as they are is one after which no text differs.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import effx
from effx import dtypes
from tests.ops.table import CASES
from tools.accelerators.functions import FUNCTIONS, Library
from tools.accelerators.operations import apply_sample

Tree = Any


def sum_of_cubes(apply: Callable[..., Tree], *operands: Tree) -> Tree:
    """Returns a number of which every result's cotangent differs."""
    leaves = [y for y in effx.tree.leaves(apply(*operands)) if dtypes.is_inexact(y.dtype)]
    return sum([effx.numpy.sum(effx.numpy.real(y) ** 3) for y in leaves], effx.numpy.float32(0))


def write_texts(name: str, apply: Callable[..., Tree], structs: list[Any]) -> Iterator[tuple[str, str]]:
    """Yields the texts of a function, of its tangents and gradients by floating operands, and of a batch."""
    floats = tuple([i for i, s in enumerate(structs) if dtypes.is_inexact(s.dtype)])

    def along(*operands: Tree) -> Tree:
        tangents = [x if i in floats else None for i, x in enumerate(operands)]

        def of_floats(*xs: Tree) -> Tree:
            rest = iter(xs)
            return apply(*[next(rest) if i in floats else x for i, x in enumerate(operands)])

        primals = [operands[i] for i in floats]
        return effx.jvp(of_floats, primals, [d for d in tangents if d is not None])

    batched = [effx.ShapeDtypeStruct((3, *s.shape), s.dtype) for s in structs]
    forms: list[tuple[str, Callable[..., Tree], list[Any]]] = [("value", apply, structs)]
    if floats:
        gradient = effx.grad(partial(sum_of_cubes, apply), floats, holomorphic=False, allow_int=True)
        forms += [("tangents", along, structs), ("gradient", gradient, structs)]
    if structs:
        forms.append(("batch", effx.vmap(apply), batched))
    for form, function, operands in forms:
        try:
            yield f"{name}: {form}", effx.jit(function).lower(*operands).as_text()
        except Exception as error:  # noqa: BLE001 - what is refused must be refused again, in the same words
            yield f"{name}: {form}", f"{type(error).__name__}: {error}"


def write_all() -> dict[str, str]:
    """Returns all texts by name."""
    texts: dict[str, str] = {}
    for number, (_, sample) in enumerate(CASES):
        name = f"{number} {' '.join(str(sample).split())}"
        with sample.settings():
            structs = [effx.ShapeDtypeStruct(t.shape, t.dtype) for t in sample.operand_types()]
            texts.update(write_texts(name, partial(apply_sample, sample), structs))
    library = Library("effx")
    for function in FUNCTIONS:
        if not function.axes:
            structs = [effx.ShapeDtypeStruct(s.shape, dtypes.as_dtype(s.dtype)) for s in function.operands]
            texts.update(write_texts(function.name, partial(function.apply, library), structs))
    return texts


def compare(old: Path, new: Path) -> int:
    """Prints the differences of two files; returns how many texts differ."""
    before, after = json.loads(old.read_text()), json.loads(new.read_text())
    count = 0
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name, ""), after.get(name, "")
        if was != now:
            count += 1
            lines = difflib.unified_diff(was.splitlines(), now.splitlines(), lineterm="", n=1)
            print("\n".join([name, *list(lines)[2:30]]))
    print(f"{count} of {len(before.keys() | after.keys())} texts differ")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(prog="texts", description=__doc__)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    if options.compare:
        return min(compare(*options.files), 1)
    warnings.simplefilter("ignore")
    texts = write_all()
    options.files[0].write_text(json.dumps(texts, indent=0, sort_keys=True))
    refused = sum([not text.startswith("module") for text in texts.values()])
    print(f"{len(texts)} texts, {refused} of them errors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
