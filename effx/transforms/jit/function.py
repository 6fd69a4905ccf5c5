"""The function that `jit` returns: it stages, compiles and runs one program for each signature of arguments.

A call goes to jaxlib's C++ function, which runs on a cache hit without Python, unless handlers or overrides of
flags are in force. On a miss the arguments' types select a program here. Outside of all handlers the program is
compiled and run; under handlers it is performed.
"""

import copyreg
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    overload,
    runtime_checkable,
)
from weakref import ref

from effx import flags, ports, presence
from effx.array import Array
from effx.effects import all_optional, current_frame, isolated
from effx.errors import (
    BackendError,
    RefGivenError,
    TransformError,
    hide_internal_frames,
)
from effx.flags import CompileMode
from effx.handlers.evaluate.constant_values import compute_constant_part
from effx.handlers.evaluate.debugging import find_not_finite, is_debugging
from effx.handlers.evaluate.lowering_passes import order_effects
from effx.handlers.staging.stage import run_program
from effx.ir.ops.control import Call, HigherOrder
from effx.ir.program import Program
from effx.ir.types import ArrayType
from effx.ir.values.refs import has_refs
from effx.lower.compile_options import CompilerOptions
from effx.lower.placement.assignment import Assignment, RequestedShardings
from effx.lower.placement.concrete import (
    ConcreteArray,
    has_own_layout,
    is_on_several_devices,
    mark_deleted,
    to_concrete,
)
from effx.lower.placement.transfer_guards import check_execution, has_active_guards
from effx.lower.runtime.dispatch import (
    KEYED,
    FastPath,
    fast_path,
    make_fast_function,
    reads_scalars,
    refuse_pending,
)
from effx.lower.runtime.executables import Executable, compile_program
from effx.program_cache import NO_ENTRY, CacheEntry, find_entry
from effx.tracing.arguments import (
    StaticArguments,
    as_arrays,
    callable_name,
    finalize_results,
    function_signature,
    leaf_type,
)
from effx.tracing.traces import FunctionTrace, trace_cached, trace_key, traces_of
from effx.tracing.wrapping import update_wrapper
from effx.transforms.jit.call_arguments import CallArguments, bind_static_arguments
from effx.transforms.jit.device_assignment import assign_devices, default_placement, plan_devices
from effx.transforms.jit.donation import (
    check_captured,
    check_donated_once,
    donation_flags,
    warn_unused_donations,
)
from effx.transforms.jit.function_cache import SharedKey, TraceVariant, shared_key
from effx.transforms.jit.options import (
    ExactStatic,
    Inline,
    Options,
    PositionalRoles,
    valid_argument_numbers,
    wrap_static_argument,
)
from effx.transforms.jit.shardings import argument_shardings, with_shardings
from effx.transforms.jit.stages import Lowered, Signature, Traced
from effx.tree.registry import PyTree, PyTreeDef, flatten

if TYPE_CHECKING:
    from effx.program_cache.entries import RestoredProgram
    from effx.program_cache.lookup import ProgramQuery
    from effx.tracing.signatures import Unnameable

__all__ = ["JitDecorator", "Jitted"]


@runtime_checkable
class JittedOwner(Protocol):
    """The Python side of a jitted function; see `effx.transforms.jit.function.Function`."""

    transform_name: str

    def make_jitted(self) -> object:
        """Makes the function that `jit` returns, for unpickling."""
        ...


def reduce_jitted(function: Callable[..., object]) -> "str | tuple[object, ...]":
    """Reduces a C++ function for pickle and copy: to its name if it has one, otherwise to its owner.

    Functions that jax jitted are of the same class; they are left to jax.
    """
    owner = getattr(getattr(function, "trace", None), "__self__", None)
    if not isinstance(owner, JittedOwner):
        return function.__reduce_ex__(2)
    name = getattr(function, "__qualname__", "")  # empty inside a Python wrapper that checks static arguments
    named: object = sys.modules.get(getattr(function, "__module__", ""))
    for part in name.split("."):
        named = getattr(named, part, None)
    return name if named is function else (rebuild_jitted, (owner,))


