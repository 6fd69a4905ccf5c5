"""The base of users' handlers: rules by operation class or trait, rules for named functions, state and result."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, Literal, Protocol, cast, get_args

from typing_extensions import TypeVar

from effx.array import Array
from effx.effects import Effect, Frame, Label, Operation, RuleTable, check_rule, handle
from effx.errors import NoRuleError, TransformError, explain_rule_error
from effx.handlers.authoring.step_through import step_through
from effx.handlers.recursion import PayloadHandler
from effx.handlers.recursion.marks import is_mark, mark_payloads
from effx.handlers.recursion.payloads import Rule
from effx.ir.ops.base import ArrayOperation, Binary, Elementwise, TupleOperation, Unary
from effx.ir.ops.collective import Collective
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.custom import CustomCall, CustomRules, NamedCall
from effx.tree.registry import PyTree, register_declared

R = TypeVar("R")
S = TypeVar("S", default=None)
Out_co = TypeVar("Out_co", covariant=True)

Default = Literal["error", "forward", "drop", "derive"]
"""What happens to an operation without a rule: an error that names it; the operation on the plain values, where no payload
is lost because the results are integers or bools, and else an error; the operation on the plain values, whatever is lost;
or the operation expressed by others, which are handled in turn."""


F = TypeVar("F")
# General bases of nearly all operations: a rule for one of these comes after rules for traits.
GENERAL_BASES: frozenset[type] = frozenset(
    {Unary, Binary, Elementwise, ArrayOperation, TupleOperation, Operation, object}
)


class HandlerRules(RuleTable[F]):
    """A table of users' rules: by class, family and trait, before the general bases of operations.

    Operations that hold programs use only rules registered for them or for `HigherOrder`, so that a rule for all
    operations leaves control flow to the framework.
    """

    __slots__ = ()

    def lineage(self, kind: type[Operation[object]]) -> tuple[type, ...]:
        """Returns the classes down to HigherOrder for a higher-order operation; else traits before the general bases."""
        if issubclass(kind, HigherOrder):
            return kind.__mro__[: kind.__mro__.index(HigherOrder) + 1]
        # `Exp` is `Unary` and `Monotone`: a handler with rules for both means the trait.
        return tuple(sorted(kind.__mro__, key=GENERAL_BASES.__contains__))


class PayloadRules(HandlerRules[F]):
    """The table of a handler with payloads. Collectives use rules for classes and traits only: a rule for all operations
    knows nothing of devices, and leaves payloads where they are while the values are sent.
    """

    __slots__ = ()

    def lineage(self, kind: type[Operation[object]]) -> tuple[type, ...]:
        """Returns the classes whose rules apply, without the general bases for a collective."""
        bases = super().lineage(kind)
        return (
            tuple([base for base in bases if base not in GENERAL_BASES])
            if issubclass(kind, Collective)
            else bases
        )


class NamedFunction:
    """The base of `named_function`: a function that handlers may have rules for."""

    __slots__ = ()


def check_classes(what: str, kinds: Iterable[object]) -> None:
    """Checks the classes that rules are registered for.

    Raises:
        TransformError: there are no classes, or something is no operation class.
    """
    kinds = tuple(kinds)
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, Operation):
            raise TransformError(f"{what}: rules are for classes of operations or traits, got {kind!r}")
    if not kinds:
        raise TransformError(f"{what}: a rule needs the classes of operations that it is for")


class ReturnClause(Protocol[Out_co]):
    """What a handler returns, if its `returns` says so: then a type checker knows the type of what `run` returns."""

    def returns(self, result: PyTree, frame: Frame, /) -> Out_co:
        """Converts the function's result to the result of `run`."""
        ...


