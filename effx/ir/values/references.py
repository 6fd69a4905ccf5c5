"""What all mutable references are, for those who take arrays and must tell the two apart."""

from effx.errors import RefError
from effx.ir.types import ArrayType


class GivenRef(RefError):
    """A reference stands where an array is expected. Transformations that take references as arguments expect this."""


class Reference:
    """Base of mutable references, and of views of their parts.

    Attributes:
        type: of what is there.
    """

    __slots__ = ()
    type: ArrayType

    def __effx_array__(self) -> object:
        """Refuses: a program that took what is there now for the reference would miss later writes.

        Raises:
            GivenRef: always.
        """
        raise GivenRef(
            f"ref: a Ref {self.type!r} stands where an array is expected; read what it holds with ref[...]"
        )
