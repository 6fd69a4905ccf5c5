"""`jax.extend.source_info_util`."""

from effx.compat.modules._src.traceback_util import register_exclusion

__all__ = ["register_exclusion"]
