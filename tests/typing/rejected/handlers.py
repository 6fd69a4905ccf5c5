"""Rules with the wrong operation, payload, result, site or state are errors."""

import attrs

import effx.numpy as enp
from effx import Array
from effx.handling import (
    BoxHandler,
    InterceptHandler,
    Site,
    Tangent,
    TupleOperation,
    Unary,
    Vmap,
    jvp_rule,
    mask,
    named_function,
    vmap_rule,
)
from effx.ir.ops.elementwise import Add, Mul, Sin
from effx.ir.ops.shape import Concatenate


@attrs.frozen
class Bounds:
    low: Array
    high: Array


@attrs.frozen
class Interval(BoxHandler[Bounds]):
    def lift(self, x: Array) -> Bounds:
        return Bounds(x, x)


@attrs.frozen
class Lifts(BoxHandler[Bounds]):
    def lift(self, x: Array) -> Array:  # expect: override
        return x


@Interval.rule(Add)  # expect: arg-type "Callable[[Mul, Bounds, Bounds], Bounds]"
def another_operation(op: Mul, x: Bounds, y: Bounds) -> Bounds:
    return x


@Interval.rule(Add)  # expect: arg-type "Callable[[Add, int, int], Bounds]"
def another_payload(op: Add, x: int, y: int) -> Bounds:
    return Bounds(enp.zeros(()), enp.zeros(()))


@Interval.rule(Add)  # expect: arg-type "Callable[[Add, Bounds, Bounds], int]"
def another_result(op: Add, x: Bounds, y: Bounds) -> int:
    return 3


@Interval.rule(Concatenate)  # expect: arg-type
def another_variadic(op: Concatenate, *xs: str) -> Bounds:
    return Bounds(enp.zeros(()), enp.zeros(()))


@Interval.rule(Add)  # expect: arg-type
def site_without_asking(site: Site[Interval, None], op: Add, x: Bounds, y: Bounds) -> Bounds:
    return x


@Interval.site_rule(Sin)  # expect: arg-type
def no_site(op: Sin, x: Bounds) -> Bounds:
    return x


@attrs.frozen
class Count(InterceptHandler[Array]):
    def initial(self) -> int:  # expect: override
        return 0


@Count.rule(Sin)  # expect: arg-type
def another_handler(site: Site[Interval, None], op: Sin, x: Array) -> Array:
    return x


@Count.rule(Sin)  # expect: arg-type
def another_state(site: Site[Count, int], op: Sin, x: Array) -> Array:
    site.state = site.state + 1
    return op(x)


@Count.rule(Sin)
def wrong_assignment(site: Site[Count, Array], op: Sin, x: Array) -> Array:
    site.state = "one more"  # expect: assignment
    return op(x)


@Count.rule(Add)  # expect: arg-type
def no_array(site: Site[Count, Array], op: Add, x: Array, y: Array) -> str:
    return ""


@named_function
def step(x: Array) -> Array:
    return x


def calls() -> None:
    Interval.rule("add")  # expect: call-overload
    mask(Interval())  # expect: arg-type
    step("one")  # expect: arg-type
    step(enp.zeros(()), 2)  # expect: call-arg


class Twice(Unary):
    __slots__ = ()


@attrs.frozen
class Pair(TupleOperation): ...


@jvp_rule(Pair)  # expect: arg-type
def one_result(op: Pair, xs: tuple[Array, ...], dxs: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    return xs[0], dxs[0]


@jvp_rule(Twice)  # expect: arg-type
def two_results(
    op: Twice, xs: tuple[Array, ...], dxs: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    return xs, dxs


@vmap_rule(Pair)  # expect: arg-type
def one_axis(
    handler: Vmap, op: Pair, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[Array, int | None]:
    return values[0], axes[0]
