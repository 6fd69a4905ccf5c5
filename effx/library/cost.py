"""The cost of a function without running it: arithmetic, memory traffic and peak memory.

The function is staged, not run. Every operation whose result is used counts as often as it is performed:
loops by their lengths, the branches of a cond as if equally likely, a while loop by a given number of
iterations, a pmap by its replicas. Traffic is summed over single operations, so it is an upper bound for a
compiler that fuses them.

Source of the roofline: Williams, Waterman and Patterson, "Roofline", 2009.
"""

import math
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, final

import attrs

import effx
from effx.errors import TransformError, check_function
from effx.handling import ArrayType, Elementwise, Equation, Place, Program, Structural, Var, ops
from effx.lazy import list_names

__all__ = ["Cost", "Line", "cost"]
__dir__ = list_names(__all__)

FREE = (Structural, ops.Bitcast, ops.Convert, ops.Copy, ops.OptimizationBarrier, ops.StopGradient)


def size_of(t: ArrayType) -> int:
    """Returns the bytes of an array."""
    return t.dtype.itemsize * math.prod(t.shape)


def flops_of(location: Place) -> float:
    """Counts the arithmetic operations of one equation: one an element, two a term of a product."""
    op, types, results = location.op, location.types, location.result_types
    if isinstance(op, FREE):
        return 0.0
    if isinstance(op, ops.DotGeneral):
        contracted = math.prod([types[0].shape[a] for a in op.lhs_contract])
        return 2.0 * math.prod(results[0].shape) * contracted * (4 if types[0].kind == "c" else 1)
    if isinstance(op, ops.Convolution):
        # Each element of the result is a sum over the kernel of one of its features.
        features = types[1].shape[op.rhs_axes[0]]
        terms = math.prod(results[0].shape) * math.prod(types[1].shape) / max(features, 1)
        return 2.0 * terms * (4 if types[0].kind == "c" else 1)
    if isinstance(op, ops.FusedAttention | ops.FusedAttentionGradient):
        # Two products of all pairs, and five in the backward pass, which computes the first again.
        (b, t, n, h), s = types[0].shape, types[1].shape[1]
        return (4.0 if isinstance(op, ops.FusedAttention) else 10.0) * b * t * n * h * s
    if isinstance(op, ops.WindowReduction):
        return float(math.prod(results[0].shape) * math.prod(op.window))
    if isinstance(op, ops.Reduction | ops.ArgReduction | ops.Cumulative):
        return float(math.prod(types[0].shape))
    if isinstance(op, ops.Scatter):
        return 0.0 if op.combiner == "set" else float(math.prod(types[2].shape))
    if isinstance(op, ops.Sort):
        n = types[0].shape[op.axis] if types[0].shape else 1
        return math.prod(types[0].shape) * max(math.log2(n), 1.0) if n else 0.0
    if isinstance(op, ops.Threefry2x32):
        return 100.0 * math.prod(results[0].shape)  # 20 rounds of add, rotate and xor
    if isinstance(op, Elementwise):
        return float(math.prod(results[0].shape))
    return 0.0


@final
@attrs.frozen
class Line:
    """The cost of the operations of one scope, or of one kind.

    Attributes:
        name: of the scope or operation.
        count: how many operations are performed.
        flops: arithmetic operations.
        traffic: bytes read and written.

    >>> import effx.numpy as enp
    >>> from effx.library.cost import cost
    >>> line, = cost(lambda x: x + 1.0)(enp.ones(10)).operations
    >>> line.name, line.flops
    ('add', 10.0)
    """

    name: str
    count: float
    flops: float
    traffic: float


@final
@attrs.frozen
class Cost:
    """The cost of a function; prints as a table.

    Attributes:
        count: how many operations are performed.
        flops: arithmetic operations.
        traffic: bytes read and written, summed over single operations.
        peak: bytes in use at once, arguments included.
        scopes, operations: the same by scope and by operation, the most arithmetic first.
        unbounded: True if while loops are counted by an assumed number of iterations.

    >>> import effx.numpy as enp
    >>> from effx.library.cost import cost
    >>> report = cost(lambda x: -x)(enp.ones(10))
    >>> report.count, report.flops, report.traffic, report.intensity
    (1.0, 10.0, 80.0, 0.125)
    """

    count: float
    flops: float
    traffic: float
    peak: int
    scopes: tuple[Line, ...]
    operations: tuple[Line, ...]
    unbounded: bool

    @property
    def intensity(self) -> float:
        """Arithmetic operations for each byte of traffic."""
        return self.flops / self.traffic if self.traffic else 0.0

    def seconds(self, flops_per_second: float, bytes_per_second: float) -> float:
        """Returns a lower bound of the time on a machine, by the roofline model, without fusion."""
        return max(self.flops / flops_per_second, self.traffic / bytes_per_second)

    def __str__(self) -> str:
        head = f"{'':<24} {'operations':>10} {'flops':>10} {'bytes':>10} {'share':>6}"

        def row(line: Line) -> str:
            share = line.flops / self.flops if self.flops else 0.0
            name = line.name if len(line.name) <= 24 else "…" + line.name[-23:]
            numbers = [format_number(n) for n in (line.count, line.flops, line.traffic)]
            return f"{name:<24} {numbers[0]:>10} {numbers[1]:>10} {numbers[2]:>10} {share:>6.1%}"

        total = Line("total", self.count, self.flops, self.traffic)
        tail = f"peak memory {format_number(self.peak)}B" + (
            "; while loops by guess" if self.unbounded else ""
        )
        return "\n".join([head, *map(row, self.scopes), "", *map(row, self.operations), "", row(total), tail])


