"""Instances of an operation class that cover its parameters, and points to run them at.

The drawing functions of `effx.laws.register` say what an operation takes. Here each is called often enough, always with
the same draws, and instances are selected until every value that a parameter had occurs, and every dtype and shape of
the operands: nothing depends on luck.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import final

import attrs
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from effx import dtypes
from effx.array import Array
from effx.dtypes import DType
from effx.ir.ops.base import Elementwise, Singleton
from effx.ir.types import ArrayType, Shape, array_type
from effx.laws.drawing import (
    BUILDERS,
    AnyOperation,
    Builder,
    Drawn,
    ElementwiseBuilder,
    draw_operands,
    operand_domains,
)
from effx.laws.samples import Domain

TRIED_DTYPES: tuple[DType, ...] = (
    dtypes.float64,
    dtypes.int32,
    dtypes.bool_,
    dtypes.uint8,
    dtypes.complex128,
    dtypes.float32,
)
MOST_INSTANCES = 12  # of a class on the first of its dtypes
FEWER_INSTANCES = 3  # on each of the others
DRAWS, FEWER_DRAWS = 80, 15
SHAPES: tuple[Shape, ...] = ((4,), (), (2, 3), (0,))


_listed: "dict[object, tuple[Instance, ...]]" = {}


@final
@attrs.frozen
class Instance:
    """An operation with the types of its operands, and where these are drawn from.

    Attributes:
        op: the operation.
        types: of its operands.
        domains: for each operand an interval or a function; the last serves for the rest.
    """

    op: AnyOperation
    types: tuple[ArrayType, ...]
    domains: tuple[Domain, ...] = attrs.field(eq=False)

    def operands(self, seed: int) -> tuple[Array, ...]:
        """Draws operands: with few digits, and rarely equal."""
        return draw_operands(self.types, self.domains, seed)

    def domain_of(self, index: int) -> Domain:
        """Returns the domain of an operand."""
        return self.domains[min(index, len(self.domains) - 1)]

    @property
    def is_judged(self) -> bool:
        """True if relations between payloads and values are asked: not about rounded and complex numbers."""
        return all([t.kind not in "fc" or t.dtype == dtypes.float64 for t in self.types])

    @property
    def kind(self) -> str:
        """The letter of the numbers that it computes with: complex ones, else floats, else those of the first operand."""
        kinds = [t.kind for t in self.types]
        return next((k for k in "cf" if k in kinds), kinds[0] if kinds else "")

    @property
    def size(self) -> int:
        """The number of elements of all operands."""
        return sum([t.size for t in self.types])

    def features(self) -> frozenset[object]:
        """Returns what a selection of instances has to cover: values of parameters, dtypes, shapes, and pairs of these."""
        kind = type(self.op)
        parameters = (
            [(f.name, repr(getattr(self.op, f.name))) for f in attrs.fields(kind)] if attrs.has(kind) else []
        )
        shapes = ("shapes", tuple([t.shape for t in self.types]))
        dtypes_ = [(i, t.dtype.name) for i, t in enumerate(self.types)]
        # Pairs too: what is remembered for one value of a parameter must not serve for another on the same operands.
        return frozenset([*parameters, shapes, *dtypes_, *combinations([*parameters, shapes], 2)])


def builder_of(kind: type[AnyOperation]) -> Builder | None:
    """Returns the function that draws instances of a class: the registered one, or that of elementwise operations
    without parameters; None if nothing says how to draw it.
    """
    if kind in BUILDERS:
        return BUILDERS[kind]
    if issubclass(kind, Elementwise) and issubclass(kind, Singleton) and kind.__init__ is object.__init__:
        return ElementwiseBuilder(kind())
    return None


def instances_of(kind: type[AnyOperation]) -> tuple[Instance, ...]:
    """Returns instances of a class, the simplest first: on 64-bit floats, then on integers, bools, complex numbers.

    >>> from effx.handling.ops import ReduceSum
    >>> sorted({instance.op.axes for instance in instances_of(ReduceSum)})
    [(), (0,), (0, 1), (1,)]
    """
    builder = builder_of(kind)
    if builder is None:
        return ()
    key = (kind, builder)
    if key not in _listed:
        _listed[key] = _list_instances(kind, builder)
    return _listed[key]


def _list_instances(kind: type[AnyOperation], builder: Builder) -> tuple[Instance, ...]:
    if isinstance(builder, ElementwiseBuilder):
        return tuple(_list_elementwise(builder.op))
    found: dict[Instance, None] = {}
    for dtype in TRIED_DTYPES:
        # For a dtype that it does not take, a class draws from all of its own.
        drawn = [
            x
            for x in _draw_instances(builder, dtype, FEWER_DRAWS if found else DRAWS)
            if type(x.op) is kind  # a drawing function may be of several classes
            and (not found or (x not in found and dtype in [t.dtype for t in x.types]))
        ]
        found |= dict.fromkeys(_select_covering(drawn, FEWER_INSTANCES if found else MOST_INSTANCES))
    return tuple(found)


def _list_elementwise(op: Elementwise) -> Iterator[Instance]:
    """Yields an elementwise operation on arrays of some shapes, and with numbers for all operands but one."""
    every = [array_type(d) for d in TRIED_DTYPES]
    fitting = [t for t in every if t.kind in op.kinds]
    for number, scalar in enumerate(fitting):
        for shape in SHAPES if number == 0 else SHAPES[:2]:
            yield Instance(op, (scalar.with_shape(shape),) * op.arity, operand_domains(op))
        for i in range(op.arity if op.arity > 1 else 0):
            types = [scalar.with_shape(SHAPES[0]) if k == i else scalar for k in range(op.arity)]
            yield Instance(op, tuple(types), operand_domains(op))


def _draw_instances(builder: Builder, dtype: DType, count: int) -> list[Instance]:
    """Draws instances, the same ones each time: all of them where there are few."""
    found: dict[Instance, None] = {}

    @st.composite
    def draw_one(draw: st.DrawFn) -> Drawn:
        return builder(draw, (dtype,))

    @settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn=draw_one())
    def collect(drawn: Drawn) -> None:
        found[Instance(*drawn)] = None

    collect()
    return list(found)


def _select_covering(drawn: Sequence[Instance], most: int) -> list[Instance]:
    """Selects instances until all features occur: in turn the one with the most new ones, and of these the first."""
    rest = sorted(drawn, key=lambda x: x.size == 0)  # empty ones cover parameters without testing them
    selected: list[Instance] = []
    covered: set[object] = set()
    while rest and len(selected) < most:
        best = max(rest, key=lambda x: len(x.features() - covered))
        if not best.features() - covered:
            break
        rest.remove(best)
        selected.append(best)
        covered |= best.features()
    return selected
