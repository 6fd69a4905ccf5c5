"""Compiles every sample of the table of operations for a platform, which need not be there.

python -m tools.accelerators.operations {cuda,tpu} [--every N] [--only WORD] [--one-of-each] [--record]

Prints what is refused and why, and what ends the process. A process compiles until it ends or has compiled all; the next
one goes on behind the sample that ended it. `--record` keeps the outcomes in `tools/accelerators/operations.json`, of which
`python -m tools.operation_matrix` makes a column of docs/tables/operations.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tools.accelerators.targets import describe_devices, prepare_environment

if TYPE_CHECKING:
    from effx import Array
    from tests.ops.rows import Sample

__all__ = ["RECORD", "compile_samples"]

RECORD = Path(__file__).with_suffix(".json")


def apply_sample(sample: Sample, *operands: Array) -> list[Array]:
    """Performs the operation of a sample."""
    return sample.apply(operands)


def compile_samples(platform: str, first: int, every: int, only: str, one_of_each: bool, log: Path) -> None:
    """Compiles samples from number `first` on; adds a line for each to the log, before and after."""
    # Not at the top: the process that starts the others needs neither, and effx chooses platforms as it is imported.
    import effx
    from effx.sharding import SingleDeviceSharding
    from tests.ops.table import CASES

    placement = SingleDeviceSharding(describe_devices("effx", platform)[0][0])
    with log.open("a", encoding="utf-8") as file:
        for number, (row, sample) in list(enumerate(CASES))[first::every]:
            name = " ".join(str(sample).split())
            if only not in name or (one_of_each and sample is not row.samples[0]):
                continue
            file.write(f"{number}\t{name}\t")
            file.flush()
            try:
                with sample.settings():
                    structs = [
                        effx.ShapeDtypeStruct(t.shape, t.dtype, sharding=placement)
                        for t in sample.operand_types()
                    ]
                    device = None if structs else placement.device
                    effx.jit(partial(apply_sample, sample), device=device).lower(*structs).compile()
                outcome = "compiled"
            except Exception as error:  # noqa: BLE001 - the report shows every error
                lines = [line for line in str(error).splitlines() if line.strip()]
                outcome = f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
            file.write(f"{outcome}\n")
            file.flush()


def main() -> None:
    """Starts processes until all samples are compiled, and prints what was not."""
    parser = argparse.ArgumentParser()
    parser.add_argument("platform", choices=("cuda", "tpu"))
    parser.add_argument("--every", type=int, default=1, help="compile every N-th sample")
    parser.add_argument("--only", default="", help="compile samples with this word in their name")
    parser.add_argument(
        "--one-of-each", action="store_true", help="compile the first sample of each operation"
    )
    parser.add_argument("--record", action="store_true", help=f"write the outcomes to {RECORD.name}")
    parser.add_argument("--log", type=Path, default=Path("operations.log"))
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first is not None:
        compile_samples(
            options.platform, options.first, options.every, options.only, options.one_of_each, options.log
        )
        return
    prepare_environment()  # of the processes that compile, which read it as they import effx
    options.log.write_text("", encoding="utf-8")
    first = 0
    while True:
        command = [
            sys.executable,
            "-m",
            "tools.accelerators.operations",
            *sys.argv[1:],
            "--first",
            str(first),
        ]
        code = subprocess.run(command, check=False, stderr=subprocess.DEVNULL, env={**os.environ}).returncode
        lines = options.log.read_text(encoding="utf-8").splitlines()
        if code == 0 or not lines:
            break
        with options.log.open("a", encoding="utf-8") as file:
            file.write(f"ended the process, exit code {code}\n")
        first = int(lines[-1].split("\t")[0]) + options.every
    outcomes = [line.split("\t") for line in options.log.read_text(encoding="utf-8").splitlines()]
    failures = [(name, outcome) for _, name, outcome in outcomes if outcome != "compiled"]
    for name, outcome in failures:
        print(f"{name}: {outcome}")
    print(f"{len(outcomes)} samples, {len(failures)} not compiled for {options.platform}")
    if options.record:
        record_outcomes(
            options.platform, [(name, outcome) for _, name, outcome in outcomes], bool(options.only)
        )


def record_outcomes(platform: str, outcomes: list[tuple[str, str]], keeps_others: bool) -> None:
    """Keeps, for each operation, why a sample of it does not compile; "" if all do.

    Args:
        keeps_others: True to leave what is recorded of other operations.
    """
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    reasons: dict[str, str] = {}
    for name, outcome in outcomes:
        operation = name.split("[")[0]
        reasons[operation] = reasons.get(operation) or ("" if outcome == "compiled" else outcome)
    others = record.get(platform, {}) if keeps_others else {}
    record[platform] = dict(sorted({**others, **reasons}.items()))
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
