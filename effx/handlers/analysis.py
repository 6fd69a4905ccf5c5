"""Handlers of whole programs: what flows through one forward, or backward from its results.

A boxing handler sees operations as they are performed. An analysis gets a staged program, so that it can also walk
against the flow, stop, and come back. It attaches a fact of type `V` to each variable. Forward, a rule
makes the results' facts from the operands'; backward, it makes the operands' facts from the results', and what a
value is used for several times is joined.

Loops are walked until the facts of what they carry no longer change: `join` must then only go up, and `height`
bounds the number of rounds.

Never: perform an operation, unless a rule does.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

import attrs
import numpy as np

from effx.array import Array
from effx.effects import Operation, scope_within
from effx.errors import NoRuleError, TransformError, source_of
from effx.handlers.ruled import Rules, check_classes
from effx.ir.ops.control import Cond, HigherOrder, Scan, While
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Atom, Equation, Literal, Program, Var
from effx.ir.types import ArrayType

__all__ = ["Analysis", "Backward", "Forward", "Place", "places"]

V = TypeVar("V")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - the literature's name
Facts = tuple[V, ...]


@attrs.frozen(eq=False)
class Place:
    """Where an analysis is: one equation of a program, and the programs around it.

    Attributes:
        equation: with operation, operands and results.
        path: names of the programs around, outermost first.
        scopes: names of the `named_scope`s around, outermost first, joined by `/`.
        repeats: how often it is performed when the outermost program runs once; of branches, once each.
        share: how likely it is performed, if all branches of a cond are equally so.
        unbounded: True inside a while loop, of which `repeats` counts one turn.
    """

    equation: Equation
    path: tuple[str, ...] = ()
    scopes: str = ""
    repeats: int = 1
    share: float = 1.0
    unbounded: bool = False

    @property
    def op(self) -> Operation[object]:
        """The operation."""
        return self.equation.op

    @property
    def types(self) -> tuple[ArrayType, ...]:
        """The operands' types."""
        return tuple([x.type for x in self.equation.inputs])

    @property
    def result_types(self) -> tuple[ArrayType, ...]:
        """The results' types."""
        return tuple([v.type for v in self.equation.outputs])

    @property
    def constants(self) -> tuple[np.ndarray[Any, Any] | None, ...]:
        """For each operand its value, where the program has it written down; None elsewhere."""
        return tuple(
            [np.asarray(x.value, x.type.dtype) if type(x) is Literal else None for x in self.equation.inputs]
        )

    @property
    def line(self) -> str:
        """The user's line, such as `train.py:12 in loss`."""
        return source_of(self.equation.source)

    def at(self, equation: Equation) -> "Place":
        """Returns the place of another equation of the same program."""
        return attrs.evolve(self, equation=equation, scopes=scope_within(self.scopes, equation.scope))

    def inside(self, program: Program) -> "Place":
        """Returns where a program that the operation holds is: its equations are `at` it."""
        op = self.op
        return attrs.evolve(
            self,
            path=(*self.path, program.name),
            repeats=self.repeats
            * (op.length if isinstance(op, Scan) else op.size if isinstance(op, ParallelMap) else 1),
            share=self.share / (len(op.branches) if isinstance(op, Cond) else 1),
            unbounded=self.unbounded or isinstance(op, While),
        )


def places(program: Program) -> list[Place]:
    """Lists all equations of a program and of those that it holds, in order; a holder comes before what it holds.

    >>> import effx, effx.numpy as enp
    >>> step = lambda c, x: (c * x, enp.sin(c))
    >>> program = effx.make_jaxpr(lambda x: effx.lax.scan(step, 1.0, x))(enp.ones(3))
    >>> [(p.op.name, p.repeats) for p in places(program)]
    [('scan', 1), ('mul', 3), ('sin', 3)]

    Raises:
        TransformError: it is no program.
    """
    if not isinstance(program, Program):
        raise TransformError(
            f"places: expected a staged program, got {program!r}; effx.make_jaxpr(f)(*args) gives one"
        )
    return _listed(Place(Equation(_NOTHING, (), ()), (program.name,)), program)


class _Nothing(Operation[object]):
    """Stands in a place that is at no equation yet."""


_NOTHING = _Nothing()


def _listed(around: Place, program: Program) -> list[Place]:
    found: list[Place] = []
    for e in program.equations:
        place = around.at(e)
        found.append(place)
        if isinstance(e.op, HigherOrder):
            for held in e.op.programs:
                found += _listed(place.inside(held), held)
    return found


