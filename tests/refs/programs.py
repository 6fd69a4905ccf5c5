"""Random programs that read and write references, and the same programs on values that are passed along.

A program is a block of statements on a number `acc` and arrays of three elements. `with_refs` runs it with references
and control flow that is staged; `passing` runs it with Python's loops and branches, on the arrays of any library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import attrs
import numpy as np
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import lax, ref

SIZE = 3
# What is done, to which ref, at which index, with which factor; or a kind of control flow, a number and two blocks.
Statement = tuple[Any, ...]
Block = tuple[Statement, ...]
Body = Callable[[Any], Any]


def blocks(depth: int = 3) -> st.SearchStrategy[Block]:
    """Programs with control flow nested up to a depth."""
    places = st.one_of(st.integers(-SIZE, SIZE - 1), st.just("acc"))
    simple = st.tuples(
        st.sampled_from(["get", "set", "add", "swap", "whole", "shift"]),
        st.integers(0, 3),
        places,
        st.integers(-2, 3),
    )
    if depth == 0:
        return st.lists(simple, max_size=2).map(tuple)
    inner = blocks(depth - 1)
    nested = st.tuples(
        st.sampled_from(["for", "scan", "while", "cond", "switch", "jit", "jit_of", "remat", "local"]),
        st.integers(0, 2),
        inner,
        inner,
    )
    return st.lists(st.one_of(simple, nested), max_size=3).map(tuple)


@final
@attrs.frozen
class Numbers:
    """How programs compute.

    Attributes:
        xp: NumPy or effx.numpy.
        step: keeps numbers small.
        exact: whether indices and branches depend on numbers; floating ones differ in the last digits.
    """

    xp: Any
    step: Callable[[Any], Any]
    exact: bool = True

    def place(self, index: int | str, acc: Any) -> Any:
        """Returns an index, which may depend on acc."""
        if index != "acc":
            return index
        return acc % SIZE if self.exact else 1

    def holds(self, n: int, acc: Any) -> Any:
        """Returns a condition."""
        return acc % 2 == n % 2 if self.exact else acc > n / 4


def integers(xp: Any) -> Numbers:
    """int32 numbers below 97."""
    return Numbers(xp, lambda x: x % 97)


SMOOTH = Numbers(enp, enp.sin, exact=False)


def with_refs(numbers: Numbers, block: Block, refs: Sequence[ref.Ref], acc: Any) -> Any:
    """Runs a program with references."""
    step = numbers.step

    def run(block: Block) -> Callable[..., Any]:
        return lambda acc: with_refs(numbers, block, refs, acc)

    for kind, n, *rest in block:
        if kind in ("get", "set", "add", "swap", "whole", "shift"):
            index, a = rest
            r = refs[n % len(refs)]
            i = numbers.place(index, acc)
            if kind == "get":
                acc = step(acc + a * r[i])
            elif kind == "set":
                r[i] = step(acc * a + 1)
            elif kind == "add":
                ref.addupdate(r, i, step(acc + a))
            elif kind == "swap":
                acc = step(acc + ref.swap(r, i, step(acc * a)))
            elif kind == "whole":
                r[...] = step(r[...] * a + acc)
            else:
                r[1:] = r[:-1]
            continue
        first, second = rest
        if kind == "for":
            acc = lax.fori_loop(0, n, partial(counted, run(first)), acc)
        elif kind == "scan":
            acc = lax.scan(partial(scanned, run(first)), acc, None, length=n)[0]
        elif kind == "while":
            # The condition reads a reference as well.
            acc = lax.while_loop(partial(fewer, n, refs[0]), partial(counting, run(first)), (0, acc))[1]
        elif kind == "cond":
            acc = lax.cond(numbers.holds(n, acc), run(first), run(second), acc)
        elif kind == "switch":
            branches = [run(first), run(second), lambda acc: acc]
            acc = lax.switch(n, branches, acc)
        elif kind == "jit":
            acc = effx.jit(run(first))(acc)
        elif kind == "jit_of":
            acc = effx.jit(partial(of_arguments, numbers, first))(acc, *refs)
        elif kind == "remat":
            acc = effx.checkpoint(run(first))(acc)
        else:
            mine = effx.new_ref(acc + numbers.xp.arange(SIZE).astype(acc.dtype))
            acc = with_refs(numbers, first, (mine, *refs), acc)
            acc = step(acc + mine[0] + mine[2])
    return acc


def counted(body: Body, i: Any, acc: Any) -> Any:
    return body(acc)


def scanned(body: Body, acc: Any, _: None) -> tuple[Any, None]:
    return body(acc), None


def fewer(n: int, r: ref.Ref, carry: tuple[Any, Any]) -> Any:
    return (carry[0] < n) & (r[0] > -(10**6))


def counting(body: Body, carry: tuple[Any, Any]) -> tuple[Any, Any]:
    return carry[0] + 1, body(carry[1])


def of_arguments(numbers: Numbers, block: Block, acc: Any, *refs: ref.Ref) -> Any:
    return with_refs(numbers, block, refs, acc)


def passing(numbers: Numbers, block: Block, arrays: list[Any], acc: Any) -> Any:
    """Runs a program on arrays, each of which is replaced in the list where it would be written."""
    step, xp = numbers.step, numbers.xp
    for kind, n, *rest in block:
        if kind in ("get", "set", "add", "swap", "whole", "shift"):
            index, a = rest
            k = n % len(arrays)
            x = arrays[k]
            i = numbers.place(index, acc)
            here = xp.arange(SIZE) == (int(i) % SIZE)
            old = x[int(i)]
            if kind == "get":
                acc = step(acc + a * old)
            elif kind == "set":
                arrays[k] = xp.where(here, step(acc * a + 1), x)
            elif kind == "add":
                arrays[k] = xp.where(here, x + step(acc + a), x)
            elif kind == "swap":
                arrays[k] = xp.where(here, step(acc * a), x)
                acc = step(acc + old)
            elif kind == "whole":
                arrays[k] = step(x * a + acc)
            else:
                arrays[k] = xp.concatenate([x[:1], x[:-1]])
            continue
        first, second = rest
        if kind in ("for", "scan", "while"):
            for _ in range(n):
                acc = passing(numbers, first, arrays, acc)
        elif kind == "cond":
            acc = passing(numbers, first if bool(numbers.holds(n, acc)) else second, arrays, acc)
        elif kind == "switch":
            acc = passing(numbers, (first, second, ())[n], arrays, acc)
        elif kind in ("jit", "jit_of", "remat"):
            acc = passing(numbers, first, arrays, acc)
        else:
            mine = [acc + xp.arange(SIZE).astype(acc.dtype), *arrays]
            acc = passing(numbers, first, mine, acc)
            arrays[:] = mine[1:]
            acc = step(acc + mine[0][0] + mine[0][2])
    return acc


STARTS = (np.asarray([3, 1, 4], np.int32), np.asarray([15, 92, 65], np.int32))
