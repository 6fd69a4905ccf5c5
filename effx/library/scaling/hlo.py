"""The text of a compiled program, read into computations and their instructions.

Of each instruction this has what counting needs: the kind, the types, the operands, the attributes as text. (OpenXLA,
"HLO text format": an instruction is `name = type opcode(operands), attributes`.)

Text and not the protocol buffer, which encodes the groups of collectives in each version's own way, three so
far; XLA itself parses the text back. And not XLA's cost analysis, which counts a loop's body once and is
missing for CPUs that are not there.
"""

import math
import re
from collections.abc import Iterator
from typing import final

import attrs

from effx.errors import ProgramError

__all__ = ["ArrayShape", "Computation", "HloModule", "Instruction", "read"]


@final
@attrs.frozen
class ArrayShape:
    """The type of an array, or of one in a tuple.

    Attributes:
        dtype: XLA's name of it, such as `f32`.
        dims: the sizes.
        space: the number of its memory: 0 for the main one, others for caches and the host's.
    """

    dtype: str
    dims: tuple[int, ...]
    space: int

    @property
    def bytes(self) -> int:
        """The size, without what a layout pads."""
        if self.dtype == "pred":
            return math.prod(self.dims)
        width = re.search(r"\d+", self.dtype)  # none for tokens
        return math.prod(self.dims) * int(width[0]) // 8 if width else 0


@final
@attrs.frozen(eq=False)
class Instruction:
    """One instruction.

    Attributes:
        name, opcode: as the text has them.
        shapes: the types of what it gives; of a tuple all arrays in it, however nested.
        operands: names.
        literal: the operands' text in constants and parameters.
        attributes: the rest, by name.
    """

    name: str
    opcode: str
    shapes: tuple[ArrayShape, ...]
    operands: tuple[str, ...]
    literal: str
    attributes: dict[str, str]

    def numbers(self, name: str) -> tuple[int, ...]:
        """Returns the numbers in an attribute; none where there is no such attribute."""
        return tuple(map(int, re.findall(r"-?\d+", self.attributes.get(name, ""))))

    def called(self, *names: str) -> tuple[str, ...]:
        """Returns the computations that these attributes name."""
        return tuple([c for n in names for c in re.findall(r"%([\w.\-]+)", self.attributes.get(n, ""))])


@final
@attrs.frozen(eq=False)
class Computation:
    """A function of a compiled program.

    Attributes:
        name: as the text has it.
        instructions: by name, in order.
        root: the name of the one whose value is the result.
    """

    name: str
    instructions: dict[str, Instruction]
    root: str

    @property
    def result(self) -> Instruction:
        """The instruction whose value is the result."""
        return self.instructions[self.root]

    def parameters(self) -> list[Instruction]:
        """Returns the parameters in order."""
        results = [i for i in self.instructions.values() if i.opcode == "parameter"]
        return sorted(results, key=lambda i: int(i.literal))

    def users(self) -> dict[str, list[Instruction]]:
        """Returns for each instruction those that read it."""
        result: dict[str, list[Instruction]] = {name: [] for name in self.instructions}
        for i in self.instructions.values():
            for x in dict.fromkeys(i.operands):
                result[x].append(i)
        return result


@final
@attrs.frozen(eq=False)
class HloModule:
    """A compiled program.

    Attributes:
        computations: by name.
        entry: the name of the first to run.
    """

    computations: dict[str, Computation]
    entry: str


# What can enclose a comma, and what can hide what would: strings.
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[(){}\[\],]')
_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
_START = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = ")
_ARRAY = re.compile(r"([a-z]\w*)\[([\d,<=]*)\](\{[^{}]*\})?")
_OPCODE = re.compile(r" *([a-z][\w\-]*)\(")
_INDEX = re.compile(r"/\*index=\d+\*/")


def _closing_bracket(text: str, start: int) -> int:
    """Returns where the bracket that opens at `start` closes."""
    depth = 0
    for m in _TOKENS.finditer(text, start):
        if m[0] in "({[":
            depth += 1
        elif m[0] in ")}]":
            depth -= 1
            if not depth:
                return m.start()
    raise ProgramError(
        f"plan: a bracket does not close in the compiled program: {text[start : start + 60]!r}"
    )


def _split_at_commas(text: str) -> Iterator[str]:
    """Yields the parts between commas."""
    depth = start = 0
    for m in _TOKENS.finditer(text):
        if m[0] in "({[":
            depth += 1
        elif m[0] in ")}]":
            depth -= 1
        elif m[0] == "," and not depth:
            yield text[start : m.start()].strip()
            start = m.end()
    yield text[start:].strip()


def _parse_shapes(text: str) -> tuple[ArrayShape, ...]:
    results = []
    for dtype, dims, layout in _ARRAY.findall(text):
        space = re.search(r"S\((\d+)\)", layout)
        sizes = tuple([int(n.removeprefix("<=")) for n in dims.split(",") if n])
        results.append(ArrayShape(dtype, sizes, int(space[1]) if space else 0))
    return tuple(results)


def _parse_instruction(line: str) -> tuple[bool, Instruction] | None:
    """Reads a line; None for one that is no instruction."""
    start = _START.match(line)
    if start is None:
        return None
    at = start.end()
    if line[at] == "(":
        end = _closing_bracket(line, at) + 1
    else:
        array = _ARRAY.match(line, at)
        if array is None:
            return None
        end = array.end()
    opcode = _OPCODE.match(line, end)
    if opcode is None:
        return None
    close = _closing_bracket(line, opcode.end() - 1)
    inside = line[opcode.end() : close]
    literal = opcode[1] in ("constant", "parameter", "iota")
    attributes = {}
    for part in _split_at_commas(line[close + 1 :].lstrip(",")):
        name, equals, value = part.partition("=")
        if equals:
            attributes[name] = value
    return start[1] is not None, Instruction(
        start[2],
        opcode[1],
        _parse_shapes(line[at:end]),
        () if literal else tuple(re.findall(r"%([\w.\-]+)", inside)),
        inside if literal else "",
        attributes,
    )


def read(text: str) -> HloModule:
    """Reads the text of a compiled program, as `Compiled.as_text` gives it.

    Raises:
        ProgramError: it is none.
    """
    computations: dict[str, Computation] = {}
    entry = name = root = ""
    instructions: dict[str, Instruction] = {}
    for line in _INDEX.sub("", text).splitlines():
        head = _HEAD.match(line)
        if head is not None and "->" in line:
            name, instructions, root = head[2], {}, ""
            entry = name if head[1] else entry
        elif line.startswith("}") and name:
            if not root:
                raise ProgramError(f"plan: the computation {name} of the compiled program has no result")
            computations[name] = Computation(name, instructions, root)
            name = ""
        elif name:
            parsed = _parse_instruction(line)
            if parsed is not None:
                is_root, instruction = parsed
                instructions[instruction.name] = instruction
                root = instruction.name if is_root else root
    if not entry:
        raise ProgramError(f"plan: expected the text of a compiled program, got {text[:60]!r}")
    return HloModule(computations, entry)
