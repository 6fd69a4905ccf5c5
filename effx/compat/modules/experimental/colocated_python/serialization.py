"""`jax.experimental.colocated_python.serialization`: orbax asks here for the type of lists of devices."""

from jaxlib._jax import DeviceList

__all__ = ["DeviceList"]
