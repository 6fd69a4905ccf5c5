"""`jax.interpreters.batching`: primitives for batches."""

from effx.compat.bound_rules import (
    AxisData,
    axis_primitive_batchers,
    fancy_primitive_batchers,
    primitive_batchers,
)
from effx.compat.elementwise_batches import (
    bdim_at_front,
    broadcast,
    defbroadcasting,
    defreducer,
    defvectorized,
)
from effx.compat.vmappable import register_vmappable, unregister_vmappable

__all__ = [
    "AxisData",
    "axis_primitive_batchers",
    "bdim_at_front",
    "broadcast",
    "defbroadcasting",
    "defreducer",
    "defvectorized",
    "fancy_primitive_batchers",
    "not_mapped",
    "primitive_batchers",
    "register_vmappable",
    "unregister_vmappable",
]

not_mapped = None
