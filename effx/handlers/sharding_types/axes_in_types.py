"""What types say of axes: along which of a `shard_map` values vary, while its body is being staged, and which Explicit
ones of a mesh cut them.

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
from effx.ir.ops.sharding import Constrain
from effx.ir.passes.sharding_constraints import constrain_op
from effx.ir.passes.sharding_propagation import shardings_of_results
from effx.ir.passes.varying_axes import SINGULAR, vma_of_results
from effx.ir.program import Atom, Equation, Var
from effx.ir.types import INVARIANT, ArrayType, TypeSharding, Vma
from effx.lower.placement.meshes import ambient

__all__ = [
    "agreeing",
    "apart",
    "differing",
    "diverging",
    "laid_out",
    "lying",
    "lying_as",
    "retype",
    "tracked",
    "tracked_equation",
    "tracking",
    "typed_results",
]

# The operations whose results' types may say more of axes than their operands' do.
SPECIAL = (*SINGULAR, Constrain)

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
    if not op.multiple and not isinstance(op, SPECIAL):  # nearly all
        plain, vma, cut = [], INVARIANT, False
        for t in types:
            if t.vma:
                vma = vma | t.vma if vma else t.vma
            cut = cut or t.cut is not None
            plain.append(t.plain())
        if not cut:
            result = cast("ArrayOperation", op).infer(*plain)
            return Equation(op, inputs, (Var(result.varying(vma)),), current_source(3), scope)
    results = plain_results(op, types)
    e = Equation(op, inputs, tuple([Var(t) for t in results]), current_source(3), scope)
    _say(e, types, results)
    return e


def retype(e: Equation) -> None:
    """Brings the types of an equation's results to what those of its operands say of axes."""
    types = [x.type for x in e.inputs]
    results = plain_results(e.op, types)
    for var, t in zip(e.outputs, results, strict=True):
        var.type = t
    _say(e, types, results)


def _say(e: Equation, types: Sequence[ArrayType], results: Sequence[ArrayType]) -> None:
    if tracked.value:
        vmas = vma_of_results(e, [t.vma for t in types], tracked.value)
        for var, vma in zip(e.outputs, vmas, strict=True):
            var.type = var.type.varying(vma)
    for var, sharding in zip(e.outputs, shardings_of_results(e.op, types, results), strict=True):
        var.type = var.type.lying(sharding)


def plain_results(op: Operation[object], types: Sequence[ArrayType]) -> list[ArrayType]:
    """Returns the types of an operation's results without what they say of axes."""
    found = cast("ArrayOperation | TupleOperation", op).infer(*[t.plain() for t in types])
    return [t.plain() for t in (found if isinstance(found, tuple) else (found,))]


def typed_results(op: Operation[object], types: Sequence[ArrayType]) -> list[ArrayType]:
    """Returns the types of an operation's results outside of all maps."""
    results = plain_results(op, types)
    shardings = shardings_of_results(op, types, results)
    return [t.lying(sharding) for t, sharding in zip(results, shardings, strict=True)]


def tracking(types: Sequence[ArrayType]) -> bool:
    """Says whether types of what is staged with these inputs speak of axes."""
    if tracked.value:
        return True
    mesh = ambient.value
    return (mesh is not None and bool(mesh.explicit_axes)) or any([t.cut is not None for t in types])


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
    return lying(differing(ct, t.vma), t.cut)


def lying(x: Array, sharding: TypeSharding | None) -> Array:
    """Returns a value as one whose type says that it is cut so."""
    op = laid_out(x.type, sharding)
    return x if op is None else op(x)


def lying_as(x: Array, like: ArrayType) -> Array:
    """Returns a value that is cut as others of a type, where that type says so and is of the same shape."""
    return x if like.cut is None or like.shape != x.type.shape else lying(x, like.cut)


def laid_out(t: ArrayType, sharding: TypeSharding | None) -> Constrain | None:
    """Returns the operation that cuts a value of a type so; None if it is."""
    if t.cut == sharding:
        return None
    known = t.cut if sharding is None else sharding
    assert known is not None
    return constrain_op(known.mesh, sharding, t.ndim)
