"""A log of operations, with values and times, while a function runs step by step on NumPy.

Jitted functions, loops and branches run one operation after another on concrete values. A debugger can stop
before an operation and inspect the user's function, jitted or not, on NumPy arrays.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, final

import attrs

import effx
from effx import Array
from effx.errors import ConcretizationError, TransformError, check_function
from effx.handling import Frame, InterceptHandler, Operation, Reference, Site, handle
from effx.lazy import list_names, old_names
from effx.library.wrapping import under
from effx.tree import PyTree

__all__ = ["Entry", "StepLog", "step_through"]
__dir__ = list_names(__all__)
if not TYPE_CHECKING:
    __getattr__ = old_names(__name__, {"Log": "StepLog"})

P = ParamSpec("P")
R = TypeVar("R")


@final
@attrs.frozen
class Entry:
    """One operation that ran.

    Attributes:
        op: the operation.
        operands, results: their values.
        line: the user's, such as `train.py:12 in loss`.
        scope: the name stack.
        seconds: how long it took.

    >>> import effx.numpy as enp
    >>> from effx.library.stepping import step_through
    >>> entry, = step_through(lambda x: x * 2.0)(enp.array(3.0)).entries
    >>> print(entry.op.name, *entry.results)
    mul 6.0
    """

    op: Operation[Any]
    operands: tuple[Array, ...]
    results: tuple[Array, ...]
    line: str
    scope: str
    seconds: float

    def __str__(self) -> str:
        def short(x: Array) -> str:
            try:
                return str(x.host("step_through").tolist()) if x.size <= 3 else repr(x.type)
            except ConcretizationError:
                return repr(x.type)

        operands_text = ", ".join(map(short, self.operands))
        results_text = ", ".join(map(short, self.results))
        scope = f" [{self.scope}]" if self.scope else ""
        return f"{self.seconds * 1e6:8.0f} us  {self.op.name}({operands_text}) = {results_text}{scope}  {self.line}"


@final
@attrs.frozen
class StepLogger(InterceptHandler[None]):
    """Logs every operation, and stops before some.

    Attributes:
        log: receives the entries.
        stop: whether to stop before an operation.
        pause: how to stop, such as `breakpoint`.
    """

    name = "step"

    log: list[Entry]
    stop: Callable[[Site[Any, Any]], bool] | None
    pause: Callable[[], object]
    steps = True

    def returns(self, result: Any, frame: Frame) -> Any:
        """The result and the log."""
        return StepLog(result, tuple(self.log))


@StepLogger.rule(Operation)
def _(site: Site[StepLogger, None, PyTree], op: Operation[Any], *operands: Array) -> Any:
    handler = site.handler
    if handler.stop is not None and handler.stop(site):
        handler.pause()  # the operation is in `site`; go up for the user's frame
    start = time.perf_counter()
    y = site.forward()
    seconds = time.perf_counter() - start
    results = y if isinstance(y, tuple) else (y,)
    handler.log.append(Entry(op, operands, results, site.line, site.scope, seconds))
    return y


@final
@attrs.frozen
class StepLog(Generic[R]):
    """The operations that ran, in order; prints a line for each.

    Attributes:
        result: of the function.
        entries: one for each operation.

    >>> import effx.numpy as enp
    >>> from effx.library.stepping import step_through
    >>> log = step_through(lambda x: (x + 1.0) * 2.0 + x)(enp.array(3.0))
    >>> print(log.result, sorted((name, count) for name, (count, seconds) in log.by_operation().items()))
    11.0 [('add', 2), ('mul', 1)]
    """

    result: R
    entries: tuple[Entry, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.entries))

    def by_operation(self) -> dict[str, tuple[int, float]]:
        """Returns how often each operation ran and for how many seconds, the longest first."""
        entries: dict[str, tuple[int, float]] = {}
        for entry in self.entries:
            count, seconds = entries.get(entry.op.name, (0, 0.0))
            entries[entry.op.name] = count + 1, seconds + entry.seconds
        return dict(sorted(entries.items(), key=lambda item: -item[1][1]))


@contextmanager
def _on_numpy(on: bool) -> Iterator[None]:
    # Jitted functions are called in Python, so that their frames are on Python's stack.
    with effx.disable_jit():
        if not on:
            yield
            return
        with handle(Reference()):
            yield


def step_through(
    fun: Callable[P, R],
    stop: Callable[[Site[Any, Any]], bool] | None = None,
    pause: Callable[[], object] = breakpoint,
    reference: bool = True,
) -> Callable[P, StepLog[R]]:
    """Returns a function that runs step by step and returns a log with its result.

    Args:
        fun: any function.
        stop: whether to stop before an operation: `lambda site: site.op.name == "log"`, or by `site.line`,
            `site.scope`, `site.types`.
        pause: how to stop; by default in the debugger, where `up` leads from the operation to the user's function.
        reference: True to run on NumPy, False to run on XLA.

    Raises:
        TransformError: `stop` or `pause` is no function.

    >>> import effx, effx.numpy as enp
    >>> log = step_through(effx.jit(lambda x: enp.sin(x) * 2.0))(0.5)
    >>> [entry.op.name for entry in log.entries], f"{log.result:.3f}"
    (['sin', 'mul'], '0.959')
    """
    check_function(fun)
    for condition in (stop, pause):
        if condition is not None and not callable(condition):
            raise TransformError(f"step_through: stop and pause are functions, got {condition!r}")

    @wraps(fun)
    def run_step_by_step(*args: P.args, **kwargs: P.kwargs) -> StepLog[R]:
        with _on_numpy(reference):
            result: StepLog[R] = under(StepLogger([], stop, pause), fun)(*args, **kwargs)
        return result

    return run_step_by_step
