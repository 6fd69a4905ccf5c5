"""Operations as effects: `perform`, `Handler`, the handler stack, and rule tables.

A numerical function performs operations; the innermost interested handler of an
operation gives it its meaning and runs in the context of the next handler outward. A handler is
interested when one of the operands is a box of its frame, when it handles an effect that the
operation carries (such as an axis name), or when it intercepts everything.

Operations, frames, the stack and rule tables are one file, since they refer to each other and `perform` reads
all of them.

Never: depend on arrays, or import anything but `effx.errors`, `effx.caching` and `effx.presence`.
"""

import copyreg
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ClassVar, Generic, TypeVar, cast, final
from weakref import WeakSet

import attrs

from effx import presence
from effx.caching import clear_caches, exact_key, make_comparison_strict
from effx.errors import EffxError, NoRuleError, Source, TransformError, hide_internal_frames
from effx.ports import array_methods, evaluation

__all__ = [
    "Frame",
    "Handler",
    "Label",
    "Operation",
    "RuleTable",
    "Value",
    "decomposes",
    "describe_stack",
    "forward",
    "handle",
    "perform",
    "scope_within",
    "transformed_scope",
    "user_scope",
]

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
F = TypeVar("F")
X = TypeVar("X")


class Effect:
    """A requirement of an operation on its surroundings; hashable, and compared by value.

    Attributes:
        optional: True if a program runs without a handler of it.
        lowerable: True if XLA compiles programs with the unhandled effect.
        ordered: True if occurrences happen in program order.
        droppable: False if each occurrence counts: passes neither remove nor merge operations that carry it.
        axis: the name of the axis that a handler must bind; None for other effects.
        advice: the advice in the error for an unhandled effect.
        carry_out: performs operations with it, if it is on an object of a frame; None for others.

    >>> import attrs
    >>> from effx.handling import Effect
    >>> @attrs.frozen
    ... class Writes(Effect):
    ...     file: str
    >>> effect = Writes("log")
    >>> effect == Writes("log"), effect.ordered, effect.droppable
    (True, True, False)
    """

    __slots__ = ()
    carry_out: "ClassVar[Callable[..., Any] | None]" = None

    @property
    def optional(self) -> bool:
        """Whether a program runs without a handler of it."""
        return False

    @property
    def lowerable(self) -> bool:
        """Whether XLA compiles programs with the unhandled effect: those that run without a handler."""
        return self.optional

    @property
    def ordered(self) -> bool:
        """Whether occurrences happen in program order."""
        return True

    @property
    def droppable(self) -> bool:
        """Whether an unused occurrence may be dropped; ordered ones may not."""
        return not self.ordered

    @property
    def axis(self) -> Hashable:
        """The name of the axis that a handler must bind."""
        return None

    @property
    def advice(self) -> str:
        """The advice in the error for an unhandled effect."""
        return ""


NO_EFFECTS: frozenset[Effect] = frozenset()


# A label stands in the effect row of an operation, and so of programs: it crosses jit as an axis name does,
# and a handler of it inlines the call.
@final
@attrs.frozen
class Label(Effect):
    """An effect of a user's operation: a handler that names it handles the operation.

    Attributes:
        name: the effect's name.
        optional: True if an operation needs no handler; it then runs by its decomposition.
        ordered: False if each occurrence counts, but not their order.

    >>> import attrs, effx
    >>> from effx.handling import ArrayOperation, InterceptHandler, Label, array_type
    >>> TIME = Label("time")
    >>> @attrs.frozen
    ... class Now(ArrayOperation):
    ...     effects = frozenset({TIME})
    ...     def infer(self, *types): return array_type(effx.dtypes.float32)
    >>> @attrs.frozen
    ... class Clock(InterceptHandler[None]):
    ...     time: float
    ...     handles = frozenset({TIME})
    >>> _ = Clock.rule(Now)(lambda site, op: effx.numpy.float32(site.handler.time))
    >>> print(Clock(7.0).run(effx.jit(lambda: Now()() + 1.0)))
    8.0
    """

    name: str = attrs.field(validator=attrs.validators.instance_of(str))
    optional: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))
    ordered: bool = attrs.field(default=True, validator=attrs.validators.instance_of(bool), repr=False)

    @property
    def droppable(self) -> bool:
        """False: each occurrence of a user's effect counts."""
        return False


