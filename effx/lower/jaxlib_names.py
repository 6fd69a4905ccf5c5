"""The parts of jaxlib that libraries of JAX import, for `effx.compat` to re-export."""

from jaxlib._jax import Client, DeviceList, DistributedRuntimeClient, ifrt_programs

__all__ = ["Client", "DeviceList", "DistributedRuntimeClient", "ifrt_programs"]
