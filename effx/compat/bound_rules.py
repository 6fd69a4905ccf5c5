"""Adapt libraries' rules to effx's handlers, and effx's rules to the form of libraries'.

A rule of a library's has its own form of zeros, of linear operands and of parameters; here they are converted to
effx's.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast, final

import attrs

from effx.array import Array
from effx.array.promotion import as_operand
from effx.compat.bound import Bound, Definition, Rule, arrays_of, entries, operation_name
from effx.compat.parameters import made, shown
from effx.compat.symbolic import UndefinedPrimal, Zero, is_zero
from effx.compat.tables import Table
from effx.dtypes import float0
from effx.effects import Operation
from effx.errors import NoRuleError, ShapeError, TransformError
from effx.handlers.jvp.handler import JVP, Tangent, jvp
from effx.handlers.transpose.handler import rules as transposes
from effx.handlers.vmap.handler import evaluate_batch
from effx.handling import (
    ArrayType,
    Cotangent,
    LinearOperand,
    Vmap,
    jvp_tuple_rule,
    transpose_tuple_rule,
    vmap_tuple_rule,
)
from effx.ir.passes.sharding_propagation import (
    DimensionShardings,
    OperandShardings,
    mesh_axes_by_dimension,
    sharding_rule,
)
from effx.tree.registry import PyTree

__all__ = [
    "AxisData",
    "axis_primitive_batchers",
    "fancy_primitive_batchers",
    "primitive_batchers",
    "primitive_jvps",
    "primitive_transposes",
]

D = TypeVar("D", bound=Definition)
Axis = int | None


@final
@attrs.frozen
class AxisData:
    """What a rule for batching may ask of the batch.

    Attributes:
        name: for collectives; None for none. size: of the batch.
        spmd_name: the axes of a mesh that it is sharded over, if any. explicit_mesh_axis: None.
    """

    name: object
    size: int
    spmd_name: object = None
    explicit_mesh_axis: None = None


# Forward mode


def apply_jvp_rule(
    p: Definition,
    rule: Rule,
    params: Mapping[str, object],
    primals: Sequence[Array],
    tangents: Sequence[Tangent],
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """Calls a rule for forward mode.

    Raises:
        TransformError, ShapeError: it does not give a result and a tangent of its type.
    """
    moved = [
        Zero(x.type.to_tangent_aval()) if t is None else t for x, t in zip(primals, tangents, strict=True)
    ]
    rule_results = rule(tuple(primals), tuple(moved), **params)
    ys, out_tangents = _split_pair(p, "jvp", rule_results, ("tangent", "tangents"))
    return ys, tuple([_check_tangent(p, t, y) for t, y in zip(out_tangents, ys, strict=True)])


def _split_pair(
    p: Definition, rule_kind: str, rule_results: PyTree, nouns: tuple[str, str]
) -> tuple[tuple[Array, ...], Sequence[PyTree]]:
    """Returns the results that a rule gave, and what it gave for each; the nouns say what that is, in errors."""
    rule_name = operation_name(p.name, rule_kind)
    if not isinstance(rule_results, list | tuple) or len(rule_results) != 2:
        raise TransformError(f"{rule_name} must give a pair (result, {nouns[0]})")
    ys = arrays_of(p, rule_kind, rule_results[0])
    items = entries(p, rule_kind, rule_results[1]) if p.multiple_results else [rule_results[1]]
    if len(items) != len(ys):
        raise TransformError(f"{rule_name} gives {len(ys)} results, but {len(items)} {nouns[1]}")
    return ys, items


def _check_tangent(p: Definition, t: PyTree, y: Array) -> Tangent:
    if is_zero(t) or getattr(t, "dtype", None) == float0:
        return None
    dy = as_operand(t, operation_name(p.name, "jvp"))
    if dy.type.shape != y.type.shape or dy.type.dtype != y.type.dtype:
        raise ShapeError(
            f"{operation_name(p.name, 'jvp')} gives a tangent {dy.type!r} for a result {y.type!r}"
        )
    return dy


@jvp_tuple_rule(Bound)
def _(
    op: Bound, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    rule = primitive_jvps.given(op.primitive)
    if rule is None:
        raise _missing_rule_error(op, "differentiation", "jax.interpreters.ad.primitive_jvps")
    return apply_jvp_rule(op.primitive, rule, op.params, primals, tangents)


def _missing_rule_error(op: Bound, rule_kind: str, table: str) -> NoRuleError:
    return NoRuleError(f"{op.name}: the primitive has no rule for {rule_kind}; write one into {table}")


# Reverse mode


def apply_transpose_rule(
    p: Definition,
    rule: Rule,
    params: Mapping[str, object],
    cts: Sequence[Cotangent],
    types: Sequence[ArrayType],
    operands: Sequence[Array | LinearOperand],
) -> list[Cotangent]:
    """Calls a rule for transposition.

    Args:
        types: of the results, for the cotangents that are zero.

    Raises:
        TransformError: it does not give one cotangent for each operand.
    """
    result_cotangents: list[Array | Zero] = [
        Zero(t.to_tangent_aval()) if ct is None else ct for ct, t in zip(cts, types, strict=True)
    ]
    rule_operands = [UndefinedPrimal(x.type) if isinstance(x, LinearOperand) else x for x in operands]
    operand_cotangents = rule(
        result_cotangents if p.multiple_results else result_cotangents[0], *rule_operands, **params
    )
    if is_zero(operand_cotangents):
        return [None] * len(operands)
    rows = entries(p, "transpose", operand_cotangents)
    if len(rows) != len(operands):
        raise TransformError(
            f"{operation_name(p.name, 'transpose')} must give a cotangent for each of {len(operands)} operands, "
            f"got {len(rows)}"
        )
    return [
        None
        if is_zero(ct) or not isinstance(x, LinearOperand)
        else as_operand(ct, operation_name(p.name, "transpose"))
        for ct, x in zip(rows, operands, strict=True)
    ]


@transpose_tuple_rule(Bound)
def _(op: Bound, cts: Sequence[Cotangent], operands: tuple[Array | LinearOperand, ...]) -> list[Cotangent]:
    rule = primitive_transposes.given(op.primitive)
    if rule is None:
        raise _missing_rule_error(op, "transposition", "jax.interpreters.ad.primitive_transposes")
    types = op.infer(*[x.type for x in operands])
    return apply_transpose_rule(op.primitive, rule, op.params, cts, types, operands)


# Batching


def check_batching_result(p: Definition, rule_results: PyTree) -> tuple[tuple[Array, ...], tuple[Axis, ...]]:
    """Returns what a rule for batching gave.

    Raises:
        TransformError: it is no pair of results and their axes.
    """
    ys, axes = _split_pair(p, "batching", rule_results, ("axis", "axes"))
    rule_name = operation_name(p.name, "batching")
    return ys, tuple([_check_axis(rule_name, a, y) for a, y in zip(axes, ys, strict=True)])


def _check_axis(rule_name: str, axis: object, y: Array) -> Axis:
    if axis is None:
        return None
    if not isinstance(axis, int) or not -y.type.ndim <= axis < y.type.ndim:
        raise TransformError(f"{rule_name} must give an axis of its result {y.type!r}, or None, got {axis!r}")
    return axis % y.type.ndim


@vmap_tuple_rule(Bound)
def _(
    handler: Vmap, op: Bound, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[tuple[Array, ...], tuple[Axis, ...]]:
    fancy = fancy_primitive_batchers.given(op.primitive)
    if fancy is not None:
        return check_batching_result(op.primitive, fancy(_axis_data(handler), values, axes, **op.params))
    rule = primitive_batchers.given(op.primitive)
    if rule is None:
        raise _missing_rule_error(op, "batching", "jax.interpreters.batching.primitive_batchers")
    return check_batching_result(op.primitive, rule(values, axes, **op.params))


def _axis_data(handler: Vmap) -> AxisData:
    spmd = handler.spmd_axes
    return AxisData(handler.axis_name, handler.size, (spmd if spmd[1:] else spmd[0]) if spmd else None)


# Explicit axes of meshes


@sharding_rule(Bound)
def _(op: Bound, given: OperandShardings) -> list[DimensionShardings]:
    """The results have the shardings of the rule for abstract evaluation, which gets the operands' shardings."""
    return [mesh_axes_by_dimension(t) for t in op.infer(*given.types)]


