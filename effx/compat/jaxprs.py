"""Programs as libraries of JAX's read them: `Jaxpr`, `ClosedJaxpr` and `JaxprEqn`, views of `effx.ir.Program`.

A view keeps the operations that it shows: evaluated again, it performs these. Variables and literals are the program's
own.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, final

import attrs

from effx.array import Array, HostArray
from effx.array.promotion import as_operand
from effx.compat.jaxpr_text import color_jaxpr, print_equation, print_jaxpr
from effx.compat.parameters import operands_of_effx, operands_of_jax, show_result_dtype
from effx.compat.primitives import Primitive, primitive_of
from effx.compat.primitives import params_of as params_by_name
from effx.compat.shard_maps import Names, insert_casts, read_shard_map, show_collective
from effx.effects import Effect, Operation, transformed_scope
from effx.errors import ProgramError, Source, TransformError, resolve_source
from effx.flags import pprint_use_color
from effx.handlers.staging.stage import run_program, stage
from effx.ir.checker import check_program
from effx.ir.ops.control import Calling
from effx.ir.program import Atom, Equation, Program, Var
from effx.ir.types import ArrayType
from effx.tracing.wrapping import wraps
from effx.transforms.jit.make_jaxpr import make_jaxpr as make_program
from effx.tree.registry import register_leaf

__all__ = [
    "ClosedJaxpr", "Jaxpr", "JaxprEqn", "SourceInfo", "check_jaxpr", "close_program", "eval_jaxpr", "jaxpr_as_fun",
    "jaxprs_in_params", "make_jaxpr", "new_jaxpr_eqn", "program_of", "subjaxprs", "view", "written",
]  # fmt: skip


@final
@attrs.frozen
class SourceInfo:
    """The source of an equation.

    Attributes:
        name_stack: the scopes around it, joined by `/`.
        position: file, line and function; None where that is not known.
        traceback: the position as effx keeps it, for `user_context`.
    """

    name_stack: str
    position: tuple[str, int, str] | None
    traceback: Source = attrs.field(default=None, repr=False)


@final
@register_leaf
@attrs.frozen(eq=False, repr=False)
class JaxprEqn:
    """One operation applied.

    Attributes:
        invars, outvars: its operands and results.
        primitive: the operation without its parameters. params: these, by name.
        effects: what it does but compute.
        source_info: its source.
        equation: what is shown; None where a library has put another primitive or other parameters there.
        shown: the parameters that the equation had when it was shown.
    """

    invars: list[Atom]
    outvars: list[Var]
    primitive: Primitive
    params: dict[str, Any]
    effects: frozenset[Effect]
    source_info: SourceInfo
    equation: Equation | None = None
    shown: Mapping[str, object] = attrs.field(factory=dict)

    @property
    def unchanged_equation(self) -> Equation | None:
        """What is shown; None also where parameters were written into the dictionary since."""
        same = self.params.keys() == self.shown.keys() and all(
            [value is self.shown[name] for name, value in self.params.items()]
        )
        return self.equation if same else None

    def __str__(self) -> str:
        return print_equation(self)

    def __repr__(self) -> str:
        return str(self)

    def replace(self, **changes: Any) -> "JaxprEqn":
        """Returns the equation with other attributes."""
        keeps_operation = not {"primitive", "params"} & changes.keys()
        return attrs.evolve(self, equation=self.equation if keeps_operation else None, **changes)

    def bind(self, *operands: Any) -> list[Array]:
        """Performs the operation on other operands, and returns its results."""
        equation = self.unchanged_equation
        if equation is None:
            results: Any = self.primitive.bind(*operands, **self.params)
            return list(results) if self.primitive.multiple_results else [results]
        op: Any = equation.op
        results = op(*[as_operand(x, self.primitive.name) for x in operands_of_effx(op, operands)])
        return list(results) if op.multiple else [results]


@final
@register_leaf
@attrs.frozen(eq=False)
class Jaxpr:
    """A program whose constants are parameters.

    Attributes:
        constvars, invars: its parameters. outvars: its results. eqns: in order.
        effects: what they do but compute.
        debug_info: the name of the function.
        shown: the program that this was made of.
    """

    constvars: list[Var]
    invars: list[Var]
    outvars: list[Atom]
    eqns: list[JaxprEqn]
    effects: frozenset[Effect] = frozenset()
    debug_info: object = None
    shown: Program | None = attrs.field(default=None, repr=False)

    @property
    def jaxpr(self) -> "Jaxpr":
        """The program itself, as of a closed one."""
        return self

    @property
    def consts(self) -> Sequence[Array]:
        """The values of the constants, where they are known."""
        known: Sequence[Array] = () if self.shown is None else self.shown.constants
        return known if len(known) == len(self.constvars) else ()

    def replace(self, **changes: Any) -> "Jaxpr":
        """Returns the program with other attributes."""
        return attrs.evolve(self, **changes)

    def pretty_print(
        self, *, source_info: bool = False, name_stack: bool = False, use_color: bool | None = None
    ) -> str:
        """Returns the text of the program, each equation with its source and its scopes where these are asked for.

        Args:
            use_color: in the colours of terminals; None for `effx.config.pprint_use_color`, where the standard output is
                a terminal.
        """
        text = print_jaxpr(self, source_info, name_stack)
        if use_color is None:
            use_color = pprint_use_color.value and sys.stdout.isatty()
        return color_jaxpr(text) if use_color else text

    def evaluate(self, consts: Sequence[Array], operands: Sequence[Array]) -> list[Array]:
        """Evaluates it, as `eval_jaxpr` does."""
        return eval_jaxpr(self, consts, *operands)

    def __str__(self) -> str:
        return print_jaxpr(self)

    def __repr__(self) -> str:
        return str(self)


@final
@register_leaf
@attrs.frozen(eq=False)
class ClosedJaxpr:
    """A program with the values of its constants.

    Attributes:
        jaxpr: the program. consts: the values.
    """

    jaxpr: Jaxpr
    consts: Sequence[Any] = ()

    @property
    def in_avals(self) -> list[ArrayType]:
        """The types of its parameters."""
        return [x.type for x in self.jaxpr.invars]

    @property
    def out_avals(self) -> list[ArrayType]:
        """The types of its results."""
        return [x.type for x in self.jaxpr.outvars]

    @property
    def literals(self) -> Sequence[Any]:
        """The values of its constants."""
        return self.consts

    def evaluate(self, consts: Sequence[Array], operands: Sequence[Array]) -> list[Array]:
        """Evaluates it, as `eval_jaxpr` does."""
        return eval_jaxpr(self, consts, *operands)

    @property
    def program(self) -> Program:
        """The program that it shows, or describes."""
        return program_of(self)

    @property
    def eqns(self) -> list[JaxprEqn]:
        """Its equations."""
        return self.jaxpr.eqns

    @property
    def constvars(self) -> list[Var]:
        """The parameters for its constants."""
        return self.jaxpr.constvars

    @property
    def invars(self) -> list[Var]:
        """Its other parameters."""
        return self.jaxpr.invars

    @property
    def outvars(self) -> list[Atom]:
        """Its results."""
        return self.jaxpr.outvars

    @property
    def debug_info(self) -> object:
        """Whose program it is."""
        return self.jaxpr.debug_info

    @property
    def effects(self) -> frozenset[Effect]:
        """What its equations do but compute."""
        return self.jaxpr.effects

    def replace(self, **changes: Any) -> "ClosedJaxpr":
        """Returns the program with other attributes."""
        return attrs.evolve(self, **changes)

    def map_jaxpr(self, change: Callable[[Jaxpr], Jaxpr]) -> "ClosedJaxpr":
        """Returns it with another program."""
        return ClosedJaxpr(change(self.jaxpr), self.consts)

    def pretty_print(
        self, *, source_info: bool = False, name_stack: bool = False, use_color: bool | None = None
    ) -> str:
        """Returns the text of the program, as `Jaxpr.pretty_print` does."""
        return self.jaxpr.pretty_print(source_info=source_info, name_stack=name_stack, use_color=use_color)

    def __str__(self) -> str:
        return str(self.jaxpr)

    def __repr__(self) -> str:
        return str(self)


def close_program(program: Program, typed_axes: Names = frozenset()) -> ClosedJaxpr:
    """Returns the view of a program, made once.

    Args:
        program: the program. typed_axes: those of a map around it along which types say whether values vary.
    """
    key = f"jaxpr{sorted(map(repr, typed_axes)) if typed_axes else ''}"
    cached = program.derived.get(key)
    if cached is None:
        jaxpr = view(program, len(program.constants), program.name, typed_axes)
        cached = program.derived[key] = ClosedJaxpr(jaxpr, program.constants)
    assert isinstance(cached, ClosedJaxpr)
    return cached


def view(program: Program, constants: int, debug_info: object, typed_axes: Names = frozenset()) -> Jaxpr:
    """Returns the view of a program whose first inputs, so many, are constants; `typed_axes` as for `close_program`."""
    return Jaxpr(
        list(program.inputs[:constants]),
        list(program.inputs[constants:]),
        list(program.outputs),
        [_equation(shown) for e in program.equations for shown in insert_casts(e, typed_axes)],
        program.effects,
        debug_info,
        program,
    )


def new_jaxpr_eqn(
    invars: Sequence[Atom],
    outvars: Sequence[Var],
    primitive: Primitive,
    params: Mapping[str, object],
    effects: Iterable[Effect],
    source_info: SourceInfo | None = None,
) -> JaxprEqn:
    """Returns an equation of a primitive and its parameters."""
    source = SourceInfo("", None) if source_info is None else source_info
    return JaxprEqn(list(invars), list(outvars), primitive, dict(params), frozenset(effects), source)


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Checks that each variable is defined once, before its uses, with the type that its equation gives.

    Raises:
        ProgramError: it is not, or a primitive does not take its parameters.
    """
    try:
        program = written(jaxpr)
    except (TypeError, TransformError) as error:
        reason = error.message if isinstance(error, TransformError) else error
        raise ProgramError(f"check_jaxpr: a primitive does not take its parameters: {reason}") from error
    check_program(program)


