"""Strategies of whole typed programs: functions of arrays with calls, branches and loops, that shrink.

A drawn program *is* its Python source, so a failing law prints the program that ran.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import final

import attrs
import numpy as np
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Array
from effx.errors import TransformError
from effx.ir.types import Shape
from effx.laws.vocabulary import (
    BINARY,
    LIMIT,
    UNARY,
    ExpressionForm,
    ScopeValue,
    joining_forms,
    rearranging_forms,
)
from effx.tree.registry import PyTree

CONSTRUCTS = ("jit", "cond", "scan", "while", "fori", "switch", "map", "checkpoint", "vmap")
SHAPES: tuple[Shape, ...] = ((), (3,), (2, 3), (1,), (4,), (0,), (3, 2))
NAMESPACE: dict[str, object] = {"np": np, "effx": effx, "enp": enp, "lax": lax}
MOST_ELEMENTS = 12
CARRIED = 4.0  # the bound of a loop's carry

Supports = Callable[[str, tuple[Shape, ...]], bool]


@final
@attrs.frozen(eq=False)
class TypedProgram:
    r"""A random function of arrays, as source.

    Attributes:
        source: a Python function `f`, which uses the names `np`, `effx`, `enp` and `lax`.
        shapes: of its parameters.
        dtype: of its parameters.
        known: True if the predicates depend on the last parameter only, which the handler under test never
            boxes.
        names: what the source uses besides, because no source can say it.

    >>> import effx.numpy as enp
    >>> from effx.laws import TypedProgram
    >>> program = TypedProgram("def f(x):\n    return enp.sum(x * 2.0)\n", ((2,),))
    >>> print(program(enp.array([1.0, 2.0])))
    6.0
    """

    source: str
    shapes: tuple[Shape, ...]
    dtype: str = "float64"
    known: bool = False
    names: Mapping[str, object] = attrs.field(factory=dict)
    _function: list[Callable[..., PyTree]] = attrs.field(factory=list, init=False, repr=False)

    def compiled(self, namespace: Mapping[str, object]) -> Callable[..., PyTree]:
        """Returns the function with these globals."""
        names = {**self.names, **namespace}
        exec(compile(self.source, "<effx.laws>", "exec"), names)
        function = names["f"]
        assert callable(function)
        return function

    def __call__(self, *xs: PyTree) -> PyTree:
        """Runs the program."""
        if not self._function:
            self._function.append(self.compiled(NAMESPACE))
        return self._function[0](*xs)

    def __repr__(self) -> str:
        return f"\n{self.source}"

    def at(self, seed: int) -> tuple[Array, ...]:
        """Returns arguments of three digits between -1 and 1."""
        rng = np.random.default_rng(seed)
        with effx.enable_x64(self.dtype in ("float64", "complex128")):
            return tuple([enp.asarray(np.round(rng.uniform(-1, 1, s), 3), self.dtype) for s in self.shapes])


@final
@attrs.frozen
class ProgramOptions:
    """What may occur in a program.

    Attributes:
        constructs: the calls, branches and loops.
        smooth: True for programs with derivatives.
        most_steps: of statements in the program; bodies have fewer.
        depth: of nested bodies.
        shapes: of the arguments.
        most_arguments: how many arguments, at most.
        dtype: of the arguments.
        decided: True if branches and conditions depend on plain values only: a last argument `known`.
        results: how many results, at most.
        supports: says whether a form of expression may be used on these shapes; all if None.
    """

    constructs: tuple[str, ...] = CONSTRUCTS
    smooth: bool = True
    most_steps: int = 4
    depth: int = 2
    shapes: tuple[Shape, ...] = SHAPES
    most_arguments: int = 2
    dtype: str = "float64"
    decided: bool = False
    results: int = 2
    supports: Supports | None = None

    def allows(self, text: str, *shapes: Shape) -> bool:
        """Says whether a form may be used."""
        return self.supports is None or self.supports(text, shapes)


class ProgramWriter:
    """Writes one program while it is drawn."""

    def __init__(self, draw: st.DrawFn, options: ProgramOptions) -> None:
        self.draw, self.options = draw, options
        self.lines: list[str] = []
        self.count = 0

    def fresh_name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def write_line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def pick_value(
        self, scope: Sequence[ScopeValue], fits: Callable[[ScopeValue], bool] = lambda v: True
    ) -> ScopeValue | None:
        """Draws a value of the scope, the latest first."""
        results = [v for v in reversed(scope) if fits(v)]
        return self.draw(st.sampled_from(results)) if results else None

    def write_assignment(
        self, indent: int, scope: list[ScopeValue], text: str, shape: Shape, bound: float
    ) -> ScopeValue:
        """Writes an assignment and returns the new value."""
        value = ScopeValue(self.fresh_name(), shape, bound)
        self.write_line(indent, f"{value.name} = {text}")
        scope.append(value)
        return value

    def write_steps(self, indent: int, scope: list[ScopeValue], depth: int, most: int) -> None:
        """Writes one or more statements."""
        self.write_step(indent, scope, depth)
        for _ in range(most - 1):
            # Drawn before each statement, so that shrinking removes a statement together with its draw.
            if self.draw(st.integers(0, 3)) == 0:
                return
            self.write_step(indent, scope, depth)

    def write_step(self, indent: int, scope: list[ScopeValue], depth: int) -> None:
        """Writes one statement or construct, if one fits."""
        kinds = ["unary", "binary", "moved", "joined"]
        if depth:
            kinds += self.options.constructs
        kind = self.draw(st.sampled_from(kinds))
        if kind == "unary":
            self.write_unary(indent, scope)
        elif kind == "binary":
            self.write_binary(indent, scope)
        elif kind == "moved":
            self.write_moved(indent, scope)
        elif kind == "joined":
            self.write_joined(indent, scope)
        else:
            WRITERS[kind](self, indent, scope, depth - 1)

    def choose_form(self, forms: Sequence[ExpressionForm], *values: ScopeValue) -> list[ExpressionForm]:
        bounds, shapes = [v.bound for v in values], [v.shape for v in values]
        return [
            f
            for f in forms
            if (f.smooth or not self.options.smooth)
            and f.bound(*bounds) <= LIMIT
            and self.options.allows(f.text, *shapes)
        ]

    def write_unary(self, indent: int, scope: list[ScopeValue]) -> None:
        x = self.pick_value(scope)
        if x is not None and (unary_form := self.choose_form(UNARY, x)):
            form = self.draw(st.sampled_from(unary_form))
            self.write_assignment(indent, scope, form.text.format(x.name), x.shape, form.bound(x.bound))

    def write_binary(self, indent: int, scope: list[ScopeValue]) -> None:
        x = self.pick_value(scope)
        y = x and self.pick_value(scope, lambda v: v.shape in (x.shape, ()))
        if x is not None and y is not None and (binary_form := self.choose_form(BINARY, x, y)):
            form = self.draw(st.sampled_from(binary_form))
            self.write_assignment(
                indent, scope, form.text.format(x.name, y.name), x.shape, form.bound(x.bound, y.bound)
            )

    def write_moved(self, indent: int, scope: list[ScopeValue]) -> None:
        x = self.pick_value(scope)
        if x is None:
            return
        results = [
            m
            for m in rearranging_forms(x.shape)
            if len(m.shape) <= 2
            and int(np.prod(m.shape)) <= MOST_ELEMENTS
            and (m.smooth or not self.options.smooth)
            and self.options.allows(m.text, x.shape)
        ]
        if results:
            form = self.draw(st.sampled_from(results))
            self.write_assignment(indent, scope, form.text.format(x.name), form.shape, x.bound * form.factor)

    def write_joined(self, indent: int, scope: list[ScopeValue]) -> None:
        x = self.pick_value(scope)
        y = x and self.pick_value(scope, lambda v: bool(joining_forms(x, v)))
        if x is None or y is None:
            return
        results = [
            m
            for m in joining_forms(x, y)
            if int(np.prod(m.shape)) <= MOST_ELEMENTS
            and m.factor <= LIMIT
            and self.options.allows(m.text, x.shape, y.shape)
        ]
        if results:
            form = self.draw(st.sampled_from(results))
            self.write_assignment(indent, scope, form.text.format(x.name, y.name), form.shape, form.factor)

    def write_body(
        self,
        indent: int,
        parameters: list[ScopeValue],
        outer: Sequence[ScopeValue],
        depth: int,
        want: Shape | None = None,
    ) -> ScopeValue:
        """Writes a function's body, which may close over values; returns its result's value."""
        scope = [*outer, *parameters]
        start = len(scope)
        self.write_steps(indent, scope, depth, 2)
        latest = scope[-1]
        if want is not None and len(scope) > start and latest.shape != want:
            # The last value is summed if the result has another shape.
            text = "{0} + enp.sum({1}) * 0.1"
            base = next(v for v in reversed([*parameters, *scope[start:]]) if v.shape == want)
            bound = base.bound + latest.bound * max(int(np.prod(latest.shape)), 1) * 0.1
            if self.options.allows(text, base.shape, latest.shape):
                self.write_assignment(indent, scope, text.format(base.name, latest.name), want, bound)
        fitting = [v for v in reversed([*parameters, *scope[start:]]) if want is None or v.shape == want]
        result = fitting[0]
        if want is not None and result.bound > CARRIED:
            for text, bound in (("enp.tanh({0})", 1.0), ("{0} * 0.5", result.bound / 2)):
                if bound <= CARRIED and self.options.allows(text, result.shape):
                    return self.write_assignment(indent, scope, text.format(result.name), result.shape, bound)
            return parameters[0]
        return result

    def write_predicate(self, scope: Sequence[ScopeValue]) -> str:
        """Returns the source of a predicate."""
        if self.options.decided:
            return f"known * {self.draw(st.sampled_from([1.0, -1.0, 0.3]))} > 0.1357"
        x = self.pick_value(scope)
        assert x is not None
        return f"enp.sum({x.name}) > 0.1357"


def _write_function(
    writer: ProgramWriter, indent: int, scope: list[ScopeValue], depth: int, decorator: str = ""
) -> None:
    """A function of one or two values, called at once."""
    xs = [
        x for x in [writer.pick_value(scope) for _ in range(writer.draw(st.integers(1, 2)))] if x is not None
    ]
    name = writer.fresh_name("g")
    parameters = [ScopeValue(writer.fresh_name("p"), x.shape, x.bound) for x in xs]
    writer.write_line(indent, decorator)
    writer.write_line(indent, f"def {name}({', '.join(p.name for p in parameters)}):")
    y = writer.write_body(indent + 1, parameters, scope, depth)
    writer.write_line(indent + 1, f"return {y.name}")
    writer.write_assignment(indent, scope, f"{name}({', '.join(x.name for x in xs)})", y.shape, y.bound)


def _write_branches(
    writer: ProgramWriter, indent: int, scope: list[ScopeValue], depth: int, count: int
) -> None:
    x = writer.pick_value(scope, lambda v: v.bound <= CARRIED)
    assert x is not None
    names: list[str] = []
    for _ in range(count):
        names.append(writer.fresh_name("g"))
        p = ScopeValue(writer.fresh_name("p"), x.shape, x.bound)
        writer.write_line(indent, f"def {names[-1]}({p.name}):")
        y = writer.write_body(indent + 1, [p], scope, depth, x.shape)
        writer.write_line(indent + 1, f"return {y.name}")
    if count == 2:
        text = f"lax.cond({writer.write_predicate(scope)}, {', '.join(names)}, {x.name})"
    elif writer.options.decided:
        index = (
            f"enp.floor(known * {writer.draw(st.sampled_from([2.0, -1.5]))} + 0.5357).astype(np.int32) + 1"
        )
        text = f"lax.switch({index}, [{', '.join(names)}], {x.name})"
    else:
        index = f"enp.floor(enp.sin(enp.sum({x.name}) * 3.0) * 2.0 + 0.5357).astype(np.int32) + 1"
        text = f"lax.switch({index}, [{', '.join(names)}], {x.name})"
    writer.write_assignment(indent, scope, text, x.shape, CARRIED)


def _write_scan(writer: ProgramWriter, indent: int, scope: list[ScopeValue], depth: int) -> None:
    """A scan with one to three carries; the next value of each is drawn, as are the outputs."""
    draw = writer.draw
    carried = [writer.pick_value(scope, lambda v: v.bound <= CARRIED) for _ in range(draw(st.integers(1, 3)))]
    inits = [v for v in carried if v is not None]
    rows = (
        writer.pick_value(scope, lambda v: len(v.shape) > 0 and v.shape[0] > 0)
        if draw(st.booleans())
        else None
    )
    length = rows.shape[0] if rows is not None else draw(st.integers(1, 3))
    reverse, unroll = draw(st.booleans()), draw(st.integers(1, 2))
    name, row = writer.fresh_name("g"), writer.fresh_name("r")
    parameters = [ScopeValue(writer.fresh_name("p"), v.shape, CARRIED) for v in inits]
    slices = [ScopeValue(row, rows.shape[1:], rows.bound)] if rows is not None else []
    writer.write_line(indent, f"def {name}(carry, {row}):")
    writer.write_line(indent + 1, f"({', '.join(p.name for p in parameters)},) = carry")
    y = writer.write_body(indent + 1, [*slices, *parameters], scope, depth, inits[0].shape)
    inside = [*scope, *slices, *parameters, y]
    # The first carry becomes the body's value; others stay, are exchanged, or become a closed-over value.
    following = [y, *[writer.pick_value(inside, _can_be_carry(p)) or p for p in parameters[1:]]]
    outputs = [
        v
        for v in [writer.pick_value(inside, _can_be_output) for _ in range(draw(st.integers(0, 2)))]
        if v is not None
    ]
    returned = f"({', '.join(v.name for v in outputs)},)" if outputs else "None"
    writer.write_line(indent + 1, f"return ({', '.join(v.name for v in following)},), {returned}")
    last, stacked = [writer.fresh_name() for _ in inits], [writer.fresh_name() for _ in outputs]
    target = f"({', '.join(stacked)},)" if outputs else "_"
    writer.write_line(
        indent,
        f"({', '.join(last)},), {target} = lax.scan({name}, ({', '.join(v.name for v in inits)},), "
        f"{rows.name if rows is not None else 'None'}, length={length}, reverse={reverse}, unroll={unroll})",
    )
    scope += [ScopeValue(n, (length, *v.shape), v.bound) for n, v in zip(stacked, outputs, strict=True)]
    scope += [ScopeValue(n, v.shape, CARRIED) for n, v in zip(reversed(last), reversed(inits), strict=True)]


def _can_be_carry(parameter: ScopeValue) -> Callable[[ScopeValue], bool]:
    """Says which values may be the next carry."""
    return lambda v: v.shape == parameter.shape and v.bound <= CARRIED


def _can_be_output(v: ScopeValue) -> bool:
    """Says which values a loop may stack."""
    return len(v.shape) < 2 and int(np.prod(v.shape)) <= 4


def _write_while(writer: ProgramWriter, indent: int, scope: list[ScopeValue], depth: int) -> None:
    x = writer.pick_value(scope, lambda v: v.bound <= CARRIED)
    assert x is not None
    more, body, p = (
        writer.fresh_name("g"),
        writer.fresh_name("g"),
        ScopeValue(writer.fresh_name("p"), x.shape, CARRIED),
    )
    limit, bound = writer.draw(st.integers(0, 3)), writer.draw(st.integers(1, 4))
    writer.write_line(indent, f"def {more}(state):")
    rest = "" if writer.options.decided else " & (enp.sum(state[1]) < 1.1357)"
    writer.write_line(indent + 1, f"return (state[0] < {limit}){rest}")
    writer.write_line(indent, f"def {body}(state):")
    writer.write_line(indent + 1, f"i, {p.name} = state")
    y = writer.write_body(indent + 1, [p], scope, depth, x.shape)
    writer.write_line(indent + 1, f"return i + 1, {y.name}")
    writer.write_assignment(
        indent,
        scope,
        f"lax.while_loop({more}, {body}, (enp.int32(0), {x.name}), max_steps={bound})[1]",
        x.shape,
        CARRIED,
    )


def _write_fori(writer: ProgramWriter, indent: int, scope: list[ScopeValue], depth: int) -> None:
    x = writer.pick_value(scope, lambda v: v.bound <= CARRIED)
    assert x is not None
    body, p = writer.fresh_name("g"), ScopeValue(writer.fresh_name("p"), x.shape, CARRIED)
    i = ScopeValue(writer.fresh_name("i"), (), 1.5)
    writer.write_line(indent, f"def {body}(i, {p.name}):")
    writer.write_line(indent + 1, f"{i.name} = (i * 0.5).astype('{writer.options.dtype}')")
    y = writer.write_body(indent + 1, [p], [*scope, i], depth, x.shape)
    writer.write_line(indent + 1, f"return {y.name}")
    steps = writer.draw(st.integers(0, 3))
    writer.write_assignment(indent, scope, f"lax.fori_loop(0, {steps}, {body}, {x.name})", x.shape, CARRIED)


def _write_map(writer: ProgramWriter, indent: int, scope: list[ScopeValue], depth: int, text: str) -> None:
    x = writer.pick_value(scope, lambda v: len(v.shape) > 0 and v.shape[0] > 0)
    if x is None:
        return
    name, p = writer.fresh_name("g"), ScopeValue(writer.fresh_name("p"), x.shape[1:], x.bound)
    writer.write_line(indent, f"def {name}({p.name}):")
    y = writer.write_body(indent + 1, [p], scope, depth, p.shape)
    writer.write_line(indent + 1, f"return {y.name}")
    writer.write_assignment(indent, scope, text.format(name, x.name), x.shape, max(x.bound, CARRIED))


WRITERS: dict[str, Callable[[ProgramWriter, int, list[ScopeValue], int], None]] = {
    "jit": lambda w, indent, scope, depth: _write_function(w, indent, scope, depth, "@effx.jit"),
    "checkpoint": lambda w, indent, scope, depth: _write_function(
        w, indent, scope, depth, "@effx.checkpoint"
    ),
    "cond": lambda w, indent, scope, depth: _write_branches(w, indent, scope, depth, 2),
    "switch": lambda w, indent, scope, depth: _write_branches(w, indent, scope, depth, 3),
    "scan": _write_scan,
    "while": _write_while,
    "fori": _write_fori,
    "map": lambda w, indent, scope, depth: _write_map(w, indent, scope, depth, "lax.map({0}, {1})"),
    "vmap": lambda w, indent, scope, depth: _write_map(w, indent, scope, depth, "effx.vmap({0})({1})"),
}


@st.composite
def _draw_program(draw: st.DrawFn, options: ProgramOptions) -> TypedProgram:
    shapes = draw(st.lists(st.sampled_from(options.shapes), min_size=1, max_size=options.most_arguments))
    writer = ProgramWriter(draw, options)
    scope = [ScopeValue(f"x{i}", s, 1.0) for i, s in enumerate(shapes)]
    names = [v.name for v in scope]
    if options.decided:
        shapes, names = [*shapes, ()], [*names, "known"]
    writer.write_line(0, f"def f({', '.join(names)}):")
    writer.write_steps(1, scope, options.depth, options.most_steps)
    results = [scope[-1].name]
    if options.results > 1 and draw(st.booleans()):
        results.append(draw(st.sampled_from(scope)).name)
    writer.write_line(1, f"return {', '.join(results)}{',' if options.results > 1 else ''}")
    return TypedProgram("\n".join(writer.lines), tuple(shapes), options.dtype, options.decided)


def programs(
    constructs: Sequence[str] = CONSTRUCTS,
    smooth: bool = True,
    most_steps: int = 4,
    depth: int = 2,
    shapes: Sequence[Shape] = SHAPES,
    most_arguments: int = 2,
    dtype: str = "float64",
    decided: bool = False,
    results: int = 2,
    supports: Supports | None = None,
) -> st.SearchStrategy[TypedProgram]:
    """Draws functions of arrays: typed, and total on arguments between -1 and 1.

    Args:
        constructs: which of `CONSTRUCTS` may occur; none for straight-line code.
        smooth: True for programs that can be differentiated.
        most_steps: how many statements; bodies of loops and branches have one or two.
        depth: how deep bodies nest.
        shapes: what shapes arguments have.
        most_arguments: how many arguments.
        dtype: a floating dtype, of all values.
        decided: True if branches and conditions depend on no argument but the last, `known`.
        results: 1 for functions that return an array, 2 for functions that return a tuple of one or two.
        supports: `(form, shapes) -> bool` says which forms of expression may occur.

    Raises:
        TransformError: a construct is unknown.

    >>> import effx
    >>> from hypothesis import find
    >>> with effx.enable_x64(True):
    ...     found = find(programs(), lambda f: "lax.scan" in f.source)
    >>> found.source.startswith("def f(x0"), "lax.scan" in found.source
    (True, True)
    """
    strange = [c for c in constructs if c not in CONSTRUCTS]
    if strange:
        raise TransformError(f"programs: constructs are {', '.join(CONSTRUCTS)}; got {strange[0]!r}")
    options = ProgramOptions(
        tuple(constructs),
        smooth,
        most_steps,
        depth,
        tuple(shapes),
        most_arguments,
        dtype,
        decided,
        results,
        supports,
    )
    return _draw_program(options)


def points(program: TypedProgram) -> st.SearchStrategy[tuple[Array, ...]]:
    r"""Draws arguments of a program, numbers of three digits between -1 and 1.

    Args:
        program: drawn by `programs`.

    >>> from hypothesis import find
    >>> from effx.laws import TypedProgram, points
    >>> program = TypedProgram("def f(x):\n    return enp.sin(x)\n", ((2,),))
    >>> x, = find(points(program), lambda point: True)
    >>> x.shape, bool((abs(x) <= 1.0).all())
    ((2,), True)
    """
    return st.integers(0, 99).map(program.at)


@st.composite
def _draw_case(draw: st.DrawFn, strategy: st.SearchStrategy[TypedProgram]) -> tuple[object, ...]:
    program = draw(strategy)
    return program, draw(points(program))


def cases(strategy: st.SearchStrategy[TypedProgram]) -> st.SearchStrategy[tuple[object, ...]]:
    r"""Draws a program with a point: the arguments `(f, xs)` of most laws.

    >>> from hypothesis import find, strategies as st
    >>> from effx.laws import TypedProgram, cases
    >>> program = TypedProgram("def f(x):\n    return enp.sin(x)\n", ((2,),))
    >>> f, xs = find(cases(st.just(program)), lambda case: True)
    >>> f is program, [x.shape for x in xs]
    (True, [(2,)])
    """
    return _draw_case(strategy)
