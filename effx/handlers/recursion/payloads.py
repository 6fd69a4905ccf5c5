"""The base class of handlers whose boxes carry payloads: what of the recursion an author may override.

Never: know an operation.
"""

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
    from effx.ir.ops.custom import CustomCall, Rules

__all__ = ["PayloadHandler", "performs_once"]


class PayloadHandler(Handler):
    """A handler whose boxes carry payloads: pytrees of arrays, with static data in their structure.

    Only `lift` is needed for most; each of the others has a default that works leaf by leaf.

    Attributes:
        height: how often a loop may widen the structure of one carried value before it is an error.
        threads_state: True where `frame.state` is a pytree of arrays that the handler replaces while it is
            at work. It is carried into programs and out of them.
        keeps_rules: True where the handler does to a derivative what it does to the function, as batching
            does. Then rules for differentiation that a user gave a function stay in force under it; else what
            the handler makes of the function is differentiated.
        lifts_carries: True to lift the plain values with which a loop starts before its body is looked at: where what
            a payload says of a known value, such as a zero, is lost inside.
        effects_only: True for a handler of plain values that sees nothing but the effects that it takes.
        collects: True where the handler gathers values by name (`collect`). They are handed out of programs:
            stacked by scan and by parallel maps, of a while loop those of the last turn.
    """

    __slots__ = ()
    height: ClassVar[int] = 4
    threads_state: ClassVar[bool] = False
    keeps_rules: ClassVar[bool] = False
    collects: ClassVar[bool] = False
    lifts_carries: ClassVar[bool] = False
    effects_only: ClassVar[bool] = False

    def lift(self, x: Array) -> PyTree:
        """Turns a plain value into the payload that stands for it.

        Raises:
            TransformError: the handler does not say how.
        """
        raise TransformError(
            f"{self.name}: a plain value {x.type!r} stands where a payload is expected; define lift(x)"
        )

    def primal(self, payload: PyTree) -> Array | None:
        """Returns the plain value that decides where a box is a predicate; None if there is none."""
        return None

    def widen(self, a: PyTree, b: PyTree) -> PyTree:
        """Returns a payload of the structure that both conform to; only its structure counts.

        Called for what a loop carries: `a` is what it carries so far, `b` what the body gives.
        """
        return a

    def conform(self, payload: PyTree, like: PyTree) -> PyTree:
        """Brings a payload to the structure of another."""
        return payload

    def join(self, a: PyTree, b: PyTree) -> PyTree:
        """Returns the payload that stands for either value, where no plain value decides between branches.

        Raises:
            TransformError: the handler does not say how.
        """
        raise TransformError(
            f"{self.name}: a boxed value decides between branches; define primal(payload) to decide by "
            f"a plain value, or join(a, b) to run both branches"
        )

    def grow(self, before: PyTree, after: PyTree) -> PyTree:
        """Returns the payload that stands for either value, where nothing decides how many turns a loop makes.

        The loop is gone through until this changes nothing, so a chain of growing payloads must end: where bounds may
        grow for ever, give up on them, by an infinite one say.

        Args:
            before: stands for what the loop has carried so far.
            after: what one more turn makes of it.

        Raises:
            TransformError: the handler does not say how.
        """
        raise TransformError(
            f"{self.name}: a boxed value decides whether a loop goes on; define primal(payload) to decide by a plain "
            f"value, or grow(before, after) to go on until nothing changes"
        )

    def unstack(self, payload: PyTree) -> PyTree:
        """Returns the payload of a slice, each leaf with the scanned axis in front.

        Called for a stacked input of a loop, whose leading axis the loop goes along.
        """
        return payload

    def stack(self, payload: PyTree) -> PyTree:
        """The inverse of `unstack`: leaves have the scanned axis in front, static data is a slice's."""
        return payload

    def uses(self, rules: "Rules") -> bool:
        """Says whether the handler has a use for one of the rules that a user gave a function."""
        return False

    def apply_custom(
        self, frame: Frame, rules: "Rules", constants: Sequence[Array], primals: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Applies a user's rule in the place of a function; None where the function itself is to be handled."""
        return None

    def keep_named(
        self, frame: Frame, op: "CustomCall", operands: Sequence[Array]
    ) -> tuple[Array, ...] | None:
        """Performs a named function in a form in which handlers further out still know it; None where there is none."""
        return None

    def reduce_cotangent(self, payload: PyTree) -> Array:
        """Returns the cotangent of a plain value that was used by what a box stands for: for a batch, the sum.

        Raises:
            TransformError: the handler does not say how.
        """
        raise TransformError(
            f"{self.name}: a backward rule gives a boxed cotangent for a plain value; define reduce_cotangent(payload)"
        )

    def split_state(self, state: PyTree, size: int) -> PyTree | None:
        """Returns the states with which the members of a parallel map start, along a new first axis of each leaf.

        None, the default, lets each start with the state as it is. In the end `merge_states` makes one of them.
        """
        return None

    def merge_states(self, a: PyTree, b: PyTree) -> PyTree:
        """Returns the state after branches that were both run, or after two members of a parallel map."""
        raise TransformError(f"{self.name}: both branches ran; define merge_states(a, b)")

    def collect(self, frame: Frame, name: str, value: PyTree) -> None:
        """Gathers a value, a pytree of arrays that are not the handler's own boxes.

        Raises:
            TransformError: the name is taken.
        """
        if name in frame.collected:
            raise TransformError(f"{self.name}: two values are collected under the name {name!r}")
        frame.collected[name] = value

    def missing(self, name: str, like: PyTree) -> PyTree:
        """Returns what stands for a value that another branch collects, or that no turn of a loop gave: zeros."""
        leaves, tree = flatten(like)
        return tree.unflatten([zeros(x.type) for x in leaves])

    def run_branches(
        self, frame: Frame, index: PyTree, op: "Cond", operands: Sequence[Array]
    ) -> tuple[Array, ...]:
        """Runs all branches where the boxed index has no plain value, and joins what they return."""
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
        """Gathers what branches that were all run have collected.

        Raises:
            TransformError: more than one has collected a value under one name.
        """
        for collected in found:
            for name, value in collected.items():
                self.collect(frame, name, value)

    def run_undecided(self, frame: Frame, op: "While", operands: Sequence[Array]) -> tuple[Array, ...]:
        """Runs a loop whose condition is boxed and has no plain value: gives what any number of turns gives."""
        from effx.handlers.recursion.undecided import any_number_of_turns

        return any_number_of_turns(frame, op, operands)


def performs_once(frame: Frame | None) -> bool:
    """Says whether a handler from this frame outward leaves traces of the operations that it sees.

    It keeps a state or collects, so that an operation that is performed again may give something else. What takes only
    effects needs no such care: these are performed once anyway.
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