def all_optional(row: frozenset[Effect]) -> bool:
    """Returns whether a program with this effect row runs without a handler."""
    return not row or all([e.optional for e in row])


def must_happen(row: frozenset[Effect]) -> bool:
    """Returns whether each occurrence of an operation with these effects counts."""
    return bool(row) and not all([e.droppable for e in row])


class Value:
    """Base of everything that can be an operand.

    Attributes:
        frame: the handler frame that the value belongs to; None for a plain value.
    """

    __slots__ = ()
    frame: "Frame | None"


class Operation(Generic[R_co]):
    """An effect: an immutable, hashable object with typed static parameters.

    Calling an operation performs it on the operands. Classes without parameters have one instance
    only. `R_co` is its result: an array, or a tuple of arrays.

    >>> import effx.numpy as enp
    >>> from effx.handling.ops import Mul, Transpose
    >>> print(Mul()(enp.array([1.0, 2.0]), 3.0))
    [3. 6.]
    >>> Transpose((1, 0))(enp.ones((2, 3))).shape
    (3, 2)
    >>> Mul() is Mul(), Transpose((1, 0)) == Transpose((1, 0))
    (True, True)
    """

    __slots__ = ()
    name: ClassVar[str] = ""
    multiple: ClassVar[bool] = False  # True if the result is a tuple
    # The operation's effects; a property if they depend on its parameters.
    effects: frozenset[Effect] = NO_EFFECTS

    def __call__(self, *operands: Value) -> R_co:
        """Performs the operation under the current handler. Numbers and NumPy arrays are operands too, of their own dtypes.

        Raises:
            DTypeError: an operand is neither an array nor converts to one.
        """
        for x in operands:
            if not isinstance(x, Value):
                to_array = array_methods.promotion.as_operand  # type: ignore[unreachable]  # subclasses allow numbers
                operands = tuple([y if isinstance(y, Value) else to_array(y, self.name) for y in operands])
                break
        return perform(self, operands)

    def decompose(self, *operands: Value) -> R_co:
        """Expresses the operation by others; a class that can do so overrides this, or uses `decomposes`."""
        rule = decompositions.find(type(self))
        if rule is None:
            raise NoRuleError(f"{self.name}: has no decomposition")
        return cast("R_co", rule(self, *operands))

    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        if "name" not in cls.__dict__:
            cls.name = "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")
        effects = cls.__dict__.get("effects")
        if isinstance(effects, list | tuple | set | str | Effect) or (
            isinstance(effects, frozenset) and not all([isinstance(e, Effect) for e in effects])
        ):
            raise TransformError(f"{cls.name}: effects must be a frozenset of labels, got {effects!r}")

    @classmethod
    def __attrs_init_subclass__(cls) -> None:
        # Kernels and programs are found by operations, and 0.0 == -0.0. The operations of the IR have no
        # such parameters: their validators admit one type each.
        if not cls.__module__.startswith("effx.ir."):
            make_comparison_strict(cls)

    @classmethod
    def can_decompose(cls) -> bool:
        """Returns whether the class has a decomposition."""
        return cls.decompose is not Operation.decompose or decompositions.find(cls) is not None


