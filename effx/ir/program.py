"""`Program`, the typed IR that staging produces and every handler can interpret, and its printed form."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast, final

import attrs
import numpy as np

from effx import dtypes
from effx.effects import Effect, Operation, user_scope
from effx.errors import ProgramError, Source, make_source, resolve_source
from effx.ir.meshes import AbstractMesh, AxisType
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.types import ArrayType, axis_name_text
from effx.ports import program_views

if TYPE_CHECKING:
    from effx.ir.values.array import Array, TextPrinter


Scalar = bool | int | float | complex


@final
class Var:
    """A variable: defined once, as an input or by one equation; compared by identity.

    >>> import effx, effx.numpy as enp
    >>> program = effx.make_jaxpr(lambda x: enp.sin(x))(enp.ones(3))
    >>> x, = program.inputs
    >>> x, program.equations[0].inputs[0] is x
    (Var(f32[3]), True)
    """

    __slots__ = ("type",)

    def __init__(self, type: ArrayType) -> None:
        self.type = type

    @property
    def aval(self) -> ArrayType:
        """The type, by JAX's name."""
        return self.type

    def __repr__(self) -> str:
        return f"Var({self.type!r})"


@final
@attrs.frozen
class Literal:
    """A scalar constant as an operand.

    Attributes:
        value: a Python number.
        type: its type, of rank 0.

    >>> import effx, effx.numpy as enp
    >>> equation, = effx.make_jaxpr(lambda x: x * 2.0)(enp.ones(3)).equations
    >>> equation.inputs[1].value, equation.inputs[1].type
    (2.0, f32[]~)
    """

    value: Scalar = attrs.field(eq=repr)
    type: ArrayType

    @property
    def val(self) -> "np.generic":
        """The value by JAX's name, with the dtype of the type."""
        value: np.generic = np.asarray(self.value).astype(self.type.dtype)[()]  # type: ignore[assignment]  # a scalar
        return value

    @property
    def aval(self) -> ArrayType:
        """The type, by JAX's name."""
        return self.type


Atom = Var | Literal


