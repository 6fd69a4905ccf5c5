"""Splitting programs into a known and a linear part, and the table of splitters."""

from collections.abc import Callable
from typing import TypeVar, cast, final

import attrs

from effx.array import Array
from effx.effects import Operation, RuleTable, must_happen
from effx.ir.ops.base import TupleOperation
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.convert import OptimizationBarrier
from effx.ir.passes import dead_code
from effx.ir.program import Equation, Program, Var, effect_row


@final
@attrs.frozen(eq=False)
class Parts:
    """An operation that holds programs, in two parts.

    Operands of the parts are named by their index among the whole operation's operands; `~j` is the j-th
    residual that the known part computes.

    Attributes:
        known: returns the known results, then the computed residuals; None if there are none. known_operands:
            its operands.
        computed: the number of computed residuals.
        linear: returns the linear results; None if there are none. linear_operands: its operands. linear_out:
            for each result of the whole whether it is linear.
    """

    known: Operation[tuple[Array, ...]] | None
    known_operands: tuple[int, ...]
    computed: int
    linear: Operation[tuple[Array, ...]] | None
    linear_operands: tuple[int, ...]
    linear_out: tuple[bool, ...]


H = TypeVar("H", bound=HigherOrder)

# (op, which operands are linear, whether nothing may be performed twice) -> its parts
Splitter = Callable[[H, tuple[bool, ...], bool], Parts]

splitters: "RuleTable[Splitter[HigherOrder]]" = RuleTable("split")


def splitter(*kinds: type[H]) -> Callable[[Splitter[H]], Splitter[H]]:
    """Registers how operations that hold programs are split into a known and a linear part."""
    return splitters.register(*kinds)  # type: ignore[return-value]  # the table holds rules of all operations


def parts_of(op: HigherOrder, linear_in: tuple[bool, ...], once: bool) -> Parts | None:
    """Splits an operation by what depends on its linear operands; None if it stays whole.

    Args:
        op: the whole.
        linear_in: for each operand whether it is linear.
        once: True if an outer handler keeps a state or collects (`performs_once`): then the linear part
            computes nothing again that the known one has computed.
    """
    rule = splitters.find(type(op))
    if rule is None:
        return None
    key = ("parts", op, linear_in, once)
    derived = op.programs[0].derived
    found = derived.get(key)
    if found is None:
        found = derived[key] = rule(op, linear_in, once)
    return cast("Parts", found)


def counts(known: Program) -> bool:
    """Says whether a known part is needed: it gives something, or has effects that must happen."""
    return bool(known.outputs) or must_happen(known.effects)


@final
@attrs.frozen(eq=False)
class Split:
    """A program in two parts.

    Attributes:
        known: from the known inputs to the known outputs, then the computed residuals.
        linear: from the residuals, forwarded ones first, and the linear inputs to the linear outputs.
        forwarded: indices of the inputs that are residuals.
        computed: the number of computed residuals.
        linear_in: for each input of the whole whether it is linear.
        linear_out: for each output of the whole whether it is linear.
    """

    known: Program
    linear: Program
    forwarded: tuple[int, ...]
    computed: int
    linear_in: tuple[bool, ...]
    linear_out: tuple[bool, ...]


def split(program: Program, linear_in: tuple[bool, ...], once: bool, forced: tuple[bool, ...] = ()) -> Split:
    """Splits a program by what depends on its linear inputs; cached in the program.

    Args:
        program: the whole.
        linear_in: for each input whether it is linear.
        once: as for `parts_of`.
        forced: for each output whether the linear part must return it even if it is known.
    """
    key = ("split", linear_in, once, forced)
    found = program.derived.get(key)
    if found is None:
        found = program.derived[key] = _split(
            program, linear_in, once, forced or (False,) * len(program.outputs)
        )
    return cast("Split", found)


