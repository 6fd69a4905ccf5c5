"""Operations that hold programs: calls, branches and loops."""

from collections.abc import Sequence
from typing import TypeVar, cast, final

import attrs

from effx import dtypes
from effx.effects import NO_EFFECTS, Effect
from effx.errors import DTypeError, NoRuleError, ProgramError, ShapeError
from effx.ir.ops.base import TupleOperation, check_kind, show
from effx.ir.program import Program
from effx.ir.types import ArrayType, array_type

T = TypeVar("T")


def _none_stacked(region: "Region") -> tuple[int, ...]:
    return (0,) * len(region.program.inputs)


def _no_slices(region: "Region") -> tuple[int, ...]:
    return (0,) * len(region.program.outputs)


@final
@attrs.frozen(kw_only=True)
class Region:
    """How operands and results go through a program that an operation holds.

    The program takes constants, what is carried, and the rest; it gives what is carried on, and the rest. The
    operation's results are the last carry, then the rest.

    Attributes:
        program: what runs.
        skipped: the number of operands in front that it does not take.
        constants: the number of inputs that are the same in each iteration.
        carries: the number of inputs behind these that are results of the iteration before.
        stacked_in, stacked_out: for each input and output along how many leading axes of the operand or result it is one
            slice; 0 for the whole.
        asks: the program that says, from constants and carry, whether one more iteration runs.
    """

    program: Program
    skipped: int = 0
    constants: int = 0
    carries: int = 0
    stacked_in: tuple[int, ...] = attrs.field(default=attrs.Factory(_none_stacked, takes_self=True))
    stacked_out: tuple[int, ...] = attrs.field(default=attrs.Factory(_no_slices, takes_self=True))
    asks: Program | None = None

    def parts(self, operands: Sequence[T]) -> tuple[tuple[T, ...], tuple[T, ...], tuple[T, ...]]:
        """Parts the operands, or what is known of each, into those of the constants, of the carry and of the rest."""
        c = self.skipped + self.constants
        n = c + self.carries
        return tuple(operands[self.skipped : c]), tuple(operands[c:n]), tuple(operands[n:])


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
        """The programs that may run, of which one does, and how operands and results go through them.

        None where the operation is more than what a program does: where an equation defines it, say.
        """
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


def fits(types: "tuple[ArrayType, ...]", expected: "tuple[ArrayType, ...]") -> bool:
    """Says whether arguments of these types match parameters of others; weakness does not matter."""
    return len(types) == len(expected) and all(
        [t is e or t.matches(e) for t, e in zip(types, expected, strict=True)]
    )


def holders(program: Program) -> tuple[HigherOrder, ...]:
    """Returns the operations of a program that hold programs, in order; found once."""
    found = program.derived.get("holders")
    if found is None:
        found = ()
        if any([issubclass(kind, HigherOrder) for kind in program.kinds]):
            found = tuple([e.op for e in program.equations if isinstance(e.op, HigherOrder)])
        program.derived["holders"] = found
    return cast("tuple[HigherOrder, ...]", found)


def holds(program: Program, trait: type) -> bool:
    """Says whether an operation of a program, or of one that it holds, is of a class or trait; found once."""
    key = f"holds {trait.__qualname__}"
    found = program.derived.get(key)
    if found is None:
        inner = [p for op in holders(program) for p in op.programs]
        found = any([issubclass(kind, trait) for kind in program.kinds]) or any(
            [holds(p, trait) for p in inner]
        )
        program.derived[key] = found
    return cast("bool", found)


