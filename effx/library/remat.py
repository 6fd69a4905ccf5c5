"""Choose the residuals that a gradient saves, by operation class, name stack and size.

The handler names the results to save, and `checkpoint` computes the others again in the backward pass. Of a loop the
named results of all iterations are saved, stacked.
"""

from collections.abc import Callable, Collection
from typing import ParamSpec, TypeVar, final

import attrs

import effx
from effx import Array, checkpoint_policies
from effx.ad_checkpoint import checkpoint_name
from effx.errors import TransformError, check_function
from effx.handling import InterceptHandler, Operation, Site, ops
from effx.lazy import list_names
from effx.library.wrapping import under
from effx.tree import PyTree

__all__ = ["remat"]
__dir__ = list_names(__all__)

P = ParamSpec("P")
R = TypeVar("R")
LABEL = "effx.library.remat"
Kind = type[Operation[PyTree]]


@final
@attrs.frozen
class NameSavedResults(InterceptHandler[None]):
    """Names the results to save.

    Attributes:
        kinds: operation classes or traits whose results are saved.
        scopes: if not empty, only in these scopes.
        at_most: results of more bytes than this are not saved.
    """

    kinds: tuple[Kind, ...]
    scopes: frozenset[str]
    at_most: float


@NameSavedResults.rule(Operation)
def _(site: Site[NameSavedResults, None, PyTree], op: Operation[PyTree], *operands: Array) -> PyTree:
    handler, y = site.handler, site.forward()
    here = not handler.scopes or not handler.scopes.isdisjoint(site.scope.split("/"))
    if not (here and isinstance(op, handler.kinds)):
        return y

    def keep_part(part: Array) -> Array:
        return checkpoint_name(part, LABEL) if part.nbytes <= handler.at_most else part

    return tuple(map(keep_part, y)) if isinstance(y, tuple) else keep_part(y)


def remat(
    fun: Callable[P, R],
    keep: Kind | Collection[Kind] = ops.DotGeneral,
    scopes: Collection[str] = (),
    at_most: float = float("inf"),
    offload: bool = False,
) -> Callable[P, R]:
    """Returns a function whose gradient saves few residuals.

    Args:
        fun: takes and returns pytrees of arrays.
        keep: operation classes or traits, one or several; only their results are saved.
        scopes: names of `named_scope`s, one or several; if given, only results inside them are saved.
        at_most: results with more bytes are not saved.
        offload: True to keep results in the host's memory.

    Raises:
        TransformError: `keep` holds something else than operation classes.

    >>> import effx.numpy as enp
    >>> f = remat(lambda x: enp.sum(enp.sin(x @ x)))
    >>> print(effx.grad(f)(enp.eye(2)))
    [[1.0806046 2.       ]
     [2.        1.0806046]]
    """
    check_function(fun)
    kinds = (keep,) if isinstance(keep, type) else tuple(keep)
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, Operation):  # type: ignore[redundant-expr]  # unchecked callers
            raise TransformError(f"remat: keep takes operation classes or traits, got {kind!r}")
    named = frozenset({scopes} if isinstance(scopes, str) else scopes)
    policy = (
        checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[],
            names_which_can_be_offloaded=[LABEL],
            offload_src="device",
            offload_dst="pinned_host",
        )
        if offload
        else checkpoint_policies.save_only_these_names(LABEL)
    )
    checkpointed: Callable[P, R] = effx.checkpoint(
        under(NameSavedResults(kinds, named, at_most), fun), policy=policy
    )
    return checkpointed
