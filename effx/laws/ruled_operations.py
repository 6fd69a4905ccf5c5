"""The operations that a handler has rules for, and how each runs under it: with which parameters, operands and boxes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import final

import attrs

from effx.array import Array
from effx.effects import handle
from effx.errors import EffxError, PayloadError
from effx.flags import enable_x64
from effx.handlers.authoring.coverage import coverage
from effx.handlers.authoring.rule_handler import RuledHandler
from effx.handlers.oracle import Reference
from effx.ir.catalogue import operation_classes
from effx.ir.ops.base import Elementwise
from effx.ir.ops.collective import Collective
from effx.laws.drawing import AnyOperation
from effx.laws.instances import Instance, builder_of, instances_of
from effx.laws.registry import Case, NumPyFirst
from effx.laws.special_points import finite_points, infinite_points, smooth_points
from effx.laws.subjects import HandlerSubject, InterceptSubject
from effx.tree.registry import PyTree

Kind = type[AnyOperation]
Points = Callable[[Instance], Sequence[tuple[Array, ...]]]
MOST_VARIANTS = 4  # which operands are boxed
MOST_COMPILED = 1  # instances of an operation that runs on XLA, variants of each, and points


@final
@attrs.frozen(eq=False)
class RunnableInstance:
    """An instance that runs under a handler.

    Attributes:
        instance: the operation with the types of its operands.
        boxed: for each way to run it, the indices of the operands that are boxed; none under a handler without boxes.
    """

    instance: Instance
    boxed: tuple[tuple[int, ...], ...]


@final
@attrs.frozen(eq=False)
class RuledOperation:
    """A class of operations that a handler has a rule for.

    Attributes:
        kind: the class.
        runnable: the instances that run.
        refused: the others, each with the reason.
        reason: why there are no instances.
    """

    kind: Kind
    runnable: tuple[RunnableInstance, ...] = ()
    refused: tuple[tuple[Instance, str], ...] = ()
    reason: str = ""


def kinds_with_rules(handler: type[RuledHandler[PyTree]]) -> list[Kind]:
    """Lists the classes of operations that a handler has a rule for: its own rule, or that of a trait or base class.

    Of users' operations those that have a rule of their own are listed.
    """
    known = operation_classes()
    kinds: list[Kind] = [t.operation for t in coverage(handler).treatments if t.how in ("rule", "trait")]
    for base in handler.__mro__:
        if issubclass(base, RuledHandler):
            kinds += [
                kind
                for kind in base.rules.own_rules()
                if kind not in kinds and kind not in known and not any([issubclass(k, kind) for k in known])
            ]
    return kinds


@contextmanager
def on_reference() -> Iterator[None]:
    """Runs a block as laws run: on the NumPy reference, in 64 bits."""
    with enable_x64(True), handle(NumPyFirst()):
        yield


def list_ruled_operations(subject: HandlerSubject | InterceptSubject) -> list[RuledOperation]:
    """Lists the operations that a handler has a rule for, with the instances that run under it, which is tried."""
    return [_find_runnable(subject, kind) for kind in kinds_with_rules(type(subject.handler))]


def _find_runnable(subject: HandlerSubject | InterceptSubject, kind: Kind) -> RuledOperation:
    if builder_of(kind) is None:
        advice = "it needs a named axis" if issubclass(kind, Collective) else "see effx.laws.register"
        return RuledOperation(kind, reason=f"nothing says how to draw {kind.__name__}: {advice}")
    runnable: list[RunnableInstance] = []
    refused: list[tuple[Instance, str]] = []
    with on_reference():
        for instance in _instances_for(subject, kind):
            boxed, reason = (
                _find_variants(subject, instance)
                if isinstance(subject, HandlerSubject)
                else _try_interceptor(subject, instance)
            )
            if boxed:
                runnable.append(RunnableInstance(instance, boxed))
            else:
                refused.append((instance, reason))
    return RuledOperation(kind, tuple(runnable), tuple(refused))


def _instances_for(subject: HandlerSubject | InterceptSubject, kind: Kind) -> Sequence[Instance]:
    """Returns the instances with the kinds of numbers that a handler is for; all of them if there are none."""
    instances = instances_of(kind)
    if isinstance(subject, HandlerSubject):
        instances = tuple([x for x in instances if x.kind in subject.kinds]) or instances
    return instances[:MOST_COMPILED] if is_compiled(kind) else instances


def is_compiled(kind: Kind) -> bool:
    """Says whether an elementwise operation runs on XLA, because it has no reference: an incomplete gamma function, say,
    which takes seconds to compile for each type of operands.
    """
    return issubclass(kind, Elementwise) and Reference.rules.find(kind) is None


def _find_variants(subject: HandlerSubject, instance: Instance) -> tuple[tuple[tuple[int, ...], ...], str]:
    """Returns which operands may be boxed: all, floats only, one of several; and why none may."""
    every = range(len(instance.types))
    kinds = subject.kinds + instance.kind
    fitting = tuple(
        [i for i in every if instance.types[i].kind in kinds and subject.represents(instance.types[i])]
    )
    floats = tuple([i for i in fitting if instance.types[i].kind in "fc"])
    strange = [t for i, t in enumerate(instance.types) if t.kind in "fc" and i not in fitting]
    if strange:
        return (), f"the payload of {strange[0]!r} stands for another type"
    variants = dict.fromkeys([fitting, floats, *[(i,) for i in fitting]])
    operands = instance.operands(0)
    most = MOST_COMPILED if is_compiled(type(instance.op)) else MOST_VARIANTS
    runnable: list[tuple[int, ...]] = []
    reason = "it has no operands" if not every else "the payload of no operand has its type"
    for boxed in variants:
        if not boxed or len(runnable) == most:
            continue
        try:
            subject.apply(instance.op, operands, boxed)
        except PayloadError:
            runnable.append(boxed)  # a law reports it
        except EffxError as error:
            reason = error.message
        else:
            runnable.append(boxed)
    return tuple(runnable), reason


def _try_interceptor(
    subject: InterceptSubject, instance: Instance
) -> tuple[tuple[tuple[int, ...], ...], str]:
    try:
        subject.handler.run(instance.op, *instance.operands(0))
    except EffxError as error:
        return (), error.message
    return ((),), ""


def list_rule_cases(
    subject: HandlerSubject, operations: Sequence[RuledOperation], points: Points, wide: bool = False
) -> list[Case]:
    """Lists the cases of laws on single operations: the handler, an operation, operands, and which are boxed.

    Args:
        subject: the handler.
        operations: those that it has rules for.
        points: operands for an instance.
        wide: True for real numbers of 64 bits, integers and bools only, which relations are about.
    """
    cases: list[Case] = []
    with on_reference():
        for operation in operations:
            for runnable in operation.runnable:
                if wide and not runnable.instance.is_judged:
                    continue
                operands = points(runnable.instance)[: MOST_COMPILED if is_compiled(operation.kind) else None]
                cases += [(subject, runnable.instance.op, xs, runnable.boxed[0]) for xs in operands]
                cases += [
                    (subject, runnable.instance.op, operands[0], boxed)
                    for boxed in runnable.boxed[1:]
                    if operands
                ]
    return cases


@final
@attrs.frozen(eq=False)
class RuleCases:
    """The fixed cases of the laws on single operations.

    Attributes:
        smooth: at points of the operations' domains.
        finite: at others too, on 64 bits.
        infinite: with infinities, on 64 bits.
    """

    smooth: tuple[Case, ...]
    finite: tuple[Case, ...]
    infinite: tuple[Case, ...]


def list_all_rule_cases(subject: HandlerSubject, operations: Sequence[RuledOperation]) -> RuleCases:
    """Lists the fixed cases of a handler."""
    return RuleCases(
        tuple(list_rule_cases(subject, operations, smooth_points)),
        tuple(list_rule_cases(subject, operations, finite_points, wide=True)),
        tuple(list_rule_cases(subject, operations, infinite_points, wide=True)),
    )
