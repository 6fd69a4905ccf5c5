"""`jax.experimental.pallas`: kernels, which effx interprets and does not compile."""

from effx.array.windows import ds
from effx.compat.pallas import (
    ANY,
    HOST,
    BlockSpec,
    CompilerParams,
    GridSpec,
    MemoryRef,
    MemorySpace,
    cdiv,
    debug_print,
    loop,
    multiple_of,
    next_power_of_2,
    no_block_spec,
    num_programs,
    pallas_call,
    program_id,
    when,
)

dslice = ds

__all__ = [
    "ANY", "HOST", "BlockSpec", "CompilerParams", "GridSpec", "MemoryRef", "MemorySpace", "cdiv", "debug_print", "ds",
    "dslice", "loop", "multiple_of", "next_power_of_2", "no_block_spec", "num_programs", "pallas_call", "program_id", "when",
]  # fmt: skip
