"""`jit`: caching, static and donated arguments, stages, structure of arguments and results."""

from __future__ import annotations

import dataclasses
import functools
import logging
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import errors, lax
from effx.array import Box
from effx.lower.runtime import dispatch


class Counted:
    """A function that counts how often it was traced."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.traces = 0
        self.__name__ = "counted"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.traces += 1
        return self.function(*args, **kwargs)


def test_traces_once_for_each_type() -> None:
    counted = Counted(lambda x: x * 2)
    f = effx.jit(counted)
    for _ in range(3):
        assert str(f(enp.ones(3))) == "[2. 2. 2.]"
    assert counted.traces == 1
    f(enp.ones(4))
    f(enp.ones(3, "int32"))
    f(2.0)  # weak
    f(enp.float32(2.0))  # strong
    f(np.ones(3, "float32"))  # NumPy has the type of the first call
    assert counted.traces == 5
    f.clear_cache()
    f(enp.ones(3))
    assert counted.traces == 6


def test_flags_are_part_of_the_key() -> None:
    counted = Counted(lambda x: x + enp.arange(2.0))
    f = effx.jit(counted)
    x = np.ones(2, "float64")
    assert f(x).dtype == np.float32
    with effx.enable_x64():
        assert f(x).dtype == np.float64
        assert f(1.0).dtype == np.float64
    assert f(x).dtype == np.float32
    assert f(1.0).dtype == np.float32
    assert counted.traces == 4


class Point(NamedTuple):
    x: Any
    y: Any


@attrs.frozen
class Model:
    w: Any
    name: str = attrs.field(default="m", metadata={"static": True})


def test_trees_in_and_out() -> None:
    @effx.jit
    def f(point: Point, model: Model, *, extra: dict[str, Any]) -> Any:
        return {"sum": point.x + point.y, "model": model, "none": None, "rest": (extra["a"], [])}

    out = f(Point(1.0, 2.0), Model(enp.ones(2)), extra={"a": 3})
    assert float(out["sum"]) == 3.0
    assert isinstance(out["model"], Model)
    assert out["model"].name == "m"
    assert out["none"] is None
    assert out["rest"][1] == []
    again = f(Point(1.0, 2.0), Model(enp.ones(2)), extra={"a": 3})
    assert int(again["rest"][0]) == 3


def test_static_arguments() -> None:
    def power(x: Any, n: int, *, negate: bool = False) -> Any:
        assert type(n) is int
        assert type(negate) is bool
        return -(x**n) if negate else x**n

    f = effx.jit(power, static_argnums=1, static_argnames="negate")
    assert float(f(3.0, 2)) == 9.0
    assert float(f(3.0, 2, negate=True)) == -9.0
    assert float(f(3.0, 3)) == 27.0
    g = effx.jit(static_argnames=("n", "negate"))(power)
    assert float(g(3.0, 2)) == 9.0
    assert float(g(3.0, negate=True, n=2)) == -9.0


def test_equal_static_values_of_different_types() -> None:
    f = effx.jit(lambda x, n: x * (2 if n is True else 3), static_argnums=1)
    assert float(f(1.0, True)) == 2.0
    assert float(f(1.0, 1)) == 3.0


def test_decorator_forms_and_methods() -> None:
    @effx.jit
    def plain(x: Any) -> Any:
        """A docstring."""
        return x + 1

    @functools.partial(effx.jit, static_argnums=0)
    def first_static(n: int, x: Any) -> Any:
        return x * n

    class Scaler:
        factor = 3.0

        @effx.jit(static_argnums=0)
        def scale(self, x: Any) -> Any:
            return x * self.factor

    assert plain.__name__ == "plain"
    assert plain.__doc__ == "A docstring."
    assert float(plain(1.0)) == 2.0
    assert float(first_static(4, 2.0)) == 8.0
    assert float(Scaler().scale(2.0)) == 6.0


def test_donation() -> None:
    f = effx.jit(lambda x, y: (x + 1, y * 2), donate_argnums=(0,))
    x, y = enp.ones((3,)), enp.ones((3,))
    out = f(x, y)
    assert x.is_deleted()
    assert not y.is_deleted()
    assert str(out[0]) == "[2. 2. 2.]"
    g = effx.jit(lambda tree: enp.zeros(()), donate_argnames="tree", keep_unused=True)
    tree = {"a": enp.ones(5)}
    with pytest.warns(
        UserWarning, match=r"cannot reuse the donated memory of argument 'tree'\['a'\] f32\[5\]"
    ):
        g(tree=tree)
    text = f.lower(enp.ones(3), enp.ones(3)).as_text()
    assert "tf.aliasing_output" in text


def test_closures_become_hidden_arguments() -> None:
    big = enp.arange(1000.0)
    f = effx.jit(lambda x: (big * x).sum())
    assert float(f(2.0)) == 999000.0
    assert float(f(4.0)) == 1998000.0  # through C++, which puts the hidden argument in front
    text = f.lower(2.0).as_text()
    assert "tensor<1000xf32>" in text
    assert len(text) < 2000


def test_closing_over_boxes() -> None:
    def outer(x: Any) -> Any:
        inner = effx.jit(lambda y: y * x)
        return inner(x) + inner(2.0)

    assert float(effx.grad(outer)(3.0)) == 8.0  # 2 x + 2
    assert str(effx.vmap(outer)(enp.arange(3.0))) == "[0. 3. 8.]"
    assert float(effx.jit(effx.grad(outer))(3.0)) == 8.0


def test_one_function_in_two_contexts() -> None:
    # The second use must not see the first one's box.
    captured: list[Any] = [None]
    f = effx.jit(lambda y: y * captured[0])

    def use(x: Any) -> Any:
        captured[0] = x
        return f(2.0)

    assert float(effx.grad(use)(3.0)) == 2.0
    assert float(effx.grad(use)(5.0)) == 2.0
    assert str(effx.vmap(use)(enp.arange(2.0))) == "[0. 2.]"


def test_stages() -> None:
    def f(x: Any, scale: float = 2.0) -> Any:
        return {"y": enp.sin(x) * scale}

    jitted = effx.jit(f)
    traced = jitted.trace(enp.ones((2, 3)))
    assert repr(traced.out_info["y"]) == "ShapeDtypeStruct(shape=(2, 3), dtype=float32)"
    assert [e.op.name for e in traced.program.equations] == ["sin", "mul"]
    lowered = jitted.lower(effx.ShapeDtypeStruct((2, 3), np.float32))
    assert "stablehlo.sine" in lowered.as_text()
    assert "loc(" not in lowered.as_text()
    assert "test_jit.py" in lowered.as_text(debug_info=True)
    compiled = lowered.compile()
    np.testing.assert_allclose(compiled(enp.ones((2, 3)))["y"], np.full((2, 3), 2 * np.sin(1.0)), rtol=1e-6)
    assert "fusion" in compiled.as_text() or "sine" in compiled.as_text()
    assert compiled.cost_analysis()["flops"] >= 0
    assert compiled.memory_analysis().output_size_in_bytes == 24
    with pytest.raises(errors.ShapeError) as caught:
        compiled(enp.ones((3, 2)))
    assert caught.value.message == "f: compiled for f32[2,3] as argument 0, got f32[3,2]"
    with pytest.raises(errors.TreeError):
        compiled([enp.ones((2, 3))])
    assert repr(jitted.eval_shape(enp.ones(4))["y"]) == "ShapeDtypeStruct(shape=(4,), dtype=float32)"


@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm", "tpu"])
def test_lowering_for_other_platforms(platform: str) -> None:
    lowered = (
        effx.jit(lambda x: enp.tanh(x) @ x).trace(enp.ones((2, 2))).lower(lowering_platforms=(platform,))
    )
    assert "stablehlo.dot_general" in lowered.as_text()
    if platform != "cpu":
        with pytest.raises(errors.BackendError) as caught:
            lowered.compile()
        assert caught.value.message == (
            f"compile: the module is for {platform}, which is not the platform that runs here"
        )


def test_unknown_platform() -> None:
    with pytest.raises(errors.BackendError) as caught:
        effx.jit(lambda x: x).trace(1.0).lower(lowering_platforms=("abacus",))
    assert caught.value.message == "lower: platform must be one of cpu, cuda, rocm, tpu, got 'abacus'"


def test_golden_text() -> None:
    text = effx.jit(lambda x, y: enp.maximum(x * 2.0 + y, 0.0)).lower(enp.ones(3), enp.ones(())).as_text()
    assert text == (
        "module @jit__lambda_ attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n"
        "  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<f32>) -> (tensor<3xf32>) {\n"
        "    %c0 = stablehlo.constant dense<2.0> : tensor<3xf32>\n"
        "    %0 = stablehlo.multiply %arg0, %c0 : tensor<3xf32>\n"
        "    %1 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<3xf32>\n"
        "    %2 = stablehlo.add %0, %1 : tensor<3xf32>\n"
        "    %c1 = stablehlo.constant dense<0.0> : tensor<3xf32>\n"
        "    %3 = stablehlo.maximum %2, %c1 : tensor<3xf32>\n"
        "    return %3 : tensor<3xf32>\n"
        "  }\n"
        "}\n"
    )


@pytest.mark.parametrize(("size", "nested"), [(3, 0), (0, 1500)])
def test_long_text(size: int, nested: int) -> None:
    """Each of thousands of lines is there, indented as it must be; bodies with empty operands stand in the loop."""

    def chain(x: Any, count: int) -> Any:
        for _ in range(count):
            x = enp.sin(x)
        return x

    def f(x: Any) -> Any:
        return chain(lax.fori_loop(0, 3, lambda i, y: chain(y, 1500), chain(x, 1500)), 2000)

    lines = [line for line in effx.jit(f).lower(enp.ones(size)).as_text().splitlines() if "sine" in line]
    assert [len([x for x in lines if x.startswith(" " * n + "%")]) for n in (4, 6)] == [5000 - nested, nested]
    for before, line in pairwise(lines[:1500]):
        assert line == f"    {line.split()[0]} = stablehlo.sine {before.split()[0]} : tensor<{size}xf32>"


def test_shared_programs_are_written_once() -> None:
    inner = effx.jit(lambda x: enp.sin(x) * 2.0)
    text = effx.jit(lambda x: inner(inner(inner(x)))).lower(1.0).as_text()
    assert text.count("func.func private") == 1
    assert text.count("func.call") == 3
    inlined = effx.jit(effx.jit(lambda x: enp.sin(x), inline=True)).lower(1.0).as_text()
    assert "func.call" not in inlined


def test_keep_unused() -> None:
    f = effx.jit(lambda x, y: x + 1)
    assert f.lower(1.0, enp.ones(7)).compile().executable.kept_mask == (True, False)
    g = effx.jit(lambda x, y: x + 1, keep_unused=True)
    assert g.lower(1.0, enp.ones(7)).compile().executable.kept_mask == (True, True)
    assert float(f(1.0, enp.ones(7))) == float(g(1.0, enp.ones(7))) == 2.0


def test_device() -> None:
    device = effx.devices()[0]
    f = effx.jit(lambda x: x + 1, device=device)
    y = f(1.0)
    assert y.devices() == {device}


def test_log_compiles(caplog: pytest.LogCaptureFixture) -> None:
    with effx.log_compiles(), caplog.at_level(logging.WARNING, "effx"):
        effx.jit(lambda x: x + 12345)(1.0)
    assert any("Finished XLA compilation of jit(<lambda>)" in r.getMessage() for r in caplog.records)


def test_fallback_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(tree: Any, n: int) -> Any:
        return {"out": tree["a"] * n + enp.sum(tree["b"])}

    arguments = {"a": enp.arange(3.0), "b": enp.ones((2, 2))}
    fast = effx.jit(f, static_argnums=1)(arguments, 3)
    monkeypatch.setattr(dispatch, "has_fast_path", False)
    slow_function = effx.jit(f, static_argnums=1)
    for _ in range(2):
        slow = slow_function(arguments, 3)
        np.testing.assert_array_equal(slow["out"], fast["out"])
    consume = effx.jit(lambda x: x + 1, donate_argnums=0)
    x = enp.ones(3)
    consume(x)
    assert x.is_deleted()


@pytest.mark.unguarded
def test_virtual_devices_and_commitment() -> None:
    code = """
