"""Prints the table of laws: `python -m effx.laws > docs/laws.md`."""

import sys

from effx.laws.table import render

sys.stdout.write(render())
