"""Views of programs have `shard_map` equations as JAX's interpreters read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.compat.jaxprs import JaxprEqn, check_jaxpr, eval_jaxpr, make_jaxpr
from effx.sharding import AxisType
from effx.sharding import PartitionSpec as P

MESH = effx.make_mesh((2, 2, 1), ("x", "y", "z"), axis_types=(AxisType.Auto,) * 3)
X = np.arange(64, dtype=np.float32).reshape(4, 4, 4)


def only_equation(f: Any, *args: Any) -> JaxprEqn:
    equations: list[JaxprEqn] = make_jaxpr(f)(*args).eqns
    (e,) = equations
    assert e.primitive.name == "shard_map"
    return e


@pytest.mark.parametrize(
    "spec",
    [
        P(), P("x"), P("y", "x"), P(None, "y"), P(("x", "y")), P(("y", "x"), None), P(None, None, ("y", "x")),
        P("z", "x"), P("x", ("y", "z")), P("x", None, "y"),
    ],
    ids=str,
)  # fmt: skip
def test_specs(spec: P) -> None:
    """The specs of operands and results are those that were given."""
    f = effx.shard_map(lambda x: x * 2, mesh=MESH, in_specs=spec, out_specs=spec)
    params = only_equation(f, X).params
    assert (params["in_specs"], params["out_specs"]) == ((shown(spec),), (shown(spec),))
    assert params["mesh"] == MESH
    assert params["check_vma"] is True
    assert params["newly_manual_axes"] == {"x", "y", "z"}
    assert [e.primitive.name for e in params["jaxpr"].eqns if e.primitive.name != "pvary"] == ["mul"]


def shown(spec: P) -> P:
    """Returns a spec without what says nothing."""
    entries = [entry[0] if isinstance(entry, tuple) and len(entry) == 1 else entry for entry in spec]
    while entries and entries[-1] is None:
        entries.pop()
    return P(*entries)


@pytest.mark.parametrize("spec", [P("z"), P(None, "x"), P(("z", "x"), "y")], ids=str)
@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (4, 4)])
def test_specs_of_empty_arrays(spec: P, shape: tuple[int, int]) -> None:
    """Those, too, can be bound again."""
    f = effx.shard_map(lambda x: x * 2, mesh=MESH, in_specs=spec, out_specs=spec)
    x = np.ones(shape, np.float32)
    e = only_equation(f, x)
    assert e.params["in_specs"] == e.params["out_specs"] == (spec,)
    (y,) = e.primitive.bind(x, **e.params)
    np.testing.assert_array_equal(y, 2 * x)


def test_groups_and_other_reshapes_stay() -> None:
    """A sum in groups is `psum`; a call that reshapes or turns what it maps is no `shard_map`."""
    grouped = effx.shard_map(
        lambda x: lax.psum(x, "x", axis_index_groups=[[0], [1]]), mesh=MESH, in_specs=P("x"), out_specs=P("x")
    )
    assert [e.primitive.name for e in only_equation(grouped, X).params["jaxpr"].eqns] == ["psum"]
    f = effx.shard_map(lambda x: x * 2, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    turns: list[Any] = [lambda x: x.reshape(2, 32), lambda x: x.T, lambda x: x.reshape(64)]
    for turn in turns:
        turned: Any = effx.jit(lambda x: f(turn(x)))  # noqa: B023  called at once
        (e,) = make_jaxpr(turned)(X).eqns
        assert e.primitive.name == "jit"


def test_batches_and_part_of_the_axes() -> None:
    """vmap shards the batch by `spmd_axis_name`; a map over one axis binds that one."""
    f = effx.shard_map(lambda x: x, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    params = only_equation(effx.vmap(f, spmd_axis_name="y"), X).params
    assert (params["in_specs"], params["out_specs"]) == ((P("y", "x"),), (P("y", "x"),))
    part = effx.shard_map(
        lambda x: x, mesh=MESH, in_specs=P(None, "x"), out_specs=P("x"), axis_names={"x"}, check_vma=False
    )
    params = only_equation(part, X).params
    assert (params["in_specs"], params["out_specs"]) == ((P(None, "x"),), (P("x"),))
    assert (params["newly_manual_axes"], params["check_vma"]) == ({"x"}, False)


def test_sums_and_casts() -> None:
    """A sum over an axis along which a value varies is `psum_invariant`, its transpose `pvary`; elsewhere it is `psum`."""
    total = effx.shard_map(lambda x: lax.psum(x, "x"), mesh=MESH, in_specs=P("x"), out_specs=P())
    (e,) = only_equation(total, X).params["jaxpr"].eqns
    assert (e.primitive.name, e.params) == ("psum_invariant", {"axes": ("x",)})
    (e,) = only_equation(effx.vjp(total, X)[1], total(X)).params["jaxpr"].eqns
    assert (e.primitive.name, e.params) == ("pvary", {"axes": ("x",)})
    unchecked = effx.shard_map(
        lambda x: lax.psum(x, "x"), mesh=MESH, in_specs=P("x"), out_specs=P(), check_vma=False
    )
    (e,) = only_equation(unchecked, X).params["jaxpr"].eqns
    assert e.primitive.name == "psum"


def test_equations_perform_the_map() -> None:
    """Interpreters bind an equation's primitive with its parameters; results of several outputs are in order."""
    table = enp.arange(4.0)

    @effx.shard_map(mesh=MESH, in_specs=(P("x"), P(None, "y")), out_specs=(P("x"), P()))
    def f(x: Any, y: Any) -> Any:
        return x + table, lax.psum(y.sum() + lax.axis_index("y"), "y")

    closed = make_jaxpr(f)(X, X)
    (e,) = closed.eqns
    assert e.primitive.name == "shard_map"
    operands = [*closed.consts, X, X]
    want = f(X, X)
    for results in (
        e.primitive.bind(*operands, **e.primitive.get_bind_params(e.params)),
        e.bind(*operands),
        eval_jaxpr(closed.jaxpr, closed.consts, X, X),
    ):
        for y, z in zip(results, want, strict=True):
            np.testing.assert_array_equal(y, z)
    types = e.primitive.types([v.aval for v in e.invars], e.params)
    assert [(t.shape, t.dtype) for t in types] == [(v.aval.shape, v.aval.dtype) for v in e.outvars]