# Neither frozen nor validated: staging makes one for each operation, and attrs' frozen __init__ takes three
# times as long. Program validates its equations, see below.
@final
@attrs.define(eq=False, weakref_slot=False)
class Equation:
    """One operation applied: `outputs = op(*inputs)`.

    Attributes:
        op: the operation with its parameters.
        inputs: variables and literals.
        outputs: the variables it defines.
        source: the user's source location as (code object, offset), resolved only when printed.
        scope: the name stack, outermost name first, joined by `/`.

    >>> import effx, effx.numpy as enp
    >>> equation, = effx.make_jaxpr(lambda x: x * 2.0)(enp.ones(3)).equations
    >>> equation.op, equation.inputs, equation.outputs
    (Mul(), (Var(f32[3]), Literal(value=2.0, type=f32[]~)), (Var(f32[3]),))
    """

    op: Operation[object]
    inputs: tuple[Atom, ...]
    outputs: tuple[Var, ...]
    source: Source = None
    scope: str = ""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the source location as file, line and name: code objects do not pickle."""
        position = None if self.source is None else resolve_source(self.source)
        return _rebuild_equation, (self.op, self.inputs, self.outputs, position, self.scope)


def _rebuild_equation(
    op: Operation[object],
    inputs: tuple[Atom, ...],
    outputs: tuple[Var, ...],
    position: tuple[str, int, str] | None,
    scope: str,
) -> Equation:
    """Makes an equation from pickled data."""
    return Equation(op, inputs, outputs, None if position is None else make_source(*position), scope)


class _NamedField(Protocol):
    @property
    def name(self) -> str: ...


def _validate_instances(*kinds: type[object]) -> Callable[[object, _NamedField, tuple[object, ...]], None]:
    """Returns an attrs validator for a tuple of instances of these final classes.

    One pass in C: attrs' own deep_iterable takes a microsecond an element. The checker looks inside the
    elements.
    """
    allowed = set(kinds)
    names = " or ".join([k.__name__ for k in kinds])

    def validate(program: object, attribute: _NamedField, value: tuple[object, ...]) -> None:
        unexpected = {*map(type, value)} - allowed
        if unexpected or type(value) is not tuple:
            unexpected_names = (
                ", ".join(sorted([k.__name__ for k in unexpected])) or f"a {type(value).__name__}"
            )
            raise ProgramError(
                f"program: {attribute.name} must be a tuple of {names}, got {unexpected_names}"
            )

    return validate


@final
@attrs.frozen(eq=False)
class Program:
    """A typed function in the IR: inputs, equations, outputs and effects. Programs are compared by identity;
    `derived` caches transformed and compiled forms, which live as long as the program.

    Attributes:
        inputs: the parameters.
        equations: in order of execution.
        outputs: variables or literals.
        name: the user function's name.
        effects: the effect row: effects that no handler inside has handled.
        constants: closed-over arrays, the values of the first inputs, if a user staged the function.

    >>> import effx, effx.numpy as enp
    >>> program = effx.make_jaxpr(lambda x: enp.sin(x) * 2.0)(enp.ones(3))
    >>> program.in_types, program.out_types, [equation.op.name for equation in program.equations]
    ((f32[3],), (f32[3],), ['sin', 'mul'])
    """

    inputs: tuple[Var, ...] = attrs.field(validator=_validate_instances(Var))
    equations: tuple[Equation, ...] = attrs.field(validator=_validate_instances(Equation))
    outputs: tuple[Atom, ...] = attrs.field(validator=_validate_instances(Var, Literal))
    name: str = attrs.field(default="f", validator=attrs.validators.instance_of(str))
    effects: frozenset[Effect] = attrs.field(default=frozenset())
    constants: "tuple[Array, ...]" = attrs.field(default=(), repr=False)
    derived: dict[object, object] = attrs.field(factory=dict, repr=False)

    @property
    def in_types(self) -> tuple[ArrayType, ...]:
        """The types of the inputs."""
        return tuple([x.type for x in self.inputs])

    @property
    def out_types(self) -> tuple[ArrayType, ...]:
        """The types of the outputs."""
        return tuple([x.type for x in self.outputs])

    @property
    def kinds(self) -> "frozenset[type[Operation[object]]]":
        """The classes of its operations, without those in nested programs; cached."""
        classes = self.derived.get("kinds")
        if classes is None:
            classes = self.derived["kinds"] = frozenset([type(e.op) for e in self.equations])
        return cast("frozenset[type[Operation[object]]]", classes)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the program without its compiled forms."""
        return Program, (self.inputs, self.equations, self.outputs, self.name, self.effects, self.constants)

    def __str__(self) -> str:
        return print_program(self)

    def __repr__(self) -> str:
        return str(self)

    def pretty_print(
        self, *, source_info: bool = False, name_stack: bool = False, use_color: bool | None = None
    ) -> str:
        """Returns the program's text for people to read. `str` is plain, and `effx.ir.parse_program` reads it.

        Args:
            source_info: whether each equation ends with its line in the user's source.
            name_stack: whether it ends with the names of the scopes and transformations around it.
            use_color: whether operations, types and programs have the colours of terminals; None for
                `effx.config.pprint_use_color`, where the standard output is a terminal.

        >>> import effx, effx.numpy as enp
        >>> program = effx.make_jaxpr(enp.sin)(1.0)
        >>> program.pretty_print(use_color=False) == str(program), program.pretty_print(use_color=True).count("\x1b[")
        (True, 10)
        """
        shown: str = program_views.viewing.text(self, source_info, name_stack, use_color)
        return shown

    def _repr_pretty_(self, printer: "TextPrinter", cycle: bool) -> None:
        printer.text(self.pretty_print())

    def to_html(self) -> str:
        """Returns one interactive page that shows the program, for a browser; it needs no other file and no network.

        Sub-programs can be folded away. Each equation shows its cost and its line in the user's source. A
        click on a value shows where it is defined and used, and a search where a name, type, scope or line occurs.

        >>> import effx, effx.numpy as enp
        >>> page = effx.make_jaxpr(enp.sin)(1.0).to_html()
        >>> page.startswith("<!DOCTYPE html>"), page.count('class="equation"')
        (True, 1)
        """
        shown: str = program_views.viewing.page(self)
        return shown

    def to_dot(self) -> str:
        r"""Returns the program as a graph in Graphviz's language: equations joined by values, sub-programs as clusters.

        >>> import effx, effx.numpy as enp
        >>> effx.make_jaxpr(enp.sin)(1.0).to_dot().splitlines()[0]
        'digraph "sin" {'
        """
        drawn: str = program_views.viewing.graph(self)
        return drawn

    def _repr_html_(self) -> str | None:
        shown: str | None = program_views.viewing.frame(self)
        return shown


def effect_row(equations: "tuple[Equation, ...] | list[Equation]") -> frozenset[Effect]:
    """Returns the union of the operations' effects."""
    row: set[Effect] = set()
    for equation in equations:
        if equation.op.effects:
            row |= equation.op.effects
    return frozenset(row)


@attrs.frozen(eq=False)
class Staged:
    """A program with the closed-over values, which are its first inputs, in order."""

    program: Program
    captured: "tuple[Array, ...]"


