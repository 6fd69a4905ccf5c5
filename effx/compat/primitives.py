"""Primitives: those that libraries define, and effx's own operations in the form of such."""

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast, final

from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.compat.bound import Bound, Rule, arrays_of
from effx.compat.composed import COMPOSED
from effx.compat.defined import F, Primitive
from effx.compat.operation_names import CALLED, PRIMITIVES
from effx.compat.parameters import made, shown
from effx.compat.wrapped import WrappedFun
from effx.effects import Operation
from effx.errors import TransformError
from effx.families.callbacks.callback import PythonCallback
from effx.handlers.evaluate.handler import run_kernel, run_with
from effx.handlers.staging.stage import run_program
from effx.ir.ops.checkpoint import Offload
from effx.ir.ops.control import Calling, HigherOrder
from effx.ir.ops.custom import CustomCall
from effx.ir.ops.elementwise import RoundAwayFromZero, RoundToEven
from effx.ir.ops.host import Hosted, RunsEagerly
from effx.ir.ops.index import Scatter
from effx.ir.program import Program
from effx.ir.types import ArrayType
from effx.tree.registry import PyTree

__all__ = [
    "CallPrimitive",
    "OperationPrimitive",
    "Primitive",
    "call_p",
    "namespace",
    "params_of",
    "primitive_named",
    "primitive_of",
]


@final
class OperationPrimitive(Primitive):
    """A class of effx's operations as a primitive. Its parameters are as JAX has them, or by their names in effx.

    Attributes:
        operation: the class.
    """

    def __init__(self, name: str, operation: type[Operation[Any]]) -> None:
        super().__init__(name)
        self.operation = operation
        self.multiple_results = operation.multiple

    def bind(self, /, *args: PyTree, **params: object) -> PyTree:
        """Performs the operation with these parameters."""
        results = self._op(params)(*[as_operand(x, self.name) for x in args])
        return list(results) if self.multiple_results else results

    def _op(self, params: Mapping[str, object]) -> Any:
        """Returns the operation with parameters as equations of views have them, or by its own names."""
        # A call's view has these for its program, and `get_bind_params` for its function.
        ignored_names = {"name", "subfuns"} if issubclass(self.operation, Calling) else ()
        return made(
            self.operation,
            {name: _to_program(value) for name, value in params.items() if name not in ignored_names},
        )

    def get_bind_params(self, params: Mapping[str, object]) -> dict[str, object]:
        """Returns what an equation's parameters are for `bind`: with the function itself for one that has rules."""
        if self.operation is not CustomCall:
            return dict(params)
        program = _to_program(params.get("call_jaxpr", params.get("program")))
        assert isinstance(program, Program)

        def function(*args: PyTree) -> list[Array]:
            return run_program(program, [*program.constants, *[as_operand(x, self.name) for x in args]])

        return {**params, "subfuns": (WrappedFun(function),)}

    @property
    def impl(self) -> Rule:
        """What computes with known values: the function of `def_impl`, or effx's own."""
        return self._impl or self._compute

    def _compute(self, /, *args: PyTree, **params: object) -> PyTree:
        op, xs = self._op(params), [as_operand(x, self.name) for x in args]
        if self._impl is None or any([type(x) is Box for x in xs]):
            return self.bind(*xs, **params)
        results = run_kernel(op, *xs)
        return list(cast("tuple[Array, ...]", results)) if self.multiple_results else results

    def types(self, in_types: Sequence[ArrayType], params: Mapping[str, object]) -> tuple[ArrayType, ...]:
        """Returns the results' types."""
        result_types = self._op(params).infer(*in_types)
        return result_types if self.multiple_results else (result_types,)

    def run(self, operands: Sequence[Array], params: Mapping[str, object]) -> tuple[Array, ...]:
        """Performs the operation."""
        results = self._op(params)(*operands)
        return tuple(results) if self.multiple_results else (results,)

    def lowered(
        self, operands: Sequence[Array], params: Mapping[str, object], platform: str | None
    ) -> tuple[Array, ...]:
        """Performs the operation."""
        return self.run(operands, params)

    def def_impl(self, impl: F) -> F:
        """Says how known values outside of `jit` are computed with: `impl(*arrays, **params)`.

        Raises:
            TransformError: the operation holds programs or runs on the host.
        """
        if issubclass(self.operation, HigherOrder | Hosted | RunsEagerly):
            raise TransformError(
                f"{self.name}: effx runs the operation's programs; def_impl cannot replace it"
            )
        is_own = impl == self._compute
        self._impl = None if is_own else impl
        run_with(self.operation, None if is_own else self._run_impl)
        return impl

    def _run_impl(self, op: Operation[object], *arrays: Array) -> object:
        ys = arrays_of(self, "impl", self.impl(*arrays, **shown(op)))
        return ys if self.multiple_results else ys[0]

    def def_abstract_eval(self, abstract_eval: Any) -> Any:
        """Raises a TransformError: effx defines the types of its operations."""
        raise TransformError(
            f"{self.name}: is an operation of effx; def_abstract_eval is for primitives of one's own"
        )

    def def_effectful_abstract_eval(self, effectful_abstract_eval: Any) -> Any:
        """Raises a TransformError: effx defines the types of its operations."""
        return self.def_abstract_eval(effectful_abstract_eval)


