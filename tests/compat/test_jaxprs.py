"""Programs, types and wrapped functions as JAX's libraries see them. The import hook is not needed for that."""

import inspect
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.compat import jaxprs, wrapped
from effx.compat.modules import api_util, core
from effx.compat.modules._src import api_util as private_api_util
from effx.compat.modules._src import core as private_core
from effx.compat.modules.extend import core as extend_core
from effx.compat.modules.extend import source_info_util
from effx.compat.modules.interpreters import pxla
from effx.compat.primitives import primitive_of
from effx.errors import ConcretizationError, DTypeError, EffxError, ProgramError, TransformError
from effx.ir.ops.elementwise import Cos
from effx.ir.program import Literal, Var

X = np.linspace(0.1, 1.0, 6, dtype=np.float32).reshape(2, 3)
TABLE = enp.asarray(np.arange(3, dtype=np.float32))


def body(x: Any) -> Any:
    y = enp.sin(x) * TABLE + 2.0
    return y.sum(), lax.cond(y[0, 0] > 0, enp.cos, enp.tanh, y)


def looped(x: Any) -> Any:
    carry, rows = lax.scan(lambda c, r: (c + r * TABLE, c), enp.zeros(3), x)
    return effx.jit(enp.exp)(carry), rows


@pytest.mark.parametrize(
    "fun", [body, looped, lambda x: x, lambda x: (1.0, x[0])], ids=["body", "looped", "same", "constant"]
)
def test_a_view_evaluates_to_what_the_function_does(fun: Any) -> None:
    view = jaxprs.make_jaxpr(fun)(X)
    expected = effx.tree.leaves(fun(enp.asarray(X)))
    evaluations: list[Any] = [
        lambda x: core.eval_jaxpr(view.jaxpr, view.consts, x),
        lambda x: core.eval_jaxpr(view, view.consts, x),
        lambda x: core.eval_jaxpr(view.jaxpr, view.consts, x, propagate_source_info=False),
        effx.jit(core.jaxpr_as_fun(view)),
        lambda x: [y[1] for y in effx.vmap(core.jaxpr_as_fun(view))(enp.stack([x, x]))],
    ]
    for evaluate in evaluations:
        for found, e in zip(evaluate(enp.asarray(X)), expected, strict=True):
            np.testing.assert_allclose(found, e, rtol=1e-6)


def test_gradients_go_through_a_view() -> None:
    view = jaxprs.make_jaxpr(lambda x: body(x)[0])(X)
    found = effx.grad(lambda x: core.eval_jaxpr(view.jaxpr, view.consts, x)[0])(enp.asarray(X))
    np.testing.assert_allclose(found, np.cos(X) * np.arange(3), rtol=1e-6)


def test_the_parts_of_a_view() -> None:
    view = jaxprs.make_jaxpr(lambda x: enp.sin(x) * TABLE + 2.0)(X)
    assert [repr(t) for t in view.in_avals] == ["f32[2,3]"]
    assert [repr(t) for t in view.out_avals] == ["f32[2,3]"]
    assert len(view.consts) == len(view.jaxpr.constvars) == 1
    assert view.consts is view.literals
    np.testing.assert_array_equal(view.consts[0], TABLE)
    names = [e.primitive.name for e in view.eqns]
    assert names[0] == "sin"
    assert names[-1] == "add"
    add = view.eqns[-1]
    assert type(add.invars[0]) is Var
    assert type(add.invars[1]) is Literal
    assert add.invars[1].val == 2.0
    assert add.outvars[0].aval.shape == (2, 3)
    assert add.outvars == view.jaxpr.outvars
    position = add.source_info.position
    assert position is not None
    assert position[0].endswith("test_jaxprs.py")
    assert view.eqns[0].primitive is primitive_of(effx.make_jaxpr(enp.sin)(1.0).equations[0].op)
    assert view.effects == frozenset()
    assert str(view).startswith("{ lambda a:f32[3]; b:f32[2,3]. let\n    c:f32[2,3] = sin b\n")


