"""XLA's options for one compilation."""

from enum import IntEnum
from typing import Final, TypeAlias, final

import numpy as np
from jaxlib import _jax
from jaxlib._jax import Device

__all__ = ["EFFORTS", "CompilerEffortLevel", "CompilerOptions", "compile_options"]

# Names and values, as `jit(compiler_options=…)` takes them.
CompilerOptions: TypeAlias = tuple[tuple[str, str | bool | int | float], ...]


@final
class CompilerEffortLevel(IntEnum):
    """How much XLA optimizes for speed, or for memory: passes that take time to compile run from some level
    on. Which passes depends on the platform.

    >>> import effx
    >>> options = {"optimization_level": CompilerEffortLevel.O1, "memory_fitting_level": CompilerEffortLevel.O3}
    >>> print(effx.jit(lambda x: x + 1, compiler_options=options)(1.0))
    2.0
    """

    UNKNOWN = 0
    O0 = 9
    O1 = 19
    O2 = 29
    O3 = 39


# The options whose values are levels.
EFFORTS: Final = ("optimization_level", "memory_fitting_level")


def compile_options(devices: tuple[Device, ...], chosen: CompilerOptions = ()) -> _jax.CompileOptions:
    """Returns XLA's options for one program that runs on these devices."""
    options = _jax.CompileOptions()
    build = options.executable_build_options
    options.num_replicas = build.num_replicas = 1
    options.num_partitions = build.num_partitions = len(devices)
    options.env_option_overrides = [(name, value) for name, value in chosen if name not in EFFORTS]
    for name, value in chosen:
        if name in EFFORTS:
            setattr(build, name, int(value))
    if len(devices) > 1:
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = True
    ids = np.asarray([[d.id for d in devices]], dtype=np.int64)
    build.device_assignment = _jax.DeviceAssignment.create(ids)
    return options
