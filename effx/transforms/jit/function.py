"""`jit`: a function becomes a program, compiled once for each kind of arguments.

What users call looks at the context, its handlers and overrides of flags, and then calls jaxlib's C++
function: on a hit that runs without Python. On a miss it comes here, where the arguments' types choose a
program. Outside of all handlers the program is compiled and run; under handlers it is performed.
"""

import copyreg
import sys
from collections.abc import Callable, Sequence
from functools import update_wrapper
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

from effx import flags, ports, presence
from effx.array import Array
from effx.effects import are_optional, current_frame, isolated
from effx.errors import (
    BackendError,
    RefGivenError,
    TransformError,
    hide_internal_frames,
)
from effx.handlers.evaluate.debugging import debugging, not_finite
from effx.handlers.evaluate.lowering_passes import in_order
from effx.handlers.staging.stage import run_program
from effx.ir.ops.control import Call, HigherOrder
from effx.ir.program import Program
from effx.ir.types import ArrayType
from effx.ir.values.refs import has_refs
from effx.lower.compile_options import CompilerOptions
from effx.lower.placement.assignment import Assignment, Wanted
from effx.lower.placement.concrete import ConcreteArray, as_concrete, bury, is_spread
from effx.lower.placement.transfer_guards import check_execution, guarding
from effx.lower.runtime.dispatch import (
    KEYED,
    FastPath,
    fast_function,
    fast_path,
    reads_scalars,
    refuse_pending,
)
from effx.lower.runtime.executables import Executable, compile_program
from effx.tracing.arguments import Statics, abstract, as_arrays, name_of, signature_of
from effx.tracing.traces import Trace, key_of, traced, traces_of
from effx.transforms.jit.call_arguments import Given, adding
from effx.transforms.jit.device_assignment import placed, planned, usual_place
from effx.transforms.jit.donation import check_held, check_once, donated_leaves, warn_unused
from effx.transforms.jit.function_cache import Form, SharedKey, shared_key
from effx.transforms.jit.options import Options, Places, Static, counted, exactly
from effx.transforms.jit.shardings import constrained, lying
from effx.transforms.jit.stages import Lowered, Signature, Traced
from effx.tree.registry import PyTree, PyTreeDef, flatten

if TYPE_CHECKING:
    from effx.program_cache.entries import Restored
    from effx.program_cache.lookup import Question

__all__ = ["Decorator", "Jitted"]


@runtime_checkable
class Owner(Protocol):
    """The Python side of a jitted function; see `effx.transforms.jit.function.Function`."""

    what: str

    def public(self) -> object:
        """Returns what `jit` gives."""
        ...


def reduced(function: Callable[..., object]) -> "str | tuple[object, ...]":
    """How pickle and copy see C++ functions: by name where they have one, else as what `jit` was given.

    Those of jax are of the same class, and none of effx's business.
    """
    owner = getattr(getattr(function, "trace", None), "__self__", None)
    if not isinstance(owner, Owner):
        return function.__reduce_ex__(2)
    name = getattr(function, "__qualname__", "")  # none where Python looks at static arguments before
    found: object = sys.modules.get(getattr(function, "__module__", ""))
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is function else (again, (owner,))


def again(owner: Owner) -> object:
    """Returns the jitted function of what was pickled."""
    return owner.public()


P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
Q = ParamSpec("Q")


class Jitted(Protocol[P, R_co]):
    """A function that `jit` compiled: called like the original, with ways to look inside."""

    __name__: str

    @overload
    def __get__(self, instance: None, owner: object = None, /) -> "Jitted[P, R_co]": ...
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
        """Stages the function for arguments, or for things with their shapes and dtypes."""
        ...

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Stages and lowers to StableHLO."""
        ...

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Returns shapes and dtypes of the result without computing."""
        ...

    def clear_cache(self) -> None:
        """Forgets all programs of this function."""
        ...


class Decorator(Protocol):
    """What `jit(...)` without a function returns."""

    def __call__(self, fun: Callable[P, R]) -> Jitted[P, R]:
        """Compiles the function with the options that were given."""
        ...


Way: TypeAlias = Literal["call", "shapes", "trace"]


