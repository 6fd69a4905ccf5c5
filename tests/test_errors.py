"""Wrong input gives a typed error that says what, where and under which handlers."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import errors, lax, nn, random
from effx.experimental import sparse
from effx.ir.text import parse_program
from effx.scipy.interpolate import RegularGridInterpolator

f4 = np.float32


def ones(*shape: int) -> Any:
    return np.ones(shape, f4)


def identity(x: Any) -> Any:
    return x


CASES: list[tuple[str, Callable[[], Any], type[Exception], str, str]] = [
    (
        "matmul shapes",
        lambda: enp.matmul(ones(3, 4), ones(5, 6)),
        errors.ShapeError,
        "matmul: contracting sizes differ: lhs f32[3,4] axis 1 is 4, rhs f32[5,6] axis 0 is 5",
        "",
    ),
    (
        "matmul shapes inside",
        lambda: effx.jit(effx.vmap(lambda x: x @ ones(5, 6)))(ones(8, 3, 4)),
        errors.ShapeError,
        "matmul: contracting sizes differ: lhs f32[3,4] axis 1 is 4, rhs f32[5,6] axis 0 is 5",
        "jit > vmap(axis_size=8)",
    ),
    (
        "broadcast",
        lambda: enp.ones(3) + enp.ones(4),
        errors.ShapeError,
        "add: shapes do not fit: [3], [4] differ on axis -1: 3 and 4",
        "",
    ),
    (
        "string operand",
        lambda: enp.sin("a"),  # type: ignore[call-overload]  # the error is the point
        errors.DTypeError,
        "sin: expected an array or a number, got 'a' of type str",
        "",
    ),
    (
        "grad of a vector",
        lambda: effx.grad(identity)(ones(3)),
        errors.ShapeError,
        "grad: identity must return a scalar, got f32[3]; use vjp or jacrev",
        "",
    ),
    (
        "grad by an integer",
        lambda: effx.grad(identity)(3),
        errors.DTypeError,
        (
            "grad: identity must be differentiated by floating or complex arguments, got i32[]~; "
            "convert it, or pass allow_int=True for a float0 gradient"
        ),
        "",
    ),
    (
        "grad of an integer result",
        lambda: effx.grad(lambda x: enp.argmax(x))(ones(3)),
        errors.DTypeError,
        "grad: <lambda> must return a floating scalar, got i32[]",
        "",
    ),
    (
        "grad of a complex result",
        lambda: effx.grad(lambda x: x * 1j)(1.0),
        errors.DTypeError,
        "grad: <lambda> must return a real scalar, got c64[]~; pass holomorphic=True, or use vjp",
        "",
    ),
    (
        "grad argnums",
        lambda: effx.grad(identity, argnums=1)(1.0),
        errors.TransformError,
        "grad: argnums 1 names argument 1, but the function got 1 positional arguments",
        "",
    ),
    (
        "has_aux without aux",
        lambda: effx.grad(identity, has_aux=True)(1.0),
        errors.TransformError,
        "grad: with has_aux=True identity must return a pair (result, aux), got Box",
        "linearize > jvp",
    ),
    (
        "jvp tangent shape",
        lambda: effx.jvp(identity, (ones(3),), (ones(4),)),
        errors.ShapeError,
        "jvp: the tangent of f32[3] must have its shape, got f32[4]",
        "",
    ),
    (
        "jvp tangent dtype",
        lambda: effx.jvp(identity, (1,), (1.0,)),
        errors.DTypeError,
        "jvp: the tangent of i32[]~ must have dtype float0, got f32[]~; integers and booleans have no tangents",
        "",
    ),
    (
        "jvp not tuples",
        lambda: effx.jvp(identity, 1.0, 1.0),  # type: ignore[call-overload]  # the error is the point
        errors.TransformError,
        "jvp: primals and tangents must be tuples or lists of arguments, got float and float",
        "",
    ),
    (
        "linear_transpose of a nonlinear function",
        lambda: effx.linear_transpose(enp.sin, 1.0)(1.0),
        errors.NoRuleError,
        "transpose: sin is not linear in its operands, or has no transpose",
        "",
    ),
    (
        "vmap in_axes length",
        lambda: effx.vmap(identity, in_axes=(0, 1))(ones(3)),
        errors.TransformError,
        "vmap: in_axes has 2 entries, but identity got 1 positional arguments",
        "",
    ),
    (
        "vmap in_axes type",
        lambda: effx.vmap(identity, in_axes="a"),  # type: ignore[call-overload]  # on purpose
        errors.TransformError,
        "vmap: in_axes must be an int, None, or a tuple with an entry for each argument, got 'a'",
        "",
    ),
    (
        "vmap axis range",
        lambda: effx.vmap(identity, in_axes=1)(ones(3)),
        errors.ShapeError,
        "vmap: in_axes asks for axis 1 of argument 0 of identity, which is f32[3] with 1 axes",
        "",
    ),
    (
        "vmap of a scalar",
        lambda: effx.vmap(identity)(1.0),
        errors.ShapeError,
        "vmap: in_axes asks for axis 0 of argument 0 of identity, which is a scalar f32[]~; use in_axes=None for it",
        "",
    ),
    (
        "vmap sizes",
        lambda: effx.vmap(lambda x, y: x)(ones(3), {"a": ones(4)}),
        errors.ShapeError,
        (
            "vmap: sizes of the mapped axes of <lambda> differ: argument 0 f32[3] axis 0 is 3, "
            "argument 1['a'] f32[4] axis 0 is 4"
        ),
        "",
    ),
    (
        "vmap nothing mapped",
        lambda: effx.vmap(identity, in_axes=None)(ones(3)),
        errors.TransformError,
        "vmap: no argument of identity is mapped; give axis_size, or an axis in in_axes for at least one",
        "",
    ),
    (
        "vmap out_axes None",
        lambda: effx.vmap(identity, out_axes=None)(ones(3)),
        errors.ShapeError,
        "vmap: out_axes is None for a result of identity that differs between batch elements: f32[3] with batch axis 0",
        "",
    ),
    (
        "vmap out_axes range",
        lambda: effx.vmap(identity, out_axes=2)(ones(3)),
        errors.ShapeError,
        "vmap: out_axes asks for axis 2 of a result of identity with 1 axes",
        "",
    ),
    (
        "bool in jit",
        lambda: effx.jit(lambda x: 1 if x > 0 else 2)(1.0),
        errors.TracerBoolConversionError,
        (
            "bool(x): needs a concrete value, but x is an abstract bool[] under jit (<lambda> at test_errors.py:{line}); "
            "use effx.numpy.where or effx.lax control flow, or mark the argument static"
        ),
        "jit",
    ),
    (
        "float in vmap",
        lambda: effx.vmap(lambda x: float(x))(ones(3)),
        errors.ConcretizationError,
        (
            "float(x): needs a concrete value, but x is an abstract f32[] under vmap(axis_size=3) "
            "(<lambda> at test_errors.py:{line}); keep it an array: use effx.numpy and effx.lax"
        ),
        "vmap(axis_size=3)",
    ),
    (
        "bool in grad of a vector",
        lambda: effx.vmap(lambda x: 1 if x > 0 else 2)(ones(3)),
        errors.TracerBoolConversionError,
        (
            "bool(x): needs a concrete value, but x is an abstract bool[] under vmap(axis_size=3) "
            "(<lambda> at test_errors.py:{line}); use effx.numpy.where or effx.lax control flow"
        ),
        "vmap(axis_size=3)",
    ),
    (
        "index in jit",
        lambda: effx.jit(lambda i: [1, 2][i])(1),
        errors.TracerIntegerConversionError,
        (
            "index(x): needs a concrete value, but x is an abstract i32[]~ under jit "
            "(<lambda> at test_errors.py:{line}); use effx.lax control flow for loops, x.at and "
            "effx.numpy.take for indices, or mark the argument static"
        ),
        "jit",
    ),
    (
        "numpy in jit",
        lambda: effx.jit(lambda x: np.sin(np.asarray(x)))(1.0),
        errors.TracerArrayConversionError,
        (
            "numpy.asarray(x): needs a concrete value, but x is an abstract f32[]~ under jit "
            "(<lambda> at test_errors.py:{line}); use functions of effx.numpy instead of numpy's, "
            "or mark the argument static"
        ),
        "jit",
    ),
    (
        "a size in jit",
        lambda: effx.jit(lambda n: enp.zeros(n))(3),
        errors.TracerIntegerConversionError,
        (
            "zeros: shapes must be known while tracing, got Traced<i32[]~>with<jit>; take sizes from x.shape, "
            "or make the argument that gives them static (static_argnums or static_argnames of jit)"
        ),
        "jit",
    ),
    (
        "sizes in jit",
        lambda: effx.jit(lambda x, n: x.reshape(n, -1))(ones(4), 2),
        errors.TracerIntegerConversionError,
        (
            "reshape: shapes must be known while tracing, got (Traced<i32[]~>with<jit>, -1); take sizes from x.shape, "
            "or make the argument that gives them static (static_argnums or static_argnames of jit)"
        ),
        "jit",
    ),
    (
        "boolean mask in jit",
        lambda: effx.jit(lambda x: x[x > 0])(ones(3)),
        errors.NonConcreteBooleanIndexError,
        (
            "x[mask]: the shape would depend on the values of the abstract mask bool[3]; "
            "use effx.numpy.where(mask, x, y), or x.at[mask].set(y) with a scalar y"
        ),
        "jit",
    ),
    (
        "unhashable static argument",
        lambda: effx.jit(lambda x, n: x, static_argnums=1)(1.0, [1]),
        errors.TransformError,
        "jit: static argument 1 of <lambda> must be hashable, got [1] of type list",
        "",
    ),
    (
        "too few arguments for static_argnums",
        lambda: effx.jit(lambda *xs: xs[0], static_argnums=1)(1.0),
        errors.TransformError,
        "jit: <lambda> was called with 1 positional arguments, fewer than static_argnums (1,) needs",
        "",
    ),
    (
        "static_argnums out of range",
        lambda: effx.jit(identity, static_argnums=3),
        errors.TransformError,
        "jit: static_argnums names argument 3, but identity takes 1 positional arguments",
        "",
    ),
    (
        "static and donated",
        lambda: effx.jit(identity, static_argnums=0, donate_argnums=0),
        errors.TransformError,
        "jit: arguments cannot be both static and donated: ['0']",
        "",
    ),
    (
        "no array",
        lambda: effx.jit(identity)({"a": "b"}),
        errors.DTypeError,
        (
            "jit: argument 0['a'] must be an array, a number, or a pytree of them, got 'b' of type str; "
            "an argument that is no array can be static in jit"
        ),
        "",
    ),
    (
        "no array returned",
        lambda: effx.jit(lambda x: "a")(1.0),
        errors.DTypeError,
        "jit: <lambda> must return arrays, numbers, or pytrees of them, got 'a' of type str",
        "jit",
    ),
    (
        "unbound axis",
        lambda: lax.psum(ones(2), "i"),
        errors.AxisNameError,
        "psum: axis name 'i' is not bound by vmap, pmap or shard_map; no axis names are in scope",
        "",
    ),
    (
        "another axis in scope",
        lambda: effx.vmap(lambda x: lax.psum(x, "j"), axis_name="i")(ones(2)),
        errors.AxisNameError,
        "psum: axis name 'j' is not bound by vmap, pmap or shard_map; names in scope: 'i'",
        "vmap(axis_size=2, axis_name='i')",
    ),
    (
        "unbound axis of pmax",
        lambda: effx.vmap(lambda x: lax.pmax(x, "j"), axis_name="i")(ones(2)),
        errors.AxisNameError,
        "pmax: axis name 'j' is not bound by vmap, pmap or shard_map; names in scope: 'i'",
        "vmap(axis_size=2, axis_name='i')",
    ),
    (
        "index out of range",
        lambda: enp.arange(3)[5],
        errors.IndexingError,
        "getitem: index 5 is out of range for axis 0 of i32[3] with size 3",
        "",
    ),
    (
        "too many indices",
        lambda: enp.arange(3)[0, 0],
        errors.IndexingError,
        "getitem: 2 indices for the 1 axes of i32[3]",
        "",
    ),
    (
        "list as index",
        lambda: enp.arange(3)[[0, 1]],
        errors.IndexingError,
        "getitem: an index must be an int, slice, None, Ellipsis or array, got [0, 1]; convert it to an array first",
        "",
    ),
    (
        "reshape",
        lambda: enp.arange(6).reshape(4, -1),
        errors.ShapeError,
        "reshape: i32[6] of 6 elements does not fit shape [4, -1]",
        "",
    ),
    (
        "axis",
        lambda: enp.sum(enp.ones((2, 3)), axis=2),
        errors.ShapeError,
        "sum: axis 2 is out of range for the 2 axes of f32[2,3]",
        "",
    ),
    (
        "int overflow",
        lambda: enp.zeros(2, "uint8") + 2**40,
        OverflowError,
        "add: python int 1099511627776 is out of bounds for i32",
        "",
    ),
    (
        "assignment",
        lambda: enp.zeros(2).__setitem__(0, 1.0),
        TypeError,
        "x[i] = y: arrays are immutable, got f32[2]; use x = x.at[i].set(y), which updates in place inside jit",
        "",
    ),
    (
        "no platform",
        lambda: effx.devices("quantum"),
        errors.BackendError,
        "devices: there is no platform 'quantum' on this machine; found: cpu",
        "",
    ),
]


# typeguard refuses these before effx can.
MISTYPED = {"string operand", "jvp not tuples", "no array", "no array returned"}


@pytest.mark.parametrize(
    ("provoke", "kind", "message", "handlers"),
    [pytest.param(*c[1:], id=c[0], marks=[pytest.mark.unguarded] if c[0] in MISTYPED else []) for c in CASES],
)
def test_message(provoke: Callable[[], Any], kind: type[Exception], message: str, handlers: str) -> None:
    with pytest.raises(kind) as caught:
        provoke()
    error = caught.value
    line = provoke.__code__.co_firstlineno
    if isinstance(error, errors.EffxError):
        assert error.message == message.format(line=line) if "{line}" in message else message
        assert error.handlers == handlers
        assert error.at is not None
        assert error.at.startswith("test_errors.py:")
    else:
        assert str(error) == message


def test_whole_form() -> None:
    def loss(x: Any) -> Any:
        return x @ ones(5, 6)

    with pytest.raises(errors.ShapeError) as caught:
        effx.jit(effx.vmap(loss))(ones(8, 3, 4))
    line = loss.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        "matmul: contracting sizes differ: lhs f32[3,4] axis 1 is 4, rhs f32[5,6] axis 0 is 5\n"
        f"  at   test_errors.py:{line} in loss\n"
        "  in   jit > vmap(axis_size=8)"
    )


X = enp.ones((2, 3))

# Each call, and the function of effx that its error names: the one that the user's code called.
CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: enp.mean(X, axis=4), "mean"),
    (lambda: enp.average(X, axis=4), "average"),  # by way of `mean`
    (lambda: X.sum(axis=4), "sum"),
    (lambda: X @ ones(4), "matmul"),
    (lambda: X + ones(4), "add"),
    (lambda: X[[[0], [1, 2]]], "getitem"),
    (lambda: X.at[0].set(ones(7)), "set"),
    (lambda: enp.acos("a"), "arccos"),  # type: ignore[call-overload]  # the error is the point
    (lambda: enp.add.reduce(X, axis=7), "add.reduce"),
    (lambda: enp.frompyfunc(enp.hypot, 2, 1, identity=0).reduce(X, axis=7), "hypot.reduce"),
    (lambda: sparse.BCOO.fromdense(X, nse="a"), "BCOO.fromdense"),  # type: ignore[arg-type]  # the error is the point
    (lambda: RegularGridInterpolator((ones(3),), ones(4)), "RegularGridInterpolator"),
    (lambda: nn.softmax(X, axis=7), "softmax"),  # by way of a jitted function
    (lambda: nn.initializers.he_normal()(random.key(0), "a"), "variance_scaling"),  # type: ignore[arg-type]  # the error is the point
    (lambda: random.normal(enp.ones(7)), "normal"),
    (lambda: lax.map(identity, X, batch_size=-1), "map"),
    # A function that a transformation or loop calls is called by the user.
    (lambda: effx.jit(effx.vmap(enp.trace))(X), "trace"),
    (lambda: effx.grad(lambda x: enp.mean(x, axis=4))(X), "mean"),
    (lambda: lax.scan(lambda c, x: (enp.matmul(c, x), None), ones(3), ones(4, 5)), "matmul"),
    (lambda: lax.scan(lambda c, x: (c, x), ones(3), "a"), "scan"),
    (lambda: lax.cond(True, enp.trace, enp.trace, ones(3)), "trace"),
    # So is one that a transformation takes, and what a transformation returns.
    (lambda: effx.dtypes.canonicalize_dtype("zz"), "canonicalize_dtype"),
    (lambda: X.astype("zz"), "astype"),
    (lambda: effx.vmap(3), "vmap"),  # type: ignore[call-overload]  # the error is the point
    (lambda: effx.hessian(3), "hessian"),  # type: ignore[call-overload]  # the error is the point
]


@pytest.mark.unguarded  # typeguard refuses some
@pytest.mark.parametrize(("provoke", "name"), CALLS, ids=[f"{i}-{name}" for i, (_, name) in enumerate(CALLS)])
def test_errors_name_the_function_that_was_called(provoke: Callable[[], Any], name: str) -> None:
    with pytest.raises(errors.EffxError) as caught:
        provoke()
    assert caught.value.message.split(":")[0] == name


@pytest.mark.unguarded
def test_traceback_ends_at_the_users_line() -> None:
    def loss(x: Any) -> Any:
        return x @ ones(5, 6)

    with pytest.raises(errors.ShapeError) as caught:
        effx.jit(loss)(ones(3, 4))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].name == "loss"
    assert not [f for f in frames if "/effx/" in f.filename]
    with effx.flags.traceback_filtering(True):
        assert effx.config.traceback_filtering is True


def test_escaped_boxes() -> None:
    """Where the line that made the value is known, as in a program that is staged, it is named."""
    kept: list[Any] = []

    def leak(x: Any) -> Any:
        kept.append(x + 1)
        return x * 2

    line = leak.__code__.co_firstlineno
    where = f"leak at test_errors.py:{line}"
    effx.jit(leak)(1.0)
    effx.vmap(leak)(ones(3))
    effx.grad(leak)(1.0)
    made = f", made at test_errors.py:{line + 1} in leak,"
    owners = [
        ("f32[]~", f"jit of {where}{made}"),
        ("f32[]", f"vmap(axis_size=3) of {where}"),
        ("f32[]~", f"jvp of {where}"),
    ]
    for box, (kind, owner) in zip(kept, owners, strict=True):
        inner = functools.partial(lambda b, y: y + b, box)
        for use in (functools.partial(inner, 1.0), functools.partial(effx.jit(inner), 1.0)):
            with pytest.raises(errors.EscapedBoxError) as caught:
                use()
            assert caught.value.message == (
                f"escaped box: a value {kind} that belongs to {owner} was used after that handler "
                f"had ended; return it from the function instead of keeping it in a variable outside"
            )


def test_names_of_jax_errors() -> None:
    """Code that catches what JAX raises catches it here."""
    raised: list[tuple[type[Exception], Callable[[], object]]] = [
        (errors.ConcretizationTypeError, lambda: effx.jit(lambda x: float(x))(1.0)),
        (errors.ConcretizationTypeError, lambda: effx.jit(lambda x: 1 if x else 2)(1.0)),
        (errors.UnexpectedTracerError, leaked),
        (errors.JaxRuntimeError, lambda: effx.devices("nowhere")),
        (errors.JAXTypeError, lambda: effx.jit(lambda x: float(x))(1.0)),
        (errors.JAXTypeError, leaked),
        (errors.JAXIndexError, lambda: effx.jit(lambda x: x[x > 1])(enp.ones(3))),
        (errors.JAXIndexError, lambda: enp.ones(3)[1.5]),
        (errors.JaxprTypeError, lambda: parse_program("x")),
        (effx.dtypes.TypePromotionError, lambda: enp.ones(2, "int4") + enp.ones(2)),
        (ValueError, lambda: enp.searchsorted(enp.arange(3), 1, side="middle")),
        (ValueError, lambda: enp.convolve(enp.ones(3), enp.ones(2), mode="middle")),
        (ValueError, lambda: enp.quantile(enp.ones(3), 0.5, method="middle")),
        (ValueError, lambda: effx.image.resize(enp.ones((3, 3)), (2, 2), "middle")),
        (ValueError, lambda: effx.random.key(0, impl="middle")),
    ]
    for kind, provoke in raised:
        with pytest.raises(kind):
            provoke()


def test_every_error_is_in_the_catalogue() -> None:
    """docs/errors.md has an example of each class, which the tests run, and names the aliases."""
    page = (Path(__file__).parent.parent / "docs" / "errors.md").read_text(encoding="utf-8")
    headings = {line.removeprefix("### ") for line in page.splitlines() if line.startswith("### ")}
    kinds = {
        name: found
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, errors.EffxError) and found is not errors.EffxError
    }
    assert headings == {kind.__name__ for kind in kinds.values()}
    aliases = {name for name, kind in kinds.items() if name != kind.__name__}
    assert not {name for name in aliases if f"`{name}`" not in page}
    # What is printed is the class's own error, not another's.
    for name in headings - {"TracingError"}:
        example = page.split(f"### {name}\n")[1].split("### ")[0]
        assert f"errors.{name}: " in example, name


def test_dtypes_without_an_equivalent() -> None:
    """What DLPack does not know is refused in effx's words."""
    with pytest.raises(errors.ExchangeError) as caught:
        enp.ones(3, "int4").__dlpack__()
    assert caught.value.message.startswith("x.__dlpack__(): i4[3] cannot be shared: UNIMPLEMENTED: ")


