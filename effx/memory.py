"""The memories of devices by their use, named as in `jax.memory`, and the host's memory given back.

>>> import effx
>>> x = effx.device_put(effx.numpy.ones(3), effx.memory.Space.Host)
>>> x.sharding.memory_kind
'pinned_host'
"""

from effx.lower.placement.host_memory import release_host_memory
from effx.lower.placement.memories import Space

__all__ = ["Space", "release_host_memory"]