@final
class CallPrimitive(Primitive):
    """Performs the operations of a program inline; the calls among effx's operations are those of `jit`."""

    def __init__(self) -> None:
        super().__init__("eval_jaxpr")
        self.multiple_results = True

    def bind(self, /, *args: PyTree, **params: object) -> PyTree:
        """Performs the program that `call_jaxpr` shows."""
        program = self._called(params)
        return run_program(program, [*program.constants, *[as_operand(x, self.name) for x in args]])

    def impl(self, /, *args: PyTree, **params: object) -> PyTree:
        """Performs the program."""
        return self.bind(*args, **params)

    def types(self, in_types: Sequence[ArrayType], params: Mapping[str, object]) -> tuple[ArrayType, ...]:
        """Returns the program's result types."""
        return self._called(params).out_types

    def _called(self, params: Mapping[str, object]) -> Program:
        program = _to_program(params.get("call_jaxpr"))
        if not isinstance(program, Program):
            raise TransformError(
                f"eval_jaxpr: call_jaxpr must be a ClosedJaxpr, got {type(program).__name__}"
            )
        return program


call_p = CallPrimitive()


def _to_program(value: Any) -> object:
    """Returns the program of a view."""
    if isinstance(value, tuple) and value and all([hasattr(v, "in_avals") for v in value]):
        return tuple([_to_program(v) for v in value])
    return value.program if hasattr(value, "in_avals") else value


_made: dict[tuple[str, type[Operation[Any]]], OperationPrimitive] = {}
_names = {f"effx.{module}:{kind}": name for name, (module, kind) in PRIMITIVES.items()}


def primitive_named(name: str) -> Primitive:
    """Returns an effx operation by the name of the variable that holds the primitive in JAX, without its `_p`.

    Raises:
        KeyError: effx has no such operation, or it is several.
    """
    if name in COMPOSED:
        return COMPOSED[name]
    module, kind = PRIMITIVES[name]
    return _view(name, getattr(importlib.import_module(f"effx.{module}"), kind))


def namespace(
    module: str, named: Collection[str], *others: str
) -> tuple[Callable[[str], Primitive], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a module that has effx's operations as primitives, with `_p` to their
    names.

    Args:
        module: its name. named: the operations' names. others: its further names.
    """
    names = sorted([*others, *[f"{name}_p" for name in named]])

    def found(name: str) -> Primitive:
        if not name.endswith("_p") or name[:-2] not in named:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return primitive_named(name[:-2])

    return found, lambda: names


def primitive_of(op: Operation[Any]) -> Primitive:
    """Returns the primitive that an operation performs: a library's own, or effx's class. The same object each time.

    >>> import effx.compat.modules.lax as lax
    >>> from effx.handling.ops import Sin
    >>> primitive_of(Sin()) is lax.sin_p
    True
    """
    match op:
        case Bound():
            return cast("Primitive", op.primitive)
        case Scatter() if op.combiner != "set":
            return _view(f"scatter_{op.combiner}", Scatter)
        case Scatter():
            return _view("scatter", Scatter)
        case CustomCall() if op.rules.jvp is not None:
            return _view("custom_jvp_call", CustomCall)
        case CustomCall() if op.rules.vjp is not None:
            return _view("custom_vjp_call", CustomCall)
        case CustomCall():
            return _view("custom_call", CustomCall)
        case PythonCallback(kind="debug"):
            return _view(
                "debug_print" if op.called_function == "debug.print" else "debug_callback", PythonCallback
            )
        case PythonCallback():
            return _view(f"{op.kind}_callback", PythonCallback)
        case Offload():
            return _view("device_put", Offload)
        case RoundToEven() | RoundAwayFromZero():
            return _view("round", RoundToEven if isinstance(op, RoundToEven) else RoundAwayFromZero)
    kind = type(op)
    return _view(_names.get(f"{kind.__module__}:{kind.__qualname__}", kind.name), kind)


def params_of(op: Operation[Any]) -> dict[str, object]:
    """Returns an operation's parameters by name, as `primitive_of(op).bind` takes them."""
    return dict(op.params) if isinstance(op, Bound) else shown(op)


def _view(name: str, kind: type[Operation[Any]]) -> OperationPrimitive:
    entry = _made.get((name, kind))
    if entry is None:
        entry = _made[name, kind] = OperationPrimitive(CALLED.get(name, name), kind)
    return entry
