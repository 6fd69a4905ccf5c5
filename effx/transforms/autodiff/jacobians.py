"""Jacobians and Hessians: one derivative for each basis vector, all at once by `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar, overload

from effx import dtypes
from effx.array import Array
from effx.array.promotion import convert
from effx.array.shaping import moveaxis, reshape
from effx.errors import DTypeError, check_function
from effx.ir.ops.compare import Eq
from effx.ir.ops.shape import Iota
from effx.ir.types import ArrayType, array_type
from effx.tracing.arguments import AuxiliaryData, as_arrays, callable_name, finalize_result, select_arguments
from effx.tracing.wrapping import wraps
from effx.transforms.autodiff.core import jvp, vjp
from effx.transforms.maps.vmap import vmap
from effx.tree.registry import PyTree, flatten

if TYPE_CHECKING:
    from effx.tracing.signatures import HessianOf, JacobianOf, NoFunction

__all__ = ["hessian", "jacfwd", "jacobian", "jacrev"]

P = ParamSpec("P")
R = TypeVar("R")

# The result type depends on has_aux, whose value is not known here.
_jvp: Callable[..., PyTree] = jvp
_vjp: Callable[..., PyTree] = vjp


def _standard_basis(types: Sequence[ArrayType]) -> list[Array]:
    """Returns for each type a stack of tangents: together the standard basis of all elements."""
    total = sum(t.size for t in types)
    start = 0
    result = []
    for t in types:
        # Row i has its 1 at element i - start of this array.
        counts = array_type(dtypes.int32, (total, t.size))
        eye = Eq()(Iota(counts, 0)(), Iota(counts, 1)() + start)
        result.append(reshape(convert(eye, t.dtype), (total, *t.shape)))
        start += t.size
    return result


def _check_argument(
    function_name: str, name: str, t: ArrayType, holomorphic: bool, allow_int: bool = False
) -> None:
    if holomorphic:
        if t.kind != "c":
            raise DTypeError(
                f"{function_name}: with holomorphic=True arguments of {name} must be complex, got {t!r}"
            )
    elif (
        t.kind != "f"
        and not (allow_int and t.kind in "biu")
        and not (function_name == "jacrev" and t.kind == "c")
    ):
        raise DTypeError(f"{function_name}: {name} must be differentiated by floating arguments, got {t!r}")


def _check_result(function_name: str, name: str, t: ArrayType, holomorphic: bool) -> None:
    if holomorphic:
        if t.kind != "c":
            raise DTypeError(
                f"{function_name}: with holomorphic=True {name} must return complex values, got {t!r}"
            )
    elif t.kind != "f" and not (function_name == "jacfwd" and (t.kind == "c" or t.dtype == dtypes.float0)):
        raise DTypeError(f"{function_name}: {name} must return floating values, got {t!r}")


@overload
def jacfwd(  # for `partial(jacfwd, argnums=1)`, of whose overloads mypy takes the first
    fun: NoFunction,
) -> JacobianOf[..., PyTree]: ...
@overload
def jacfwd(
    fun: Callable[P, R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> JacobianOf[P, R]: ...
@overload
def jacfwd(
    fun: Callable[P, PyTree],
    argnums: int | Sequence[int],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> JacobianOf[P, object]: ...
@overload
def jacfwd(
    fun: Callable[P, PyTree],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool,
    holomorphic: bool = False,
) -> JacobianOf[P, object]: ...
def jacfwd(
    fun: Callable[..., PyTree],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> PyTree:
    """Returns a function that computes `fun`'s Jacobian, column by column in forward mode: best for tall Jacobians.

    Args:
        fun: takes and returns pytrees of arrays.
        argnums: which positional argument or arguments to differentiate by.
        has_aux: whether `fun` returns a pair `(result, aux)`.
        holomorphic: whether the caller promises that `fun` is holomorphic.

    Returns:
        A function that returns, for each array of shape s in the result and each array of shape t in the argument,
        an array of shape (*s, *t): the result's structure with the argument's as each leaf, of dtype float0 for integer
        results. With has_aux a pair of that and the auxiliary data.

    >>> import effx, effx.numpy as enp
    >>> print(effx.jacfwd(lambda x: enp.stack([x[0] * x[1], x[0] ** 2]))(enp.array([2., 3.])))
    [[3. 2.]
     [4. 0.]]
    """
    check_function(fun)
    name = callable_name(fun)

    @wraps(fun)
    def jacobian_of(*args: PyTree, **kwargs: PyTree) -> PyTree:
        selected, chosen = select_arguments("jacfwd", fun, argnums, args, kwargs)
        leaves, tree = flatten(chosen)
        arrays = as_arrays("jacfwd", leaves, (chosen, {}))
        for x in arrays:
            _check_argument("jacfwd", name, x.type, holomorphic)
        types = [x.type for x in arrays]

        extra: list[AuxiliaryData] = []

        def push(*tangents: Array) -> tuple[PyTree, list[Array]]:
            out_tangents, *aux = _jvp(
                selected, tree.unflatten(arrays), tree.unflatten(tangents), has_aux=has_aux
            )[1:]
            extra[:] = [AuxiliaryData("jacfwd", name, data) for data in aux]
            return out_tangents, [x for data in extra for x in data.arrays]

        columns, aux_arrays = vmap(push, out_axes=(0, None))(*_standard_basis(types))
        out_leaves, out_tree = flatten(columns)
        parts = []
        for column in as_arrays("jacfwd", out_leaves, (columns, {})):
            _check_result("jacfwd", name, column.type.with_shape(column.type.shape[1:]), holomorphic)
            columns_last = moveaxis(column, 0, -1)
            pieces, start = [], 0
            for t in types:
                piece = columns_last[..., start : start + t.size]
                pieces.append(finalize_result(reshape(piece, (*column.type.shape[1:], *t.shape))))
                start += t.size
            per_argument = tree.unflatten(pieces)
            parts.append(per_argument if isinstance(argnums, Sequence) else per_argument[0])
        result = out_tree.unflatten(parts)
        return (result, extra[0].rebuild(aux_arrays)) if has_aux else result

    return jacobian_of


@overload
def jacrev(  # for `partial(jacrev, argnums=1)`, of whose overloads mypy takes the first
    fun: NoFunction,
) -> JacobianOf[..., PyTree]: ...
@overload
def jacrev(
    fun: Callable[P, R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: Literal[False] = False,
) -> JacobianOf[P, R]: ...
@overload
def jacrev(
    fun: Callable[P, PyTree],
    argnums: int | Sequence[int],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> JacobianOf[P, object]: ...
@overload
def jacrev(
    fun: Callable[P, PyTree],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> JacobianOf[P, object]: ...
@overload
def jacrev(
    fun: Callable[P, PyTree],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    allow_int: Literal[True],
) -> JacobianOf[P, object]: ...
def jacrev(
    fun: Callable[..., PyTree],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> PyTree:
    """Returns a function that computes `fun`'s Jacobian, row by row in reverse mode: best for wide Jacobians.

    For arguments and the result see `jacfwd`; `allow_int` allows integer arguments, whose
    Jacobians have dtype float0.

    >>> import effx, effx.numpy as enp
    >>> print(effx.jacrev(lambda x: enp.stack([x[0] * x[1], x[0] ** 2]))(enp.array([2., 3.])))
    [[3. 2.]
     [4. 0.]]
    """
    check_function(fun)
    name = callable_name(fun)

    @wraps(fun)
    def jacobian_of(*args: PyTree, **kwargs: PyTree) -> PyTree:
        selected, chosen = select_arguments("jacrev", fun, argnums, args, kwargs)
        leaves, tree = flatten(chosen)
        arrays = as_arrays("jacrev", leaves, (chosen, {}))
        for x in arrays:
            _check_argument("jacrev", name, x.type, holomorphic, allow_int)
        y, pull, *aux = _vjp(selected, *chosen, has_aux=has_aux)
        out_leaves, out_tree = flatten(y)
        types = [x.type for x in out_leaves]
        for t in types:
            _check_result("jacrev", name, t, holomorphic)
        total = sum(t.size for t in types)
        rows = vmap(lambda *cts: pull(out_tree.unflatten(cts)))(*_standard_basis(types)) if total else pull(y)
        row_leaves = flatten(rows)[0]
        if not total:  # an empty result: no rows
            row_leaves = [x.reshape((1, *x.shape))[:0] for x in row_leaves]
        parts, start = [], 0
        for t in types:
            pieces = [x[start : start + t.size].reshape((*t.shape, *x.shape[1:])) for x in row_leaves]
            per_argument = tree.unflatten(pieces)
            parts.append(per_argument if isinstance(argnums, Sequence) else per_argument[0])
            start += t.size
        result = out_tree.unflatten(parts)
        return (result, aux[0]) if has_aux else result

    return jacobian_of


jacobian = jacrev


@overload
def hessian(  # for `partial(hessian, argnums=1)`, of whose overloads mypy takes the first
    fun: NoFunction,
) -> HessianOf[..., PyTree]: ...
@overload
def hessian(
    fun: Callable[P, R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> HessianOf[P, R]: ...
@overload
def hessian(
    fun: Callable[P, PyTree],
    argnums: int | Sequence[int],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> HessianOf[P, object]: ...
@overload
def hessian(
    fun: Callable[P, PyTree],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool,
    holomorphic: bool = False,
) -> HessianOf[P, object]: ...
def hessian(
    fun: Callable[..., PyTree],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> PyTree:
    """Returns a function that computes the second derivatives: forward mode over reverse mode.

    For arguments see `jacfwd`.

    Returns:
        A function that returns the result's structure, with the argument's structure as each
        leaf, and again as each leaf of that: arrays of shape (*s, *t, *u).

    >>> import effx, effx.numpy as enp
    >>> print(effx.hessian(lambda x: x[0] ** 3 - 2 * x[0] * x[1] - x[1] ** 6)(enp.array([1., 2.])))
    [[   6.   -2.]
     [  -2. -480.]]
    """
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )
