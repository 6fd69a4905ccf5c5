"""The operations of checks: a bool that must be true, and an error that must be none."""

from typing import Any, final

import attrs
import numpy as np

import effx.numpy as enp
from effx import Array, tree
from effx.dtypes import bool_
from effx.errors import TransformError, current_source, source_of
from effx.handling import (
    ArrayType,
    Effect,
    Label,
    TupleOperation,
    Vmap,
    jvp_tuple_rule,
    masked_form,
    materialize,
    ops,
    vmap_tuple_rule,
)
from effx.ir.values.array import Operand
from effx.lazy import list_names
from effx.library.failures import CheckError, Error, HostData, shown, template

__all__ = ["Check", "Demand", "Rethrow", "check"]
__dir__ = list_names(__all__)

CHECK = Label("check", optional=True)


@final
@attrs.frozen
class DemandEffect(Effect):
    """The effect of checks that must not be left out."""

    @property
    def advice(self) -> str:
        """How such a check gets into a compiled function."""
        return (
            "a check raises a Python exception, so it cannot be staged (jit, scan, cond, pmap ...); functionalize the "
            "function with effx.experimental.checkify.checkify before it is staged"
        )

    def __repr__(self) -> str:
        return "'check'"


@final
@attrs.frozen
class Check(TupleOperation):
    """A bool that must be true, where a handler checks it. Operands: the bool, the values in the message.

    Attributes:
        message: with fields for the values.
        structure: of the values.
    """

    message: str
    structure: tree.PyTreeDef
    effects = frozenset({CHECK})

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """No results."""
        return ()

    def decompose(self, *operands: Any) -> tuple[Array, ...]:
        """Nothing."""
        return ()


@final
@attrs.frozen
class Demand(ops.Hosted):
    """A bool that must be true, with or without a handler; else as `Check`."""

    message: str
    structure: tree.PyTreeDef
    effects = frozenset({DemandEffect()})

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """No results."""
        return ()

    def run_on_host(self, *values: HostData) -> tuple[HostData, ...]:
        """Raises the first error of a batch."""
        holds, *leaves = [np.asarray(v) for v in values]
        for index in np.argwhere(np.logical_not(holds))[:1]:
            values_at_index = [np.asarray(x[tuple(index)]) for x in leaves]
            line = source_of(current_source())
            raise CheckError(
                f"{shown(self.message, self.structure, values_at_index)} (`check` failed at {line})"
            )
        return ()


@final
@attrs.frozen
class Rethrow(ops.Hosted):
    """An error that must be none. Operands: the code and the details of an `Error`."""

    effects = frozenset({DemandEffect()})

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """No results."""
        return ()

    def run_on_host(self, *values: HostData) -> tuple[HostData, ...]:
        """Raises the error."""
        code, details = [enp.asarray(v) for v in values]
        Error(code, details).throw()
        return ()


@jvp_tuple_rule(Check, Demand, Rethrow)
def _(
    op: TupleOperation, xs: tuple[Array, ...], dxs: tuple[Array | None, ...]
) -> tuple[tuple[Array, ...], tuple[()]]:
    return op(*xs), ()


@vmap_tuple_rule(Check, Demand, Rethrow)
def _(
    handler: Vmap, op: TupleOperation, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[tuple[Array, ...], tuple[()]]:
    return op(*[materialize(handler, x, a) for x, a in zip(values, axes, strict=True)]), ()


@masked_form(Check, Demand)
def _check_where_it_counts(op: Check | Demand, mask: Array, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    holds, *values = operands
    return op(holds | ~mask, *values)


def check(condition: Operand, message: str, *values: object, **named: object) -> None:
    """Requires a condition to hold; checked only under `checkify`.

    Args:
        condition: an array, all of whose elements must be true.
        message: the error's text, with fields for the values as of `str.format`. Messages are stored for the lifetime
            of the process.
        values: pytrees of arrays.
        named: the same, by the names in the message.

    Raises:
        TransformError: a value is no array, the message is no string or does not fit the values.

    >>> from effx.library.checkify import checkify
    >>> error, _ = checkify(lambda x: check(x < 3, "{x} is not less than {}", 3, x=x))(5)
    >>> print(error.get())
    5 is not less than 3 (`check` failed at ... in <lambda>)
    """
    structure, leaves = template(message, values, named)
    Check(message, structure)(enp.all(enp.asarray(condition)), *leaves)


def demand(
    pred: Operand, message: str, values: tuple[object, ...], named: dict[str, object], debug: bool
) -> None:
    """Requires a bool to be true; with `debug` only under `checkify`.

    Raises:
        TransformError: it is no scalar bool, a value is no array, or the message does not fit.
        CheckError: it is known, and false.
    """
    result = pred if isinstance(pred, Array | np.ndarray | np.generic | bool) else None
    holds = None if result is None else enp.asarray(result)
    if holds is None or holds.shape or holds.dtype != bool_:
        got = repr(pred) if holds is None else repr(holds.type)
        raise TransformError(f"check: takes a scalar bool, got {got}")
    structure, leaves = template(message, values, named)
    (Check if debug else Demand)(message, structure)(holds, *leaves)


def check_error(error: Error) -> None:
    """Raises an error if it is one, which `checkify` turns into a value again.

    Raises:
        TransformError: it is no `Error`.
        CheckError: it is known, and an error.

    >>> import effx
    >>> from effx.experimental import checkify
    >>> error, y = effx.jit(checkify.checkify(lambda x: x + 1))(1)
    >>> checkify.check_error(error)         # raises nothing: there is no error
    """
    if not isinstance(error, Error):
        raise TransformError(f"check_error: takes an Error, got {error!r} of type {type(error).__name__}")
    Rethrow()(enp.asarray(error.code), enp.asarray(error.details))
