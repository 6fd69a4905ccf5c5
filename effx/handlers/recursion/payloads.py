"""`PayloadHandler`, the base of handlers that work inside programs: dispatch of operations to rules, and methods to
override.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

from effx.array import Array, Box
from effx.array.promotion import as_operand, zeros
from effx.effects import Frame, Handler, Operation, RuleTable, Value, no_rule_error, use_frame
from effx.errors import TransformError, active_source, current_source, explain_rule_error
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.custom import CustomRules
from effx.ir.types import ArrayType
from effx.tree.registry import PyTree, flatten

R = TypeVar("R")
H = TypeVar("H", bound=HigherOrder)

Rule: TypeAlias = Any  # each handler defines the signature of its rules

# (frame, op, operands) -> results, performed outward and boxed again
Recursion = Callable[[Frame, H, Sequence[Array]], tuple[Array, ...]]

# (frame, rules, constants, primals) -> results; None to enter the function itself
ApplyCustom = Callable[[Frame, CustomRules, Sequence[Array], Sequence[Array]], tuple[Array, ...] | None]

# How handlers that do not override `apply_custom` apply custom rules, by their class.
custom_rules: dict[type[Handler], ApplyCustom] = {}


class PayloadHandler(Handler):
    """A handler that works inside programs. Its boxes carry payloads: pytrees of arrays, with static data in their
    structure.

    An operation is handled by its rule; without one, by entering the programs that it holds; else by its
    decomposition. A handler defines how a rule is called (`apply_rule`) and how a result is boxed
    (`boxed_result`). Most users' handlers define `lift` only; the other methods have a default that works leaf by leaf.

    A handler's data pass through programs in one of three ways. *Payloads* belong to values: their leaves
    replace the value. *State* belongs to the run and is threaded through carries and branches.
    *Collected* values are outputs only: further results of calls, stacked by scans and parallel maps, from the
    last iteration of a while loop. State cannot replace collecting, because its structure must be known
    beforehand; collecting cannot replace state, because it cannot be read. Arrays that a handler only reads
    are its attributes, which a staged body captures as constants.

    Attributes:
        rules: by operation class, base class or trait.
        recursions: how operations that hold programs are handled without a rule.
        height: how often a loop may widen the structure of one carry before it is an error.
        threads_state: True if `frame.state` is a pytree of arrays that rules replace. It is threaded through
            programs.
        keeps_rules: True if the handler commutes with differentiation, as batching does. Then users' derivative
            rules are kept under it; else the handled function is differentiated.
        lifts_carries: True to lift the plain initial values of a loop before its body is staged, for payloads
            that depend on a known value, such as a zero.
        effects_only: True for a handler of plain values that sees only the effects that it handles.
        marks_source: True if all operations that a rule performs get the source location of the handled one. False
            for effx's own rules that perform one operation: looking the location up costs more.
        collects: True if the handler collects values by name (`collect`). Programs return them: stacked by
            scan and by parallel maps, those of the last iteration by a while loop.
    """

    __slots__ = ()
    height: ClassVar[int] = 4
    threads_state: ClassVar[bool] = False
    keeps_rules: ClassVar[bool] = False
    collects: ClassVar[bool] = False
    lifts_carries: ClassVar[bool] = False
    effects_only: ClassVar[bool] = False
    marks_source: ClassVar[bool] = True
    rules: ClassVar["RuleTable[Rule]"] = RuleTable("rules")
    recursions: ClassVar["RuleTable[Recursion[HigherOrder]]"] = RuleTable("recursion")

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Applies the operation's rule."""
        rule = self.rules.find(type(op))
        # No cast() on the way of every operation: each costs 30 ns.
        arrays: tuple[Array, ...] = operands  # type: ignore[assignment]  # all values are arrays
        if rule is None:
            return self.without_rule(frame, op, arrays)
        try:
            if not self.marks_source or active_source.get() is not None:
                y, about = self.apply_rule(frame, rule, op, arrays)
            else:
                try:
                    active_source.set(current_source(3))
                    y, about = self.apply_rule(frame, rule, op, arrays)
                finally:
                    active_source.set(None)
        except Exception as error:
            function = rule[0] if type(rule) is tuple else rule
            explain_rule_error(error, function, f"{self.name}: the rule for {op.name}")
            raise
        if op.multiple:
            pairs = zip(y, about, strict=True)
            return tuple([self.boxed_result(frame, y, about, op.name) for y, about in pairs])  # type: ignore[return-value]  # R is a tuple for a TupleOperation
        return y if about is None else self.boxed_result(frame, y, about, op.name)  # type: ignore[return-value]  # R is Array for an ArrayOperation

    def without_rule(self, frame: Frame, op: Operation[R], operands: tuple[Array, ...]) -> R:
        """Enters the programs of an operation without a rule, or decomposes it.

        Raises:
            NoRuleError: it holds no programs and does not decompose.
        """
        result = self.otherwise(frame, op, operands)
        if result is not None:
            return result
        # Rules come first, since decompositions are exact in real arithmetic only.
        if op.can_decompose():
            with use_frame(frame):
                return op.decompose(*operands)
        raise no_rule_error(op, self)

    # How the handler interprets operations

    def apply_rule(
        self, frame: Frame, rule: Rule, op: Operation[object], operands: tuple[Array, ...]
    ) -> tuple[PyTree, PyTree]:
        """Calls a rule; by default with the operation and its operands.

        Returns:
            The result, and the data that `boxed_result` needs of it, None if the result is an array already; two tuples for
            an operation with several results.
        """
        return rule(op, *operands), apply_typing_rule(op, operands)

    def boxed_result(self, frame: Frame, y: PyTree, about: PyTree, what: str = "") -> Array:
        """Makes an array from a rule's result for the operation named `what`; by default that is an array already, or a
        number.
        """
        return y if isinstance(y, Array) else as_operand(y, f"{self.name}: the rule for {what}")

    def otherwise(self, frame: Frame, op: Operation[R], operands: tuple[Array, ...]) -> R | None:
        """Interprets an operation without a rule; None to decompose it. By default it enters programs."""
        return cast("R | None", recur(frame, op, operands))

    # Payloads

    def lift(self, x: Array) -> PyTree:
        """Returns the payload of a plain value.

        Raises:
            TransformError: the handler does not define it.
        """
        raise TransformError(
            f"{self.name}: a plain value {x.type!r} stands where a payload is expected; define lift(x)"
        )

    def make_payload(self, x: Array) -> PyTree:
        """Returns what `lift` gives for a plain value, after a check."""
        return self.lift(x)

    def primal(self, payload: PyTree) -> Array | None:
        """Returns the plain value of a payload, which chooses branches; None if there is none."""
        return None

    def widen(self, a: PyTree, b: PyTree) -> PyTree:
        """Returns a payload of a structure that both payloads can conform to; only its structure counts.

        Called for a loop's carry: `a` is the carry so far, `b` the body's result.
        """
        return a

    def conform(self, payload: PyTree, like: PyTree) -> PyTree:
        """Converts a payload to the structure of another."""
        return payload

    def join(self, a: PyTree, b: PyTree) -> PyTree:
        """Returns a payload that covers either value, for the results of branches that were both run.

        Raises:
            TransformError: the handler does not define it.
        """
        raise TransformError(
            f"{self.name}: a boxed value decides between branches; define primal(payload) to decide by "
            f"a plain value, or join(a, b) to run both branches"
        )

    def grow(self, before: PyTree, after: PyTree) -> PyTree:
        """Returns a payload that covers either value, in a while loop whose condition has no plain value. The
        loop runs until this changes nothing, so a chain of growing payloads must end: widen bounds that may
        grow for ever, for example to infinity.

        Args:
            before: covers the carries so far. after: the carry after one more iteration.

        Raises:
            TransformError: the handler does not define it.
        """
        raise TransformError(
            f"{self.name}: a boxed value decides whether a loop goes on; define primal(payload) to decide by a plain "
            f"value, or grow(before, after) to go on until nothing changes"
        )

    def box_covering_payload(self, frame: Frame, method: str, payload: PyTree, t: ArrayType) -> Array:
        """Boxes what `join` or `grow`, the method's name for errors, gives for a value of type `t`; a class that knows what
        its payloads look like checks it.
        """
        return Box(frame, payload, t)

    def unstack(self, payload: PyTree) -> PyTree:
        """Returns the payload of a slice, each leaf with the scanned axis in front.

        Called for a stacked input of a loop, which is scanned along its leading axis.
        """
        return payload

    def stack(self, payload: PyTree) -> PyTree:
        """The inverse of `unstack`: leaves have the scanned axis in front, static data is a slice's."""
        return payload

    def uses(self, rules: CustomRules) -> bool:
        """Returns whether the handler uses one of the custom rules of a function."""
        return False

    def apply_custom(
        self, frame: Frame, rules: CustomRules, constants: Sequence[Array], primals: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Applies a custom rule instead of a function; None to enter the function itself."""
        rule = custom_rules.get(type(self))
        return None if rule is None else rule(frame, rules, constants, primals)

    def reduce_cotangent(self, payload: PyTree) -> Array:
        """Returns the cotangent of a plain value from that of a box: for a batch, the sum.

        Raises:
            TransformError: the handler does not define it.
        """
        raise TransformError(
            f"{self.name}: a backward rule gives a boxed cotangent for a plain value; define reduce_cotangent(payload)"
        )

    def first(self, payload: PyTree) -> Array:
        """Returns a plain value for a box where all batch elements must share it: the first element's.

        Raises:
            TransformError: the handler does not define it.
        """
        raise TransformError(
            f"{self.name}: a rule gives a boxed value for a plain one; define first(payload)"
        )

    def on_first(self, ct: Array) -> PyTree:
        """Returns the payload of a cotangent that is the first batch element's alone, the transpose of `first`.

        Raises:
            TransformError: the handler does not define it.
        """
        raise TransformError(f"{self.name}: a plain value has a cotangent; define on_first(ct)")

    def split_state(self, state: PyTree, size: int) -> PyTree | None:
        """Returns the initial states of the replicas of a parallel map, along a new first axis of each leaf.
        With None, the default, each starts with the same state. `merge_states` combines their final states.
        """
        return None

    def merge_states(self, a: PyTree, b: PyTree) -> PyTree:
        """Returns the state after branches that were both run, or after two replicas of a parallel map.

        Raises:
            TransformError: the handler does not define it.
        """
        raise TransformError(f"{self.name}: two states must become one; define merge_states(a, b)")

    def collect(self, frame: Frame, name: str, value: PyTree) -> None:
        """Collects a value, a pytree of arrays that are not the handler's own boxes.

        Raises:
            TransformError: the name is taken.
        """
        if name in frame.collected:
            raise TransformError(f"{self.name}: two values are collected under the name {name!r}")
        frame.collected[name] = value

    def moved(self, result: Array, parts: Sequence[Array]) -> None:
        """Is called, when programs run step by step, after a loop stacks a result from parts, or slices it from a single
        part. No rule sees these operations.
        """

    def missing(self, name: str, like: PyTree) -> PyTree:
        """Returns the default for a value that only another branch collects, or a loop without iterations: zeros."""
        leaves, tree = flatten(like)
        return tree.unflatten([zeros(x.type) for x in leaves])


def apply_typing_rule(op: Operation[object], operands: Sequence[Array]) -> PyTree:
    """Applies the typing rule of an operation: the type of its result, or a tuple of types."""
    return op.infer(*[x.type for x in operands])  # type: ignore[attr-defined]  # an operation on arrays


def payload_handler(frame: Frame) -> PayloadHandler:
    """Returns the frame's handler, which must be a PayloadHandler.

    Raises:
        TransformError: it is no PayloadHandler.
    """
    handler = frame.handler
    if not isinstance(handler, PayloadHandler):
        raise TransformError(
            f"{handler.name}: only handlers that extend PayloadHandler are carried into loops and branches"
        )
    return handler


def merge_states(handler: PayloadHandler, states: Sequence[PyTree], why: str) -> PyTree:
    """Returns the state after several runs that each have left one.

    Args:
        handler: the states' handler.
        states: one for each run.
        why: what ran several times, for the error.

    Raises:
        TransformError: the handler does not say how.
    """
    if len(states) > 1 and type(handler).merge_states is PayloadHandler.merge_states:
        raise TransformError(f"{handler.name}: {why}, and each has left a state; define merge_states(a, b)")
    return reduce(handler.merge_states, states)


def recursion(
    *kinds: type[H], under: type[PayloadHandler] = PayloadHandler
) -> Callable[[Recursion[H]], Recursion[H]]:
    """Registers how operations that hold programs are interpreted: under any handler, or under one class that has a
    table of its own.
    """
    return under.recursions.register(*kinds)  # type: ignore[return-value]  # the table holds rules of all operations


def recur(frame: Frame, op: Operation[object], operands: Sequence[Array]) -> tuple[Array, ...] | None:
    """Interprets an operation that holds programs under the frame's handler; None for any other operation.

    It performs the operation, with its programs staged again under the handler, outward.
    """
    rule = payload_handler(frame).recursions.find(type(op))
    return None if rule is None else rule(frame, cast("HigherOrder", op), operands)


def custom_rule(kind: type[PayloadHandler]) -> Callable[[ApplyCustom], ApplyCustom]:
    """Registers how a handler class applies the custom rules of functions that it `uses`."""

    def register(rule: ApplyCustom) -> ApplyCustom:
        custom_rules[kind] = rule
        return rule

    return register


def must_perform_once(frame: Frame | None) -> bool:
    """Returns whether a handler from this frame outward has a state or collects. Then an operation that is
    performed again may give another result. Handlers of effects only do not count: effects are performed once
    anyway.
    """
    # The answer is part of the keys under which split programs and traces are cached. Where it is True
    # nothing is computed again: checkpoints save every residual, scans hoist nothing, and linearising a while
    # loop, whose derivative would run it again, is refused.
    while frame is not None:
        h = frame.handler
        if isinstance(h, PayloadHandler) and not h.effects_only and (h.threads_state or h.collects):
            return True
        frame = frame.outer
    return False
