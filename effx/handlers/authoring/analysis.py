"""Analyses of whole programs, forward from the inputs or backward from the results. A boxing handler sees
operations as they are performed. An analysis gets a staged program, so it can also go backward. It computes a
fact of type `V` for each variable. A forward rule computes the results' facts from the operands'; a backward
rule the operands' from the results', and the facts of several uses of a value are joined. The facts of a
loop's carry are a fix-point: `join` must be an upper bound, and `height` bounds the number of iterations to it.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar, cast

import attrs
import numpy as np

from effx.array import Array
from effx.effects import Operation, scope_transformations, scope_within, user_scope
from effx.errors import NoRuleError, Source, TransformError, active_source, explain_rule_error, source_of
from effx.handlers.authoring.rule_handler import HandlerRules, check_classes
from effx.ir.flow import Flow
from effx.ir.ops.control import Cond, HigherOrder, Region, Scan, While
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Atom, Equation, Literal, Program, Var
from effx.ir.types import ArrayType

V = TypeVar("V")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - the literature's name
Facts = tuple[V, ...]


@attrs.frozen(eq=False)
class Place:
    """The location of an equation: its program, and the enclosing programs.

    Attributes:
        equation: with operation, operands and results.
        path: names of the enclosing programs, outermost first.
        scopes: the name stack, outermost name first, joined by `/`.
        repeats: how often it is performed when the outermost program runs once; of branches, once each.
        share: the probability that it is performed, if all branches of a cond are equally likely.
        unbounded: True inside a while loop, of which `repeats` counts one iteration.
        transformations: the derivatives and batches that perform it, as `Site.transformations`.

    >>> import effx
    >>> from effx.handling import places
    >>> program = effx.make_jaxpr(lambda x: effx.lax.fori_loop(0, 5, lambda i, x: x * 2.0, x))(1.0)
    >>> [(place.repeats, place.constants) for place in places(program) if place.op.name == "mul"]
    [(5, (None, array(2., dtype=float32)))]
    """

    equation: Equation
    path: tuple[str, ...] = ()
    scopes: str = ""
    repeats: int = 1
    share: float = 1.0
    unbounded: bool = False
    transformations: tuple[str, ...] = ()

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
        """For each operand its value if it is a literal, else None."""
        return tuple(
            [np.asarray(x.value, x.type.dtype) if type(x) is Literal else None for x in self.equation.inputs]
        )

    @property
    def scope(self) -> str:
        """The name stack, as `Site.scope`."""
        return self.scopes

    @property
    def source(self) -> Source:
        """The user's source location, as `Site.source`."""
        return self.equation.source

    @property
    def line(self) -> str:
        """The user's line, such as `train.py:12 in loss`."""
        return source_of(self.equation.source)

    def at(self, equation: Equation) -> "Place":
        """Returns the location of another equation of the same program."""
        return attrs.evolve(
            self,
            equation=equation,
            scopes=scope_within(self.scopes, user_scope(equation.scope)),
            transformations=(*self.transformations, *scope_transformations(equation.scope)),
        )

    def inside(self, program: Program) -> "Place":
        """Returns the location of a program that the operation holds; its equations are `at` it."""
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
    """Lists all equations of a program and of the programs in it, in order; an operation comes before the
    equations of its programs.

    >>> import effx, effx.numpy as enp
    >>> step = lambda c, x: (c * x, enp.sin(c))
    >>> program = effx.make_jaxpr(lambda x: effx.lax.scan(step, 1.0, x))(enp.ones(3))
    >>> [(p.op.name, p.repeats) for p in places(program)]
    [('scan', 1), ('mul', 3), ('sin', 3)]

    Raises:
        TransformError: `program` is no program.
    """
    if not isinstance(program, Program):
        raise TransformError(
            f"places: expected a staged program, got {program!r}; effx.make_jaxpr(f)(*args) gives one"
        )
    return _list_places(Place(Equation(_NO_OPERATION, (), ()), (program.name,)), program)


class _NoOperation(Operation[object]):
    """The operation of a location without an equation."""


_NO_OPERATION = _NoOperation()


def _list_places(outer: Place, program: Program) -> list[Place]:
    listed: list[Place] = []
    for e in program.equations:
        place = outer.at(e)
        listed.append(place)
        if isinstance(e.op, HigherOrder):
            for program_inside in e.op.programs:
                listed += _list_places(place.inside(program_inside), program_inside)
    return listed


