"""Automatic mixed precision: products in few bits, sums and parameters in full.

Operands of matrix products are rounded to a narrow dtype, while the sums and the result keep the operands'
own dtype. So no type changes, and neither does the type of a loop's carry.

Source: Micikevicius et al., "Mixed Precision Training", 2018.
"""

from collections.abc import Callable, Collection
from typing import Any, ParamSpec, TypeVar, final

import attrs

import effx.numpy as enp
from effx import Array
from effx.dtypes import DType
from effx.errors import DTypeError
from effx.handling import Elementwise, InterceptHandler, Site, ops
from effx.lazy import list_names
from effx.library.wrapping import under

__all__ = ["Autocast", "autocast"]
__dir__ = list_names(__all__)

P = ParamSpec("P")
R = TypeVar("R")


@final
@attrs.frozen
class Autocast(InterceptHandler[None]):
    """Rounds the operands of products to a narrow dtype.

    Attributes:
        dtype: the narrow dtype.
        elementwise: True to round elementwise operations too.
        full: names of scopes that compute in full.

    >>> import effx, effx.numpy as enp
    >>> from effx.library.autocast import Autocast
    >>> x = enp.array([[1.001]])
    >>> print(Autocast(effx.dtypes.bfloat16).run(lambda x: x @ x, x))
    [[1.]]
    """

    dtype: DType
    elementwise: bool = False
    full: frozenset[str] = frozenset()

    def narrows(self, site: Site[Any, Any]) -> bool:
        """Says whether an operation is computed in few bits."""
        wide = [t for t in site.types if t.kind == "f" and t.dtype.itemsize > self.dtype.itemsize]
        return bool(wide) and self.full.isdisjoint(site.scope.split("/"))

    def rounded(self, x: Array) -> Array:
        """Converts an operand that has more bits."""
        t = x.type
        return x.astype(self.dtype) if t.kind == "f" and t.dtype.itemsize > self.dtype.itemsize else x


@Autocast.rule(ops.DotGeneral, ops.Convolution)
def _(site: Site[Autocast, None], op: ops.DotGeneral | ops.Convolution, x: Array, y: Array) -> Array:
    handler = site.handler
    if not handler.narrows(site):
        return op(x, y)
    (t,) = site.result_types
    return attrs.evolve(op, preferred=t.dtype)(handler.rounded(x), handler.rounded(y))


@Autocast.rule(Elementwise)
def _(site: Site[Autocast, None], op: Elementwise, *xs: Array) -> Array:
    handler = site.handler
    if not handler.elementwise or not handler.narrows(site):
        return op(*xs)
    return op(*map(handler.rounded, xs)).astype(site.result_types[0].dtype)


# These compare, choose, copy or convert, without arithmetic.
@Autocast.rule(
    ops.Comparison, ops.Select, ops.Clamp, ops.Max, ops.Min, ops.Sign, ops.IsFinite, ops.Convert, ops.ReducePrecision,
    ops.Copy, ops.StopGradient, ops.Identity, ops.NextAfter, ops.Complex,
)  # fmt: skip
def _(site: Site[Autocast, None], op: Elementwise, *xs: Array) -> Array:
    return op(*xs)


def autocast(
    fun: Callable[P, R],
    dtype: Any = "bfloat16",
    *,
    elementwise: bool = False,
    full: Collection[str] = (),
) -> Callable[P, R]:
    """Returns a function that computes products in few bits.

    Under `grad` of the result the backward products are in few bits too; parameters and gradients keep their dtype.

    Args:
        fun: any function.
        dtype: "bfloat16" or another floating dtype.
        elementwise: True to round elementwise operations too.
        full: names of `named_scope`s inside which everything is computed in full; one, or several.

    Raises:
        DTypeError: the dtype is not a floating one.

    >>> import effx, effx.numpy as enp
    >>> dot = effx.jit(lambda x: x @ x)
    >>> x = enp.array([[1.001]])
    >>> print(dot(x), autocast(dot)(x), autocast(dot)(x).dtype)
    [[1.002001]] [[1.]] float32
    """
    try:
        narrow = enp.dtype(dtype) if dtype is not None else None
    except TypeError:
        narrow = None
    if narrow is None or not enp.issubdtype(narrow, enp.floating):
        raise DTypeError(f"autocast: the dtype must be a floating one, got {narrow or repr(dtype)}")
    scopes = frozenset({full} if isinstance(full, str) else full)
    return under(Autocast(narrow, elementwise, scopes), fun)
