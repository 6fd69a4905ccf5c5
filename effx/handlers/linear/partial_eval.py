"""Partial evaluation: split programs into a known and a linear part, with a table of splitters by operation."""

from collections.abc import Callable, Sequence
from typing import TypeVar, cast, final

import attrs

from effx.array import Array
from effx.effects import Operation, RuleTable, must_happen
from effx.ir.ops.base import TupleOperation
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.convert import OptimizationBarrier
from effx.ir.ops.groups import split_into
from effx.ir.passes import eliminate_dead_code
from effx.ir.program import Atom, Equation, Program, Var, effect_row
from effx.ir.types import ArrayType

T = TypeVar("T")


@final
@attrs.frozen
class Residual:
    """A value that the known part computes for the linear one: its index among all of these."""

    index: int


# An operand of a linear part: an operand of the whole by its index, or a residual.
Source = int | Residual


@final
@attrs.frozen(eq=False)
class OperationParts:
    """The known and the linear part of an operation that holds programs.

    Attributes:
        known: returns the known results, then the computed residuals; None if there are none. known_operands:
            its operands, by their indices among the whole operation's operands.
        computed: the number of computed residuals.
        linear: returns the linear results; None if there are none. linear_operands: its operands. linear_out:
            for each result of the whole whether it is linear.
    """

    known: Operation[tuple[Array, ...]] | None
    known_operands: tuple[int, ...]
    computed: int
    linear: Operation[tuple[Array, ...]] | None
    linear_operands: tuple[Source, ...]
    linear_out: tuple[bool, ...]

    def split_known_results(self, results: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
        """Splits what the known part returns into results and residuals."""
        known, residuals = split_into(results, len(results) - self.computed)
        return known, residuals

    def select_linear_operands(self, operands: Sequence[T], residuals: Sequence[T]) -> tuple[T, ...]:
        """Returns the operands of the linear part, from those of the whole and the residuals."""
        return tuple(
            [operands[x] if isinstance(x, int) else residuals[x.index] for x in self.linear_operands]
        )


H = TypeVar("H", bound=HigherOrder)

# (op, which operands are linear, whether recomputation is forbidden) -> its parts
Splitter = Callable[[H, tuple[bool, ...], bool], OperationParts]

splitters: "RuleTable[Splitter[HigherOrder]]" = RuleTable("split")


def splitter(*kinds: type[H]) -> Callable[[Splitter[H]], Splitter[H]]:
    """Registers how operations that hold programs are split into a known and a linear part."""
    return splitters.register(*kinds)  # type: ignore[return-value]  # the table holds rules of all operations


def split_operation(
    op: HigherOrder, linear_in: tuple[bool, ...], must_run_once: bool
) -> OperationParts | None:
    """Splits an operation by dependence on its linear operands; None if it is not split.

    Args:
        op: the operation.
        linear_in: for each operand whether it is linear.
        must_run_once: True if an outer handler has a state or collects (`must_perform_once`): then the linear part
            recomputes nothing of the known part.
    """
    rule = splitters.find(type(op))
    if rule is None:
        return None
    key = ("parts", op, linear_in, must_run_once)
    derived = op.programs[0].derived
    parts = derived.get(key)
    if parts is None:
        parts = derived[key] = rule(op, linear_in, must_run_once)
    return cast("OperationParts", parts)


def is_needed(program: Program) -> bool:
    """Returns whether a known part is needed: it has outputs, or effects that must happen."""
    return bool(program.outputs) or must_happen(program.effects)


def mask_indices(mask: Sequence[bool], value: bool) -> tuple[int, ...]:
    """Returns the indices where the mask has a value."""
    return tuple([i for i, m in enumerate(mask) if m is value])


@final
@attrs.frozen(eq=False)
class ProgramParts:
    """The known and the linear part of a program.

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

    @property
    def results(self) -> tuple[Atom, ...]:
        """The known results, without the computed residuals."""
        return self.known.outputs[: len(self.known.outputs) - self.computed]

    @property
    def residuals(self) -> tuple[Atom, ...]:
        """The computed residuals."""
        return self.known.outputs[len(self.results) :]

    @property
    def residual_types(self) -> tuple[ArrayType, ...]:
        """The types of the computed residuals."""
        return tuple([x.type for x in self.residuals])

    @property
    def known_indices(self) -> tuple[int, ...]:
        """The inputs of the known part, by their indices among those of the whole."""
        return mask_indices(self.linear_in, False)

    @property
    def linear_sources(self) -> tuple[Source, ...]:
        """The inputs of the linear part."""
        computed = [Residual(j) for j in range(self.computed)]
        return (*self.forwarded, *computed, *mask_indices(self.linear_in, True))

    @property
    def forwarded_inputs(self) -> tuple[Var, ...]:
        """The inputs of the linear part that are known inputs of the whole."""
        return self.linear.inputs[: len(self.forwarded)]

    def select_residuals(self, inputs: Sequence[T], computed: Sequence[T]) -> list[T]:
        """Returns all residuals in the order of the linear part, from the inputs of the whole and the computed ones."""
        return [*[inputs[i] for i in self.forwarded], *computed]

    def make_operation_parts(
        self, known: Operation[tuple[Array, ...]], linear: Operation[tuple[Array, ...]]
    ) -> OperationParts:
        """Returns the parts of an operation that runs the program once, with its operands and results."""
        return OperationParts(
            known=known if is_needed(self.known) else None,
            known_operands=self.known_indices,
            computed=self.computed,
            linear=linear if self.linear.outputs else None,
            linear_operands=self.linear_sources,
            linear_out=self.linear_out,
        )


def split_program(
    program: Program, linear_in: tuple[bool, ...], must_run_once: bool, forced: tuple[bool, ...] = ()
) -> ProgramParts:
    """Splits a program by dependence on its linear inputs; cached in the program.

    Args:
        program: the program to split.
        linear_in: for each input whether it is linear.
        must_run_once: as for `split_operation`.
        forced: for each output whether the linear part must return it even if it is known.
    """
    key = ("split", linear_in, must_run_once, forced)
    parts = program.derived.get(key)
    if parts is None:
        parts = program.derived[key] = _split_uncached(
            program, linear_in, must_run_once, forced or (False,) * len(program.outputs)
        )
    return cast("ProgramParts", parts)


def _split_uncached(
    program: Program, linear_in: tuple[bool, ...], must_run_once: bool, forced: tuple[bool, ...]
) -> ProgramParts:
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
            for is_linear, equations in ((False, known_equations), (True, linear_equations)):
                operand_indices = [i for i, m in enumerate(mask) if m == is_linear]
                if operand_indices:
                    results = tuple([e.outputs[i] for i in operand_indices])
                    equations.append(
                        attrs.evolve(e, inputs=tuple([e.inputs[i] for i in operand_indices]), outputs=results)
                    )
                    linear.update(results if is_linear else ())
            continue
        parts = split_operation(e.op, mask, must_run_once) if isinstance(e.op, HigherOrder) else None
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
    residuals: dict[Var, None] = {}
    for e in linear_equations:
        for x in e.inputs:
            if type(x) is Var and x not in defined:
                residuals[x] = None
    for x, is_linear in zip(program.outputs, linear_out, strict=True):
        if is_linear and type(x) is Var and x not in defined:
            residuals[x] = None
    input_index = {x: i for i, x in enumerate(program.inputs)}
    forwarded = [x for x in residuals if x in input_index]
    computed = [x for x in residuals if x not in input_index]
    known_outputs = [x for x, is_linear in zip(program.outputs, linear_out, strict=True) if not is_linear]
    return ProgramParts(
        known=eliminate_dead_code(
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
        forwarded=tuple([input_index[x] for x in forwarded]),
        computed=len(computed),
        linear_in=linear_in,
        linear_out=linear_out,
    )


def _split_equation(
    e: Equation,
    parts: OperationParts,
    linear: set[Var],
    known_equations: list[Equation],
    linear_equations: list[Equation],
) -> None:
    """Emits one equation's known and linear parts."""
    known_outputs = [x for x, is_linear in zip(e.outputs, parts.linear_out, strict=True) if not is_linear]
    linear_outputs = tuple([x for x, is_linear in zip(e.outputs, parts.linear_out, strict=True) if is_linear])
    residuals: tuple[Var, ...] = ()
    if parts.known is not None:
        inputs = tuple([e.inputs[i] for i in parts.known_operands])
        types = cast("TupleOperation", parts.known).infer(*[x.type for x in inputs])
        residuals = tuple([Var(t) for t in parts.split_known_results(types)[1]])
        outputs = (*known_outputs, *residuals)
        known_equations.append(Equation(parts.known, inputs, outputs, e.source, e.scope))
    if parts.linear is not None:
        inputs = parts.select_linear_operands(e.inputs, residuals)
        linear_equations.append(Equation(parts.linear, inputs, linear_outputs, e.source, e.scope))
        linear.update(linear_outputs)
