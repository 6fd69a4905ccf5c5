"""Lowering rules of libraries: functions of effx's own arrays, in which they write what their primitive is made of.

A rule takes a context, the operands and the parameters. An operand is an array that is being staged, so
a rule made by `lower_fun` is a call of its function. A rule that builds MLIR finds no MLIR here, which is an error.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import cast, final

import attrs

from effx.array import Array
from effx.callbacks import pure_callback
from effx.compat.bound import Bound, Definition, Rule, arrays_of, operation_name
from effx.effects import isolated
from effx.errors import BackendError, EffxError, NoRuleError, TransformError
from effx.handlers.staging.stage import stage
from effx.handling import ArrayType, Atom, Body, Var, emits
from effx.lower.placement.concrete import to_concrete
from effx.lower.text.emit import PLATFORMS
from effx.lower.text.module import array_literal_text
from effx.tree.registry import PyTree

__all__ = [
    "LoweringRuleContext",
    "ModuleContext",
    "emit_python_callback",
    "lower_fun",
    "lowered",
    "register_lowering",
]

# What JAX calls them, and what effx does.
NAMED = {"gpu": ("cuda", "rocm")}

_rules: dict[Definition, dict[str | None, Rule]] = {}


@final
@attrs.frozen
class ModuleContext:
    """The module that a rule writes a part of.

    Attributes:
        platforms: for which it is.
        keepalives: objects that live as long as the operation that is lowered.
    """

    platforms: tuple[str, ...]
    keepalives: list[object] = attrs.field(factory=list)

    def add_keepalive(self, keepalive: object) -> None:
        """Keeps an object alive as long as the operation that is lowered."""
        self.keepalives.append(keepalive)


@final
@attrs.frozen
class LoweringRuleContext:
    """The context of a rule.

    Attributes:
        module_context: of the module. primitive: that is lowered.
        avals_in, avals_out: the types of operands and results.
    """

    module_context: ModuleContext
    primitive: Definition
    avals_in: tuple[ArrayType, ...]
    avals_out: tuple[ArrayType, ...]


@final
@attrs.frozen
class LoweredFunction:
    """The rule that `lower_fun` makes.

    Attributes:
        fun: of the operands and parameters. multiple_results: whether it gives a sequence.
    """

    fun: Rule
    multiple_results: bool

    def __call__(self, ctx: LoweringRuleContext, /, *operands: Array, **params: object) -> list[Array]:
        """Returns the function's results."""
        results = self.fun(*operands, **params)
        return list(arrays_of(ctx.primitive, "lowering", results, self.multiple_results))


def lower_fun(fun: Rule, multiple_results: bool = True) -> LoweredFunction:
    """Makes a lowering rule of a function.

    Args:
        fun: takes the operands as arrays, and the parameters by name.
        multiple_results: whether it gives a sequence of arrays.
    """
    return LoweredFunction(fun, multiple_results)


def register_lowering(
    prim: Definition, rule: Rule, platform: str | None = None, inline: bool = True, cacheable: bool = True
) -> None:
    """Says what a primitive is made of.

    Args:
        prim: the primitive.
        rule: `(ctx, *operands, **params) -> results`, usually made by `lower_fun`.
        platform: "cpu", "cuda", "rocm", "tpu", or "gpu" for both of the middle; None for all that have no own.
        inline, cacheable: True; a rule is called again for each equation, and inlined.

    Raises:
        BackendError: there is no such platform.
        TransformError: a flag is False, or effx has the operation itself.
    """
    if not inline or not cacheable:
        raise TransformError(
            f"register_lowering: {prim.name} is to be written as a function of its own, or for once; effx writes "
            f"what a primitive is made of in its place (inline=True, cacheable=True)"
        )
    if getattr(prim, "operation", None) is not None:
        raise TransformError(
            f"register_lowering: {prim.name} is an operation of effx, which has its lowering"
        )
    if platform is not None and platform not in (*PLATFORMS, *NAMED):
        raise BackendError(
            f"register_lowering: platform must be one of {', '.join([*PLATFORMS, *NAMED])}, got {platform!r}"
        )
    for name in (None,) if platform is None else NAMED.get(platform, (platform,)):
        _rules.setdefault(prim, {})[name] = rule


