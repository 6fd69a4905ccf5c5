"""Call a user's Python function with NumPy arrays, and check the arrays that it returns."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import cast, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.promotion import narrow_data
from effx.dtypes import DType
from effx.errors import BackendError, DTypeError, ShapeError, TreeError
from effx.flags import default_device
from effx.ir.types import ArrayType
from effx.ir.values.described import HostData
from effx.lower.placement.backends import client
from effx.lower.placement.backends import default_device as current_default_device
from effx.lower.placement.concrete import place_on_device
from effx.lower.placement.shardings import Device
from effx.tracing.arguments import leaf_path
from effx.tree.registry import PyTree, PyTreeDef, flatten

__all__ = ["HostFunction"]


@final
@attrs.frozen(eq=False, repr=False)
class HostFunction:
    """A Python function of a list of arrays, with the types of its results. Equal only to itself.

    Attributes:
        what: effx's function that the user called, for errors: "pure_callback".
        name: of the user's function, for errors.
        call: takes arrays on a CPU, returns a pytree of arrays and numbers.
        in_types: of the arrays, whose leading axes may differ under vmap.
        out_tree: the structure of the result; None where the result does not count.
        device: the device of its arguments, a CPU; None for the default CPU.
    """

    what: str
    name: str
    call: Callable[[list[Array]], PyTree]
    in_types: tuple[ArrayType, ...]
    out_tree: PyTreeDef | None = None
    device: Device | None = None

    def __repr__(self) -> str:
        return f"<{self.name.strip('<>')}>"

    def __call__(self, values: Sequence[HostData], types: Sequence[ArrayType]) -> tuple[HostData, ...]:
        """Calls the function.

        Args:
            values: one for each input.
            types: the results'.

        Raises:
            TreeError, ShapeError, DTypeError: the result differs from the declared one.
        """
        cpu = _other_default_device()
        device = self.device or cpu
        pairs = zip(values, self.in_types, strict=True)
        arrays: list[Array] = [
            place_on_device(_copy_as_dtype(x, t.dtype), t.with_shape(x.shape), device, committed=False)
            for x, t in pairs
        ]
        # Arrays on a GPU would be copied there and back: 260 us of the 730 of a call (H200).
        with nullcontext() if cpu is None else default_device(device):
            result = self.call(arrays)
        if self.out_tree is None:
            return ()
        leaves, tree = flatten(result)
        if tree.num_leaves != self.out_tree.num_leaves:  # other containers will do
            raise TreeError(
                f"{self.what}: {self.name} returned {tree}, but result_shape_dtypes is {self.out_tree}"
            )
        return tuple(
            [self._check_result(i, y, t) for i, (y, t) in enumerate(zip(leaves, types, strict=True))]
        )

    def _check_result(self, leaf: int, y: object, t: ArrayType) -> HostData:
        if isinstance(y, Array):
            actual_dtype, value = y.type.dtype, y.host(self.what)
        elif isinstance(y, bool | int | float | complex):
            # Python scalars take the declared dtype, if it holds their kind.
            value = np.asarray(y)
            actual_dtype = t.dtype if "biufc".index(value.dtype.kind) <= _kind_rank(t) else value.dtype
        else:
            value = np.asarray(y)
            actual_dtype = value.dtype
        tree = cast("PyTreeDef", self.out_tree)
        where = f"result{leaf_path(tree.unflatten(range(tree.num_leaves)), leaf)}"
        if actual_dtype != t.dtype and not _is_narrowed(actual_dtype, t.dtype):
            raise DTypeError(
                f"{self.what}: {self.name} returned {where} of dtype {actual_dtype}, "
                f"but result_shape_dtypes says {t!r}"
            )
        if value.shape != t.shape:
            raise ShapeError(
                f"{self.what}: {self.name} returned {where} of shape {value.shape}, "
                f"but result_shape_dtypes says {t!r}"
            )
        if value.dtype != t.dtype:
            value = self._narrow_result(where, value, t.dtype)
        return np.ascontiguousarray(value).reshape(t.shape)

    def _narrow_result(self, where: str, value: HostData, dtype: DType) -> HostData:
        """Returns a result of 64 bits in the declared dtype; refuses numbers that it cannot hold."""
        narrow = narrow_data(value, dtype, function_name=f"{self.what}: {where} of {self.name}")
        if value.dtype.kind in "fc" and (np.isfinite(value) & ~np.isfinite(narrow)).any():
            raise OverflowError(
                f"{self.what}: {where} of {self.name} has finite numbers that are infinite as {dtypes.short_name(dtype)}, "
                "which it becomes without enable_x64"
            )
        return narrow


def _other_default_device() -> Device | None:
    """Returns a CPU to compute on in place of the default device; None where that is a CPU, or there is no other one."""
    if current_default_device().platform == "cpu":
        return None
    try:
        return client("cpu").local_devices()[0]
    except BackendError:  # the flag `platforms` leaves CPUs out
        return None


def _copy_as_dtype(x: HostData, dtype: DType) -> HostData:
    """Copies an operand from XLA, which may be wider: XLA's memory is valid only during the call."""
    if dtype == dtypes.float0:
        return np.zeros(x.shape, dtype)
    if dtypes.is_key(dtype) and x.dtype != dtype:
        return np.array(x).view(dtype)  # one element as wide as the key's words
    return np.array(x, dtype)


def _kind_rank(t: ArrayType) -> int:
    # ml_dtypes' kinds are numbered by effx's own.
    return "biufc".index(t.kind)


def _is_narrowed(actual: DType, expected: DType) -> bool:
    """Says whether a dtype has 64 bits and is the expected one without `enable_x64`."""
    return actual.kind in "iufc" and actual.itemsize in (8, 16) and dtypes.canonicalize(actual) == expected
