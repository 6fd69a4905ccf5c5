"""Laws of the handler calculus: perform, forward, the stack, scopes, escape."""

import threading
from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Array, Box
from effx.effects import (
    Frame,
    Handler,
    Operation,
    RuleTable,
    Value,
    current_frame,
    describe_stack,
    forward,
    handle,
    isolated,
)
from effx.errors import AxisNameError, EffxError, EscapedBoxError
from effx.handlers.jvp import JVP, Dual
from effx.handlers.oracle import evaluate
from effx.handlers.vmap import Vmap
from effx.laws.areas.subjects import ANY, FLAT, SMALL, Function, Points, error_raised_by, weighted_sum_loss
from effx.laws.comparing import directions, same
from effx.laws.control_oracle import python_form
from effx.laws.drawing import AnyOperation, operation_kinds
from effx.laws.operations import operations
from effx.laws.registry import law
from effx.laws.stacks import ForwardingHandler, IdleHandler, Stack, handlers

R = TypeVar("R")
AREA = "handler calculus"


class OperationLog(Handler):
    """Records the names of the operations that it sees."""

    intercepts = True

    def __init__(self, times: int = 1) -> None:
        self.names: list[str] = []
        self.times = times

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Forwards, once or several times."""
        self.names.append(op.name)
        for _ in range(self.times - 1):
            forward(op, operands)
        return forward(op, operands)


def with_stack(least: int = 1) -> st.SearchStrategy[tuple[object, ...]]:
    """Draws a stack, a program and a point."""
    return st.tuples(handlers(least=least), SMALL).map(lambda pair: (pair[0], *pair[1]))


@law(AREA, "handle h: f(x) = f(x), if nothing is boxed, for every h", ANY)
def idle_frame(f: Function, xs: Points) -> None:
    want = f(*xs)
    for handler in (IdleHandler(), JVP(), Vmap(3, "i")):
        with handle(handler):
            same(f(*xs), want, 0.0)


@law(AREA, "handle (op -> forward op): f(x) = f(x)", ANY)
def forwarding(f: Function, xs: Points) -> None:
    want = f(*xs)
    with handle(ForwardingHandler()):
        same(f(*xs), want, 0.0)
        with handle(ForwardingHandler()):
            same(f(*xs), want, 0.0)


@law(AREA, "what a handler sees performed = the equations of the staged program, in order", FLAT)
def performed_is_staged(f: Function, xs: Points) -> None:
    log = OperationLog()
    with handle(log):
        f(*xs)
    program = effx.make_jaxpr(f)(*xs)
    # Literals and host constants are converted without an operation.
    assert log.names == [e.op.name for e in program.equations], (log.names, str(program))


@law(
    AREA,
    "an outer handler sees what the inner ones forward: twice what an inner handler performs twice",
    FLAT,
)
def outer_sees_what_is_forwarded(f: Function, xs: Points) -> None:
    outer, twice, inner = OperationLog(), OperationLog(2), OperationLog()
    with handle(outer), handle(twice), handle(inner):
        f(*xs)
    assert inner.names == twice.names
    assert outer.names == [name for name in inner.names for _ in range(2)]


@law(AREA, "a frame that owns no operand is not asked", SMALL)
def only_owners_are_asked(f: Function, xs: Points) -> None:
    asked_handlers: list[str] = []

    class Deaf(Handler):
        def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
            asked_handlers.append(op.name)
            return forward(op, operands)

    with handle(Deaf()):
        f(*xs)
        effx.jvp(f, tuple(xs), directions(xs))
    assert asked_handlers == []


@law(AREA, "after handle h: ..., by return or by error, the stack is what it was", with_stack())
def scopes_close(stack: Stack, f: Function, xs: Points) -> None:
    before = current_frame()
    stack(f)(*xs)
    assert current_frame() is before

    def failing(*ys: Array) -> Array:
        f(*ys)
        raise KeyError("law")

    error_raised_by(KeyError, lambda: stack(failing)(*xs))
    assert current_frame() is before, describe_stack(current_frame())


@law(AREA, "S f(x) = f(x) for every stack S of transformations that change no value", with_stack())
def stacks_keep_values(stack: Stack, f: Function, xs: Points) -> None:
    same(stack(f)(*xs), f(*xs))


@law(AREA, "grad(S f)(x) = grad(f)(x)", with_stack())
def stacks_keep_gradients(stack: Stack, f: Function, xs: Points) -> None:
    indices = tuple(range(len(xs)))
    same(effx.grad(weighted_sum_loss(stack(f)), indices)(*xs), effx.grad(weighted_sum_loss(f), indices)(*xs))


@law(AREA, "a box outside its frame's life is an error that names the handler", SMALL, compiles=True)
def boxes_do_not_escape(f: Function, xs: Points) -> None:
    escaped_boxes: list[Array] = []

    def keeping(*ys: Array) -> object:
        escaped_boxes.extend(ys)
        return f(*ys)

    runs: dict[str, Callable[[], object]] = {
        "jvp": lambda: effx.jvp(keeping, tuple(xs), directions(xs)),
        "make_jaxpr": lambda: effx.make_jaxpr(keeping)(*xs),
        "vmap": lambda: effx.vmap(keeping)(*[x[None] for x in xs]),
    }
    for name, run in runs.items():
        escaped_boxes.clear()
        run()
        assert name in str(error_raised_by(EscapedBoxError, lambda: enp.sin(escaped_boxes[0])))


@law(AREA, "a frame of h inside a frame of h does not touch the outer one's boxes", SMALL)
def frames_of_one_handler_are_apart(f: Function, xs: Points) -> None:
    vs = directions(xs)
    want = effx.jvp(f, tuple(xs), vs)

    def inner(*ys: Array) -> object:
        with handle(JVP()):
            return f(*ys)

    same(effx.jvp(inner, tuple(xs), vs), want)


@law(AREA, "d/dx (x * d/dy f(y) at y = c) = d/dy f(y) at c: perturbations are not confused", SMALL)
def perturbations_are_not_confused(f: Function, xs: Points) -> None:
    g = weighted_sum_loss(f)

    def outer(s: Array) -> Array:
        inner: Array = effx.grad(lambda y: g(y, *xs[1:]) * s)(xs[0])
        return s * inner.sum()

    slope = effx.grad(lambda y: g(y, *xs[1:]))(xs[0]).sum()
    same(effx.grad(outer)(enp.asarray(0.7)), 2 * 0.7 * slope)


@law(AREA, "isolated: f(x) is seen by no handler around", FLAT)
def isolation(f: Function, xs: Points) -> None:
    log = OperationLog()
    plain = [enp.asarray(x.host("law"), x.dtype) for x in xs]
    with handle(log):
        log.names.clear()
        with isolated():
            assert current_frame() is None
        assert current_frame() is not None
        with isolated(), handle(IdleHandler()) as frame:
            assert [each.handler for each in frame.outward()] == [IdleHandler()]
            evaluate(f, *plain)
    assert log.names == []


@law(AREA, "a handler of one thread is not in another", SMALL)
def threads_have_their_own_stacks(f: Function, xs: Points) -> None:
    seen: list[str] = []
    log = OperationLog()
    with handle(log):
        thread = threading.Thread(target=lambda: seen.append(describe_stack(current_frame())))
        thread.start()
        thread.join()
    assert seen == [""]
    assert log.names == []


@law(AREA, "psum over a name that no handler binds is an error under every stack", with_stack())
def unbound_names_are_errors(stack: Stack, f: Function, xs: Points) -> None:
    error = error_raised_by(AxisNameError, lambda: stack(lambda *ys: lax.psum(f(*ys), "nowhere"))(*xs))
    assert "'nowhere'" in str(error)


@law(AREA, "errors name the stack from the outermost handler to the innermost", SMALL)
def errors_name_the_stack(f: Function, xs: Points) -> None:
    def failing(*ys: Array) -> Array:
        return enp.sin(enp.zeros(3)) + enp.zeros((2, 2)) * ys[0].sum()

    batched = effx.make_jaxpr(lambda *ys: effx.vmap(failing)(*[y[None] for y in ys]))
    error = error_raised_by(EffxError, lambda: batched(*xs))
    names = [part.split("(")[0] for part in error.handlers.split(" > ")]
    assert names == ["reference", "make_jaxpr", "vmap"], error.handlers


@law(
    AREA,
    "of the rules for an operation's bases the most specific one is found, and the handler's own before its base's",
    st.tuples(st.sampled_from(operation_kinds())),
)
def specific_rules_win(kind: type[AnyOperation]) -> None:
    bases = [b for b in kind.__mro__ if issubclass(b, Operation)]
    table: RuleTable[str] = RuleTable("law")
    for base in reversed(bases):
        table.register(base)(base.__name__)
        assert table.find(kind) == base.__name__
    derived: RuleTable[str] = RuleTable("law", table)
    assert derived.find(kind) == kind.__name__
    derived.register(kind)("own")
    assert (derived.find(kind), table.find(kind)) == ("own", kind.__name__)


@law(AREA, "equal operations are equal keys: op = op', hash op = hash op'", operations())
def operations_are_values(op: AnyOperation, operands: Points) -> None:
    import copy

    twin = copy.copy(op)
    assert twin == op
    assert hash(twin) == hash(op)
    assert {op: 1}[twin] == 1


@law(AREA, "a box looks like the array that it stands for: same type under every handler", SMALL)
def boxes_keep_types(f: Function, xs: Points) -> None:
    want = [y.type for y in effx.tree.leaves(f(*xs))]
    with handle(JVP()) as frame:
        boxed = [Box(frame, Dual(x, v), x.type) for x, v in zip(xs, directions(xs), strict=True)]
        got = [y.type for y in effx.tree.leaves(f(*boxed))]
    assert all([a.matches(b) for a, b in zip(got, want, strict=True)]), (got, want)


@law(AREA, "NumPy's f(x) = Python's f(x): the reference opens calls, branches and loops", ANY)
def reference_opens_programs(f: Function, xs: Points) -> None:
    same(evaluate(f, *xs), python_form(f)(*xs))
