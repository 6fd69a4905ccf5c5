"""What programs for JAX catch, and the attributes of stages that they read, in a process with the import hook."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.test_hook import run

pytestmark = pytest.mark.unguarded


def test_errors_are_of_the_classes_that_jax_raises(tmp_path: Path) -> None:
    """`except ValueError` catches what it catches in JAX; so do TypeError, AttributeError and NotImplementedError."""
    run(
        """
import effx.compat.jax, jax, jax.numpy as jnp, numpy as np

def raises(kind, call):
    try:
        call()
    except kind:
        return
    except Exception as error:
        raise AssertionError(f"{type(error).__mro__}") from error
    raise AssertionError("no error")

f = lambda x, y=1: x
raises(ValueError, lambda: jax.jit(f, static_argnums=0)(np.ones(3)))
raises(ValueError, lambda: jax.jit(f, static_argnums=5))
raises(ValueError, lambda: jax.jit(f, donate_argnums=5))
raises(ValueError, lambda: jax.jit(f, static_argnames="no"))
raises(ValueError, lambda: jax.jit(f, donate_argnames="no"))
raises(ValueError, lambda: jax.jit(f, static_argnames="x", donate_argnames="x"))
raises(ValueError, lambda: jax.vmap(f, in_axes=(0, 0, 0))(jnp.ones(3)))
raises(ValueError, lambda: jax.vmap(f)())
raises(ValueError, lambda: jax.lax.scan(f, 0.0, jnp.ones(3), unroll=-1))
raises(ValueError, lambda: jax.device_put(1.0, "cpu"))
raises(AttributeError, lambda: jax.custom_jvp(f)(1.0))
raises(AttributeError, lambda: jax.custom_vjp(f)(1.0))
raises(AttributeError, lambda: jax.custom_batching.custom_vmap(f)(1.0))
raises(NotImplementedError, lambda: jax.vmap(lambda x: jax.pure_callback(np.sin, x, x))(jnp.ones(3)))
raises(ValueError, lambda: jax.grad(lambda x: jax.pure_callback(np.sin, x, x))(1.0))
from jax.extend.core import Primitive
raises(NotImplementedError, lambda: Primitive("no_rules").bind(1.0))
""",
        tmp_path,
    )


def test_errors_of_callbacks_are_logged(tmp_path: Path) -> None:
    """XLA's threads have no traceback of their own; the log has it, and the name of the function that called."""
    run(
        """
import effx.compat.jax, jax, jax.numpy as jnp, logging, io
stream = io.StringIO()
logging.getLogger("jax").addHandler(logging.StreamHandler(stream))

def fails(x):
    raise RuntimeError("Ooops")

f = jax.jit(lambda x: jax.pure_callback(fails, jax.ShapeDtypeStruct((), jnp.float32), x))
try:
    f(1.0).block_until_ready()
except RuntimeError as error:
    assert "Ooops" in str(error)
else:
    raise AssertionError
text = stream.getvalue()
assert text.startswith("jax.pure_callback failed\\nTraceback") and "RuntimeError: Ooops" in text, text
""",
        tmp_path,
    )


def test_stages_have_the_private_attributes_that_programs_read(tmp_path: Path) -> None:
    run(
        """
import effx.compat.jax, jax, jax.numpy as jnp
table = jnp.arange(3.0)
compiled = jax.jit(lambda x, y: table + x).lower(1.0, jnp.ones(2)).compile()
assert [i._aval.shape for i in compiled.args_info[0]] == [(), (2,)]
assert [a.shape for a in compiled._executable.in_avals] == [()]
assert compiled._executable._kept_var_idx == {0}
assert [a.shape for a in compiled._executable.out_avals] == [(3,)]
assert list(compiled._params.const_args) == []
assert compiled._executable.xla_executable.hlo_modules()
assert compiled.input_formats[0][1].layout == jax.experimental.layout.Layout((0,))
""",
        tmp_path,
    )


