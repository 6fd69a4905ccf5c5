"""Along which axes of a `shard_map` values vary, which is part of their types while its body is being staged.

The sum of cotangents that the gradient with respect to a replicated value is must be taken where the value is used, so
each linear value has to be known for what it is when a program is transposed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from effx.array import Array
from effx.effects import Operation
from effx.errors import current_source
from effx.flag_kinds import UserContext
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.ops.collective import PCast, PSum
from effx.ir.passes.varying import SINGULAR, vma_of_results
from effx.ir.program import Atom, Equation, Var
from effx.ir.types import INVARIANT, ArrayType, Vma

__all__ = ["agreeing", "apart", "differing", "diverging", "tracked", "tracked_equation"]

# The axes that types speak of; programs staged with others are other programs.
tracked: "UserContext[Vma]" = UserContext(INVARIANT)


# The axes along which indices may be at different places of the program: in a branch, say, that some of them take. What
# comes from outside varies along these in there, so that no sum over them stands where not all take part.
apart: "UserContext[Vma]" = UserContext(INVARIANT)


@contextmanager
def diverging(decision: Vma) -> Iterator[None]:
    """Stages in a block what only some indices run along the axes along which a decision varies."""
    if decision <= apart.value:
        yield
        return
    with apart(apart.value | decision):
        yield


def tracked_equation(
    op: Operation[object], inputs: tuple[Atom, ...], types: Sequence[ArrayType], scope: str
) -> Equation:
    """Returns an equation whose results have types that say along which axes they vary.

    Typing rules know nothing of that: they are asked for the types of values that do not.

    Args:
        op: the operation. inputs: its operands. types: theirs. scope: the name stack.
    """
    if not op.multiple and not isinstance(op, SINGULAR):  # nearly all
        plain, vma = [], INVARIANT
        for t in types:
            if t.vma:
                vma = vma | t.vma if vma else t.vma
                t = t.varying(INVARIANT)
            plain.append(t)
        result = cast("ArrayOperation", op).infer(*plain)
        return Equation(op, inputs, (Var(result.varying(vma)),), current_source(3), scope)
    plain = [t.varying(INVARIANT) for t in types]
    found = cast("ArrayOperation | TupleOperation", op).infer(*plain)
    results = found if isinstance(found, tuple) else (found,)
    e = Equation(op, inputs, tuple([Var(t) for t in results]), current_source(3), scope)
    for var, vma in zip(e.outputs, vma_of_results(e, [t.vma for t in types], tracked.value), strict=True):
        var.type = var.type.varying(vma)
    return e


def differing(x: Array, axes: Vma) -> Array:
    """Returns a value as one that varies along some axes."""
    for axis in sorted(axes - x.type.vma, key=repr):
        x = PCast(axis)(x)
    return x


def agreeing(ct: Array, t: ArrayType) -> Array:
    """Returns a cotangent of a value of this type that varies along the same axes.

    Along an axis on which the value is replicated, each index contributes to the one cotangent, so they are summed. One that
    is replicated though the value is not is the same at all indices.
    """
    for axis in sorted(ct.type.vma - t.vma - apart.value, key=repr):
        ct = PSum(axis)(ct)
    return differing(ct, t.vma)
