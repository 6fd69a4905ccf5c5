"""What Python, Matplotlib and completion ask of arrays and modules, they get."""

from __future__ import annotations

import inspect
import math
import operator
import subprocess
import sys
from collections.abc import Callable
from typing import Any, cast

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Circle

import effx
import effx.numpy as enp
from effx import errors

s = enp.array(0.5)
i = enp.array(3)
v = enp.arange(5.0)
m = enp.ones((4, 4))

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: iter(s), "iter(x): a scalar cannot be iterated over, got f32[]~"),
    (lambda: len(s), "len(x): a scalar has no length, got f32[]~"),
    (lambda: operator.index(s), "index(x): only integer arrays of rank 0 serve as an index, got f32[]~"),
    (lambda: operator.index(v), "index(x): only integer arrays of rank 0 serve as an index, got f32[5]"),
    (lambda: float(v), "float(x): only arrays of one element convert to Python scalars, got f32[5]"),
    (lambda: int(v), "int(x): only arrays of one element convert to Python scalars, got f32[5]"),
    (lambda: complex(v), "complex(x): only arrays of one element convert to Python scalars, got f32[5]"),
    (
        lambda: f"{v:.2f}",
        (
            "format(x, '.2f'): only arrays of rank 0 take a format, got f32[5]; use numpy.array2string, or "
            "format the elements of x.tolist()"
        ),
    ),
]


@pytest.mark.parametrize(("ask", "text"), REFUSED)
def test_what_an_array_does_not_have_is_a_type_error(ask: Callable[[], object], text: str) -> None:
    """As Python's protocols have it: `numpy.iterable` asks by trying."""
    with pytest.raises(TypeError) as caught:
        ask()
    assert type(caught.value) is errors.ConversionError
    assert isinstance(caught.value, errors.ShapeError)
    assert caught.value.message == text


def test_protocols_of_numbers() -> None:
    """Scalars stand for numbers, vectors for sequences."""
    assert not np.iterable(s)
    assert np.iterable(v)
    assert [*range(i)] == [0, 1, 2]
    assert [1, 2, 3, 4][i] == 4
    assert (float(s), int(i), complex(s), f"{s:.2f}", f"{v}") == (
        0.5,
        3,
        0.5 + 0j,
        "0.50",
        "[0. 1. 2. 3. 4.]",
    )
    assert (math.floor(s), math.ceil(s), round(float(s))) == (0, 1, 0)
    assert [float(x) for x in reversed(v)] == [4.0, 3.0, 2.0, 1.0, 0.0]


# Each takes scalars or vectors of effx where Matplotlib takes numbers or sequences.
PLOTS: dict[str, Callable[[Any], object]] = {
    "plot": lambda a: a.plot(v, v),
    "alpha": lambda a: a.plot(v, v, linewidth=s),
    "scatter": lambda a: a.scatter(v, v, c=v, s=s * 10),
    "hist": lambda a: a.hist(v, bins=5, range=(s, s + 3), weights=v),
    "axhline": lambda a: a.axhline(s),
    "axvline": lambda a: a.axvline(s),
    "text": lambda a: a.text(s, s, "hi"),
    "annotate": lambda a: a.annotate("x", xy=(s, s), xytext=(s * 2, s)),
    "set_xlim": lambda a: a.set_xlim(s, s + 1),
    "set_ylim": lambda a: a.set_ylim((s, s + 1)),
    "axvspan": lambda a: a.axvspan(s, s + 1),
    "axhspan": lambda a: a.axhspan(s, s + 1),
    "eventplot": lambda a: a.eventplot(v, lineoffsets=s),
    "bar": lambda a: a.bar(v, v, width=s),
    "barh": lambda a: a.barh(v, v),
    "errorbar": lambda a: a.errorbar(v, v, yerr=s),
    "fill_between": lambda a: a.fill_between(v, v, s),
    "imshow": lambda a: plt.colorbar(a.imshow(m, vmin=s, vmax=s + 1)),
    "contour": lambda a: a.contour(m + enp.arange(4.0)),
    "pcolormesh": lambda a: a.pcolormesh(m),
    "quiver": lambda a: a.quiver(v, v, v, v),
    "step": lambda a: a.step(v, v),
    "stem": lambda a: a.stem(v, v),
    "boxplot": lambda a: a.boxplot(v),
    "violinplot": lambda a: a.violinplot(v),
    "pie": lambda a: a.pie(v),
    "hlines": lambda a: a.hlines(s, s, s + 1),
    "vlines": lambda a: a.vlines(v, s, s + 1),
    "axline": lambda a: a.axline((s, s), slope=s),
    "loglog": lambda a: a.loglog(v + 1, v + 1),
    "hist2d": lambda a: a.hist2d(v, v),
    "hexbin": lambda a: a.hexbin(v, v, gridsize=5),
    "stackplot": lambda a: a.stackplot(v, v, v),
    "arrow": lambda a: a.arrow(s, s, s, s),
    "circle": lambda a: a.add_patch(Circle(cast("Any", (s, s)), cast("Any", s))),
}


def test_matplotlib_takes_arrays() -> None:
    """All 35 kinds of plots, with scalars of effx among their arguments."""
    assert len(PLOTS) == 35
    figure, axes = plt.subplots(5, 7)
    for name, (plot, a) in zip(PLOTS, zip(PLOTS.values(), axes.flat, strict=True), strict=True):
        plot(a)
        assert a.has_data() or name in (
            "text",
            "annotate",
            "set_xlim",
            "set_ylim",
            "axline",
            "arrow",
            "circle",
        ), name
    figure.canvas.draw()
    plt.close(figure)


def test_public_names_are_what_completion_shows() -> None:
    """Names without an underscore that the modules list, and members that can be read."""
    for module in (
        effx,
        enp,
        effx.lax,
        effx.random,
        effx.nn,
        effx.errors,
        effx.tree,
        effx.handling,
    ):
        names = dir(module)
        assert names == sorted(module.__all__)
        assert not [name for name in names if name.startswith("_")]
        assert {name for name, _ in inspect.getmembers(module)} <= {*names}
    shown = dir(v)
    assert {"at", "T", "shape", "sum", "block_until_ready", "__add__"} <= {*shown}
    assert not [name for name in shown if name.startswith("_") and not name.endswith("__")]


def test_modules_with_requirements_that_are_not_installed() -> None:
    """Are absent to `hasattr`; importing them says what to install."""
    code = """
import sys; sys.modules["hypothesis"] = None
import inspect, effx
assert not hasattr(effx, "laws")
assert "jit" in dict(inspect.getmembers(effx, callable))
try:
    from effx import laws
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "effx.laws: hypothesis is not installed; pip install 'effx[laws]'\n"
