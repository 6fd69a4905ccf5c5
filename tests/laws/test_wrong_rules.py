"""`check_handler` finds a nonsense rule for any operation, whatever hypothesis draws, and says what it ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import attrs
import pytest

import effx.numpy as enp
from effx import Array, lax
from effx.families.convolution import Convolution
from effx.families.sort import Sort
from effx.families.topk import TopK
from effx.handlers.authoring.boxing import BoxHandler, Default
from effx.handlers.authoring.intercepting import InterceptHandler
from effx.handlers.authoring.site import Site
from effx.ir.ops import elementwise as e
from effx.ir.ops import shape as s
from effx.ir.ops.base import Linear, Unary
from effx.ir.ops.collective import PSum
from effx.ir.ops.compare import Lt
from effx.ir.ops.index import Gather
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.reduce import ArgMax, CumSum, ReduceMax, ReduceMin, ReduceSum
from effx.laws import LawError, check_handler
from effx.laws.instances import instances_of


@attrs.frozen
class Carried:
    value: Array


class Carrying(BoxHandler[Carried]):
    """The base of handlers that carry values."""

    def lift(self, x: Array) -> Carried:
        return Carried(x)


def handler_with(kind: type[Any], rule: Callable[..., Any]) -> BoxHandler[Carried]:
    """Returns a handler with one rule, a function of the operation and the values."""

    @attrs.frozen
    class Ruled(Carrying):
        pass

    def carry(op: Any, *xs: Carried) -> Any:
        y = rule(op, *[x.value for x in xs])
        return tuple([Carried(part) for part in y]) if op.multiple else Carried(y)

    Ruled.rule(kind)(carry)
    return Ruled()


NONSENSE: dict[str, tuple[type[Any], Callable[..., Any]]] = {
    "max_is_min": (e.Max, lambda op, x, y: e.Min()(x, y)),
    "min_is_max": (e.Min, lambda op, x, y: e.Max()(x, y)),
    "max_is_first": (e.Max, lambda op, x, y: x + enp.zeros_like(y)),
    "abs_is_identity": (e.Abs, lambda op, x: x),
    "square_is_identity": (e.Square, lambda op, x: x),
    "sign_of_zero": (e.Sign, lambda op, x: enp.where(x < 0, -1.0, 1.0).astype(x.dtype)),
    "floor_is_ceil": (e.Floor, lambda op, x: e.Ceil()(x)),
    "sub_is_reversed": (e.Sub, lambda op, x, y: op(y, x)),
    "pow_is_reversed": (e.Pow, lambda op, x, y: op(y, x)),
    "integer_pow_is_square": (e.IntegerPow, lambda op, x: x * x),
    "clamp_ignores_the_upper_bound": (e.Clamp, lambda op, low, x, high: e.Max()(low, x)),
    "select_is_swapped": (e.Select, lambda op, which, *xs: op(which, *reversed(xs))),
    "reduce_max_is_min": (ReduceMax, lambda op, x: ReduceMin(op.axes)(x)),
    "reduce_sum_ignores_axes": (ReduceSum, lambda op, x: enp.sum(x, 0) if len(op.axes) == 1 else op(x)),
    "reduce_sum_of_all": (ReduceSum, lambda op, x: op(enp.zeros_like(x) + enp.mean(x))),
    "arg_max_counts_from_the_end": (ArgMax, lambda op, x: op(enp.flip(x, op.axis))),
    "cum_sum_ignores_reverse": (CumSum, lambda op, x: CumSum(op.axis)(x)),
    "cum_sum_along_the_first_axis": (CumSum, lambda op, x: CumSum(0, op.reverse)(x)),
    "pad_with_zero": (s.Pad, lambda op, x, value: op(x, enp.zeros_like(value))),
    "concatenate_is_reversed": (s.Concatenate, lambda op, *xs: op(*reversed(xs))),
    "transpose_is_inverse": (
        s.Transpose,
        lambda op, x: enp.transpose(x, tuple([op.perm.index(i) for i in range(len(op.perm))])),
    ),
    "transpose_of_elements": (s.Transpose, lambda op, x: enp.reshape(x, op(x).shape)),
    "reverse_of_all_axes": (s.Reverse, lambda op, x: enp.flip(x)),
    "slice_ignores_steps": (
        s.Slice,
        lambda op, x: x[tuple([slice(i, i + n) for i, n in zip(op.start, op(x).shape, strict=True)])],
    ),
    "dynamic_slice_from_zero": (s.DynamicSlice, lambda op, x, *starts: op(x, *[0 * i for i in starts])),
    "dynamic_update_slice_is_lost": (s.DynamicUpdateSlice, lambda op, x, *rest: x),
    "sort_is_descending": (
        Sort,
        lambda op, *xs: tuple([enp.flip(y, op.axis) for y in enp_leaves(op(*xs))]),
    ),
    "top_k_is_smallest": (TopK, lambda op, x: (-op(-x)[0], op(-x)[1])),
    "dot_general_transposed": (
        DotGeneral,
        lambda op, x, y: enp.reshape(op(x, y).T, op(x, y).shape),
    ),
    "gather_of_the_first": (Gather, lambda op, x, starts: op(x, 0 * starts)),
    "convolution_of_flipped": (Convolution, lambda op, x, y: op(x, enp.flip(y))),
    "complex_is_conjugated": (e.Complex, lambda op, x, y: op(x, -y)),
}


def enp_leaves(value: Any) -> list[Array]:
    """Returns the arrays of a result."""
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("name", NONSENSE)
def test_a_nonsense_rule_is_found(name: str) -> None:
    """By laws of single operations, which draw nothing: not even one example of programs is needed."""
    with pytest.raises(LawError) as found:
        check_handler(handler_with(*NONSENSE[name]), examples=1)
    assert found.value.law in ("rules_map_lifts_to_lifts", "rules_keep_types")
    assert f"import {NONSENSE[name][0].__name__}" in found.value.reproduction


@pytest.mark.parametrize("kind", dict.fromkeys([kind for kind, _ in NONSENSE.values()]))
def test_a_right_rule_passes(kind: type[Any]) -> None:
    """What the rule must give is what the operation gives."""
    report = check_handler(handler_with(kind, lambda op, *xs: op(*xs)), examples=1, skip=["handlers_compile"])
    assert report.not_run == {}
    (operation,) = report.operations
    assert operation.operation == kind.name
    assert operation.checks > operation.settings > 0


@pytest.mark.parametrize("key", ["operand", "result"])
def test_a_memo_without_parameters_is_found(key: str) -> None:
    """What a rule remembers for one value of `axes` it uses for another, of operands or results of the same type."""
    memo: dict[object, Any] = {}

    def remembered(op: Any, x: Array) -> Array:
        found = memo.setdefault((type(op), (x if key == "operand" else op(x)).type), op)
        result: Array = found(x)
        return result

    with pytest.raises(LawError):
        check_handler(handler_with(ReduceSum, remembered), examples=1)


@attrs.frozen
class Bounds:
    low: Array
    high: Array


class Bounding(BoxHandler[Bounds]):
    """The base of handlers that bound values."""

    default: ClassVar[Default] = "error"

    def lift(self, x: Array) -> Bounds:
        return Bounds(x, x)


def bounds_with(kind: type[Any], rule: Callable[..., Bounds]) -> BoxHandler[Bounds]:
    """Returns a handler of bounds with one rule."""

    @attrs.frozen
    class Ruled(Bounding):
        pass

    Ruled.rule(kind)(rule)
    return Ruled()


def around(x: Array) -> Bounds:
    return Bounds(x - 0.1, x + 0.2)


def contains(p: Bounds, x: Array) -> bool:
    return bool(((p.low - 1e-9 <= x) & (x <= p.high + 1e-9)).all())


def ordered(x: Array, y: Array) -> Bounds:
    return Bounds(enp.minimum(x, y), enp.maximum(x, y))


# All hold for the result at the middle of the operands, where no end is looked at.
UNSOUND: dict[str, tuple[type[Any], Callable[..., Bounds]]] = {
    "exp_of_the_middle": (e.Exp, lambda op, x: around(op((x.low + x.high) * 0.5))),
    "floor_of_a_point": (e.Floor, lambda op, x: Bounds(op(x.low + 0.1), op(x.low + 0.1))),
    "max_with_the_upper_end_of_one": (
        e.Max,
        lambda op, x, y: Bounds(op(x.low, y.low), op(x.high, y.low + 0.1)),
    ),
    "mul_of_the_same_ends": (e.Mul, lambda op, x, y: ordered(op(x.low, y.low), op(x.high, y.high))),
    "sub_of_the_same_ends": (e.Sub, lambda op, x, y: ordered(op(x.low, y.low), op(x.high, y.high))),
    "reduce_max_of_a_mean": (
        ReduceMax,
        lambda op, x: Bounds(op(x.low + 0.1), op(x.low + 0.1)),
    ),
    "dot_of_the_same_ends": (
        DotGeneral,
        lambda op, x, y: ordered(op(x.low, y.low), op(x.high, y.high)),
    ),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_an_unsound_rule_is_found(name: str) -> None:
    """By what its operands' payloads hold for besides the value that they were made of."""
    handler = bounds_with(*UNSOUND[name])
    with pytest.raises(LawError) as found:
        check_handler(handler, payload=around, relation=contains, exact=False, examples=1)
    assert found.value.law == "rules_are_sound"


