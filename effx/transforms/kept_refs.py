"""References of functions that are compiled ahead of time: the program takes what they hold and gives what they hold
afterwards. A call reads and writes the references that it is given, and those that the function closes over.
"""

from collections.abc import Callable

from effx.errors import TreeError
from effx.ir.values.references import Reference
from effx.transforms.arguments import argument_path
from effx.transforms.lending import Lending, Lent
from effx.tree.registry import PyTree, PyTreeDef, flatten


def call_lent(
    name: str,
    trees: tuple[PyTreeDef, PyTreeDef],
    run: Callable[..., tuple[PyTree, PyTree]],
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
) -> PyTree:
    """Calls what was compiled for arguments with references.

    Args:
        name: of the function.
        trees: the structures of its arguments, and of those of the function of contents.
        run: calls the function of contents.
        args, kwargs: the arguments.

    Raises:
        TreeError: the arguments have another structure, or one is a reference where it was none, or the other way round.
    """
    in_tree, lent_tree = trees
    leaves, tree = flatten((args, kwargs))
    if tree != in_tree:
        raise TreeError(f"{name}: compiled for arguments of structure {in_tree}, got {tree}")
    holes = flatten(lent_tree.unflatten(leaves), is_leaf=lambda x: type(x) is Lent)[0]
    kinds = ("an array", "a Ref")
    for i, (x, hole) in enumerate(zip(leaves, holes, strict=True)):
        was, now = type(hole) is Lent, isinstance(x, Reference)
        if was is not now:
            raise TreeError(
                f"{name}: compiled for {kinds[was]} as {argument_path((args, kwargs), i)}, got {kinds[now]}"
            )
    return Lending("jit", name, args, kwargs).to(run)
