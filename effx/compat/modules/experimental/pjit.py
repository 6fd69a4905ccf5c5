"""`jax.experimental.pjit`: the old name of `jax.jit`, which orbax's test utilities ask for."""

from effx import jit as pjit

__all__ = ["pjit"]
