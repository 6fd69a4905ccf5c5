"""Arrays in notebooks, and drawings of their shardings."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import debug, lax
from effx.debug.shardings import draw_sharding
from effx.errors import DTypeError, ShapeError, TransformError
from effx.ir.values.array import Array
from effx.lower.placement.shardings import SingleDeviceSharding, grid_sharding
from effx.sharding import Mesh, NamedSharding, PartitionSpec
from effx.viewing import arrays

D = tuple(effx.devices())


def spread(grid: tuple[int, ...], cuts: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    y: Array = effx.device_put(
        np.zeros(shape, np.float32), grid_sharding(D[: int(np.prod(grid))], grid, cuts)
    )
    return y


def boxes(text: str) -> list[list[str]]:
    """Reads a drawing back: what stands in each box, row by row; asserts that its lines meet."""
    lines = text.splitlines()
    assert len({len(line) for line in lines}) == 1
    edges = [i for i, c in enumerate(lines[0]) if c in "┌┬┐"]
    assert [i for i, c in enumerate(lines[-1]) if c in "└┴┘"] == edges
    rows, current = [], [""] * (len(edges) - 1)
    for line in lines[1:]:
        if line[0] in "├└":
            rows.append([cell.replace(", ", ",") for cell in current])
            current = [""] * (len(edges) - 1)
            continue
        assert [line[i] for i in edges] == ["│"] * len(edges)
        for k, (a, b) in enumerate(itertools.pairwise(edges)):
            piece = line[a + 1 : b].strip()
            current[k] = f"{current[k]} {piece}".strip()
    return rows


DRAWN: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], list[list[str]]]] = [
    ((4,), (0,), (8,), [["CPU 0", "CPU 1", "CPU 2", "CPU 3"]]),
    ((4,), (0,), (8, 2), [["CPU 0"], ["CPU 1"], ["CPU 2"], ["CPU 3"]]),
    ((2, 3), (0, 1), (4, 6), [["CPU 0", "CPU 1", "CPU 2"], ["CPU 3", "CPU 4", "CPU 5"]]),
    ((3, 2), (1, 0), (4, 6), [["CPU 0", "CPU 2", "CPU 4"], ["CPU 1", "CPU 3", "CPU 5"]]),
    ((2, 4), (0,), (4, 6), [["CPU 0,1,2,3"], ["CPU 4,5,6,7"]]),
    ((8,), (), (4, 6), [["CPU 0,1,2,3,4,5,6,7"]]),
    ((4,), (0,), (4, 2, 3), [["CPU 0"], ["CPU 1"], ["CPU 2"], ["CPU 3"]]),
    ((2,), (), (), [["CPU 0,1"]]),
    ((2,), (0,), (0,), [["CPU 0,1"]]),
]


@pytest.mark.parametrize(("grid", "cuts", "shape", "expected"), DRAWN, ids=str)
def test_drawings(
    grid: tuple[int, ...],
    cuts: tuple[int, ...],
    shape: tuple[int, ...],
    expected: list[list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each box names the devices that hold the part, in the part's place, whatever the drawing's size."""
    x = spread(grid, cuts, shape)
    debug.visualize_array_sharding(x)
    assert boxes(capsys.readouterr().out) == expected
    debug.visualize_sharding(shape, x.sharding, scale=0.1, min_width=3, max_width=20)
    assert boxes(capsys.readouterr().out) == expected
    debug.visualize_sharding(shape, x.sharding, scale=3.0, min_width=20)
    assert boxes(capsys.readouterr().out) == expected


def test_sizes() -> None:
    """The drawing is as wide as asked for, and boxes are never narrower than asked for."""
    x = spread((4,), (0,), (8,))
    width = {w: len(draw_sharding((8,), x.sharding, max_width=w).splitlines()[0]) for w in (40, 80)}
    assert width[40] <= 40 < width[80] <= 80
    assert len(draw_sharding((8,), x.sharding, max_width=10, min_width=20).splitlines()[0]) > 4 * 18


