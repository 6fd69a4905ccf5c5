"""Compiles for an H100 and a TPU v5e with effx and with JAX, and prints what differs: `make test-accelerators`.

For TPUs there is one program more, the training step of `examples/plan_7b.py` for 256 chips, with its memory and
collectives.

python -m tools.accelerators [--only WORD] [--folder FOLDER] [--limit SECONDS] [--recorded | --record]

Fails where effx does not compile what JAX compiles. `--record` keeps JAX's numbers in jax_outcomes.json, and `--recorded`
compares with these instead of running JAX, which takes half the time. `--limit` says after how many seconds a library
begins no function; what does not end in five minutes more is stopped. Without `--folder`, the numbers of each function are
in a temporary folder that is removed.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from tools.accelerators.compiling import Outcome
from tools.accelerators.functions import FUNCTIONS
from tools.accelerators.training_step import NAME, Exchange

# Above this ratio to JAX's number a function is listed.
LISTED = 1.3
MEASURES = ("kernels", "bytes", "temporaries")
PLATFORMS = ("cuda", "tpu")
NOT_REACHED = "not reached"
# No program takes so many seconds to compile, be the machine busy: one that does not end is stopped.
LONGEST = 300
RECORD = Path(__file__).parent / "jax_outcomes.json"
Outcomes = dict[str, Outcome]


def list_names(platform: str) -> list[str]:
    """Lists what is compiled for a platform."""
    return [*([NAME] if platform == "tpu" else []), *[f.name for f in FUNCTIONS]]


def compile_with_library(library: str, platform: str, folder: Path, only: str, limit: float) -> Outcomes:
    """Compiles the functions for a platform in a process of its own; returns what became of each."""
    target = folder / f"{library}_{platform}.json"
    command = [sys.executable, "-m", "tools.accelerators.compiling", library, platform, str(target)]
    target.unlink(missing_ok=True)
    with (folder / f"{library}_{platform}.log").open("wb") as log:
        try:
            code = subprocess.run(
                [*command, "--only", only, "--limit", str(limit)],
                check=False,
                stdout=log,
                stderr=log,
                timeout=None if math.isinf(limit) else limit + LONGEST,
            ).returncode
            end = f"exit code {code}"
        except subprocess.TimeoutExpired:
            code, end = 1, f"ended by force, {LONGEST} s after the limit"
    outcomes: Outcomes = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    if code:
        # The first function without an outcome ended the process.
        missing = [name for name in list_names(platform) if only in name and name not in outcomes]
        outcomes.update({name: {"error": f"{NOT_REACHED}, {end}"} for name in missing})
    return outcomes


def compile_for_platforms(library: str, folder: Path, only: str, limit: float) -> list[Outcomes]:
    """Compiles for all platforms at the same time, each on a core."""
    with ThreadPoolExecutor(len(PLATFORMS)) as pool:
        return list(
            pool.map(lambda platform: compile_with_library(library, platform, folder, only, limit), PLATFORMS)
        )


def keep_numbers(outcomes: Outcomes) -> Outcomes:
    """Returns outcomes without seconds, which differ from run to run."""
    return {name: {k: v for k, v in o.items() if k != "seconds"} for name, o in outcomes.items()}  # type: ignore[misc]  # a part of a TypedDict without required keys


def compare(ours: Outcomes, theirs: Outcomes) -> tuple[list[str], int]:
    """Returns the lines of the report on a platform, and how many functions effx does not compile, but for those that JAX
    refuses.
    """
    lines: list[str] = []
    failures = 0
    for name, outcome in ours.items():
        if "error" in outcome:
            is_alone = theirs.get(name, {}).get("error", NOT_REACHED).startswith(NOT_REACHED)
            failures += is_alone
            lines.append(f"  {name}: {outcome['error']}{'' if is_alone else ' (as JAX)'}")
    for measure in MEASURES:
        pairs = {
            name: (float(outcome[measure]), float(theirs[name][measure]))  # type: ignore[literal-required]  # one of MEASURES
            for name, outcome in ours.items()
            if measure in outcome and measure in theirs.get(name, {})
        }
        ratios = {name: max(x, 1.0) / max(y, 1.0) for name, (x, y) in pairs.items()}
        if not ratios or all([x == y == 0 for x, y in pairs.values()]):
            continue
        if measure != "temporaries":
            mean = float(np.exp(np.mean(np.log(list(ratios.values())))))
            lines.append(
                f"  {measure}: geometric mean of the ratios to JAX {mean:.3f}, of {len(ratios)} functions"
            )
        lines += [
            f"    {name}: {pairs[name][0]:,.0f} for {pairs[name][1]:,.0f}"
            + (describe_loops(ours[name], theirs[name]) if measure == "kernels" else "")
            for name, ratio in sorted(ratios.items(), key=lambda item: -item[1])
            if ratio > LISTED and (measure != "temporaries" or pairs[name][0] > 100_000)
        ]
    for name, outcome in ours.items():
        if "memory" in outcome:
            lines += [f"  {name}, each of 256 chips:", *format_exchanges(outcome, theirs.get(name, {}))]
    return lines, failures


def describe_loops(ours: Outcome, theirs: Outcome) -> str:
    """Returns the counts of kernels with those of loops and branches, in brackets, where they are known and differ."""
    counts = [o.get("kernels_within", o.get("kernels")) for o in (ours, theirs)]
    if "kernels_within" not in theirs or counts == [ours.get("kernels"), theirs.get("kernels")]:
        return ""
    return f" ({counts[0]} for {counts[1]} with those of loops, each once, and of branches)"


def format_exchanges(ours: Outcome, theirs: Outcome) -> list[str]:
    """Returns the lines of the report on a program's memory and collectives on each chip, beside JAX's."""
    lines = [f"    memory: {ours['memory'] / 1e9:.3f} GB for {theirs.get('memory', 0) / 1e9:.3f} GB"]
    none: Exchange = {"count": 0.0, "bytes": 0.0}
    our_kinds, their_kinds = ours["collectives"], theirs.get("collectives", {})
    for kind in sorted({*our_kinds, *their_kinds}):
        x, y = our_kinds.get(kind, none), their_kinds.get(kind, none)
        lines.append(
            f"    {kind}: {x['count']:,.0f} that send {x['bytes'] / 1e9:.3f} GB for {y['count']:,.0f} that send "
            f"{y['bytes'] / 1e9:.3f} GB"
        )
    return lines


def main() -> None:
    """Compiles for both platforms, and prints the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="compile functions with this word in their name")
    parser.add_argument("--folder", type=Path, help="where the numbers and logs are kept")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for each library")
    jax = parser.add_mutually_exclusive_group()
    jax.add_argument("--recorded", action="store_true", help="compare with JAX's recorded numbers")
    jax.add_argument("--record", action="store_true", help=f"write JAX's numbers to {RECORD.name}")
    options = parser.parse_args()
    if options.record and (options.only or options.limit < float("inf")):
        parser.error("--record wants all functions, without --only and --limit")
    record = json.loads(RECORD.read_text(encoding="utf-8")) if options.recorded else {}
    total = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        ours = compile_for_platforms("effx", folder, options.only, options.limit)
        if options.recorded:
            theirs = [record[platform] for platform in PLATFORMS]
        else:
            theirs = compile_for_platforms("jax", folder, options.only, options.limit)
        if options.record:
            numbers = {p: keep_numbers(outcomes) for p, outcomes in zip(PLATFORMS, theirs, strict=True)}
            RECORD.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    for platform, our_outcomes, their_outcomes in zip(PLATFORMS, ours, theirs, strict=True):
        lines, failures = compare(our_outcomes, their_outcomes)
        names = [name for name in list_names(platform) if options.only in name]
        total += failures + (bool(names) and not our_outcomes)
        compiled = sum(["error" not in outcome for outcome in our_outcomes.values()])
        print(f"{platform}: {compiled} of {len(our_outcomes)} functions compiled")
        if len(our_outcomes) < len(names):
            print(f"  {len(names) - len(our_outcomes)} were not reached")
        print("\n".join(lines), flush=True)
    raise SystemExit(bool(total))


if __name__ == "__main__":
    main()
