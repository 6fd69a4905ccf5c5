"""What `import jax` finds where effx's hook is not installed: an error that says how to install it.

A module and no package: where JAX itself is installed too, its package `jax` is found first, and not written over.
"""

raise ModuleNotFoundError(
    "jax is not installed here: effx-jax-compat only tells pip that effx stands in for it. "
    "Run the program as `python -m effx.compat script.py` or with EFFX_COMPAT=1, "
    "or import effx.compat.jax before anything that imports jax",
    name="jax",
)
