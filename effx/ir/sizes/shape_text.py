"""Parse symbolic shapes, sizes and constraints from text (`symbolic_shape`).

shape       = [ "(" ] dimension { "," dimension } [ "," ] [ ")" ]
dimension   = "..." | "_" | size
size        = [ "-" ] term { ("+" | "-") term }
term        = factor { "*" factor }
factor      = atom [ "^" integer ]
atom        = integer | variable | function "(" size "," size ")" | "(" size ")"
function    = "floordiv" | "mod" | "max" | "min"
constraint  = size (">=" | "<=" | "==") size
"""

import re
from collections.abc import Sequence
from typing import TypeVar, final

from effx.errors import TreeError, name_user_call
from effx.ir.sizes.dimensions import NO_CONSTRAINTS, SymbolicScope, dimension_variable
from effx.ir.sizes.division import apply_function
from effx.tree.registry import PyTree, PyTreeDef, flatten

T = TypeVar("T")
FUNCTIONS = ("floordiv", "mod", "max", "min")
_TOKEN = re.compile(r"\s*(?:(?P<number>\d+)|(?P<name>[^\W\d]\w*)|(?P<mark>\.\.\.|>=|<=|==|[-+*^(),]))")


@final
class _SizeReader:
    """The tokens of a text, and the position of the next one."""

    def __init__(self, text: str, function_name: str, scope: SymbolicScope) -> None:
        self.text, self.function_name, self.scope = text, function_name, scope
        self.position = 0
        self.tokens: list[tuple[str, int]] = []
        end = len(text.rstrip())
        offset = 0
        while offset < end:
            match = _TOKEN.match(text, offset)
            if match is None:
                self.position = offset
                raise self.error(f"{text[offset:].strip()[:1]!r} has no place in a size")
            self.tokens.append((match.group().strip(), match.end() - len(match.group().strip())))
            offset = match.end()
        self.next = 0

    def error(self, message: str) -> ValueError:
        return ValueError(f"{self.function_name}: {message}, at position {self.position} of {self.text!r}")

    def peek(self) -> str:
        return self.tokens[self.next][0] if self.next < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.position = self.tokens[self.next][1] if self.next < len(self.tokens) else len(self.text)
        self.next += 1
        return token

    def expect(self, token: str) -> None:
        token_found = self.take()
        if token_found != token:
            raise self.error(f"expected {token!r}, got {token_found or 'the end'!r}")

    def read_size(self) -> int:
        """Reads a sum."""
        negative = self.peek() == "-"
        if negative:
            self.take()
        total = -self.read_term() if negative else self.read_term()
        while self.peek() in ("+", "-"):
            total = total + self.read_term() if self.take() == "+" else total - self.read_term()
        return total

    def read_term(self) -> int:
        """Reads a product."""
        product = self.read_factor()
        while self.peek() == "*":
            self.take()
            product = product * self.read_factor()
        return product

    def read_factor(self) -> int:
        """Reads a power."""
        base = self.read_atom()
        if self.peek() != "^":
            return base
        self.take()
        exponent = self.take()
        if not exponent.isdigit():
            raise self.error(f"expected an exponent, got {exponent or 'the end'!r}")
        power: int = base ** int(exponent)
        return power

    def read_atom(self) -> int:
        """Reads a number, a variable, a function or a size in parentheses."""
        token = self.take()
        if token.isdigit():
            return int(token)
        if token == "-":
            return -self.read_factor()
        if token == "(":
            inside = self.read_size()
            self.expect(")")
            return inside
        if token in FUNCTIONS:
            self.expect("(")
            x = self.read_size()
            self.expect(",")
            y = self.read_size()
            self.expect(")")
            return apply_function(token, x, y)
        if not token or not (token[0].isalpha() and token.isidentifier()):
            raise self.error(f"expected a number, a variable or a function, got {token or 'the end'!r}")
        return dimension_variable(token, self.scope)


def parse_size(text: str, scope: SymbolicScope = NO_CONSTRAINTS) -> int:
    """Returns the size of a text such as `"2*b + 1"`.

    Raises:
        ValueError: the text is no size.
    """
    reader = _SizeReader(text, "symbolic size", scope)
    size = reader.read_size()
    if reader.peek():
        reader.take()
        raise reader.error("expected the end")
    return size