def has_lowering(prim: Definition) -> bool:
    """Says whether a primitive has a rule for any platform."""
    return prim in _rules


def lowered(
    prim: Definition, operands: Sequence[Array], params: Mapping[str, object], platform: str | None
) -> tuple[Array, ...]:
    """Performs what a primitive is made of.

    Args:
        prim: the primitive. operands, params: what it is bound with.
        platform: where it is to run; None for what all have.

    Raises:
        NoRuleError: it has no rule for the platform, or one that builds MLIR.
    """
    rules = _rules.get(prim, {})
    rule = rules.get(platform) or rules.get(None)
    if rule is None:
        where = f" for {platform}" if rules and platform is not None else ""
        raise NoRuleError(
            f"{prim.name}: the primitive has no lowering rule{where}; give it one with "
            f"jax.interpreters.mlir.register_lowering(p, jax.interpreters.mlir.lower_fun(function))"
        )
    types = tuple([x.type for x in operands])
    context = LoweringRuleContext(
        ModuleContext((platform,) if platform else ()), prim, types, prim.types(types, params)
    )
    if isinstance(rule, LoweredFunction):
        return tuple(rule(context, *operands, **params))
    try:
        results = rule(context, *operands, **params)
    except EffxError:
        raise
    except Exception as error:
        raise NoRuleError(
            f"{prim.name}: the lowering rule of this primitive fails with {type(error).__name__}: {error}. effx gives "
            f"rules its own arrays, and those that build MLIR cannot be used; make the rule of a function, with "
            f"jax.interpreters.mlir.lower_fun"
        ) from error
    return arrays_of(prim, "lowering", results, isinstance(results, list | tuple))


@emits(Bound)
def _(body: Body, op: Bound, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    def made(operands: list[Array]) -> Sequence[Array]:
        return op.primitive.lowered(operands, op.params, body.module.platform)

    with isolated():
        staged = stage(made, [x.type for x in inputs], op.name, op.name)
    program = staged.program
    if [t.strong() for t in program.out_types] != [v.type.strong() for v in outputs]:
        raise NoRuleError(
            f"{operation_name(op.name, 'lowering')} gives ({', '.join(map(repr, program.out_types))}), "
            f"but that for abstract evaluation says ({', '.join([repr(v.type) for v in outputs])})"
        )
    constants = [
        body.line(f"stablehlo.constant dense<{array_literal_text(to_concrete(x))}> : {x.type.mlir}")
        for x in staged.captured
    ]
    return body.inline(program, [*constants, *[body.name(x) for x in inputs]])


def emit_python_callback(
    ctx: LoweringRuleContext,
    callback: Callable[..., PyTree],
    token: None,
    operands: Sequence[Array],
    operand_avals: Sequence[ArrayType],
    result_avals: Sequence[ArrayType],
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: None = None,
) -> tuple[list[Array], None, object]:
    """Calls a Python function on the host from a lowering rule.

    Args:
        ctx: the rule's context. callback: takes NumPy arrays, gives a sequence of them. token: None.
        operands: its operands. operand_avals, result_avals: types of these and of the results.
        has_side_effect, partitioned: False. returns_token: True. sharding: None.

    Returns:
        The results, no token, and what must be kept alive.

    Raises:
        TransformError: an argument requests something else.
    """
    options = {
        "token": token is not None,
        "has_side_effect": has_side_effect,
        "returns_token": not returns_token,
        "partitioned": partitioned,
        "sharding": sharding is not None,
    }
    refused = [name for name, is_other in options.items() if is_other]
    if refused:
        raise TransformError(
            f"emit_python_callback: {ctx.primitive.name} asks for {', '.join(refused)}, which effx has not here; "
            f"call effx.callbacks.io_callback in a function for lower_fun"
        )
    if [t.strong() for t in operand_avals] != [x.type.strong() for x in operands]:
        raise TransformError(
            f"emit_python_callback: {ctx.primitive.name} says that operands are "
            f"({', '.join(map(repr, operand_avals))}), but they are ({', '.join([repr(x.type) for x in operands])})"
        )
    results = pure_callback(lambda *given: tuple(callback(*given)), tuple(result_avals), *operands)
    return [cast("Array", y) for y in results], None, callback
