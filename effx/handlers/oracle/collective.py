"""Collectives: the host has no mapped axes, so they are refused."""

from effx.handlers.evaluate.handler import unhandled_effects_error
from effx.handlers.oracle.handler import Data, rule
from effx.ir.ops.collective import Collective


@rule(Collective)
def collective(op: Collective, *operands: Data) -> Data:
    raise unhandled_effects_error(op.name, op.effects)