def test_colors() -> None:
    """Each box has a colour of its own, of the given map; the text is the same."""
    x = spread((2, 2), (0, 1), (4, 4))
    plain = draw_sharding((4, 4), x.sharding)
    seen = []

    def mapped(v: float) -> tuple[float, float, float] | str:
        seen.append(v)
        return "#ff8000" if v == 0 else (0.0, v, 2.0)

    painted = draw_sharding((4, 4), x.sharding, color_map=mapped)
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain
    assert sorted(seen) == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert {"48;2;255;128;0", "48;2;0;255;255", "48;2;0;85;255", "48;2;0;170;255"} == set(
        re.findall(r"30;(48[0-9;]*)m", painted)
    )
    assert "\x1b" in draw_sharding((4, 4), x.sharding, color_map=debug.shardings.rainbow_color)


def test_inspecting() -> None:
    """The function gets the sharding of each leaf, as `x.sharding`."""
    x, y = spread((4,), (0,), (8,)), enp.ones(3)
    seen: list[Any] = []
    debug.inspect_array_sharding({"x": x, "y": [y, 2.0]}, callback=seen.append)
    assert seen == [x.sharding, SingleDeviceSharding(D[0]), SingleDeviceSharding(D[0])]
    z = effx.pmap(lambda x: x + 1.0)(enp.ones((8, 2)))
    debug.inspect_array_sharding(z, callback=seen.append)
    assert seen[-1].shard_shape((8, 2)) == (1, 2)


def test_inspecting_values_of_compiled_functions() -> None:
    """The function gets what XLA has chosen, for values that are computed there too; under grad and vmap as well."""
    seen: list[Any] = []

    def f(x: Any) -> Any:
        debug.inspect_array_sharding(x * 2, callback=seen.append)
        return x + 1.0

    x = spread((4, 2), (0,), (8, 3))
    for g in (
        f,
        effx.grad(lambda x: f(x).sum()),
        lambda x: lax.scan(lambda c, _: (f(c), None), x, None, 2)[0],
    ):
        seen.clear()
        effx.jit(g)(x)
        assert seen
        assert all(s.shard_shape(x.shape) == x.sharding.shard_shape(x.shape) for s in seen)
        assert all(s.device_set == x.sharding.device_set for s in seen)
    seen.clear()
    effx.jit(f)(enp.ones(3))
    assert seen == [SingleDeviceSharding(D[0])]
    effx.jit(f)(effx.device_put(np.ones(3), D[1]))
    assert seen[-1] == SingleDeviceSharding(D[1])
    replicated = effx.device_put(np.ones(4), grid_sharding(D[:2], (2,), ()))
    effx.jit(f)(replicated)
    assert seen[-1].is_fully_replicated
    assert seen[-1].device_set == {D[0], D[1]}
    count = len(seen)
    effx.jit(effx.vmap(f))(effx.device_put(np.ones((4, 3)), grid_sharding(D[:2], (2,), (0,))))
    assert len(seen) > count
    assert seen[-1].shard_shape((4, 3)) == (2, 3)


def test_errors() -> None:
    """What cannot be drawn is refused with its reason."""
    with pytest.raises(ShapeError) as shape_error:
        debug.visualize_array_sharding(spread((2, 2, 2), (0, 1, 2), (2, 2, 2)))
    assert shape_error.value.message == (
        "visualize_sharding: shape (2, 2, 2) is sharded along the axes (0, 1, 2); only two can be drawn"
    )
    with pytest.raises(TransformError) as transform_error:
        debug.visualize_sharding((2,), 3)  # type: ignore[arg-type]  # on purpose
    assert (
        transform_error.value.message == "visualize_sharding: expected a sharding, such as x.sharding, got 3"
    )


@pytest.mark.unguarded
def test_what_is_no_array() -> None:
    """Text has no sharding; typeguard would say so first."""
    with pytest.raises(DTypeError):
        debug.visualize_array_sharding("text")  # type: ignore[arg-type]  # on purpose


class Text(HTMLParser):
    """The text of a piece of HTML whose elements are all closed."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found = ""
        self.feed(source)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.found += data


class Console:
    """Stands in for IPython's printer."""

    def __init__(self) -> None:
        self.found = ""

    def text(self, text: str) -> None:
        self.found += text


