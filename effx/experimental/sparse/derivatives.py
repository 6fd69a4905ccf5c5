"""Gradients and Jacobians by sparse arguments, at the coordinates of the argument's stored elements only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from effx.array import Array
from effx.errors import TransformError, check_function
from effx.experimental.sparse.base import JAXSparse
from effx.experimental.sparse.bcoo import BCOO, as_bcoo
from effx.lax.operands import check_int
from effx.tracing.wrapping import wraps
from effx.transforms.autodiff import gradients, jacobians
from effx.tree.registry import PyTree, PyTreeDef, flatten

__all__ = ["grad", "jacfwd", "jacobian", "jacrev", "value_and_grad"]


def _is_sparse(x: object) -> bool:
    return isinstance(x, JAXSparse)


def value_and_grad(
    fun: Callable[..., PyTree], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: bool
) -> Callable[..., tuple[PyTree, PyTree]]:
    """Return a function that gives a function's value and its gradient; that of a sparse argument is sparse.

    Args:
        fun: a function with a scalar result.
        argnums: which arguments; sparse ones, arrays, or trees of them.
        has_aux: True where the function returns a pair, whose second part is returned too.
        **kwargs: those of `effx.value_and_grad`.

    Raises:
        TransformError: `fun` is no function.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> value, gradient = value_and_grad(lambda x: (x @ enp.array([1.0, 2.0])).sum())(BCOO.fromdense(enp.eye(2)))
    >>> float(value), gradient.todense().tolist()
    (3.0, [[1.0, 0.0], [0.0, 2.0]])
    """
    check_function(fun)

    @wraps(fun)
    def differentiated(*args: PyTree, **named: PyTree) -> tuple[PyTree, PyTree]:
        of_elements, leaves, rebuilt = _function_of_elements(fun, argnums, args, named)
        transform = cast("Callable[..., Callable[..., tuple[PyTree, PyTree]]]", gradients.value_and_grad)
        value, element_gradients = transform(of_elements, has_aux=has_aux, **kwargs)(
            [_differentiable_elements(x) for x in leaves]
        )
        return value, rebuilt(
            [_with_elements(x, ct) for x, ct in zip(leaves, element_gradients, strict=True)]
        )

    return differentiated


def _function_of_elements(
    fun: Callable[..., PyTree],
    argnums: int | Sequence[int],
    args: Sequence[PyTree],
    named: dict[str, PyTree],
) -> tuple[Callable[[list[PyTree]], PyTree], list[PyTree], Callable[[list[PyTree]], PyTree]]:
    """Returns the function of a list of elements, the arrays that are differentiated by, and what makes the arguments'
    structure of a list of derivatives.
    """
    one = isinstance(argnums, int)
    numbers = [argnums] if isinstance(argnums, int) else [check_int("argnums", k) for k in argnums]
    leaves, tree = flatten([args[k] for k in numbers], is_leaf=_is_sparse)

    def of_elements(elements: list[PyTree]) -> PyTree:
        rebuilt_arguments = tree.unflatten(
            [_with_elements(x, y) for x, y in zip(leaves, elements, strict=True)]
        )
        argument_list = [*args]
        for k, x in zip(numbers, rebuilt_arguments, strict=True):
            argument_list[k] = x
        return fun(*argument_list, **named)

    def rebuilt(derivatives: list[PyTree]) -> PyTree:
        result = tree.unflatten(derivatives)
        return result[0] if one else tuple(result)

    return of_elements, leaves, rebuilt


def _differentiable_elements(x: PyTree) -> PyTree:
    return x.data if isinstance(x, JAXSparse) else x


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
    check_function(fun)
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    @wraps(fun)
    def gradient(*args: PyTree, **named: PyTree) -> PyTree:
        value, argument_gradients = both(*args, **named)
        return (argument_gradients, value[1]) if has_aux else argument_gradients

    return gradient


def _with_elements(x: object, data: Array) -> PyTree:
    """Returns a sparse array with other elements; the elements themselves for a dense one."""
    if not isinstance(x, JAXSparse):
        return data
    children, static = x.tree_flatten()
    return type(x).tree_unflatten(static, (data, *children[1:]))


def _jacobian(
    transform: Callable[..., Callable[..., PyTree]],
    fun: Callable[..., PyTree],
    argnums: int | Sequence[int],
    has_aux: bool,
    kwargs: dict[str, bool],
) -> Callable[..., PyTree]:
    check_function(fun)

    @wraps(fun)
    def differentiated(*args: PyTree, **named: PyTree) -> PyTree:
        of_elements, leaves, rebuilt = _function_of_elements(fun, argnums, args, named)
        trees: list[PyTreeDef] = []

        def of_arrays(elements: list[PyTree]) -> PyTree:
            y, aux = (
                cast("tuple[PyTree, PyTree]", of_elements(elements))
                if has_aux
                else (of_elements(elements), None)
            )
            results, tree = flatten(y, is_leaf=_is_sparse)
            for r in results:
                if isinstance(r, JAXSparse):
                    raise TransformError(
                        f"{transform.__name__}: the function must return dense arrays, got {r!r}; "
                        "sparse.todense makes it one"
                    )
            trees.append(tree)
            return (results, aux) if has_aux else results

        derivatives = transform(of_arrays, has_aux=has_aux, **kwargs)(
            [_differentiable_elements(x) for x in leaves]
        )
        rows, aux = cast("tuple[list[list[Array]], PyTree]", derivatives if has_aux else (derivatives, None))
        blocks = [
            rebuilt([_derivative_block(x, y) for x, y in zip(leaves, row, strict=True)]) for row in rows
        ]
        result = trees[-1].unflatten(blocks)
        return (result, aux) if has_aux else result

    return differentiated


def _derivative_block(x: PyTree, jacobian: Array) -> PyTree:
    """Returns the derivative by one array: for a sparse one the result's axes are batch axes, all with its coordinates."""
    if not isinstance(x, JAXSparse):
        return jacobian
    m = as_bcoo(x)
    outer = jacobian.ndim - m.data.ndim
    indices = m.indices.reshape((1,) * outer + m.indices.shape)
    return BCOO(
        (jacobian, indices), shape=jacobian.shape[:outer] + m.shape, indices_sorted=m.indices_sorted,
        unique_indices=m.unique_indices,
    )  # fmt: skip


