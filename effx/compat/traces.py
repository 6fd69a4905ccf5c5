"""Interpreters that libraries write as traces: the current one is a handler, whose values are of the library's class."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn, Self, TypeVar, cast, final

import attrs

from effx import presence
from effx.array import Array
from effx.array.promotion import as_operand
from effx.compat.avals import OpaqueTraceState, is_unknown, resumed_state
from effx.compat.jaxprs import jax_parameters
from effx.compat.parameters import operands_of_jax
from effx.compat.primitives import Primitive, primitive_of
from effx.compat.symbolic import zeros_like_aval
from effx.compat.wrapped import WrappedFun
from effx.dtypes import float0
from effx.effects import Frame, Handler, Operation, Value, use_frame
from effx.errors import NoRuleError, TransformError
from effx.handlers.staging.stage import Stage, run_program
from effx.ir.ops.custom import CustomCall
from effx.ir.types import ArrayType
from effx.ir.values.boxes import Box
from effx.typing import ArrayLike

__all__ = ["Trace", "TraceTag", "Tracer", "set_current_trace"]

R = TypeVar("R")


class TraceTag:
    """What traces of one transformation have in common, compared by identity."""


class _Traces(type):
    def __instancecheck__(cls, x: object) -> bool:
        # The trace outside of a library's own is a handler of effx's, which take_current_trace tells nothing of.
        return type.__instancecheck__(cls, x) or (cls is Trace and type(x) is OpaqueTraceState)


class Trace(metaclass=_Traces):
    """What a library derives from to see operations: all that is performed while it is the current trace.

    The methods run outside of all handlers. They perform operations in the outer trace, by
    `primitive.bind_with_trace`, or perform under `set_current_trace`. The parameters of operations are those that the
    equations of programs show; a call of a jitted function is one operation, and so are loops and branches.
    """

    def process_primitive(
        self, primitive: Primitive, tracers: Sequence[ArrayLike], params: Mapping[str, object], /
    ) -> ArrayLike | Sequence[ArrayLike]:
        """Interprets an operation. Returns its result, for several a sequence."""
        raise self._silent("process_primitive")

    def process_custom_jvp_call(
        self,
        primitive: Primitive,
        fun: WrappedFun,
        jvp: WrappedFun,
        tracers: Sequence[ArrayLike],
        /,
        **options: object,
    ) -> Sequence[ArrayLike]:
        """Interprets the call of a function with a rule for forward mode. Returns its results.

        Args:
            primitive: what calls it. tracers: what it closes over, and its arguments.
            fun: the function. jvp: of the primals and as many tangents: results, and as many tangents.
            options: `symbolic_zeros`, False: all tangents are arrays.
        """
        raise self._silent("process_custom_jvp_call")

    def process_custom_vjp_call(
        self,
        primitive: Primitive,
        fun: WrappedFun,
        fwd: WrappedFun,
        bwd: WrappedFun,
        tracers: Sequence[ArrayLike],
        /,
        **options: object,
    ) -> Sequence[ArrayLike]:
        """Interprets the call of a function with a rule for reverse mode. Returns its results.

        Args:
            primitive: what calls it. tracers: what it closes over, and its arguments.
            fun: the function. fwd, bwd: refuse to be called: effx's rules for reverse mode have another form.
            options: `out_trees`, which refuses as well, and `symbolic_zeros`, False.
        """
        raise self._silent("process_custom_vjp_call")

    def full_raise(self, x: ArrayLike) -> ArrayLike:
        """Returns a value as it is: a trace sees those of outer traces too."""
        return x

    def _silent(self, method: str) -> NoRuleError:
        return NoRuleError(
            f"{type(self).__name__}: the trace does not say how to interpret this; override {method}"
        )


class _Tracers(type):
    def __instancecheck__(cls, x: object) -> bool:
        return is_unknown(x) if cls is Tracer else type.__instancecheck__(cls, x)


class _StagedValues(type):
    def __instancecheck__(cls, x: object) -> bool:
        return type(x) is Box and isinstance(x.frame.handler, Stage)


@final
class DynamicJaxprTracer(metaclass=_StagedValues):
    """The values of a function that is being staged, for `isinstance`."""


class Tracer(Box[Any, *tuple[Any, ...]], metaclass=_Tracers):
    """An array of unknown elements: a box of a handler, and the base of a library's class for a trace of its own.

    Args:
        trace: the library's. aval: the type that users see.
    """

    _trace: Trace = cast("Trace", None)  # type: ignore[assignment]  # a property elsewhere; in front of that of boxes, which nobody can set

    def __init__(self, trace: Trace, aval: ArrayType) -> None:
        self._trace = trace
        self._aval = aval

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Makes a value of a library's class.

        Raises:
            TransformError: it is none: effx's handlers make their values themselves.
        """
        if cls is Tracer:
            raise TransformError(
                "jax.core.Tracer: effx's handlers make their values themselves; see effx.handling.BoxHandler"
            )
        return super().__new__(cls)

    @property
    def aval(self) -> ArrayType:
        """The type."""
        return self._aval

    @property
    def type(self) -> ArrayType:  # type: ignore[override]  # a slot elsewhere
        """The type; a library may say it by `aval`."""
        return self.aval

    @property
    def frame(self) -> Frame:  # type: ignore[override, mutable-override]  # a slot elsewhere
        """Where its trace is installed."""
        return _frame_of(self._trace)

    @property
    def payload(self) -> "Tracer":
        """The value itself, which holds what the library has put there."""
        return self

    def full_lower(self) -> Array:
        """Returns the value itself; a library may return a simpler one."""
        return self