def test_status_of_backends() -> None:
    """What XLA says has a status; what is found without it is unknown."""
    with pytest.raises(errors.JaxRuntimeError) as caught:
        effx.devices("nowhere")
    error = caught.value
    assert (error.error_code, error.error_code_string, error.error_message) == (2, "UNKNOWN", error.message)
    error.__cause__ = RuntimeError("INVALID_ARGUMENT: a shape")
    assert (error.error_code, error.error_code_string) == (3, "INVALID_ARGUMENT")
    assert error.error_message == "INVALID_ARGUMENT: a shape"


def leaked() -> object:
    kept: list[Any] = []
    effx.jit(lambda x: kept.append(x))(1.0)
    return kept[0] + 1


@pytest.mark.unguarded  # a tracer where the annotation says an int
@pytest.mark.parametrize(
    "use",
    [lambda k: enp.arange(5)[k:3], enp.zeros, lambda k: enp.arange(5).sum(k), lambda k: enp.arange(5)[k]],
)
def test_escaped_numbers(use: Callable[[Any], object]) -> None:
    """Where an int is expected, an escaped value is no other wrong value."""
    kept: list[Any] = []
    effx.jit(lambda x: kept.append(x))(1)
    with pytest.raises(
        errors.EscapedBoxError, match=r"escaped box: a value .* was used after that handler had ended"
    ):
        use(kept[0])


