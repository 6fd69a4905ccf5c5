"""Operands and results of loops and solutions, taken apart in groups and put together again."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import lax
from effx.ir.ops.control import Loop, Region, Scan, While, higher_order_operations
from effx.ir.ops.groups import LoopOperands, split_into
from effx.ir.program import Program

ITEMS = st.lists(st.integers(), unique=True, max_size=9)


@given(ITEMS, ITEMS, ITEMS)
def test_parts_join_to_the_whole(first: list[int], second: list[int], rest: list[int]) -> None:
    """Parts have the sizes asked for, and one after another they are the whole."""
    parts = split_into([*first, *second, *rest], len(first), len(second))
    assert parts == [first, second, rest]


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4), st.data())
def test_selected_operands_keep_group_and_order(c: int, n: int, k: int, data: st.DataObject) -> None:
    """Each operand is either selected or not, in its group and in order; picked by number they are the same ones."""
    numbers = list(range(c + n + k))
    operands = LoopOperands(tuple(numbers[:c]), tuple(numbers[c : c + n]), tuple(numbers[c + n :]))
    assert operands.join() == tuple(numbers)
    mask = operands.map(lambda _: data.draw(st.booleans()))
    chosen, others = operands.select(mask), operands.select(mask.map(lambda m: not m))
    assert sorted((*chosen.join(), *others.join())) == numbers
    for group, chosen_group, other_group in zip(operands.groups, chosen.groups, others.groups, strict=True):
        assert [x for x in group if x in chosen_group] == list(chosen_group)
        assert set(chosen_group).isdisjoint(other_group)
    assert operands.select_listed(chosen.join()) == chosen
    assert chosen.group_like([str(x) for x in chosen.join()]) == chosen.map(str)


def test_picked_operands_have_the_order_of_the_choice() -> None:
    """Operands that are picked by number stand in the order in which they are named, group by group."""
    assert LoopOperands((0, 1), (2,), (3, 4)).select_listed([4, 1, 3, 0]) == LoopOperands((1, 0), (), (4, 3))


def find_loop(program: Program) -> Loop:
    """Returns the one loop in a program, in whatever it calls."""
    pending = list(higher_order_operations(program))
    while pending:
        op = pending.pop()
        if isinstance(op, Loop):
            return op
        pending += [inner for p in op.programs for inner in higher_order_operations(p)]
    raise AssertionError("no loop")


@pytest.mark.parametrize("kind", [Scan, While])
def test_operands_of_a_loop(kind: type[Loop]) -> None:
    """A loop's operands, the inputs of its body and of the region that describes it are in the same groups."""

    def run(w: effx.Array, x: effx.Array) -> object:
        if kind is While:
            return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, w * c[1]), (0, x[0]))
        return lax.scan(lambda c, row: (c * row + w, (c, row + w)), w, x)

    op = find_loop(effx.make_jaxpr(run)(enp.ones(()), enp.ones(4)))
    assert type(op) is kind
    types = op.group_operands(op.in_types)
    inner = op.group_operands(op.body.in_types)
    assert (inner.constants, inner.carry) == (types.constants, types.carry)
    assert [t.shape for t in types.xs] == [(4, *t.shape) for t in inner.xs]
    assert op.carries == len(types.carry) == len(op.group_results(op.infer(*op.in_types)).carry)
    (region,) = op.regions
    assert isinstance(region, Region)
    assert region.group_operands(op.in_types) == types
    assert region.group_results(op.body.out_types) == op.group_results(op.body.out_types)


def test_scan_of_another_body() -> None:
    """A scan of another body has its length and direction, and as many constants and carries as the body takes."""
    program = effx.make_jaxpr(lambda x: lax.scan(lambda c, row: (c + row, c), 0.0, x, reverse=True))(
        enp.ones(5)
    )
    op = find_loop(program)
    assert isinstance(op, Scan)
    other = op.with_body(op.body, attrs.evolve(op.group_operands(op.body.inputs), constants=()))
    assert (other.length, other.reverse, other.carries, other.constants) == (5, True, 1, 0)
