"""StableHLO text of matrix products."""

from effx.ir.ops.linalg import DotGeneral
from effx.ir.program import Atom, Var
from effx.lower.emit import Body, emits, ints


@emits(DotGeneral)
def dot_general(body: Body, op: DotGeneral, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    lhs, rhs = inputs
    batching = f", batching_dims = {ints(op.lhs_batch)} x {ints(op.rhs_batch)}" if op.lhs_batch else ""
    return body.line(
        f"stablehlo.dot_general {body.name(lhs)}, {body.name(rhs)}{batching}, "
        f"contracting_dims = {ints(op.lhs_contract)} x {ints(op.rhs_contract)}, "
        f"precision = [{op.precision[0]}, {op.precision[1]}] "
        f": ({lhs.type.mlir}, {rhs.type.mlir}) -> {outputs[0].type.mlir}"
    )
