"""`jax._src.api_util`: libraries ask here for the numbers and names of arguments."""

import inspect
from collections.abc import Iterable

from effx.transforms.jit.options import match_names_and_numbers, parse_argnames, parse_argnums

__all__ = ["infer_argnums_and_argnames"]


def infer_argnums_and_argnames(
    sig: inspect.Signature, argnums: int | Iterable[int] | None, argnames: str | Iterable[str] | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Returns the numbers and the names of the arguments of one of both kinds; what is given where both are."""
    numbers, names = parse_argnums("argnums", argnums), parse_argnames("argnames", argnames)
    return match_names_and_numbers(
        "infer_argnums_and_argnames",
        sig,
        _unnamed,
        "static",
        numbers,
        names,
        adds=None in (argnums, argnames),
    )


def _unnamed() -> None:
    """Stands for the function in errors."""
