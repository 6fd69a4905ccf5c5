"""`jax.experimental.colocated_python`: functions that run on the host of their arguments' devices, for orbax."""

from effx.compat.colocated import colocated_cpu_devices, colocated_python, colocated_python_class

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]