def test_donated_arrays() -> None:
    consume = effx.jit(lambda x: x + 1, donate_argnums=0)
    other = effx.jit(lambda x: x * 3)
    x = enp.ones(4)
    other(enp.ones(4))
    assert str(consume(x)) == "[2. 2. 2. 2.]"
    assert x.is_deleted()
    text = (
        "the array f32[4] was donated to a computation or deleted; keep a copy, "
        "or leave it out of donate_argnums"
    )
    uses: list[tuple[str, Callable[[], object]]] = [
        ("<lambda>", lambda: consume(x)),
        ("<lambda>", lambda: other(x)),
        ("add", lambda: x + 1.0),
        ("str(x)", lambda: str(x)),
        ("numpy.asarray(x)", lambda: np.asarray(x)),
        ("x.block_until_ready()", lambda: x.block_until_ready()),
    ]
    for what, use in uses:
        with pytest.raises(errors.DonatedArrayError) as caught:
            use()
        assert caught.value.message == f"{what}: {text}"
    y = enp.ones(3)
    y.delete()
    with pytest.raises(errors.DonatedArrayError):
        y + 1.0


def test_positions_are_shared_and_right() -> None:
    """A line that is run again has one position object, and each of more lines than are remembered has its own."""
    many = 600
    scope: dict[str, Any] = {"sin": enp.sin}
    body = "\n".join(["    x = sin(x)"] * many)
    exec(compile(f"def f(x):\n{body}\n    return x", "many_lines.py", "exec"), scope)
    twice = effx.make_jaxpr(lambda x: scope["f"](scope["f"](x)))(1.0).equations
    places = [errors.source_of(e.source) for e in twice]
    assert places == [f"many_lines.py:{2 + i} in f" for i in range(many)] * 2

    def loop(x: Any) -> Any:
        for _ in range(3):
            x = enp.cos(enp.sin(x))
        return x

    sines = effx.make_jaxpr(loop)(1.0).equations
    assert len({id(e.source) for e in sines}) == 2 < len(sines)


