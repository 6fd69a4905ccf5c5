"""Gradients: `grad` and `value_and_grad`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar, overload

from effx.errors import DTypeError, RefError, RefGivenError, ShapeError, check_function
from effx.ir.types import ArrayType
from effx.ir.values.scalars import scalar
from effx.tracing.arguments import as_arrays, callable_name, select_arguments
from effx.tracing.wrapping import wraps
from effx.transforms.autodiff.core import RecordedPullback, SummedPullback, record_derivative
from effx.transforms.maps.mapped_axes import parse_axis_names
from effx.tree.registry import PyTree, flatten

if TYPE_CHECKING:
    from effx.tracing.signatures import (
        Gradient,
        GradientAndAux,
        NoFunction,
        ScalarResult,
        ValueAndGradient,
    )

__all__ = ["grad", "value_and_grad"]

P = ParamSpec("P")
R = TypeVar("R", bound="ScalarResult")
Aux = TypeVar("Aux")


@overload
def value_and_grad(  # for `partial(value_and_grad, has_aux=True)`, of whose overloads mypy takes the first
    fun: NoFunction,
) -> Callable[..., PyTree]: ...
@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: Literal[False] = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> ValueAndGradient[P, R, Literal[0]]: ...
@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: Literal[1],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: Literal[False] = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> ValueAndGradient[P, R, Literal[1]]: ...
@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: tuple[Literal[0], Literal[1]],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: Literal[False] = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> ValueAndGradient[P, R, tuple[Literal[0], Literal[1]]]: ...
@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> ValueAndGradient[P, R, object]: ...
@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    *,
    holomorphic: bool = False,
    allow_int: Literal[True],
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> ValueAndGradient[P, R, object]: ...
@overload
def value_and_grad(
    fun: Callable[P, tuple[R, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: Literal[False] = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> ValueAndGradient[P, tuple[R, Aux], Literal[0]]: ...
@overload
def value_and_grad(
    fun: Callable[P, tuple[R, Aux]],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> ValueAndGradient[P, tuple[R, Aux], object]: ...
def value_and_grad(
    fun: Callable[..., PyTree],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> PyTree:
    """Returns a function that computes `fun`'s value and its gradient.

    Args:
        fun: returns a scalar (with has_aux a pair of a scalar and anything).
        argnums: which positional argument or arguments to differentiate by.
        has_aux: whether `fun` returns a pair `(value, aux)`; `aux` may be a pytree of anything.
        holomorphic: whether the caller promises that `fun` is holomorphic; its arguments and result are complex.
        allow_int: whether arguments may be integers, whose gradients have dtype float0.
        reduce_axes: names of axes of surrounding vmaps or pmaps. The gradient with respect to an argument
            that does not vary along such an axis is the sum along it; without this, one for each index.

    Returns:
        A function that returns `(value, gradient)`, or `((value, aux), gradient)`. The gradient has the
        structure of the argument, and is a tuple if `argnums` is one.

    Raises:
        ShapeError, DTypeError: the result is no real scalar, or an argument is an integer.

    >>> import effx
    >>> print(*effx.value_and_grad(lambda x: x ** 3)(2.0))
    8.0 12.0
    """
    return _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)


def _value_and_grad(
    fun: Callable[..., PyTree],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    reduce_axes: Hashable | Sequence[Hashable],
) -> Callable[..., tuple[PyTree, PyTree]]:
    check_function(fun)
    name, axes = callable_name(fun), parse_axis_names("grad", reduce_axes)

    @wraps(fun)
    def value_and_gradient(*args: PyTree, **kwargs: PyTree) -> tuple[PyTree, PyTree]:
        function, chosen = select_arguments("grad", fun, argnums, args, kwargs)
        leaves, tree = flatten(chosen)
        try:
            arrays = as_arrays("grad", leaves, (chosen, {}))
        except RefGivenError:
            raise RefError(
                "grad: an argument that is a Ref has no gradient that could be returned; use effx.vjp and f_vjp.with_refs, "
                "or leave it out of argnums"
            ) from None
        for x in arrays:
            _check_input(name, x.type, holomorphic, allow_int)

        perturbed = (True,) * len(arrays)
        recording = record_derivative("grad", function, arrays, tree, perturbed, has_aux)
        residuals, types = recording.residuals, recording.derivative.type.out_types
        if len(types) != 1 or types[0].shape:
            got = ", ".join(map(repr, types))
            raise ShapeError(f"grad: {name} must return a scalar, got {got or 'nothing'}; use vjp or jacrev")
        (t,) = types
        _check_output(name, t, holomorphic)
        seed = recording.derivative.type.out_tree.unflatten([scalar(1, t.dtype, t.weak)])
        pull = RecordedPullback("grad", recording.derivative)
        gradients = (
            SummedPullback(pull, axes)(residuals, tuple(arrays), seed) if axes else pull(residuals, seed)
        )
        result = gradients if isinstance(argnums, Sequence) else gradients[0]
        value, _, *auxiliary = recording.return_with(None)
        return ((value, *auxiliary) if has_aux else value), result

    value_and_gradient.argnums = argnums  # type: ignore[attr-defined]  # for ValueAndGradient
    return value_and_gradient


def _check_input(name: str, t: ArrayType, holomorphic: bool, allow_int: bool) -> None:
    if holomorphic:
        if t.kind != "c":
            raise DTypeError(f"grad: with holomorphic=True arguments of {name} must be complex, got {t!r}")
    elif t.kind not in "fc" and not allow_int:
        raise DTypeError(
            f"grad: {name} must be differentiated by floating or complex arguments, got {t!r}; "
            f"convert it, or pass allow_int=True for a float0 gradient"
        )


def _check_output(name: str, t: ArrayType, holomorphic: bool) -> None:
    if holomorphic:
        if t.kind != "c":
            raise DTypeError(f"grad: with holomorphic=True {name} must return a complex scalar, got {t!r}")
    elif t.kind == "c":
        raise DTypeError(
            f"grad: {name} must return a real scalar, got {t!r}; pass holomorphic=True, or use vjp"
        )
    elif t.kind != "f":
        raise DTypeError(f"grad: {name} must return a floating scalar, got {t!r}")


@overload
def grad(  # for `partial(grad, argnums=1)`, as above
    fun: NoFunction,
) -> Callable[..., PyTree]: ...
@overload
def grad(
    fun: Callable[P, ScalarResult],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: Literal[False] = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> Gradient[P, Literal[0]]: ...
@overload
def grad(
    fun: Callable[P, ScalarResult],
    argnums: Literal[1],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: Literal[False] = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> Gradient[P, Literal[1]]: ...
@overload
def grad(
    fun: Callable[P, ScalarResult],
    argnums: tuple[Literal[0], Literal[1]],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: Literal[False] = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> Gradient[P, tuple[Literal[0], Literal[1]]]: ...
@overload
def grad(
    fun: Callable[P, ScalarResult],
    argnums: int | Sequence[int],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> Gradient[P, object]: ...
@overload
def grad(
    fun: Callable[P, ScalarResult],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    *,
    holomorphic: bool = False,
    allow_int: Literal[True],
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> Gradient[P, object]: ...
@overload
def grad(
    fun: Callable[P, tuple[ScalarResult, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: Literal[False] = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> GradientAndAux[P, Aux, Literal[0]]: ...
@overload
def grad(
    fun: Callable[P, tuple[ScalarResult, Aux]],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> GradientAndAux[P, Aux, object]: ...
def grad(
    fun: Callable[..., PyTree],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
) -> PyTree:
    """Returns a function that computes `fun`'s gradient, in the structure of the argument.

    For arguments and errors see `value_and_grad`. With has_aux the result is `(gradient, aux)`.
    The gradient of a real function of complex arguments is the conjugate of the direction of
    steepest ascent, as the pairing of cotangents has no conjugation.

    >>> import effx, effx.numpy as enp
    >>> print(f"{effx.grad(enp.tanh)(0.2):.6f}")
    0.961043
    """
    compute_both = _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @wraps(fun)
    def gradient(*args: PyTree, **kwargs: PyTree) -> PyTree:
        value, result = compute_both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    gradient.argnums = argnums  # type: ignore[attr-defined]  # for Gradient
    return gradient