def _equation(e: Equation) -> JaxprEqn:
    where = None if e.source is None else resolve_source(e.source)
    primitive, params = _primitive_and_parameters(e)
    return JaxprEqn(
        list(operands_of_jax(e.op, e.inputs)),
        list(e.outputs),
        primitive,
        params,
        e.op.effects,
        SourceInfo(transformed_scope(e.scope), where, e.source),
        e,
        dict(params),
    )


def _primitive_and_parameters(e: Equation) -> tuple[Primitive, dict[str, object]]:
    shard_map = read_shard_map(e)
    if shard_map is not None:
        op = shard_map.op
        body = close_program(op.body, op.names if op.checked else frozenset()).jaxpr
        return shard_map.primitive, {**shard_map.params, "jaxpr": body}
    return show_collective(e) or (primitive_of(e.op), show_result_dtype(e, jax_parameters(e.op)))


def jax_parameters(op: Operation[object]) -> dict[str, Any]:
    """Returns an operation's parameters as JAX has them, programs as views."""
    parameters = {name: _as_jax_value(value) for name, value in params_by_name(op).items()}
    return {**parameters, "name": op.program.name} if isinstance(op, Calling) else parameters


def _as_jax_value(value: object) -> object:
    if isinstance(value, Program):
        return close_program(value)
    if isinstance(value, tuple) and value and all([isinstance(x, Program) for x in value]):
        return tuple([close_program(x) for x in value])
    return value


def _evaluate(jaxpr: Jaxpr, consts: Sequence[object], operands: Sequence[object]) -> list[Any]:
    """Evaluates a program."""
    known: dict[Var, object] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *operands], strict=True))

    def read(x: Atom) -> object:
        return known[x] if type(x) is Var else HostArray(x.value, x.type)

    for e in jaxpr.eqns:
        known.update(zip(e.outvars, e.bind(*map(read, e.invars)), strict=True))
    return list(map(read, jaxpr.outvars))


def eval_jaxpr(
    jaxpr: Jaxpr | ClosedJaxpr, consts: Sequence[Any], *args: Any, propagate_source_info: bool = True
) -> list[Any]:
    """Evaluates a program operation by operation, under the current handlers.

    Args:
        jaxpr: the program, also one with values of its constants, which count no more. consts, args: values of its
            `constvars` and `invars`.
        propagate_source_info: True for errors that name the lines of the program, where it is unchanged.

    Returns:
        Its results.

    Raises:
        ProgramError: there are not as many values as it takes.
    """
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr = jaxpr.jaxpr
    if len(args) != len(jaxpr.invars) or len(consts) != len(jaxpr.constvars):
        raise ProgramError(
            f"eval_jaxpr: the program takes {len(jaxpr.constvars)} constants and {len(jaxpr.invars)} operands, got "
            f"{len(consts)} and {len(args)}"
        )
    program = _unchanged_program(jaxpr) if propagate_source_info else None
    if program is None:
        return _evaluate(jaxpr, consts, args)
    return list(run_program(program, [as_operand(x) for x in (*consts, *args)]))


