"""Users' handlers, transformations and functions with rules, as cases of laws."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, final

import attrs
import numpy as np
from hypothesis import strategies as st

import effx.numpy as enp
from effx import dtypes
from effx.array import Array, Box
from effx.effects import Operation, handle
from effx.errors import EffxError, TransformError
from effx.flags import enable_x64
from effx.handlers.authoring.boxing import BoxHandler
from effx.handlers.authoring.intercepting import InterceptHandler
from effx.handlers.authoring.rule_handler import RuledHandler
from effx.handlers.oracle import Reference
from effx.ir.types import ArrayType, Shape, array_type
from effx.laws.comparing import leaves
from effx.laws.programs import CONSTRUCTS, NAMESPACE, TypedProgram, cases, programs
from effx.laws.registry import NotApplicable
from effx.laws.vocabulary import BINARY, UNARY
from effx.tree.registry import PyTree

AnyHandler = BoxHandler[Any]
BISECTIONS = 12


def _ways(x: Array) -> tuple[complex | bool, ...]:
    """Returns the directions in which an array is moved to find an end."""
    return {"b": (True,), "i": (1, -1), "u": (1,), "c": (1.0, -1.0, 1j, -1j)}.get(x.type.kind, (1.0, -1.0))


def _move_far(holds: Callable[[Array], bool], x: Array, way: complex | bool) -> Array | None:
    """Moves an array as far as a condition holds, up to 1 and a little less than is possible; None if it cannot move."""
    if x.type.kind == "b":
        return enp.logical_not(x) if holds(enp.logical_not(x)) else None
    if x.type.kind in "iu":
        return x + way if holds(x + way) else None
    if holds(x + way):
        return x + way
    far = 0.0
    for step in range(1, BISECTIONS + 1):
        further = far + 0.5**step
        far = further if holds(x + way * further) else far
    return x + way * far if far else None


CARRYING = ("jit", "checkpoint", "cond", "switch", "while", "fori")
STACKING = ("scan", "map")


@final
@attrs.frozen
class Applied:
    """What a handler makes of a result.

    Attributes:
        payload: the result's payload; that of a plain value is lifted.
        is_boxed: False for a plain value.
    """

    payload: PyTree
    is_boxed: bool


@final
@attrs.frozen(eq=False)
class HandlerSubject:
    """A user's handler under test.

    Attributes:
        handler: the handler.
        payload: from a value to its payload; `handler.lift` if None.
        relation: `(payload, value) -> bool` must hold for every value and its payload; None if there is none.
        exact: True if the results of lifted arguments are the lifted results.
        kinds: letters of the kinds of numbers that boxes stand for.
    """

    handler: AnyHandler
    payload: Callable[[Array], PyTree] | None = None
    relation: Callable[[PyTree, Array], object] | None = None
    exact: bool = True
    kinds: str = "f"
    _supported: dict[tuple[str, tuple[Shape, ...]], str | None] = attrs.field(
        factory=dict, init=False, repr=False
    )
    _ends: dict[object, tuple[Array, ...]] = attrs.field(factory=dict, init=False, repr=False)

    def payload_for(self, x: Array) -> PyTree:
        """Returns the payload for an argument."""
        return (self.handler.lift if self.payload is None else self.payload)(x)

    def run(
        self,
        f: Callable[..., PyTree],
        xs: Sequence[Array],
        known: bool = True,
        boxed: Callable[[int], bool] = lambda i: True,
    ) -> list[PyTree]:
        """Runs a function under the handler and returns the payloads of the results.

        Args:
            f: the function.
            xs: its arguments.
            known: True if the last argument stays plain.
            boxed: selects which of the others become boxes.
        """
        last = len(xs) - 1
        with self.handler.installed() as frame:
            payloads_or_values = [
                x
                if (known and i == last) or not boxed(i)
                else self.handler.box(frame, self.payload_for(x), x)
                for i, x in enumerate(xs)
            ]
            return [self.handler.payload(frame, y) for y in leaves(f(*payloads_or_values))]

    def apply(
        self, op: Operation[object], operands: Sequence[Array], boxed: Sequence[int]
    ) -> "list[Applied]":
        """Performs an operation under the handler and returns what it makes of each result.

        Args:
            op: the operation.
            operands: its operands.
            boxed: the indices of those that become boxes.
        """
        with self.handler.installed() as frame:
            xs = [
                self.handler.box(frame, self.payload_for(x), x) if i in boxed else x
                for i, x in enumerate(operands)
            ]
            return [
                Applied(self.handler.payload(frame, y), type(y) is Box and y.frame is frame)
                for y in leaves(op(*xs))
            ]

    def represents(self, t: ArrayType) -> bool:
        """Says whether the payload of a value is one of its type: that of an integer may be a float's.

        Where payloads do not say what they stand for, any may be one.
        """
        return self._has_payload(t) and (
            self.keeps_type(t) or not self.keeps_type(array_type(dtypes.float64))
        )

    def _has_payload(self, t: ArrayType) -> bool:
        try:
            self.payload_for(enp.zeros(t.shape, t.dtype))
        except EffxError:
            return False
        return True

    def keeps_type(self, t: ArrayType) -> bool:
        """Says whether the handler's `type_of` gives the type of a value for its payload."""
        try:
            return self.handler.type_of(self.payload_for(enp.zeros(t.shape, t.dtype))).matches(t)
        except EffxError:
            return False

    def holds(self, payload: PyTree, x: Array) -> bool:
        """Says whether a payload holds for a value, by the relation."""
        return self.relation is None or bool(self.relation(payload, x))

    def ends(self, x: Array) -> tuple[Array, ...]:
        """Returns the ends of the set of values that the payload of x holds for, as far as they are found: by moving all
        elements up and down up to 1, and by turning signs.
        """
        key = (x.type, np.asarray(x).tobytes())
        if key not in self._ends:
            payload = self.payload_for(x)
            moved = [_move_far(lambda y: self.holds(payload, y), x, way) for way in _ways(x)]
            # Not -x: a zero would become -0.0, for which atan2 has another value.
            turned = [0.0 - x] if x.type.kind in "fc" and self.holds(payload, 0.0 - x) else []
            self._ends[key] = (*[y for y in moved if y is not None], *turned)
        return self._ends[key]

    def refuses(self, text: str, shapes: tuple[Shape, ...]) -> str | None:
        """Returns why a form of expression cannot be used under the handler; None where it can."""
        key = (text, shapes)
        if key not in self._supported:
            self._supported[key] = self._try(text, shapes)
        return self._supported[key]

    def _try(self, text: str, shapes: tuple[Shape, ...]) -> str | None:
        source = text.format(*[f"a{i}" for i in range(len(shapes))])
        with enable_x64(True), handle(Reference()), self.handler.installed() as frame:
            xs = [enp.asarray(np.full(s, 0.3)) for s in shapes]
            names = {f"a{i}": self.handler.box(frame, self.payload_for(x), x) for i, x in enumerate(xs)}
            try:
                result = eval(source, NAMESPACE | names)
            except EffxError as error:
                return error.message
            return None if type(result) is Box and result.frame is frame else "the result carries nothing"

    def supports(self, text: str, shapes: tuple[Shape, ...]) -> bool:
        """Says whether the handler supports a form of expression."""
        return self.refuses(text, shapes) is None

    def constructs(self) -> tuple[str, ...]:
        """Returns the control flow that equals Python's under the handler."""
        rows = self.supports("{0}[0]", ((3,),)) and self.supports("enp.stack([{0}, {0}])", ((3,),))
        return (*CARRYING, *STACKING) if rows else CARRYING

    def check_vocabulary(self) -> None:
        """Raises an error unless some expression can be used.

        Raises:
            TransformError: none can.
        """
        reasons = [self.refuses(f.text, ((3,),)) for f in UNARY] + [
            self.refuses(f.text, ((3,), (3,))) for f in BINARY
        ]
        if all(reasons):
            raise TransformError(
                f"check_handler: no program can be drawn for {self.handler.describe()}: sin, add, mul and all others "
                f"are refused; the first with: {reasons[0]}"
            )

    @property
    def has_primal(self) -> bool:
        """True if plain values choose branches."""
        return self.handler.primal(self.payload_for(enp.zeros(()))) is not None

    @property
    def has_join(self) -> bool:
        """True if the results of two branches can be joined."""
        return type(self.handler).join is not BoxHandler.join


