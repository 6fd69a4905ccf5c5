"""Operations that hold programs: calls, branches and loops."""

from collections.abc import Sequence
from typing import TypeVar, cast, final

import attrs

from effx import dtypes
from effx.effects import NO_EFFECTS, Effect
from effx.errors import DTypeError, NoRuleError, ProgramError, ShapeError
from effx.ir.ops.base import TupleOperation, check_kind, types_text
from effx.ir.ops.groups import LoopOperands, LoopResults
from effx.ir.program import Program
from effx.ir.types import ArrayType, array_type

T = TypeVar("T")
U = TypeVar("U")


def _no_stacked_inputs(region: "Region") -> tuple[int, ...]:
    return (0,) * len(region.program.inputs)


def _no_stacked_outputs(region: "Region") -> tuple[int, ...]:
    return (0,) * len(region.program.outputs)


@final
@attrs.frozen(kw_only=True)
class Region:
    """The correspondence of an operation's operands and results with inputs and outputs of a program that it holds.

    The program takes constants, the carry, and the rest; it returns the next carry, and the rest. The
    operation's results are the last carry, then the rest.

    Attributes:
        program: the program.
        skipped: the number of leading operands that it does not take.
        constants: the number of inputs that are the same in each iteration.
        carries: the number of inputs behind these that are results of the iteration before.
        stacked_in, stacked_out: for each input and output along how many leading axes of the operand or result it is one
            slice; 0 for the whole.
        condition: the program that decides, from constants and carry, whether one more iteration runs.
    """

    program: Program
    skipped: int = 0
    constants: int = 0
    carries: int = 0
    stacked_in: tuple[int, ...] = attrs.field(default=attrs.Factory(_no_stacked_inputs, takes_self=True))
    stacked_out: tuple[int, ...] = attrs.field(default=attrs.Factory(_no_stacked_outputs, takes_self=True))
    condition: Program | None = None

    def group_operands(self, operands: Sequence[T]) -> LoopOperands[T]:
        """Returns the operands that the program takes, or data of each, in groups."""
        return self.group_inputs(operands[self.skipped :])

    def group_inputs(self, inputs: Sequence[T]) -> LoopOperands[T]:
        """Returns the program's inputs, or data of each, in groups."""
        return LoopOperands.split(inputs, self.constants, self.carries)

    def group_results(self, results: Sequence[T]) -> LoopResults[T]:
        """Returns the results, or data of each, in groups."""
        return LoopResults.split(results, self.carries)


class HigherOrder(TupleOperation):
    """Trait: holds programs, which handlers interpret by `effx.handlers.recursion`."""

    __slots__ = ()

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs that the operation holds."""
        raise ProgramError(f"{self.name}: the operation does not say which programs it holds")

    @property
    def in_types(self) -> tuple[ArrayType, ...]:
        """The types of the operands."""
        raise ProgramError(f"{self.name}: the operation does not say what it takes")

    @property
    def regions(self) -> tuple[Region, ...]:
        """The programs that may run, of which one does, with the correspondence of operands and results.

        None if the operation is more than a run of a program, for example if an equation defines it.
        """
        # An operation that an equation defines, such as a root, has none: its solver may find x without a
        # value of x flowing from what it depends on.
        programs = self.programs
        return (Region(program=programs[0]),) if len(programs) == 1 else ()

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """The effects that the programs leave to their caller."""
        # Asked each time that the operation is performed: most programs have none, so nothing is made.
        row = NO_EFFECTS
        for program in self.programs:
            if program.effects:
                row = row | program.effects if row else program.effects
        return row


def types_match(types: "tuple[ArrayType, ...]", expected: "tuple[ArrayType, ...]") -> bool:
    """Returns whether arguments of these types match the expected ones; weak types are ignored."""
    return len(types) == len(expected) and all(
        [t is e or t.matches(e) for t, e in zip(types, expected, strict=True)]
    )


def higher_order_operations(program: Program) -> tuple[HigherOrder, ...]:
    """Returns the operations of a program that hold programs, in order; cached."""
    operations = program.derived.get("holders")
    if operations is None:
        operations = ()
        if any([issubclass(kind, HigherOrder) for kind in program.kinds]):
            operations = tuple([e.op for e in program.equations if isinstance(e.op, HigherOrder)])
        program.derived["holders"] = operations
    return cast("tuple[HigherOrder, ...]", operations)


def contains_operation(program: Program, trait: type) -> bool:
    """Returns whether a program, or one that it holds, has an operation of a class or trait; cached."""
    key = f"holds {trait.__qualname__}"
    is_contained = program.derived.get(key)
    if is_contained is None:
        inner = [p for op in higher_order_operations(program) for p in op.programs]
        is_contained = any([issubclass(kind, trait) for kind in program.kinds]) or any(
            [contains_operation(p, trait) for p in inner]
        )
        program.derived[key] = is_contained
    return cast("bool", is_contained)


@attrs.frozen
class Calling(HigherOrder):
    """Trait: has the operands and results of its one program.

    Attributes:
        program: the callee; equal only to itself.
    """

    program: Program

    @property
    def programs(self) -> tuple[Program, ...]:
        """The one program."""
        return (self.program,)

    @property
    def in_types(self) -> tuple[ArrayType, ...]:
        """The program's input types."""
        return self.program.in_types

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The program's result types."""
        expected = self.program.in_types
        if not types_match(types, expected):
            raise ProgramError(
                f"{self.name}: {self.program.name} takes ({types_text(expected)}), got ({types_text(types)})"
            )
        return self.program.out_types


