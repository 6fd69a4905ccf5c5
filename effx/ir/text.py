"""Parse the printed form of programs (`parse_program`); its grammar.

::

    loss(a: f32[3], b: f32[]) {
      c: f32[3] = mul a 2.0:f32~
      d: f32[] = reduce_sum[axes=(0,)] c
      return d
    }

Programs that operations hold are printed first and referred to as `@name`. A type ends in `~` when weak; a
literal carries its type. The effect row follows `!`. The name stack follows an operation. A symbolic size among
parameters is written `dim(2*b + 1)`; the constraints of its scope are not.

`Equation.source` is not printed: it is not part of a program's meaning.
"""

import ast
import re
from collections.abc import Hashable
from typing import Any, TypeVar, cast, final

import attrs

from effx import dtypes
from effx.effects import Operation
from effx.errors import DTypeError, ProgramError, ShardingError
from effx.ir.catalogue import import_operations
from effx.ir.checker import check_types
from effx.ir.meshes import AbstractMesh, AxisType
from effx.ir.program import (
    Atom,
    Equation,
    Literal,
    Program,
    Scalar,
    Var,
    effect_row,
    effect_row_text,
    print_program,
)
from effx.ir.sizes.shape_text import parse_size, symbolic_shape
from effx.ir.types import ArrayType, array_type, type_sharding

__all__ = ["parse_program", "print_program"]

T = TypeVar("T")