def variable_name(n: int) -> str:
    """Returns a, b, …, z, ba, bb, …: the n-th variable's name.

    >>> variable_name(0), variable_name(25), variable_name(26)
    ('a', 'z', 'ba')
    """
    digits = ""
    while True:
        digits = chr(ord("a") + n % 26) + digits
        n //= 26
        if n == 0:
            return f"{digits}_" if digits in RESERVED else digits


# Names that would read as a number or as the end of a program.
RESERVED = ("inf", "nan", "return")


@final
class ProgramPrinter:
    """Prints a program and its nested programs, each once, with a remark behind each equation."""

    def __init__(self, remark: Callable[[Equation], str] = lambda e: "") -> None:
        self.remark = remark
        self.names: dict[Program, str] = {}
        self.functions: list[str] = []
        self.mesh: AbstractMesh | None = None

    def print_function(self, program: Program) -> str:
        """Returns the program's name, writing its text the first time."""
        name_if_printed = self.names.get(program)
        if name_if_printed is not None:
            return name_if_printed
        name, n = program.name, 1
        while name in self.names.values():
            n += 1
            name = f"{program.name}.{n}"
        self.names[program] = name
        self.functions.append(self._function_text(program, name))
        return name

    def _function_text(self, program: Program, name: str) -> str:
        env: dict[Var, str] = {}

        def define(var: Var) -> str:
            env[var] = variable_name(len(env))
            if var.type.explicit_sharding is not None:
                self.mesh = var.type.explicit_sharding.mesh
            return f"{env[var]}: {var.type!r}"

        def read(atom: Atom) -> str:
            if type(atom) is Var:
                return env[atom]
            return literal_text(atom)

        lines = [f"{name}({', '.join(map(define, program.inputs))}){effect_row_text(program.effects)} {{"]
        for e in program.equations:
            operands = "".join([f" {read(x)}" for x in e.inputs])
            outputs = ", ".join(map(define, e.outputs))
            lines.append(
                f"  {f'{outputs} = ' if outputs else ''}{e.op.name}{self.parameters_text(e.op)}{operands}"
                f"{f' {user_scope(e.scope)!r}' if user_scope(e.scope) else ''}{self.remark(e)}"
            )
        lines += [f"  return {', '.join(map(read, program.outputs))}".rstrip(), "}"]
        return "\n".join(lines)

    def parameters_text(self, op: Operation[object]) -> str:
        """Returns `[axes=(0,)]`: the parameters that differ from their defaults, programs by their names."""
        parts = []
        for field in getattr(type(op), "__attrs_attrs__", ()):
            value = getattr(op, field.name)
            if field.default is attrs.NOTHING or value != field.default:
                parts.append(f"{field.name}={self._value_text(value)}")
        return f"[{' '.join(parts)}]" if parts else ""

    def _value_text(self, value: object) -> str:
        if isinstance(value, Program):
            return f"@{self.print_function(value)}"
        if isinstance(value, ArrayType):
            return repr(value)
        if isinstance(value, np.dtype):
            return dtypes.short_name(value)
        if isinstance(value, AbstractMesh):
            return "mesh"
        if type(value) is tuple:
            inner = ", ".join(map(self._value_text, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        return f"dim({value})" if is_symbolic(value) else repr(value)


def effect_row_text(effects: frozenset[Effect]) -> str:
    return f" ! {', '.join(sorted(map(repr, effects)))}" if effects else ""


def literal_text(literal: Literal) -> str:
    """Returns `2.0:f32~`: a number with its dtype, and `~` for a weak type."""
    t = literal.type
    return f"{literal.value!r}:{dtypes.short_name(t.dtype)}{'~' if t.weak else ''}"


def print_program(program: Program, remark: Callable[[Equation], str] = lambda e: "") -> str:
    """Returns the text of a program, nested programs first; `remark` returns the text behind an equation.

    >>> import effx, effx.numpy as enp
    >>> from effx.ir import print_program
    >>> program = effx.make_jaxpr(enp.sin)(1.0)
    >>> print(print_program(program, lambda equation: f"  # {equation.op}"))
    sin(a: f32[]~) {
      b: f32[]~ = sin a  # Sin()
      return b
    }
    """
    printer = ProgramPrinter(remark)
    printer.print_function(program)
    return "\n\n".join([*([] if printer.mesh is None else [mesh_text(printer.mesh)]), *printer.functions])


def mesh_text(mesh: AbstractMesh) -> str:
    """Returns `mesh(X=4, Y=2~)`: the axes' sizes, with a `~` for axes that are not Explicit."""
    axes = [
        f"{axis_name_text(name)}={n}{'' if kind is AxisType.Explicit else '~'}"
        for (name, n), kind in zip(mesh.shape_tuple, mesh.axis_types, strict=True)
    ]
    return f"mesh({', '.join(axes)})"
