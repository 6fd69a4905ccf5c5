"""Primitives of JAX's that effx performs as other operations, so that no equation has them: `lax.squeeze_p` and the like.

Libraries write rules for them in tables of their own, and bind them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, final

import numpy as np

from effx import device_put, lax
from effx.array import Array
from effx.array.promotion import as_operand
from effx.compat.defined import Evaluable, Primitive
from effx.compat.tokens import join_tokens
from effx.compat.window_selection import select_and_gather_add, select_and_scatter, select_and_scatter_add
from effx.dtypes import bits_dtype
from effx.errors import TransformError
from effx.ir.types import ArrayType, array_type
from effx.transforms.jit.make_jaxpr import eval_shape
from effx.tree.registry import PyTree

__all__ = ["COMPOSED", "ComposedPrimitive"]

F = TypeVar("F", bound=Callable[..., PyTree])


@final
class ComposedPrimitive(Primitive):
    """A primitive that is a function of other operations.

    Attributes:
        function: of arrays and of the primitive's parameters.
    """

    def __init__(self, name: str, function: Callable[..., PyTree], multiple_results: bool = False) -> None:
        super().__init__(name)
        self.function = function
        self.multiple_results = multiple_results

    def bind(self, /, *args: PyTree, **params: object) -> PyTree:
        """Calls the function."""
        results = self.function(*[as_operand(x, self.name) for x in args], **params)
        return list(results) if self.multiple_results else results

    def impl(self, /, *args: PyTree, **params: object) -> PyTree:
        """Calls the function."""
        return self.bind(*args, **params)

    def types(self, in_types: Sequence[ArrayType], params: Mapping[str, object]) -> tuple[ArrayType, ...]:
        """Returns the types of what the function gives."""
        results = eval_shape(lambda *xs: self.function(*xs, **params), *in_types)
        return tuple(
            [array_type(x.dtype, x.shape) for x in (results if self.multiple_results else [results])]
        )

    def def_impl(self, impl: F) -> F:
        """Raises a TransformError: effx defines how its functions are computed."""
        raise TransformError(f"{self.name}: is a function of effx; def_impl is for primitives of one's own")


def _reduce(
    *operands: Array, computation: Callable[..., PyTree], dimensions: Sequence[int], **_: object
) -> list[Array]:
    """Reduces arrays; the initial values are the second half of the operands."""
    half = len(operands) // 2
    if half == 1:
        return [lax.reduce(operands[0], operands[1], computation, dimensions)]
    return list(lax.reduce(operands[:half], operands[half:], computation, dimensions))


def _reduce_window(
    *operands: Array,
    jaxpr: Evaluable,
    consts: Sequence[Array],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> list[Array]:
    """Reduces windows of arrays by a program of two elements of each; the initial values are the second half."""
    half = len(operands) // 2
    windows = window_dimensions, window_strides, padding, base_dilation, window_dilation

    def compute(xs: tuple[Array, ...], ys: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(jaxpr.evaluate(consts, (*xs, *ys)))

    return list(lax.reduce_window(operands[:half], operands[half:], compute, *windows))


def _choose_approximately(
    x: Array,
    *,
    is_max_k: bool,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    choose = lax.approx_max_k if is_max_k else lax.approx_min_k
    return list(
        choose(x, k, reduction_dimension, recall_target, reduction_input_size_override, aggregate_to_topk)
    )


def _order_key(x: Array) -> Array:
    """Returns integers in the total order of floats: -NaN, -inf, ..., -0., 0., ..., inf, NaN."""
    if x.type.kind != "f":
        return x
    bits = lax.bitcast_convert_type(x, bits_dtype(x.type.dtype))
    return lax.select(bits < 0, lax.bitwise_xor(bits, lax.full_like(bits, np.iinfo(bits.dtype).max)), bits)


def _compare_in_total_order(compare: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda x, y: compare(_order_key(x), _order_key(y))


def _put(*xs: Array, devices: Sequence[object], **_: object) -> list[Array]:
    """Moves arrays to devices; None leaves one where it is."""
    return [x if device is None else device_put(x, device) for x, device in zip(xs, devices, strict=True)]


COMPOSED: Mapping[str, ComposedPrimitive] = {
    "add_jaxvals": ComposedPrimitive("add_any", lax.add),
    "after_all": ComposedPrimitive("after_all", join_tokens),
    "approx_top_k": ComposedPrimitive("approx_top_k", _choose_approximately, multiple_results=True),
    "create_token": ComposedPrimitive("create_token", join_tokens),
    "cumlogsumexp": ComposedPrimitive("cumlogsumexp", lax.cumlogsumexp),
    "device_put": ComposedPrimitive("device_put", _put, multiple_results=True),
    "eq_to": ComposedPrimitive("eq_to", _compare_in_total_order(lax.eq)),
    "le_to": ComposedPrimitive("le_to", _compare_in_total_order(lax.le)),
    "lt_to": ComposedPrimitive("lt_to", _compare_in_total_order(lax.lt)),
    "reduce_window": ComposedPrimitive("reduce_window", _reduce_window, multiple_results=True),
    "reduce": ComposedPrimitive("reduce", _reduce, multiple_results=True),
    "select_and_gather_add": ComposedPrimitive("select_and_gather_add", select_and_gather_add),
    "select_and_scatter": ComposedPrimitive("select_and_scatter", select_and_scatter),
    "select_and_scatter_add": ComposedPrimitive("select_and_scatter_add", select_and_scatter_add),
    "split": ComposedPrimitive("split", lax.split, multiple_results=True),
    "squeeze": ComposedPrimitive("squeeze", lax.squeeze),
    "stack": ComposedPrimitive("stack", lambda *xs, axis: lax.stack(xs, axis)),
    "top_k": ComposedPrimitive(
        "top_k", lambda x, *, k, axis=-1, is_stable=True: lax.top_k(x, k, axis=axis), multiple_results=True
    ),
    "tile": ComposedPrimitive("tile", lax.tile),
    "unstack": ComposedPrimitive("unstack", lax.unstack, multiple_results=True),
}
"""By the names of the variables that hold them in JAX, without `_p`."""
