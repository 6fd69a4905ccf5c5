"""`jax.experimental.colocated_python.serialization`: orbax asks here for the type of lists of devices."""

from effx.lower.jaxlib_names import DeviceList

__all__ = ["DeviceList"]
