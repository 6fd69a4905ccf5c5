"""Batching functions of lists of arrays."""

from collections.abc import Callable, Hashable, Sequence

from effx.array import Array, Box
from effx.effects import handle
from effx.handlers.vmap import Batched, Vmap

__all__ = ["batch"]


def batch(
    function: Callable[[list[Array]], Sequence[Array]],
    values: Sequence[Array],
    axes: Sequence[int | None],
    size: int,
    axis_name: Hashable = None,
    origin: str = "",
) -> tuple[list[Array], list[int | None]]:
    """Evaluates a function for all elements of a batch.

    Args:
        function: of the arrays of one batch element.
        values: with the batch axis at `axes`.
        axes: counted from 0; None for an unbatched value.
        size: of the batch.
        axis_name: the batch's name for collectives.
        origin: the user's function, for errors.

    Returns:
        The results and their batch axes, None for unbatched results.
    """
    with handle(Vmap(size, axis_name), origin) as frame:
        arguments: list[Array] = []
        for x, axis in zip(values, axes, strict=True):
            if axis is None:
                arguments.append(x)
            else:
                t = x.type
                arguments.append(
                    Box(frame, Batched(x, axis), t.with_shape(t.shape[:axis] + t.shape[axis + 1 :]))
                )
        outputs: list[Array] = []
        places: list[int | None] = []
        for y in function(arguments):
            if type(y) is Box and y.frame is frame:
                batched: Batched = y.payload
                outputs.append(batched.value)
                places.append(batched.axis)
            else:
                outputs.append(y)
                places.append(None)
    return outputs, places