def _unchanged_program(jaxpr: Jaxpr) -> Program | None:
    """Returns a view's program if libraries have changed no equation of it."""
    equations: list[Equation] = []
    for e in jaxpr.eqns:
        equation = e.unchanged_equation
        if equation is None:
            return None
        inputs, outputs = operands_of_effx(equation.op, tuple(e.invars)), tuple(e.outvars)
        same = equation.inputs == inputs and equation.outputs == outputs
        equations.append(equation if same else attrs.evolve(equation, inputs=inputs, outputs=outputs))
    rebuilt = Program(
        (*jaxpr.constvars, *jaxpr.invars), tuple(equations), tuple(jaxpr.outvars), effects=jaxpr.effects
    )
    return jaxpr.shown if jaxpr.shown is not None and _has_same_equations(rebuilt, jaxpr.shown) else rebuilt


def _has_same_equations(a: Program, b: Program) -> bool:
    """Says whether two programs have the same equation objects, not only equal ones."""
    return (
        len(a.equations) == len(b.equations)
        and all([x is y for x, y in zip(a.equations, b.equations, strict=True)])
        and (a.inputs, a.outputs, a.effects) == (b.inputs, b.outputs, b.effects)
    )


def written(jaxpr: "Jaxpr | ClosedJaxpr") -> Program:
    """Returns a program with the equations of a view."""
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr = jaxpr.jaxpr
    result = _unchanged_program(jaxpr)
    if result is not None:
        return result
    types = [x.type for x in (*jaxpr.constvars, *jaxpr.invars)]
    n = len(jaxpr.constvars)
    return stage(lambda xs: _evaluate(jaxpr, xs[:n], xs[n:]), types, str(jaxpr.debug_info)).program


def program_of(view: ClosedJaxpr) -> Program:
    """Returns the program that a view shows, or describes."""
    program = written(view.jaxpr)
    if view.consts is program.constants:
        return program
    return attrs.evolve(
        program, constants=tuple([as_operand(x, "ClosedJaxpr") for x in view.consts]), derived={}
    )


def jaxpr_as_fun(view: Jaxpr | ClosedJaxpr) -> Callable[..., list[Any]]:
    """Returns a function of flat operands that evaluates a program."""
    return lambda *operands: eval_jaxpr(view.jaxpr, view.consts, *operands)


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """Yields the programs that a program's equations hold."""
    for e in jaxpr.eqns:
        yield from jaxprs_in_params(e.params)


def jaxprs_in_params(params: Mapping[str, object]) -> Iterator[Jaxpr]:
    """Yields the programs among an equation's parameters."""
    for value in params.values():
        for x in value if isinstance(value, tuple | list) else (value,):
            if isinstance(x, ClosedJaxpr):
                yield x.jaxpr
            elif isinstance(x, Jaxpr):
                yield x


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: Any = (),
    axis_env: Any = None,
    return_shape: bool = False,
    abstracted_axes: Any = None,
) -> Callable[..., Any]:
    """Returns a function that stages `fun` and returns its program, as a view; see `effx.make_jaxpr`."""
    staged = make_program(fun, static_argnums, axis_env, return_shape, abstracted_axes)

    @wraps(fun)
    def viewed(*args: Any, **kwargs: Any) -> Any:
        staged_result = staged(*args, **kwargs)
        return (
            (close_program(staged_result[0]), staged_result[1])
            if return_shape
            else close_program(staged_result)
        )

    viewed.__name__ = f"make_jaxpr({viewed.__name__})"
    viewed.__qualname__ = f"make_jaxpr({viewed.__qualname__})"
    viewed.__module__ = "jax"
    return viewed