class Handler:
    """Gives operations a meaning. A subclass is a frozen, hashable value, so that it can key caches.

    Attributes:
        intercepts: True for a handler that sees every operation, not only those on its own boxes.
        watches: True for a handler of optional effects, which compiled functions would hide from it.
        owns_boxes: False for a handler whose frame never owns a value.
        only_records: True for a handler that only records operations and performs none. It stays the current handler
            meanwhile, which saves a tenth of the recording time.

    >>> import attrs, effx.numpy as enp
    >>> from effx.handling import Handler, forward, handle
    >>> @attrs.frozen
    ... class Show(Handler):
    ...     intercepts = True
    ...     def handle(self, frame, op, operands):
    ...         print(op.name)
    ...         return forward(op, operands)
    >>> with handle(Show()):
    ...     y = enp.sin(0.0) + 1.0
    sin
    add
    """

    __slots__ = ()
    intercepts: ClassVar[bool] = False
    only_records: ClassVar[bool] = False
    owns_boxes: ClassVar[bool] = True
    watches: ClassVar[bool] = False
    name: ClassVar[str] = ""

    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        if "name" not in cls.__dict__:
            cls.name = "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")

    @classmethod
    def __attrs_init_subclass__(cls) -> None:
        make_comparison_strict(cls)

    def handle(self, frame: "Frame", op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Interprets `op`, with the next handler outward as the current one."""
        raise NoRuleError(f"{op.name}: the handler {self.describe()} does not say how to handle operations")

    def takes(self, effects: frozenset[Effect]) -> bool:
        """Returns whether the handler handles one of these effects."""
        return False

    def axes(self) -> "tuple[tuple[Hashable, int], ...]":
        """Returns names and sizes of the axes that the handler binds for collectives."""
        return ()

    def cache_key(self) -> Hashable:
        """Returns what programs that were staged under the handler are kept by: the handler, which is a value.

        Of one that compares by identity, as a class without `attrs.frozen` does, it has the attributes too, so that a
        handler which has been changed does not get what it was before.
        """
        if type(self).__hash__ is not object.__hash__:
            return self
        slots = [slot for cls in type(self).__mro__ for slot in getattr(cls, "__slots__", ())]
        names = [*slots, *getattr(self, "__dict__", {})]
        return self, tuple([(name, exact_key(getattr(self, name))) for name in names if hasattr(self, name)])

    def describe(self) -> str:
        """Returns the handler's name with its parameters, for the `in` line of errors."""
        return self.name

    def made_at(self, frame: "Frame", payload: object) -> Source:
        """Returns the source location that made a value of the frame, for errors; None if unknown."""
        return None

    def takes_static_arguments(self) -> bool:
        """Returns whether the transformation has static arguments, for errors."""
        return False


class Frame:
    """One installed handler: a link of the handler stack.

    Attributes:
        handler: the handler that interprets operations.
        outer: the next frame outward.
        live: False once the handler's scope has ended; its boxes are then invalid.
        opaque: True if this frame or an outer one intercepts or watches: compiled functions must not run past it.
        origin: the function and line under which it was installed, for errors.
        state: the handler's state while it is installed.
        collected: the values that the handler has collected.
        memory: the handler's Python data while it is installed; programs do not carry it.

    >>> from effx.handling import Reference, handle
    >>> with handle(Reference()) as outer, handle(Reference()) as frame:
    ...     print(frame.handler, frame.outer is outer, frame.live)
    Reference() True True
    >>> frame.live
    False
    """

    __slots__ = (
        "_collected",
        "_lift_types",
        "_memory",
        "handler",
        "intercepts",
        "live",
        "opaque",
        "origin",
        "outer",
        "state",
    )

    def __init__(self, handler: Handler, outer: "Frame | None", origin: str = "") -> None:
        self.handler = handler
        self.outer = outer
        self.intercepts = handler.intercepts
        self.live = True
        self.opaque: bool = handler.intercepts or handler.watches or (outer is not None and outer.opaque)
        self.origin = origin
        self.state: object = None
        # Made on first use: a frame is made for each eager derivative.
        self._collected: dict[str, object] | None = None
        self._memory: dict[Hashable, object] | None = None
        self._lift_types: dict[Hashable, object] | None = None

    @property
    def collected(self) -> dict[str, object]:
        """The collected values by name."""
        if self._collected is None:
            self._collected = {}
        return self._collected

    @collected.setter
    def collected(self, values: dict[str, object]) -> None:
        self._collected = values

    @property
    def memory(self) -> dict[Hashable, object]:
        """The handler's Python data, by any key."""
        if self._memory is None:
            self._memory = {}
        return self._memory

    @property
    def lift_types(self) -> dict[Hashable, object]:
        """What payloads of plain values look like, by the values' types."""
        if self._lift_types is None:
            self._lift_types = {}
        return self._lift_types

    @property
    def main(self) -> "Frame":
        """The frame itself, by which JAX's libraries compare traces."""
        return self

    def outward(self) -> Iterator["Frame"]:
        """Yields this frame and the outer ones, innermost first."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.outer


_current: ContextVar[Frame | None] = ContextVar("effx_handlers", default=None)
current_frame = _current.get
# The names of the surrounding `named_scope`s, joined by "/"; recorded with each operation.
current_scope: ContextVar[str] = ContextVar("effx_scope", default="")
# The name stack around a program that is staged again under a handler; recorded with the operation that holds it.
surrounding_scope: ContextVar[str] = ContextVar("effx_scope_around", default="")
# A cell for True if the restaged program depends on `surrounding_scope`.
scope_read_flag: ContextVar[list[bool] | None] = ContextVar("effx_scope_asked", default=None)
# By name: a function that is pickled by value, as cloudpickle does with those of a session, brings what it reads.
_Variable = ContextVar[Frame | None] | ContextVar[str] | ContextVar[list[bool] | None]
_variables: dict[str, _Variable] = {
    v.name: v for v in (_current, current_scope, surrounding_scope, scope_read_flag)
}


def _variable_by_name(name: str) -> _Variable:
    return _variables[name]


def _reduce_variable(variable: ContextVar[object]) -> tuple[Callable[[str], _Variable], tuple[str]]:
    if _variables.get(variable.name) is not variable:
        raise TypeError(f"cannot pickle {type(variable).__qualname__!r} object")
    return _variable_by_name, (variable.name,)


copyreg.pickle(ContextVar, _reduce_variable)


def scope_within(outer: str, scope: str) -> str:
    """Joins the path of an outer and an inner scope; either may be empty."""
    return f"{outer}/{scope}" if outer and scope else outer or scope


# The names of a stack that stand for a transformation of what is performed further in; `user_scope` drops them.
_TRANSFORMATIONS = frozenset({"jvp(", "transpose(", "vmap("})


def call_in_transformation(name: str, function: Callable[[X], R], argument: X) -> R:
    """Calls a function with a transformation in the name stack of what it performs: "jvp", "transpose" or "vmap"."""
    outer = current_scope.get()
    try:
        # Set inside the try: an interrupt may come after any call.
        current_scope.set(f"{outer}/{name}(" if outer else f"{name}(")
        return function(argument)
    finally:
        current_scope.set(outer)


def user_scope(scope: str) -> str:
    """Returns the names of a stack that are the user's.

    >>> user_scope("layer/vmap(/jvp(/attention")
    'layer/attention'
    """
    if "(" not in scope:
        return scope
    return "/".join([name for name in scope.split("/") if name not in _TRANSFORMATIONS])


def scope_transformations(scope: str) -> tuple[str, ...]:
    """Returns the transformations in a name stack, outermost first.

    >>> scope_transformations("layer/transpose(/jvp(/attention")
    ('transpose', 'jvp')
    """
    return tuple([name[:-1] for name in scope.split("/") if name in _TRANSFORMATIONS])


def transformed_scope(scope: str) -> str:
    """Returns a name stack in which each transformation is around the next of the user's names.

    >>> transformed_scope("layer/vmap(/jvp(/attention/dot")
    'layer/vmap(jvp(attention))/dot'
    >>> transformed_scope("layer/jvp(")
    'layer/jvp()'
    """
    if "(" not in scope:
        return scope
    parts: list[str] = []
    pending: list[str] = []
    for name in scope.split("/"):
        if name in _TRANSFORMATIONS:
            pending.append(name)
        else:
            parts.append(f"{''.join(pending)}{name}{')' * len(pending)}")
            pending = []
    if pending:
        parts.append(f"{''.join(pending)}{')' * len(pending)}")
    return "/".join(parts)


def full_scope() -> str:
    """Returns the current name stack, including that around the program that is being staged again."""
    was_read = scope_read_flag.get()
    if was_read is not None:
        was_read[0] = True
    return scope_within(surrounding_scope.get(), current_scope.get())


class _UnloadedOutermost(Handler):
    """The outermost handler until something is performed, so that no import has to wait for XLA."""

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        set_outermost(evaluation.outermost.handler())
        return outermost.handler.handle(outermost, op, operands)


# The outermost frame of all stacks.
outermost = Frame(_UnloadedOutermost(), None)


def set_outermost(handler: Handler) -> None:
    """Sets the handler of operations that no other handler takes."""
    outermost.handler = handler


def perform(op: Operation[R], operands: tuple[Value, ...]) -> R:
    """Performs `op` on `operands` under the innermost handler that takes it.

    Raises:
        EffxError: whatever the handlers report; the error names the handler stack.

    >>> import effx.numpy as enp
    >>> from effx.handling import perform
    >>> from effx.handling.ops import Add
    >>> print(perform(Add(), (enp.array(1.0), enp.array(2.0))))
    3.0
    """
    frame = entry_frame = _current.get()
    if frame is None:
        return outermost.handler.handle(outermost, op, operands)
    effects = op.effects
    if not frame.opaque and not effects and not op.multiple:
        for operand in operands:
            if operand.frame is not None:
                break
        else:
            # No handler is interested. XLA performs no operations, so it may run with this frame as the current one.
            return outermost.handler.handle(outermost, op, operands)
    if effects:
        for effect in effects:
            if effect.carry_out is not None:
                return cast("R", effect.carry_out(op, operands))
    while frame is not None:
        if frame.intercepts:
            break
        for operand in operands:
            if operand.frame is frame:
                break
        else:
            if effects and frame.handler.takes(effects):
                break
            frame = frame.outer
            continue
        break
    if frame is None:
        frame = outermost
    # Set inside the try, and restored by value: an interrupt may come after any call.
    try:
        if not (frame.intercepts and frame.handler.only_records):
            _current.set(frame.outer)
        return frame.handler.handle(frame, op, operands)
    except EffxError as error:
        # The performs nearer to the user run this later, so the last one wins: the whole stack.
        error.handlers = describe_stack(entry_frame)
        raise
    finally:
        if _current.get() is not entry_frame:
            _current.set(entry_frame)


def forward(op: Operation[R], operands: tuple[Value, ...]) -> R:
    """Passes an operation on to the outer handler unchanged; for use inside `Handler.handle`.

    >>> import attrs, effx.numpy as enp
    >>> from effx.handling import Handler, forward, handle
    >>> from effx.handling.ops import Cos, Sin
    >>> @attrs.frozen
    ... class CosForSin(Handler):
    ...     intercepts = True
    ...     def handle(self, frame, op, operands):
    ...         return forward(Cos() if op is Sin() else op, operands)
    >>> with handle(CosForSin()):
    ...     print(enp.sin(0.0))
    1.0
    """
    return perform(op, operands)


def describe_stack(frame: Frame | None) -> str:
    """Describes a handler stack from the outermost frame to the innermost: `jit > jvp`."""
    if frame is None:
        return ""
    # Internal handlers have an empty description.
    return " > ".join(
        reversed([description for f in frame.outward() if (description := f.handler.describe())])
    )


def axes_in_scope() -> tuple[tuple[Hashable, int], ...]:
    """Returns names and sizes of the axes that the current handlers bind, innermost first."""
    frame = _current.get()
    return () if frame is None else tuple([axis for f in frame.outward() for axis in f.handler.axes()])


def is_in_scope(frame: Frame | None) -> bool:
    """Returns whether values of `frame` may be used now: None, or a frame of the current stack."""
    if frame is None:
        return True
    current = _current.get()
    while current is not None:
        if current is frame:
            return True
        current = current.outer
    return False


class handle:
    """Installs a handler for a `with` block, and returns its frame.

    The frames installed before it are its outer frames. Thread- and
    asyncio-safe: the stack lives in a context variable. It is entered once.

    Raises:
        TransformError: it is entered again; its boxes have been invalid since it was left.

    >>> import effx.numpy as enp
    >>> from effx.handling import Reference, handle
    >>> with handle(Reference()):            # NumPy computes
    ...     print(enp.array([1.0, 2.0]) * 3.0)
    [3. 6.]
    """

    __slots__ = ("frame",)

    def __init__(self, handler: Handler, origin: str = "") -> None:
        self.frame = Frame(handler, _current.get(), origin)

    def __enter__(self) -> Frame:
        if not self.frame.live:
            raise TransformError(
                f"handle: {self.frame.handler.describe()} was left already; enter a new handle of it"
            )
        try:
            self.__class__ = _EnteredHandle
            if self.frame.opaque:
                presence.add_key(self.frame)
            _current.set(self.frame)
        except BaseException:
            self._leave()
            raise
        return self.frame

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._leave()
        except KeyboardInterrupt:
            self._leave()
            raise
        if error is not None:
            if isinstance(error, EffxError) and not error.handlers:
                error.handlers = describe_stack(self.frame)  # raised outside of any operation
            hide_internal_frames(error)

    def _leave(self) -> None:
        frame = self.frame
        if frame.opaque:
            presence.discard_key(frame)
        # Only now: what comes before may fail at the recursion limit, and the finaliser leaves a frame that is still live.
        frame.live = False
        current = _current.get()
        if current is frame:
            # Frames that were left while this one was inside are dead already.
            outer = frame.outer
            while outer is not None and not outer.live:
                outer = outer.outer
            _current.set(outer)
        else:
            # Left while others are inside, as generators do: taken out from between them.
            while current is not None:
                if current.outer is frame:
                    current.outer = frame.outer
                current = current.outer
        self.__class__ = handle


class _EnteredHandle(handle):
    """A handle within its block: an interrupt can come before `__exit__` has begun.

    The finaliser is not `handle`'s, since Python drops an interrupt that comes while a finaliser runs.
    """

    __slots__ = ()

    def __del__(self) -> None:
        if self.frame.live:
            self._leave()


class use_frame:
    """Makes a frame the current one in a `with` block; None for no handlers.

    For a handler that expresses an operation by others, which it handles itself, and for code that must run
    with another frame innermost.
    """

    __slots__ = ("frame", "previous")

    def __init__(self, frame: Frame | None) -> None:
        self.frame = frame
        self.previous = _current.get()

    def __enter__(self) -> None:
        try:
            _current.set(self.frame)
        except BaseException:
            _current.set(self.previous)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _current.set(self.previous)


class isolated(use_frame):
    """Removes all handlers in a `with` block, so that its operations run on XLA alone.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling import isolated
    >>> @effx.jit
    ... def f(x):
    ...     with isolated():
    ...         weights = enp.arange(3.0) + 1.0
    ...         print(weights)               # numbers, also while f is staged
    ...     return x * weights
    >>> print(f(2.0))
    [1. 2. 3.]
    [2. 4. 6.]
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)


