"""The order in which `einsum` contracts: by a search, by a path, and none, all of one value."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import DTypeError, ShapeError

# Terms, and the sizes of their labels.
PRODUCTS = [
    ("ij,jk,kl,lm->im", {"i": 2, "j": 3, "k": 4, "l": 5, "m": 2}),
    ("ij,jk,ki->", {"i": 2, "j": 3, "k": 1}),
    ("ii,ij,j,jk", {"i": 3, "j": 2, "k": 4}),
    ("ab,c,bd,d->ca", {"a": 1, "b": 2, "c": 3, "d": 2}),
    ("ij,jk,kl->il", {"i": 2, "j": 0, "k": 3, "l": 2}),
    ("...ij,...jk,kl->...il", {"i": 2, "j": 3, "k": 2, "l": 2}),
    ("a,a,a,b->b", {"a": 3, "b": 1}),
]


def operands(subscripts: str, sizes: dict[str, int], dtype: str = "float32") -> list[Any]:
    rng = np.random.default_rng(len(subscripts))
    shapes = [
        (2,) * ("..." in term) + tuple([sizes[c] for c in term.replace("...", "")])
        for term in subscripts.split("->")[0].split(",")
    ]
    return [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes]


def random_path(count: int, rng: random.Random) -> list[tuple[int, ...]]:
    path: list[tuple[int, ...]] = []
    while count > 1:
        step = tuple(rng.sample(range(count), rng.randint(1 if len(path) < 2 else 2, min(3, count))))
        path.append(step)
        count -= len(step) - 1
    return path or [(0,)]


@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64"])
@pytest.mark.parametrize(("subscripts", "sizes"), PRODUCTS)
def test_every_order_gives_the_value(subscripts: str, sizes: dict[str, int], dtype: str) -> None:
    """The numbers are small integers, so that no order rounds."""
    xs = operands(subscripts, sizes, dtype)
    expected = np.einsum(subscripts, *xs)
    rng = random.Random(subscripts)
    found, report = enp.einsum_path(subscripts, *xs)
    assert "contraction" in report
    assert enp.einsum_path(subscripts, *xs, optimize=found)[0] == found
    assert enp.einsum_path(subscripts, *xs, optimize=["einsum_path", *found])[0] == found
    orders: list[Any] = [True, False, "auto", "optimal", "greedy", "dp", found, ["einsum_path", *found]]
    orders += [random_path(len(xs), rng) for _ in range(4)]
    for order in orders:
        got = enp.einsum(subscripts, *xs, optimize=order)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected, err_msg=repr(order))
    np.testing.assert_array_equal(
        effx.jit(lambda *xs: enp.einsum(subscripts, *xs, optimize=orders[-1]))(*xs), expected
    )


def test_gradients_of_orders() -> None:
    subscripts, sizes = PRODUCTS[0]
    xs = operands(subscripts, sizes)

    def total(order: Any) -> Any:
        return effx.grad(lambda xs: enp.einsum(subscripts, *xs, optimize=order).sum())(xs)

    first = total("auto")
    for order in (False, [(2, 3), (0, 1), (0, 1)], ((0, 3), (0, 1, 2))):
        for a, b in zip(first, total(order), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_an_order_is_followed() -> None:
    """The shapes of what is between say in which order the program contracts."""
    a, b, c = np.ones((2, 3)), np.ones((3, 4)), np.ones((4, 5))

    def shapes(order: Any) -> list[tuple[object, ...]]:
        program = effx.make_jaxpr(lambda a, b, c: enp.einsum("ij,jk,kl->il", a, b, c, optimize=order))(
            a, b, c
        )
        return [e.outputs[0].type.shape for e in program.equations if e.op.name == "dot_general"]

    assert shapes([(0, 1), (0, 1)])[0] in ((2, 4), (4, 2))
    assert shapes([(1, 2), (0, 1)])[0] in ((3, 5), (5, 3))
    assert shapes(False)[0] in ((2, 4), (4, 2))


@pytest.mark.parametrize(
    "path", [[(0, 1)], [(0, 3), (0, 1)], [(0, 0), (0, 1)], [], [1, 2], [(0, 1), (0, 1), (0,), (1,)]]
)
def test_paths_for_other_operands(path: Any) -> None:
    with pytest.raises(ShapeError, match=r"einsum: optimize: the path .* does not bring 3 operands to one"):
        enp.einsum("ij,jk,kl", *[np.ones((2, 2))] * 3, optimize=path)


def test_wrong_searches() -> None:
    with pytest.raises(DTypeError, match=r"einsum: opt_einsum has no search 'nosuch'"):
        enp.einsum("ij,jk,kl", *[np.ones((2, 2))] * 3, optimize="nosuch")
    with pytest.raises(
        DTypeError, match=r"einsum: optimize must be a bool, the name of a search or a path, got 3"
    ):
        enp.einsum("ij,jk", *[np.ones((2, 2))] * 2, optimize=3)


@pytest.mark.parametrize(
    "subscripts", ["ii", "ij->", "ij->i", "ii->i", "ij,j", "ij,j->", "ij,jk->k", "...i->...", "ij->ji"]
)
def test_bools(subscripts: str) -> None:
    """Sums of bools are whether one is true, as in NumPy; a preferred dtype counts them."""
    rng = np.random.default_rng(0)
    terms = subscripts.partition("->")[0].split(",")
    arrays = [rng.random((3,) * len(term.replace("...", "ab"))) > 0.6 for term in terms]
    for f in (enp.einsum, effx.jit(enp.einsum, static_argnums=0)):
        result = f(subscripts, *arrays)
        assert result.dtype == bool
        np.testing.assert_array_equal(result, np.einsum(subscripts, *arrays))
    counted = enp.einsum(subscripts, *arrays, preferred_element_type="int32")
    np.testing.assert_array_equal(counted, np.einsum(subscripts, *[a.astype(int) for a in arrays]))


def test_any_character_is_a_label() -> None:
    a, b = np.arange(24.0).reshape(2, 3, 4), np.arange(20.0).reshape(4, 5)
    want = np.einsum("abc,cd->abd", a, b)
    for text in ("12α,α9->129", "Z0_,_:->Z0:", "...1,1é->...é"):  # labels of users
        np.testing.assert_array_equal(np.asarray(enp.einsum(text, a, b)), want)
    np.testing.assert_array_equal(np.asarray(enp.einsum("3a1,12", a, b)), np.einsum("abc,cd->dab", a, b))
