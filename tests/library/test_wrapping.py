"""What the library's transformations have in common: they take functions, and keep their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import effx
import effx.numpy as enp
from effx.errors import TransformError
from effx.library import probability as p
from effx.library.autocast import autocast
from effx.library.checkify import checkify
from effx.library.cost import cost
from effx.library.jets import jet, solution_series, taylor
from effx.library.laplacian import laplacian
from effx.library.nan_guard import nan_guard
from effx.library.parameters import transform
from effx.library.quantize import calibrate, fake_quantize
from effx.library.remat import remat
from effx.library.sowing import plant, reap
from effx.library.sparsity import hessian_sparsity, jacobian_sparsity, sparse_hessian, sparse_jacobian
from effx.library.stepping import step_through
from effx.library.units import with_units

# Those that return a function.
WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "autocast": autocast,
    "block": p.block,
    "calibrate": calibrate,
    "checkify": checkify,
    "condition": lambda f: p.condition(f, {}),
    "cost": cost,
    "fake_quantize": lambda f: fake_quantize(f, {}),
    "laplacian": laplacian,
    "log_density": p.log_density,
    "mask": lambda f: p.mask(f, enp.asarray(True)),
    "nan_guard": nan_guard,
    "plant": lambda f: plant(f, "t", {}),
    "reap": lambda f: reap(f, "t"),
    "remat": remat,
    "replay": lambda f: p.replay(f, {}),
    "scale": lambda f: p.scale(f, 2.0),
    "seed": lambda f: p.seed(f, effx.random.key(0)),
    "step_through": step_through,
    "substitute": lambda f: p.substitute(f, {}),
    "trace": p.trace,
    "with_units": with_units,
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "hessian_sparsity": lambda f: hessian_sparsity(f, 1.0),
    "jacobian_sparsity": lambda f: jacobian_sparsity(f, 1.0),
    "jet": lambda f: jet(f, (1.0,), ([1.0],)),
    "solution_series": lambda f: solution_series(f, 1.0, 0.0, 2),
    "sparse_hessian": sparse_hessian,
    "sparse_jacobian": sparse_jacobian,
    "taylor": lambda f: taylor(f, 1.0, 2),
    "transform": transform,
}


@pytest.mark.unguarded
@pytest.mark.parametrize("name", [*WRAPPERS, *OTHERS])
@pytest.mark.parametrize("wrong", [3, None, "f"])
def test_what_is_no_function_is_refused_at_once(name: str, wrong: Any) -> None:
    """Not where the result is called, which may be far away."""
    with pytest.raises(TransformError) as error:
        (WRAPPERS | OTHERS)[name](wrong)
    assert error.value.message == f"{name}: expected a function, got {wrong!r} of type {type(wrong).__name__}"


@pytest.mark.parametrize("name", WRAPPERS)
def test_functions_keep_their_names(name: str) -> None:
    """And their documentation."""

    def model(x: Any) -> Any:
        """Doubles."""
        return 2.0 * x

    wrapped = WRAPPERS[name](model)
    assert (wrapped.__name__, wrapped.__doc__) == ("model", "Doubles.")