@pytest.mark.parametrize("kind", [TypeError, ValueError])
def test_differing_structures_are_caught_as_in_jax(kind: type[Exception]) -> None:
    """JAX raises a TypeError for branches, and a ValueError for trees."""
    for call in (
        lambda: effx.lax.cond(True, lambda: (1.0,), lambda: 1.0),
        lambda: effx.tree.map(max, (1,), {}),
    ):
        with pytest.raises(kind):
            call()  # type: ignore[no-untyped-call]  # lambdas of several types


def test_cotangents_of_integers_may_be_integers() -> None:
    """What an integer result is multiplied by counts for nothing; its shape is checked, and tangents stay float0."""
    _, pull = effx.vjp(lambda x: (x * 2, enp.arange(3)), 1.0)
    assert float(pull((1.0, enp.arange(3)))[0]) == 2.0
    assert float(effx.jit(lambda n: pull((1.0, n))[0])(enp.arange(3))) == 2.0
    with pytest.raises(errors.DTypeError):
        pull((1.0, enp.arange(4)))


def test_cells_are_named_by_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython knows which of its files are cells; other files keep their names, also where no shell runs."""
    cells = {"/tmp/kernel_7/11.py": ("Cell", "In[4]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=cells.get))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert errors.short_file_name("/tmp/kernel_7/11.py") == "In[4]"
    assert errors.short_file_name("/home/me/train.py") == "train.py"
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert errors.short_file_name("/tmp/kernel_7/11.py") == "11.py"
