"""The printed form of programs, and the parser that reads it back.

::

    loss(a: f32[3], b: f32[]) {
      c: f32[3] = mul a 2.0:f32~
      d: f32[] = reduce_sum[axes=(0,)] c
      return d
    }

Programs that operations hold are printed first and referred to as `@name`. A type ends in `~` when
weak; a literal carries its type. Effects that the program leaves open follow `!`. Behind an operation
stands the `named_scope` that it was performed in, if any.

Never: print where an equation came from; `Equation.source` is not part of a program's meaning.
"""

import importlib
import pkgutil
import re
from typing import Any, TypeVar, cast, final

import attrs
import numpy as np

from effx import dtypes
from effx.effects import Operation
from effx.errors import ProgramError
from effx.ir import ops
from effx.ir.program import Atom, Equation, Literal, Program, Scalar, Var, effect_row
from effx.ir.types import ArrayType, array_type

__all__ = ["parse_program", "print_program"]

T = TypeVar("T")


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
            return digits


@final
class _Printer:
    """Collects the functions of a program and those it holds, each once."""

    def __init__(self) -> None:
        self.names: dict[Program, str] = {}
        self.functions: list[str] = []

    def function(self, program: Program) -> str:
        """Returns the program's name, writing its text the first time."""
        found = self.names.get(program)
        if found is not None:
            return found
        name, n = program.name, 1
        while name in self.names.values():
            n += 1
            name = f"{program.name}.{n}"
        self.names[program] = name
        self.functions.append(self._body(program, name))
        return name

    def _body(self, program: Program, name: str) -> str:
        env: dict[Var, str] = {}

        def define(var: Var) -> str:
            env[var] = variable_name(len(env))
            return f"{env[var]}: {var.type!r}"

        def read(atom: Atom) -> str:
            if type(atom) is Var:
                return env[atom]
            return _literal(atom)

        row = f" ! {', '.join(sorted(map(repr, program.effects)))}" if program.effects else ""
        lines = [f"{name}({', '.join(map(define, program.inputs))}){row} {{"]
        for e in program.equations:
            operands = "".join([f" {read(x)}" for x in e.inputs])
            outputs = ", ".join(map(define, e.outputs))
            lines.append(
                f"  {f'{outputs} = ' if outputs else ''}{e.op.name}{self._parameters(e.op)}{operands}"
                f"{f' {e.scope!r}' if e.scope else ''}"
            )
        lines += [f"  return {', '.join(map(read, program.outputs))}".rstrip(), "}"]
        return "\n".join(lines)

    def _parameters(self, op: Operation[object]) -> str:
        parts = []
        for field in getattr(type(op), "__attrs_attrs__", ()):
            value = getattr(op, field.name)
            if field.default is attrs.NOTHING or value != field.default:
                parts.append(f"{field.name}={self._value(value)}")
        return f"[{' '.join(parts)}]" if parts else ""

    def _value(self, value: object) -> str:
        if isinstance(value, Program):
            return f"@{self.function(value)}"
        if isinstance(value, ArrayType):
            return repr(value)
        if isinstance(value, np.dtype):
            return dtypes.short_name(value)
        if type(value) is tuple:
            inner = ", ".join(map(self._value, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        return repr(value)


def _literal(literal: Literal) -> str:
    t = literal.type
    return f"{literal.value!r}:{dtypes.short_name(t.dtype)}{'~' if t.weak else ''}"


def print_program(program: Program) -> str:
    """Returns the text of a program, the programs that it holds first."""
    printer = _Printer()
    printer.function(program)
    return "\n\n".join(printer.functions)


_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<type>[a-z]+[0-9a-z_]*\[[0-9,]*\]~?)
  | (?P<complex>\([-+0-9.naife]+[-+][0-9.naife]+j\))
  | (?P<number>-?(?:inf|nan|[0-9][0-9.]*(?:e[-+]?[0-9]+)?)(?![A-Za-z_])j?)
  | (?P<word>@?[A-Za-z_<][A-Za-z0-9_<>.]*)
  | (?P<mark>[(){}\[\],:=~!])
    )""",
    re.VERBOSE,
)

KEYWORDS: dict[str, bool | None] = {"True": True, "False": False, "None": None}


def _operations() -> dict[str, type[Operation[object]]]:
    for family in pkgutil.iter_modules(ops.__path__):
        importlib.import_module(f"effx.ir.ops.{family.name}")
    found: dict[str, type[Operation[object]]] = {}
    pending: list[type[Operation[object]]] = [Operation]
    while pending:
        kind = pending.pop()
        # attrs replaces a class by one with slots. The replacement is listed later, and the first class
        # too until it is collected; so go through them in order, and the last one stays.
        pending += reversed(kind.__subclasses__())
        if "infer" in {name for base in kind.__mro__ for name in base.__dict__}:
            found[kind.name] = kind
    return found


@final
class _Parser:
    """Reads one text; tokens are (kind, text, position)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise self.error("an unreadable character", position)
            kind = cast("str", match.lastgroup)
            self.tokens.append((kind, match.group(kind), match.start(kind)))
            position = match.end()
        self.place = 0
        self.operations = _operations()
        self.programs: dict[str, Program] = {}

    def error(self, got: str, position: int | None = None, expected: str = "") -> ProgramError:
        """Returns the error for the current place."""
        if position is None:
            position = self.tokens[self.place][2] if self.place < len(self.tokens) else len(self.text)
        line = self.text.count("\n", 0, position) + 1
        wanted = f"expected {expected}, " if expected else ""
        return ProgramError(f"parse: line {line}: {wanted}got {got}")

    def peek(self) -> str:
        """Returns the next token's text, "" at the end."""
        return self.tokens[self.place][1] if self.place < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> tuple[str, str]:
        """Takes the next token, which must have the expected text if one is given."""
        if self.place >= len(self.tokens):
            raise self.error("the end of the text", expected=expected or "more")
        kind, text, _ = self.tokens[self.place]
        if expected is not None and text != expected:
            raise self.error(repr(text), expected=repr(expected))
        self.place += 1
        return kind, text

    def type(self) -> ArrayType:
        """Reads a type such as `f32[3]~`."""
        kind, text = self.take()
        match = re.fullmatch(r"(\w+)\[([0-9,]*)\](~?)", text)
        if kind != "type" or match is None:
            self.place -= 1
            raise self.error(repr(text), expected="a type")
        shape = tuple([int(n) for n in match[2].split(",") if n])
        return array_type(dtypes.from_short_name(match[1]), shape, bool(match[3]))

    def program(self) -> Program:
        """Reads one function."""
        name = self.take()[1]
        env: dict[str, Var] = {}
        self.take("(")
        inputs = self.definitions(env, ")")
        self.take(")")
        while self.peek() != "{":
            self.take()  # the effect row follows from the equations
        self.take("{")
        equations: list[Equation] = []
        while self.peek() != "return":
            equations.append(self.equation(env))
        self.take("return")
        outputs: list[Atom] = []
        while self.peek() != "}":
            outputs.append(self.atom(env))
            if self.peek() == ",":
                self.take()
        self.take("}")
        result = Program(tuple(inputs), tuple(equations), tuple(outputs), name, effect_row(equations))
        self.programs[name] = result
        return result

    def definitions(self, env: dict[str, Var], end: str) -> list[Var]:
        """Reads `a: f32[], b: f32[]` up to a mark."""
        found = []
        while self.peek() != end:
            name = self.take()[1]
            self.take(":")
            if name in env:
                raise self.error(f"a second definition of {name}")
            env[name] = Var(self.type())
            found.append(env[name])
            if self.peek() == ",":
                self.take()
        return found

    def equation(self, env: dict[str, Var]) -> Equation:
        """Reads one line."""
        start = self.place
        is_definition = self.place + 1 < len(self.tokens) and self.tokens[self.place + 1][1] == ":"
        outer = dict(env)
        outputs = self.definitions(env, "=") if is_definition else []
        if is_definition:
            self.take("=")
        name = self.take()[1]
        kind = self.operations.get(name)
        if kind is None:
            self.place = max(start, self.place - 1)
            raise self.error(f"no operation {name!r}", expected="an operation")
        arguments: dict[str, object] = {}
        if self.peek() == "[":
            self.take()
            while self.peek() != "]":
                key = self.take()[1]
                self.take("=")
                arguments[key] = self.value()
            self.take("]")
        inputs: list[Atom] = []
        scope = ""
        line = self.line_of(self.place - 1)
        while self.place < len(self.tokens) and self.line_of(self.place) == line:
            if self.tokens[self.place][0] == "string":
                scope = cast("str", self.value())
                break
            inputs.append(self.atom(outer))
        try:
            op = cast("Any", kind)(**arguments)
        except TypeError as error:
            raise self.error(f"{name} with parameters {arguments}: {error}") from None
        return Equation(cast("Operation[object]", op), tuple(inputs), tuple(outputs), None, scope)

    def line_of(self, place: int) -> int:
        """Returns the line number of a token."""
        return self.text.count("\n", 0, self.tokens[place][2])

    def atom(self, env: dict[str, Var]) -> Atom:
        """Reads a variable or a literal."""
        kind, text = self.take()
        if kind == "word" and text not in KEYWORDS:
            if text not in env:
                self.place -= 1
                raise self.error(f"the undefined variable {text}")
            return env[text]
        value = self.scalar(kind, text)
        self.take(":")
        dtype = dtypes.from_short_name(self.take()[1])
        weak = self.peek() == "~"
        if weak:
            self.take()
        return Literal(value, array_type(dtype, (), weak))

    def scalar(self, kind: str, text: str) -> Scalar:
        """Turns a token into a Python number."""
        if text in ("True", "False"):
            return text == "True"
        if kind == "complex" or text.endswith("j"):
            return complex(text.strip("()"))
        try:
            return int(text)
        except ValueError:
            pass
        try:
            return float(text)
        except ValueError:
            raise self.error(repr(text), expected="a number") from None

    def value(self) -> object:
        """Reads a parameter's value."""
        kind, text = self.tokens[self.place][0], self.peek()
        if kind == "type":
            return self.type()
        self.take()
        if text == "(":
            items = []
            while self.peek() != ")":
                items.append(self.value())
                if self.peek() == ",":
                    self.take()
            self.take(")")
            return tuple(items)
        if text.startswith("@"):
            if text[1:] not in self.programs:
                raise self.error(f"the undefined program {text}")
            return self.programs[text[1:]]
        if text.startswith("<"):
            self.place -= 1
            raise self.error(f"{text}, which stands for functions of Python's that no text holds")
        if text in KEYWORDS:
            return KEYWORDS[text]
        if kind == "string":
            return text[1:-1].encode().decode("unicode_escape")
        if kind == "word":
            return dtypes.from_short_name(text)
        return self.scalar(kind, text)


def parse_program(text: str) -> Program:
    """Reads the text of a program, as `print_program` writes it.

    Raises:
        ProgramError: the text is malformed; the message names the line.

    >>> program = parse_program('''
    ... double(a: f32[3]) {
    ...   b: f32[3] = mul a 2.0:f32~
    ...   return b
    ... }''')
    >>> program.out_types
    (f32[3],)
    """
    parser = _Parser(text)
    if not parser.tokens:
        raise ProgramError("parse: line 1: expected a program, got the end of the text")
    result = parser.program()
    while parser.place < len(parser.tokens):
        result = parser.program()
    return result