class Function(Generic[P, R]):
    """The Python side of one function that is staged for each kind of arguments.

    Attributes:
        what: the transformation, for errors.
        operation: what performs the program where handlers are installed.
    """

    def __init__(
        self,
        fun: Callable[P, R],
        options: Options,
        what: str = "jit",
        operation: Callable[[Program], HigherOrder] = Call,
    ) -> None:
        self.fun = fun
        self.options = options
        self.what = what
        self.operation = operation
        self.name = name_of(fun)
        self.where = what, self.name
        # Only what `jit` itself is given is found again: others stage functions that they make.
        self.traces = traces_of(fun) if what == "jit" else {}
        self.lender: Any = None
        self.key = shared_key(fun, options) if what == "jit" else SharedKey()

    def __reaches__(self) -> dict[str, object]:
        """Returns what a key of a program on disk must say of the function."""
        return {"fun": self.fun, "options": self.options, "what": self.what, "operation": self.operation}

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """What has been staged is left out."""
        return Function, (self.fun, self.options, self.what, self.operation)

    # From arguments to a staged program

    def split(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object], Statics]:
        """Separates dynamic arguments from static ones, each of these with its number or name."""
        o = self.options
        if not o.static_argnums and not o.static_argnames:
            return args, kwargs, ()
        count = len(args)
        numbers = counted(o.static_argnums, count)
        for n in o.static_argnums:
            if not -count <= n < count:
                signature = signature_of(self.fun)
                names = [] if signature is None else list(signature.parameters)
                if n >= 0 and n < len(names) and (names[n] in kwargs or names[n] in o.static_argnames):
                    continue
                raise TransformError(
                    f"{self.what}: {self.name} was called with {count} positional arguments, fewer than "
                    f"static_argnums {o.static_argnums} needs"
                )
        given: list[tuple[int | str, object]] = [(n, args[n]) for n in sorted(numbers)]
        given += [(name, kwargs[name]) for name in o.static_argnames if name in kwargs]
        static = [(where, x.value if type(x) is Static else x) for where, x in given]
        for where, value in static:
            try:
                hash(value)
            except TypeError:
                what = f"argument {where}" if isinstance(where, int) else f"argument {where!r}"
                raise TransformError(
                    f"{self.what}: static {what} of {self.name} must be hashable, "
                    f"got {value!r} of type {type(value).__name__}"
                ) from None
        dynamic = tuple([a for i, a in enumerate(args) if i not in numbers])
        named = {k: v for k, v in kwargs.items() if k not in o.static_argnames}
        return dynamic, named, tuple(static)

    def given(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Given:
        """Takes the arguments of a call apart."""
        dynamic, named, static = self.split(args, kwargs)
        leaves, tree = flatten((dynamic, named))
        arrays = as_arrays(self.what, leaves, (dynamic, named))
        donated = donated_leaves(self.where, self.options, dynamic, named, static, len(leaves))
        types = self.said(tuple([x.type for x in arrays]), dynamic, named)
        return Given(tree, types, static, donated, leaves, arrays)

    def said(
        self, types: tuple[ArrayType, ...], dynamic: tuple[object, ...], named: dict[str, object]
    ) -> tuple[ArrayType, ...]:
        """Returns the arguments' types with what `in_shardings` say of Explicit axes."""
        asked = self.options.shardings
        return types if asked is None else asked.said(dynamic, len(flatten(named)[0]), types)

    def staged(self, given: Given) -> tuple[Trace, Form]:
        """Finds the trace for arguments, staging the function the first time."""
        trace = traced(self.what, self.fun, given.tree, given.types, *adding(given.static), self.traces)
        return trace, self.form(trace, given.donated, given.tree)

    def form(self, trace: Trace, donated: tuple[bool, ...], tree: PyTreeDef) -> Form:
        """Returns what is known of a trace under the options."""
        found, asked = trace.derived.get(self.key), self.options.shardings
        if found is None:
            types = trace.program.in_types[len(trace.captured) :]
            wanted = (
                None
                if asked is None
                else asked.wanted(self.name, tree, types, trace.out_tree, trace.out_types)
            )
            found = trace.derived[self.key] = Form(donated, tree, wanted)
        return cast("Form", found)

    def prepare(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[Trace, Form, list[Array], list[PyTree]]:
        """Finds the trace for arguments, staging the function the first time, and the arguments' arrays."""
        given = self.given(args, kwargs)
        return *self.staged(given), given.arrays, given.leaves

    # Running

    def miss(self, *args: Any, **kwargs: Any) -> tuple[R, FastPath | None, bool]:
        """Stages, compiles and runs; returns what C++ needs to run the next such call itself."""
        refuse_pending(args, kwargs)
        if flags.disable_jit.value:
            given = [x.value if type(x) is Static else x for x in args]
            named = {name: x.value if type(x) is Static else x for name, x in kwargs.items()}
            return cast("Callable[..., R]", self.fun)(*given, **named), None, False
        return self.run(args, kwargs)

    def run(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[R, FastPath | None, bool]:
        """Stages and compiles as far as needed, then computes the result."""
        found: tuple[Given, Question | None, Restored | None, tuple[Trace, Form] | None] | None
        try:
            given = self.given(args, kwargs)
            question = self.question(given)
            restored = None if question is None else self.restored(question, given)
            found = given, question, restored, None if restored is not None else self.staged(given)
        except RefGivenError:
            if not has_refs((args, kwargs)):
                raise
            found = None  # the rest happens outside of the clause, so that its errors stand alone
        if found is None:
            return self.lend(args, kwargs), None, False
        given, question, restored, staged = found
        if restored is not None:
            check_held(self.where, restored.captured, given.donated, given.concrete())
            return self.compute(restored.executable, restored.out_tree, given, None)
        assert staged is not None
        trace, form = staged
        if current_frame() is not None or trace.foreign or not are_optional(trace.program.effects):
            return self.perform(trace, given.arrays, form.wanted), None, False
        concrete = given.concrete()
        check_held(self.where, trace.captured, form.donated, concrete)
        executable = self.executable(trace, form, concrete)
        if question is not None:
            question.keep(trace, executable)
        return self.compute(executable, trace.out_tree, given, trace)

    def compute(
        self, executable: Executable, out_tree: PyTreeDef, given: Given, trace: Trace | None
    ) -> tuple[R, FastPath | None, bool]:
        """Runs what was compiled; `trace` is there to find the operation that gave NaN."""
        concrete = given.concrete()
        # Arguments may be needed again to find the operation that gave NaN: these are freed afterwards.
        consumed = given.donated if debugging() else (False,) * len(concrete)
        check_execution(f"{self.what}: {self.name}")
        settled = executable.takes_as_is(concrete) and not debugging()
        settled = settled and (all([type(x) is ConcreteArray for x in given.leaves]) or reads_scalars())
        if trace is not None and flags.debug_key_reuse.value:
            held = [*trace.captured, *concrete]
            results = ports.random_keys.reuse.watched(trace.program, held, lambda: executable.run(concrete))
        else:
            results = executable.run(concrete)
        if trace is not None and debugging() and (found := not_finite(results)) is not None:
            with isolated():  # to find the operation: this raises
                run_program(trace.program, [*trace.captured, *concrete])
            raise found.error(f"{self.what}: {self.name}")
        for x, gone in zip(concrete, consumed, strict=True):
            if gone:
                x.delete()
        result: R = out_tree.unflatten(results)
        return result, fast_path(executable, result) if settled else None, False

    def lend(self, args: tuple[object, ...], kwargs: dict[str, object], way: Way = "call") -> Any:
        """Calls the function as one of its mutable references' contents, or says what it would return, or stages it."""
        from effx.transforms.refs.ref_arguments import Lending, borrowing  # not loaded before it is needed

        if self.lender is None:
            borrowed = borrowing(self.fun, bool(self.options.donate_argnums or self.options.donate_argnames))
            self.lender = Function(borrowed, self.options, self.what, self.operation).public()
        lending = Lending(self.what, self.name, args, kwargs)
        if way == "trace":
            from effx.transforms.jit.stages import traced_lent

            return traced_lent(lending, self.lender.trace, flatten(self.split(args, kwargs)[:2])[1])
        return lending.to(self.lender if way == "call" else self.lender.eval_shape, writes=way == "call")

    def question(self, given: Given) -> "Question | None":
        """Returns what to ask the cache on disk before staging; None where it is off or the program is here."""
        if flags.cache_dir.value is None or self.what != "jit":
            return None
        from effx.program_cache.lookup import Question, askable  # most processes have no cache on disk

        if not askable():
            return None
        key = key_of(given.tree, given.types, adding(given.static)[0])
        if key in self.traces:
            return None
        concrete = given.concrete()
        if any([is_spread(x) for x in concrete]):
            return None
        o = self.options
        place = placed(self.where, o.device, None, concrete)
        return Question(
            self.fun, self.name, key, given.static, o, place.device, place.committed, o.compiler_options
        )

    def restored(self, question: "Question", given: Given) -> "Restored | None":
        """Returns the program that another process left on disk, which is read once."""
        found = self.key.restored.get(question.here())
        if found is None and (found := question.answer()) is not None:
            self.key.restored[question.here()] = found
        return found

    def perform(self, trace: Trace, arrays: Sequence[Array], wanted: Wanted | None = None) -> R:
        """Performs the program as a call under the current handlers."""
        if wanted is not None:
            arrays = constrained(arrays, wanted.inputs)
        inputs = [*trace.captured, *arrays]
        if self.options.inline:
            results: Sequence[Array] = run_program(trace.program, inputs)
        else:
            results = self.operation(trace.program)(*inputs)
        if wanted is not None:
            results = constrained(results, wanted.outputs)
        result: R = trace.out_tree.unflatten(results)
        return result

    def executable(self, trace: Trace, form: Form, arrays: list[ConcreteArray]) -> Executable:
        """Returns the compiled form for where the arrays lie, compiling it the first time."""
        place = usual_place(arrays)
        if place is not None and (found := form.executables.get((place, debugging()))) is not None:
            return found
        o = self.options
        assignment = placed(self.where, o.device, trace.program, arrays, form.wanted, trace.captured)
        key = (assignment, debugging())
        found = form.executables.get(key)
        if found is None:
            donated = (False,) * len(form.donated) if debugging() else form.donated
            found = form.executables[key] = self.compile(
                trace.program, trace.captured, form.tree, assignment, donated
            )
        form.executables[key if place is None else (place, debugging())] = found
        return found

    def compile(
        self,
        program: Program,
        captured: Sequence[Array],
        tree: PyTreeDef,
        assignment: Assignment,
        donated: tuple[bool, ...],
        options: CompilerOptions = (),
    ) -> Executable:
        """Compiles a program for some devices, with options of XLA's beside those of the function."""
        with isolated():
            constants = [as_concrete(x) for x in captured]
        found = compile_program(
            in_order(program),
            constants,
            assignment,
            donated=donated,
            keep_unused=self.options.keep_unused,
            options=tuple(sorted({**dict(self.options.compiler_options), **dict(options)}.items())),
        )
        if any(donated):
            warn_unused(self.where, self.fun, self.options, tree, found, donated)
        return found

    def fast(
        self, miss: Callable[..., tuple[R, FastPath | None, bool]], settings: tuple[object, ...] = ()
    ) -> Callable[..., R]:
        """Makes a C++ function; those of equal settings share what they have seen."""
        o, key = self.options, (self.key, settings)
        self.key.settings.add(settings)
        return fast_function(self.name, self.fun, miss, o.static_argnums, o.static_argnames, key)

    def public(self) -> Jitted[P, R]:
        """Returns the function that users call: jaxlib's C++ object itself, unless it has more to do.

        It must not be referred to by this object: a cycle would keep dropped functions and their arrays.
        """
        others: dict[tuple[object, ...], Callable[..., R]] = {}

        def miss(*args: P.args, **kwargs: P.kwargs) -> tuple[R, FastPath | None, bool]:
            try:
                refuse_pending(args, kwargs)
                if not presence.anywhere():
                    return self.miss(*args, **kwargs)
                # Some context holds what C++ cannot see; if it is this one, then by a handler or by overrides.
                if ((frame := current_frame()) is not None and frame.opaque) or guarding():
                    return self.miss(*args, **kwargs)[0], None, False
                keyed = (*KEYED, *flags.user_contexts)
                settings = () if flags.overrides() is None else tuple([flag.value for flag in keyed])
                fast = others.get(settings)
                if fast is None:
                    fast = others[settings] = self.fast(self.miss, (True, *settings))
                return fast(*args, **kwargs), None, False
            except Exception as error:
                hide_internal_frames(error)  # of this frame too: a bare raise adds none
                raise

        plain = self.fast(miss)

        def clear_cache() -> None:
            self.traces.clear()
            self.key.restored.clear()
            for settings in list(self.key.settings):
                self.fast(miss, settings)._clear_cache()  # type: ignore[attr-defined]  # of jaxlib's C++ functions

        public: Any = self.guard(plain) if self.options.needs_guard else plain
        update_wrapper(public, self.fun)
        public.trace, public.lower, public.eval_shape = self.trace, self.lower, self.eval_shape
        public.clear_cache = clear_cache
        if public is not plain:
            plain.trace = self.trace  # type: ignore[attr-defined]  # of jaxlib's C++ functions: by it `reduced` knows it
            # C++'s own bound method does not pickle.
            public._cache_size = lambda: plain._cache_size()  # type: ignore[attr-defined]  # of jaxlib's C++ functions
        return cast("Jitted[P, R]", public)

    def explain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raises an error that says what C++ does not: which array is gone or donated twice."""
        trace, form, arrays, _ = self.prepare(args, kwargs)
        concrete = [as_concrete(x) for x in arrays]
        check_held(self.where, trace.captured, form.donated, concrete)
        check_once(self.where, self.executable(trace, form, concrete).kept, form.donated, concrete)

    def guard(self, call: Callable[..., R]) -> Callable[P, R]:
        """Wraps the function where C++ alone would leave users with puzzles."""
        o = self.options
        donates = bool(o.donate_argnums or o.donate_argnames)
        places = Places(o)

        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            given: Sequence[object] = args
            named: dict[str, object] = kwargs
            static, gone = places[len(args)]
            try:
                if static:
                    given = list(args)
                    for i in static:
                        given[i] = exactly(args[i])
                if kwargs and o.static_argnames:
                    named = {k: exactly(x) if k in o.static_argnames else x for k, x in kwargs.items()}
            except TypeError:
                self.split(args, kwargs)  # an unhashable static argument: say which
                raise
            try:
                result = call(*given, **named)
            except Exception as error:
                if isinstance(error, ValueError | BackendError) and "INVALID_ARGUMENT" in str(error):
                    self.explain(args, kwargs)
                hide_internal_frames(error)  # of this frame too: a bare raise adds none
                raise
            if donates:
                rest = [kwargs.get(name) for name in o.donate_argnames]
                bury(flatten([*[args[i] for i in gone], *rest])[0])
            return result

        return guarded

    # Looking inside

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Stages the function for arguments, or for things with their shapes and dtypes."""
        if has_refs((args, kwargs)):
            return cast("Traced", self.lend(args, kwargs, "trace"))
        dynamic, named, static = self.split(args, kwargs)
        leaves, tree = flatten((dynamic, named))
        types = self.said(tuple([abstract(self.what, x) for x in leaves]), dynamic, named)
        with isolated():
            trace = traced(self.what, self.fun, tree, types, *adding(static), self.traces)
            donated = donated_leaves(self.where, self.options, dynamic, named, static, len(types))
            form = self.form(trace, donated, tree)
        device = self.options.device
        wanted = lying(leaves, form.wanted)
        signature = Signature(self.name, tree, trace.out_tree, types, trace.out_types, form.donated)
        return Traced(
            signature,
            trace.program,
            trace.captured,
            lambda program, captured, where: planned(
                self.name, program, captured, wanted, where, device is not None
            ),
            lambda program, captured, assignment, options: self.compile(
                program, captured, tree, assignment, form.donated, options
            ),
            device,
        )

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Stages and lowers to StableHLO."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Returns shapes and dtypes of the result without computing."""
        if has_refs((args, kwargs)):
            return self.lend(args, kwargs, "shapes")
        return self.trace(*args, **kwargs).out_info


copyreg.pickle(type(fast_function("f", counted, lambda: ((), None, False))), reduced)  # type: ignore[arg-type]  # wants Any