def parse_constraint(text: str, scope: SymbolicScope) -> tuple[int, str, int]:
    """Returns the two sides of a constraint, and `">="`, `"<="` or `"=="`."""
    reader = _SizeReader(text, "SymbolicScope", scope)
    left = reader.read_size()
    relation = reader.take()
    if relation not in (">=", "<=", "=="):
        raise reader.error(f"expected one of >=, <=, ==, got {relation or 'the end'!r}")
    right = reader.read_size()
    if reader.peek():
        reader.take()
        raise reader.error("expected the end")
    return left, relation, right


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[int, ...]:
    """Returns a shape from its text, in which names stand for sizes that are not known yet.

    Args:
        shape_spec: sizes separated by commas, such as `"b, 2*n + 1, 3"`. A size has numbers, variables, `+`, `-`, `*`,
            powers by `^`, and `floordiv`, `mod`, `max` and `min` of two sizes. `_` takes the size from `like`, and `...`,
            the last one, takes all that are left. None stands for `"..."`.
        constraints: constraints on the variables, beside that each is at least 1: `"a >= 2*b"`, `"mod(a, 8) == 0"`.
        scope: the scope of earlier sizes, to be combined with the new ones, instead of constraints.
        like: the sizes for `_` and `...`.

    Returns:
        The sizes: ints where no variable occurs.

    Raises:
        ValueError: the text is no shape, there are both constraints and a scope, or `like` lacks a
            size.

    >>> b, n = symbolic_shape("b, 2*n")
    >>> (b, n + 1, n // 2)
    (b, 2*n + 1, n)
    >>> symbolic_shape("b, _, ...", like=(2, 3, 4, 5))
    (b, 3, 4, 5)
    """
    function_name = "symbolic_shape"
    if scope is not None and len(constraints):
        raise ValueError(
            f"{function_name}: a scope has its constraints already; give constraints or a scope, not both"
        )
    if isinstance(constraints, str):
        raise ValueError(
            f"{function_name}: constraints must be a sequence of strings, got the string {constraints!r}"
        )
    where = SymbolicScope(constraints) if scope is None else scope
    text = "..." if shape_spec is None else shape_spec
    if not isinstance(text, str):
        raise ValueError(f"{function_name}: the shape must be a string or None, got {text!r}")
    reader = _SizeReader(text, function_name, where)
    wrapped = reader.peek() == "(" and _closes_at_end([t for t, _ in reader.tokens])
    if wrapped:
        reader.take()
    sizes: list[int] = []
    while reader.peek() not in ("", ")"):
        sizes += _read_dimension(reader, len(sizes), like)
        if reader.peek() not in ("", ")"):
            reader.expect(",")
    if wrapped:
        reader.expect(")")
    if reader.peek():
        reader.take()
        raise reader.error("expected the end")
    if like is not None and len(sizes) != len(like):
        raise ValueError(
            f"{function_name}: {text!r} has {len(sizes)} sizes, and `like` {tuple(like)} has {len(like)}"
        )
    return tuple(sizes)


def _closes_at_end(tokens: Sequence[str]) -> bool:
    """Returns whether the last token closes the first parenthesis."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token == "(") - (token == ")")
        if not depth:
            return i == len(tokens) - 1
    return False


def _read_dimension(reader: _SizeReader, position: int, like: Sequence[int | None] | None) -> list[int]:
    token = reader.peek()
    if token not in ("...", "_"):
        return [reader.read_size()]
    reader.take()
    if like is None:
        raise reader.error(f"{token!r} takes sizes from `like`, which is not given")
    if token == "...":
        if reader.peek() not in ("", ")"):
            raise reader.error("'...' must come last")
        sizes_from_like = list(like[position:])
    elif position < len(like):
        sizes_from_like = [like[position]]
    else:
        raise reader.error(f"`like` {tuple(like)} has no size {position}")
    known = [n for n in sizes_from_like if n is not None]
    if len(known) != len(sizes_from_like):
        raise reader.error(f"{token!r} asks for a size that `like` {tuple(like)} does not know")
    return known


def format_shape(shape: Sequence[int]) -> str:
    """Returns a shape as text that `symbolic_shape` reads: `(b, 2*n)`."""
    sizes = ", ".join(map(str, shape))
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"


def spread_shape_texts(texts: Sequence[T], tree: PyTreeDef, args: PyTree) -> list[T]:
    """Returns a text for each leaf of arguments, from texts in the tree's structure, each for all leaves below it.

    Raises:
        TreeError: the tree is not the beginning of the arguments' structure.
    """
    try:
        groups = tree.flatten_up_to(args)
    except (ValueError, TypeError, KeyError) as error:
        raise TreeError(
            f"{name_user_call()}: the shapes must have the structure of the arguments, or its beginning: {error}"
        ) from error
    return [text for text, group in zip(texts, groups, strict=True) for _ in flatten(group)[0]]