def seen_in_notebook(x: Array) -> tuple[str, str]:
    console = Console()
    x._repr_pretty_(console, False)
    return Text(x._repr_html_()).found, console.found


NOTEBOOK: list[tuple[Any, str]] = [
    (enp.arange(3), "i32[3] int32 · 12B · cpu:0[0 1 2]"),
    (enp.array(2.5), "f32[]~ float32 · 4B · cpu:02.5"),
    (enp.ones((0, 3)), "f32[0,3] float32 · 0B · cpu:0[]"),
    (enp.ones(2, enp.bfloat16), "bf16[2] bfloat16 · 4B · cpu:0[1. 1.]"),
    (enp.array([True]), "bool[1] bool · 1B · cpu:0[ True]"),
]


@pytest.mark.parametrize(("x", "start"), NOTEBOOK, ids=lambda v: v if isinstance(v, str) else "")
def test_notebook(x: Array, start: str) -> None:
    """A notebook shows type, size, device and elements; a console what `repr` says."""
    page, console = seen_in_notebook(x)
    assert page.startswith(start)
    assert console == repr(x)


def test_notebook_keys() -> None:
    """Keys show their words."""
    page, _ = seen_in_notebook(effx.random.key(7))
    assert "keys" in page
    assert "7" in page.partition("cpu:0")[2]


def test_huge_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large array few elements are shown, and nothing is put together from several devices for that."""
    x = enp.zeros((3000, 1000))
    page, _ = seen_in_notebook(x)
    assert "..." in page
    assert len(page) < 1000
    monkeypatch.setattr(arrays, "FETCHED", 10)
    y = spread((4,), (0,), (8, 2))
    monkeypatch.setattr(type(y), "host", lambda self, asked: pytest.fail("fetched"))
    page, console = seen_in_notebook(y)
    assert page.startswith("f32[8,2] float32 · 64B · 4 devices, f32[2,2] on eachparts┌")
    assert page.endswith("elements are not fetched to be shown; index the array to see some")
    assert console == (
        "Array(f32[8,2], 4 devices, f32[2,2] on each: elements are not fetched to be shown; "
        "index the array to see some)"
    )


def test_abstract_and_deleted() -> None:
    """Arrays of transformations and donated ones say so, and showing one performs nothing."""
    found: list[str] = []

    def f(x: Any) -> Any:
        found.extend(seen_in_notebook(x))
        found.extend(seen_in_notebook(y))
        return x + 1.0

    y = enp.arange(2)
    program = effx.make_jaxpr(f)(enp.ones(3))
    assert len(program.equations) == 1
    assert found[0] == "f32[3] float32 · 12B · no deviceabstract, under make_jaxpr"
    assert found[1].startswith("Traced<f32[3]>")
    assert found[2].endswith("[0 1]")
    effx.vmap(f)(enp.ones((2, 3)))
    assert "abstract, under vmap" in found[4]
    x = enp.ones(3)
    effx.jit(lambda x: x + 1.0, donate_argnums=0)(x)
    page, console = seen_in_notebook(x)
    assert page.endswith("gone: donated to a computation, or deleted")
    assert console.endswith("gone: donated to a computation, or deleted)")


class StandIn:
    """What stands for a device that is not there."""

    platform = "tpu"

    def __init__(self, number: int) -> None:
        self.id = number


@pytest.mark.unguarded
def test_devices_that_are_not_there_are_drawn() -> None:
    """A mesh takes any objects with a platform and an id, to plan with."""
    mesh = Mesh(np.array([StandIn(i) for i in range(4)]).reshape(2, 2), ("x", "y"))
    lines = draw_sharding((8, 8), NamedSharding(mesh, PartitionSpec("x", None)), scale=0.3).splitlines()
    assert [line.strip("│ ") for line in lines if "TPU" in line] == ["TPU 0,1", "TPU 2,3"]
    assert NamedSharding(mesh, PartitionSpec("x")).shard_shape((8, 8)) == (4, 8)
