"""The text of views of programs, as JAX's users read it: `{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }`.

`effx.ir.Program` has a text of its own, which `effx.ir.parse_program` reads.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeGuard, final

import attrs

from effx.compat.defined import Primitive
from effx.compat.layout import Break, Document, Group, Indented, join, lay_out
from effx.ir.ops.control import Call
from effx.ir.ops.custom import CustomCall
from effx.ir.program import Atom, Equation, Literal, Var
from effx.ir.types import ArrayType

__all__ = ["color_jaxpr", "print_equation", "print_jaxpr"]


class EquationView(Protocol):
    """What the text of an equation is made of; see `effx.compat.jaxprs.JaxprEqn`."""

    @property
    def invars(self) -> Sequence[Atom]: ...
    @property
    def outvars(self) -> Sequence[Var]: ...
    @property
    def primitive(self) -> Primitive: ...
    @property
    def params(self) -> Mapping[str, object]: ...
    @property
    def source_info(self) -> SourceView: ...
    @property
    def equation(self) -> Equation | None: ...


class SourceView(Protocol):
    """Where an equation comes from."""

    @property
    def name_stack(self) -> str: ...
    @property
    def position(self) -> tuple[str, int, str] | None: ...


class ProgramView(Protocol):
    """What the text of a program is made of; see `effx.compat.jaxprs.Jaxpr`."""

    @property
    def constvars(self) -> Sequence[Var]: ...
    @property
    def invars(self) -> Sequence[Var]: ...
    @property
    def outvars(self) -> Sequence[Atom]: ...
    @property
    def eqns(self) -> Sequence[EquationView]: ...
    @property
    def jaxpr(self) -> ProgramView: ...


_COLUMNS = 80

# Parameters that JAX leaves out of the text: that are None, and others.
_LEFT_OUT_IF_NONE = {
    "broadcast_in_dim": ("sharding",),
    "convert_element_type": ("sharding",),
    "dot_general": ("out_sharding", "precision", "preferred_element_type"),
}
_LEFT_OUT = {"broadcast_in_dim": ("shape",), "remat2": ("name",)}


# Words of the text, what is bound with its type, and what is applied.
_COLORED = re.compile(
    r"(?P<word>\b(?:lambda|let|in)\b(?=[ \n]))|(?P<type>(?<=:)[\w<>{]+\[[^\]]*\])|(?P<name>(?<= = )[\w-]+)"
)
_CODES = {"word": "1", "type": "32", "name": "34"}


def color_jaxpr(text: str) -> str:
    """Returns the text of a program in the colours of terminals.

    >>> color_jaxpr("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }").replace("\x1b", "^")
    '{ ^[1mlambda^[0m ; a:^[32mf32[]^[0m. ^[1mlet^[0m b:^[32mf32[]^[0m = ^[34msin^[0m a ^[1min^[0m (b,) }'
    """
    return _COLORED.sub(lambda part: f"\x1b[{_CODES[part.lastgroup or 'word']}m{part[0]}\x1b[0m", text)


def print_jaxpr(jaxpr: ProgramView, source_info: bool = False, name_stack: bool = False) -> str:
    """Returns the text of a program; of programs that several equations hold one text, with a name.

    Args:
        source_info: whether each equation ends with its line in the user's source.
        name_stack: whether it ends with the names of the scopes and transformations around it.
    """
    printer = _Printer(source_info, name_stack)
    shared = _find_shared(jaxpr)
    text = ""
    for program, name in shared.items():
        unique_name, n = name, 0
        while unique_name in printer.names_of_programs.values():
            n += 1
            unique_name = f"{name}{n}"
        text += lay_out((f"let {unique_name} = ", printer.print_program(program), " in"), _COLUMNS) + "\n"
        printer.names_of_programs[program] = unique_name
    return text + lay_out(printer.print_program(jaxpr), _COLUMNS)


def print_equation(e: EquationView) -> str:
    """Returns the text of an equation alone."""
    return lay_out(_Printer(False, False).print_equation(e, set(e.outvars)), _COLUMNS)


def _find_shared(jaxpr: ProgramView) -> dict[ProgramView, str]:
    """Returns the programs that several equations hold, inner ones first, with the names for them."""
    counts: dict[ProgramView, int] = {}
    names: dict[ProgramView, str] = {}

    def visit(program: ProgramView) -> None:
        for e in program.eqns:
            for inner in _programs_in(e.params):
                counts[inner] = counts.get(inner, 0) + 1
                if counts[inner] == 1:
                    visit(inner)
                    name = e.params.get("name")
                    names[inner] = _identifier(name) if isinstance(name, str) else "jaxpr"

    visit(jaxpr)
    return {program: name for program, name in names.items() if counts[program] > 1}


def _identifier(name: str) -> str:
    text = re.sub(r"\W", "_", name).strip("_") if not name.isidentifier() else name
    if not text or text[0].isdigit():
        return "jaxpr"
    return text if text == "lambda" or not keyword.iskeyword(text) else f"{text}_"


def _is_program(value: object) -> TypeGuard[ProgramView]:
    return hasattr(value, "eqns")


def _are_programs(value: object) -> TypeGuard[tuple[ProgramView, ...]]:
    return isinstance(value, tuple | list) and bool(value) and all(map(_is_program, value))


def _programs_in(params: Mapping[str, object]) -> Iterator[ProgramView]:
    for value in params.values():
        for x in value if _are_programs(value) else (value,):
            if _is_program(x):
                yield x.jaxpr


def _shown_parameters(e: EquationView) -> dict[str, object]:
    """Returns an equation's parameters in the order of the text: the name of what is called first."""
    op = None if e.equation is None else e.equation.op
    if isinstance(op, CustomCall):
        program = e.params["call_jaxpr"]
        return {"name": op.rules.name, **dict(sorted({"call_jaxpr": program, **op.rules.details}.items()))}
    if isinstance(op, Call) and "inline" in e.params:
        inline = {"inline": True} if op.inline else {}
        return {"name": e.params["name"], **inline, "jaxpr": e.params["jaxpr"]}
    name = e.primitive.name
    if_none, always = ("accuracy", *_LEFT_OUT_IF_NONE.get(name, ())), _LEFT_OUT.get(name, ())
    return {
        key: value
        for key, value in sorted(e.params.items())
        if key not in always and not (value is None and key in if_none)
    }


