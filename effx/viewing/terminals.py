"""A program's text in the colours of terminals, and with the lines that its equations come from."""

import re
import sys

from effx.effects import transformed_scope
from effx.errors import source_of
from effx.flags import pprint_use_color
from effx.ir.program import Equation, Program, print_program

__all__ = ["coloured", "text"]

# Escape sequences of ECMA-48: bold, blue, cyan, green, grey, and back.
_BOLD, _OPERATION, _PROGRAM, _TYPE, _SOURCE, _PLAIN = (
    "\x1b[1m",
    "\x1b[34m",
    "\x1b[36m",
    "\x1b[32m",
    "\x1b[90m",
    "\x1b[0m",
)

_HEADER = re.compile(r"(?P<name>[^\s(]+)(?P<rest>\(.*)")
_EQUATION = re.compile(r"  (?P<results>(?:\w+: [^=]*? )= )?(?P<operation>[A-Za-z_]\w*)(?P<rest>.*)")
# What is quoted keeps its colour.
_PARTS = re.compile(
    r"(?P<string>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<type>(?<=: )[a-z]+[0-9a-z_]*(?:<\w+>)?\[[^\[\]={}:]*\]~?(?:\{[VUR]:[^{}]*\})?)"
    r"|(?P<program>@[A-Za-z_<][A-Za-z0-9_<>.]*)"
    r"|(?P<source>  # .*$)"
)
_COLOURS = {"type": _TYPE, "program": _PROGRAM, "source": _SOURCE}


def text(program: Program, source_info: bool, name_stack: bool, use_color: bool | None) -> str:
    """Returns a program's text.

    Args:
        source_info: with the user's line behind each equation.
        name_stack: with the user's scopes and the transformations behind each equation.
        use_color: in colours; None for the setting, where the standard output is a terminal.

    >>> import effx, effx.numpy as enp
    >>> from effx import viewing
    >>> def f(x):
    ...     with effx.named_scope("layer"):
    ...         return enp.sin(x)
    >>> print(viewing.text(effx.make_jaxpr(f)(1.0), source_info=False, name_stack=True, use_color=False))
    f(a: f32[]~) {
      b: f32[]~ = sin a 'layer'  # [layer]
      return b
    }
    """

    def describe(equation: Equation) -> str:
        scope = transformed_scope(equation.scope) if name_stack else ""
        line = "" if equation.source is None or not source_info else source_of(equation.source)
        remark = " ".join(filter(None, [scope and f"[{scope}]", line]))
        return f"  # {remark}" if remark else ""

    plain = print_program(program, describe) if source_info or name_stack else print_program(program)
    if use_color is None:
        use_color = pprint_use_color.value and sys.stdout.isatty()
    return coloured(plain) if use_color else plain


def coloured(plain: str) -> str:
    """Returns the text of programs in colours.

    >>> print(coloured("f(a: f32[]) {\\n  return a\\n}").replace("\\x1b", "^"))
    ^[1mf^[0m(a: ^[32mf32[]^[0m) {
      ^[1mreturn^[0m a
    }
    """
    return "\n".join(map(_color_line, plain.split("\n")))


def _color_line(line: str) -> str:
    if line == "  return" or line.startswith("  return "):
        return f"  {_BOLD}return{_PLAIN}{_color_parts(line[8:])}"
    if equation := _EQUATION.fullmatch(line):
        results, operation, rest = equation.group("results", "operation", "rest")
        return f"  {_color_parts(results or '')}{_OPERATION}{operation}{_PLAIN}{_color_parts(rest)}"
    if header := _HEADER.fullmatch(line):
        return f"{_BOLD}{header['name']}{_PLAIN}{_color_parts(header['rest'])}"
    return line


def _color_parts(part: str) -> str:
    def paint(match: re.Match[str]) -> str:
        colour = _COLOURS.get(match.lastgroup or "")
        return f"{colour}{match[0]}{_PLAIN}" if colour else match[0]

    return _PARTS.sub(paint, part)
