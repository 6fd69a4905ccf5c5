"""What XLA refuses, or fails to run, names the function, the operation, and the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import BackendError
from effx.lower.runtime import executables

I2 = enp.ones((4, 4), effx.dtypes.int2)


def product(x: Any) -> Any:
    """A product that XLA's CPU compiler does not know."""
    y = x + x
    return y @ y  # the line to blame


LINE = product.__code__.co_firstlineno + 3
WANTED = [
    "compile: XLA refused dot_general (i2[4,4], i2[4,4]) -> (i2[4,4]): UNIMPLEMENTED: unsupported operand type S2 in op dot",
    f"test_failures.py:{LINE} in product",
]


@pytest.mark.parametrize(
    "call",
    [
        lambda: effx.jit(product)(I2),
        lambda: product(I2),
        lambda: effx.jit(lambda x: lax.cond(x[0, 0] > 0, product, lambda y: y, x))(I2),
        lambda: effx.jit(lambda x: lax.fori_loop(0, 3, lambda i, y: product(y), x))(I2),
        lambda: effx.pmap(product)(enp.stack([I2, I2])),
        lambda: effx.jit(product).lower(I2).compile(),
        lambda: effx.jit(lambda x: (effx.debug.callback(print, x), product(x)))(I2),
    ],
    ids=["jit", "eager", "cond", "loop", "pmap", "compile", "callback"],
)
def test_refusals(call: Callable[[], object]) -> None:
    """Wherever the operation stands, the error is its own, with XLA's words."""
    with pytest.raises(BackendError) as caught:
        call()
    assert [caught.value.message.splitlines()[0], caught.value.at] == WANTED
    assert caught.value.error_code_string == "UNIMPLEMENTED"


def test_unknown_options_blame_no_operation() -> None:
    """A refusal that no single operation causes is one of the program."""
    with pytest.raises(BackendError, match=r"^compile: XLA refused the program _double: .*no_such_option"):
        effx.jit(_double, compiler_options={"no_such_option": 1})(1.0)


def _double(x: Any) -> Any:
    return x + x


def test_no_form_for_a_platform() -> None:
    """An operation that cannot be lowered is an error with its line, too."""

    def f(x: Any) -> Any:
        return effx.lax.linalg.schur(x)  # the line to blame

    with pytest.raises(BackendError) as caught:
        effx.jit(f).trace(np.eye(2)).lower(lowering_platforms=["tpu"]).as_text()
    assert caught.value.message == (
        "schur: real matrices have Schur's form on CPUs only, got f32[2,2]; convert them to complex ones"
    )
    assert caught.value.at == f"test_failures.py:{f.__code__.co_firstlineno + 1} in f"


def test_out_of_memory() -> None:
    """A result that no memory holds is named, each time, and the process goes on."""

    @effx.jit
    def table(x: Any) -> Any:
        return enp.broadcast_to(x, (2**28, 2**20)) * 2.0

    for _ in range(2):
        with pytest.raises(BackendError) as caught:
            table(1.0).block_until_ready()
        assert caught.value.message == (
            "table: out of memory on cpu:0; the results (f32[268435456,1048576]~) take 1125899906842624 bytes"
        )
        assert caught.value.error_code_string == "RESOURCE_EXHAUSTED"
    assert enp.arange(3).sum() == 3


def test_large_results_are_run_by_python() -> None:
    """C++ would raise an error without the function's name; small programs stay with C++."""
    f: Any = effx.jit(lambda n: enp.zeros((n.shape[0], 1024, 1024)))
    for size, fast in ((1, True), (17, False)):
        x = np.zeros(size, np.float32)
        executable = f.lower(x).compile().executable
        assert executable.may_fail is not fast
        assert (4 * size * 2**20 <= executables.MUCH) == fast