# effx's own operations


def kind_of(p: Definition) -> type[Operation[object]] | None:
    """Returns the class of effx's operations of a primitive; None for a library's primitive."""
    result: type[Operation[object]] | None = getattr(p, "operation", None)
    return result


def _install_jvp(p: Definition, rule: Rule) -> None:
    kind = kind_of(p)
    if kind is None:
        return

    def own(op: Operation[object], primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> PyTree:
        ys, dys = apply_jvp_rule(p, rule, shown(op), primals, tangents)
        return (ys, dys) if op.multiple else (ys[0], dys[0])

    JVP.rules.register(kind)(own)


def _install_transpose(p: Definition, rule: Rule) -> None:
    kind = kind_of(p)
    if kind is None:
        return

    def own(
        op: Operation[object], ct: PyTree, operands: tuple[Array | LinearOperand, ...]
    ) -> list[Cotangent]:
        params = shown(op)
        types = p.types([x.type for x in operands], params)
        return apply_transpose_rule(p, rule, params, ct if op.multiple else [ct], types, operands)

    transposes.register(kind)(own)


def _install_batcher(p: Definition, rule: Rule) -> None:
    _install_fancy(p, lambda data, values, axes, /, **params: rule(values, axes, **params))


def _install_fancy(p: Definition, rule: Rule) -> None:
    kind = kind_of(p)
    if kind is None:
        return

    def own(
        handler: Vmap, op: Operation[object], values: tuple[Array, ...], axes: tuple[Axis, ...]
    ) -> tuple[PyTree, PyTree]:
        ys, result_axes = check_batching_result(p, rule(_axis_data(handler), values, axes, **shown(op)))
        return (ys, result_axes) if op.multiple else (ys[0], result_axes[0])

    Vmap.rules.register(kind)(own)


def _perform_primitive(
    p: Definition, params: Mapping[str, object], operands: Sequence[Array]
) -> Sequence[Array]:
    kind = kind_of(p)
    assert kind is not None
    result = made(kind, params)(*operands)
    return cast("tuple[Array, ...]", result) if kind.multiple else (cast("Array", result),)


def _make_derived_jvp(p: Definition) -> Rule | None:
    if kind_of(p) is None:
        return None

    def rule(primals: Sequence[PyTree], tangents: Sequence[PyTree], /, **params: object) -> PyTree:
        xs = [as_operand(x, p.name) for x in primals]
        dxs = [None if is_zero(t) else as_operand(t, p.name) for t in tangents]
        ys, dys = jvp(lambda given: _perform_primitive(p, params, given), xs, dxs)
        moved = [Zero(y.type.to_tangent_aval()) if t is None else t for y, t in zip(ys, dys, strict=True)]
        return (ys, moved) if p.multiple_results else (ys[0], moved[0])

    return rule


def _make_derived_transpose(p: Definition) -> Rule | None:
    kind = kind_of(p)
    own = None if kind is None else transposes.find(kind)
    if kind is None or own is None:
        return None

    def rule(ct: PyTree, /, *operands: PyTree, **params: object) -> list[Cotangent]:
        linear_operands = [
            LinearOperand(x.aval) if isinstance(x, UndefinedPrimal) else as_operand(x, p.name)
            for x in operands
        ]
        cts = [None if is_zero(c) else as_operand(c, p.name) for c in (ct if p.multiple_results else [ct])]
        if all([c is None for c in cts]):
            return [None] * len(linear_operands)
        return list(own(made(kind, params), cts if p.multiple_results else cts[0], tuple(linear_operands)))

    return rule


def _make_derived_batcher(p: Definition) -> Rule | None:
    if kind_of(p) is None:
        return None

    def rule(values: Sequence[PyTree], axes: Sequence[Axis], /, **params: object) -> PyTree:
        xs = [as_operand(x, p.name) for x in values]
        sizes = [x.type.shape[a] for x, a in zip(xs, axes, strict=True) if a is not None]
        ys, result_axes = evaluate_batch(
            lambda given: _perform_primitive(p, params, given), xs, axes, sizes[0]
        )
        return (ys, result_axes) if p.multiple_results else (ys[0], result_axes[0])

    return rule


primitive_jvps: Table[Definition, Rule] = Table(_install_jvp, _make_derived_jvp)
primitive_transposes: Table[Definition, Rule] = Table(_install_transpose, _make_derived_transpose)
primitive_batchers: Table[Definition, Rule] = Table(_install_batcher, _make_derived_batcher)
fancy_primitive_batchers: Table[Definition, Rule] = Table(_install_fancy, lambda p: None)


@final
class AxisBatchers:
    """Rules for batching that ask for the batch's size and name: `rule(size, name, None, values, axes, **params)`."""

    def __setitem__(self, primitive: Definition, rule: Rule) -> None:
        fancy_primitive_batchers[primitive] = lambda data, values, axes, /, **params: rule(
            data.size, data.name, None, values, axes, **params
        )


axis_primitive_batchers = AxisBatchers()
