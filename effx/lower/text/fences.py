"""Find where XLA:CPU must not fuse: after a conversion that starts a long chain of shared values.

LLVM's vectorizer (of jaxlib 0.12) checks for each conversion in a loop (the words of a typed key are two of them),
and for each narrowed loop counter, whether one lane of it is enough, and follows all paths of uses for that
(`vputils::onlyFirstLaneUsed`). Where values are shared along a chain, as in a cipher or in `x = x * a + y; y = y *
x`, there are exponentially many paths, and compiling takes minutes to years. With a barrier after the conversion, its
result comes from memory.

`vmap(lambda i: normal(fold_in(k, i)))` compiled for more than 25 minutes, and jax hangs on `sqrt` of a chain over an
`arange`; with the barrier (one row of an iota) it takes 0.2 s. A scan over keys that folds a number into each and draws
never ended either. The cipher stays unrolled: `normal` of 100,000 takes 0.90 ms against 0.93 without fences and 1.87 in
jax, 1,000 mapped draws of 100 1.06 against 1.10 and 1.82. A scan that draws in each iteration pays for the barrier: 229 us
against 163 without and 362 in jax. Switching XLA's fusion off would write every round to memory. jaxlib 0.10 compiles
either form and drops the barriers.

Paths inside the region of one reduction are not counted here: where it keeps NaN, `stablehlo/reduce.py` leaves few steps
of it (`HALVED`), and `families/windows.py` puts a barrier behind it.
"""

from collections.abc import Sequence

from effx.dtypes import bfloat16, float32
from effx.effects import Operation
from effx.ir.ops.base import Elementwise, Structural
from effx.ir.ops.compare import Comparison
from effx.ir.ops.control import Calling
from effx.ir.ops.convert import Bitcast, Convert
from effx.ir.ops.elementwise import IntegerPow, IsFinite, OneMinusSquare, Select, Square
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.random import Threefry2x32
from effx.ir.ops.shape import Iota, Pad
from effx.ir.program import Equation, Program, Var

# LLVM follows so many paths in a millisecond. With fewer, a barrier would cost more than it saves.
MAX_PATHS = 2.0**16
ENDLESS = 2.0**60
# As often, about, is the operand used where an operation is written by others.
USES_IN_DECOMPOSITION = 32.0

_FUSED = (Elementwise, Structural, Pad, Bitcast, Iota)
NO_FENCES: frozenset[Var] = frozenset()


def find_fences(equations: Sequence[Equation]) -> frozenset[Var]:
    """Returns the results after which XLA must not fuse, nor simplify."""
    products = [e.outputs[0] for e in equations if type(e.op) is DotGeneral and _widens(e)]
    roots = [v for e in equations for v in _find_roots(e)]
    return frozenset([*products, *_find_starts(equations, roots)]) if roots or products else NO_FENCES


def _widens(product: Equation) -> bool:
    """Returns whether a product of bfloat16 is a float32.

    XLA turns the transpose of a product into the product of the factors in the other order, of which its kernels (of
    jaxlib 0.12) do not take all: `dot_general(x, y, …, preferred_element_type=float32).T` compiles, and fails when it
    runs, in jax too. A barrier costs nothing measurable here, since no kernel of a product computes what follows.
    """
    return product.inputs[0].type.dtype == bfloat16 and product.outputs[0].type.dtype == float32


def _find_starts(equations: Sequence[Equation], roots: Sequence[Var]) -> frozenset[Var]:
    """Returns the roots from which more than `MAX_PATHS` paths start, but for those that LLVM never narrows."""
    if not roots:
        return NO_FENCES
    paths = _count_paths(equations)
    fenced = [v for v in roots if paths.get(v, 1.0) > MAX_PATHS]
    if not fenced:
        return NO_FENCES
    # A bool from memory is a byte, which is narrowed; a bool that is compared in the loop is not.
    compared = {e.outputs[0] for e in equations if isinstance(e.op, (Comparison, IsFinite))}
    chosen = {e.outputs[0] for e in equations if type(e.op) is Select and e.inputs[0] in compared}
    return frozenset([v for v in fenced if v not in chosen])


_ROOTS: frozenset[type[Operation[object]]] = frozenset((Convert, Iota, Select, Bitcast))


def _find_roots(e: Equation) -> Sequence[Var]:
    """Returns the results that are conversions or counters for LLVM, or come of one within a called program.

    A bitcast is one only where it splits an element into several narrower ones.
    """
    op = e.op
    if isinstance(op, Calling):
        exposed = _find_exposed_outputs(op.program)
        return [v for v, is_exposed in zip(e.outputs, exposed, strict=True) if is_exposed]
    if type(op) not in _ROOTS or (type(op) is Bitcast and e.outputs[0].type.ndim <= e.inputs[0].type.ndim):
        return ()
    return e.outputs


def _find_exposed_outputs(program: Program) -> Sequence[bool]:
    """Returns for each result of a program whether a root that has no fence in the program leads to it; cached."""
    flags = program.derived.get("exposed outputs")
    if flags is None:
        fences = find_fences(program.equations)
        exposed: set[Var] = set()
        for e in program.equations:
            comes_of_one = any([x in exposed for x in e.inputs if type(x) is Var])
            passes_on = comes_of_one and isinstance(e.op, (*_FUSED, Calling))
            exposed.update(e.outputs if passes_on else _find_roots(e))
            exposed -= fences
        flags = program.derived["exposed outputs"] = [
            type(y) is Var and y in exposed for y in program.outputs
        ]
    assert isinstance(flags, list)
    return flags


def _count_paths(equations: Sequence[Equation]) -> dict[Var, float]:
    """Counts for each value the paths of uses inside one fused loop, from the last equation to the first."""
    paths: dict[Var, float] = {}
    for e in reversed(equations):
        op = e.op
        ahead = max([paths.get(v, 1.0) for v in e.outputs], default=1.0)
        if isinstance(op, Calling):
            steps = [n * ahead for n in _count_input_paths(op.program)]
        elif isinstance(op, _FUSED):
            steps = [ahead * _count_uses(op)] * len(e.inputs)
        else:
            steps = [ENDLESS if type(op) is Threefry2x32 else 1.0] * len(e.inputs)
        for x, n in zip(e.inputs, steps, strict=True):
            if type(x) is Var:
                paths[x] = min(paths.get(x, 0.0) + n, ENDLESS)
    return paths


def _count_uses(op: Operation[object]) -> float:
    """Returns how often an operation's text uses an operand, about."""
    if type(op) in (Square, OneMinusSquare):
        return 2.0
    if type(op) is IntegerPow:
        return float(max(abs(op.exponent), 1))
    return USES_IN_DECOMPOSITION if op.can_decompose() else 1.0


def _count_input_paths(program: Program) -> list[float]:
    """Counts the paths that start at a program's inputs; cached."""
    counts = program.derived.get("paths")
    if counts is None:
        paths = _count_paths(program.equations)
        counts = program.derived["paths"] = [paths.get(v, 1.0) for v in program.inputs]
    assert isinstance(counts, list)
    return counts
