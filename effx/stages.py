"""The stages of a function: traced, lowered, compiled; named as in `jax.stages`.

>>> import effx, effx.numpy as enp
>>> traced: Traced = effx.jit(enp.sin).trace(1.0)
>>> compiled: Compiled = traced.lower().compile()
>>> compiled.args_info[0][0].shape
()
"""

from collections.abc import Mapping
from typing import TypeAlias

from effx.lazy import list_names
from effx.lower.runtime.recompilation import wait_for_compilations
from effx.transforms.jit.function import Jitted as Wrapped
from effx.transforms.jit.stages import ArgInfo, Compiled, Lowered, Traced

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped", "wait_for_compilations"]
__dir__ = list_names(__all__)

CompilerOptions: TypeAlias = Mapping[str, str | bool | int | float]
"""XLA compiler options by name, for `jit` and `Lowered.compile`."""
