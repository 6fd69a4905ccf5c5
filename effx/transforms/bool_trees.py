"""Trees of bools that say something of each array of arguments or results; tuples will do for any containers."""

from collections.abc import Iterator, Sequence

from effx.errors import TransformError, TreeError
from effx.tree.registry import PyTree, PyTreeDef, flatten


def flags_of(what: str, name: str, given: PyTree, tree: PyTreeDef) -> list[bool]:
    """Returns a bool for each leaf of the primals.

    Args:
        what, name: the transformation and its parameter, for errors.
        given: a bool, or a prefix of the primals, whose containers need only have as many children as theirs.
        tree: the structure of the primals, a tuple's.

    Raises:
        TransformError: a leaf is no bool.
        TreeError: it is no prefix.
    """
    if given is True:
        return [True] * tree.num_leaves
    flags, form = flatten(given, is_leaf=lambda x: x is None)
    for flag in flags:
        if type(flag) is not bool:
            raise TransformError(
                f"{what}: {name} must hold bools, got {flag!r} of type {type(flag).__name__}"
            )
    return list(_spread(what, name, form, iter(flags), tree))


def _spread(what: str, name: str, form: PyTreeDef, flags: Iterator[bool], tree: PyTreeDef) -> Iterator[bool]:
    if form.node_data() is None:
        flag = next(flags)
        yield from [flag] * tree.num_leaves
        return
    parts, children = form.children(), tree.children()
    if tree.node_data() is None or len(parts) != len(children):
        of = "an array" if tree.node_data() is None else f"a container of {len(children)}"
        raise TreeError(
            f"{what}: {name} must be a prefix of the primals, but has a container of {len(parts)} for {of}"
        )
    for part, child in zip(parts, children, strict=True):
        yield from _spread(what, name, part, flags, child)


def as_tree(tree: PyTreeDef, flags: Sequence[bool]) -> PyTree:
    """Returns bools in a structure, in which tuples stand for containers that are neither tuple, list nor dict."""
    return _built(tree, iter(flags))


def _built(tree: PyTreeDef, flags: Iterator[bool]) -> PyTree:
    data = tree.node_data()
    if data is None:
        return next(flags)
    parts = [_built(child, flags) for child in tree.children()]
    if data[0] is dict:
        return dict(zip(data[1], parts, strict=True))
    return parts if data[0] is list else tuple(parts)
