"""Stage a user's function of pytrees to a program (`FunctionTrace`), once for each signature of arguments.

The key of a trace is the function itself, weakly; the structure and the types of its arguments; which of them
are static, with their values; the flags and handlers around that change what tracing returns; and the axes in
scope. Nothing in a trace refers to the function, so dropping the function frees its programs at once.

Functions of pytrees are staged here alone, so a second `jit(f)`, whatever its options, and a loop over `f`
find the trace of the first.
"""

import time
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias, final

import attrs

from effx import caching, flags
from effx.caching import WeakStore
from effx.effects import Frame, axes_in_scope, current_frame, is_in_scope
from effx.handlers.staging.stage import stage
from effx.ir.program import Staged
from effx.ir.refs import CellEffect
from effx.ir.types import ArrayType
from effx.lower.runtime.phases import Phase, log_step
from effx.tracing.arguments import Arguments, FlatFunction, adapt_arguments, function_origin
from effx.tracing.cache_misses import TraceKey, log_cache_miss
from effx.tree.registry import PyTree, PyTreeDef, flatten, tuple_structure

Types = tuple[ArrayType, ...]


@final
@attrs.frozen(eq=False)
class FunctionTrace(Staged):
    """A function's program for one signature of arguments, with the values that it closes over.

    Attributes:
        out_tree: the structure of the function's result.
        foreign: the frames of handlers that own captured values, and mutable references.
        derived: data that transformations derive from the trace; it lives as long as the trace.
    """

    out_tree: PyTreeDef
    foreign: tuple[Frame, ...]
    derived: dict[object, object] = attrs.field(factory=dict)

    @property
    def out_types(self) -> Types:
        """The types of the results."""
        return self.program.out_types

    def is_valid(self) -> bool:
        """Returns whether the captured values are still valid: none of their handlers has ended."""
        return all([f.live and is_in_scope(f) for f in self.foreign])


# Called with each function that is about to be staged and cached.
trace_listeners: list[Callable[[Callable[..., PyTree]], None]] = []
Traces: TypeAlias = dict[TraceKey, FunctionTrace]

_traces_by_function: WeakStore[Callable[..., PyTree], Traces] = WeakStore()


def _clear_traces() -> None:
    for traces in _traces_by_function.values():
        traces.clear()


caching.other_caches.append(_clear_traces)


def traces_of(fun: Callable[..., PyTree]) -> Traces:
    """Returns the traces of a function, which live as long as the function."""
    return _traces_by_function.get(fun, dict)


def trace_settings() -> tuple[object, ...]:
    """Returns the flags, and the properties of surrounding handlers, on which a trace depends."""
    must_run_once, frame = False, current_frame()
    if frame is not None:
        from effx.handlers.recursion.payloads import (  # not loaded to stage outside of handlers
            must_perform_once,  # not imported for staging outside of handlers
        )

        must_run_once = must_perform_once(frame)
    return must_run_once, *flags.read_trace_settings()


def trace_key(in_tree: PyTreeDef, types: Types, static_key: Hashable) -> TraceKey:
    """Returns the key of a function's trace under the current settings; see `trace_cached`."""
    return in_tree, types, static_key, trace_settings(), axes_in_scope()


_NO_NAMES = flatten({})[1]


def call_tree(args: PyTreeDef) -> PyTreeDef:
    """Returns the structure of `(args, kwargs)` for positional arguments, whose tuple has the structure `args`."""
    return tuple_structure((args, _NO_NAMES))


def positional_tree(*args: PyTreeDef) -> PyTreeDef:
    """Returns the structure of `(args, kwargs)` for positional arguments of these structures."""
    return call_tree(tuple_structure(args))


def trace(function: FlatFunction, types: Sequence[ArrayType]) -> FunctionTrace:
    """Stages a function for arrays of these types, without a cache."""
    return _stage_trace(function, types, function_origin(function.fun))


def _stage_trace(function: FlatFunction, types: Sequence[ArrayType], origin: str) -> FunctionTrace:
    started = time.perf_counter()
    with Phase("/effx/stage", function.name):
        staged = stage(function, types, function.name, function.transform_name, origin)
    seconds = time.perf_counter() - started
    log_step("Finished tracing %s for %s in %.6f sec", function.name, function.transform_name, seconds)
    foreign = {x.frame: None for x in staged.captured if x.frame is not None}
    for effect in staged.program.effects:
        if isinstance(effect, CellEffect) and effect.cell.home_frame is not None:
            foreign[effect.cell.home_frame] = None
    return FunctionTrace(staged.program, staged.captured, function.out_tree, tuple(foreign))


def trace_cached(
    transform_name: str,
    fun: Callable[..., PyTree],
    in_tree: PyTreeDef,
    types: Types,
    *,
    static_key: Hashable = None,
    arguments: Callable[[Arguments], Arguments] | None = None,
    traces: Traces | None = None,
) -> FunctionTrace:
    """Returns the trace of a function, and stages it the first time for these arguments and settings.

    The cache key is the function's identity: values that the function reads are read when it is staged.

    Args:
        transform_name: the transformation, for errors.
        fun: the user's function.
        in_tree: the structure of `(args, kwargs)`. types: the types of its leaves.
        arguments: converts these arguments for the call of the function; None to leave them unchanged.
            static_key: the cache key of `arguments`.
        traces: the cache of traces; by default the function's own.
    """
    cached_traces = traces_of(fun) if traces is None else traces
    key = trace_key(in_tree, types, static_key)
    cached = cached_traces.get(key)
    if cached is None or not cached.is_valid():
        if flags.explain_cache_misses.value:
            log_cache_miss(transform_name, fun, cached_traces, key)
        for listener in trace_listeners:
            listener(fun)
        function = FlatFunction(
            transform_name, fun if arguments is None else adapt_arguments(fun, arguments), in_tree
        )
        cached = cached_traces[key] = _stage_trace(function, types, function_origin(fun))
    return cached
