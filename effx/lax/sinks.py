"""`dce_sink`: a value that stays in programs though nothing uses it."""

from typing import Final, final

from effx.array import Array
from effx.array.promotion import as_operand
from effx.effects import Effect, Label, Value
from effx.handling import ArrayType, Tangent, TupleOperation, Vmap, jvp_tuple_rule, vmap_tuple_rule
from effx.tree.registry import PyTree, flatten

__all__ = ["dce_sink"]

SINK: Final = Label("dce sink", optional=True, ordered=False)


@final
class DceSink(TupleOperation):
    """Takes operands and gives nothing. It stays in programs, and so does what computes the operands."""

    __slots__ = ()

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """That its operands are used."""
        return frozenset[Effect]({SINK})

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """No results."""
        return ()

    def decompose(self, *operands: Value) -> tuple[Array, ...]:
        """Nothing."""
        return ()


@jvp_tuple_rule(DceSink)
def jvp_sink(
    op: DceSink, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    return op(*primals), ()


@vmap_tuple_rule(DceSink)
def batch_sink(
    handler: Vmap, op: DceSink, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[tuple[Array, ...], tuple[int | None, ...]]:
    return op(*values), ()


def dce_sink(val: PyTree) -> None:
    """Keeps what computes a value in programs, where nothing else uses it.

    XLA still drops it from compiled code. Tools that read programs see it.

    Args:
        val: a pytree of arrays and numbers.

    Raises:
        DTypeError: a leaf is no array.

    >>> import effx, effx.numpy as enp
    >>> print(effx.jit(lambda x: (dce_sink(enp.sin(x)), x)[1]).trace(1.0).program)
    <lambda>(a: f32[]~) ! Label(name='dce sink', optional=True) {
      b: f32[]~ = sin a
      dce_sink b
      return a
    }
    """
    DceSink()(*[as_operand(x) for x in flatten(val)[0]])
