"""What effx has under other names than JAX, or in another form: names of `jax` itself here, of `jax.X` in the module X."""

from effx.compat.config import config
from effx.compat.names import VERSION

__all__ = ["__version__", "__version_info__", "config"]

__version__ = VERSION
__version_info__ = tuple([int(part) for part in VERSION.split(".")])