@final
@attrs.frozen
class Call(Calling):
    """Calls a program: the jit boundary. StableHLO: func.call.

    Attributes:
        inline: True to inline the body when lowering.
    """

    inline: bool = False


def _check_programs(instance: object, attribute: object, value: tuple[Program, ...]) -> None:
    if type(value) is not tuple or not value or not all([type(p) is Program for p in value]):
        raise TypeError(f"{type(instance).__name__}: branches must be a tuple of programs, got {value!r}")


Platforms = tuple[tuple[str, ...], ...]


def find_platform_branch(platforms: Platforms, platform: str) -> int:
    """Returns the index of a platform's branch: the one that names it, else the one that names none.

    Raises:
        NoRuleError: no branch is for it.
    """
    for name_sought in (platform, None):
        for index, names in enumerate(platforms):
            if name_sought in names or (name_sought is None and not names):
                return index
    known = ", ".join([name for names in platforms for name in names])
    raise NoRuleError(
        f"platform_dependent: there is no branch for the platform {platform}, only for {known}; give default="
    )


@final
@attrs.frozen
class Cond(HigherOrder):
    """Runs one of several programs. StableHLO: case.

    Operands: the branch's index, an i32 scalar, then the operands of every branch. An index out of range runs
    the last one.

    Attributes:
        branches: programs with the same parameters and the same result types.
        platforms: if the platform decides instead of the index: the platforms of each branch, of which only one is
            compiled; none for the branch of all others.
    """

    branches: tuple[Program, ...] = attrs.field(validator=_check_programs)
    platforms: Platforms = ()

    @property
    def programs(self) -> tuple[Program, ...]:
        """The branches."""
        return self.branches

    @property
    def in_types(self) -> tuple[ArrayType, ...]:
        """The types of the index and of the branches' inputs."""
        return (array_type(dtypes.int32), *self.branches[0].in_types)

    @property
    def regions(self) -> tuple[Region, ...]:
        """The branches, none of which takes the index."""
        return tuple([Region(program=branch, skipped=1) for branch in self.branches])

    def branch_at(self, index: int) -> Program:
        """Returns the branch of an index."""
        return self.branches[index if 0 <= index < len(self.branches) else -1]

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The result types of the first branch; the others may be weak where it is not, and the other way round."""
        if not types or types[0].dtype != dtypes.int32 or types[0].shape:
            raise DTypeError(f"cond: the index must be i32[], got {types_text(types[:1]) or 'nothing'}")
        first = self.branches[0]
        for n, branch in enumerate(self.branches):
            if not types_match(types[1:], branch.in_types):
                raise ProgramError(
                    f"cond: branch {n}, {branch.name}, takes ({types_text(branch.in_types)}), got ({types_text(types[1:])})"
                )
            if not types_match(branch.out_types, first.out_types):
                raise ProgramError(
                    f"cond: the branches' results differ: branch 0 gives ({types_text(first.out_types)}), "
                    f"branch {n} gives ({types_text(branch.out_types)})"
                )
        return first.out_types


class Loop(HigherOrder):
    """Trait: runs a body again and again, which takes constants, the carry and slices of the rest.

    Attributes:
        body: from one iteration's operands to the next carry and slices of the other results.
        constants: the number of constants.
    """

    __slots__ = ()
    body: Program
    constants: int

    @property
    def carries(self) -> int:
        """The number of values in the carry: by default all that are no constants."""
        return len(self.body.inputs) - self.constants

    def group_operands(self, operands: Sequence[T]) -> LoopOperands[T]:
        """Returns the operands, the body's inputs, or data of each, in groups."""
        return LoopOperands.split(operands, self.constants, self.carries)

    def group_results(self, results: Sequence[T]) -> LoopResults[T]:
        """Returns the results, those of the body, or data of each, in groups."""
        return LoopResults.split(results, self.carries)


