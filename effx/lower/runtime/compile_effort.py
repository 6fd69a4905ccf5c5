"""Decide which programs XLA:CPU compiles with less optimization, where `compile` is "fast" or "tiered".

Of XLA's options only the lowest level of LLVM's optimization spares time: it takes 0.35 to 0.8 of the time of level 3, and
runs take 1 to 9 times as long. Levels 1 and 2 take 0.9 to 1.0 of it, as do `xla_llvm_disable_expensive_passes`, effort O0,
the preset FAST_COMPILE, 1 or 2 modules side by side, narrower vectors (all of both jaxlib 0.10 and 0.12); without fusions
it takes longer. So a program is compiled at level 0 or in full, and nothing between.

The optimized HLO is the same at both levels, so processes that exchange data may compile it differently. LLVM forms no
fused multiply-adds at level 0 and vectorizes nothing, so that products that are added up differ in the last bits.
"""

import os

from effx.flags import CompileMode
from effx.ir.ops.base import Structural
from effx.ir.ops.control import HigherOrder, Scan, While
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.reduce import ArgReduction, Reduction
from effx.ir.program import Program
from effx.ir.sizes.dimensions import has_symbolic
from effx.lower.compile_options import CompilerOptions

__all__ = ["calls_before_full", "fast_options"]

LEVEL = "xla_backend_optimization_level"

# What level 0 spares for each line of the text, in nanoseconds: 0.1 to 0.5 ms on two cores of an AMD EPYC.
SPARED = 200_000
# What a run loses for each element that an operation computes, in nanoseconds: 1 to 1.8, and 0.1 where memory is slower.
LOST = 1
# What each of these calls loses by going through Python.
CALL = 40_000
# The assumed number of iterations of a loop where it is unknown.
ITERATIONS = 16
# Programs of fewer lines are compiled in full in 10 ms or so, which is not worth a second compilation.
SHORT = 20


def fast_options(program: Program, text: str, chosen: CompilerOptions, mode: CompileMode) -> CompilerOptions:
    """Returns the options, besides those that were chosen, with which a program for CPUs is compiled first.

    () where it is compiled in full: one run would lose what the compilation spares. (A scan of 10,000 steps over 4,096
    elements runs 25 times as long at level 0.) A level that the user sets, for a function or in `XLA_FLAGS`, is left as
    it is.

    Args:
        program: what is compiled. text: its StableHLO.
        chosen: XLA's options so far.
        mode: how it is to be compiled.
    """
    if (
        mode == "full"
        or any([name == LEVEL for name, _ in chosen])
        or LEVEL in os.environ.get("XLA_FLAGS", "")
    ):
        return ()
    lines = text.count("\n")
    if (mode == "tiered" and lines < SHORT) or _count_elements(program) * LOST > lines * SPARED:
        return ()
    return ((LEVEL, 0),)


def calls_before_full(program: Program, text: str) -> int:
    """Returns the number of calls after which a program that was compiled fast is compiled in full: 2 to 16.

    They may have lost a quarter of what level 0 spared. A second compilation takes processors from the program, and from the
    next function's compilation, so a function that is called a few times has none.
    """
    lost = CALL + _count_elements(program) * LOST
    return max(2, min(16, text.count("\n") * SPARED // (4 * lost)))


def _count_elements(program: Program) -> int:
    """Returns how many elements a run computes, apart from products, which libraries compute."""
    known = program.derived.get("elements")
    if isinstance(known, int):
        return known
    count = 0
    for e in program.equations:
        op = e.op
        if isinstance(op, HigherOrder):
            times = op.length if isinstance(op, Scan) else ITERATIONS if isinstance(op, While) else 1
            count += times * sum(map(_count_elements, op.programs))
        elif not isinstance(op, (Structural, DotGeneral)):
            types = [x.type for x in (e.inputs if isinstance(op, (Reduction, ArgReduction)) else e.outputs)]
            count += max([t.size for t in types if not has_symbolic(t.shape)], default=0)
    program.derived["elements"] = count
    return count
