"""`jax.experimental.colocated_python.serialization`: orbax imports the type of lists of devices from here."""

from effx.lower.jaxlib_names import DeviceList

__all__ = ["DeviceList"]
