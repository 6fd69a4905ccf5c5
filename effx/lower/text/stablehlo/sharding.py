"""StableHLO text of constraints on shardings and layouts."""

from collections.abc import Sequence
from math import prod

from effx.errors import BackendError
from effx.ir.ops.checkpoint import Identity
from effx.ir.ops.layout import ConstrainLayout
from effx.ir.ops.sharding import Constrain, Move, Release
from effx.ir.passes.sharding_constraints import make_constraint_operation
from effx.ir.program import Atom, Var
from effx.ir.types import ArrayType
from effx.lower.placement.shardy import tiling_text
from effx.lower.text.emit import Body, Module, emits


def is_partitioned(module: Module) -> bool:
    """Says whether XLA's partitioner shards values, at least along some axes of a mesh."""
    return not (module.devices == 1 or module.replicated or (module.axes and not module.partly))


def emit_replicated_axes(body: Body, x: str, t: ArrayType, axes: Sequence[int] | None = None) -> str:
    """Writes a value with axes that the partitioner must replicate, or all; unchanged without partitions."""
    module = body.module
    if not is_partitioned(module):
        return x
    mesh = module.partly[0] if module.partly else module.mesh((module.devices,))
    may_be_cut = [axes is not None and i not in axes for i in range(t.ndim)]
    return body.line(f"sdy.sharding_constraint {x} {tiling_text(mesh, [()] * t.ndim, may_be_cut)} : {t.mlir}")


def emit_terms(body: Body, x: str, t: ArrayType) -> str:
    """Writes a value of a loop with its sharding, if it is unreduced: the partitioner does not see it from outside."""
    sharding = t.explicit_sharding
    if sharding is None or not sharding.spec.unreduced or body.module.devices == 1 or body.module.axes:
        return x
    return emit_constraint(body, make_constraint_operation(sharding.mesh, sharding, t.ndim), x, t)


@emits(Constrain)
def constrain(body: Body, op: Constrain, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    x, module = body.name(inputs[0]), body.module
    if module.devices == 1:
        return x
    if (module.axes and not module.partly) or module.replicated:
        raise BackendError(
            "with_sharding_constraint: inside pmap, and inside shard_map over all axes of a mesh, each device has its own "
            "part; take the constraint out of it"
        )
    if prod(op.sizes) != module.devices:
        raise BackendError(
            f"with_sharding_constraint: a mesh of {prod(op.sizes)} devices in a program that runs on {module.devices}"
        )
    return emit_constraint(body, op, x, outputs[0].type)


@emits(ConstrainLayout)
def constrain_layout(
    body: Body, op: ConstrainLayout, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> str:
    x, t = body.name(inputs[0]), outputs[0].type
    if t.ndim < 2:
        return x
    rows, order = [
        f"[dense<[{', '.join(map(str, axes))}]> : tensor<{t.ndim}xindex>]"
        for axes in (range(t.ndim - 1, -1, -1), reversed(op.major_to_minor))
    ]
    # XLA takes any layout of the operand, and ignores it.
    return body.line(
        f"stablehlo.custom_call @LayoutConstraint({x}) {{operand_layouts = {rows}, result_layouts = {order}}} : "
        f"({t.mlir}) -> {t.mlir}"
    )


def emit_constraint(body: Body, op: Constrain, x: str, t: ArrayType) -> str:
    """Writes a value with a sharding."""
    return body.line(f"sdy.sharding_constraint {x} {constraint_text(body, op)} : {t.mlir}")


def constraint_text(body: Body, op: Constrain) -> str:
    """Returns Shardy's text of a constraint's sharding."""
    # Where the type shards some axes only, the others are left to the partitioner.
    mixed = 0 < len(op.explicit) < len(op.mesh)
    cutting = {a for axes in op.cuts for a in axes or ()}
    spoken = [a for a, (name, _) in enumerate(op.mesh) if name in op.explicit]
    return tiling_text(
        body.module.mesh(op.sizes, op.devices),
        [axes or () for axes in op.cuts],
        # The partitioner forgets that a value is unreduced where it may choose its sharding over other axes.
        [axes is None or (mixed and not op.unreduced) for axes in op.cuts],
        [a for a in spoken if a not in cutting] if mixed and None not in op.cuts and not op.unreduced else (),
        op.unreduced,
    )


@emits(Release, Move)
def release(body: Body, op: Identity, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    return body.name(inputs[0])
