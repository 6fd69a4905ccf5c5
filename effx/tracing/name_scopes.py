"""`named_scope` and `named_call`: name parts of a program, in the IR, StableHLO locations and XLA metadata."""

import itertools
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar
from types import TracebackType
from typing import NamedTuple, ParamSpec, Self, TypeVar, final

from effx.array import Array
from effx.effects import current_frame, current_scope, scope_within
from effx.errors import TransformError, check_function
from effx.ir.ops.control import Call
from effx.tracing.arguments import PartialLeafFunction, callable_name
from effx.tracing.traces import trace
from effx.tree.registry import flatten

__all__ = ["named_call", "named_scope"]

P = ParamSpec("P")
R = TypeVar("R")


class named_scope(ContextDecorator):
    """Names the operations performed in a `with` block, or in a decorated function.

    Scopes nest: inside `layer1` and `attention` the name is `layer1/attention`. The printed IR shows it
    behind each operation, StableHLO in locations, and XLA's profiles in `op_name`.

    Args:
        name: the scope's name.

    Raises:
        TransformError: the name is no string, or is empty.

    >>> import effx, effx.numpy as enp
    >>> def f(x):
    ...     with effx.named_scope("layer1"):
    ...         return enp.sin(x)
    >>> print(effx.make_jaxpr(f)(1.0))
    f(a: f32[]~) {
      b: f32[]~ = sin a 'layer1'
      return b
    }
    """

    def __init__(self, name: str) -> None:
        if type(name) is not str or not name:
            raise TransformError(f"named_scope: the name must be a string that is not empty, got {name!r}")
        self.name = name
        self._number = next(_numbers)

    def __reaches__(self) -> dict[str, object]:
        """Returns the parts of the scope that belong to a key on disk."""
        return {"name": self.name}

    def __enter__(self) -> Self:
        outer, entries = current_scope.get(), _entries.get()
        within = scope_within(outer, self.name)
        self.__class__ = _EnteredScope  # type: ignore[assignment]  # users have no reason to derive from it
        try:
            _entries.set(_Entry(self._number, outer, within, entries))
            current_scope.set(within)
        except BaseException:  # an interrupt
            _entries.set(entries)
            current_scope.set(outer)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        entry = self._find_entry()
        if entry is not None:
            current_scope.set(entry.outer)
            _entries.set(entry.previous)
        if self._find_entry() is None:
            self.__class__ = named_scope

    def _find_entry(self) -> "_Entry | None":
        """Returns the last entry of the scope in this context."""
        entry = _entries.get()
        while entry is not None and entry.number != self._number:
            entry = entry.previous
        return entry

    def _recreate_cm(self) -> "named_scope":
        # A decorated function may run in several threads: each call enters its own scope.
        return named_scope(self.name)


@final
class _EnteredScope(named_scope):
    """A scope within its block, with a finaliser for the reason that `effects._EnteredHandle` has one."""

    # It calls no function of Python's: at the limit of the recursion there is room for its own frame alone.
    def __del__(self) -> None:
        entry = _entries.get()
        while entry is not None:
            if entry.number == self._number:
                if current_scope.get() is entry.within:
                    current_scope.set(entry.outer)
                _entries.set(entry.previous)
            entry = entry.previous


class _Entry(NamedTuple):
    """A scope that was entered, and the entries before it in the context.

    Attributes:
        number: the scope's; a reference would keep it from being finalised.
        outer, within: the name stacks around it and in it.
        previous: the entry before.
    """

    number: int
    outer: str
    within: str
    previous: "_Entry | None"


# By context, so that threads and tasks may enter one scope.
_entries: "ContextVar[_Entry | None]" = ContextVar("effx_named_scopes", default=None)
_numbers = itertools.count()


def _is_staging() -> bool:
    """Returns whether operations are recorded, by whichever handler around."""
    frame = current_frame()
    while frame is not None and not frame.handler.only_records:
        frame = frame.outer
    return frame is not None


def named_call(fun: Callable[P, R], *, name: str | None = None) -> Callable[P, R]:
    """Makes a function a named subprogram when it is staged.

    Args:
        fun: takes and returns pytrees. Leaves of arguments that are no arrays are passed on unchanged.
        name: the name of the subprogram and of the scope; by default the function's.

    Returns:
        A function with the same values. Where it is staged, in jit for one, its operations are a call of a program with
        this name; elsewhere they run in a scope with this name.

    >>> import effx, effx.numpy as enp
    >>> wave = effx.named_call(enp.sin, name="wave")
    >>> print(effx.make_jaxpr(lambda x: 2.0 * wave(x))(1.0))
    wave(a: f32[]~) {
      b: f32[]~ = sin a
      return b
    }
    <BLANKLINE>
    <lambda>(a: f32[]~) {
      b: f32[]~ = call[program=@wave] a 'wave'
      c: f32[]~ = mul 2.0:f32~ b
      return c
    }
    """
    check_function(fun)
    title = callable_name(fun) if name is None else name
    named_scope(title)  # refuses a wrong name now

    def call_named(*args: P.args, **kwargs: P.kwargs) -> R:
        with named_scope(title):
            # Elsewhere values may be known, and the function may decide by them.
            if not _is_staging():
                return fun(*args, **kwargs)
            leaves, tree = flatten((args, kwargs))
            varied = [i for i, x in enumerate(leaves) if isinstance(x, Array)]
            arrays = [leaves[i] for i in varied]
            function = PartialLeafFunction("named_call", fun, tree, leaves, varied, title)
            staged = trace(function, [x.type for x in arrays])
            result: R = staged.out_tree.unflatten(Call(staged.program)(*staged.captured, *arrays))
            return result

    call_named.__name__ = title
    call_named.__qualname__ = title
    call_named.__doc__ = fun.__doc__
    call_named.__wrapped__ = fun  # type: ignore[attr-defined]  # as functools.wraps does, but with the given name
    return call_named