@final
@attrs.frozen
class While(Loop):
    """Runs a program as long as another returns True. StableHLO: while.

    Operands: constants, then the carry's initial value. Results: its last value.

    Attributes:
        condition: from constants and carry to a bool scalar.
        body: from constants and carry to the next carry.
        constants: the number of constants.
    """

    condition: Program
    body: Program
    constants: int = 0

    @property
    def programs(self) -> tuple[Program, ...]:
        """The condition and the body."""
        return (self.condition, self.body)

    @property
    def in_types(self) -> tuple[ArrayType, ...]:
        """The constants and the carry."""
        return self.body.in_types

    @property
    def regions(self) -> tuple[Region, ...]:
        """The body, which runs while the condition holds."""
        return (
            Region(
                program=self.body,
                constants=self.constants,
                carries=self.carries,
                condition=self.condition,
            ),
        )

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The carry's types."""
        for role, program in (("condition", self.condition), ("body", self.body)):
            if not types_match(types, program.in_types):
                raise ProgramError(
                    f"while: the {role}, {program.name}, takes ({types_text(program.in_types)}), got ({types_text(types)})"
                )
        carry = self.group_operands(self.body.in_types).carry
        if not types_match(self.body.out_types, carry):
            raise ProgramError(
                f"while: the body takes a carry of ({types_text(carry)}), but gives ({types_text(self.body.out_types)})"
            )
        out = self.condition.out_types
        if len(out) != 1 or out[0].shape:
            raise ShapeError(f"while: the condition must give one bool[], got ({types_text(out)})")
        check_kind(self, out[0], "b", "the condition's result")
        return carry


@final
@attrs.frozen
class Scan(Loop):
    """Runs a program once for each element along the leading axis, with a carry. StableHLO: while.

    Operands: constants, the carry's initial value, and stacked inputs with a leading axis of
    `length`. Results: the carry's last value, and the body's outputs stacked.

    Attributes:
        body: from constants, carry and one slice of each input to the next carry and one slice of each output.
        length: the number of iterations.
        constants: the number of constants.
        carries: the number of values in the carry.
        reverse: True to go from the last slice to the first.
        unroll: how many steps one iteration of the compiled loop runs.
    """

    body: Program
    length: int
    constants: int = 0
    carries: int = 0
    reverse: bool = False
    unroll: int = 1

    @property
    def programs(self) -> tuple[Program, ...]:
        """The body."""
        return (self.body,)

    @property
    def in_types(self) -> tuple[ArrayType, ...]:
        """The constants, the carry and the stacked inputs."""
        types = self.group_operands(self.body.in_types)
        return (*types.constants, *types.carry, *map(self.stack_type, types.xs))

    @property
    def regions(self) -> tuple[Region, ...]:
        """The body, of which the inputs and outputs behind the carry are slices."""
        body, whole = self.body, self.constants + self.carries
        return (
            Region(
                program=body,
                constants=self.constants,
                carries=self.carries,
                stacked_in=tuple([int(i >= whole) for i in range(len(body.inputs))]),
                stacked_out=tuple([int(i >= self.carries) for i in range(len(body.outputs))]),
            ),
        )

    def stack_type(self, t: ArrayType) -> ArrayType:
        """Returns the type of all slices of a type, one for each iteration."""
        return t.with_shape((self.length, *t.shape))

    def with_body(self, body: Program, operands: LoopOperands[U]) -> "Scan":
        """Returns a scan of another body in as many iterations.

        Args:
            body: the body.
            operands: its inputs, or data of each, in groups, which are counted.
        """
        return attrs.evolve(self, body=body, constants=len(operands.constants), carries=len(operands.carry))

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The carry's types, then the stacked outputs'."""
        operands = self.group_operands(types)
        slices: list[ArrayType] = []
        for t in operands.xs:
            if not t.shape or t.shape[0] != self.length:
                raise ShapeError(f"scan: an input must have a leading axis of {self.length}, got {t!r}")
            slices.append(t.with_shape(t.shape[1:]))
        body_types = (*operands.constants, *operands.carry, *slices)
        if not types_match(body_types, self.body.in_types):
            raise ProgramError(
                f"scan: the body, {self.body.name}, takes ({types_text(self.body.in_types)}), got ({types_text(body_types)})"
            )
        carry, results = (
            self.group_operands(self.body.in_types).carry,
            self.group_results(self.body.out_types),
        )
        if not types_match(results.carry, carry):
            raise ProgramError(
                f"scan: the body takes a carry of ({types_text(carry)}), but gives ({types_text(results.carry)})"
            )
        return (*carry, *map(self.stack_type, results.ys))