import effx, effx.numpy as enp
a, b = effx.devices()[:2]
x, y = effx.device_put(enp.ones(3), a), effx.device_put(enp.ones(3), b)
assert y.device == b and (y + 1.0).device == b and (y + enp.ones(3)).device == b
f = effx.jit(lambda x: x * 2)
assert f(x).device == a and f(y).device == b and f(enp.ones(3)).device == a
assert effx.jit(lambda z: z + 1, device=b)(enp.ones(3)).device == b
try:
    x + y
except effx.errors.BackendError as error:
    print(error.message)
print(effx.device_count())
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**__import__("os").environ, "EFFX_NUM_CPU_DEVICES": "4"},
    )
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first == (
        "add: arrays are committed to different devices, cpu:0 and cpu:1; move them with device_put"
    )
    assert second == "4"


def test_functions_made_anew_are_not_compiled_anew(caplog: pytest.LogCaptureFixture) -> None:
    """A function that another makes in each call is traced again, but its text is the same."""

    def call(x: Any) -> Any:
        return effx.jit(lambda y: enp.sin(y) * 1.2345)(x)

    with effx.log_compiles(True), caplog.at_level(logging.WARNING, "effx"):
        first, second = call(1.0), call(1.0)
    assert float(first) == float(second)
    assert sum("Finished XLA compilation of jit(<lambda>)" in r.getMessage() for r in caplog.records) == 1


