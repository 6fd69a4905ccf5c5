"""Values that rules for reverse mode log in the backward pass, and their collection by `f_vjp.with_logs`.

A logged value is the operand of an operation that does nothing. A handler around the backward pass collects it, inside
loops and branches too: a scan stacks those of its iterations, vmap those of batch elements.
"""

from collections.abc import Callable
from typing import Final, cast, final

import attrs

from effx.array import Array
from effx.array.promotion import as_operand
from effx.effects import Effect, Frame, Label, Value
from effx.errors import TransformError
from effx.handlers.authoring.intercepting import InterceptHandler
from effx.handlers.authoring.site import Site
from effx.handlers.jvp.handler import JVP, Tangent
from effx.handlers.vmap.handler import Vmap, materialize
from effx.ir.ops.base import TupleOperation
from effx.ir.types import ArrayType
from effx.tree.registry import PyTree, PyTreeDef, flatten

LOG: Final = Label("backward log", optional=True)


@final
@attrs.frozen
class LogBackward(TupleOperation):
    """The identity on the leaves of a logged value.

    Attributes:
        key: the value's name.
        structure: the value's, as a pytree.
    """

    key: str
    structure: PyTreeDef

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """That a value is logged."""
        return frozenset[Effect]({LOG})

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The operands' types."""
        return types

    def decompose(self, *operands: Value) -> tuple[Array, ...]:
        """The operands."""
        return cast("tuple[Array, ...]", operands)


@JVP.rules.register(LogBackward)
def jvp_log(
    op: LogBackward, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    return op(*primals), tangents


@Vmap.rules.register(LogBackward)
def batch_log(
    handler: Vmap, op: LogBackward, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[tuple[Array, ...], tuple[int, ...]]:
    rows = [materialize(handler, x, axis) for x, axis in zip(values, axes, strict=True)]
    return op(*rows), (0,) * len(values)


@final
@attrs.frozen
class CollectLogs(InterceptHandler[None]):
    """Collects logged values by name; of several with one name the last."""

    handles = frozenset({LOG})
    collects = True

    def collect(self, frame: Frame, name: str, value: PyTree) -> None:
        """Keeps the last value of a name."""
        frame.collected.pop(name, None)
        super().collect(frame, name, value)

    def returns(self, result: PyTree, frame: Frame) -> PyTree:
        """The result, and the values by name."""
        return result, frame.collected


@CollectLogs.rule(LogBackward)
def collect_log(site: Site[CollectLogs, None], op: LogBackward, *operands: Array) -> tuple[Array, ...]:
    site.collect(op.key, op.structure.unflatten(operands))
    return operands


def collect_logs(function: Callable[..., PyTree], *args: PyTree) -> tuple[PyTree, dict[str, PyTree]]:
    """Returns a function's result, and what is logged while it runs."""
    result, logs = CollectLogs().run(function, *args)
    return result, cast("dict[str, PyTree]", logs)


def log_backward(function_name: str, rule: str, result: object) -> PyTree:
    """Logs the second part of what a rule for the backward pass returns, and returns the first.

    Args:
        function_name: the transformation, for errors. rule: the rule's name. result: a pair `(cotangents, logs)`.

    Raises:
        TransformError: the result is no such pair, or the logs are neither None nor a dict with strings as keys.
    """
    if not isinstance(result, tuple | list) or len(result) != 2:
        got = "Array" if isinstance(result, Array) else type(result).__name__
        got = f"{len(result)} values" if isinstance(result, tuple | list) else got
        raise TransformError(f"{function_name}: {rule} must return a pair (cotangents, logs), got {got}")
    cotangents, logs = result
    if logs is None:
        return cotangents
    if type(logs) is not dict or not all([isinstance(key, str) for key in logs]):
        raise TransformError(
            f"{function_name}: the logs of {rule} must be None or a dict from strings to pytrees of arrays, got {logs!r}"
        )
    for key, value in logs.items():
        leaves, structure = flatten(value)
        LogBackward(key, structure)(*[as_operand(x, function_name) for x in leaves])
    return cotangents
