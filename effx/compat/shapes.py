"""`jax.eval_shape`: the shapes of what a function returns, some of which may be shapes already."""

from collections.abc import Callable

from effx.errors import check_function
from effx.tracing.wrapping import wraps
from effx.transforms.jit import make_jaxpr
from effx.transforms.jit.stages import ShapeDtypeStruct
from effx.tree import PyTree, flatten
from effx.tree.registry import PyTreeDef

__all__ = ["eval_shape"]


def eval_shape(fun: Callable[..., PyTree], *args: PyTree, **kwargs: PyTree) -> PyTree:
    """Returns the shapes and dtypes of what a function returns, without computing it.

    `effx.eval_shape` takes functions that return arrays. Here a `ShapeDtypeStruct` in the result stays what it is:
    libraries ask for the shapes of trees that hold either.

    Args:
        fun: takes pytrees of arrays or of `ShapeDtypeStruct`.
        *args: by position. **kwargs: by keyword.

    Raises:
        TransformError: `fun` is no function.
        DTypeError: something in the result is no array, number or ShapeDtypeStruct.

    >>> eval_shape(lambda x: (x + 1, ShapeDtypeStruct((2,), "int32")), 1.5)
    (ShapeDtypeStruct(shape=(), dtype=float32, weak_type=True), ShapeDtypeStruct(shape=(2,), dtype=int32))
    """
    check_function(fun)
    # Without the arrays: nothing may keep those of a staged function.
    results: list[tuple[PyTreeDef, list[PyTree]]] = []

    @wraps(fun)
    def arrays(*args: PyTree, **kwargs: PyTree) -> list[PyTree]:
        leaves, tree = flatten(fun(*args, **kwargs))
        results.append((tree, [leaf if isinstance(leaf, ShapeDtypeStruct) else None for leaf in leaves]))
        return [leaf for leaf in leaves if not isinstance(leaf, ShapeDtypeStruct)]

    shapes = iter(make_jaxpr.eval_shape(arrays, *args, **kwargs))
    tree, leaves = results[-1]
    return tree.unflatten([next(shapes) if leaf is None else leaf for leaf in leaves])
