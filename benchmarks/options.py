"""The options that every table has."""

from __future__ import annotations

import argparse


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="shorter functions, fewer rounds")
    parser.add_argument("--only", choices=("effx", "jax"), help="time one library, without ratios")
    parser.add_argument("--filter", default="", metavar="REGEX", help="only rows whose title matches")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a budget is broken")