O = TypeVar("O", bound=Operation[object])  # noqa: E741 - the literature's name


@attrs.frozen
class DeclaredRule(Generic[F]):
    """A rule of the operations whose classes declare an attribute.

    Attributes:
        trait: the operations; what it has itself is no declaration.
        attribute: the attribute's name.
        where: says of an operation class whether the rule is for it.
        rule: reads the attribute.
    """

    trait: type[Operation[object]]
    attribute: str
    where: Callable[[type[Operation[object]]], bool]
    rule: F

    def applies(self, kind: type[Operation[object]], base: type) -> bool:
        """Says whether the rule holds for an operation class because this class in its lineage declares the attribute."""
        if not issubclass(kind, self.trait) or issubclass(self.trait, base):
            return False
        value = vars(base).get(self.attribute)
        # A field of that name, which attrs makes a slot, is neither.
        return (callable(value) or (isinstance(value, str) and value != "")) and self.where(kind)


class ResolvedRules(dict[type[Operation[object]], F | None]):
    """A cache of a table's rules by operation class; a missing one is looked up."""

    __slots__ = ("resolve",)

    def __init__(self, resolve: Callable[[type[Operation[object]]], F | None]) -> None:
        self.resolve = resolve

    def __missing__(self, kind: type[Operation[object]]) -> F | None:
        rule = self[kind] = self.resolve(kind)
        return rule