@attrs.frozen
class Calling(HigherOrder):
    """Trait: takes what its one program takes, and gives what that gives.

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
        if not fits(types, expected):
            raise ProgramError(
                f"{self.name}: {self.program.name} takes ({show(expected)}), got ({show(types)})"
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


def _are_programs(instance: object, attribute: object, value: tuple[Program, ...]) -> None:
    if type(value) is not tuple or not value or not all([type(p) is Program for p in value]):
        raise TypeError(f"{type(instance).__name__}: branches must be a tuple of programs, got {value!r}")


Platforms = tuple[tuple[str, ...], ...]


def branch_for(platforms: Platforms, platform: str) -> int:
    """Returns which branch is for a platform: the one that names it, else the one that names none.

    Raises:
        NoRuleError: no branch is for it.
    """
    for wanted in (platform, None):
        for index, names in enumerate(platforms):
            if wanted in names or (wanted is None and not names):
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
        platforms: where not the index but the platform decides: those of each branch, of which only one is compiled;
            none for the branch of all others.
    """

    branches: tuple[Program, ...] = attrs.field(validator=_are_programs)
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

    def taken(self, index: int) -> Program:
        """Returns the branch of an index."""
        return self.branches[index if 0 <= index < len(self.branches) else -1]

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The branches' result types; weak if all are."""
        if not types or types[0].dtype != dtypes.int32 or types[0].shape:
            raise DTypeError(f"cond: the index must be i32[], got {show(types[:1]) or 'nothing'}")
        first = self.branches[0]
        for n, branch in enumerate(self.branches):
            if not fits(types[1:], branch.in_types):
                raise ProgramError(
                    f"cond: branch {n}, {branch.name}, takes ({show(branch.in_types)}), got ({show(types[1:])})"
                )
            if not fits(branch.out_types, first.out_types):
                raise ProgramError(
                    f"cond: the branches' results differ: branch 0 gives ({show(first.out_types)}), "
                    f"branch {n} gives ({show(branch.out_types)})"
                )
        return tuple(
            [
                t if all([b.outputs[i].type.weak for b in self.branches]) else t.strong()
                for i, t in enumerate(first.out_types)
            ]
        )


@final
@attrs.frozen
class While(HigherOrder):
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
        """The body, which runs as long as the condition says."""
        carries = len(self.body.inputs) - self.constants
        return (Region(program=self.body, constants=self.constants, carries=carries, asks=self.condition),)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The carry's types."""
        for what, program in (("condition", self.condition), ("body", self.body)):
            if not fits(types, program.in_types):
                raise ProgramError(
                    f"while: the {what}, {program.name}, takes ({show(program.in_types)}), got ({show(types)})"
                )
        carry = self.body.in_types[self.constants :]
        if not fits(self.body.out_types, carry):
            raise ProgramError(
                f"while: the body takes a carry of ({show(carry)}), but gives ({show(self.body.out_types)})"
            )
        out = self.condition.out_types
        if len(out) != 1 or out[0].shape:
            raise ShapeError(f"while: the condition must give one bool[], got ({show(out)})")
        check_kind(self, out[0], "b", "the condition's result")
        return carry


@final
@attrs.frozen
class Scan(HigherOrder):
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
        types, n = self.body.in_types, self.constants + self.carries
        return (*types[:n], *[t.with_shape((self.length, *t.shape)) for t in types[n:]])

    @property
    def regions(self) -> tuple[Region, ...]:
        """The body, of which the inputs and outputs behind the carry are slices."""
        b, n, m = self.body, self.constants + self.carries, self.carries
        return (
            Region(
                program=b,
                constants=self.constants,
                carries=m,
                stacked_in=tuple([int(i >= n) for i in range(len(b.inputs))]),
                stacked_out=tuple([int(i >= m) for i in range(len(b.outputs))]),
            ),
        )

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The carry's types, then the stacked outputs'."""
        n = self.constants + self.carries
        slices: list[ArrayType] = []
        for t in types[n:]:
            if not t.shape or t.shape[0] != self.length:
                raise ShapeError(f"scan: an input must have a leading axis of {self.length}, got {t!r}")
            slices.append(t.with_shape(t.shape[1:]))
        given = (*types[:n], *slices)
        if not fits(given, self.body.in_types):
            raise ProgramError(
                f"scan: the body, {self.body.name}, takes ({show(self.body.in_types)}), got ({show(given)})"
            )
        carry, out = self.body.in_types[self.constants : n], self.body.out_types
        if not fits(out[: self.carries], carry):
            raise ProgramError(
                f"scan: the body takes a carry of ({show(carry)}), but gives ({show(out[: self.carries])})"
            )
        return (*carry, *[t.with_shape((self.length, *t.shape)) for t in out[self.carries :]])
