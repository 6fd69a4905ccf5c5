"""Right programs in the words that effx and JAX share, one in each function: no checker should refuse one."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import effx
import effx.numpy as enp
from effx import Array, lax


@effx.tree_util.register_dataclass
@dataclass
class Params:
    w: Array
    b: Array


class Layer:
    def __init__(self, w: Array) -> None:
        self.w = w

    @functools.partial(effx.jit, static_argnums=0)
    def scale(self, x: Array) -> Array:
        return x * self.w

    @effx.jit(static_argnums=0)
    def shift(self, x: Array) -> Array:
        return x + self.w


def total(x: Array) -> Array:
    return (x * x).sum()


def weighted(x: Array, w: Array) -> Array:
    return (x * w).sum()


def model(params: Params, x: Array) -> Array:
    return (x @ params.w + params.b).sum()


def make_vector() -> Array:
    return enp.array([1.0, 2.0, 3.0])


def partial_of_jit_on_a_method() -> None:
    """`@partial(jit, static_argnums=0)` on a method"""
    y: Array = Layer(make_vector()).scale(make_vector())
    z: Array = Layer(make_vector()).shift(make_vector())
    assert y.shape == z.shape == (3,)


def partial_of_jit_on_a_function() -> None:
    """`@partial(jit, static_argnames="n")`"""

    @functools.partial(effx.jit, static_argnames="n")
    def power(x: Array, n: int) -> Array:
        return x**n

    y: Array = power(make_vector(), n=2)
    assert y.shape == (3,)


def partial_of_vmap() -> None:
    """`@partial(vmap, in_axes=(0, None))`"""

    @functools.partial(effx.vmap, in_axes=(0, None))
    def scale(x: Array, w: Array) -> Array:
        return x * w

    y: Array = scale(make_vector(), make_vector())
    assert y.shape == (3, 3)


def partial_of_grad() -> None:
    """`@partial(grad, argnums=1)`"""

    @functools.partial(effx.grad, argnums=1)
    def slope(x: Array, w: Array) -> Array:
        return (x * w).sum()

    y: Array = slope(make_vector(), make_vector())
    assert y.shape == (3,)


def partial_of_value_and_grad() -> None:
    """`@partial(value_and_grad, has_aux=True)`"""

    @functools.partial(effx.value_and_grad, has_aux=True)
    def loss(x: Array) -> tuple[Array, int]:
        return x.sum(), 1

    (value, aux), gradient = loss(make_vector())
    assert value.shape == ()
    assert aux == 1
    assert gradient.shape == (3,)


def partial_of_checkpoint() -> None:
    """`@partial(checkpoint, static_argnums=1)`"""

    @functools.partial(effx.checkpoint, static_argnums=1)
    def wave(x: Array, n: int) -> Array:
        return enp.sin(x) * n

    y: Array = wave(make_vector(), 2)
    assert y.shape == (3,)


def partial_of_custom_vjp() -> None:
    """`@partial(custom_vjp, nondiff_argnums=(1,))`"""

    @functools.partial(effx.custom_vjp, nondiff_argnums=(1,))
    def clip(x: Array, limit: float) -> Array:
        return x

    def forward(x: Array, limit: float) -> tuple[Array, None]:
        return x, None

    def backward(limit: float, _: None, ct: Array) -> tuple[Array]:
        return (enp.clip(ct, -limit, limit),)

    clip.defvjp(forward, backward)
    y: Array = clip(make_vector(), 0.5)
    assert y.shape == (3,)


def partial_of_custom_jvp() -> None:
    """`@partial(custom_jvp, nondiff_argnums=(1,))`"""

    @functools.partial(effx.custom_jvp, nondiff_argnums=(1,))
    def power(x: Array, n: int) -> Array:
        return x**n

    @power.defjvp
    def rule(n: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (x,), (dx,) = primals, tangents
        return x**n, n * x ** (n - 1) * dx

    y: Array = power(make_vector(), 2)
    assert y.shape == (3,)


def transforms_of_partials() -> None:
    """`jit`, `grad` and `vmap` of a `functools.partial`"""
    doubled = functools.partial(weighted, w=enp.ones(3))
    y: Array = effx.jit(doubled)(make_vector())
    z: Array = effx.grad(doubled)(make_vector())
    u: Array = effx.vmap(functools.partial(weighted, make_vector()))(enp.ones((2, 3)))
    assert (y.shape, z.shape, u.shape) == ((), (3,), (2,))


def partition_specs() -> None:
    """`P` as a function and as an annotation"""
    spec: effx.P = effx.P("x", None)
    assert len(spec) == 2


def bool_dtype() -> None:
    """`numpy.bool` as a dtype"""
    mask: Array = enp.zeros(3, enp.bool) | enp.array([True, False, True], dtype=enp.bool)
    assert mask.dtype == enp.bool


def index_as_int() -> None:
    """a `fori_loop` body with `i: int`"""

    def body(i: int, x: Array) -> Array:
        return x * i

    y: Array = lax.fori_loop(1, 4, body, make_vector())
    z: Array = lax.fori_loop(1, 4, lambda i, x: x + i, make_vector())
    assert y.shape == z.shape == (3,)


def index_as_int_with_records() -> None:
    """a `fori_loop` body with `i: int` and a record as carry"""

    def body(i: int, params: Params) -> Params:
        return Params(params.w * i, params.b + i)

    result: Params = lax.fori_loop(1, 4, body, Params(make_vector(), make_vector()))
    assert result.w.shape == (3,)


def rows_as_numbers() -> None:
    """a `scan` body with `x: int`, a `map` of a function of a float"""

    def step(params: Params, n: int) -> tuple[Params, Array]:
        return Params(params.w * n, params.b), params.w

    last, rows = lax.scan(step, Params(make_vector(), make_vector()), enp.arange(4))

    def half(x: float) -> Array:
        return enp.asarray(x / 2)

    y: Array = lax.map(half, make_vector())
    assert (last.w.shape, rows.shape, y.shape) == ((3,), (4, 3), (3,))


def loops_with_numbers() -> None:
    """loops over arrays that begin with numbers"""

    def step(carry: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
        return (carry[0] + x, carry[1] * x), x

    def plus(carry: Array, x: Array) -> tuple[Array, Array]:
        return carry + x, x

    def double(x: Array) -> Array:
        return x * 2

    def is_small(x: Array) -> Array:
        return x < 10

    pair, _ = lax.scan(step, (0.0, 1.0), make_vector())
    one, _ = lax.scan(plus, 0.0, make_vector())
    y: Array = lax.while_loop(is_small, double, 1.0)
    assert (len(pair), one.shape, y.shape) == (2, (), ())


def loops_of_ints() -> None:
    """a `while_loop` of an int"""

    def is_small(n: int) -> bool:
        return n < 10

    def next_one(n: int) -> int:
        return n + 1

    assert lax.while_loop(is_small, next_one, 0) == 10


def branches_with_numbers() -> None:
    """`cond` and `switch` of functions of arrays, with numbers"""

    def up(x: Array, y: Array) -> Array:
        return x + y

    def down(x: Array, y: Array) -> Array:
        return x - y

    y: Array = lax.cond(True, up, down, make_vector(), 1.0)
    z: Array = lax.cond(True, enp.sin, enp.cos, 1.0)
    u: Array = lax.switch(1, [up, down], 2.0, 1.0)
    v: Array = lax.cond(make_vector()[0] > 0, lambda: make_vector(), lambda: enp.zeros(3))
    assert (y.shape, z.shape, u.shape, v.shape) == ((3,), (), (), (3,))


def rules_with_other_names() -> None:
    """rules of `custom_vjp` whose parameters have other names"""

    @effx.custom_vjp
    def clip(x: Array, limit: Array) -> Array:
        return x * limit

    def forward(value: Array, bound: Array) -> tuple[Array, tuple[Array, Array]]:
        return value * bound, (value, bound)

    def backward(saved: tuple[Array, Array], ct: Array) -> tuple[Array, None]:
        return ct * saved[1], None

    clip.defvjp(forward, backward)
    y: Array = clip(make_vector(), make_vector())
    assert y.shape == (3,)


def rules_with_defaults() -> None:
    """rules of a function with a default, and rules that are lambdas"""

    @effx.custom_vjp
    def scale(x: Array, factor: float = 2.0) -> Array:
        return x * factor

    scale.defvjp(lambda x, factor: (x * factor, factor), lambda factor, ct: (ct * factor, None))
    y: Array = scale(make_vector())
    assert y.shape == (3,)

    @effx.custom_jvp
    def wave(x: Array, shift: float = 0.0) -> Array:
        return enp.sin(x + shift)

    @wave.defjvp
    def rule(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
        x, shift = primals
        return enp.sin(x + shift), enp.cos(x + shift) * tangents[0]

    assert effx.grad(lambda x: wave(x).sum())(make_vector()).shape == (3,)


def forward_mode() -> None:
    """`jvp` with numbers, with lists, and of a function of a tuple"""
    y, dy = effx.jvp(weighted, (1.0, 2.0), (1.0, 0.0))
    z, dz = effx.jvp(weighted, [make_vector(), make_vector()], [make_vector(), make_vector()])
    u, du = effx.jvp(lambda *xs: xs[0] * xs[1], (make_vector(), 2.0), (make_vector(), 1.0))
    assert y.shape == dy.shape == z.shape == dz.shape == ()
    assert u.shape == du.shape == (3,)


def mapped_axes() -> None:
    """`in_axes` and `out_axes` as tuples, lists, None and negative ints"""
    x = enp.ones((2, 3))
    y: Array = effx.vmap(weighted, in_axes=[0, None])(x, make_vector())
    z: Array = effx.vmap(total, in_axes=-1)(x)
    u: Array = effx.vmap(weighted, in_axes=(None, 0), out_axes=-1)(make_vector(), x)
    v: Array = effx.vmap(model, in_axes=(Params(None, 0), None))(  # type: ignore[arg-type]  # axes in place of arrays
        Params(make_vector(), make_vector()), make_vector()
    )
    assert (y.shape, z.shape, u.shape, v.shape) == ((2,), (3,), (2,), (3,))


def options_of_jit() -> None:
    """numbers and names of static and donated arguments"""

    def power(x: Array, n: int) -> Array:
        return x**n

    y: Array = effx.jit(power, static_argnums=(1,))(make_vector(), 2)
    z: Array = effx.jit(power, static_argnames=("n",), donate_argnums=0)(make_vector(), n=2)
    u: Array = effx.jit(power, static_argnums=1, donate_argnames="x")(make_vector(), 2)
    assert y.shape == z.shape == u.shape == (3,)


def batched_gradients() -> None:
    """`vmap(grad(f))` and `jit(vmap(grad(f)))`"""
    x = enp.ones((2, 3))
    y: Array = effx.vmap(effx.grad(total))(x)
    z: Array = effx.jit(effx.vmap(effx.grad(weighted), in_axes=(0, None)))(x, make_vector())
    value, gradient = effx.vmap(effx.value_and_grad(total))(x)
    assert y.shape == z.shape == gradient.shape == (2, 3)
    assert value.shape == (2,)


def gradients_of_records() -> None:
    """`grad` with respect to a dataclass, and `tree.map` with it"""
    params = Params(enp.ones((3, 2)), enp.zeros(2))
    gradient: Params = effx.grad(model)(params, make_vector())
    updated: Params = effx.tree.map(lambda p, g: p - 0.1 * g, params, gradient)
    assert updated.w.shape == (3, 2)


def trees() -> None:
    """`tree.map` of dicts, tuples, lists, of several trees and of one array"""
    x = make_vector()
    y: dict[str, Array] = effx.tree.map(enp.sin, {"a": x})
    z: tuple[Array, Array] = effx.tree.map(lambda a: a * 2.0, (x, x))
    u: list[Array] = effx.tree.map(lambda a, b: a + b, [x], [x])
    v: dict[str, dict[str, Array]] = effx.tree.map(enp.sin, {"a": {"b": x}})
    w: Array = effx.tree.map(enp.sin, x)
    shapes: dict[str, tuple[int, ...]] = effx.tree.map(enp.shape, {"a": x})
    n: int = effx.tree.map(lambda a, b, c: a + b + c, 1, 2, 3)
    assert len(y) == len(u) == len(v) == len(shapes) == 1
    assert len(z) == 2
    assert w.shape == (3,)
    assert n == 6


def derivatives_by_several() -> None:
    """`jacfwd`, `jacrev` and `hessian` with `argnums`"""
    x = make_vector()
    y: Array = effx.jacfwd(weighted, argnums=1)(x, x)
    by_first, by_second = effx.jacrev(weighted, argnums=(0, 1))(x, x)
    z: Array = effx.hessian(total)(x)
    assert (y.shape, by_first.shape, by_second.shape, z.shape) == ((3,), (3,), (3,), (3, 3))


def placement() -> None:
    """`device_put` and `device_get` of arrays, numbers and records"""
    params: Params = effx.device_put(Params(make_vector(), make_vector()))
    x: Array = effx.device_put(1.0)
    y: dict[str, Array] = effx.device_put({"a": make_vector()})
    z = effx.device_get(make_vector())
    assert (params.w.shape, x.shape, len(y), z.shape) == ((3,), (), 1, (3,))


def fits() -> None:
    """`polyfit`, also with the covariance"""
    x = enp.arange(5.0)
    y: Array = enp.polyfit(x, 2 * x, 1)
    fit, covariance = enp.polyfit(x, 2 * x, 1, cov=True)
    assert (y.shape, fit.shape, covariance.shape) == ((2,), (2,), (2, 2))


def functions_as_arguments() -> None:
    """transformed functions where functions are wanted"""

    def apply(f: Callable[[Array], Array], x: Array) -> Array:
        return f(x)

    x = make_vector()
    shapes = [
        apply(f, x).shape for f in (effx.jit(total), effx.grad(total), effx.vmap(enp.sin), effx.jacfwd(total))
    ]
    assert shapes == [(), (3,), (3,), (3,)]


def programs() -> None:
    """`make_jaxpr` and `eval_shape`"""
    text = str(effx.make_jaxpr(total)(make_vector()))
    program, shape = effx.make_jaxpr(total, return_shape=True)(make_vector())
    assert text
    assert program is not None
    assert shape.shape == effx.eval_shape(total, make_vector()).shape == ()