def check_rule(what: str, rule: object, kinds: Iterable[object]) -> None:
    """Checks a rule that is being registered.

    Args:
        what: whose rule it is, for the error.
        rule: must be a function.
        kinds: what the rule is for.

    Raises:
        TransformError: it is none.
    """
    if not callable(rule):
        names = ", ".join([getattr(kind, "__name__", repr(kind)) for kind in kinds])
        raise TransformError(
            f"{what}: the rule for {names} must be a function, got {rule!r} of type {type(rule).__name__}"
        )


class RuleTable(Generic[F]):
    """The rules of one handler class: found by operation class, base class or trait in O(1).

    A look-up goes through the operation's method resolution order once and is then cached. A
    handler that extends another starts from its rules.

    Attributes:
        find: returns the rule for an operation class, or None.
    """

    __slots__ = (
        "__weakref__",
        "_base",
        "_children",
        "_declared",
        "_registered",
        "_resolved",
        "_used",
        "find",
        "owner",
    )

    def __init__(self, owner: str, base: "RuleTable[F] | None" = None) -> None:
        self.owner = owner
        self._registered: dict[type[Operation[object]], F] = {}
        self._declared: list[DeclaredRule[F]] = []
        self._resolved: ResolvedRules[F] = ResolvedRules(self._resolve)
        # Operations that were looked up since programs were forgotten, but for those that are resolved now.
        self._used: set[type[Operation[object]]] = set()
        # Called for each handled operation: a method in C.
        self.find: Callable[[type[Operation[object]]], F | None] = self._resolved.__getitem__
        self._base = base
        # Weak, so that a handler class that is defined again, as in a notebook, ends.
        self._children: WeakSet[RuleTable[F]] = WeakSet()
        if base is not None:
            base._children.add(self)

    def register(self, *kinds: type[Operation[object]]) -> Callable[[F], F]:
        """Registers the decorated function for operation classes, base classes or traits.

        Registering one class twice in a table replaces the earlier rule. What was staged before with another rule, or
        without one, is staged again.
        """

        def register(rule: F) -> F:
            for kind in kinds:
                self._registered[kind] = rule
            self._clear_resolved()
            self.forget_staged_uses(*kinds)
            return rule

        return register

    def register_function(self, *kinds: type[Operation[object]]) -> Callable[[F], F]:
        """Registers the decorated function as `register` does.

        Raises:
            TransformError: what is decorated is no function.
        """

        def register(rule: F) -> F:
            check_rule(self.owner, rule, kinds)
            return self.register(*kinds)(rule)

        return register

    def register_declared(
        self, trait: type[O], attribute: str, where: Callable[[type[O]], bool] = lambda kind: True
    ) -> Callable[[F], F]:
        """Registers the decorated function for operations whose classes declare an attribute.

        The rule stands at the class that declares it. So a rule that is registered for that class, or for a subclass,
        comes before, and one for its bases and traits behind. Of several such rules the first one holds.

        Args:
            trait: the operations; what it has itself is no declaration.
            attribute: the name of a function, or of a text that is not empty.
            where: says for which of them the rule is.
        """

        def register(rule: F) -> F:
            condition = cast("Callable[[type[Operation[object]]], bool]", where)
            self._declared.append(DeclaredRule(trait, attribute, condition, rule))
            self._clear_resolved()
            return rule

        return register

    def own_rules(self) -> dict[type[Operation[object]], F]:
        """Returns the rules of this table alone."""
        return dict(self._registered)

    def declared_rules(self) -> list[DeclaredRule[F]]:
        """Returns the rules of this table that read what classes declare."""
        return list(self._declared)

    def forget_staged_uses(self, *kinds: type[Operation[object]]) -> None:
        """Has everything staged again if a rule has been looked up for an operation of these kinds."""
        if self._was_used(kinds):
            self._forget_uses()
            forget_staged_programs()

    def _was_used(self, kinds: tuple[type[Operation[object]], ...]) -> bool:
        return any([issubclass(kind, kinds) for kind in (*self._used, *self._resolved)]) or any(
            [child._was_used(kinds) for child in self._children]
        )

    def _forget_uses(self) -> None:
        self._clear_resolved()
        self._used.clear()
        for child in self._children:
            child._forget_uses()

    def _clear_resolved(self) -> None:
        self._used.update(self._resolved)
        self._resolved.clear()
        for child in self._children:
            child._clear_resolved()

    def _resolve(self, kind: type[Operation[object]]) -> F | None:
        entry = self._find_with_origin(kind)
        return None if entry is None else entry[1]

    def _find_with_origin(self, kind: type[Operation[object]]) -> tuple[type[Operation[object]], F] | None:
        # The most specific class wins; between a table and its base, the table itself.
        for base in self.lineage(kind):
            table: RuleTable[F] | None = self
            while table is not None:
                if base in table._registered:
                    return base, table._registered[base]
                for declared in table._declared:
                    if declared.applies(kind, base):
                        return base, declared.rule
                table = table._base
        return None

    def lineage(self, kind: type[Operation[object]]) -> tuple[type, ...]:
        """Returns the classes whose rules apply to an operation class, most specific first."""
        return kind.__mro__

    def origin(self, kind: type[Operation[object]]) -> type[Operation[object]] | None:
        """Returns the class or trait whose rule applies to `kind`; None if there is none."""
        entry = self._find_with_origin(kind)
        return None if entry is None else entry[0]