def rebuild_jitted(owner: JittedOwner) -> object:
    """Returns the jitted function of an unpickled owner."""
    return owner.make_jitted()


P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
Q = ParamSpec("Q")


class Jitted(Protocol[P, R_co]):
    """A function that `jit` compiled: called like the original, with methods to inspect it.

    >>> import effx
    >>> f = effx.jit(lambda x: x * 2.0)
    >>> print(f(3.0), f.eval_shape(3.0).dtype)
    6.0 float32
    >>> print(f.trace(3.0).jaxpr)
    <lambda>(a: f32[]~) {
      b: f32[]~ = mul a 2.0:f32~
      return b
    }
    """

    __name__: str

    @overload
    def __get__(self, instance: None, owner: object = None, /) -> "Jitted[P, R_co]": ...
    @overload
    def __get__(  # of a function that takes anything
        self: "Jitted[Concatenate[Unnameable, Q], R_co]", instance: object, owner: object = None, /
    ) -> Callable[..., R_co]: ...
    @overload
    def __get__(
        self: "Jitted[Concatenate[S, Q], R_co]", instance: S, owner: object = None, /
    ) -> Callable[Q, R_co]: ...
    def __get__(self, instance: object, owner: object = None, /) -> Any:
        """Binds a jitted method to its object."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Calls the compiled function."""
        ...

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Traced:
        """Stages the function for arguments, or for objects with their shapes and dtypes."""
        ...

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Stages and lowers to StableHLO."""
        ...

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Returns shapes and dtypes of the result without computing."""
        ...

    def clear_cache(self) -> None:
        """Drops all programs of this function."""
        ...


class JitDecorator(Protocol):
    """The decorator that `jit(...)` returns when called without a function."""

    def __call__(self, fun: Callable[P, R]) -> Jitted[P, R]:
        """Compiles the function with the options of `jit(...)`."""
        ...


CallMode: TypeAlias = Literal["call", "shapes", "trace"]