def jacfwd(
    fun: Callable[..., PyTree], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: bool
) -> Callable[..., PyTree]:
    """Return a function that gives the Jacobian of a function, column by column; by a sparse argument it is sparse.

    Args:
        fun: takes arrays, sparse or dense, and returns dense ones.
        argnums: which arguments; sparse ones, arrays, or trees of them.
        has_aux: True where the function returns a pair, whose second part is returned too.
        **kwargs: those of `effx.jacfwd`.

    Returns:
        A function that gives, for a result of shape s and a sparse argument of shape t, a `BCOO` of shape (*s, *t) with
        s as further batch axes: what is not stored has no derivative.

    Raises:
        TransformError: `fun` is no function, or returns a sparse array.

    >>> import effx.numpy as enp
    >>> x, v = BCOO.fromdense(enp.eye(2)), enp.array([3.0, 4.0])
    >>> jacfwd(lambda x: x @ v)(x).todense().tolist()
    [[[3.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 4.0]]]
    """
    return _jacobian(jacobians.jacfwd, fun, argnums, has_aux, kwargs)


def jacrev(
    fun: Callable[..., PyTree], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: bool
) -> Callable[..., PyTree]:
    """Return a function that gives the Jacobian of a function, row by row; see `jacfwd`.

    Args:
        fun: takes arrays, sparse or dense, and returns dense ones.
        argnums: which arguments; sparse ones, arrays, or trees of them.
        has_aux: True where the function returns a pair, whose second part is returned too.
        **kwargs: those of `effx.jacrev`.

    Raises:
        TransformError: `fun` is no function, or returns a sparse array.

    >>> import effx.numpy as enp
    >>> jacrev(lambda x: x.sum(0).todense())(BCOO.fromdense(enp.eye(2))).shape
    (2, 2, 2)
    """
    return _jacobian(jacobians.jacrev, fun, argnums, has_aux, kwargs)


jacobian = jacrev
