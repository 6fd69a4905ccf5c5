"""The text of views of programs is as JAX's documentation prints it."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.ad_checkpoint import checkpoint_name
from effx.compat.jaxprs import make_jaxpr
from effx.compat.layout import Break, Group, Indented, join, lay_out
from effx.lax import fori_loop, scan, while_loop

X = np.arange(3, dtype=np.float32)


@effx.custom_jvp
def add_one(x: Any) -> Any:
    return x + 1


@add_one.defjvp
def add_one_jvp(primals: Any, tangents: Any) -> Any:
    return add_one(*primals), tangents[0]


@effx.custom_vjp
def double(x: Any) -> Any:
    return x * 2


def double_fwd(x: Any) -> Any:
    return double(x), None


def double_bwd(_: Any, ct: Any) -> Any:
    return (ct * 2,)


double.defvjp(double_fwd, double_bwd)


@pytest.mark.parametrize(
    ("f", "args", "text"),
    [
        (lambda: (), (), "{ lambda ; . let  in () }"),
        (lambda x: x, (X,), "{ lambda ; a:f32[3]. let  in (a,) }"),
        (
            lambda x: enp.sin(enp.cos(x)),
            (1.0,),
            "{ lambda ; a:f32[]. let b:f32[] = cos a; c:f32[] = sin b in (c,) }",
        ),
        (
            lambda x: (x * 0.1, x + np.float32(0.2)),
            (1.0,),
            """{ lambda ; a:f32[]. let
    b:f32[] = mul a 0.1:f32[]
    c:f32[] = add a 0.20000000298023224:f32[]
  in (b, c) }""",
        ),
        (
            lambda x: while_loop(lambda c: c < 5, lambda c: c + 1, x),
            (1,),
            """{ lambda ; a:i32[]. let
    b:i32[] = while[
      body_jaxpr={ lambda ; c:i32[]. let d:i32[] = add c 1:i32[] in (d,) }
      body_nconsts=0
      cond_jaxpr={ lambda ; e:i32[]. let f:bool[] = lt e 5:i32[] in (f,) }
      cond_nconsts=0
    ] a
  in (b,) }""",
        ),
        (
            lambda x: effx.lax.cond(x > 5, lambda c: c + 1, lambda c: c - 1, x),
            (1,),
            """{ lambda ; a:i32[]. let
    b:bool[] = gt a 5:i32[]
    c:i32[] = convert_element_type[new_dtype=int32 weak_type=False] b
    d:i32[] = cond[
      branches=(
        { lambda ; e:i32[]. let f:i32[] = sub e 1:i32[] in (f,) }
        { lambda ; g:i32[]. let h:i32[] = add g 1:i32[] in (h,) }
      )
    ] c a
  in (d,) }""",
        ),
        (
            lambda x: checkpoint_name(enp.sin(x), "y"),
            (X,),
            "{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = name[name=y] b in (c,) }",
        ),
        (
            add_one,
            (X[:1],),
            """{ lambda ; a:f32[1]. let
    b:f32[1] = custom_jvp_call[
      name=add_one
      call_jaxpr={ lambda ; c:f32[1]. let d:f32[1] = add c 1.0:f32[] in (d,) }
      jvp=add_one_jvp
      symbolic_zeros=False
    ] a
  in (b,) }""",
        ),
        (
            double,
            (X[:1],),
            """{ lambda ; a:f32[1]. let
    b:f32[1] = custom_vjp_call[
      name=double
      bwd=double_bwd
      call_jaxpr={ lambda ; c:f32[1]. let d:f32[1] = mul c 2.0:f32[] in (d,) }
      fwd=double_fwd
      symbolic_zeros=False
    ] a
  in (b,) }""",
        ),
    ],
)
def test_text_of_a_program(f: Callable[..., Any], args: tuple[Any, ...], text: str) -> None:
    """It is what JAX prints for the function."""
    view = make_jaxpr(f)(*args)
    assert str(view) == repr(view.jaxpr) == view.pretty_print(use_color=False) == text


def test_a_program_that_two_equations_hold_has_a_name() -> None:
    """Its text stands once, before what calls it; the second of one name has a number."""
    g = effx.jit(enp.sin)

    def sin(x: Any) -> Any:
        return enp.tanh(x)

    h = effx.jit(sin)
    text = str(make_jaxpr(lambda x: g(g(x)) + h(h(x)))(X))
    assert (
        text
        == """let sin = { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) } in