@final
@attrs.define
class _Printer:
    """Names variables in the order in which the text has them."""

    source_info: bool
    name_stack: bool
    names: dict[Var, str] = attrs.field(factory=dict)
    names_of_programs: dict[ProgramView, str] = attrs.field(factory=dict)

    def name(self, x: Var) -> str:
        if x not in self.names:
            self.names[x] = _letters(len(self.names))
        return self.names[x]

    def print_atom(self, x: Atom) -> str:
        return f"{_python_number(x)}:{_short(x.type)}" if isinstance(x, Literal) else self.name(x)

    def print_binders(self, variables: Sequence[Var]) -> Document:
        first, *rest = [f"{self.name(x)}:{_short(x.type)}" for x in variables] or [""]
        return (first, Indented(4, tuple([Group((Break(), text)) for text in rest])))

    def print_program(self, jaxpr: ProgramView) -> Document:
        """Returns a program's text."""
        used = {x for e in jaxpr.eqns for x in e.invars if isinstance(x, Var)}
        used.update([x for x in jaxpr.outvars if isinstance(x, Var)])
        constants = self.print_binders(jaxpr.constvars) if jaxpr.constvars else ""
        head = ("{ lambda ", constants, "; ", self.print_binders(jaxpr.invars))
        equations: list[Document] = [self.print_equation(e, used) for e in jaxpr.eqns]
        outputs = ", ".join(map(self.print_atom, jaxpr.outvars)) + ("," if len(jaxpr.outvars) == 1 else "")
        annotated = bool(jaxpr.eqns) and (self.source_info or self.name_stack)
        body = Indented(4, (Break(), join(Break("; "), equations))) if equations else " "
        return Group((*head, ". let", body, Indented(2, (Break(), f"in ({outputs}) }}"))), is_long=annotated)

    def print_equation(self, e: EquationView, used: set[Var]) -> Document:
        results = " ".join([f"{self.name(x) if x in used else '_'}:{_short(x.type)}" for x in e.outvars])
        params = [self.print_parameter(name, value) for name, value in _shown_parameters(e).items()]
        operands = "".join([f" {self.print_atom(x)}" for x in e.invars]) or " "
        inside = (
            Group(("[", Indented(2, (Break(""), join(Break(), params))), Break(""), "]")) if params else ""
        )
        return (f"{results} = " if results else "", e.primitive.name, inside, operands, *self.annotate(e))

    def print_parameter(self, name: str, value: object) -> Document:
        if _is_program(value):
            return (f"{name}=", self.print_inner(value))
        if _are_programs(value):
            parts = [self.print_inner(x) for x in value]
            return (f"{name}=(", Indented(2, (Break(), join(Break(), parts))), Break(), ")")
        return f"{name}={value}"

    def print_inner(self, value: ProgramView) -> Document:
        program = value.jaxpr
        name = self.names_of_programs.get(program)
        return self.print_program(program) if name is None else name

    def annotate(self, e: EquationView) -> tuple[str, ...]:
        position = e.source_info.position
        source = f"{position[0]}:{position[1]} ({position[2]})" if self.source_info and position else ""
        scope = f"[{e.source_info.name_stack}]" if self.name_stack and str(e.source_info.name_stack) else ""
        text = " ".join([x for x in (source, scope) if x])
        return (f"  # {text}",) if text else ()


def _python_number(x: Literal) -> object:
    kind = x.type.dtype.kind
    if type(x.value) in (bool, int) and kind != "b":
        return x.value if kind in "iu" else x.val.item()
    return x.value if kind in "fc" and type(x.value) is float else x.val.item()


def _short(t: ArrayType) -> str:
    return repr(t.strong())


def _letters(n: int) -> str:
    """Returns the name of the n-th variable: a, b, ..., z, ba, bb, ...

    >>> _letters(0), _letters(25), _letters(26), _letters(26 * 26)
    ('a', 'z', 'ba', 'baa')
    """
    text = ""
    while True:
        n, letter = divmod(n, 26)
        text = chr(ord("a") + letter) + text
        if not n:
            return text
