"""What becomes of a function on its way to a device: staged, lowered, compiled; named as in `jax.stages`.

>>> import effx, effx.numpy as enp
>>> traced: Traced = effx.jit(enp.sin).trace(1.0)
>>> compiled: Compiled = traced.lower().compile()
>>> compiled.args_info[0][0].shape
()
"""

from collections.abc import Mapping
from typing import TypeAlias

from effx.lazy import list_names
from effx.transforms.jit.function import Jitted as Wrapped
from effx.transforms.jit.stages import ArgInfo, Compiled, Lowered, Traced

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]
__dir__ = list_names(__all__)

CompilerOptions: TypeAlias = Mapping[str, str | bool | int | float]
"""Options of XLA's compiler by name, as `jit` and `Lowered.compile` take them."""
