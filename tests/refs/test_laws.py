"""Random programs with references do what the same programs do on values that are passed along."""

from __future__ import annotations

import faulthandler
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import effx
import effx.numpy as enp
from effx import lax, ref
from tests.refs.programs import SMOOTH, STARTS, Block, blocks, integers, passing, with_refs

LIMIT = 120  # seconds: what hangs ends the process with the stacks of its threads
NUMBERS, ORACLE = integers(enp), integers(np)
FEW = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """Ends the process where a test hangs."""
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def closing(block: Block, refs: tuple[ref.Ref, ...]) -> Callable[[Any], Any]:
    return lambda acc: with_refs(NUMBERS, block, refs, acc)


def eagerly(block: Block, refs: tuple[ref.Ref, ...], acc: Any) -> Any:
    return closing(block, refs)(acc)


def jitted(block: Block, refs: tuple[ref.Ref, ...], acc: Any) -> Any:
    return effx.jit(closing(block, refs))(acc)


def of_arguments(block: Block, refs: tuple[ref.Ref, ...], acc: Any) -> Any:
    return effx.jit(lambda acc, *rs: with_refs(NUMBERS, block, rs, acc))(acc, *refs)


def in_a_loop(block: Block, refs: tuple[ref.Ref, ...], acc: Any) -> Any:
    return lax.scan(lambda c, _: (closing(block, refs)(c), None), acc, None, length=1)[0]


def under_grad(block: Block, refs: tuple[ref.Ref, ...], acc: Any) -> Any:
    # What is written does not depend on what is differentiated by.
    return effx.grad(lambda x, a: (x, closing(block, refs)(a)), has_aux=True)(1.0, acc)[1]


FORMS = (eagerly, jitted, of_arguments, in_a_loop, under_grad)


@pytest.mark.parametrize("form", FORMS)
@FEW
@given(block=blocks())
def test_references_are_arrays_that_are_passed_along(form: Callable[..., Any], block: Block) -> None:
    """The number and all contents are those of NumPy, wherever the program runs."""
    refs = tuple([effx.new_ref(x) for x in STARTS])
    arrays = list(STARTS)
    expected = passing(ORACLE, block, arrays, np.int32(5))
    result = form(block, refs, enp.int32(5))
    assert int(result) == int(expected)
    for r, x in zip(refs, arrays, strict=True):
        np.testing.assert_array_equal(r[...], x)


@FEW
@given(block=blocks(2))
def test_a_batch_is_its_elements(block: Block) -> None:
    """vmap over references and numbers, jitted or not, gives each element what it gives alone."""
    starts = [np.stack([x, x[::-1] + 1]) for x in STARTS]
    accs = np.asarray([5, 8], np.int32)
    refs = tuple([effx.new_ref(x) for x in starts])
    again = tuple([effx.new_ref(x) for x in starts])
    batched = effx.vmap(lambda acc, *rs: with_refs(NUMBERS, block, rs, acc))
    found, found_again = batched(accs, *refs), effx.jit(batched)(accs, *again)
    for i in range(2):
        arrays = [x[i] for x in starts]
        assert int(found[i]) == int(found_again[i]) == int(passing(ORACLE, block, arrays, accs[i]))
        for r, s, x in zip(refs, again, arrays, strict=True):
            np.testing.assert_array_equal(r[i], x)
            np.testing.assert_array_equal(s[i], x)


@FEW
@given(block=blocks(2))
def test_gradients_are_those_of_values_that_are_passed_along(block: Block) -> None:
    """Of refs that are made inside; in both modes, jitted or not."""

    def mutating(x: effx.Array) -> Any:
        refs = tuple([effx.new_ref(x * k) for k in (1.0, 0.5)])
        acc = with_refs(SMOOTH, block, refs, x.sum())
        return acc + sum([r[...].sum() for r in refs])

    def pure(x: effx.Array) -> Any:
        arrays = [x * k for k in (1.0, 0.5)]
        acc = passing(SMOOTH, block, arrays, x.sum())
        return acc + sum([y.sum() for y in arrays])

    x = enp.array([0.3, -0.4, 0.7])
    expected = effx.grad(pure)(x)
    np.testing.assert_allclose(mutating(x), pure(x), rtol=1e-4, atol=1e-4)
    # A while loop has no transpose.
    modes = (
        (effx.jacfwd(mutating),)
        if "while" in repr(block)
        else (effx.grad(mutating), effx.jit(effx.grad(mutating)))
    )
    for gradient in modes:
        np.testing.assert_allclose(gradient(x), expected, rtol=2e-3, atol=2e-3)
