"""What of jaxlib libraries of JAX ask for, as `effx.compat` hands it on."""

from jaxlib._jax import Client, DeviceList, DistributedRuntimeClient, ifrt_programs

__all__ = ["Client", "DeviceList", "DistributedRuntimeClient", "ifrt_programs"]