class Analysis(Generic[V]):
    """What forward and backward analyses share: rules, facts of constants, and how facts meet.

    Attributes:
        height: how often the facts of what a loop carries may change before it is an error.
    """

    height: ClassVar[int] = 64
    rules: ClassVar["Rules[Callable[..., Any]]"] = Rules("analysis")

    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        base = next(k for k in cls.__mro__[1:] if issubclass(k, Analysis))
        cls.rules = Rules(cls.__name__, base.rules)

    @classmethod
    def rule(cls, *kinds: type[O]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Registers a rule for operation classes, base classes or traits.

        Raises:
            TransformError: there are no classes, or something is no operation class.
        """
        check_classes(cls.__name__, kinds)
        return cls.rules.register(*kinds)

    def literal(self, value: object, type: ArrayType) -> V:
        """Returns the fact of a number that is written down.

        Raises:
            TransformError: the analysis does not say.
        """
        raise TransformError(f"{self._name}: define literal(value, type), the fact of a number")

    def join(self, a: V, b: V) -> V:
        """Returns the fact that holds of both: of what branches give, of each turn of a loop, of all uses.

        Raises:
            TransformError: the analysis does not say.
        """
        raise TransformError(f"{self._name}: two facts meet; define join(a, b)")

    def unstack(self, fact: V, type: ArrayType) -> V:
        """Returns the fact of a slice from that of the whole, whose type is given; by default the same."""
        return fact

    def stack(self, fact: V, type: ArrayType) -> V:
        """Returns the fact of slices put together, from that of one, whose type is given; by default the same."""
        return fact

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _rule(self, place: Place) -> Callable[..., Any]:
        rule = self.rules.find(type(place.op))
        if rule is None:
            raise NoRuleError(f"{self._name}: no rule for {place.op.name} at {place.line}")
        return rule

    def _joined(self, many: Sequence[Facts[V]]) -> Facts[V]:
        """Joins the facts of several walks, place by place."""
        result = many[0]
        for other in many[1:]:
            result = tuple([a if a is b else self.join(a, b) for a, b in zip(result, other, strict=True)])
        return result

    def _settle(self, step: Callable[[Facts[V]], Facts[V]], start: Facts[V], what: str) -> Facts[V]:
        """Finds the fix-point of what a loop carries."""
        facts = start
        for _ in range(self.height):
            wider = self._joined([facts, step(facts)])
            if wider == facts:
                return facts
            facts = wider
        raise TransformError(
            f"{self._name}: the facts of what {what} carries keep changing after {self.height} rounds"
        )

    def _plain_program(self, op: HigherOrder, place: Place) -> Program:
        """Returns the one program of an operation that passes its operands and results on."""
        programs = op.programs
        t = place
        if (
            len(programs) != 1
            or len(programs[0].inputs) != len(t.types)
            or len(programs[0].outputs) != len(t.result_types)
        ):
            raise NoRuleError(
                f"{self._name}: no rule for {op.name} at {place.line}, whose programs it cannot go into"
            )
        return programs[0]


class Forward(Analysis[V]):
    """An analysis along the flow. Rules: `(place, op, *facts) -> fact`, or a tuple for several results.

    >>> import effx, effx.numpy as enp
    >>> from effx.ir.ops.base import Elementwise
    >>> from effx.ir.ops.elementwise import Mul
    >>> class Degree(Forward[int]):
    ...     "The degree of a polynomial."
    ...     def literal(self, value, type): return 0
    ...     def join(self, a, b): return max(a, b)
    >>> _ = Degree.rule(Elementwise)(lambda place, op, *degrees: max(degrees))
    >>> _ = Degree.rule(Mul)(lambda place, op, a, b: a + b)
    >>> Degree().run(effx.make_jaxpr(effx.jit(lambda x: (x * x + 1.0) * x))(1.0), 1)
    (3,)
    """

    def run(self, program: Program, *facts: V) -> Facts[V]:
        """Walks a program.

        Args:
            program: staged; its constants are its first inputs.
            facts: of the inputs behind the constants.

        Returns:
            The facts of the outputs.
        """
        known = [self.constant(x) for x in program.constants]
        if len(known) + len(facts) != len(program.inputs):
            raise TransformError(
                f"{self._name}: {program.name} takes {len(program.inputs) - len(known)} inputs, got {len(facts)} facts"
            )
        around = Place(Equation(_NOTHING, (), ()), (program.name,))
        return self.walk(around, program, (*known, *facts))

    def constant(self, x: Array) -> V:
        """Returns the fact of an array that the function closed over; by default that of a number, without a value."""
        return self.literal(None, x.type)

    def decides(self, fact: V) -> int | None:
        """Returns the index of the branch that a fact says is taken; None if it does not say."""
        return None

    def walk(self, around: Place, program: Program, facts: Facts[V]) -> Facts[V]:
        """Walks a program that stands at a place."""
        env: dict[Var, V] = dict(zip(program.inputs, facts, strict=True))

        def read(atom: Atom) -> V:
            return env[atom] if type(atom) is Var else self.literal(atom.value, atom.type)

        for e in program.equations:
            found = self.step(around.at(e), tuple(map(read, e.inputs)))
            env.update(zip(e.outputs, found, strict=True))
        return tuple(map(read, program.outputs))

    def step(self, place: Place, facts: Facts[V]) -> Facts[V]:
        """Goes through one equation."""
        op = place.op
        if self.rules.find(type(op)) is None and isinstance(op, HigherOrder):
            return self._inside(place, op, facts)
        result = self._rule(place)(place, op, *facts)
        return cast("Facts[V]", result) if op.multiple else (result,)

    def _inside(self, place: Place, op: HigherOrder, facts: Facts[V]) -> Facts[V]:
        if isinstance(op, Cond):
            chosen = self.decides(facts[0])
            branches = op.branches if chosen is None else (op.taken(chosen),)
            return self._joined([self.walk(place.inside(p), p, facts[1:]) for p in branches])
        if isinstance(op, While):
            c = op.constants
            carry = self._settle(
                lambda carry: self.walk(place.inside(op.body), op.body, (*facts[:c], *carry)),
                facts[c:],
                op.body.name,
            )
            self.walk(place.inside(op.condition), op.condition, (*facts[:c], *carry))
            return carry
        if isinstance(op, Scan):
            c, n = op.constants, op.constants + op.carries
            rows = tuple([self.unstack(f, t) for f, t in zip(facts[n:], place.types[n:], strict=True)])

            def turn(carry: Facts[V]) -> Facts[V]:
                return self.walk(place.inside(op.body), op.body, (*facts[:c], *carry, *rows))

            carry = self._settle(lambda carry: turn(carry)[: op.carries], facts[c:n], op.body.name)
            outputs = turn(carry)[op.carries :]
            types = op.body.out_types[op.carries :]
            return (*carry, *[self.stack(f, t) for f, t in zip(outputs, types, strict=True)])
        program = self._plain_program(op, place)
        if isinstance(op, ParallelMap):
            given = [
                self.unstack(f, t) if m else f
                for f, t, m in zip(facts, place.types, op.mapped_in, strict=True)
            ]
            found = self.walk(place.inside(program), program, tuple(given))
            return tuple(
                [
                    self.stack(f, t) if m else f
                    for f, t, m in zip(found, program.out_types, op.mapped_out, strict=True)
                ]
            )
        return self.walk(place.inside(program), program, facts)


class Backward(Analysis[V]):
    """An analysis against the flow. Rules: `(place, op, results, operands) -> facts of the operands`.

    `results` and `operands` are tuples of the facts that are known so far; `unknown` where there is none.

    >>> import effx, effx.numpy as enp
    >>> from effx.ir.ops.elementwise import Exp, Log, Mul
    >>> class Inverse(Backward["effx.Array | None"]):
    ...     "Solves y = f(x) for x, where each operation can be undone."
    ...     def literal(self, value, type): return enp.asarray(value, type.dtype)
    ...     def unknown(self, type): return None
    ...     def join(self, a, b): return b if a is None else a
    >>> _ = Inverse.rule(Exp)(lambda place, op, results, operands: (Log()(results[0]),))
    >>> @Inverse.rule(Mul)
    ... def _(place, op, results, operands):
    ...     (z,), (x, y) = results, operands
    ...     return (z / y if x is None else x, z / x if y is None else y)
    >>> f = effx.jit(lambda x: enp.exp(x * 2.0) * 3.0)
    >>> x, = Inverse().run(effx.make_jaxpr(f)(0.0), f(0.5))
    >>> print(f"{x:.3f}")
    0.500
    """

    def unknown(self, type: ArrayType) -> V:
        """Returns the fact of a value of which nothing is known: that nothing uses, say.

        Raises:
            TransformError: the analysis does not say.
        """
        raise TransformError(f"{self._name}: define unknown(type), the fact of a value that nothing uses")

    def ahead(self, place: Place, operands: Facts[V]) -> Facts[V] | None:
        """Returns facts of results that follow from the operands alone, before the way back; None for none."""
        return None

    def deciding(self, fact: V) -> V:
        """Returns the fact of a value that decides between branches or ends a loop; by default as it is."""
        return fact

    def constant(self, x: Array) -> V:
        """Returns what is known beforehand of an array that the function closed over; by default nothing."""
        return self.unknown(x.type)

    def run(self, program: Program, *results: V, known: Sequence[V] | None = None) -> Facts[V]:
        """Walks a program from its end.

        Args:
            program: staged.
            results: the facts of the outputs.
            known: what is known of the inputs behind the constants beforehand; by default nothing.

        Returns:
            The facts of the inputs behind the constants.
        """
        if len(results) != len(program.outputs):
            raise TransformError(
                f"{self._name}: {program.name} gives {len(program.outputs)} results, got {len(results)} facts"
            )
        k = len(program.constants)
        types = program.in_types[k:]
        given = [self.unknown(t) for t in types] if known is None else list(known)
        if len(given) != len(types):
            raise TransformError(
                f"{self._name}: {program.name} takes {len(types)} inputs, known has {len(given)} facts"
            )
        start = (*[self.constant(x) for x in program.constants], *given)
        around = Place(Equation(_NOTHING, (), ()), (program.name,))
        return self.walk(around, program, results, start)[k:]

    def walk(self, around: Place, program: Program, results: Facts[V], operands: Facts[V]) -> Facts[V]:
        """Walks a program that stands at a place; returns the facts of all its inputs."""
        env: dict[Var, V] = dict(zip(program.inputs, operands, strict=True))

        def read(atom: Atom) -> V:
            if type(atom) is Var:
                return env[atom] if atom in env else self.unknown(atom.type)
            return self.literal(atom.value, atom.type)

        def meet(atom: Atom, fact: V) -> None:
            if type(atom) is Var:
                env[atom] = self.join(env[atom], fact) if atom in env else fact

        for e in program.equations:
            found = self.ahead(around.at(e), tuple(map(read, e.inputs)))
            if found is not None:
                env.update(zip(e.outputs, found, strict=True))
        for atom, fact in zip(program.outputs, results, strict=True):
            meet(atom, fact)
        for e in reversed(program.equations):
            facts = self.step(around.at(e), tuple(map(read, e.outputs)), tuple(map(read, e.inputs)))
            for atom, fact in zip(e.inputs, facts, strict=True):
                meet(atom, fact)
        return tuple(map(read, program.inputs))

    def step(self, place: Place, results: Facts[V], operands: Facts[V]) -> Facts[V]:
        """Goes back through one equation."""
        op = place.op
        if self.rules.find(type(op)) is None and isinstance(op, HigherOrder):
            return self._inside(place, op, results, operands)
        return tuple(self._rule(place)(place, op, results, operands))

    def _inside(self, place: Place, op: HigherOrder, results: Facts[V], operands: Facts[V]) -> Facts[V]:
        if isinstance(op, Cond):
            return (
                self.deciding(operands[0]),
                *self._joined([self.walk(place.inside(p), p, results, operands[1:]) for p in op.branches]),
            )
        if isinstance(op, While):
            c = op.constants

            def turn(carry: Facts[V]) -> Facts[V]:
                return self.walk(
                    place.inside(op.body), op.body, carry, (*operands[:c], *self._blank(op.body, c))
                )

            asked = self.walk(
                place.inside(op.condition),
                op.condition,
                (self.deciding(self.unknown(op.condition.out_types[0])),),
                (*operands[:c], *self._blank(op.body, c)),
            )
            carry = self._settle(
                lambda carry: turn(carry)[c:], self._joined([results, asked[c:]]), op.body.name
            )
            return (*self._joined([turn(carry)[:c], asked[:c]]), *carry)
        if isinstance(op, Scan):
            c, n = op.constants, op.constants + op.carries
            outputs = tuple(
                [
                    self.unstack(f, t)
                    for f, t in zip(results[op.carries :], place.result_types[op.carries :], strict=True)
                ]
            )

            def row(carry: Facts[V]) -> Facts[V]:
                start = (*operands[:c], *self._blank(op.body, c))
                return self.walk(place.inside(op.body), op.body, (*carry, *outputs), start)

            carry = self._settle(lambda carry: row(carry)[c:n], results[: op.carries], op.body.name)
            found = row(carry)
            slices = [self.stack(f, t) for f, t in zip(found[n:], op.body.in_types[n:], strict=True)]
            return (*found[:c], *carry, *slices)
        program = self._plain_program(op, place)
        if isinstance(op, ParallelMap):
            given = tuple(
                [
                    self.unstack(f, t) if m else f
                    for f, t, m in zip(operands, place.types, op.mapped_in, strict=True)
                ]
            )
            ends = tuple(
                [
                    self.unstack(f, t) if m else f
                    for f, t, m in zip(results, place.result_types, op.mapped_out, strict=True)
                ]
            )
            found = self.walk(place.inside(program), program, ends, given)
            return tuple(
                [
                    self.stack(f, t) if m else f
                    for f, t, m in zip(found, program.in_types, op.mapped_in, strict=True)
                ]
            )
        return self.walk(place.inside(program), program, results, operands)

    def _blank(self, body: Program, constants: int) -> Facts[V]:
        """Facts of a loop's inputs behind its constants at the beginning of a turn."""
        return tuple([self.unknown(t) for t in body.in_types[constants:]])
