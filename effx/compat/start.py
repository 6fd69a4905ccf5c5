"""`EFFX_COMPAT=1`: the hook is installed by `import effx`, or when Python starts where effx-jax-compat is installed."""

import os

from effx.flag_values import parse_bool

__all__ = ["start"]


def start() -> None:
    """Installs the import hook if the variable `EFFX_COMPAT` is set.

    Raises:
        CompatError: JAX itself is loaded already.
        ValueError: the variable is no bool.
    """
    if not parse_bool("EFFX_COMPAT", os.environ.get("EFFX_COMPAT", "0")):
        return
    from effx.compat.finder import install  # only if it is set

    install()
