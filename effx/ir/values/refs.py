"""The base class of mutable references, for functions that must distinguish them from arrays."""

from effx.errors import RefGivenError
from effx.ir.values.typed import Typed
from effx.tree.registry import PyTree, flatten


class ReferenceBase(Typed):
    """Base of mutable references, and of views of their parts."""

    __slots__ = ()

    def __effx_array__(self) -> object:
        """Raises an error: a program that read the contents implicitly would miss later writes.

        Raises:
            RefGivenError: always.
        """
        raise RefGivenError(
            f"ref: a Ref {self.type!r} stands where an array is expected; read what it holds with ref[...], or close over it"
        )


def has_refs(tree: PyTree) -> bool:
    """Returns whether a leaf is a reference or a view of one."""
    return any([isinstance(x, ReferenceBase) for x in flatten(tree)[0]])
