"""What all mutable references are, for those who take arrays and must tell the two apart."""

from effx.errors import RefGivenError
from effx.ir.values.typed import Typed
from effx.tree.registry import PyTree, flatten


class ReferenceBase(Typed):
    """Base of mutable references, and of views of their parts."""

    __slots__ = ()

    def __effx_array__(self) -> object:
        """Refuses: a program that took what is there now for the reference would miss later writes.

        Raises:
            RefGivenError: always.
        """
        raise RefGivenError(
            f"ref: a Ref {self.type!r} stands where an array is expected; read what it holds with ref[...], or close over it"
        )


def has_refs(tree: PyTree) -> bool:
    """Says whether a leaf is a reference or a view of one."""
    return any([isinstance(x, ReferenceBase) for x in flatten(tree)[0]])
