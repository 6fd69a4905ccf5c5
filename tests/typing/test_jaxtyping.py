"""jaxtyping's annotations on effx arrays, at run time and while functions are traced."""

import os
import subprocess
import sys
from typing import Any, Literal

import numpy as np
import pytest
import typeguard
from jaxtyping import (
    BFloat16,
    Bool,
    Complex,
    Float,
    Float16,
    Float32,
    Inexact,
    Int,
    Int8,
    Key,
    Num,
    Shaped,
    UInt,
    jaxtyped,
)

import effx
import effx.numpy as enp
from effx import Array
from effx.typing import PRNGKeyArray

DTYPES: list[tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = [
    (enp.float32, (Float, Float32, Inexact, Num, Shaped), (Int, Bool, BFloat16, Complex)),
    (enp.bfloat16, (Float, BFloat16, Inexact), (Int, Float32, Float16)),
    (enp.float16, (Float, Float16), (BFloat16, Int)),
    (enp.int32, (Int, Num, Shaped), (Float, UInt, Bool, Int8)),
    (enp.int8, (Int, Int8), (Float, UInt)),
    (enp.uint8, (UInt, Num), (Int8, Float)),
    (enp.bool_, (Bool, Shaped), (Num, Float, Int)),
    (enp.complex64, (Complex, Inexact), (Float, Int)),
]


def is_a(x: object, annotation: Any) -> bool:
    """To mypy jaxtyping's annotations are arrays and no classes."""
    return isinstance(x, annotation)


@pytest.mark.parametrize(("dtype", "fits", "differs"), DTYPES, ids=lambda x: getattr(x, "__name__", None))
def test_dtypes(dtype: Any, fits: tuple[Any, ...], differs: tuple[Any, ...]) -> None:
    """Arrays are instances of annotations of their dtype and of its kinds, and of no other."""
    x = enp.zeros((2, 3), dtype)
    assert [kind for kind in fits if not is_a(x, kind[Array, "n m"])] == []
    assert [kind for kind in differs if is_a(x, kind[Array, "n m"])] == []


@pytest.mark.parametrize(
    ("shape", "fits", "differs"),
    [
        ((), ("", "..."), ("n", "1")),
        ((3,), ("3", "n", "*all", "..."), ("", "2", "n m")),
        ((2, 3), ("2 3", "n m", "... 3", "_ m"), ("3 2", "n", "n n", "a b c")),
        ((3, 3), ("n n", "n m", "*batch 3"), ("n 2",)),
        ((0, 1), ("0 1", "n #m"), ("1 0",)),
    ],
)
def test_shapes(shape: tuple[int, ...], fits: tuple[str, ...], differs: tuple[str, ...]) -> None:
    """Shapes are compared axis by axis, and a name stands for one size."""
    x = enp.zeros(shape, enp.float32)
    assert [text for text in fits if not is_a(x, Float[Array, text])] == []
    assert [text for text in differs if is_a(x, Float[Array, text])] == []


def test_other_arrays_are_none() -> None:
    """A NumPy array is no effx array."""
    assert not is_a(np.zeros((2, 3), np.float32), Float[Array, "n m"])
    assert is_a(effx.random.key(0), Key[Array, ""])
    assert not is_a(effx.random.key(0), Key[Array, "2"])
    assert not is_a(effx.random.PRNGKey(0), Key[Array, "..."])
    assert not is_a(enp.zeros(()), Key[Array, ""])
    assert is_a(effx.random.PRNGKey(0), UInt[Array, "2"])


@jaxtyped(typechecker=None)
@typeguard.typechecked
def draw(key: PRNGKeyArray) -> Array:
    return effx.random.normal(key, (2,))


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_keys_have_a_name_of_their_own(impl: Literal["threefry2x32", "rbg"]) -> None:
    """`effx.typing.PRNGKeyArray` takes what jaxtyping's does of jax: one typed key, or the words of one."""
    with effx.default_prng_impl(impl):
        key, raw = effx.random.key(0), effx.random.PRNGKey(0)
        for good in (key, raw):
            assert is_a(good, PRNGKeyArray)
            assert draw(good).shape == effx.jit(draw)(good).shape == (2,)
        assert effx.vmap(draw)(effx.random.split(key, 3)).shape == (3, 2)
    wrong: list[Any] = [
        effx.random.split(key, 3), enp.ones(2), enp.zeros(3, enp.uint32), np.zeros(2, np.uint32), 0,
    ]  # fmt: skip
    for x in wrong:
        assert not is_a(x, PRNGKeyArray)
        with pytest.raises(typeguard.TypeCheckError):
            draw(x)


def test_its_own_keys_are_those_of_jax() -> None:
    """`jaxtyping.PRNGKeyArray` takes effx's keys where `import jax` gives effx, though jax itself may be installed."""
    code = (
        "import effx, jaxtyping, typeguard\n"
        "for key in (effx.random.key(0), effx.random.PRNGKey(0)):\n"
        "    typeguard.check_type(key, jaxtyping.PRNGKeyArray)\n"
        "try:\n"
        "    typeguard.check_type(effx.numpy.ones(2), jaxtyping.PRNGKeyArray)\n"
        "except typeguard.TypeCheckError:\n"
        "    print('refused')\n"
    )
    environment = os.environ | {"EFFX_COMPAT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "refused"


# typeguard 4 rewrites a function's source: it stands right above the function, and takes strings in a signature for
# Python, so that annotations with sizes get names. jaxtyping's other form, `jaxtyped(typechecker=...)`, is for checkers
# that need no source.
NK = Float[Array, "n k"]
KM = Float[Array, "k m"]
NM = Float[Array, "n m"]
KN = Float[Array, "k n"]
Row = Float[Array, "n"]
Total = Float[Array, ""]


@jaxtyped(typechecker=None)
@typeguard.typechecked
def product(a: NK, b: KM) -> NM:
    return a @ b


@jaxtyped(typechecker=None)
@typeguard.typechecked
def misdeclared(a: NK) -> KN:
    return a * 2.0


A, B = enp.ones((2, 3)), enp.ones((3, 4))


def test_functions() -> None:
    """Names bind across arguments and results; wrong shapes and dtypes are refused."""
    assert product(A, B).shape == (2, 4)
    assert misdeclared(enp.ones((2, 2))).shape == (2, 2)
    with pytest.raises(typeguard.TypeCheckError):
        product(A, A)
    with pytest.raises(typeguard.TypeCheckError):
        product(A.astype(enp.int32), B)
    with pytest.raises(typeguard.TypeCheckError):
        product(A[0], B)
    with pytest.raises(typeguard.TypeCheckError):
        misdeclared(A)


def test_under_tracing() -> None:
    """Traced values pass, with the shape that the function sees: under vmap that of one batch element."""

    def loss(a: Array, b: Array) -> Array:
        return product(a, b).sum()

    assert effx.jit(product)(A, B).shape == (2, 4)
    assert effx.vmap(product)(enp.ones((5, 2, 3)), enp.ones((5, 3, 4))).shape == (5, 2, 4)
    assert effx.grad(loss)(A, B).shape == (2, 3)
    assert effx.jit(effx.vmap(effx.grad(loss), in_axes=(0, None)))(enp.ones((5, 2, 3)), B).shape == (5, 2, 3)
    assert effx.jvp(product, (A, B), (A, B))[1].shape == (2, 4)


def test_mistakes_under_tracing() -> None:
    """A wrong shape is refused while the function is traced."""
    with pytest.raises(typeguard.TypeCheckError):
        effx.jit(product)(A, A)
    with pytest.raises(typeguard.TypeCheckError):
        effx.vmap(product)(A, A)
    with pytest.raises(typeguard.TypeCheckError):
        effx.grad(lambda a: misdeclared(a).sum())(A)


def test_inside_loops() -> None:
    """A loop's body is traced as any function is."""

    @jaxtyped(typechecker=None)
    @typeguard.typechecked
    def step(carry: Row, row: Row) -> tuple[Row, Total]:
        return carry + row, row.sum()

    total, sums = effx.lax.scan(step, enp.zeros(3), enp.ones((4, 3)))
    assert total.tolist() == [4.0] * 3
    assert sums.shape == (4,)
    with pytest.raises(typeguard.TypeCheckError):
        effx.lax.scan(step, enp.zeros(2), enp.ones((4, 3)))


def test_neither_loads_the_other() -> None:
    """effx does not import jaxtyping, and jaxtyping with effx does not import jax."""
    code = (
        "import sys, effx, effx.numpy as enp; x = enp.ones(3); assert 'jaxtyping' not in sys.modules\n"
        "from jaxtyping import Float; assert isinstance(x, Float[effx.Array, '3'])\n"
        "print(sorted(m for m in sys.modules if m.partition('.')[0] == 'jax'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