def test_a_view_that_is_not_changed_gives_its_program() -> None:
    """With all that was derived from it; a changed one gives another."""
    program = effx.make_jaxpr(lambda x: enp.sin(x) * TABLE + 2.0)(X)
    view = jaxprs.close_program(program)
    assert jaxprs.close_program(program) is view
    assert view.program is program
    first = view.eqns[0]
    cosine = effx.make_jaxpr(enp.cos)(1.0).equations[0].op
    changed = view.replace(
        jaxpr=view.jaxpr.replace(eqns=[first.replace(primitive=primitive_of(cosine)), *view.eqns[1:]])
    )
    assert changed.program is not program
    np.testing.assert_allclose(jaxprs.jaxpr_as_fun(changed)(X)[0], np.cos(X) * TABLE + 2, rtol=1e-6)
    other = view.replace(consts=[2 * TABLE])
    assert other.program is not program
    np.testing.assert_allclose(jaxprs.jaxpr_as_fun(other)(X)[0], np.sin(X) * 2 * TABLE + 2, rtol=1e-6)


def test_programs_inside_are_views_too() -> None:
    view = jaxprs.make_jaxpr(looped)(X)
    inner = {e.primitive.name: e.params["jaxpr"] for e in view.eqns if "jaxpr" in e.params}
    assert all([isinstance(x, extend_core.ClosedJaxpr) for x in inner.values()])
    scan = next(e for e in view.eqns if "ft_in" in e.params)
    assert (scan.params["length"], scan.params["reverse"]) == (2, False)
    assert len(scan.params["ft_in"].unpack()[1]) == 1
    assert len(list(extend_core.subjaxprs(view.jaxpr))) == len(inner) == 2
    (branches,) = [e.params["branches"] for e in jaxprs.make_jaxpr(body)(X).eqns if "branches" in e.params]
    assert [type(b) for b in branches] == [extend_core.ClosedJaxpr] * 2


def test_a_changed_equation_is_performed_as_changed() -> None:
    view = jaxprs.make_jaxpr(lambda x: enp.sin(x) + 1.0)(X)
    cos = jaxprs.make_jaxpr(enp.cos)(X).eqns[0]
    changed = view.eqns[0].replace(primitive=cos.primitive, params=cos.params)
    assert changed.equation is None
    assert view.eqns[0].replace(outvars=[]).equation is not None
    other = view.replace(jaxpr=view.jaxpr.replace(eqns=[changed, *view.eqns[1:]]))
    for evaluate in (core.jaxpr_as_fun(other), effx.jit(core.jaxpr_as_fun(other))):
        np.testing.assert_allclose(evaluate(enp.asarray(X))[0], np.cos(X) + 1, rtol=1e-6)
    assert "cos" in str(other)
    assert "cos" in str(jaxprs.program_of(other))


def test_wrong_numbers_of_operands_are_refused() -> None:
    view = jaxprs.make_jaxpr(body)(X)
    message = "eval_jaxpr: the program takes 1 constants and 1 operands, got 0 and 2"
    for told in (True, False):
        with pytest.raises(ProgramError) as caught:
            core.eval_jaxpr(view.jaxpr, [], X, X, propagate_source_info=told)
        assert caught.value.message == message


def test_a_program_with_its_constants_says_what_it_is_made_of() -> None:
    """As in JAX, where there is one class for programs with and without constants."""
    whole = jaxprs.make_jaxpr(lambda x: enp.sin(x) * enp.asarray(X))(X)
    for name in ("constvars", "invars", "outvars", "eqns", "effects", "debug_info"):
        assert getattr(whole, name) is getattr(whole.jaxpr, name)
    assert (len(whole.constvars), len(whole.invars), len(whole.outvars)) == (1, 1, 1)


def test_return_shape_gives_both() -> None:
    view, shape = jaxprs.make_jaxpr(enp.sum, return_shape=True)(X)
    assert isinstance(view, core.ClosedJaxpr)
    assert shape.shape == ()


def test_tracers_are_values_that_are_not_known() -> None:
    seen: list[bool] = []

    def f(x: Any) -> Any:
        seen.append(isinstance(x, core.Tracer))
        return x

    for transform in (effx.jit, effx.grad, effx.vmap):
        transform(f)(enp.ones(3) if transform is effx.vmap else enp.float32(1.0))
    assert seen == [True, True, True]
    for known in (enp.ones(3), X, 1.0, None):
        assert not isinstance(known, core.Tracer)
    with pytest.raises(TransformError, match="effx's handlers make their values themselves"):
        core.Tracer(X, enp.ones(3).aval)  # type: ignore[arg-type]  # any trace


