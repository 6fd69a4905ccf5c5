"""Primitives that a library writes as a class: what they expand to, and which rule each transformation takes."""

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.compat.modules import core, typeof
from effx.compat.modules._src import checkify
from effx.compat.modules.experimental import hijax as hjx
from effx.errors import DTypeError, NoRuleError, ShapeError, TransformError
from effx.experimental import checkify as effx_checkify

X = np.array([0.4, 1.6, -2.7], np.float32)


class Round(hjx.HiPrim):
    """Each rule has a factor of its own, so that one sees which was taken."""

    def __init__(self, aval: Any, factor: float = 1.0) -> None:
        self.in_avals, self.out_aval, self.params = (aval,), aval, {"factor": factor}
        super().__init__()

    factor: float

    def expand(self, x: Any) -> Any:
        return enp.round(x) * self.factor


class Forward(Round):
    def jvp(self, primals: Any, tangents: Any) -> Any:
        tangent: Any = hjx.instantiate_zeros(tangents[0])
        return self(*primals), tangent * 2


class Lin(Round):
    def lin(self, nzs_in: Any, x: Any) -> Any:
        assert nzs_in == (True,)
        return self(x), x

    def linearized(self, residuals: Any, t: Any) -> Any:
        return t * residuals

    jvp = hjx.jvp_from_lin


class LinAlone(Round):
    def lin(self, nzs_in: Any, x: Any) -> Any:
        return self(x), None, True, enp.float32(4)

    def linearized(self, residuals: Any, structured: Any, t: Any) -> Any:
        return t * structured


class Reverse(Round):
    def vjp_fwd(self, nzs_in: Any, /, x: Any) -> Any:
        return self(x), (None, x)

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        nothing, x = res
        assert nothing is None
        return (outgrad * x * 3,)


class Accumulating(Round):
    def vjp_fwd(self, nzs_in: Any, /, x: Any) -> Any:
        return self(x), None

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> Any:
        (accum,) = arg_accums
        assert isinstance(accum, hjx.ValAccum)
        accum.accum(outgrad * 4)
        accum.accum(outgrad)


class Both(Forward, Reverse):
    pass


class FromJvp(Forward):
    vjp_fwd, vjp_bwd_retval = hjx.vjp_from_jvp


class Batched(Round):
    def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
        assert (axis_data.size, dims) == (3, (0,))
        return -self.expand(enp.moveaxis(args[0], 0, -1)), args[0].ndim - 1


def of(kind: Any) -> Any:
    return lambda x: kind(effx.typeof(x).strong())(x)


CASES: list[tuple[Any, Any, Any]] = [
    (Round, 0, 0), (Forward, 2, 2), (Lin, X, X), (LinAlone, 4, 4), (Reverse, None, 3 * X), (Accumulating, None, 5),
    (Both, 2, 3 * X), (FromJvp, 2, 2), (Batched, 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "forward", "backward"), CASES)
@pytest.mark.parametrize("wrap", [lambda f: f, effx.jit])
def test_each_mode_takes_its_rule(kind: Any, forward: Any, backward: Any, wrap: Any) -> None:
    f = of(kind)
    np.testing.assert_array_equal(wrap(f)(X), np.round(X))
    y, pull = effx.vjp(wrap(f), X)
    np.testing.assert_array_equal(y, np.round(X))
    np.testing.assert_allclose(pull(enp.ones(3))[0], np.broadcast_to(backward, 3), rtol=1e-6)
    np.testing.assert_allclose(
        wrap(effx.grad(lambda x: f(x).sum()))(X), np.broadcast_to(backward, 3), rtol=1e-6
    )
    if forward is None:
        with pytest.raises(
            TransformError, match=rf"^HiPrim: can't apply forward-mode autodiff .* to {kind.__name__}"
        ):
            effx.jvp(f, (X,), (X,))
    else:
        np.testing.assert_allclose(effx.jvp(wrap(f), (X,), (X,))[1], X * forward, rtol=1e-6)


