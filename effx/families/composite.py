"""Composite operations: programs with a name that a compiler may recognize and replace."""

from collections.abc import Mapping, Sequence
from typing import final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.errors import ProgramError, TransformError
from effx.handlers.staging.stage import run_program
from effx.handling import ArrayType, Atom, Body, Program, TupleOperation, Var, decomposes, emits
from effx.ir.ops.base import check_int, types_text
from effx.ir.ops.control import types_match
from effx.ir.passes.sharding_propagation import (
    DimensionShardings,
    OperandShardings,
    mesh_axes_by_dimension,
    sharding_rule,
)
from effx.lower.text.foreign_calls import number_text, string_text

__all__ = ["Composite", "attribute_text"]


@final
@attrs.frozen
class Composite(TupleOperation):
    """A program with a name by which a compiler may replace it. StableHLO: composite.

    Attributes:
        program: the definition; equal only to itself.
        label: the name, with a namespace: "my.softmax".
        version: the version of the name's meaning.
        attributes: names and values, as MLIR's text.
    """

    program: Program
    label: str = attrs.field(validator=attrs.validators.instance_of(str))
    version: int = attrs.field(default=0, validator=check_int)
    attributes: tuple[tuple[str, str], ...] = ()

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The program's result types."""
        expected = self.program.in_types
        if not types_match(types, expected):
            raise ProgramError(
                f"composite: {self.label} takes ({types_text(expected)}), got ({types_text(types)})"
            )
        return self.program.out_types


@sharding_rule(Composite)
def _(op: Composite, given: OperandShardings) -> list[DimensionShardings]:
    return [mesh_axes_by_dimension(t) for t in op.program.out_types]


@decomposes(Composite)
def _(op: Composite, *operands: Array) -> tuple[Array, ...]:
    return tuple(run_program(op.program, operands))


@emits(Composite)
def _(body: Body, op: Composite, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    # As MLIR prints it: compilers and tests match this text, the name of the decomposition too.
    operands = "".join([f" {body.name(a)}" if i == 0 else f", {body.name(a)}" for i, a in enumerate(inputs)])
    entries = [f"decomposition = @{body.module.function_of(op.program, op.label)}"]
    if op.attributes:
        entries.insert(
            0, f"composite_attributes = {{{', '.join([_entry_text(n, v) for n, v in op.attributes])}}}"
        )
    if op.version:
        entries.append(f"version = {op.version} : i32")
    arguments, results = [", ".join([a.type.mlir for a in atoms]) for atoms in (inputs, outputs)]
    result_text = results if len(outputs) == 1 else f"({results})"
    return body.block(
        f"stablehlo.composite {string_text(op.label)}{operands} {{{', '.join(entries)}}} : ({arguments}) -> {result_text}",
        len(outputs),
    )


def _entry_text(name: str, text: str) -> str:
    return f"{name if name.isidentifier() and name.isascii() else string_text(name)} = {text}"


def attribute_text(name: str, value: object) -> str:
    """Returns an attribute of a composite as MLIR writes it.

    Raises:
        TransformError: the value is of a class that has no such form.
    """
    match value:
        case bool() | np.bool_():
            return "true" if value else "false"
        case str():
            return string_text(value)
        case int():
            return f"{value} : i64"
        case float() if not isinstance(value, np.generic):
            return f"{number_text(value, np.dtype(np.float64))} : f64"
        case np.dtype():
            return dtypes.mlir_name(value)
        case np.generic() if value.dtype.kind not in "cOSUMmV":
            element = dtypes.mlir_name(value.dtype)
            return f"{number_text(value, value.dtype)} : {element}"
        case np.ndarray() if value.dtype.kind not in "cOSUMm":
            tensor = "x".join([*map(str, value.shape), dtypes.mlir_name(value.dtype)])
            return f"dense<{_elements_text(value)}> : tensor<{tensor}>"
        case Mapping():
            return (
                f"{{{', '.join([_entry_text(str(k), attribute_text(name, v)) for k, v in value.items()])}}}"
            )
        case Sequence():
            return f"[{', '.join([attribute_text(name, v) for v in value])}]"
        case _:
            raise TransformError(
                f"composite: the attribute {name} must be a number, string, dtype, NumPy array, or a sequence or "
                f"mapping of such, got {value!r} of type {type(value).__name__}; arrays go by position"
            )


def _elements_text(value: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> str:
    if not value.size:
        return ""
    if value.ndim:
        return f"[{', '.join([_elements_text(v) for v in value])}]"
    return number_text(value, value.dtype)
