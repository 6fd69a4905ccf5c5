"""StableHLO text of rematerialised calls and of values with a name or a memory kind.

XLA:CPU of jaxlib 0.10 drops optimization barriers before it merges common subexpressions, so there a
checkpoint saves memory inside loops only, for jax as well.

Never: save anything; splitting has done that.
"""

from effx.ir.ops.checkpoint import Checkpoint, CheckpointName, Identity, Offload, Unpinned
from effx.ir.program import Atom, Var
from effx.lower.text.emit import Body, emits


@emits(Checkpoint)
def checkpoint(
    body: Body, op: Checkpoint, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    return body.call_part(op.program, [body.name(a) for a in inputs], "checkpoint")


@emits(CheckpointName, Unpinned)
def checkpoint_name(body: Body, op: Identity, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    return body.name(inputs[0])


@emits(Offload)
def offload(body: Body, op: Offload, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    x, t = body.name(inputs[0]), outputs[0].type.mlir
    if body.module.platform == "cpu":
        return x
    target_memory = op.src if op.back else op.dst
    return body.line(
        f"stablehlo.custom_call @annotate_device_placement({x}) "
        f'{{has_side_effect = true, mhlo.frontend_attributes = {{_xla_buffer_placement = "{target_memory}"}}}} : '
        f"({t}) -> {t}"
    )