@pytest.mark.parametrize(("kind", "backward"), [(kind, backward) for kind, _, backward in CASES])
def test_batches(kind: Any, backward: Any) -> None:
    """By the rule for batches, or keeping the other rules."""
    f, xs = of(kind), np.stack([X, X + 1, X * 2])
    sign = -1 if kind is Batched else 1
    np.testing.assert_array_equal(effx.vmap(f)(xs), sign * np.round(xs))
    np.testing.assert_array_equal(effx.jit(effx.vmap(f))(xs), sign * np.round(xs))
    wanted = xs * (backward / X)[None] if kind in (Lin, Reverse, Both) else np.broadcast_to(backward, (3, 3))
    np.testing.assert_allclose(effx.vmap(effx.grad(lambda x: f(x).sum()))(xs), wanted, rtol=1e-6)


class Divide(hjx.HiPrim):
    """Of a tree of arguments to a tree: the quotient and the remainder."""

    def __init__(self, x: Any, y: Any) -> None:
        self.in_avals, self.out_aval, self.params = ({"x": x}, [y]), (x, {"rest": x}), {}
        super().__init__()

    def expand(self, x: Any, y: Any) -> Any:
        return x["x"] // y[0], {"rest": x["x"] % y[0]}

    def jvp(self, primals: Any, tangents: Any) -> Any:
        (x,), (dy,) = tangents[0].values(), tangents[1]
        assert isinstance(dy, hjx.Zero)
        return self(*primals), (hjx.Zero(x.type), {"rest": x})


def test_trees_and_zeros() -> None:
    def f(x: Any) -> Any:
        q, rest = Divide(effx.typeof(x), effx.typeof(Y))({"x": x}, [enp.asarray(Y)])
        return q, rest["rest"]

    Y = np.full(3, 0.75, np.float32)
    np.testing.assert_allclose(f(enp.asarray(X)), np.divmod(X, Y), rtol=1e-5)
    _, tangents = effx.jvp(f, (X,), (X,))
    np.testing.assert_array_equal(tangents, [np.zeros(3), X])
    np.testing.assert_array_equal(effx.grad(lambda x: f(x)[1].sum())(X), np.ones(3))


def test_values_of_the_function_around() -> None:
    """What a rule closes over belongs to the handlers around the call."""

    def loss(w: Any) -> Any:
        class Scale(Round):
            def expand(self, x: Any) -> Any:
                return x * w

            def vjp_fwd(self, nzs_in: Any, /, x: Any) -> Any:
                return self(x), w

            def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
                return (outgrad * res * 10,)

        return effx.grad(lambda x: Scale(effx.typeof(X))(x).sum())(enp.asarray(X)).sum()

    np.testing.assert_allclose(effx.jit(loss)(2.0), 60)


def test_handlers_without_rules_see_what_it_expands_to() -> None:
    program = effx.make_jaxpr(of(Round))(X)
    assert "round" in str(program)
    assert "Round" in str(program)


def test_equality_and_text() -> None:
    t = effx.typeof(X)
    assert Round(t, 2.0) == Round(t, 2.0)
    assert len({Round(t, 2.0), Round(t, 2.0), Round(t, 3.0), Forward(t, 2.0)}) == 3
    assert repr(Round(t, 2.0)) == "Round[factor=2.0]"


class Unready(hjx.HiPrim):
    def __init__(self) -> None:
        self.in_avals = ()
        super().__init__()


class Effectful(Round):
    effects = frozenset({"io"})


class Transposed(Round):
    def transpose(self, out_ct: Any, *accums: Any) -> None:
        pass


class Logging(Reverse):
    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> Any:
        return {"norm": outgrad}


class Wrong(Round):
    def expand(self, x: Any) -> Any:
        return x[:1]


class Structure(Round):
    def expand(self, x: Any) -> Any:
        return [x]


class Tangent(Round):
    def jvp(self, primals: Any, tangents: Any) -> Any:
        return self(*primals), tangents[0][:1]


class Axis(Round):
    def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
        return args[0], None


