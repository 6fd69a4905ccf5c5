"""What a row of the table of operations is, and how operands are drawn for it.

Never: names an operation of its own; the families' files do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, cast

import attrs
import numpy as np

import effx
import effx.handlers.evaluate.handler  # the outermost handler
import effx.lower.text.stablehlo  # its kernels
from effx import dtypes
from effx.array import Array
from effx.array.shaping import moveaxis
from effx.dtypes import DType
from effx.effects import Operation
from effx.handlers.vmap import evaluate_batch
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.ops.collective import Collective
from effx.ir.types import ArrayType, Shape, array_type
from effx.laws.arrays import DTYPES
from effx.laws.samples import Data, Domain, anything, draw_bits, draw_data
from effx.lower.placement.concrete import place_on_device

b1, i8, i16, i32, i64 = dtypes.bool_, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64
u8, u16, u32, u64 = dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64
f16, bf16, f32, f64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
c64, c128 = dtypes.complex64, dtypes.complex128

BY_KIND = {kind: tuple(sorted(DTYPES[kind], key=lambda d: d.itemsize)) for kind in "biufc"}
ALL = tuple(chain(*BY_KIND.values()))
# One dtype of each kind, and the ones that derivatives are checked in.
FEW = (b1, i32, u8, bf16, f32, f64, c128)

# Relative to the largest element of a result, in units of the result's dtype.
TOLERANCE = {f16: 4e-3, bf16: 3e-2, f32: 4e-6, f64: 1e-13, c64: 6e-6, c128: 1e-12}
REPLICAS = 3  # of the axis that collectives are tested along


def of_kinds(kinds: str) -> tuple[DType, ...]:
    return tuple(chain(*[BY_KIND[k] for k in kinds]))


def t(dtype: DType, *shape: int, weak: bool = False) -> ArrayType:
    return array_type(dtype, shape, weak)


def spaced(rng: np.random.Generator, type: ArrayType) -> Data:
    """Draws distinct values, in which the extreme and the order are clear."""
    if type.kind == "b":
        return draw_bits(rng, type)
    steps_ = rng.permutation(type.size).reshape(type.shape) - (0 if type.kind == "u" else type.size // 2)
    if type.kind in "iu":
        return steps_.astype(type.dtype)
    data = steps_ / 4 + rng.uniform(0, 0.1, type.shape)
    if type.kind == "c":
        data = data + 1j * rng.uniform(-1, 1, type.shape)
    return np.asarray(data).astype(type.dtype)


@attrs.frozen
class Invalid:
    """Operand types or parameters that are refused, with the whole text.

    Attributes:
        build: what raises: mostly `lambda: op.infer(*types)`.
    """

    build: Callable[[], object]
    error: type[Exception]
    text: str


@attrs.frozen
class Sample:
    """One operation with the types of its operands and where to draw them from."""

    op: Operation[Any]
    types: tuple[ArrayType, ...]
    domains: tuple[Domain, ...] = (anything,)

    def __str__(self) -> str:
        fields = getattr(type(self.op), "__attrs_attrs__", ())
        parameters = [str(getattr(self.op, f.name)) for f in fields if f.name != "program"]
        return f"{self.op.name}[{' '.join(parameters)}]({','.join(map(repr, self.types))})"

    @property
    def is_wide(self) -> bool:
        """Says whether a 64-bit dtype occurs."""
        found = [*self.types, *self.inferred()]
        return any(x.dtype in (f64, c128, i64, u64) for x in found)

    def inferred(self) -> list[ArrayType]:
        if self.op.multiple:
            return list(cast("TupleOperation", self.op).infer(*self.types))
        return [cast("ArrayOperation", self.op).infer(*self.types)]

    def operand_types(self) -> list[ArrayType]:
        """The types of what `apply` takes: those of all replicas for a collective."""
        if isinstance(self.op, Collective):
            return [x.with_shape((REPLICAS, *x.shape)) for x in self.types]
        return list(self.types)

    def draw(self, seed: int = 0) -> list[Data]:
        return draw_data(self.domains, self.operand_types(), np.random.default_rng(seed))

    def arrays(self, data: Sequence[Data]) -> list[Array]:
        return [on_device(d, x) for d, x in zip(data, self.operand_types(), strict=True)]

    def apply(self, operands: Sequence[Array]) -> list[Array]:
        """Performs the operation; a collective in a batch that binds its axis."""
        if isinstance(self.op, Collective):
            axes = [0] * len(operands)
            results, out_axes = evaluate_batch(lambda xs: [self.op(*xs)], list(operands), axes, REPLICAS, "i")
            return [moveaxis(y, axis, 0) if axis else y for y, axis in zip(results, out_axes, strict=True)]
        result = self.op(*operands)
        return list(result) if self.op.multiple else [result]

    def settings(self) -> contextlib.AbstractContextManager[object]:
        """64-bit dtypes need the flag."""
        return effx.enable_x64(True) if self.is_wide else contextlib.nullcontext()


@attrs.frozen
class Row:
    """One operation class.

    Attributes:
        samples: instances with operand types.
        smooth: operands to differentiate by; None for all floating and complex ones.
        second: True where second derivatives are checked too.
        linear: sets of operands in which the operation is linear, the others held fixed; an empty
            set stands for all floating and complex operands.
        exact: True where XLA and NumPy agree to the last bit.
        tolerance: differs from TOLERANCE by this factor.
        special: True to compare infinities, NaN and signed zeros too.
        invalid: what is refused.
    """

    kind: type[Operation[Any]]
    samples: tuple[Sample, ...]
    smooth: tuple[int, ...] | None = None
    second: bool = True
    linear: tuple[tuple[int, ...], ...] = ()
    exact: bool = False
    tolerance: float = 1.0
    special: bool = False
    invalid: tuple[Invalid, ...] = ()

    def __str__(self) -> str:
        return self.kind.name

    def active(self, sample: Sample) -> list[int]:
        indices = range(len(sample.types)) if self.smooth is None else self.smooth
        return [i for i in indices if sample.types[i].kind in "fc"]

    def allowed(self, dtype: DType) -> float:
        return 0.0 if self.exact else TOLERANCE.get(dtype, 0.0) * self.tolerance


def on_device(data: Data, type: ArrayType) -> Array:
    return place_on_device(
        np.array(data, type.dtype, order="C"), array_type(type.dtype, data.shape, type.weak)
    )


def host(x: Array) -> Data:
    """Returns the data; 16-bit floats as f32, which NumPy can compare."""
    data = x.host("test")
    return data.astype(np.float32) if data.dtype.kind == "V" else data


def assert_close(got: Data, want: Data, tolerance: float, note: str = "") -> None:
    """Compares relative to the largest finite element; NaN equals NaN."""
    if got.dtype.kind == "V" or want.dtype.kind == "V":
        got, want = got.astype(np.float32), want.astype(np.float32)
    if tolerance == 0.0 or got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=note)
        return
    finite = np.abs(want[np.isfinite(want)])
    scale = max(float(finite.max()) if finite.size else 1.0, 1e-3)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale, err_msg=note)


def over(
    op: Operation[Any],
    *shapes: Shape,
    of: Sequence[DType] = FEW,
    domains: Sequence[Domain] = (anything,),
    rest: Sequence[ArrayType] = (),
) -> tuple[Sample, ...]:
    """Samples with all operands of one dtype, for each dtype; `rest` are operand types that stay."""
    return tuple([Sample(op, (*[t(d, *s) for s in shapes], *rest), tuple(domains)) for d in of])


def refuses(op: Operation[Any], *types: ArrayType, error: type[Exception], text: str) -> Invalid:
    return Invalid(lambda: cast("ArrayOperation", op).infer(*types), error, text)
