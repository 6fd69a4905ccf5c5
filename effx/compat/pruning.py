"""`jax.interpreters.partial_eval.dce_jaxpr`: `effx.ir.passes.prune_program` on views of programs, with the operands
parameters the results depend on.

flax finds by it the operands that a result depends on. The same pass prunes programs before they are compiled.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from effx.compat.defined import Primitive
from effx.compat.jaxprs import ClosedJaxpr, Jaxpr, view, written
from effx.errors import ProgramError
from effx.ir.passes import prune_program

__all__ = ["convert_constvars_jaxpr", "dce_jaxpr", "dce_rules"]

Bools: TypeAlias = Sequence[bool]
J = TypeVar("J", Jaxpr, ClosedJaxpr)


dce_rules: dict[Primitive, Callable[..., object]] = {}
"""Rules of libraries for their primitives: not asked, since an equation of theirs stays or goes as a whole."""


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """Returns a program whose constants are its first operands.

    >>> import effx.numpy as enp
    >>> from effx.compat.modules import make_jaxpr
    >>> closed = make_jaxpr(lambda x, table=enp.arange(3.0): x * table)(1.0)
    >>> converted = convert_constvars_jaxpr(closed.jaxpr)
    >>> len(converted.constvars), len(converted.invars)
    (0, 2)
    """
    return jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])


def dce_jaxpr(
    jaxpr: J,
    used_outputs: bool | Bools,
    instantiate: bool | Bools = False,
    live_inputs: bool | Bools = True,
) -> tuple[J, list[bool]]:
    """Removes what the results that are used do not need.

    Args:
        jaxpr: the program; its constants stay parameters.
        used_outputs: which results are used; one bool for all.
        instantiate: which operands stay though nothing uses them.
        live_inputs: which references' contents are read afterwards. Writes stay in any case, to other references too.

    Returns:
        The program with the used results and the operands left, closed if the first one is, and for each operand
        whether it is left.

    Raises:
        ProgramError: there are not as many bools as results or operands.

    >>> import effx, effx.numpy as enp
    >>> from effx.compat.modules import make_jaxpr
    >>> two = make_jaxpr(effx.jit(lambda x, y: (enp.sin(x), x * y)))(1.0, 2.0)
    >>> dce_jaxpr(two.jaxpr, [True, False])[1]
    [True, False]
    """
    if isinstance(jaxpr, ClosedJaxpr):
        smaller, used = _prune_view(jaxpr.jaxpr, used_outputs, instantiate, live_inputs)
        return ClosedJaxpr(smaller, jaxpr.consts), used
    return _prune_view(jaxpr, used_outputs, instantiate, live_inputs)


def _prune_view(
    jaxpr: Jaxpr, used_outputs: bool | Bools, instantiate: bool | Bools, live_inputs: bool | Bools
) -> tuple[Jaxpr, list[bool]]:
    outputs = _flags_for_each("used_outputs", used_outputs, len(jaxpr.outvars))
    instantiate_flags = _flags_for_each("instantiate", instantiate, len(jaxpr.invars))
    _flags_for_each("live_inputs", live_inputs, len(jaxpr.invars))
    constants = [True] * len(jaxpr.constvars)
    program, used = prune_program(written(jaxpr), outputs, [*constants, *instantiate_flags])
    return view(program, len(constants), jaxpr.debug_info), list(used[len(constants) :])


def _flags_for_each(name: str, flags: bool | Bools, number: int) -> list[bool]:
    result = [flags] * number if isinstance(flags, bool) else list(flags)
    if len(result) != number:
        raise ProgramError(f"dce_jaxpr: {name} has {len(result)} entries for {number}")
    return result