@final
@attrs.frozen
class TraceInterpreter(Handler):
    """Hands operations to a library's trace.

    Attributes:
        trace: the trace.
    """

    name = "trace"
    intercepts = True
    trace: Trace

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Asks the trace for the results."""
        primitive = primitive_of(op)
        xs = cast("tuple[Array, ...]", operands)
        results: ArrayLike | Sequence[ArrayLike]
        if isinstance(op, CustomCall):
            results = self._function(primitive, op, xs)
        else:
            results = self.trace.process_primitive(primitive, operands_of_jax(op, xs), jax_parameters(op))
        if not primitive.multiple_results:
            y = as_operand(cast("ArrayLike", results), primitive.name)
            return cast("R", (y,) if op.multiple else y)
        if not isinstance(results, list | tuple):
            raise TransformError(
                f"{self.describe()}: {primitive.name} has several results, so it must give a list or a tuple, got "
                f"{type(results).__name__}"
            )
        return cast("R", tuple([as_operand(y, primitive.name) for y in results]))

    def _function(
        self, primitive: Primitive, op: CustomCall, operands: Sequence[Array]
    ) -> Sequence[ArrayLike]:
        fun = WrappedFun(
            lambda *given: list(run_program(op.program, [as_operand(x, primitive.name) for x in given]))
        )
        rule, n = op.rules.jvp, op.constants
        if op.record:  # JAX has no call whose rules cover a part of its results
            return run_program(op.program, operands)
        if rule is None:
            no = WrappedFun(lambda *_: _refusal_error(primitive))
            return self.trace.process_custom_vjp_call(
                primitive,
                fun,
                no,
                no,
                operands,
                out_trees=lambda: _refusal_error(primitive),
                symbolic_zeros=False,
            )

        def derivative(*operand: ArrayLike) -> list[ArrayLike]:
            half = len(operand) // 2
            xs = [as_operand(x, primitive.name) for x in operand[:half]]
            tangents = [
                None if getattr(t, "dtype", None) == float0 else as_operand(t, primitive.name)
                for t in operand[half + n :]
            ]
            ys, moved = rule(xs[:n], xs[n:], tangents)
            zeros = [zeros_like_aval(y.type.to_tangent_aval()) for y in ys]
            return [*ys, *[zero if t is None else t for t, zero in zip(moved, zeros, strict=True)]]

        return self.trace.process_custom_jvp_call(
            primitive, fun, WrappedFun(derivative), operands, symbolic_zeros=False
        )

    def describe(self) -> str:
        """Names the library's class."""
        return type(self.trace).__name__


def _refusal_error(primitive: Primitive) -> NoReturn:
    raise TransformError(
        f"{primitive.name}: the rules of a function for reverse mode are not handed to traces; write a handler "
        f"(effx.handling)"
    )


def _frame_of(trace: Trace) -> Frame:
    """Returns the frame of a trace, one for all times that it is the current one: by it values are distinguished."""
    result: Frame | None = trace.__dict__.get("_frame")
    if result is None:
        result = trace.__dict__["_frame"] = Frame(TraceInterpreter(trace), None)
    return result


def set_current_trace(trace: object, check_leaks: bool = False) -> AbstractContextManager[None]:
    """Runs a block under a trace: what `take_current_trace` gave, or one of a library's.

    Args:
        trace: the trace. check_leaks: True is refused: effx's own flag `check_tracer_leaks` looks for leaks.

    Raises:
        TransformError: it is neither.
    """
    if isinstance(trace, OpaqueTraceState) and not check_leaks:
        return resumed_state(trace)
    if isinstance(trace, Trace) and not check_leaks:
        return _install_frame(_frame_of(trace))
    raise TransformError(
        f"set_current_trace: takes what take_current_trace gave, or a jax.core.Trace, without check_leaks; got {trace!r}"
    )


@contextmanager
def _install_frame(frame: Frame) -> Iterator[None]:
    key = object()  # a trace may be current within itself
    presence.add_key(key)
    try:
        with use_frame(frame):
            yield
    finally:
        presence.discard_key(key)
