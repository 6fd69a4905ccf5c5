"""The base class of handlers whose boxes carry payloads: the methods of the recursion that may be overridden."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from effx.array import Array
from effx.array.promotion import zeros
from effx.effects import Frame, Handler, resumed
from effx.errors import TransformError
from effx.handlers.stage import run_program
from effx.tree.registry import PyTree, flatten

if TYPE_CHECKING:
    from effx.ir.ops.control import Cond, While
    from effx.ir.ops.custom import CustomCall, CustomRules

__all__ = ["PayloadHandler", "performs_once"]


class PayloadHandler(Handler):
    """A handler whose boxes carry payloads: pytrees of arrays, with static data in their structure.

    Most handlers define `lift` only; the others have a default that works leaf by leaf.

    Attributes:
        height: how often a loop may widen the structure of one carry before it is an error.
        threads_state: True if `frame.state` is a pytree of arrays that rules replace. It is threaded through
            programs.
        keeps_rules: True if the handler commutes with differentiation, as batching does. Then users' rules
            for differentiation are kept under it; else the handled function is differentiated.
        lifts_carries: True to lift the plain initial values of a loop before its body is staged, for payloads
            that depend on a known value, such as a zero.
        effects_only: True for a handler of plain values that sees only the effects that it handles.
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

    def lift(self, x: Array) -> PyTree:
        """Returns the payload of a plain value.

        Raises:
            TransformError: the handler does not define it.
        """
        raise TransformError(
            f"{self.name}: a plain value {x.type!r} stands where a payload is expected; define lift(x)"
        )

    def primal(self, payload: PyTree) -> Array | None:
        """Returns the plain value of a payload, which chooses branches; None if there is none."""
        return None

    def widen(self, a: PyTree, b: PyTree) -> PyTree:
        """Returns a payload of the structure that both conform to; only its structure counts.

        Called for a loop's carry: `a` is the carry so far, `b` the body's result.
        """
        return a

    def conform(self, payload: PyTree, like: PyTree) -> PyTree:
        """Brings a payload to the structure of another."""
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
        grow for ever, to infinity say.

        Args:
            before: covers the carries so far. after: of one more iteration.

        Raises:
            TransformError: the handler does not define it.
        """
        raise TransformError(
            f"{self.name}: a boxed value decides whether a loop goes on; define primal(payload) to decide by a plain "
            f"value, or grow(before, after) to go on until nothing changes"
        )

    def unstack(self, payload: PyTree) -> PyTree:
        """Returns the payload of a slice, each leaf with the scanned axis in front.

        Called for a stacked input of a loop, which is scanned along its leading axis.
        """
        return payload

    def stack(self, payload: PyTree) -> PyTree:
        """The inverse of `unstack`: leaves have the scanned axis in front, static data is a slice's."""
        return payload

    def uses(self, rules: "CustomRules") -> bool:
        """Says whether the handler uses one of the custom rules of a function."""
        return False

    def apply_custom(
        self, frame: Frame, rules: "CustomRules", constants: Sequence[Array], primals: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Applies a custom rule instead of a function; None to handle the function itself."""
        return None

    def keep_named(
        self, frame: Frame, op: "CustomCall", operands: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Performs a named function in a form that outer handlers recognise; None if there is none."""
        return None

    def reduce_cotangent(self, payload: PyTree) -> Array:
        """Returns the cotangent of a plain value from that of a box: for a batch, the sum.

        Raises:
            TransformError: the handler does not define it.
        """
        raise TransformError(
            f"{self.name}: a backward rule gives a boxed cotangent for a plain value; define reduce_cotangent(payload)"
        )

    def split_state(self, state: PyTree, size: int) -> PyTree | None:
        """Returns the initial states of the replicas of a parallel map, along a new first axis of each leaf.
        With None, the default, each starts with the same state. `merge_states` combines their final states.
        """
        return None

    def merge_states(self, a: PyTree, b: PyTree) -> PyTree:
        """Returns the state after branches that were both run, or after two replicas of a parallel map."""
        raise TransformError(f"{self.name}: both branches ran; define merge_states(a, b)")

    def collect(self, frame: Frame, name: str, value: PyTree) -> None:
        """Collects a value, a pytree of arrays that are not the handler's own boxes.

        Raises:
            TransformError: the name is taken.
        """
        if name in frame.collected:
            raise TransformError(f"{self.name}: two values are collected under the name {name!r}")
        frame.collected[name] = value

    def missing(self, name: str, like: PyTree) -> PyTree:
        """Returns the value for one that another branch collects, or a loop without iterations: zeros."""
        leaves, tree = flatten(like)
        return tree.unflatten([zeros(x.type) for x in leaves])

    def run_branches(
        self, frame: Frame, index: PyTree, op: "Cond", operands: Sequence[Array]
    ) -> tuple[Array, ...]:
        """Runs all branches if the boxed index has no plain value, and joins their results."""
        from effx.array import Box
        from effx.handlers.recursion.layout import payload_of

        start, before = frame.state, frame.collected
        states: list[PyTree] = []
        found: list[dict[str, PyTree]] = []
        results: list[list[Array]] = []
        for branch in op.branches:
            frame.state, frame.collected = start, {}
            with resumed(frame):
                results.append(run_program(branch, operands))
            states.append(frame.state)
            found.append(frame.collected)
        frame.collected = before
        self.collect_branches(frame, found)
        if self.threads_state:
            state = states[0]
            for other in states[1:]:
                state = self.merge_states(state, other)
            frame.state = state
        joined: list[Array] = []
        for values, t in zip(zip(*results, strict=True), op.branches[0].out_types, strict=True):
            payload = payload_of(frame, values[0])
            for value in values[1:]:
                payload = self.join(payload, payload_of(frame, value))
            joined.append(Box(frame, payload, t))
        return tuple(joined)

    def collect_branches(self, frame: Frame, found: Sequence[dict[str, PyTree]]) -> None:
        """Collects the values of branches that were all run.

        Raises:
            TransformError: more than one has collected a value under one name.
        """
        for collected in found:
            for name, value in collected.items():
                self.collect(frame, name, value)

    def run_undecided(self, frame: Frame, op: "While", operands: Sequence[Array]) -> tuple[Array, ...]:
        """Runs a loop whose boxed condition has no plain value; the result covers any iteration count."""
        from effx.handlers.recursion.abstract_while import any_number_of_turns

        return any_number_of_turns(frame, op, operands)


def performs_once(frame: Frame | None) -> bool:
    """Says whether a handler from this frame outward keeps a state or collects. Then an operation that is
    performed again may give another result. Handlers of effects only do not count: effects are performed once
    anyway.
    """
    while frame is not None:
        h = frame.handler
        if isinstance(h, PayloadHandler) and not h.effects_only and (h.threads_state or h.collects):
            return True
        frame = frame.outer
    return False


def state_leaves(frame: Frame) -> tuple[list[Array], PyTree]:
    """Returns the arrays of the handler's state and its structure; nothing for a handler without one."""
    if isinstance(frame.handler, PayloadHandler) and frame.handler.threads_state:
        leaves, tree = flatten(frame.state)
        return leaves, tree
    return [], None
