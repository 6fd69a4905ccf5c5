"""Propagate facts of values forward through operations that hold programs: one engine for analyses and passes.

Loops are walked until the facts of their carry no longer change: `join` must be increasing, and `height`
bounds the number of walks.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from effx.errors import TransformError
from effx.ir.ops.control import Cond, HigherOrder, Region
from effx.ir.program import Equation, Program
from effx.ir.types import ArrayType

V = TypeVar("V")
Facts = tuple[V, ...]


class Flow(Generic[V]):
    """The joins of facts, and their propagation through the `Region`s of an operation's programs.

    Attributes:
        height: how often the facts of a loop's carry may change before it is an error.
    """

    height: ClassVar[int] = 64

    def join(self, a: V, b: V) -> V:
        """Returns the fact that holds for both values: for branches' results, loops' iterations, or several uses.

        Raises:
            TransformError: the analysis does not define it.
        """
        raise TransformError(f"{self._name}: two facts meet; define join(a, b)")

    def unstack(self, fact: V, type: ArrayType) -> V:
        """Returns the fact of a slice from that of the whole value of this type; by default the same."""
        return fact

    def stack(self, fact: V, type: ArrayType) -> V:
        """Returns the fact of stacked slices from that of one slice of this type; by default the same."""
        return fact

    def decides(self, fact: V) -> int | None:
        """Returns the index of the branch that is taken by this fact of the index; None if it is unknown."""
        return None

    def decided(self, fact: V, results: Facts[V]) -> Facts[V]:
        """Returns the facts of results selected by a value with this fact; by default unchanged."""
        return results

    def through(
        self, e: Equation, facts: Facts[V], walk: Callable[[Program, Facts[V]], Facts[V]]
    ) -> Facts[V] | None:
        """Returns the results' facts; None if the operation does not describe the inputs and outputs of its programs.

        Args:
            e: performs an operation that holds programs.
            facts: the operands' facts.
            walk: returns the facts of a program's outputs from those of its inputs. Its last call for a program has
                the inputs' facts for all iterations.
        """
        op, regions = e.op, self._regions(e)
        if isinstance(op, Cond) and (chosen := self.decides(facts[0])) is not None:
            regions = [r for r in regions if r.program is op.branch_at(chosen)]
        if not regions:
            return None
        results = self._join_facts([self._walk_forward(e, region, facts, walk) for region in regions])
        return self.decided(facts[0], results) if isinstance(op, Cond) else results

    def _walk_forward(
        self, e: Equation, region: Region, facts: Facts[V], walk: Callable[[Program, Facts[V]], Facts[V]]
    ) -> Facts[V]:
        program, operands = region.program, region.group_operands(self._operand_facts(e, region, facts))

        def iteration(carry: Facts[V]) -> Facts[V]:
            body_results = walk(program, (*operands.constants, *carry, *operands.xs))
            if region.condition is None:
                return body_results
            return self.decided(walk(region.condition, (*operands.constants, *carry))[0], body_results)

        carry, body_results = self._find_fixpoint(iteration, operands.carry, program.name)
        outputs = zip(body_results, e.outputs, region.stacked_out, strict=True)
        ys = region.group_results([self._stack_fact(f, x.type, count) for f, x, count in outputs]).ys
        return (*carry, *ys)

    def _stack_fact(self, fact: V, type: ArrayType, count: int) -> V:
        """Returns the fact of a value of this type from that of its slices along `count` leading axes."""
        for k in range(count, 0, -1):
            fact = self.stack(fact, type.with_shape(type.shape[k:]))
        return fact

    def _unstack_fact(self, fact: V, type: ArrayType, count: int) -> V:
        """Returns the fact of the slices of a value of this type along `count` leading axes."""
        for k in range(count):
            fact = self.unstack(fact, type.with_shape(type.shape[k:]) if k else type)
        return fact

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _regions(self, e: Equation) -> list[Region]:
        """Returns the programs that may run, if the operands and results are those of the equation."""
        assert isinstance(e.op, HigherOrder)
        regions = list(e.op.regions)
        fits = all(
            [
                r.skipped + len(r.program.inputs) == len(e.inputs)
                and len(r.program.outputs) == len(e.outputs)
                for r in regions
            ]
        )
        return regions if fits else []

    def _operand_facts(self, e: Equation, region: Region, facts: Facts[V]) -> Facts[V]:
        """Returns the operands' facts, for slices where the program takes slices."""
        k = region.skipped
        rest = zip(facts[k:], e.inputs[k:], region.stacked_in, strict=True)
        return (*facts[:k], *[self._unstack_fact(f, x.type, count) for f, x, count in rest])

    def _join_facts(self, many: Sequence[Facts[V]]) -> Facts[V]:
        """Joins the facts of several walks, one by one."""
        result = many[0]
        for other in many[1:]:
            result = tuple([a if a is b else self.join(a, b) for a, b in zip(result, other, strict=True)])
        return result

    def _find_fixpoint(
        self, step: Callable[[Facts[V]], Facts[V]], carry: Facts[V], program_name: str, at: int = 0
    ) -> tuple[Facts[V], Facts[V]]:
        """Finds the fix-point of a loop's carry; returns it, and the step's facts there.

        Args:
            step: returns facts with the next carry from index `at`.
            carry: the initial carry's facts.
            program_name: the loop's name, for errors.
            at: the first index of the carry in the step's facts.
        """
        for _ in range(self.height):
            step_results = step(carry)
            wider = self._join_facts([carry, step_results[at : at + len(carry)]])
            if wider == carry:
                return carry, step_results
            carry = wider
        raise TransformError(
            f"{self._name}: the facts of what {program_name} carries keep changing after {self.height} rounds"
        )
