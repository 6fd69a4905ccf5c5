"""What effx has under other names than JAX, or in another form: names of `jax` itself here, of `jax.X` in the module X."""

from effx.compat.config import config
from effx.compat.jaxprs import make_jaxpr
from effx.compat.names import VERSION, VERSION_INFO

__all__ = ["__version__", "__version_info__", "config", "make_jaxpr"]

__version__ = VERSION
__version_info__ = VERSION_INFO