def test_types_are_avals() -> None:
    types: Any = core.ShapedArray
    general: Any = core.AbstractValue
    t: Any = types((2, 3), np.float32)
    assert t is enp.ones((2, 3)).aval
    assert isinstance(t, types)
    assert isinstance(t, general)
    assert core.get_aval(1.5).weak_type
    assert t.at_least_vspace() is t
    assert core.get_aval(1).at_least_vspace().dtype == effx.dtypes.float0
    assert core.get_aval(X) is t
    assert t.update(shape=(4,)) is types((4,), np.float32)
    assert t.update(dtype=np.dtype(np.int32), weak_type=True) is types((2, 3), np.int32, weak_type=True)
    assert (t.str_short(), t.str_short(short_dtypes=True)) == ("float32[2,3]", "f32[2,3]")
    assert types((), float).dtype == np.float64  # as in JAX: narrowed where it is used
    assert not isinstance(X, types)
    assert extend_core.mapped_aval(3, 1, t).shape == (2,)
    assert extend_core.mapped_aval(3, None, t) is t
    assert extend_core.unmapped_aval(5, 1, t).shape == (2, 5, 3)
    assert extend_core.unmapped_aval(5, None, t) is t
    with pytest.raises(DTypeError, match="axis 1 of f32\\[2,3\\] has not 4 elements"):
        extend_core.mapped_aval(4, 1, t)
    key = effx.random.key(0)
    assert private_core.physical_aval(key.aval) is types((2,), np.uint32)
    assert private_core.physical_aval(t) is t
    assert core.valid_jaxtype(X)
    assert core.valid_jaxtype(1)
    assert not core.valid_jaxtype("x")


def test_concrete_values_are_forced_and_others_refused() -> None:
    assert core.concrete_or_error(int, np.float32(2.0), "n") == 2
    assert core.concrete_or_error(None, X) is X
    with pytest.raises(ConcretizationError, match="n: needs a concrete value"):
        effx.jit(lambda x: core.concrete_or_error(int, x, "n"))(2.0)


def test_the_state_of_handlers() -> None:
    states: list[Any] = []

    def f(x: Any) -> Any:
        states.append(
            (extend_core.get_opaque_trace_state(convention="haiku"), extend_core.get_opaque_trace_state())
        )
        assert not core.trace_state_clean()
        with extend_core.take_current_trace() as taken:
            assert core.trace_state_clean()
            one = enp.ones(()) + 1
            assert not isinstance(one, core.Tracer)
            with extend_core.set_current_trace(taken):
                y = x * one
        return y

    assert core.trace_state_clean()
    assert effx.grad(f)(3.0) == 2.0
    effx.jit(f)(3.0)
    (a, b), (c, d) = states
    outside = extend_core.get_opaque_trace_state()
    assert a == b
    assert c == d
    assert a != c
    assert outside not in (a, c)
    assert outside == extend_core.get_opaque_trace_state()
    with pytest.raises(TransformError, match="set_current_trace: takes what take_current_trace gave, or"):
        extend_core.set_current_trace(object()).__enter__()


def test_functions_wrapped_by_transformations() -> None:
    @wrapped.transformation
    def doubled(scale: float, *args: Any, **kwargs: Any) -> Any:
        result = yield [scale * a for a in args], kwargs
        yield 2 * result

    @wrapped.transformation_with_aux
    def counted(*args: Any) -> Any:
        result = yield args, {}
        yield result, len(args)

    @wrapped.transformation_with_aux2
    def kept(f: Any, store: Any, *args: Any) -> Any:
        store.store("seen")
        return f(*args)

    f, count = counted(doubled(wrapped.wrap_init(lambda a, b, c=0: a + b + c, {"c": 5}), 10.0))
    with pytest.raises(wrapped.StoreException):
        count()
    assert f.call_wrapped(1, 2) == 70.0
    assert count() == 2
    g, seen = kept(wrapped.transformation2(lambda inner, x: inner(x) + 1)(wrapped.wrap_init(np.negative)))
    assert g.call_wrapped(4) == -3
    assert seen() == "seen"


def test_flat_functions() -> None:
    def f(x: Any, *, y: dict[str, float]) -> Any:
        return {"sum": x[0] + y["a"], "all": (x, y)}

    args = (([1.0, 2.0],), {"y": {"a": 3.0}})
    leaves, tree = effx.tree_util.tree_flatten(args)
    info = api_util.debug_info("test", f, *args)
    assert "test_jaxprs.py" in info.func_src_info
    flat, out_tree = api_util.flatten_fun(wrapped.wrap_init(f, debug_info=info), tree)
    results = flat.call_wrapped(*leaves)
    assert out_tree().unflatten(results) == {"sum": 4.0, "all": ([1.0, 2.0], {"a": 3.0})}
    plain, plain_tree = api_util.flatten_fun_nokwargs(
        wrapped.wrap_init(lambda x: x[::-1]), effx.tree_util.tree_structure(([1, 2],))
    )
    assert plain.call_wrapped(1, 2) == [2, 1]
    assert plain_tree().unflatten([2, 1]) == [2, 1]
    assert api_util.safe_map(max, [1, 5], [4, 2]) == [4, 5]
    with pytest.raises(ValueError, match="zip"):
        api_util.safe_map(max, [1], [1, 2])