class Function(Generic[P, R]):
    """The Python side of one function that is staged for each signature of arguments.

    Attributes:
        transform_name: the transformation, for errors.
        operation: makes the operation that performs the program under handlers.
        wrapped: what `__wrapped__` is: the user's function, where that is not what is staged.
    """

    def __init__(
        self,
        fun: Callable[P, R],
        options: Options,
        transform_name: str = "jit",
        operation: Callable[[Program], HigherOrder] = Call,
        wrapped: Callable[..., object] | None = None,
    ) -> None:
        self.fun = fun
        self.wrapped = fun if wrapped is None else wrapped
        self.options = options
        self.transform_name = transform_name
        self.operation = operation
        self.name = callable_name(fun)
        self.where = transform_name, self.name
        # Only `jit` shares traces by function: other transformations stage functions that they make anew.
        self.traces = traces_of(fun) if transform_name == "jit" else {}
        self.ref_function: Any = None
        self.key = shared_key(fun, options) if transform_name == "jit" else SharedKey()

    def __reaches__(self) -> dict[str, object]:
        """Returns the parts of the function that belong to its key on disk."""
        return {
            "fun": self.fun,
            "options": self.options,
            "what": self.transform_name,
            "operation": self.operation,
        }

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Pickles the function without its staged programs."""
        return Function, (self.fun, self.options, self.transform_name, self.operation)

    # From arguments to a staged program

    def split_static_arguments(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object], StaticArguments]:
        """Returns dynamic arguments, positional and by keyword, and static ones, each with its number or name."""
        o = self.options
        if not o.static_argnums and not o.static_argnames:
            return args, kwargs, ()
        count = len(args)
        numbers = valid_argument_numbers(o.static_argnums, count)
        for n in o.static_argnums:
            if not -count <= n < count:
                signature = function_signature(self.fun)
                names = [] if signature is None else list(signature.parameters)
                if n >= 0 and n < len(names) and (names[n] in kwargs or names[n] in o.static_argnames):
                    continue
                raise TransformError(
                    f"{self.transform_name}: {self.name} was called with {count} positional arguments, fewer than "
                    f"static_argnums {o.static_argnums} needs"
                )
        static_pairs: list[tuple[int | str, object]] = [(n, args[n]) for n in sorted(numbers)]
        static_pairs += [(name, kwargs[name]) for name in o.static_argnames if name in kwargs]
        static = [(where, x.value if type(x) is ExactStatic else x) for where, x in static_pairs]
        for where, value in static:
            try:
                hash(value)
            except TypeError:
                description = f"argument {where}" if isinstance(where, int) else f"argument {where!r}"
                raise TransformError(
                    f"{self.transform_name}: static {description} of {self.name} must be hashable, "
                    f"got {value!r} of type {type(value).__name__}"
                ) from None
        dynamic = tuple([a for i, a in enumerate(args) if i not in numbers])
        named = {k: v for k, v in kwargs.items() if k not in o.static_argnames}
        return dynamic, named, tuple(static)

    def flatten_arguments(self, args: tuple[object, ...], kwargs: dict[str, object]) -> CallArguments:
        """Returns the flattened arguments of a call, with their types and donation."""
        dynamic, named, static = self.split_static_arguments(args, kwargs)
        leaves, tree = flatten((dynamic, named))
        arrays = as_arrays(self.transform_name, leaves, (dynamic, named))
        donated = donation_flags(self.where, self.options, dynamic, named, static, len(leaves))
        types = self.apply_in_shardings(tuple([x.type for x in arrays]), dynamic, named)
        return CallArguments(tree, types, static, donated, leaves, arrays)

    def apply_in_shardings(
        self, types: tuple[ArrayType, ...], dynamic: tuple[object, ...], named: dict[str, object]
    ) -> tuple[ArrayType, ...]:
        """Returns the arguments' types, with their shardings over Explicit axes from `in_shardings`."""
        shardings = self.options.shardings
        return (
            types if shardings is None else shardings.apply_to_types(dynamic, len(flatten(named)[0]), types)
        )

    def find_trace(self, call: CallArguments) -> tuple[FunctionTrace, TraceVariant]:
        """Returns the trace for the arguments, and stages the function the first time."""
        trace = self.find_or_stage_trace(call.tree, call.types, call.static)
        return trace, self.find_variant(trace, call.donated, call.tree)

    def find_or_stage_trace(
        self, tree: PyTreeDef, types: tuple[ArrayType, ...], static: StaticArguments
    ) -> FunctionTrace:
        """Returns the trace for arguments of these structure and types, and stages the function the first time."""
        static_key, arguments = bind_static_arguments(static)
        return trace_cached(
            self.transform_name,
            self.fun,
            tree,
            types,
            static_key=static_key,
            arguments=arguments,
            traces=self.traces,
        )

    def find_variant(self, trace: FunctionTrace, donated: tuple[bool, ...], tree: PyTreeDef) -> TraceVariant:
        """Returns the variant of a trace for this function's options."""
        variant, in_out_shardings = trace.derived.get(self.key), self.options.shardings
        if variant is None:
            types = trace.program.in_types[len(trace.captured) :]
            shardings = (
                None
                if in_out_shardings is None
                else in_out_shardings.resolve_shardings(
                    self.name, tree, types, trace.out_tree, trace.out_types
                )
            )
            variant = trace.derived[self.key] = TraceVariant(donated, tree, shardings)
        return cast("TraceVariant", variant)

    def prepare_call(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[FunctionTrace, TraceVariant, list[Array], list[PyTree]]:
        """Returns the trace for the arguments, its variant, and the arguments' arrays and leaves."""
        call = self.flatten_arguments(args, kwargs)
        return *self.find_trace(call), call.arrays, call.leaves

    # Running

    def miss(self, *args: Any, **kwargs: Any) -> tuple[R, FastPath | None, bool]:
        """Stages, compiles and runs; returns the result and the fast path by which C++ runs the next such call."""
        refuse_pending(args, kwargs)
        if flags.disable_jit.value:
            unwrapped_args = [x.value if type(x) is ExactStatic else x for x in args]
            unwrapped_kwargs = {name: x.value if type(x) is ExactStatic else x for name, x in kwargs.items()}
            return cast("Callable[..., R]", self.fun)(*unwrapped_args, **unwrapped_kwargs), None, False
        return self.run(args, kwargs)

    def run(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[R, FastPath | None, bool]:
        """Stages and compiles as far as needed, then computes the result."""
        try:
            call = self.flatten_arguments(args, kwargs)
            entry = self.find_cache_entry(call)
            staged = self.find_trace(call) if entry.program is None else None
        except RefGivenError:
            if not has_refs((args, kwargs)):
                raise
        else:
            if entry.program is not None:
                return self.run_restored(entry.program, call)
            assert staged is not None
            return self.run_staged(*staged, call, entry)
        # Outside of the except clause, so that its errors are not chained to RefGivenError.
        return self.call_with_refs(args, kwargs), None, False

    def run_restored(
        self, program: "RestoredProgram", call: CallArguments
    ) -> tuple[R, FastPath | None, bool]:
        """Runs a program that another process staged and compiled."""
        check_captured(self.where, program.captured, call.donated, call.concrete_arrays())
        return self.execute(program.executable, program.out_tree, call, None)

    def run_staged(
        self, trace: FunctionTrace, variant: TraceVariant, call: CallArguments, entry: CacheEntry
    ) -> tuple[R, FastPath | None, bool]:
        """Performs a staged program under handlers; compiles it as far as needed and runs it outside of them."""
        if current_frame() is not None or trace.foreign or not all_optional(trace.program.effects):
            return self.perform(trace, call.arrays, variant.shardings), None, False
        concrete = call.concrete_arrays()
        check_captured(self.where, trace.captured, variant.donated, concrete)
        executable = self.find_executable(trace, variant, concrete)
        if executable.later is None:  # the next process finds the one that is compiled in full
            entry.store(trace, executable)
        return self.execute(executable, trace.out_tree, call, trace)

    def execute(
        self, executable: Executable, out_tree: PyTreeDef, call: CallArguments, trace: FunctionTrace | None
    ) -> tuple[R, FastPath | None, bool]:
        """Runs an executable; `trace` serves to find the operation that gave NaN."""
        concrete = call.concrete_arrays()
        # While debugging nothing is donated, since the search for NaN may need the arguments: they are deleted below.
        consumed = call.donated if is_debugging() else (False,) * len(concrete)
        check_execution(f"{self.transform_name}: {self.name}")
        is_fast = executable.can_dispatch_in_cpp(concrete, call.leaves) and not is_debugging()
        is_fast = is_fast and (all([type(x) is ConcreteArray for x in call.leaves]) or reads_scalars())
        if trace is not None and flags.debug_key_reuse.value:
            inputs = [*trace.captured, *concrete]
            results = ports.random_keys.reuse.watched(trace.program, inputs, lambda: executable.run(concrete))
        else:
            results = executable.run(concrete)
        if trace is not None and is_debugging() and (failure := find_not_finite(results)) is not None:
            with isolated():  # to find the operation: this raises
                run_program(trace.program, [*trace.captured, *concrete])
            raise failure.make_error(f"{self.transform_name}: {self.name}")
        for x, is_consumed in zip(concrete, consumed, strict=True):
            if is_consumed:
                x.delete()
        outputs = finalize_results(results)
        result: R = out_tree.unflatten(outputs)
        is_fast = is_fast and all([type(y) is ConcreteArray for y in outputs])  # C++ makes no others
        later = executable.later
        if later is not None and not later.is_requested:
            return result, None, True  # C++ forgets the call: it would call Python for ever, or never
        path = fast_path(executable, result) if is_fast else None
        # Nothing is called from here on, so that no other thread runs: what ends it has C++ forget this call afterwards.
        if later is not None and later.is_over:
            return result, None, True
        return result, path, False

    def call_with_refs(
        self, args: tuple[object, ...], kwargs: dict[str, object], mode: CallMode = "call"
    ) -> Any:
        """Calls the function on the contents of its mutable references, or infers the result's shapes, or stages it."""
        from effx.transforms.refs.ref_arguments import (  # not loaded before it is needed
            RefArguments,
            functionalize_refs,
        )

        if self.ref_function is None:
            functionalized = functionalize_refs(
                self.fun, bool(self.options.donate_argnums or self.options.donate_argnames)
            )
            self.ref_function = Function(
                functionalized, self.options.with_ref_contents(), self.transform_name, self.operation
            ).make_jitted()
        ref_arguments = RefArguments(self.transform_name, self.name, args, kwargs)
        if mode == "trace":
            from effx.transforms.jit.stages import trace_with_refs

            return trace_with_refs(
                ref_arguments,
                self.ref_function.trace,
                flatten(self.split_static_arguments(args, kwargs)[:2])[1],
            )
        return ref_arguments.call_with_contents(
            self.ref_function if mode == "call" else self.ref_function.eval_shape, writes_back=mode == "call"
        )

    def find_cache_entry(self, call: CallArguments) -> CacheEntry:
        """Returns the entry of a call in the cache on disk."""
        if self.transform_name != "jit":
            return NO_ENTRY
        return find_entry(partial(self.make_cache_query, call), self.key.restored)

    def make_cache_query(self, call: CallArguments) -> "ProgramQuery | None":
        """Returns the query for the cache on disk; None if the trace is in memory, or an argument is on several devices or
        in a layout of its own.
        """
        from effx.program_cache.lookup import ProgramQuery  # the cache is on

        key = trace_key(call.tree, call.types, bind_static_arguments(call.static)[0])
        concrete = call.concrete_arrays() if key not in self.traces else []
        if key in self.traces or any([is_on_several_devices(x) or has_own_layout(x) for x in concrete]):
            return None
        o = self.options
        assignment = assign_devices(self.where, o.device, None, concrete)
        device, committed = assignment.device, assignment.committed
        return ProgramQuery(self.fun, self.name, key, call.static, o, device, committed, o.compiler_options)

    def perform(
        self, trace: FunctionTrace, arrays: Sequence[Array], shardings: RequestedShardings | None = None
    ) -> R:
        """Performs the program as a call under the current handlers."""
        if shardings is not None:
            arrays = with_shardings(arrays, shardings.inputs, shardings.layouts.inputs)
        inputs = [*trace.captured, *arrays]
        inline = self.options.inline
        if inline is Inline.JAX_EARLY:
            results: Sequence[Array] = run_program(trace.program, inputs)
        elif inline is Inline.JAX_LATE and self.operation is Call:
            results = Call(trace.program, inline=True)(*inputs)
        else:
            results = self.operation(trace.program)(*inputs)
        if shardings is not None:
            results = with_shardings(results, shardings.outputs, shardings.layouts.outputs)
        result: R = trace.out_tree.unflatten(finalize_results(results))
        return result

    def find_executable(
        self, trace: FunctionTrace, variant: TraceVariant, arrays: list[ConcreteArray]
    ) -> Executable:
        """Returns the executable for the arrays' devices and shardings, and compiles it the first time."""
        o, executables = self.options, variant.executables
        mode = flags.compile.value if o.compile is None else o.compile
        usual_placement = default_placement(arrays)
        if usual_placement is not None:
            usual_key = (usual_placement, is_debugging(), mode)
            if (compiled := executables.get(usual_key)) is not None:
                executables[usual_key] = compiled = self.current_executable(compiled)
                return compiled
        assignment = assign_devices(
            self.where, o.device, trace.program, arrays, variant.shardings, trace.captured
        )
        key = (assignment, is_debugging(), mode)
        compiled = executables.get(key)
        if compiled is None:
            donated = (False,) * len(variant.donated) if is_debugging() else variant.donated
            compiled = self.compile(
                trace.program, trace.captured, variant.tree, assignment, donated, mode=mode
            )
        else:
            compiled = self.current_executable(compiled)
        executables[key] = compiled
        if usual_placement is not None:
            executables[usual_placement, is_debugging(), mode] = compiled
        return compiled

    def current_executable(self, executable: Executable) -> Executable:
        """Returns what a call after the first one runs, and has C++ forget calls when that changes."""
        later = executable.later
        if later is not None and later.on_end is None:
            later.on_end = partial(forget_calls, weak_reference(self.fun), self.name, self.options, self.key)
        return executable.current()

    def compile(
        self,
        program: Program,
        captured: Sequence[Array],
        tree: PyTreeDef,
        assignment: Assignment,
        donated: tuple[bool, ...],
        options: CompilerOptions = (),
        *,
        mode: CompileMode,
    ) -> Executable:
        """Compiles a program for a device assignment, with XLA options beside those of the function."""
        with isolated():
            constants = [to_concrete(x) for x in captured]
        all_options = tuple(sorted({**dict(self.options.compiler_options), **dict(options)}.items()))
        rest: Program = program
        rest_constants: Sequence[ConcreteArray] = constants
        # A program on disk is given its constants by the process that reads it, not what was computed from them.
        if flags.cache_dir.value is None or not flags.cache_programs.value:
            rest, rest_constants = compute_constant_part(program, constants, assignment, all_options)
        executable = compile_program(
            order_effects(rest),
            rest_constants,
            assignment,
            donated=donated,
            keep_unused=self.options.keep_unused,
            options=all_options,
            mode=mode,
        )
        if any(donated):
            warn_unused_donations(self.where, self.fun, self.options, tree, executable, donated)
        return executable

    def make_fast_function(
        self, miss: Callable[..., tuple[R, FastPath | None, bool]], settings: tuple[object, ...] = ()
    ) -> Callable[..., R]:
        """Makes a C++ function; C++ functions with equal settings share one cache."""
        o, key = self.options, (self.key, settings)
        self.key.settings.add(settings)
        return make_fast_function(self.name, self.fun, miss, o.static_argnums, o.static_argnames, key)

    def make_jitted(self) -> Jitted[P, R]:
        """Returns the function that users call: jaxlib's C++ object itself, or a Python wrapper of it.

        This object must not refer to it: a cycle would keep dropped functions and their arrays alive.
        """
        others: dict[tuple[object, ...], Callable[..., R]] = {}

        def miss(*args: P.args, **kwargs: P.kwargs) -> tuple[R, FastPath | None, bool]:
            try:
                refuse_pending(args, kwargs)
                if not presence.is_any_present():
                    return self.miss(*args, **kwargs)
                # Some context of the process has handlers or overrides of flags, which C++ cannot see; it may be this one.
                if ((frame := current_frame()) is not None and frame.opaque) or has_active_guards():
                    return self.miss(*args, **kwargs)[0], None, False
                keyed = (*KEYED, *flags.user_contexts)
                settings = () if flags.overrides() is None else flags.read_values(keyed)
                # A context with overrides has a C++ function of its own, by the values of the flags.
                fast = others.get(settings)
                if fast is None:
                    fast = others[settings] = self.make_fast_function(self.miss, (True, *settings))
                return fast(*args, **kwargs), None, False
            except Exception as error:
                hide_internal_frames(error)  # of this frame too: a bare raise adds none
                raise

        plain = self.make_fast_function(miss)

        def clear_cache() -> None:
            self.traces.clear()
            self.key.restored.clear()
            forget_calls(lambda: self.fun, self.name, self.options, self.key)

        public: Any = self.wrap_in_python(plain) if self.options.needs_python_wrapper else plain
        update_wrapper(public, self.fun)
        public.__wrapped__ = self.wrapped
        public.trace, public.lower, public.eval_shape = self.trace, self.lower, self.eval_shape
        public.clear_cache = clear_cache
        if public is not plain:
            plain.trace = self.trace  # type: ignore[attr-defined]  # of jaxlib's C++ functions: by it `reduce_jitted` knows it
            # C++'s own bound method does not pickle.
            public._cache_size = lambda: plain._cache_size()  # type: ignore[attr-defined]  # of jaxlib's C++ functions
        return cast("Jitted[P, R]", public)

    def raise_donation_error(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raises the error that names the deleted or twice donated array, which C++ does not name."""
        trace, variant, arrays, _ = self.prepare_call(args, kwargs)
        concrete = [to_concrete(x) for x in arrays]
        check_captured(self.where, trace.captured, variant.donated, concrete)
        check_donated_once(
            self.where, self.find_executable(trace, variant, concrete).kept_mask, variant.donated, concrete
        )

    def wrap_in_python(self, call: Callable[..., R]) -> Callable[P, R]:
        """Wraps the function to compare static arguments exactly, delete donated arrays and explain errors."""
        o = self.options
        donates = bool(o.donate_argnums or o.donate_argnames)
        positions_by_count = PositionalRoles(o)

        def call_and_explain(*args: P.args, **kwargs: P.kwargs) -> R:
            call_args: Sequence[object] = args
            call_kwargs: dict[str, object] = kwargs
            static, donated = positions_by_count[len(args)]
            try:
                # Static values go by type and bits, where C++ uses `==`.
                if static:
                    call_args = list(args)
                    for i in static:
                        call_args[i] = wrap_static_argument(args[i])
                if kwargs and o.static_argnames:
                    call_kwargs = {
                        k: wrap_static_argument(x) if k in o.static_argnames else x for k, x in kwargs.items()
                    }
            except TypeError:
                self.split_static_arguments(args, kwargs)  # raises for an unhashable static argument, by name
                raise
            try:
                result = call(*call_args, **call_kwargs)
            except Exception as error:
                if isinstance(error, ValueError | BackendError) and "INVALID_ARGUMENT" in str(error):
                    self.raise_donation_error(args, kwargs)
                hide_internal_frames(error)  # of this frame too: a bare raise adds none
                raise
            # A donated array gets a buffer of a class that C++ does not know, so every later use of the array
            # reaches Python and raises there.
            if donates:
                rest = [kwargs.get(name) for name in o.donate_argnames]
                mark_deleted(flatten([*[args[i] for i in donated], *rest])[0])
            return result

        return call_and_explain

    # Inspecting the stages

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Stages the function for arguments, or for objects with their shapes and dtypes."""
        if has_refs((args, kwargs)):
            return cast("Traced", self.call_with_refs(args, kwargs, "trace"))
        dynamic, named, static = self.split_static_arguments(args, kwargs)
        leaves, tree = flatten((dynamic, named))
        types = self.apply_in_shardings(
            tuple([leaf_type(self.transform_name, x) for x in leaves]), dynamic, named
        )
        with isolated():
            trace = self.find_or_stage_trace(tree, types, static)
            donated = donation_flags(self.where, self.options, dynamic, named, static, len(types))
            variant = self.find_variant(trace, donated, tree)
        device, mode = self.options.device, self.options.compile or flags.compile.value
        if mode == "tiered":  # no call waits for it
            mode = "full"
        shardings = argument_shardings(leaves, variant.shardings)
        out_shardings = () if variant.shardings is None else variant.shardings.outputs
        signature = Signature(
            self.name, tree, trace.out_tree, types, trace.out_types, variant.donated, out_shardings
        )
        return Traced(
            signature,
            trace.program,
            trace.captured,
            lambda program, captured, where: plan_devices(
                self.where, program, captured, shardings, where, device is not None
            ),
            lambda program, captured, assignment, options: self.compile(
                program, captured, tree, assignment, variant.donated, options, mode=mode
            ),
            device,
        )

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Stages and lowers to StableHLO."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Returns shapes and dtypes of the result without computing."""
        if has_refs((args, kwargs)):
            return self.call_with_refs(args, kwargs, "shapes")
        return self.trace(*args, **kwargs).out_info


def weak_reference(fun: Callable[..., object]) -> Callable[[], Callable[..., object] | None]:
    """Returns a weak reference to a function; a strong one to what takes none."""
    try:
        return ref(fun)
    except TypeError:
        return lambda: fun


def forget_calls(
    fun: Callable[[], Callable[..., object] | None], name: str, options: Options, key: SharedKey
) -> None:
    """Has C++ forget the calls of a function, if it is alive."""
    function = fun()
    if function is None:
        return
    for settings in list(key.settings):
        # C++ functions with equal keys share a cache.
        same = make_fast_function(
            name, function, _no_miss, options.static_argnums, options.static_argnames, (key, settings)
        )
        same._clear_cache()  # type: ignore[attr-defined]  # of jaxlib's C++ functions


def _no_miss(*args: object, **kwargs: object) -> tuple[object, FastPath | None, bool]:
    raise AssertionError("it is called by nobody")


_FAST_FUNCTION = type(make_fast_function("f", valid_argument_numbers, lambda: ((), None, False)))
copyreg.pickle(_FAST_FUNCTION, reduce_jitted)  # type: ignore[arg-type]  # wants Any