def test_keys_show_their_words_and_their_generator(tmp_path: Path) -> None:
    """By the private names that programs read; other arrays have none."""
    run(
        """
import effx.compat.jax, jax, jax.numpy as jnp, numpy as np
from jax.extend.random import rbg_prng_impl, threefry_prng_impl

keys = jax.random.split(jax.random.key(3), 4)
assert keys._impl is threefry_prng_impl and jax.random.key(0, impl="rbg")._impl is rbg_prng_impl
assert keys._base_array.shape == (4, *keys._impl.key_shape)
np.testing.assert_array_equal(keys._base_array, jax.random.key_data(keys))
assert not hasattr(jnp.ones(3), "_impl") and not hasattr(jnp.ones(3), "_base_array")
""",
        tmp_path,
    )


def test_tree_errors_are_made_from_the_name_of_the_prefix(tmp_path: Path) -> None:
    run(
        """
import effx.compat.jax, jax
first, second = jax.tree_util.prefix_errors(((1,), (2,)), ([3], [4]))
error = second("in_axes")
assert isinstance(error, ValueError)
assert error.message == "at [1] in_axes is a tuple, the full tree a list", error.message
assert jax.tree_util.prefix_errors((1, 2), ([3], 4)) == []
""",
        tmp_path,
    )


def test_jet_takes_booleans_and_zero_terms(tmp_path: Path) -> None:
    """A boolean's derivatives count for nothing; a missing series is one of zeros; factorials are floats."""
    run(
        """
import effx.compat.jax, jax.numpy as jnp, math
from jax.experimental.jet import fact, jet, zero_series, zero_term
y, dys = jet(lambda p, x, z: jnp.where(p, x * z, z), (True, 2.0, 3.0), ([1.0, 1.0], [1.0, zero_term], zero_series))
assert y == 6.0 and [float(d) for d in dys] == [3.0, 0.0]
assert all(abs(float(fact(n)) - math.factorial(n)) < 1e-3 * math.factorial(n) for n in range(8))
""",
        tmp_path,
    )


def test_stages_and_derivatives_show_programs_as_jax_does(tmp_path: Path) -> None:
    run(
        """
import effx.compat.jax, jax, jax.numpy as jnp
jaxpr = jax.jit(lambda x: jnp.sin(x) * 2).trace(1.0).jaxpr
assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["sin", "mul"]
assert type(jaxpr) is type(jax.make_jaxpr(lambda x: x)(1.0)) is jax.extend.core.ClosedJaxpr
push = jax.linearize(lambda x: jnp.sin(x) * 2, 1.0)[1]
assert str(push.func.args[0]).count(" mul ") == 2
def foo(x):
    return x
assert jax.make_jaxpr(foo).__name__ == "make_jaxpr(foo)" and jax.make_jaxpr(foo).__module__ == "jax"
text = jax.print_environment_info(return_string=True)
assert text.startswith(f"jax:    {jax.__version__}\\njaxlib: ") and "\\nnumpy:  " in text, text
""",
        tmp_path,
    )


def test_policies_of_checkpoints_are_asked_in_the_form_of_jax(tmp_path: Path) -> None:
    """With the primitive, the operands' types and the parameters; they may ask JAX's own policies."""
    run(
        """
import effx.compat.jax, jax, jax.numpy as jnp
from jax import lax
policies = jax.checkpoint_policies

def saved(policy):
    f = jax.remat(lambda x: jnp.sin(jnp.sin(x) @ x), policy=policy)
    linear = str(jax.linearize(f, jnp.ones((2, 2)))[1].func.args[0])
    return [linear.count(f" {name} ") for name in ("sin", "cos")], linear.count(" dot_general")

assert saved(None) == saved(policies.nothing_saveable) == ([1, 2], 3)
assert saved(policies.everything_saveable) == ([0, 0], 2)
assert saved(lambda prim, *_, **__: str(prim) == "cos") == ([1, 0], 2)
rows = (((1,), (0,)), ((), ()))
dots = lambda prim, *_, **params: prim is lax.dot_general_p and params["dimension_numbers"] == rows
assert saved(dots) == saved(policies.dots_saveable) == ([1, 2], 2)
assert saved(policies.save_from_both_policies(dots, lambda prim, *_, **__: prim is lax.sin_p)) == ([0, 2], 2)
own = lambda prim, *avals, **params: policies.dots_saveable(prim, *avals, **params) or prim.name == "cos"
assert saved(own) == ([1, 0], 2)
assert policies.dots_saveable is policies.dots_saveable
shapes = []
saved(lambda prim, *avals, **_: shapes.append([a.shape for a in avals]))
assert [(2, 2), (2, 2)] in shapes
""",
        tmp_path,
    )