def _split(program: Program, linear_in: tuple[bool, ...], once: bool, forced: tuple[bool, ...]) -> Split:
    linear: set[Var] = {x for x, is_linear in zip(program.inputs, linear_in, strict=True) if is_linear}
    known_equations: list[Equation] = []
    linear_equations: list[Equation] = []
    for e in program.equations:
        mask = tuple([type(x) is Var and x in linear for x in e.inputs])
        if not any(mask):
            known_equations.append(e)
            continue
        if type(e.op) is OptimizationBarrier:
            # Value by value: a known operand of a barrier has a known result.
            for is_linear, found in ((False, known_equations), (True, linear_equations)):
                own = [i for i, m in enumerate(mask) if m == is_linear]
                if own:
                    outs = tuple([e.outputs[i] for i in own])
                    found.append(attrs.evolve(e, inputs=tuple([e.inputs[i] for i in own]), outputs=outs))
                    linear.update(outs if is_linear else ())
            continue
        parts = parts_of(e.op, mask, once) if isinstance(e.op, HigherOrder) else None
        if parts is None:
            linear_equations.append(e)
            linear.update(e.outputs)
        else:
            _split_equation(e, parts, linear, known_equations, linear_equations)
    is_linear_out = [type(x) is Var and x in linear for x in program.outputs]
    linear_out = tuple([a or b for a, b in zip(is_linear_out, forced, strict=True)])
    defined = {x for e in linear_equations for x in e.outputs} | {
        x for x, is_linear in zip(program.inputs, linear_in, strict=True) if is_linear
    }
    wanted: dict[Var, None] = {}
    for e in linear_equations:
        for x in e.inputs:
            if type(x) is Var and x not in defined:
                wanted[x] = None
    for x, is_linear in zip(program.outputs, linear_out, strict=True):
        if is_linear and type(x) is Var and x not in defined:
            wanted[x] = None
    place = {x: i for i, x in enumerate(program.inputs)}
    forwarded = [x for x in wanted if x in place]
    computed = [x for x in wanted if x not in place]
    known_outputs = [x for x, is_linear in zip(program.outputs, linear_out, strict=True) if not is_linear]
    return Split(
        known=dead_code(
            Program(
                tuple([x for x, is_linear in zip(program.inputs, linear_in, strict=True) if not is_linear]),
                tuple(known_equations),
                (*known_outputs, *computed),
                program.name,
                effect_row(known_equations),
            )
        ),
        linear=Program(
            (
                *forwarded,
                *computed,
                *[x for x, is_linear in zip(program.inputs, linear_in, strict=True) if is_linear],
            ),
            tuple(linear_equations),
            tuple([x for x, is_linear in zip(program.outputs, linear_out, strict=True) if is_linear]),
            f"linear_{program.name}",
            effect_row(linear_equations),
        ),
        forwarded=tuple([place[x] for x in forwarded]),
        computed=len(computed),
        linear_in=linear_in,
        linear_out=linear_out,
    )


def _split_equation(
    e: Equation,
    parts: Parts,
    linear: set[Var],
    known_equations: list[Equation],
    linear_equations: list[Equation],
) -> None:
    """Writes one equation's two parts."""
    known_outputs = [x for x, is_linear in zip(e.outputs, parts.linear_out, strict=True) if not is_linear]
    linear_outputs = tuple([x for x, is_linear in zip(e.outputs, parts.linear_out, strict=True) if is_linear])
    residuals: tuple[Var, ...] = ()
    if parts.known is not None:
        inputs = tuple([e.inputs[i] for i in parts.known_operands])
        types = cast("TupleOperation", parts.known).infer(*[x.type for x in inputs])
        residuals = tuple([Var(t) for t in types[len(types) - parts.computed :]])
        outputs = (*known_outputs, *residuals)
        known_equations.append(Equation(parts.known, inputs, outputs, e.source, e.scope))
    if parts.linear is not None:
        inputs = tuple([e.inputs[i] if i >= 0 else residuals[~i] for i in parts.linear_operands])
        linear_equations.append(Equation(parts.linear, inputs, linear_outputs, e.source, e.scope))
        linear.update(linear_outputs)
