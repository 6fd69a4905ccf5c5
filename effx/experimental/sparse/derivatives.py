"""Gradients by sparse arguments: with the argument's coordinates, so that what is not stored has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import cast

from effx.array import Array
from effx.errors import check_function
from effx.experimental.sparse.base import JAXSparse
from effx.numpy.creation import as_int
from effx.transforms import gradients
from effx.tree.registry import PyTree, flatten

__all__ = ["grad", "value_and_grad"]


def _is_sparse(x: object) -> bool:
    return isinstance(x, JAXSparse)


def value_and_grad(
    fun: Callable[..., PyTree], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: bool
) -> Callable[..., tuple[PyTree, PyTree]]:
    """Return a function that gives a function's value and its gradient; that of a sparse argument is sparse.

    Args:
        fun: a function with a scalar result.
        argnums: which arguments; sparse ones, arrays, or trees of them.
        has_aux: True where the function returns a pair, whose second part is handed on.
        **kwargs: those of `effx.value_and_grad`.

    Raises:
        TransformError: `fun` is no function.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> value, gradient = value_and_grad(lambda x: (x @ enp.array([1.0, 2.0])).sum())(BCOO.fromdense(enp.eye(2)))
    >>> float(value), gradient.todense().tolist()
    (3.0, [[1.0, 0.0], [0.0, 2.0]])
    """
    check_function("value_and_grad", fun)
    one = isinstance(argnums, int)
    numbers = (
        [argnums] if isinstance(argnums, int) else [as_int("value_and_grad", "argnums", k) for k in argnums]
    )

    @wraps(fun)
    def differentiated(*args: PyTree, **named: PyTree) -> tuple[PyTree, PyTree]:
        leaves, tree = flatten([args[k] for k in numbers], is_leaf=_is_sparse)

        def of_elements(elements: list[PyTree]) -> PyTree:
            found = tree.unflatten([_with(x, y) for x, y in zip(leaves, elements, strict=True)])
            given = [*args]
            for k, x in zip(numbers, found, strict=True):
                given[k] = x
            return fun(*given, **named)

        transform = cast("Callable[..., Callable[..., tuple[PyTree, PyTree]]]", gradients.value_and_grad)
        start = [x.data if isinstance(x, JAXSparse) else x for x in leaves]
        value, found = transform(of_elements, has_aux=has_aux, **kwargs)(start)
        result = tree.unflatten([_with(x, ct) for x, ct in zip(leaves, found, strict=True)])
        return value, result[0] if one else tuple(result)

    return differentiated


def grad(
    fun: Callable[..., PyTree], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: bool
) -> Callable[..., PyTree]:
    """Return a function that gives the gradient of a function; that of a sparse argument is sparse.

    Args:
        fun: a function with a scalar result.
        argnums: which arguments; sparse ones, arrays, or trees of them.
        has_aux: True where the function returns a pair, whose second part is returned with the gradient.
        **kwargs: those of `effx.grad`.

    Raises:
        TransformError: `fun` is no function.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> grad(lambda x: (x.todense() ** 2).sum())(BCOO.fromdense(enp.array([0.0, 3.0]))).todense().tolist()
    [0.0, 6.0]
    """
    check_function("grad", fun)
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    @wraps(fun)
    def gradient(*args: PyTree, **named: PyTree) -> PyTree:
        value, found = both(*args, **named)
        return (found, value[1]) if has_aux else found

    return gradient


def _with(x: object, data: Array) -> PyTree:
    """Returns a sparse array with other elements; elements alone for a dense one."""
    if not isinstance(x, JAXSparse):
        return data
    children, static = x.tree_flatten()
    return type(x).tree_unflatten(static, (data, *children[1:]))
