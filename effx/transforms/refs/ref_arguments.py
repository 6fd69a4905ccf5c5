"""References as arguments of transformed functions. A caller lends them: the function is staged, or batched, as one of
their contents, in which a reference of its own stands for each of the caller's; what these hold at the end is written
back. Where nothing is staged by the arguments' types, the function simply closes over the caller's references.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, final

import attrs

from effx.array import Array
from effx.errors import RefError, TransformError, TreeError
from effx.handlers.refs import lent_out
from effx.ir.refs import Cell
from effx.ir.values.refs import Reference
from effx.tracing.arguments import Arguments, adapted, argument_path, name_of
from effx.transforms.refs.ref import Ref, made
from effx.tree.registry import PyTree, PyTreeDef, flatten, register_node

R = TypeVar("R")


@final
@attrs.define(eq=False)
class Lent:
    """Stands for a reference in a function's arguments: a tree of its content.

    Attributes:
        content: the array; anything while trees are mapped.
        stops: whether the reference takes no derivatives.
    """

    content: PyTree
    stops: bool = False


register_node(
    Lent, lambda lent: ((lent.content,), lent.stops), lambda stops, children: Lent(children[0], stops)
)


@final
@attrs.frozen
class Elsewhere:
    """Stands for a reference in arguments: a tree of nothing.

    Attributes:
        place: its number.
    """

    place: int


register_node(Elsewhere, lambda hole: ((), hole.place), lambda place, _: Elsewhere(place))


def _is_lent(x: object) -> bool:
    return type(x) is Lent


def _is_elsewhere(x: object) -> bool:
    return type(x) is Elsewhere


def _is_ref(x: object) -> bool:
    return isinstance(x, Reference)


def without_refs(arguments: PyTree) -> tuple[PyTree, list[Reference]]:
    """Returns arguments with something that holds no arrays in place of references, and these."""
    leaves, tree = flatten(arguments)
    refs = [x for x in leaves if _is_ref(x)]
    places = iter(range(len(refs)))
    return tree.unflatten([Elsewhere(next(places)) if _is_ref(x) else x for x in leaves]), refs


def with_refs(arguments: PyTree, refs: Sequence[Reference]) -> Any:
    """The inverse of `without_refs`."""
    leaves, tree = flatten(arguments, is_leaf=_is_elsewhere)
    return tree.unflatten([refs[x.place] if type(x) is Elsewhere else x for x in leaves])


def closing_over(fun: Callable[..., R], refs: Sequence[Reference]) -> Callable[..., R]:
    """Returns a function of arguments from which `without_refs` took the references."""
    return adapted(fun, lambda arguments: with_refs(arguments, refs))


def borrowing(
    fun: Callable[..., PyTree], always: bool = False, has_aux: bool = False
) -> Callable[..., tuple[PyTree, PyTree]]:
    """Returns a function that takes `Lent` contents for references, and gives a pair of its result and their contents
    afterwards.

    Args:
        fun: takes references.
        always: True to give contents that the function did not write; else None stands for these.
        has_aux: whether `fun` gives a pair, whose second part then stands behind the pair.
    """

    def lent(*args: PyTree, **kwargs: PyTree) -> tuple[PyTree, PyTree]:
        leaves, tree = flatten((args, kwargs), is_leaf=_is_lent)
        mine: list[tuple[Ref, Array | None]] = []
        for i, x in enumerate(leaves):
            if type(x) is Lent:
                ref = made(x.content, x.stops)
                ref._cell.lent = True
                mine.append((ref, ref._cell.content))
                leaves[i] = ref
        inner, named = tree.unflatten(leaves)
        result = fun(*inner, **named)
        finals = [ref[...] if always or ref._cell.content is not before else None for ref, before in mine]
        if not has_aux:
            return result, finals
        if not isinstance(result, tuple) or len(result) != 2:
            raise TransformError(
                f"{name_of(fun)} must return a pair (result, aux) with has_aux=True, got {type(result).__name__}"
            )
        return (result[0], finals), result[1]

    lent.__name__ = name_of(fun)
    lent.__wrapped__ = fun  # type: ignore[attr-defined]  # as functools.wraps does: for the origin in errors
    return lent


@final
class Lending:
    """References among arguments that a function is to borrow.

    Attributes:
        places: the indices of the references among all leaves.
        refs: the references.
        arguments: with contents in place of references, as `borrowing` takes them.
    """

    __slots__ = ("_taken", "arguments", "places", "refs")

    def __init__(
        self, what: str, name: str, args: PyTree, kwargs: PyTree, chosen: Sequence[bool] | None = None
    ) -> None:
        """Finds the references.

        Args:
            what: the transformation, for errors. name: of its function.
            args, kwargs: the arguments.
            chosen: for each leaf whether a reference there is lent; None for all.

        Raises:
            RefError: one is there twice, or only a view of one.
        """
        leaves, tree = flatten((args, kwargs))
        places = [i for i, x in enumerate(leaves) if _is_ref(x) and (chosen is None or chosen[i])]
        refs: list[Ref] = []
        seen: dict[Cell, str] = {}
        for i in places:
            x, path = leaves[i], argument_path((args, kwargs), i)
            if not isinstance(x, Ref):
                raise RefError(f"{what}: {path} of {name} is a view of a ref; pass the ref")
            if x._cell in seen:
                raise RefError(
                    f"{what}: {seen[x._cell]} and {path} of {name} are one Ref {x.type!r}; pass it once"
                )
            seen[x._cell] = path
            refs.append(x)
            leaves[i] = Lent(x[...], x._cell.stops)
        self._taken = {
            cell: f"{name} uses the ref in another way than as its {path}, by closing over it; use the argument"
            for cell, path in seen.items()
        }
        self.places, self.refs = places, refs
        self.arguments: Arguments = tree.unflatten(leaves)

    def to(self, function: Callable[..., tuple[PyTree, PyTree]], writes: bool = True) -> PyTree:
        """Calls a function of contents, and writes to the references what it leaves there.

        Args:
            function: gives a result and contents. writes: False where these are no arrays.

        Returns:
            The result.

        Raises:
            RefError: the function uses one of the references in another way.
        """
        args, kwargs = self.arguments
        around = lent_out.get()
        try:
            lent_out.set({**around, **self._taken})
            result, finals = function(*args, **kwargs)
        finally:
            lent_out.set(around)
        for ref, y in zip(self.refs, finals, strict=True):
            if writes and y is not None:
                ref[...] = y
        return result


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
