"""References as arguments of transformed functions. A caller lends them: the function is staged, or batched, as a
function of their contents, in which a new reference replaces each of the caller's; the final contents are written
back. Where nothing is staged by the arguments' types, the function simply closes over the caller's references.

A program depends only on the types of lent contents, so one serves all references of a type, and a repeated call
runs in C++ except for reading and writing. Ahead of time the contents of arguments are lent in the same way, and
those of closed-over cells are the last inputs and outputs of a discharged program.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, final

import attrs

from effx.array import Array
from effx.errors import RefError, TransformError, TreeError
from effx.handlers.refs import lent_cells
from effx.ir.refs import Cell
from effx.ir.values.refs import ReferenceBase
from effx.tracing.arguments import Arguments, adapt_arguments, argument_path, callable_name
from effx.transforms.refs.ref import Ref, make_ref
from effx.tree.registry import PyTree, PyTreeDef, flatten, register_node

R = TypeVar("R")


@final
@attrs.define(eq=False)
class RefContents:
    """Replaces a reference in a function's arguments: a pytree node with its contents.

    Attributes:
        content: the array; any object while pytrees are mapped.
        stops_gradient: whether the reference stops gradients.
    """

    content: PyTree
    stops_gradient: bool = False


register_node(
    RefContents,
    lambda lent: ((lent.content,), lent.stops_gradient),
    lambda stops, children: RefContents(children[0], stops),
)


@final
@attrs.frozen
class RefPlaceholder:
    """Replaces a reference in arguments: a pytree node without leaves.

    Attributes:
        index: the reference's number.
    """

    index: int


register_node(RefPlaceholder, lambda hole: ((), hole.index), lambda place, _: RefPlaceholder(place))


def _is_contents(x: object) -> bool:
    return type(x) is RefContents


def _is_placeholder(x: object) -> bool:
    return type(x) is RefPlaceholder


def _is_ref(x: object) -> bool:
    return isinstance(x, ReferenceBase)


def extract_refs(arguments: PyTree) -> tuple[PyTree, list[ReferenceBase]]:
    """Returns arguments with placeholders for the references, and the references."""
    leaves, tree = flatten(arguments)
    refs = [x for x in leaves if _is_ref(x)]
    indices = iter(range(len(refs)))
    return tree.unflatten([RefPlaceholder(next(indices)) if _is_ref(x) else x for x in leaves]), refs


def insert_refs(arguments: PyTree, refs: Sequence[ReferenceBase]) -> Any:
    """The inverse of `extract_refs`."""
    leaves, tree = flatten(arguments, is_leaf=_is_placeholder)
    return tree.unflatten([refs[x.index] if type(x) is RefPlaceholder else x for x in leaves])


def close_over_refs(fun: Callable[..., R], refs: Sequence[ReferenceBase]) -> Callable[..., R]:
    """Returns a function of arguments in which `extract_refs` replaced the references."""
    return adapt_arguments(fun, lambda arguments: insert_refs(arguments, refs))


def functionalize_refs(
    fun: Callable[..., PyTree], always_return: bool = False, has_aux: bool = False
) -> Callable[..., tuple[PyTree, PyTree]]:
    """Returns a function that takes `RefContents` instead of references, and returns its result and the final contents.

    Args:
        fun: takes references.
        always_return: True to return contents that the function did not write too; otherwise they are None.
        has_aux: whether `fun` returns `(result, aux)`; then the function returns `((result, contents), aux)`.
    """

    def call_with_contents(*args: PyTree, **kwargs: PyTree) -> tuple[PyTree, PyTree]:
        leaves, tree = flatten((args, kwargs), is_leaf=_is_contents)
        own_refs: list[tuple[Ref, Array | None]] = []
        for i, x in enumerate(leaves):
            if type(x) is RefContents:
                ref = make_ref(x.content, x.stops_gradient)
                ref._cell.is_lent = True
                own_refs.append((ref, ref._cell.content))
                leaves[i] = ref
        inner, named = tree.unflatten(leaves)
        result = fun(*inner, **named)
        finals = [
            ref[...] if always_return or ref._cell.content is not initial else None
            for ref, initial in own_refs
        ]
        if not has_aux:
            return result, finals
        if not isinstance(result, tuple) or len(result) != 2:
            raise TransformError(
                f"{callable_name(fun)} must return a pair (result, aux) with has_aux=True, got {type(result).__name__}"
            )
        return (result[0], finals), result[1]

    call_with_contents.__name__ = callable_name(fun)
    call_with_contents.__wrapped__ = fun  # type: ignore[attr-defined]  # as functools.wraps does: for the origin in errors
    return call_with_contents


@final
class RefArguments:
    """The references among a call's arguments, to be lent to a function.

    Attributes:
        leaf_indices: the indices of the references among all leaves.
        refs: the references.
        arguments: the arguments with contents in place of references, for functions of `functionalize_refs`.
    """

    __slots__ = ("_misuse_messages", "arguments", "leaf_indices", "refs")

    def __init__(
        self,
        function_name: str,
        name: str,
        args: PyTree,
        kwargs: PyTree,
        chosen: Sequence[bool] | None = None,
    ) -> None:
        """Finds the references.

        Args:
            function_name: the transformation, for errors. name: the function's name.
            args, kwargs: the arguments.
            chosen: for each leaf whether a reference there is lent; None for all.

        Raises:
            RefError: a reference appears twice, or an argument is a view of one.
        """
        leaves, tree = flatten((args, kwargs))
        leaf_indices = [i for i, x in enumerate(leaves) if _is_ref(x) and (chosen is None or chosen[i])]
        refs: list[Ref] = []
        seen: dict[Cell, str] = {}
        for i in leaf_indices:
            x, path = leaves[i], argument_path((args, kwargs), i)
            if not isinstance(x, Ref):
                raise RefError(f"{function_name}: {path} of {name} is a view of a ref; pass the ref")
            if x._cell in seen:
                raise RefError(
                    f"{function_name}: {seen[x._cell]} and {path} of {name} are one Ref {x.type!r}; pass it once"
                )
            seen[x._cell] = path
            refs.append(x)
            leaves[i] = RefContents(x[...], x._cell.stops_gradient)
        self._misuse_messages = {
            cell: f"{name} uses the ref in another way than as its {path}, by closing over it; use the argument"
            for cell, path in seen.items()
        }
        self.leaf_indices, self.refs = leaf_indices, refs
        self.arguments: Arguments = tree.unflatten(leaves)

    def call_with_contents(
        self, function: Callable[..., tuple[PyTree, PyTree]], writes_back: bool = True
    ) -> PyTree:
        """Calls a function of contents, and writes the final contents to the references.

        Args:
            function: returns a result and contents. writes_back: False if the contents are no arrays.

        Returns:
            The result.

        Raises:
            RefError: the function uses one of the references in an unsupported way.
        """
        args, kwargs = self.arguments
        outer_cells = lent_cells.get()
        try:
            lent_cells.set({**outer_cells, **self._misuse_messages})
            result, finals = function(*args, **kwargs)
        finally:
            lent_cells.set(outer_cells)
        for ref, y in zip(self.refs, finals, strict=True):
            if writes_back and y is not None:
                ref[...] = y
        return result


def call_compiled_with_refs(
    name: str,
    trees: tuple[PyTreeDef, PyTreeDef],
    run: Callable[..., tuple[PyTree, PyTree]],
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
) -> PyTree:
    """Calls a function compiled for arguments with references.

    Args:
        name: the function's name.
        trees: the structures of its arguments and of the arguments of the function of contents.
        run: calls the function of contents.
        args, kwargs: the arguments.

    Raises:
        TreeError: the arguments have another structure, or an argument and a reference are exchanged.
    """
    in_tree, lent_tree = trees
    leaves, tree = flatten((args, kwargs))
    if tree != in_tree:
        raise TreeError(f"{name}: compiled for arguments of structure {in_tree}, got {tree}")
    holes = flatten(lent_tree.unflatten(leaves), is_leaf=lambda x: type(x) is RefContents)[0]
    kinds = ("an array", "a Ref")
    for i, (x, hole) in enumerate(zip(leaves, holes, strict=True)):
        was_ref, is_ref = type(hole) is RefContents, isinstance(x, ReferenceBase)
        if was_ref is not is_ref:
            raise TreeError(
                f"{name}: compiled for {kinds[was_ref]} as {argument_path((args, kwargs), i)}, got {kinds[is_ref]}"
            )
    return RefArguments("jit", name, args, kwargs).call_with_contents(run)