def test_what_stages_say() -> None:
    """Each stage knows arguments and results as trees, which arrays are donated, and its text in two dialects."""
    f = effx.jit(lambda x, y: {"a": enp.sin(x["w"]) @ y}, donate_argnums=0)
    traced = f.trace({"w": enp.ones((2, 3))}, effx.ShapeDtypeStruct((3,), np.float32))
    lowered = traced.lower()
    with pytest.warns(UserWarning, match="cannot reuse the donated memory of argument x"):
        compiled = lowered.compile()
    (given, other), named = compiled.args_info
    assert (given["w"].shape, given["w"].donated, other.shape, other.donated) == ((2, 3), True, (3,), False)
    assert named == {}
    for stage in (traced, lowered, compiled):
        assert stage.in_avals[0][0]["w"] == effx.typeof(np.ones((2, 3), np.float32))
        assert stage.out_avals == {"a": effx.typeof(np.ones(2, np.float32))}
        assert stage.out_info == {"a": effx.ShapeDtypeStruct((2,), np.float32)}
        assert stage.donate_argnums == (0,)
    assert traced.fun_name == "<lambda>"
    assert "stablehlo.sine" in lowered.as_text()
    assert "stablehlo.sine" in str(lowered.compiler_ir())
    assert " sine(" in lowered.as_text("hlo")
    assert " sine(" in lowered.compiler_ir("hlo").as_hlo_text()
    assert compiled.input_shardings[0][1].device_set == {effx.devices()[0]}
    formats = effx.tree.leaves((compiled.input_formats, compiled.output_formats))
    shardings = effx.tree.leaves((compiled.input_shardings, compiled.output_shardings))
    assert [x.sharding for x in formats] == shardings
    ranks = [len(x.shape) for x in effx.tree.leaves((compiled.in_avals, compiled.out_avals))]
    assert [x.layout.major_to_minor for x in formats] == [tuple(range(n)) for n in ranks]
    assert compiled.output_shardings["a"].device_set == {effx.devices()[0]}
    assert compiled.runtime_executable().local_devices() == effx.devices()[:1]
    assert compiled.cost_analysis()["flops"] > 0
    assert compiled.memory_analysis().output_size_in_bytes == 8


