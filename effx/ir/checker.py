"""`check_program`: verify the types, scopes, single assignment and effect row of a program."""

from typing import cast

from effx.errors import EffxError, ProgramError
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.ops.collective import Collective
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.convert import OptimizationBarrier
from effx.ir.program import Atom, Equation, Literal, Program, Var, effect_row
from effx.ir.types import INVARIANT, ArrayType

__all__ = ["check_program"]


def check_program(program: Program) -> Program:
    """Verifies a program and the programs that it holds; returns it.

    Raises:
        ProgramError: a variable is undefined, defined twice or of the wrong type; a literal is no scalar;
            operands are invalid; the effect row is not that of the operations.

    >>> from effx.ir.ops.elementwise import Sin
    >>> from effx.ir.types import array_type
    >>> x, y = Var(array_type("float32", (3,))), Var(array_type("float32", (2,)))
    >>> try:
    ...     check_program(Program((x,), (Equation(Sin(), (x,), (y,)),), (y,)))
    ... except ProgramError as error:
    ...     print(error.message)
    check: f: equation 0: sin: the result is f32[2], but the typing rule gives f32[3]
    """
    _check_once(program, set())
    return program


def _check_once(program: Program, seen: set[Program]) -> None:
    if program in seen:
        return
    seen.add(program)
    name = program.name
    defined: set[Var] = set()

    def define(var: Var, where: str) -> None:
        if var in defined:
            raise ProgramError(f"check: {name}: {where} defines a variable a second time")
        defined.add(var)

    def read(atom: Atom, where: str) -> None:
        if type(atom) is Literal:
            if atom.type.shape:
                raise ProgramError(
                    f"check: {name}: {where} has a literal of type {atom.type!r}, which is no scalar"
                )
        elif atom not in defined:
            raise ProgramError(f"check: {name}: {where} reads an undefined variable of type {atom.type!r}")

    for var in program.inputs:
        define(var, "the input list")
    for n, e in enumerate(program.equations):
        where = f"equation {n}, {e.op.name}"
        for atom in e.inputs:
            read(atom, where)
        check_types(e, f"check: {name}: equation {n}")
        for var in e.outputs:
            define(var, where)
        for inner in operation_programs(e):
            _check_once(inner, seen)
    for atom in program.outputs:
        read(atom, "the output list")
    row = effect_row(program.equations)
    if row != program.effects:
        raise ProgramError(
            f"check: {name}: the effect row is {set(program.effects)}, but the operations leave {set(row)}"
        )


def operation_programs(e: Equation) -> list[Program]:
    """Returns the programs that an equation's operation holds."""
    fields = [getattr(e.op, field.name) for field in getattr(type(e.op), "__attrs_attrs__", ())]
    programs: list[Program] = []
    for value in fields:
        programs += [v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, Program)]
    return programs


def check_types(e: Equation, where: str) -> None:
    """Verifies the types of an equation's operands and results.

    Raises:
        ProgramError: a type is wrong; the message starts with `where`.
    """
    types = [x.type for x in e.inputs]
    try:
        if not isinstance(e.op, ArrayOperation | TupleOperation):
            raise ProgramError(f"{e.op.name}: is no operation on arrays")
        inferred = e.op.infer(*[t.plain() for t in types])
        expected = cast("tuple[ArrayType, ...]", inferred if e.op.multiple else (inferred,))
        if len(expected) != len(e.outputs):
            raise ProgramError(
                f"{e.op.name}: has {len(e.outputs)} results, but the typing rule gives {len(expected)}"
            )
        operand_vma = INVARIANT.union(*[t.vma for t in types])
        for var, t in zip(e.outputs, expected, strict=True):
            t = t.plain()  # typing rules do not handle axes
            if var.type.vma or operand_vma:
                t = t.with_vma(var.type.vma)
                if not (
                    operand_vma <= var.type.vma
                    or isinstance(e.op, HigherOrder | Collective | OptimizationBarrier)
                ):
                    t = t.with_vma(operand_vma)
            t = t.with_sharding(var.type.explicit_sharding)
            if var.type is not t:
                raise ProgramError(
                    f"{e.op.name}: the result is {var.type!r}, but the typing rule gives {t!r}"
                )
    except EffxError as error:
        raise ProgramError(f"{where}: {error.message}") from error
    except (TypeError, ValueError, IndexError) as error:  # the rule unpacks missing operands
        raise ProgramError(f"{where}: {e.op.name}: does not take ({', '.join(map(repr, types))})") from error
