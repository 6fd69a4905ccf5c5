"""Compare stubs/jaxlib with the installed jaxlib: mypy's stubtest, and nanobind's own signatures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tools.nanobind_signatures import differences

ROOT = Path(__file__).resolve().parent.parent
MODULES = (
    "jaxlib._hlo",
    "jaxlib._jax",
    "jaxlib._profile_data",
    "jaxlib._profiler",
    "jaxlib.lapack",
    "jaxlib.mlir.dialects.stablehlo",
    "jaxlib.mlir.ir",
    "jaxlib.version",
    "jaxlib.xla_client",
)

# True of every class and function that nanobind makes, and of no use to a caller. An allowlist entry
# would instead excuse the name from every check, that of being there at all included.
NANOBIND = re.compile(
    r"is not a function$"
    r"|metaclass differs$"
    r"|stub is a staticmethod but runtime is not$"
    r"|is a disjoint base at runtime, but isn't marked with @disjoint_base in the stub$"
    r"|__init__ is inconsistent, stub does not have \*args parameter \"args\"$"
)
SUMMARY = re.compile(r"^(Success: no issues found|Found \d+ error)")


def main() -> int:
    """Run stubtest and print what it finds; 0 when that is nothing."""
    command = [sys.executable, "-m", "mypy.stubtest", *MODULES, "--concise", "--ignore-missing-stub"]
    command += ["--allowlist", str(ROOT / "stubs/stubtest_allowlist.txt"), "--ignore-unused-allowlist"]
    environment = os.environ | {"MYPYPATH": str(ROOT / "stubs"), "TF_CPP_MIN_LOG_LEVEL": "1"}
    done = subprocess.run(
        command, cwd=ROOT / "stubs", env=environment, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    findings = [line for line in lines if not NANOBIND.search(line) and not SUMMARY.search(line)]
    if done.stderr.strip():
        findings.append(done.stderr.strip())
    for stub in sorted((ROOT / "stubs/jaxlib").rglob("*.pyi")):
        parts = stub.relative_to(ROOT / "stubs").with_suffix("").parts
        findings += differences(".".join(parts[:-1] if parts[-1] == "__init__" else parts), stub)
    # stubtest that did not get as far as its findings must not look like success.
    if done.returncode and not lines:
        findings.append(f"stubtest failed with status {done.returncode}")
    if findings:
        print("\n".join(findings))
        print(f"stubs: {len(findings)} differences from the installed jaxlib")
        return 1
    print(f"stubs: {len(MODULES)} modules agree with the installed jaxlib")
    return 0


if __name__ == "__main__":
    sys.exit(main())
