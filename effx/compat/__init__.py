"""Programs written for JAX, and its libraries, on effx: `import effx.compat.jax` first, or `python -m effx.compat job.py`.

From then on `import jax` gives effx under JAX's names; nothing of jax is loaded, or need be installed.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