SHAPES: tuple[Shape, ...] = ((3,), (), (2, 3), (1,))


@st.composite
def _draw_handler_case(draw: st.DrawFn, subjects: tuple[HandlerSubject, ...]) -> tuple[object, ...]:
    subject = draw(st.sampled_from(subjects))
    strategy = programs(
        constructs=subject.constructs(),
        most_steps=3,
        depth=1,
        shapes=SHAPES,
        decided=True,
        smooth=True,
        supports=subject.supports,
    )
    f, xs = draw(cases(strategy))
    return subject, f, xs


def handler_cases(*subjects: HandlerSubject) -> st.SearchStrategy[tuple[object, ...]]:
    """Draws a handler, a program that it can run, and a point; the last argument, `known`, stays plain."""
    return _draw_handler_case(subjects)


@final
@attrs.frozen(eq=False)
class InterceptSubject:
    """A user's intercepting handler under test.

    Attributes:
        handler: the handler.
        neutral: True if it does not change a function's results.
    """

    handler: InterceptHandler[PyTree]
    neutral: bool = False

    def run(self, f: Callable[..., PyTree], xs: Sequence[Array]) -> PyTree:
        """Returns the result of the handler's return clause: the function's result, a state, collected
        values.

        Raises:
            NotApplicable: the handler collects values and refuses the program, for a repeated name, say.
        """
        try:
            return self.handler.run(f, *xs)
        except TransformError as error:
            if not self.handler.collects:
                raise
            raise NotApplicable(f"the handler refuses a program: {error.message}") from None

    def wrap_function(self, f: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """Returns the function that runs a function under the handler."""
        return lambda *xs: self.run(lambda *ys: f(*ys), xs)

    def results(self, f: Callable[..., PyTree], xs: Sequence[Array]) -> list[Array]:
        """Returns a function's own results under the handler, without its return clause."""
        captured: list[PyTree] = []

        def watched(*ys: PyTree) -> PyTree:
            captured.append(f(*ys))
            return captured[0]

        self.run(watched, xs)
        return leaves(captured[0])


@st.composite
def _draw_intercept_case(draw: st.DrawFn, subjects: tuple[InterceptSubject, ...]) -> tuple[object, ...]:
    subject = draw(st.sampled_from(subjects))
    # An inner vmap acts once for all batch elements; and branches must collect alike, which random ones do
    # not.
    left_out = ("vmap", "cond", "switch") if subject.handler.collects else ("vmap",)
    constructs = [c for c in CONSTRUCTS if c not in left_out]
    f, xs = draw(cases(programs(constructs=constructs, most_steps=3)))
    return subject, f, xs


def intercept_cases(*subjects: InterceptSubject) -> st.SearchStrategy[tuple[object, ...]]:
    """Draws an intercepting handler, a program, and a point."""
    return _draw_intercept_case(subjects)


H = TypeVar("H", bound=RuledHandler[PyTree])


def with_stepping(handler: H) -> H:
    """Returns the handler with `steps = True`: a copy, of a class that derives from its own."""
    kind = type(handler)
    stepped: type[H] = type(kind.__name__, (kind,), {"__slots__": (), "steps": True})
    twin = object.__new__(stepped)
    for field in attrs.fields(kind):  # type: ignore[arg-type]  # handlers are attrs classes
        object.__setattr__(twin, field.name, getattr(handler, field.name))
    return twin


class Oracle(Protocol):
    """The expected results of a transformed function, computed in another way."""

    def __call__(self, f: Callable[..., PyTree], xs: Sequence[Array]) -> PyTree:
        """Returns the expected results."""
        ...


@final
@attrs.frozen(eq=False)
class TransformSubject:
    """A user's transformation under test.

    Attributes:
        transform: from a function of arrays to a function of the same arguments.
        oracle: computes the expected result.
        tolerance: relative, of the comparison with the oracle.
    """

    transform: Callable[[Callable[..., PyTree]], Callable[..., PyTree]]
    oracle: Oracle
    tolerance: float = 1e-9


def transform_cases(
    *subjects: TransformSubject, programs: st.SearchStrategy[TypedProgram]
) -> st.SearchStrategy[tuple[object, ...]]:
    """Draws a transformation, a program and a point."""
    return st.tuples(st.sampled_from(subjects), cases(programs)).map(lambda pair: (pair[0], *pair[1]))