def test_compiler_options() -> None:
    """Options reach XLA, are part of the cache key, and a wrong one is an error that names it."""
    x = enp.ones(3)
    plain, chosen = (
        effx.jit(lambda x: enp.exp(x), compiler_options=options)
        for options in (None, {"xla_embed_ir_in_executable": True, "xla_cpu_enable_fast_math": False})
    )
    np.testing.assert_array_equal(plain(x), chosen(x))
    with pytest.raises(errors.BackendError, match="No such compile option: 'xla_cpu_be_quick'"):
        effx.jit(lambda x: x, compiler_options={"xla_cpu_be_quick": 1})(x)
    with pytest.raises(errors.BackendError, match="'maybe' is not a valid bool value"):
        plain.lower(x).compile({"xla_cpu_enable_fast_math": "maybe"})


def test_levels_of_effort() -> None:
    """Levels reach XLA's build options, tell compiled programs apart, and nothing else will do for them."""
    from effx.lower.compile_options import compile_options

    level = effx.CompilerEffortLevel
    devices = (effx.devices()[0],)
    for chosen in level:
        options = compile_options(devices, (("memory_fitting_level", chosen), ("optimization_level", chosen)))
        build = options.executable_build_options
        assert (build.optimization_level, build.memory_fitting_level) == (chosen, chosen)
        assert options.env_option_overrides == []
    assert compile_options(devices).executable_build_options.optimization_level == level.UNKNOWN
    x = enp.arange(3.0)
    f = effx.jit(lambda x: enp.sin(x) ** 2, compiler_options={"optimization_level": level.O3})
    np.testing.assert_array_equal(f(x), effx.jit(lambda x: enp.sin(x) ** 2)(x))
    np.testing.assert_array_equal(f.lower(x).compile({"memory_fitting_level": level.O0})(x), f(x))
    named = f.lower(x).compile({"memory_fitting_level": "O0", "optimization_level": "O1"})
    np.testing.assert_array_equal(named(x), f(x))
    for wrong in ("O4", 2):
        with pytest.raises(errors.TransformError) as error:
            effx.jit(lambda x: x, compiler_options={"optimization_level": wrong})
        assert error.value.message == (
            f"jit: compiler_options: optimization_level must be a CompilerEffortLevel or the name of one, got "
            f"{wrong!r} of type {type(wrong).__name__}"
        )