_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<size>dim\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\))
  | (?P<type>[a-z]+[0-9a-z_]*(?:<\w+>)?\[[^\[\]={}:]*\]~?(?:\{[VUR]:[^{}]*\})?)
  | (?P<complex>\([-+0-9.naife]+[-+][0-9.naife]+j\))
  | (?P<number>-?(?:inf|nan|[0-9][0-9.]*(?:e[-+]?[0-9]+)?)(?![A-Za-z_])j?)
  | (?P<word>@?[A-Za-z_<][A-Za-z0-9_<>.]*)
  | (?P<mark>[(){}\[\],:=~!])
    )""",
    re.VERBOSE,
)

KEYWORDS: dict[str, bool | None] = {"True": True, "False": False, "None": None}


def _operations_by_name() -> dict[str, type[Operation[object]]]:
    import_operations()
    operations: dict[str, type[Operation[object]]] = {}
    pending: list[type[Operation[object]]] = [Operation]
    while pending:
        kind = pending.pop()
        # attrs replaces a class by one with slots. Both are listed until the first one is collected, the
        # replacement later; the last one in order is kept.
        pending += reversed(kind.__subclasses__())
        if "infer" in {name for base in kind.__mro__ for name in base.__dict__}:
            operations[kind.name] = kind
    return operations


@final
@attrs.frozen
class _Token:
    kind: str
    text: str
    line: int


MAX_DEPTH = 100  # of tuples among parameters


@final
class _Parser:
    """Reads one text, in time linear in its length."""

    def __init__(self, text: str) -> None:
        text = text.rstrip()
        self.tokens: list[_Token] = []
        self.index = position = 0
        line = 1
        while position < len(text):
            match = _TOKEN.match(text, position)
            kind = "" if match is None else cast("str", match.lastgroup)
            start = len(text) - len(text[position:].lstrip()) if match is None else match.start(kind)
            line += text.count("\n", position, start)
            if match is None:
                raise ProgramError(f"parse: line {line}: got an unreadable character")
            self.tokens.append(_Token(kind, match.group(kind), line))
            line += text.count("\n", start, match.end())
            position = match.end()
        self.operations = _operations_by_name()
        self.programs: dict[str, Program] = {}
        self.mesh: AbstractMesh | None = None

    def error(self, got: str, expected: str = "") -> ProgramError:
        """Returns the error for the next token."""
        line = self.tokens[min(self.index, len(self.tokens) - 1)].line
        expectation = f"expected {expected}, " if expected else ""
        return ProgramError(f"parse: line {line}: {expectation}got {got}")

    def peek(self) -> str:
        """Returns the next token's text, "" at the end."""
        return self.tokens[self.index].text if self.index < len(self.tokens) else ""

    def skip(self, text: str) -> bool:
        """Consumes the next token if it has this text; returns whether it had."""
        is_next = self.peek() == text
        self.index += is_next
        return is_next

    def take(self, expected: str | None = None) -> _Token:
        """Consumes the next token, which must have the expected text if one is given."""
        if self.index >= len(self.tokens):
            raise self.error("the end of the text", repr(expected) if expected else "more")
        token = self.tokens[self.index]
        if expected is not None and token.text != expected:
            raise self.error(repr(token.text), repr(expected))
        self.index += 1
        return token

    def read_name(self, expected: str) -> str:
        """Reads a name."""
        token = self.take()
        if token.kind != "word" or token.text[0] == "@" or token.text in KEYWORDS:
            self.index -= 1
            raise self.error(repr(token.text), expected)
        return token.text

    def read_dtype(self) -> dtypes.DType:
        """Reads a dtype such as `f32`."""
        token = self.take()
        try:
            return dtypes.from_short_name(token.text)
        except DTypeError:
            self.index -= 1
            raise self.error(repr(token.text), "a dtype") from None

    def read_type(self) -> ArrayType:
        """Reads a type such as `f32[3]~`, `f32[3]{V:i}`, `f32[3]{U:i}` or `f32[4@i]`."""
        token = self.take()
        match = re.fullmatch(r"(\w+(?:<\w+>)?)\[([^\[\]]*)\](~?)(?:\{([^{}]*)\})?", token.text)
        try:
            if token.kind != "type" or match is None:
                raise ValueError
            sizes, cuts = _sizes_and_cuts(match[2])
            shape = symbolic_shape(sizes)
            groups = {part[0]: part[2:] for part in re.split(r", (?=[UR]:)", match[4] or "") if part}
            vma, *sums = [frozenset(map(_axis_name, _NAME.findall(groups.get(c, "")))) for c in "VUR"]
            t = array_type(dtypes.from_short_name(match[1]), shape, bool(match[3]), vma)
        except (DTypeError, ValueError):
            self.index -= 1
            raise self.error(repr(token.text), "a type") from None
        if not any(cuts) and not any(sums):
            return t
        if self.mesh is None:
            self.index -= 1
            raise self.error(repr(token.text), "the mesh before, as in mesh(i=2)")
        try:
            return t.with_sharding(type_sharding(self.mesh, cuts, (sums[0], sums[1])))
        except (KeyError, ShardingError):
            self.index -= 1
            raise self.error(repr(token.text), f"a type that {self.mesh!r} can shard") from None

    def read_mesh(self) -> None:
        """Reads `mesh(X=4, Y=2~)`, if the text begins so: the mesh of the types."""
        if [t.text for t in self.tokens[:2]] != ["mesh", "("] or [t.text for t in self.tokens[3:4]] != ["="]:
            return
        self.index = 2
        names: list[Hashable] = []
        sizes: list[int] = []
        kinds: list[AxisType] = []
        while not self.skip(")"):
            names.append(_axis_name(self.take().text))
            self.take("=")
            token = self.take()
            if not token.text.isdigit():
                self.index -= 1
                raise self.error(repr(token.text), "a size")
            sizes.append(int(token.text))
            kinds.append(AxisType.Auto if self.skip("~") else AxisType.Explicit)
            self.skip(",")
        self.mesh = AbstractMesh(sizes, names, kinds)

    def read_program(self) -> Program:
        """Reads one function."""
        name = self.read_name("the name of a program")
        if name in self.programs:
            self.index -= 1
            raise self.error(f"a second definition of the program {name}")
        env: dict[str, Var] = {}
        self.take("(")
        inputs = self.read_definitions(")")
        self.define(env, inputs)
        self.take(")")
        start = self.index
        while self.peek() != "{":
            self.take()
        end = self.index
        self.take("{")
        equations: list[Equation] = []
        while self.peek() != "return":
            equations.append(self.read_equation(env))
        self.take("return")
        outputs: list[Atom] = []
        while self.peek() != "}":
            outputs.append(self.read_atom(env))
            self.skip(",")
        self.take("}")
        row = effect_row(equations)
        written = "".join([t.text for t in self.tokens[start:end]])
        if written and written != "".join(
            effect_row_text(row).split()
        ):  # without a row, it is computed from the equations
            self.index = start
            raise self.error(written, f"the effect row{effect_row_text(row) or ' to be empty'}")
        result = Program(tuple([v for _, v in inputs]), tuple(equations), tuple(outputs), name, row)
        self.programs[name] = result
        return result

    def read_definitions(self, end: str) -> list[tuple[str, Var]]:
        """Reads `a: f32[], b: f32[]` up to a mark."""
        definitions = []
        while self.peek() != end:
            name = self.read_name("a variable")
            self.take(":")
            definitions.append((name, Var(self.read_type())))
            self.skip(",")
        return definitions

    def define(self, env: dict[str, Var], definitions: list[tuple[str, Var]]) -> None:
        """Adds variables to the defined ones."""
        for name, var in definitions:
            if name in env:
                self.index -= 1
                raise self.error(f"a second definition of {name}")
            env[name] = var

    def read_equation(self, env: dict[str, Var]) -> Equation:
        """Reads one line."""
        outputs: list[tuple[str, Var]] = []
        if self.index + 1 < len(self.tokens) and self.tokens[self.index + 1].text == ":":
            outputs = self.read_definitions("=")
            self.take("=")
        start = self.index
        name = self.read_name("an operation")
        kind = self.operations.get(name)
        if kind is None:
            self.index = start
            raise self.error(f"no operation {name!r}", expected="an operation")
        arguments: dict[str, object] = {}
        if self.skip("["):
            while not self.skip("]"):
                key = self.take().text
                self.take("=")
                arguments[key] = self.read_value()
        inputs: list[Atom] = []
        scope = ""
        line = self.tokens[self.index - 1].line
        while self.index < len(self.tokens) and self.tokens[self.index].line == line:
            if self.tokens[self.index].kind == "string":
                scope = cast("str", self.read_value())
                break
            inputs.append(self.read_atom(env))
        end, self.index = self.index, start  # errors from here on are about this line
        try:
            op = cast("Any", kind)(**arguments)
        except (TypeError, ValueError) as error:
            raise self.error(f"{name} with parameters {arguments}: {error}") from None
        result = Equation(
            cast("Operation[object]", op), tuple(inputs), tuple([v for _, v in outputs]), None, scope
        )
        check_types(result, f"parse: line {line}")
        self.define(env, outputs)
        self.index = end
        return result

    def read_atom(self, env: dict[str, Var]) -> Atom:
        """Reads a variable or a literal."""
        token = self.take()
        if token.kind == "word" and token.text not in KEYWORDS:
            if token.text not in env:
                self.index -= 1
                raise self.error(f"the undefined variable {token.text}")
            return env[token.text]
        value = self.read_scalar(token)
        self.take(":")
        t = array_type(self.read_dtype(), (), self.skip("~"))
        if not _can_hold(t, value):
            self.index -= 1
            raise self.error(f"{token.text}:{dtypes.short_name(t.dtype)}", "a value of the dtype")
        return Literal(value, t)

    def read_scalar(self, token: _Token) -> Scalar:
        """Converts a token to a Python number."""
        text = token.text
        if text in ("True", "False"):
            return text == "True"
        try:
            if token.kind == "complex" or text.endswith("j"):
                return complex(text.strip("()"))
            return int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:
            self.index -= 1
            shown = repr(text) if len(text) < 40 else f"{text[:20]!r}… of {len(text)} characters"
            raise self.error(shown, expected="a number") from None

    def read_value(self, depth: int = 0) -> object:
        """Reads a parameter's value."""
        if self.peek() in ("", "]", ")"):
            raise self.error(repr(self.peek()) if self.peek() else "the end of the text", "a value")
        if self.tokens[self.index].kind == "type":
            return self.read_type()
        token = self.take()
        kind, text = token.kind, token.text
        if text == "(":
            if depth == MAX_DEPTH:
                raise self.error(f"tuples nested more than {MAX_DEPTH} deep")
            items = []
            while not self.skip(")"):
                items.append(self.read_value(depth + 1))
                self.skip(",")
            return tuple(items)
        if text.startswith("@"):
            if text[1:] not in self.programs:
                self.index -= 1
                raise self.error(f"the undefined program {text}")
            return self.programs[text[1:]]
        if text.startswith("<"):
            self.index -= 1
            raise self.error(f"{text}, which stands for functions of Python's that no text holds")
        if text in KEYWORDS:
            return KEYWORDS[text]
        if kind == "string":
            return ast.literal_eval(text)
        if kind == "size":
            return parse_size(text[4:-1])
        if text == "mesh" and self.mesh is not None:
            return self.mesh
        if kind == "word":
            self.index -= 1
            return self.read_dtype()
        return self.read_scalar(token)