# How often rules have changed of operations that had been handled: part of the keys under which programs keep what was
# made of them.
rules_version = [0]


def forget_staged_programs() -> None:
    """Has everything staged and compiled again, since a rule has changed of operations that had been handled."""
    rules_version[0] += 1
    clear_caches()


# Decompositions of operations whose classes do not define `decompose`.
decompositions: "RuleTable[Callable[..., object]]" = RuleTable("decompose")


def decomposes(*kinds: type[Operation[R]]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Registers a decomposition `(op, *operands) -> result` of operation classes.

    >>> import effx
    >>> from effx.handling import Unary, decomposes
    >>> class Cube(Unary):
    ...     __slots__ = ()
    ...     kinds = "f"
    >>> @decomposes(Cube)
    ... def _(op, x): return x * x * x
    >>> print(effx.grad(Cube())(2.0))
    12.0
    """
    return decompositions.register_function(*kinds)  # type: ignore[return-value]  # the table holds rules of all operations


def no_rule_error(op: Operation[R], handler: Handler) -> NoRuleError:
    """Returns the error for an operation that a handler cannot interpret."""
    is_forwarding = getattr(handler, "default", None) == "forward"
    return NoRuleError(
        f"{op.name}: the handler {handler.describe()} has no rule for this operation, "
        f"and the operation does not decompose into others"
        + ("; write a rule, or use default = 'drop', which drops payloads" if is_forwarding else "")
    )


def __dir__() -> list[str]:
    return sorted(__all__)
