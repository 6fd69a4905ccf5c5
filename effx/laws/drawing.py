"""Draw instances of operations: a register of drawing functions by class, and code that they share."""

from collections.abc import Callable, Sequence
from typing import final

import attrs
import numpy as np
from hypothesis import strategies as st

import effx.numpy as enp
from effx import dtypes
from effx.array import Array
from effx.dtypes import DType
from effx.effects import Operation
from effx.families.gamma import Polygamma
from effx.families.linalg.qr import Geqp3, Geqrf, HouseholderProduct
from effx.families.linalg.similarity import Hessenberg, Schur, Tridiagonal
from effx.families.topk import TopIndices
from effx.flags import enable_x64
from effx.ir.ops import convert
from effx.ir.ops.base import Elementwise
from effx.ir.types import ArrayType, Shape, array_type
from effx.laws.arrays import DTYPES, array_shapes
from effx.laws.samples import Domain, draw_data, sample_of

AnyOperation = Operation[object]
Drawn = tuple[AnyOperation, tuple[ArrayType, ...], tuple[Domain, ...]]
Builder = Callable[[st.DrawFn, Sequence[DType]], Drawn]
"""From a draw function and the requested dtypes to an operation, types and domains of its operands."""

WIDE = (dtypes.float64, dtypes.complex128)
i32 = dtypes.int32

# What only composed functions are differentiated through.
WITHOUT_TANGENTS = (Geqrf, Geqp3, HouseholderProduct, Hessenberg, Schur, Tridiagonal)
# Operands by which an operation has no derivative, though they are floats.
CONSTANT: dict[type[object], frozenset[int]] = {Polygamma: frozenset({0})}

BUILDERS: dict[type[AnyOperation], Builder] = {}


def register(kind: type[AnyOperation]) -> Callable[[Builder], Builder]:
    """Registers how instances of an operation class are drawn, for `operations` and the laws of operations.

    The decorated function gets hypothesis' `draw` and the requested dtypes, and returns an instance, the
    types of its operands, and a domain for each to draw the elements from: an interval, or a function from
    NumPy's generator and a type to data. The last domain serves for the rest.

    Args:
        kind: the operation class.
    """

    def add(builder: Builder) -> Builder:
        BUILDERS[kind] = builder
        return builder

    return add


def operation_kinds() -> list[type[AnyOperation]]:
    """Lists the classes that `operations` draws from."""
    return list(BUILDERS)


def operand_domains(op: AnyOperation) -> tuple[Domain, ...]:
    """Returns the domain of an operation's operands: that of its sample, or its class's `domain`."""
    if isinstance(op, Elementwise):
        return sample_of(type(op)).domains
    return (getattr(op, "domain", Elementwise.domain),)


def is_smooth(kind: type[AnyOperation]) -> bool:
    """Says whether the tangent of a class of operations is the slope, which 64 bits show."""
    if issubclass(kind, Elementwise):
        return sample_of(kind).smooth
    return kind not in (convert.Bitcast, TopIndices, *WITHOUT_TANGENTS)  # TopIndices takes 32 bits alone


def draw_operands(types: Sequence[ArrayType], domains: Sequence[Domain], seed: int) -> tuple[Array, ...]:
    """Draws generic operands: with few digits, and rarely equal."""
    results: list[Array] = []
    with enable_x64(True):
        for t, data in zip(types, draw_data(domains, types, np.random.default_rng(seed)), strict=True):
            x = enp.asarray(data, t.dtype)
            results.append(convert.Convert(t.dtype, True)(x) if t.weak else x)
    return tuple(results)


def dtypes_of_kinds(kinds: str, allowed: Sequence[DType]) -> list[DType]:
    """Returns the requested dtypes of some kinds; the first of the kinds if there are none."""
    every = [d for k in "fiubc" if k in kinds for d in DTYPES[k]]
    return [d for d in every if d in allowed] or every


def draw_type(draw: st.DrawFn, kinds: str, allowed: Sequence[DType], form: Shape | None = None) -> ArrayType:
    """Draws the type of an operand."""
    dtype = draw(st.sampled_from(dtypes_of_kinds(kinds, allowed)))
    return array_type(dtype, draw(array_shapes(2, 6)) if form is None else form)


@final
@attrs.frozen
class ElementwiseBuilder:
    """Draws operands for an elementwise operation without parameters: of one type, or numbers with the first.

    Attributes:
        op: the operation.
    """

    op: Elementwise

    def __call__(self, draw: st.DrawFn, allowed: Sequence[DType]) -> Drawn:
        """Draws the types of operands."""
        t = draw_type(draw, self.op.kinds, allowed)
        scalar = t.with_shape(())
        types = [t, *[t if draw(st.booleans()) else scalar for _ in range(self.op.arity - 1)]]
        return self.op, tuple(types), operand_domains(self.op)


def draw_wide_float(draw: st.DrawFn, allowed: Sequence[DType]) -> tuple[str, ArrayType]:
    """Draws a float dtype of at least 32 bits, as its short name and its scalar type."""
    dtype = draw(
        st.sampled_from([d for d in (dtypes.float64, dtypes.float32) if d in allowed] or [dtypes.float64])
    )
    return {"float64": "f64", "float32": "f32"}[dtype.name], array_type(dtype)


# A program of f32[3] and f32[], or of another dtype.
SINE = "sine(a: {0}[3], b: {0}[]) {{\n  c: {0}[3] = sin a\n  d: {0}[3] = mul c b\n  return d, b\n}}"