class RuledHandler(PayloadHandler, Generic[S]):
    """A handler with a table of rules. Subclass `BoxHandler` or `InterceptHandler`.

    Attributes:
        default: what happens to an operation without a rule.
        handles: the effects that the handler handles, wherever an operation that carries one is performed; a
            property if it depends on the handler's parameters.
        steps: True to run the programs that operations hold step by step, instead of staging them again, so that
            rules see values as they are computed.
    """

    default: ClassVar[Default] = "error"
    handles: ClassVar[frozenset[Label]] = frozenset()
    steps: ClassVar[bool] = False
    # Of pairs: a rule, and whether it is given the site.
    rules: ClassVar["RuleTable[Rule]"] = HandlerRules("rules")
    function_rules: ClassVar["dict[object, Callable[..., Any]]"] = {}

    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        for form in cls.__dict__.get("__orig_bases__", ()):  # the types of payloads and state
            register_declared(form)
        # A table of its own for each handler class, on top of its base's.
        base = next(k for k in cls.__mro__[1:] if issubclass(k, RuledHandler))
        table: type[HandlerRules[Rule]] = PayloadRules if cls.owns_boxes else HandlerRules
        cls.rules = table(cls.name, base.rules)
        cls.function_rules = {}
        if cls.default not in get_args(Default):
            raise TransformError(
                f"{cls.name}: default is 'error', 'forward', 'drop' or 'derive', got {cls.default!r}"
            )
        if "threads_state" not in cls.__dict__:
            cls.threads_state = cls.initial is not RuledHandler.initial
        if "watches" not in cls.__dict__:
            labels: object = cls.handles
            if isinstance(labels, list | tuple | set | dict | str | Label) or (
                isinstance(labels, frozenset) and not all([isinstance(label, Label) for label in labels])
            ):
                raise TransformError(f"{cls.name}: handles must be a frozenset of labels, got {labels!r}")
            # Of a property or field only instances know the labels, so they may be optional.
            cls.watches = not isinstance(labels, frozenset) or any([label.optional for label in labels])

    def initial(self) -> S:
        """Returns the state with which the handler is installed: a pytree of arrays.

        A handler that overrides this has a state: its rules read and assign `site.state`, and programs carry it in
        and out. Its structure, shapes and dtypes are fixed.
        """
        return cast("S", None)

    def returns(self, result: PyTree, frame: Frame) -> Any:
        """The return clause: converts the function's result to the result of `run`.

        Args:
            result: the function's result, in payloads for a handler with boxes.
            frame: the handler's frame, with the final `state` and the `collected` values.
        """
        return result

    def takes(self, effects: frozenset[Effect]) -> bool:
        """Returns whether the handler handles one of these effects."""
        return not self.handles.isdisjoint(effects)

    @contextmanager
    def installed(self) -> Iterator[Frame]:
        """Installs the handler for a `with` block, and returns its frame."""
        with handle(self) as frame:
            frame.state = self.initial()
            yield frame

    def otherwise(self, frame: Frame, op: Operation[R], operands: tuple[Array, ...]) -> R | None:
        """Enters programs and marked payloads, and forwards operations by `default`."""
        # A handler further out, now or of the program that is being staged, may apply the rules of a function, and runs
        # these under this one.
        may_be_ruled = (
            isinstance(op, CustomCall) and op.rules.has_rules and any([x.frame is not None for x in operands])
        )
        if self.steps and isinstance(op, HigherOrder) and not may_be_ruled:
            return cast("R", step_through(frame, op, operands))
        if is_mark(op, operands):
            return cast("R", mark_payloads(frame, op, operands))
        result = super().otherwise(frame, op, operands)
        holds_programs = isinstance(op, HigherOrder)
        if result is not None or (op.can_decompose() and (self.default == "derive" or holds_programs)):
            return result
        if holds_programs:  # an author's operation: to forward it would hide what it holds from this handler
            raise NoRuleError(
                f"{op.name}: the handler {self.describe()} has no rule for this operation, and cannot enter the programs "
                f"that it holds, since it does not decompose; define decompose(*operands), or register a rule for it"
            )
        if self.forwards(op, operands) or not any([x.frame is frame for x in operands]):
            return self.forward(frame, op, operands)
        return None

    def forwards(self, op: Operation[object], operands: tuple[Array, ...]) -> bool:
        """Returns whether `default` has an operation without a rule performed on plain values."""
        return self.default in ("forward", "drop")

    def forward(self, frame: Frame, op: Operation[R], operands: tuple[Array, ...]) -> R:
        """Performs an operation outward on the plain values behind its operands."""
        return op(*operands)

    @classmethod
    def _rule_registrar(
        cls, kinds: tuple[type[Operation[Any]], ...], wants_site: bool
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Returns the decorator that registers a rule.

        Raises:
            TransformError: there are no classes, or something is no operation class.
        """
        check_classes(cls.name, kinds)

        def register(rule: Callable[..., Any]) -> Callable[..., Any]:
            check_rule(cls.name, rule, kinds)
            cls.rules.register(*kinds)((rule, wants_site))
            return rule

        return register

    # Checks of users' functions and results

    def check_function(self, function: object) -> None:
        """Checks the function to run.

        Raises:
            TransformError: it is not callable.
        """
        if not callable(function):
            raise TransformError(f"{self.name}: run takes a function and its arguments, got {function!r}")

    def check_count(self, what: str, results: object, expected: int) -> None:
        """Checks a rule's result for an operation with several results.

        Raises:
            TransformError: it is no tuple of that many results.
        """
        if type(results) not in (tuple, list) or len(cast("tuple[object, ...]", results)) != expected:
            raise TransformError(
                f"{self.name}: the rule for {what} must give a tuple of {expected} results, got {results!r}"
            )

    # Named functions

    @classmethod
    def function_rule(cls, function: Callable[..., Any]) -> Callable[[Callable[..., R]], Callable[..., R]]:
        """Registers a rule for a `named_function`; it is called instead of the function.

        Under a handler with boxes it takes payloads where the function takes arrays, and returns payloads (or plain
        arrays) in the structure of the function's result.

        Raises:
            TransformError: it is no named function, or the handler sees only operations with its effects, and so no
                functions.
        """
        if cls.effects_only:
            raise TransformError(
                f"{cls.name}: a handler of effects sees no functions; rules for them need one that sees every operation"
            )
        named: object = function  # unchecked callers
        if not isinstance(named, NamedFunction):
            raise TransformError(
                f"{cls.name}: function rules are for functions that named_function made, got {function!r}"
            )

        def register(rule: Callable[..., R]) -> Callable[..., R]:
            check_rule(cls.name, rule, (function,))
            cls.function_rules[function] = rule
            cls.rules.forget_staged_uses(Operation)
            return rule

        return register

    @classmethod
    def rule_of(cls, function: object) -> Callable[..., Any] | None:
        """Returns the handler's rule for a named function."""
        for base in cls.__mro__:
            table = base.__dict__.get("function_rules")
            if table is not None and function in table:
                return cast("Callable[..., Any]", table[function])
        return None

    def uses(self, rules: CustomRules) -> bool:
        """Returns whether there is a rule for the named function."""
        return rules.function is not None and self.rule_of(rules.function.base) is not None

    def apply_custom(
        self, frame: Frame, rules: CustomRules, constants: Sequence[Array], primals: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Applies the rule for a named function."""
        function = rules.function
        rule = None if function is None else self.rule_of(function.base)
        if function is None or rule is None:
            return None
        if any([x.frame is frame for x in constants]):
            raise TransformError(
                f"{self.name}: {rules.name} closes over a value that is handled, which its rule for "
                f"{self.name} knows nothing of; make it an argument"
            )
        try:
            return self.apply_function(frame, function, rule, primals)
        except Exception as error:
            explain_rule_error(error, rule, f"{self.name}: the rule for {rules.name}")
            raise

    def apply_function(
        self, frame: Frame, function: NamedCall, rule: Callable[..., Any], primals: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Applies a rule for a named function to flat operands."""
        raise TransformError(f"{self.name}: this kind of handler has no rules for named functions")
