"""The operation that calls an exported function: a StableHLO module that another process may have written."""

from collections.abc import Mapping, Sequence
from typing import final

import attrs

from effx import dtypes
from effx.array import Array
from effx.effects import NO_EFFECTS
from effx.errors import BackendError, NoRuleError, ShapeError, TransformError
from effx.families.batches import scan_over_batch
from effx.handling import (
    ArrayType,
    Atom,
    Body,
    Tangent,
    TupleOperation,
    Var,
    Vmap,
    emits,
    jvp_rule,
    reference_rule,
    vmap_rule,
)
from effx.ir.sizes.evaluation import substitute
from effx.ir.sizes.solving import Solution, solve
from effx.ir.values.described import HostData
from effx.lower.disk.artifacts import call_module, decode_artifact, is_static, refine_module

__all__ = ["ExportedCall"]


@final
@attrs.frozen
class ExportedCall(TupleOperation):
    """Calls an exported function. Arrays of float0, which have no bytes, are neither operands nor results.

    Attributes:
        function: its name, for errors.
        artifact: the StableHLO module.
        platforms: those of the module.
        in_types: of the operands; sizes may be symbolic.
        out_types: of all results of the module.
        arguments: for each argument of the module the operand's number, or the type where it is of float0.
        solution: how the dimension variables follow from the operands.
        names: of the operands, for errors.
        check_platform, check_sizes: False to leave a check to XLA, or out.
    """

    function: str
    artifact: bytes = attrs.field(repr=lambda data: f"<{len(data)} bytes>")
    platforms: tuple[str, ...]
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    arguments: tuple[int | ArrayType, ...]
    solution: Solution = attrs.field(repr=False)
    names: tuple[str, ...] = attrs.field(repr=False)
    check_platform: bool = True
    check_sizes: bool = True
    effects = NO_EFFECTS

    def values(self, types: Sequence[ArrayType]) -> Mapping[str, int]:
        """Returns the dimension variables' values."""
        function_name = f"exported function {self.function}"
        return solve(function_name, self.solution, [t.shape for t in types], lambda i: self.names[i])

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The results' types for the sizes of the operands.

        Raises:
            ShapeError: the operands do not fit; the error names the argument, the axis and the variable.
        """
        function_name = f"exported function {self.function}"
        if len(types) != len(self.in_types):
            raise ShapeError(f"{function_name}: takes {len(self.in_types)} arrays, got {len(types)}")
        for name, t, expected in zip(self.names, types, self.in_types, strict=True):
            if t.dtype != expected.dtype or t.ndim != expected.ndim:
                raise ShapeError(f"{function_name}: {name} must be {expected!r}, got {t!r}")
        values = self.values(types)
        return tuple([_evaluate_sizes(t, values) for t in self.out_types if t.dtype != dtypes.float0])


def _evaluate_sizes(t: ArrayType, values: Mapping[str, int]) -> ArrayType:
    """Returns a type for values of the dimension variables."""
    return t.with_shape(tuple([substitute(n, values) for n in t.shape]))


@emits(ExportedCall)
def emit_exported_call(
    body: Body, op: ExportedCall, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    platform = body.module.platform
    if platform not in op.platforms and op.check_platform:
        raise BackendError(
            f"exported function {op.function}: is for {', '.join(op.platforms)}, and this program runs on {platform}; "
            f"export it with platforms=[..., {platform!r}]"
        )
    several = len(op.platforms) > 1
    platform_index = (
        op.platforms.index(platform) if several and platform in op.platforms else 0 if several else None
    )
    values = op.values([x.type for x in inputs])
    types, names = [], []
    for argument in op.arguments:
        t = inputs[argument].type.strong() if isinstance(argument, int) else _evaluate_sizes(argument, values)
        types.append(t)
        names.append(body.name(inputs[argument]) if isinstance(argument, int) else body.constant(False, t))
    outs = [_evaluate_sizes(t, values) for t in op.out_types]
    if op.solution.names and is_static(types):
        # The refined module's functions are added to the program's.
        module = refine_module(op.artifact, tuple(types), platform_index, op.check_sizes)
        result_names = call_module(body, module, names, types, outs, None)
    else:
        result_names = call_module(body, decode_artifact(op.artifact), names, types, outs, platform_index)
    return tuple([x for x, t in zip(result_names, outs, strict=True) if t.dtype != dtypes.float0])


@jvp_rule(ExportedCall)
def jvp_exported_call(
    op: ExportedCall, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """A module has no derivative in forward mode; one that is exported with its vjp has one in reverse mode."""
    raise TransformError(
        f"exported function {op.function}: has no derivative in forward mode; a gradient comes from a vjp that is "
        f"exported along (Exported.serialize(vjp_order=1))"
    )


@vmap_rule(ExportedCall)
def batch_exported_call(
    handler: Vmap, op: ExportedCall, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[tuple[Array, ...], tuple[int | None, ...]]:
    """A scan over the batch: the module takes arrays of its own sizes only."""
    return scan_over_batch(handler, op, op.function, values, axes), (0,) * sum(
        [t.dtype != dtypes.float0 for t in op.out_types]
    )


@reference_rule(ExportedCall)
def oracle_exported_call(op: ExportedCall, *values: HostData) -> tuple[HostData, ...]:
    """The NumPy oracle has no meaning for a module, which only XLA reads."""
    raise NoRuleError(
        f"exported function {op.function}: the reference has no meaning in NumPy for a StableHLO module"
    )