let sin1 = { lambda ; c:f32[3]. let d:f32[3] = tanh c in (d,) } in
{ lambda ; e:f32[3]. let
    f:f32[3] = jit[name=sin jaxpr=sin] e
    g:f32[3] = jit[name=sin jaxpr=sin] f
    h:f32[3] = jit[name=sin jaxpr=sin1] e
    i:f32[3] = jit[name=sin jaxpr=sin1] h
    j:f32[3] = add g i
  in (j,) }"""
    )


def test_results_that_nothing_uses_have_no_name() -> None:
    text = str(make_jaxpr(lambda x: scan(lambda c, y: (c + y, c), 0.0, x)[1])(X))
    assert "\n    _:f32[] b:f32[3] = scan[" in text
    assert text.endswith("in (b,) }")


def test_many_operands_stand_on_several_lines() -> None:
    """As many on each as fit; names go on with two letters."""
    lines = str(make_jaxpr(lambda *xs: xs[-1])(*[1.0] * 28)).split("\n")
    assert lines[0].startswith("{ lambda ; a:f32[] b:f32[]")
    assert 70 < max(map(len, lines)) <= 80
    assert lines[-2:] == ["    ba:f32[] bb:f32[]. let ", "  in (bb,) }"]


def test_constants_stand_before_the_operands() -> None:
    assert (
        str(make_jaxpr(lambda x: x * X)(X)) == "{ lambda a:f32[3]; b:f32[3]. let c:f32[3] = mul b a in (c,) }"
    )


def test_sources_and_scopes_on_demand() -> None:
    """Each equation then ends with its line and the scopes around it."""

    def f(x: Any) -> Any:
        with effx.named_scope("layer"):
            return enp.sin(x)

    view = make_jaxpr(effx.vmap(f))(X)
    text = view.pretty_print(source_info=True, name_stack=True)
    assert text.count("  # ") == 1
    assert "test_jaxpr_text.py:" in text
    assert text.split("\n")[1].endswith(" (f) [vmap(layer)]")
    assert view.pretty_print(name_stack=True).split("\n")[1] == "    b:f32[3] = sin a  # [vmap(layer)]"


def test_moves_between_memories_are_device_put() -> None:
    """With JAX's space as their parameter, from which the primitive performs the same operation."""
    view = make_jaxpr(lambda x: effx.device_put(x * 2, effx.memory.Space.Host))(X)
    put = view.eqns[-1]
    assert put.primitive.name == "device_put"
    assert put.params == {"devices": (effx.memory.Space.Host,), "srcs": (None,)}
    assert "device_put[devices=(MemorySpace.Host,) srcs=(None,)]" in str(view)
    (result,) = [put.primitive.bind(enp.asarray(X), **put.params)]
    np.testing.assert_array_equal(result, X)


def test_callbacks_have_the_names_of_their_kinds() -> None:
    def f(x: Any) -> Any:
        effx.debug.print("{}", x)
        effx.debug.callback(lambda y: None, x)
        y = effx.pure_callback(lambda y: y, x, x)
        return effx.experimental.io_callback(lambda y: y, y, y)

    names = [e.primitive.name for e in make_jaxpr(f)(X).eqns]
    assert names == ["debug_print", "debug_callback", "pure_callback", "io_callback"]


@pytest.mark.parametrize(("columns", "text"), [(11, "[aa bb cc]"), (9, "[\n  aa\n  bb\n  cc\n]")])
def test_a_group_is_broken_as_a_whole(columns: int, text: str) -> None:
    """On one line if it fits, else a line for each part."""
    parts = Group(("[", Indented(2, (Break(""), join(Break(), ["aa", "bb", "cc"]))), Break(""), "]"))
    assert lay_out(parts, columns) == text


def test_fori_loop_prints_its_bodies() -> None:
    assert "body_jaxpr={ lambda ;" in str(make_jaxpr(lambda x: fori_loop(0, x, lambda i, c: c + i, 0))(3))


def test_text_in_colours() -> None:
    """Asked for; without the codes it is the plain text."""
    view = make_jaxpr(enp.sin)(X)
    colored = view.pretty_print(use_color=True)
    assert "\x1b[34msin\x1b[0m" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == str(view)