def test_a_rule_that_is_wrong_at_infinity_is_found() -> None:
    """The hyperbolic tangent by exponentials is NaN there."""

    def by_exponentials(op: e.Tanh, x: Bounds) -> Bounds:
        low, high = [enp.exp(v) for v in (x.low, x.high)]
        return Bounds((low - 1 / low) / (low + 1 / low), (high - 1 / high) / (high + 1 / high))

    handler = bounds_with(e.Tanh, by_exponentials)
    with pytest.raises(LawError) as found:
        check_handler(handler, payload=around, relation=contains, exact=False, examples=1)
    assert found.value.law == "rules_are_sound_at_infinity"
    check_handler(
        handler,
        payload=around,
        relation=contains,
        exact=False,
        examples=1,
        skip=["rules_are_sound_at_infinity", "handlers_compile"],
    )


def test_rules_of_traits_are_for_each_operation() -> None:
    """A rule that holds for all operations of a trait but one is found by that one."""
    with pytest.raises(LawError) as found:
        check_handler(
            handler_with(Linear, lambda op, *xs: -op(*xs) if isinstance(op, s.Reshape) else op(*xs)),
            examples=1,
        )
    assert "Reshape" in found.value.reproduction


def test_what_did_not_run_is_listed() -> None:
    """Collectives need an axis; an operation that no sample is for says how to give one; refusals have a reason."""

    class Unknown(Unary):
        """With parameters, so that no instance can be made."""

        __slots__ = ("by",)

        def __init__(self, by: float) -> None:
            self.by = by

    def refusing(op: Any, *xs: Carried) -> Carried:
        if isinstance(op, ReduceSum) and op.axes == (1,):
            return Carried(lax.psum(xs[0].value, "nowhere"))
        return Carried(op(*[x.value for x in xs]))

    @attrs.frozen
    class Partial(Carrying):
        pass

    Partial.rule(e.Neg, ReduceSum, PSum, Unknown)(refusing)
    report = check_handler(Partial(), examples=1, skip=["handlers_compile"])
    assert report.not_run == {
        "psum": "nothing says how to draw PSum: it needs a named axis",
        "unknown": "nothing says how to draw Unknown: see effx.laws.register",
    }
    lines = str(report).splitlines()
    assert "2 operations with a rule ran, 2 did not" in lines
    (line,) = [line for line in lines if line.startswith("  reduce_sum: ")]
    assert "refused: ReduceSum(axes=(1,), unreduced=()) of (" in line
    assert lines[-2:] == [f"  {name}: did not run: {reason}" for name, reason in report.not_run.items()]