class Analysis(Flow[V]):
    """The base of forward and backward analyses: rules, facts of constants, and joins."""

    rules: ClassVar["HandlerRules[Callable[..., Any]]"] = HandlerRules("analysis")

    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        base = next(k for k in cls.__mro__[1:] if issubclass(k, Analysis))
        cls.rules = HandlerRules(cls.__name__, base.rules)

    @classmethod
    def rule(cls, *kinds: type[O]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Registers a rule for operation classes, base classes or traits.

        Raises:
            TransformError: there are no classes, or something is no operation class.
        """
        check_classes(cls.__name__, kinds)
        return cls.rules.register_function(*kinds)

    def literal(self, value: object, type: ArrayType) -> V:
        """Returns the fact of a literal.

        Raises:
            TransformError: the analysis does not define it.
        """
        raise TransformError(f"{self._name}: define literal(value, type), the fact of a number")

    def _apply_rule(self, place: Place, *arguments: object) -> Any:
        rule = self.rules.find(type(place.op))
        if rule is None:
            raise NoRuleError(f"{self._name}: no rule for {place.op.name} at {place.line}")
        outer_source = active_source.get()
        try:
            active_source.set(place.equation.source or outer_source)
            return rule(place, place.op, *arguments)
        except Exception as error:
            explain_rule_error(error, rule, f"{self._name}: the rule for {place.op.name}")
            raise
        finally:
            active_source.set(outer_source)

    def _closed_program_error(self, place: Place) -> NoRuleError:
        """Returns the error for an operation without a rule whose programs the analysis cannot enter."""
        return NoRuleError(
            f"{self._name}: no rule for {place.op.name} at {place.line}, whose programs it cannot go into"
        )


class Forward(Analysis[V]):
    """A forward analysis. Rules: `(place, op, *facts) -> fact`, or a tuple for several results.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling.ops import Elementwise, Mul
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
            facts: the facts of the inputs after the constants.

        Returns:
            The facts of the outputs.
        """
        known = [self.constant(x) for x in program.constants]
        if len(known) + len(facts) != len(program.inputs):
            raise TransformError(
                f"{self._name}: {program.name} takes {len(program.inputs) - len(known)} inputs, got {len(facts)} facts"
            )
        around = Place(Equation(_NO_OPERATION, (), ()), (program.name,))
        return self.walk(around, program, (*known, *facts))

    def constant(self, x: Array) -> V:
        """Returns the fact of a closed-over array; by default that of a literal without a value."""
        return self.literal(None, x.type)

    def walk(self, around: Place, program: Program, facts: Facts[V]) -> Facts[V]:
        """Walks a program at a location."""
        env: dict[Var, V] = dict(zip(program.inputs, facts, strict=True))

        def read(atom: Atom) -> V:
            return env[atom] if type(atom) is Var else self.literal(atom.value, atom.type)

        for e in program.equations:
            results = self.step(around.at(e), tuple(map(read, e.inputs)))
            env.update(zip(e.outputs, results, strict=True))
        return tuple(map(read, program.outputs))

    def step(self, place: Place, facts: Facts[V]) -> Facts[V]:
        """Computes the facts of one equation's results."""
        op = place.op
        if self.rules.find(type(op)) is None and isinstance(op, HigherOrder):
            results = self.through(
                place.equation, facts, lambda program, given: self.walk(place.inside(program), program, given)
            )
            if results is None:
                raise self._closed_program_error(place)
            return results
        result = self._apply_rule(place, *facts)
        return cast("Facts[V]", result) if op.multiple else (result,)


class Backward(Analysis[V]):
    """A backward analysis. Rules: `(place, op, results, operands) -> facts of the operands`.

    `results` and `operands` are tuples of the facts that are known so far, or `unknown`.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling.ops import Exp, Log, Mul
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
        """Returns the fact of a value without information, such as one that is not used.

        Raises:
            TransformError: the analysis does not define it.
        """
        raise TransformError(f"{self._name}: define unknown(type), the fact of a value that nothing uses")

    def ahead(self, place: Place, operands: Facts[V]) -> Facts[V] | None:
        """Returns facts of results from those of the operands, before the backward step; None for none."""
        return None

    def deciding(self, fact: V) -> V:
        """Returns the fact of a predicate or a condition; by default unchanged."""
        return fact

    def constant(self, x: Array) -> V:
        """Returns the initial fact of a closed-over array; by default none."""
        return self.unknown(x.type)

    def run(self, program: Program, *results: V, known: Sequence[V] | None = None) -> Facts[V]:
        """Walks a program from its end.

        Args:
            program: staged.
            results: the facts of the outputs.
            known: initial facts of the inputs after the constants; by default none.

        Returns:
            The facts of the inputs after the constants.
        """
        if len(results) != len(program.outputs):
            raise TransformError(
                f"{self._name}: {program.name} gives {len(program.outputs)} results, got {len(results)} facts"
            )
        k = len(program.constants)
        types = program.in_types[k:]
        initial_facts = [self.unknown(t) for t in types] if known is None else list(known)
        if len(initial_facts) != len(types):
            raise TransformError(
                f"{self._name}: {program.name} takes {len(types)} inputs, known has {len(initial_facts)} facts"
            )
        start = (*[self.constant(x) for x in program.constants], *initial_facts)
        around = Place(Equation(_NO_OPERATION, (), ()), (program.name,))
        return self.walk(around, program, results, start)[k:]

    def walk(self, around: Place, program: Program, results: Facts[V], operands: Facts[V]) -> Facts[V]:
        """Walks a program at a location; returns the facts of all its inputs."""
        env: dict[Var, V] = dict(zip(program.inputs, operands, strict=True))

        def read(atom: Atom) -> V:
            if type(atom) is Var:
                return env[atom] if atom in env else self.unknown(atom.type)
            return self.literal(atom.value, atom.type)

        def meet(atom: Atom, fact: V) -> None:
            if type(atom) is Var:
                env[atom] = self.join(env[atom], fact) if atom in env else fact

        for e in program.equations:
            results_ahead = self.ahead(around.at(e), tuple(map(read, e.inputs)))
            if results_ahead is not None:
                env.update(zip(e.outputs, results_ahead, strict=True))
        for atom, fact in zip(program.outputs, results, strict=True):
            meet(atom, fact)
        for e in reversed(program.equations):
            facts = self.step(around.at(e), tuple(map(read, e.outputs)), tuple(map(read, e.inputs)))
            for atom, fact in zip(e.inputs, facts, strict=True):
                meet(atom, fact)
        return tuple(map(read, program.inputs))

    def step(self, place: Place, results: Facts[V], operands: Facts[V]) -> Facts[V]:
        """Computes the facts of one equation's operands."""
        op = place.op
        if self.rules.find(type(op)) is None and isinstance(op, HigherOrder):
            return self._walk_regions(place, results, operands)
        return tuple(self._apply_rule(place, results, operands))

    def _walk_regions(self, place: Place, results: Facts[V], operands: Facts[V]) -> Facts[V]:
        regions = self._regions(place.equation)
        if not regions:
            raise self._closed_program_error(place)
        operand_facts = self._join_facts(
            [self._walk_region(place, region, results, operands) for region in regions]
        )
        head = operands[: regions[0].skipped]
        return (*([self.deciding(x) for x in head] if isinstance(place.op, Cond) else head), *operand_facts)

    def _walk_region(self, place: Place, region: Region, results: Facts[V], operands: Facts[V]) -> Facts[V]:
        """Walks a nested program backward; returns the facts of its operands."""
        program = region.program
        inputs = region.group_operands(self._operand_facts(place.equation, region, operands))
        # A loop's carry is unknown at the beginning of an iteration.
        blank = tuple([self.unknown(t) for t in region.group_inputs(program.in_types).carry])
        inputs = attrs.evolve(inputs, carry=blank)
        ends = zip(results, place.result_types, region.stacked_out, strict=True)
        after = region.group_results([self._unstack_fact(f, t, k) for f, t, k in ends])

        def iteration(carry: Facts[V]) -> Facts[V]:
            return self.walk(place.inside(program), program, (*carry, *after.ys), inputs.join())

        last, constants = after.carry, None
        if region.condition is not None:
            answer = self.deciding(self.unknown(region.condition.out_types[0]))
            before = (*inputs.constants, *blank)
            tested = region.group_inputs(
                self.walk(place.inside(region.condition), region.condition, (answer,), before)
            )
            constants, last = tested.constants, self._join_facts([last, tested.carry])
        carry, body_facts = self._find_fixpoint(iteration, last, program.name, region.constants)
        outer = zip(body_facts, place.equation.inputs[region.skipped :], region.stacked_in, strict=True)
        facts = region.group_inputs([self._stack_fact(f, x.type, k) for f, x, k in outer])
        if constants is not None:
            facts = attrs.evolve(facts, constants=self._join_facts([facts.constants, constants]))
        return attrs.evolve(facts, carry=carry).join()
