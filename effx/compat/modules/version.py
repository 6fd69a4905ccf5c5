"""`jax.version`."""

from effx.compat import names

__all__ = ["__version__", "__version_info__"]

__version__ = names.VERSION
__version_info__ = names.VERSION_INFO