def test_vmap_maps_over_values_of_registered_classes(tmp_path: Path) -> None:
    """Their class says how a batch element is taken out and how a result is put together, under jit and grad too."""
    run(
        """
import effx.compat.jax, jax, jax.numpy as jnp, numpy as np
from jax.interpreters import batching

class Named:
    def __init__(self, names, data):
        self.names, self.data = names, data

class Axis:
    def __init__(self, name, axis):
        self.name, self.axis = name, axis

def to_elt(cont, _, value, spec):
    names = list(value.names)
    assert names.pop(spec.axis) == spec.name
    return Named(names, cont(value.data, spec.axis))

def from_elt(cont, size, elt, spec):
    return Named([*elt.names[:spec.axis], spec.name, *elt.names[spec.axis:]], cont(size, elt.data, spec.axis))

batching.register_vmappable(Named, Axis, int, to_elt, from_elt, None)
x = np.arange(12.0, dtype=np.float32).reshape(3, 4)

def double(x, y):
    assert x.names == ["j"] and x.data.shape == (4,)
    return Named(x.names, x.data * y), y

mapped = jax.vmap(double, in_axes=(Axis("i", 0), 0), out_axes=(Axis("i", 1), 0))
result, y = mapped(Named(["i", "j"], x), jnp.arange(3.0))
assert result.names == ["j", "i"] and y.shape == (3,)
np.testing.assert_array_equal(result.data, (x * np.arange(3.0)[:, None]).T)
loss = lambda data: mapped(Named(["i", "j"], data), jnp.arange(3.0))[0].data.sum()
np.testing.assert_array_equal(jax.jit(jax.grad(loss))(x), np.broadcast_to(np.arange(3.0)[:, None], (3, 4)))
same = jax.vmap(lambda v: v, in_axes=Axis("i", 0), out_axes=Axis("i", 0), axis_size=3)
np.testing.assert_array_equal(same(Named(["i", "j"], x)).data, x)
np.testing.assert_array_equal(jax.vmap(lambda a, b: a + b, (0, None), 1)(x, np.ones(4)), (x + 1).T)
try:
    jax.vmap(lambda a: a, axis_size=4)(x)
except ValueError as error:
    assert "vmap: the batch must have one size, got [3, 4]; give axis_size" in str(error)
else:
    raise AssertionError
batching.unregister_vmappable(Named)
assert jax.vmap(jnp.sin)(x).shape == (3, 4)
""",
        tmp_path,
    )


def test_texts_of_programs_are_as_mlir_prints_them(tmp_path: Path) -> None:
    """Numbers with seven digits, bare types of single results; locations on demand. HLO is XLA's."""
    run(
        """
import effx.compat.jax, jax, jax.numpy as jnp

lowered = jax.jit(lambda x: x + 1.5).lower(jnp.ones(3))
text = lowered.as_text()
assert text == str(lowered.compiler_ir()), text
assert "func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {" in text, text
assert "dense<1.500000e+00> : tensor<3xf32>" in text, text
assert "loc(" not in text and "loc(" in lowered.as_text(debug_info=True)
assert lowered.as_text("hlo").startswith("HloModule")
composite = jax.lax.composite(lambda x: x * x, name="my.square")
text = jax.jit(composite).lower(1.0).as_text()
assert "@my.square(%arg0: tensor<f32>) -> tensor<f32> {" in text, text
""",
        tmp_path,
    )


def test_traced_values_say_how_they_vary(tmp_path: Path) -> None:
    """`x.mat` of a traced value is `typeof(x).mat`, as attributes of types are in JAX."""
    run(
        """
import effx.compat.jax, jax, jax.numpy as jnp
from jax.sharding import PartitionSpec as P

def f(x):
    assert x.mat == x.aval.mat == jax.typeof(x).mat and x.mat.varying == {"i"}
    return x

mesh = jax.make_mesh((1,), ("i",))
jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(jnp.ones(2))
""",
        tmp_path,
    )
