"""Cases of portable laws: a program as source, which runs on every implementation, and the points at which it runs."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, final

import attrs
import numpy as np
from hypothesis import strategies as st

from effx.ir.types import Shape
from effx.laws.comparing import Data
from effx.laws.control_oracle import replace_control
from effx.laws.portable.implementation import Function, Implementation, Leaf
from effx.laws.programs import TypedProgram, programs
from effx.tree.registry import PyTree

Kind = Literal["plain", "ties", "special"]
"""Of points: numbers that are all different; small numbers that are often equal or zero; infinities and NaN too."""

Domain = tuple[float, float]
PLAIN: Domain = (-1.0, 1.0)
TIES = np.array([-0.5, 0.0, 0.5, 0.25])
SPECIAL = np.array([0.0, -0.0, 1.0, -0.5, np.inf, -np.inf, np.nan])
ROWS = 3  # of a batch


def draw_numbers(kind: Kind, domain: Domain, shape: Shape, rng: np.random.Generator) -> Data:
    """Draws an array of short numbers.

    Args:
        kind: of the points.
        domain: of plain numbers.
        shape: of the array.
        rng: the source.
    """
    if kind == "ties":
        return rng.choice(TIES, shape)
    if kind == "special":
        return np.where(
            rng.random(shape) < 0.5, rng.choice(SPECIAL, shape), np.round(rng.uniform(*domain, shape), 2)
        )
    size = int(np.prod(shape))
    # One in each of as many parts of the interval, so that no two are equal or near each other.
    places = (rng.permutation(size) + rng.uniform(0.2, 0.8, size)) / max(size, 1)
    return np.round(domain[0] + (domain[1] - domain[0]) * places, 3).reshape(shape)


@final
@attrs.frozen(eq=False)
class Case:
    """A program with points.

    Attributes:
        source: a Python function `f`, which uses the names of `Implementation.namespace`.
        shapes: of its arguments.
        family: where the program is from: "programs", or the name of a family of expressions.
        domain: of plain numbers.
        kind: of the points.
        seed: of the points, and of what else a law draws.
    """

    source: str
    shapes: tuple[Shape, ...]
    family: str = "programs"
    domain: Domain = PLAIN
    kind: Kind = "plain"
    seed: int = 0

    @property
    def key(self) -> str:
        """The functions that the program calls; a law that fails with some is not run with them again."""
        return " ".join(
            re.findall(r"\b(?:enp|lax|nn|special|sl|signal|stats|image|effx|at)\b[\w.]*|\*\*|@", self.source)
        )

    def function(self, implementation: Implementation) -> Function:
        """Returns the program as a function of an implementation."""
        return self._run_source(implementation.namespace)

    def python_function(self, implementation: Implementation) -> Function:
        """Returns the same with control flow and calls in Python."""
        names = implementation.namespace
        return self._run_source({**names, **replace_control(names["lax"], names["effx"], names["enp"])})

    def _run_source(self, namespace: Mapping[str, PyTree]) -> Function:
        names = dict(namespace)
        exec(compile(self.source, "<effx.laws.portable>", "exec"), names)
        f: Function = names["f"]
        return f

    def data(self, row: int = 0) -> tuple[Data, ...]:
        """Returns the arguments as data of NumPy.

        Args:
            row: which point, of several.
        """
        rng = np.random.default_rng([self.seed, row])
        return tuple([draw_numbers(self.kind, self.domain, shape, rng) for shape in self.shapes])

    def arguments(self, implementation: Implementation, row: int = 0) -> tuple[Leaf, ...]:
        """Returns the arguments as arrays of an implementation."""
        return tuple([implementation.asarray(x) for x in self.data(row)])

    def draw_like(self, arrays: Sequence[Data], purpose: int = 1) -> tuple[Data, ...]:
        """Draws data of the shapes and dtypes of other data: tangents, cotangents, weights."""
        rng = np.random.default_rng([self.seed, 77, purpose])
        return tuple([np.round(rng.uniform(-1, 1, x.shape), 2).astype(x.dtype) for x in arrays])

    def print_program(self, implementation: Implementation, shown: Sequence[str] = ()) -> str:
        """Returns the program and its arguments as Python of an implementation.

        Args:
            implementation: whose names are used.
            shown: expressions of `f`, `xs` and `vs`, the tangents, that the program prints.
        """
        lines = [implementation.print_array(x) for x in self.data()]
        tangents = [implementation.print_array(x) for x in self.draw_like(self.data())]
        parts = ["\n".join(implementation.preamble), implementation.spell(self.source)]
        parts.append(f"xs = ({', '.join(lines)},)")
        if any(["vs" in text for text in shown]):
            parts[-1] += f"\nvs = ({', '.join(tangents)},)"
        parts.append("\n".join([f"print({implementation.spell(text)})" for text in shown]))
        return "\n\n".join([p for p in parts if p]) + "\n"

    def __repr__(self) -> str:
        return f"\n{self.source}\n# at {self.kind} point {self.seed}"


@final
@attrs.frozen(eq=False)
class Family:
    """A family of expressions: texts with options, and the shapes that all of them take.

    Attributes:
        name: of the family.
        texts: expressions of `x0`, `x1`, …; `{name}` stands for one of the options of the name.
        shapes: the arguments' shapes, one choice after the other.
        options: texts by name.
        domain: of plain numbers.
        total: False where zeros, ties or infinities are no arguments: singular matrices, say.
    """

    name: str
    texts: Sequence[str]
    shapes: Sequence[tuple[Shape, ...]]
    options: dict[str, Sequence[object]] = attrs.field(factory=dict)
    domain: Domain = PLAIN
    total: bool = True

    def cases(self, kinds: Sequence[Kind]) -> st.SearchStrategy[Case]:
        """Draws a case."""
        return _draw_from_family(self, kinds if self.total else ("plain",))


@st.composite
def _draw_from_family(draw: st.DrawFn, family: Family, kinds: Sequence[Kind]) -> Case:
    text = draw(st.sampled_from(family.texts))
    for name, values in family.options.items():
        if f"{{{name}}}" in text:
            text = text.replace(f"{{{name}}}", str(draw(st.sampled_from(values))))
    shapes = draw(st.sampled_from(family.shapes))
    names = ", ".join([f"x{i}" for i in range(len(shapes))])
    source = f"def f({names}):\n    return {text}"
    return Case(
        source, shapes, family.name, family.domain, draw(st.sampled_from(kinds)), draw(st.integers(0, 99))
    )


@st.composite
def _draw_program_case(
    draw: st.DrawFn, strategy: st.SearchStrategy[TypedProgram], kinds: Sequence[Kind]
) -> Case:
    program = draw(strategy)
    return Case(
        program.source, program.shapes, kind=draw(st.sampled_from(kinds)), seed=draw(st.integers(0, 99))
    )


def program_cases(
    implementation: Implementation, kinds: Sequence[Kind], constructs: Sequence[str], smooth: bool
) -> st.SearchStrategy[Case]:
    """Draws programs with calls, branches and loops, and points.

    Args:
        implementation: that runs them; of a partial one only the expressions are used that it has.
        kinds: of points.
        constructs: the calls, branches and loops.
        smooth: True for programs with derivatives.
    """
    supports: Callable[[str, tuple[Shape, ...]], bool] | None = None
    if implementation.partial:
        supports = _Trial(implementation).supports
    return _draw_program_case(programs(constructs=constructs, smooth=smooth, supports=supports), kinds)


@final
class _Trial:
    """Tries out whether an implementation has the functions of an expression."""

    def __init__(self, implementation: Implementation) -> None:
        self.implementation = implementation
        self.known: dict[tuple[str, tuple[Shape, ...]], bool] = {}

    def supports(self, text: str, shapes: tuple[Shape, ...]) -> bool:
        """Says whether an expression of arrays of these shapes has a value."""
        if (text, shapes) not in self.known:
            values = {f"a{i}": self.implementation.asarray(np.full(s, 0.3)) for i, s in enumerate(shapes)}
            try:
                eval(text.format(*values), {**self.implementation.namespace, **values})
            except (AttributeError, TypeError, RuntimeError, ValueError, IndexError, NotImplementedError):
                self.known[text, shapes] = False
            else:
                self.known[text, shapes] = True
        return self.known[text, shapes]