@pytest.mark.unguarded  # no annotation allows these
def test_wrong_options_of_stages() -> None:
    lowered, wrong, none = effx.jit(lambda x: x + 1).lower(1.0), "llvm", None
    dialect: Any = wrong
    for what, call in (("as_text", lowered.as_text), ("compiler_ir", lowered.compiler_ir)):
        with pytest.raises(errors.BackendError) as refused:
            call(dialect)
        assert refused.value.message == f"{what}: dialect must be 'stablehlo' or 'hlo', got 'llvm'"
    options: Any = {"a": none}
    with pytest.raises(errors.TransformError) as error:
        effx.jit(lambda x: x, compiler_options=options)
    assert error.value.message == (
        "jit: compiler_options must be a mapping of names to strings, bools and numbers, got {'a': None}"
    )


def test_a_static_argument_goes_by_its_own_hash() -> None:
    """The class says by what its objects are compared, whatever its fields hold."""

    @dataclasses.dataclass(frozen=True)
    class Graph:
        nodes: list[int]
        name: str = "g"

        def __hash__(self) -> int:
            return hash((tuple(self.nodes), self.name))

    @attrs.frozen(unsafe_hash=False)
    class Model:
        layers: list[int]

        def __hash__(self) -> int:
            return len(self.layers)

    for make in (Graph, Model):
        count = 0

        def scale(g: Any, x: Any) -> Any:
            nonlocal count
            count += 1
            return len(vars(g).get("nodes", g) if hasattr(g, "nodes") else g.layers) * x

        f = effx.jit(scale, static_argnums=0)
        assert [int(f(make([1, 2, 3]), 2)), int(f(make([1, 2, 3]), 3)), int(f(make([1]), 2))] == [6, 9, 2]
        assert count == 2


def test_numbers_and_names_of_static_arguments_stand_for_themselves() -> None:
    """Where both are given, an argument with a name that is passed by position is dynamic."""
    seen = []

    def f(a: Any, b: Any, c: Any) -> Any:
        seen.append(isinstance(c, Box))
        return b + c

    both = effx.jit(f, static_argnums=0, static_argnames="c")
    assert both(1, np.ones(2), np.ones(2)).tolist() == [2, 2]
    assert both(1, np.ones(2), 2.0).tolist() == [3, 3]
    assert both(1, np.ones(2), c=2.0).tolist() == [3, 3]
    only = effx.jit(f, static_argnames="c")
    assert only(1, np.ones(2), 2.0).tolist() == [3, 3]
    assert seen == [True, True, False, False]