class Nothing(hjx.HiPrim):
    def __init__(self) -> None:
        self.in_avals, self.out_aval, self.params = (), (), {}
        super().__init__()


T = effx.typeof(X)
ERRORS: list[tuple[Any, type[Exception], str]] = [
    (Unready, AttributeError, "Unready: set self.out_aval before HiPrim.__init__"),
    (lambda: Effectful(T), TransformError, "Effectful: effx has effects by operation (effx.Operation, effx.Label)"),
    (lambda: Round(T)(X, X), TransformError, "Round: takes PyTreeDef((*,)), got PyTreeDef((*, *))"),
    (lambda: Round(T)(X[:2]), ShapeError, "Round: takes f32[3], got f32[2]"),
    (lambda: effx.jit(Transposed(T))(X), TransformError, "Transposed: effx has no place for the rule transpose of a HiPrim"),
    (lambda: effx.grad(lambda x: Logging(T)(x).sum())(X), TransformError, ("Logging: effx has no place for what "
     "vjp_bwd logs")),
    (lambda: Wrong(T)(X), ShapeError, "Wrong: expand must give f32[3], got f32[1]"),
    (lambda: Structure(T)(X), TransformError, "Structure: expand must give PyTreeDef(*), got PyTreeDef([*])"),
    (lambda: effx.jvp(Tangent(T), (X,), (X,)), ShapeError, "Tangent: jvp must give a tangent f32[3], got f32[1]"),
    (
        lambda: effx.vmap(Axis(T))(np.stack([X, X])), ShapeError,
        "Axis: batch must give f32[3], got f32[2,3]",
    ),
    (lambda: Nothing()(), NoRuleError, "Nothing: a HiPrim needs a method expand to be performed"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "error", "text"), ERRORS)
def test_errors(act: Any, error: Any, text: str) -> None:
    with pytest.raises(error) as caught:
        act()
    assert getattr(caught.value, "message", str(caught.value)) == text


# --- types of a library's own ---------------------------------------------------------------------


class Pair:
    def __init__(self, *parts: Any) -> None:
        self.parts = parts


class PairType(hjx.HiType):
    def __init__(self, *parts: Any) -> None:
        self.parts = parts


class Make(hjx.HiPrim):
    def __init__(self, t: Any) -> None:
        self.in_avals, self.out_aval, self.params = (t, t), PairType(t, t), {}
        super().__init__()

    def expand(self, *parts: Any) -> Any:
        return Pair(*parts)


def test_a_type_of_ones_own_has_values_where_no_handler_is() -> None:
    with pytest.raises(DTypeError):
        typeof(PairType())
    hjx.register_hitype(Pair, lambda pair: PairType(*map(effx.typeof, pair.parts)))
    pair = Make(T)(X, X + 1)
    assert type(pair) is Pair
    assert isinstance(typeof(pair), PairType)
    assert core.typeof(pair).parts == (T, T)
    assert core.typeof(X) is T
    with pytest.raises(TransformError) as caught:
        effx.jit(lambda x: Make(T)(x, x).parts[0])(X)
    assert caught.value.message == (
        "Make: values of types of a library's own (jax.experimental.hijax) are none of effx's under a transformation; "
        "write an operation or a handler (effx.handling)"
    )


def test_accumulators() -> None:
    accum = hjx.ValAccum(T)
    assert isinstance(accum.freeze(), hjx.Zero)
    accum.accum(hjx.Zero(T))
    assert isinstance(accum.freeze(), hjx.Zero)
    accum.accum(X)
    accum.accum(X)
    np.testing.assert_array_equal(accum.freeze(), 2 * X)
    null = hjx.NullAccum(T)
    null.accum(X)
    assert null.aval is T


def test_checkify_for_nnx() -> None:
    assert checkify.checkify is effx_checkify.checkify
    error, _ = checkify.checkify(lambda x: effx_checkify.check(x > 0, "negative"))(-1.0)
    with pytest.raises(checkify.JaxException, match="negative"):
        error.throw()
