"""`python -m effx.compat script.py args…` and `python -m effx.compat -m module args…`: runs a program for JAX on effx."""

import runpy
import sys
from pathlib import Path

from effx.compat.finder import install
from effx.compat.missing import report

USAGE = "usage: python -m effx.compat [--report] (script.py | -m module) [args …]"


def main() -> None:
    """Runs a script or a module as Python itself would, with `import jax` giving effx."""
    arguments = sys.argv[1:]
    tell = arguments[:1] == ["--report"]
    arguments = arguments[tell:]
    as_module = arguments[:1] == ["-m"]
    arguments = arguments[as_module:]
    if not arguments or arguments[0].startswith("-"):
        sys.exit(USAGE)
    install()
    sys.argv = arguments
    try:
        if as_module:
            sys.path[0] = str(Path.cwd())
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(arguments[0]).resolve().parent)
            runpy.run_path(arguments[0], run_name="__main__")
    finally:
        if tell:
            sys.stderr.write(f"{report()}\n")


if __name__ == "__main__":
    main()
