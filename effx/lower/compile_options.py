"""XLA's options for one compilation."""

from typing import TypeAlias

import numpy as np
from jaxlib import _jax
from jaxlib._jax import Device

__all__ = ["CompilerOptions", "compile_options"]

# Names and values, as `jit(compiler_options=…)` takes them.
CompilerOptions: TypeAlias = tuple[tuple[str, str | bool | int | float], ...]


def compile_options(devices: tuple[Device, ...], chosen: CompilerOptions = ()) -> _jax.CompileOptions:
    """Returns XLA's options for one program that runs on these devices."""
    options = _jax.CompileOptions()
    build = options.executable_build_options
    options.num_replicas = build.num_replicas = 1
    options.num_partitions = build.num_partitions = len(devices)
    options.env_option_overrides = list(chosen)
    if len(devices) > 1:
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = True
    ids = np.asarray([[d.id for d in devices]], dtype=np.int64)
    build.device_assignment = _jax.DeviceAssignment.create(ids)
    return options