def test_other_calls_stay_calls() -> None:
    """A function that does more than one map is a call of `jit`."""

    @effx.jit
    def twice(x: Any) -> Any:
        f = effx.shard_map(lambda x: x * 2, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
        return f(f(x))

    (e,) = make_jaxpr(twice)(X).eqns
    assert e.primitive.name == "jit"
    assert [inner.primitive.name for inner in e.params["jaxpr"].eqns] == ["shard_map", "shard_map"]


def test_casts_where_types_differ() -> None:
    """Values that vary along fewer axes are cast in front, as JAX has it; the program is right, and computes the same."""

    def f(x: Any, y: Any) -> Any:
        return x * y * 2.0, lax.pmax(y, "x"), lax.all_gather(y, "y", axis=0)

    mapped = effx.shard_map(f, mesh=MESH, in_specs=(P("x"), P()), out_specs=(P("x"), P(), P(None, "y")))
    x, y = np.arange(8, dtype=np.float32), np.arange(4, dtype=np.float32)
    e = only_equation(mapped, x, y)
    body = e.params["jaxpr"]
    assert [(inner.primitive.name, inner.params.get("axes")) for inner in body.eqns] == [
        ("pvary", ("x",)), ("mul", None), ("pvary", ("x",)), ("mul", None),
        ("pvary", ("x",)), ("pmax", None), ("pvary", ("y",)), ("all_gather", None),
    ]  # fmt: skip
    check_jaxpr(body)
    for result, want in zip(e.primitive.bind(x, y, **e.params), mapped(x, y), strict=True):
        np.testing.assert_array_equal(result, want)
    unchecked = effx.shard_map(
        lambda y: lax.pmax(y, "x"), mesh=MESH, in_specs=P(), out_specs=P(), check_vma=False
    )
    assert [inner.primitive.name for inner in only_equation(unchecked, y).params["jaxpr"].eqns] == ["pmax"]


def test_text() -> None:
    """As JAX prints it; types say along which axes values vary."""
    mesh = effx.make_mesh((2,), ("x",))
    f = effx.shard_map(lambda x: x * 2.0, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    assert str(make_jaxpr(f)(X[0, 0])) == (
        """\
{ lambda ; a:f32[4]. let
    b:f32[4] = shard_map[
      check_vma=True
      in_specs=(P('x'),)
      jaxpr={ lambda ; c:f32[2]{V:x}. let
          d:f32[]{V:x} = pvary[axes=('x',)] 2.0:f32[]
          e:f32[2]{V:x} = mul c d
        in (e,) }
      mesh=Mesh('x': 2, axis_types=(Auto))
      newly_manual_axes=frozenset({'x'})
      out_specs=(P('x'),)
    ] a
  in (b,) }"""
    )