class Layer:
    """A callable with a field of Python's own name."""

    __name__ = 3

    def __call__(self, x: Any) -> Any:
        return x * 2.0


@pytest.mark.unguarded
@pytest.mark.parametrize(
    "transform",
    [
        effx.jit, effx.vmap, effx.grad, effx.value_and_grad, effx.hessian, effx.jacfwd, effx.jacrev, effx.checkpoint,
        effx.make_jaxpr, effx.pmap, enp.vectorize, effx.named_call,
    ],
)  # fmt: skip
def test_names_that_are_no_strings(transform: Callable[..., Any]) -> None:
    f = transform(Layer())
    f(np.ones(1, "f4") if transform in (effx.vmap, effx.pmap) else np.float32(1))
    assert isinstance(getattr(f, "__name__", ""), str)


def test_costs_of_a_lowered_function_are_estimated_without_compiling() -> None:
    """Two operations for each term of a product of matrices."""
    compiled: list[str] = []

    def listen(event: str, duration: float, **kwargs: str | int) -> None:
        if event == "/effx/compile":
            compiled.append(event)

    x = enp.ones((8, 8))
    effx.monitoring.register_event_duration_secs_listener(listen)
    try:
        costs = effx.jit(lambda x: x @ x + 1).lower(x).cost_analysis()
    finally:
        effx.monitoring.unregister_event_duration_listener(listen)
    assert costs["flops"] == 2 * 8**3 + 64
    assert costs["bytes accessed"] >= 2 * 4 * 64
    assert not compiled


def test_compiled_code_is_not_transformed() -> None:
    """The error says what the value belongs to."""
    compiled = effx.jit(lambda x: x + 4).lower(1.0).compile()
    with pytest.raises(errors.TransformError) as error:
        effx.vmap(lambda x: compiled(x) + 2)(enp.ones(3))
    assert error.value.message == (
        "<lambda>: compiled code cannot be transformed, but an argument is a value of vmap(axis_size=3); "
        "transform the function, and compile the result"
    )


def test_names_of_parameters_by_position_only_are_refused() -> None:
    """No caller could pass them by name, keywords of any name or not."""

    def f(a: Any, /, b: Any, **others: Any) -> Any:
        return b

    for role in ("static", "donate"):
        options: Any = {f"{role}_argnames": ("a", "b")}
        with pytest.raises(errors.TransformError) as error:
            effx.jit(f, **options)
        assert error.value.message == (
            f"jit: {role}_argnames names 'a', which f takes by position only; use {role}_argnums"
        )


@pytest.mark.parametrize("role", ["static", "donate"])
@pytest.mark.parametrize("name", ["args", "kwargs"])
def test_names_of_any_further_arguments_are_refused(role: str, name: str) -> None:
    """No single argument has that name."""

    def f(a: Any, *args: Any, **kwargs: Any) -> Any:
        return a

    options: Any = {f"{role}_argnames": name}
    with pytest.raises(errors.TransformError) as error:
        effx.jit(f, **options)
    assert error.value.message == (
        f"jit: {role}_argnames names {name!r}, in which f takes any further arguments; name single ones"
    )


def test_where_bodies_become_part_of_callers() -> None:
    """Staged, lowered or called, by name as by True and False; the values are the same."""

    def caller(inline: Any) -> Any:
        inner = effx.jit(lambda x: enp.sin(x) * 2, inline=inline)
        return effx.jit(lambda x: inner(x) + 1.0)

    def staged(inline: Any) -> list[str]:
        return [e.op.name for e in caller(inline).trace(1.0).program.equations]

    level = effx.Inline
    for inline in (True, level.JAX_EARLY):
        assert staged(inline) == ["sin", "mul", "add"]
    for inline in (False, level.JAX_LATE, level.XLA_EARLY, level.XLA_LATE, level.AUTO):
        assert staged(inline) == ["call", "add"]
        assert ("func.call" in caller(inline).lower(1.0).as_text()) == (inline is not level.JAX_LATE)
    for inline in level:
        assert float(caller(inline)(0.0)) == 1.0