def format_number(x: float) -> str:
    """Returns a number with three digits and a prefix.

    >>> format_number(1234567)
    '1.23M'
    """
    for prefix in ("", "k", "M", "G", "T"):
        if abs(x) < 999.5:
            return f"{x:.3g}{prefix}"
        x /= 1000
    return f"{x:.3g}P"


def used_equations(program: Program) -> list[Equation]:
    """Returns the equations of a program whose results are used, or that have an effect."""
    needed = set(program.outputs)
    results: list[Equation] = []
    for e in reversed(program.equations):
        if e.op.effects or not needed.isdisjoint(e.outputs):
            results.append(e)
            needed.update(e.inputs)
    return results[::-1]


def list_performed(program: Program, iterations: float) -> Iterator[tuple[Place, float]]:
    """Lists the equations that are used, in held programs too, with how often each is performed."""
    return (
        _list_inside(Place(program.equations[0]), program, iterations, 1.0) if program.equations else iter(())
    )


def _list_inside(
    around: Place, program: Program, iterations: float, guess: float
) -> Iterator[tuple[Place, float]]:
    for e in used_equations(program):
        location = around.at(e)
        if not isinstance(e.op, ops.HigherOrder):
            yield location, location.repeats * location.share * guess
            continue
        for inner_program in e.op.programs:
            # Whether the equation itself is a loop without a known length.
            loops = attrs.evolve(location, unbounded=False).inside(inner_program).unbounded
            yield from _list_inside(
                location.inside(inner_program),
                inner_program,
                iterations,
                guess * (iterations if loops else 1),
            )


def peak_bytes(program: Program) -> int:
    """Returns the peak of bytes in use, if each value lives from its definition to its last use."""
    equations = used_equations(program)
    last = {x: i for i, e in enumerate(equations) for x in e.inputs if type(x) is Var}
    forever = {x for x in (*program.inputs, *program.outputs) if type(x) is Var}
    live = peak = sum([size_of(x.type) for x in program.inputs])
    for i, e in enumerate(equations):
        result_bytes = sum([size_of(v.type) for v in e.outputs])
        for inner_program in e.op.programs if isinstance(e.op, ops.HigherOrder) else ():
            # A program's own peak includes its results, but not what a loop stacks.
            output_bytes = sum([size_of(x.type) for x in inner_program.outputs])
            inside = peak_bytes(inner_program) - sum([size_of(x.type) for x in inner_program.inputs])
            peak = max(peak, live + max(result_bytes - output_bytes, 0) + inside)
        live += result_bytes
        peak = max(peak, live)
        dead = {
            x for x in (*e.inputs, *e.outputs) if type(x) is Var and last.get(x, i) == i and x not in forever
        }
        live -= sum([size_of(x.type) for x in dead])
    return peak


def cost(
    fun: Callable[..., Any], iterations: float = 1, by_scope: Callable[[str], str] | None = None
) -> Callable[..., Cost]:
    """Returns a function that computes the cost of `fun` for given arguments.

    Args:
        fun: takes and returns pytrees of arrays.
        iterations: the assumed number of iterations of a while loop.
        by_scope: the name under which a scope is counted; by default its own. `lambda s: s.split("/")[0]`
            counts by the outermost scope.

    Returns:
        A function of `fun`'s arguments, or of things with their shapes and dtypes.

    Raises:
        TransformError: iterations is no number, or negative.

    >>> import effx, effx.numpy as enp
    >>> report = cost(effx.jit(lambda x: enp.tanh(x @ x)))(enp.ones((10, 10)))
    >>> report.flops, report.peak
    (2100.0, 1200)
    """
    check_function(fun)
    if not isinstance(iterations, int | float) or iterations < 0:  # type: ignore[redundant-expr]  # unchecked callers
        raise TransformError(f"cost: iterations must be a number that is not negative, got {iterations!r}")

    @wraps(fun)
    def priced(*args: Any, **kwargs: Any) -> Cost:
        program: Program = effx.make_jaxpr(fun)(*args, **kwargs)
        scopes: dict[str, Line] = {}
        operations: dict[str, Line] = {}
        total = Line("total", 0.0, 0.0, 0.0)
        unbounded = False
        for location, times in list_performed(program, iterations):
            unbounded = unbounded or location.unbounded
            moved = sum(map(size_of, (*location.types, *location.result_types)))
            one = Line("", times, times * flops_of(location), times * moved)
            scope = by_scope(location.scopes) if by_scope is not None else location.scopes
            scopes[scope] = _add_lines(scopes.get(scope, Line(scope or "(no scope)", 0.0, 0.0, 0.0)), one)
            name = location.op.name
            operations[name] = _add_lines(operations.get(name, Line(name, 0.0, 0.0, 0.0)), one)
            total = _add_lines(total, one)
        return Cost(
            total.count,
            total.flops,
            total.traffic,
            peak_bytes(program),
            _sort_lines(scopes),
            _sort_lines(operations),
            unbounded,
        )

    return priced


def _add_lines(line: Line, other: Line) -> Line:
    return Line(line.name, line.count + other.count, line.flops + other.flops, line.traffic + other.traffic)


def _sort_lines(lines: dict[str, Line]) -> tuple[Line, ...]:
    return tuple(sorted(lines.values(), key=lambda line: (-line.flops, -line.traffic)))
