# What a Python function sees that XLA's foreign function interface calls.

from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import CapsuleType

class ExecutionStage(Enum):
    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3

class ExecutionContext:
    @property
    def stage(self) -> ExecutionStage: ...
    @property
    def stream(self) -> int: ...

class Buffer:
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def writeable(self) -> bool: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, object]: ...
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]: ...
    def __dlpack__(
        self,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