def test_equations_that_libraries_write() -> None:
    """A variable of `gensym`, an equation of `new_jaxpr_eqn`, checked and evaluated; positions as texts."""
    view = jaxprs.make_jaxpr(lambda x: enp.sin(x))(2.0)
    (equation,) = view.jaxpr.eqns
    assert source_info_util.summarize(equation.source_info).split("/")[-1].startswith("test_jaxprs.py:")
    assert source_info_util.summarize(equation.source_info).endswith("(<lambda>)")
    assert source_info_util.summarize(source_info_util.current()).endswith(
        "(test_equations_that_libraries_write)"
    )
    assert source_info_util.summarize(jaxprs.SourceInfo("", None)) == "<unknown>"
    (x,) = view.jaxpr.invars
    y = extend_core.gensym()(x.aval)
    cos = extend_core.new_jaxpr_eqn([x], [y], primitive_of(Cos()), {}, extend_core.no_effects)
    changed = view.jaxpr.replace(eqns=[cos], outvars=[y])
    extend_core.check_jaxpr(changed)
    assert float(core.eval_jaxpr(changed, [], 2.0)[0]) == pytest.approx(np.cos(2.0))
    with pytest.raises(EffxError):
        extend_core.check_jaxpr(view.jaxpr.replace(eqns=[]))
    assert {np.ndarray, np.float32, np.int8} <= extend_core.array_types


def test_names_of_arguments() -> None:
    def f(a: int, b: int, *, c: int) -> None: ...

    signature = inspect.signature(f)
    infer = private_api_util.infer_argnums_and_argnames
    assert infer(signature, (1,), None) == ((1,), ("b",))
    assert infer(signature, None, ("a", "c")) == ((0,), ("a", "c"))
    assert infer(signature, -1, "c") == ((1,), ("c",))
    assert infer(signature, None, None) == ((), ())


def test_the_mesh_in_force_by_its_old_name() -> None:
    assert pxla.thread_resources.env.physical_mesh.empty
    with effx.make_mesh((1,), ("data",)):
        assert pxla.thread_resources.env.physical_mesh.axis_names == ("data",)


def _scan_view() -> Any:
    return jaxprs.make_jaxpr(lambda c, x: effx.lax.scan(lambda c, y: (c + y, c), c, x))(
        np.float32(1), np.arange(3, dtype=np.float32)
    )


def test_parameters_that_are_written_count() -> None:
    """An equation whose dictionary is written to performs its primitive with what stands there."""
    view = _scan_view()
    view.eqns[-1].params["reverse"] = True
    jaxprs.check_jaxpr(view)
    assert "reverse=True" in str(view.eqns[-1])
    results = jaxprs.eval_jaxpr(view.jaxpr, (), np.float32(1), np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(results[1], [4.0, 3.0, 1.0])
    np.testing.assert_array_equal(
        jaxprs.jaxpr_as_fun(view)(np.float32(0), np.ones(3, np.float32))[1], [2, 1, 0]
    )


@pytest.mark.parametrize(
    ("view", "parameter", "value", "message"),
    [
        (_scan_view, "reverse", 4, "scan: reverse must be of type bool, got 4"),
        (_scan_view, "ft_in", -3, "scan: ft_in must be of type FlatTree, got -3"),
        (_scan_view, "length", "3", "scan: length must be of type int, got '3'"),
        (
            lambda: jaxprs.make_jaxpr(lambda x: effx.lax.switch(0, [enp.sin, enp.cos], x))(1.0),
            "branches",
            (4, 2),
            "Cond: branches must be a tuple of programs, got (4, 2)",
        ),
    ],
)
def test_parameters_that_a_primitive_does_not_take(
    view: Any, parameter: str, value: object, message: str
) -> None:
    changed = view()
    changed.eqns[-1].params[parameter] = value
    with pytest.raises(ProgramError) as caught:
        jaxprs.check_jaxpr(changed)
    assert caught.value.message == f"check_jaxpr: a primitive does not take its parameters: {message}"


def test_an_equation_shows_its_text() -> None:
    view = jaxprs.make_jaxpr(enp.sin)(X)
    assert str(view.eqns) == "[a:f32[2,3] = sin b]"