def test_operations_of_users_are_drawn() -> None:
    """An elementwise class without parameters needs no registration."""

    class Halved(Unary):
        __slots__ = ()
        kinds = "f"

        def decompose(self, *operands: Any) -> Array:
            result: Array = operands[0] * 0.5
            return result

    with pytest.raises(LawError) as found:
        check_handler(handler_with(Halved, lambda op, x: x), examples=1)
    assert found.value.law == "rules_map_lifts_to_lifts"


def test_a_rule_that_is_wrong_in_one_program_is_found() -> None:
    """What it remembers of a program serves for other parameters there."""

    @attrs.frozen
    class Remembering(Carrying):
        pass

    @Remembering.site_rule(CumSum)
    def _(site: Site[Remembering, None], op: CumSum, x: Carried) -> Carried:
        first: CumSum = site.memory.setdefault("first", op)
        return Carried(first(x.value))

    with pytest.raises(LawError):
        check_handler(Remembering(), examples=1)


def test_intercepting_rules_are_found() -> None:
    """A neutral handler that changes one operation."""

    @attrs.frozen
    class Swapping(InterceptHandler[None]):
        pass

    @Swapping.rule(Lt)
    def _(site: Site[Swapping, None], op: Lt, x: Array, y: Array) -> Array:
        return y < x

    with pytest.raises(LawError) as found:
        check_handler(Swapping(), neutral=True, examples=1)
    assert found.value.law == "interceptors_that_forward_are_neutral"
    assert "Lt" in found.value.reproduction


def test_instances_have_every_parameter() -> None:
    """All axes of one operand, both directions, and paddings of both signs."""
    axes = {(x.op.axes, x.types[0].shape) for x in instances_of(ReduceSum)}  # type: ignore[attr-defined]  # a reduction
    assert axes == {(a, n) for a in ((), (0,), (1,), (0, 1)) for n in ((2, 3), (2, 2))}
    assert {(x.op.axis, x.op.reverse) for x in instances_of(CumSum)} >= {  # type: ignore[attr-defined]  # a sum
        (0, False),
        (1, False),
        (0, True),
        (1, True),
    }
    assert {x.op.perm for x in instances_of(s.Transpose) if x.types[0].kind == "f"} >= {  # type: ignore[attr-defined]  # a transpose
        (1, 2, 0),
        (2, 0, 1),
    }
    lows = {low for x in instances_of(s.Pad) for low in x.op.low}  # type: ignore[attr-defined]  # a padding
    assert lows == {-1, 0, 1, 2}
