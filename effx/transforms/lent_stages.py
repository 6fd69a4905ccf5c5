"""Staging functions for arguments with references, to keep what was staged: see `effx.transforms.lending`."""

from collections.abc import Callable

import attrs

from effx.transforms.lending import Lending
from effx.transforms.stages import Traced
from effx.tree.registry import PyTree, PyTreeDef


def traced_lent(lending: Lending, trace: Callable[..., Traced], tree: PyTreeDef) -> Traced:
    """Stages a function for arguments with references.

    Args:
        lending: of the references in the arguments.
        trace: stages the function of contents, as `borrowing` gives it.
        tree: the structure of the dynamic arguments `(args, kwargs)`, in which references are leaves.

    Raises:
        RefError: the function uses one of the references in another way.
    """

    def staged(*args: PyTree, **kwargs: PyTree) -> tuple[Traced, list[None]]:
        return trace(*args, **kwargs), [None] * len(lending.refs)

    inner: Traced = lending.to(staged, writes=False)
    lent = inner.signature
    out_tree = lent.out_tree.children()[0]  # of a pair: the result, and contents
    signature = attrs.evolve(
        lent, in_tree=tree, out_tree=out_tree, out_types=lent.out_types[: out_tree.num_leaves]
    )
    return attrs.evolve(inner, signature=signature, lent=lent)
