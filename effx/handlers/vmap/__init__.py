"""Batching: values with one more axis than the function sees; importing this registers all rules."""

from effx.handlers.vmap import (
    collective,
    control,
    custom,
    elementwise,
    index,
    linalg,
    reduce,
    shape,
    sharding,
)
from effx.handlers.vmap.handler import Batched, Vmap, apply_over_batches, evaluate_batch

__all__ = ["Batched", "Vmap", "apply_over_batches", "evaluate_batch"]