_NAME = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\([^()]*\)|[^,]+""")


def _sizes_and_cuts(text: str) -> tuple[str, list[tuple[Hashable, ...]]]:
    """Splits `8@X,4@(Y,Z),2` into the sizes, and the mesh axes that shard each axis."""
    pieces, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += c
    pieces_by_axis = [piece.partition("@") for piece in pieces]
    cuts = [tuple(map(_axis_name, _NAME.findall(cut.strip("() ")))) for _, _, cut in pieces_by_axis]
    return ",".join([size for size, _, _ in pieces_by_axis]), cuts


def _axis_name(text: str) -> Hashable:
    """Reads the name of an axis: a word, or a Python literal."""
    return text if text.isidentifier() else cast("Hashable", ast.literal_eval(text))


def _can_hold(t: ArrayType, value: Scalar) -> bool:
    """Returns whether a number can be an element of a type; floats may be written as ints."""
    if t.kind == "b" or type(value) is bool:
        return t.kind == "b" and type(value) is bool
    if t.kind in "iu":
        limits = dtypes.iinfo(t.dtype)
        return type(value) is int and limits.min <= value <= limits.max
    return t.kind == "c" or type(value) is not complex


def parse_program(text: str) -> Program:
    """Reads the text of a program, as `print_program` writes it.

    Raises:
        ProgramError: the text is malformed or inconsistent; the message names the line.

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
    parser.read_mesh()
    result = parser.read_program()
    while parser.index < len(parser.tokens):
        result = parser.read_program()
    return result
