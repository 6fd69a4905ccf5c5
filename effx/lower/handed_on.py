"""What of jaxlib libraries of JAX ask for, as `effx.compat` hands it on."""

from jaxlib._jax import DeviceList, DistributedRuntimeClient, ifrt_programs

__all__ = ["DeviceList", "DistributedRuntimeClient", "ifrt_programs"]
