"""Arguments that were taken though wrong: each is refused by an error that names the function and what it got."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax, nn
from effx.errors import DTypeError, IndexingError, OptionError, ShapeError, TransformError, TreeError

V = np.arange(3, dtype=np.float32)
N = np.arange(3)
M = np.arange(6, dtype=np.float32).reshape(2, 3)
CUBE = np.ones((2, 3, 4), np.float32)

Refusal = tuple[Callable[[], object], type[Exception], str]


def check_refusal(refusal: Refusal) -> None:
    call, kind, message = refusal
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).splitlines()[0] == message


# --- transformations ---------------------------------------------------------------------------------------


def generate(x: Any) -> Iterator[Any]:
    yield x


class Generator:
    """An object whose method is a generator function."""

    def run(self, x: Any) -> Iterator[Any]:
        yield x


TRANSFORMS = (
    "jit", "grad", "value_and_grad", "vmap", "pmap", "jacfwd", "jacrev", "checkpoint", "custom_jvp", "custom_vjp",
    "make_jaxpr",
)  # fmt: skip


@pytest.mark.parametrize("form", ["function", "partial", "method"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_generator_functions_are_refused(name: str, form: str) -> None:
    """A generator function runs after it has returned, when nothing is staged any more."""
    forms = {"function": generate, "partial": functools.partial(generate), "method": Generator().run}
    with pytest.raises(TransformError) as caught:
        getattr(effx, name)(forms[form])
    what = "run" if form == "method" else "generate"
    assert caught.value.message == (
        f"{name}: expected a function, got the generator function {what}, which runs after it has returned; "
        f"return a list instead"
    )


def as_any(x: Any) -> Any:
    """An argument that type checkers do not look at: it is wrong on purpose."""
    return x


def same(x: Any) -> Any:
    return x


@dataclasses.dataclass
class WithDefault:
    a: float
    b: float = dataclasses.field(init=False, default=3.0)


IN_AXES = "in_axes must be an int, None, or a tuple with an entry for each argument, got False"
SDS = "ShapeDtypeStruct: shape must be a sequence of ints, got "
TRANSFORMATIONS: dict[str, Refusal] = {
    "vmap(in_axes=False)": (lambda: effx.vmap(same, in_axes=False), TransformError, f"vmap: {IN_AXES}"),
    "vmap(in_axes=(True,))": (
        lambda: effx.vmap(same, in_axes=(True,))(M),
        TransformError,
        "vmap: in_axes must hold ints and None, got True",
    ),
    "vmap(out_axes=False)": (
        lambda: effx.vmap(same, out_axes=False)(V),
        TransformError,
        "vmap: out_axes must hold ints and None, got False",
    ),
    "pmap(in_axes=False)": (
        lambda: effx.pmap(same, in_axes=False)(V[:1]),
        TransformError,
        f"pmap: {IN_AXES}",
    ),
    "vmap(axis_size='a')": (
        lambda: effx.vmap(same, axis_size=as_any("a"))(V),
        TransformError,
        "vmap: axis_size must be an int, got 'a'",
    ),
    "vmap(axis_name=[1])": (
        lambda: effx.vmap(same, axis_name=as_any([1])),
        TransformError,
        "vmap: axis_name must be hashable, got [1]",
    ),
    "ShapeDtypeStruct with None": (
        lambda: effx.ShapeDtypeStruct((None, 2), np.float32),  # type: ignore[arg-type]  # wrong on purpose
        ShapeError,
        f"{SDS}(None, 2)",
    ),
    "ShapeDtypeStruct of a float": (
        lambda: effx.ShapeDtypeStruct((2.0,), np.float32),  # type: ignore[arg-type]  # wrong on purpose
        ShapeError,
        f"{SDS}(2.0,)",
    ),
    "ShapeDtypeStruct of an int": (
        lambda: effx.ShapeDtypeStruct(2, np.float32),  # type: ignore[arg-type]  # wrong on purpose
        ShapeError,
        f"{SDS}2",
    ),
    "ShapeDtypeStruct of a negative size": (
        lambda: effx.ShapeDtypeStruct((2, -1), np.float32),
        ShapeError,
        "ShapeDtypeStruct: sizes must not be negative, got (2, -1)",
    ),
    "a dataclass whose field __init__ does not take": (
        lambda: effx.tree_util.register_dataclass(WithDefault),
        TreeError,
        (
            "register_dataclass: WithDefault: __init__ does not take b, which would be lost when an object is rebuilt; "
            "name what __init__ fills in drop_fields"
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TRANSFORMATIONS)
def test_transformations_refuse(case: str) -> None:
    """Transformations check their own arguments."""
    check_refusal(TRANSFORMATIONS[case])


def test_a_dropped_field_is_no_error() -> None:
    """A field that __init__ fills may be dropped by name."""

    @dataclasses.dataclass
    class Dropped:
        a: float
        b: float = dataclasses.field(init=False, default=3.0)

    effx.tree_util.register_dataclass(Dropped, drop_fields=["b"])
    assert effx.tree.map(lambda x: 2 * x, Dropped(1.0)) == Dropped(2.0)


# --- where ------------------------------------------------------------------------------------------------

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": enp.sum,
    "prod": enp.prod,
    "mean": enp.mean,
    "var": enp.var,
    "all": enp.all,
    "any": enp.any,
    "max": lambda x, where: enp.max(x, initial=0.0, where=where),
    "min": lambda x, where: enp.min(x, initial=0.0, where=where),
    "nanmean": enp.nanmean,
    "logsumexp": nn.logsumexp,
    "softmax": nn.softmax,
    "log_softmax": nn.log_softmax,
    "logmeanexp": nn.logmeanexp,
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_where_must_be_boolean(name: str) -> None:
    """Numbers as `where` are an error, under jit too; booleans of any form are not."""
    reduce = REDUCTIONS[name]
    for where, text in ((N, "i32[3]"), (V, "f32[3]"), (1, "i32[]~")):
        for call in (reduce, effx.jit(lambda x, where: reduce(x, where=where))):
            with pytest.raises(OptionError) as caught:
                call(V, where=where)
            assert caught.value.message == f"{name}: where must be boolean, got {text}"
    for mask in (True, np.array([True, False, True]), enp.array([True, True, True])):
        reduce(V, where=mask)


# --- functions of effx.numpy -------------------------------------------------------------------------------

NUMPY: dict[str, Refusal] = {
    "broadcast_shapes of a negative size": (
        lambda: enp.broadcast_shapes((-1,), (2,)),
        ShapeError,
        "broadcast_shapes: sizes must not be negative, got [-1]",
    ),
    "take of an empty axis": (
        lambda: enp.take(np.zeros((0, 3)), np.array([0]), axis=0),
        IndexingError,
        "take: axis 0 of f32[0,3] has no element to take",
    ),
    "take of an empty axis to fill": (
        lambda: enp.take(np.zeros(0), 0, mode="fill"),
        IndexingError,
        "take: axis 0 of f32[0] has no element to take",
    ),
    "vander": (lambda: enp.vander(V, -1), ShapeError, "vander: N must not be negative, got -1"),
    "unique": (lambda: enp.unique(V, size=-1), ShapeError, "unique: size must not be negative, got -1"),
    "rot90": (lambda: enp.rot90(M, "a"), TypeError, "rot90: k must be an int, got 'a'"),  # type: ignore[arg-type]  # wrong on purpose
    "diag": (lambda: enp.diag(V, 1.0), TypeError, "diag: k must be an int, got 1.0"),  # type: ignore[arg-type]  # wrong on purpose
    "diff": (lambda: enp.diff(V, n=1.0), TypeError, "diff: n must be an int, got 1.0"),  # type: ignore[arg-type]  # wrong on purpose
    "bincount": (
        lambda: enp.bincount(N, length=2.0),  # type: ignore[arg-type]  # wrong on purpose
        TypeError,
        "bincount: length must be an int, got 2.0",
    ),
    "split": (
        lambda: enp.split(V, 1.5),
        TypeError,
        "split: the number of sections must be an int, got 1.5",
    ),
    "split at a string": (lambda: enp.split(V, "a"), TypeError, "split: an index must be an int, got 'a'"),
    "repeat": (lambda: enp.repeat(V, 1.0), DTypeError, "repeat: repeats must be integers, got f32[]~"),
    "diagonal": (
        lambda: enp.diagonal(M, as_any(1.0)),
        TypeError,
        "diagonal: offset must be an int, got 1.0",
    ),
    "diag of a matrix": (lambda: enp.diag(M, as_any("a")), TypeError, "diag: k must be an int, got 'a'"),
    "trace": (lambda: enp.trace(M, as_any(0.5)), TypeError, "trace: offset must be an int, got 0.5"),
    "triu_indices_from": (
        lambda: enp.triu_indices_from(M, as_any(1.5)),
        TypeError,
        "triu_indices_from: k must be an int, got 1.5",
    ),
    "trim_zeros": (
        lambda: enp.trim_zeros(V, as_any(None)),
        OptionError,
        "trim_zeros: trim must be 'f', 'b' or 'fb', got None",
    ),
    "repeat to a length": (
        lambda: enp.repeat(V, N, total_repeat_length=as_any(2.5)),
        TypeError,
        "repeat: total_repeat_length must be an int, got 2.5",
    ),
    "rot90 in no plane": (
        lambda: enp.rot90(M, axes=as_any(None)),
        ShapeError,
        "rot90: needs two axes, got None",
    ),
    "full_like of a complex number": (
        lambda: enp.full_like(V, 1j),
        DTypeError,
        "full_like: f32 cannot hold the fill value 1j",
    ),
    "diag_indices": (
        lambda: enp.diag_indices(-1),
        ShapeError,
        "diag_indices: n must not be negative, got -1",
    ),
    "take_along_axis": (
        lambda: enp.take_along_axis(V, N, 0, mode="up"),
        IndexingError,
        "take_along_axis: mode must be 'fill', 'clip', 'wrap' or 'one_hot', got 'up'",
    ),
    "tensordot": (
        lambda: enp.tensordot(M, M, axes=as_any(1.0)),
        ShapeError,
        "tensordot: axes must be an int or a pair, got 1.0",
    ),
    "moveaxis": (
        lambda: enp.moveaxis(M, 0, 1.0),  # type: ignore[arg-type]  # wrong on purpose
        ShapeError,
        "moveaxis: an axis must be an int, got 1.0",
    ),
    "one_hot": (
        lambda: nn.one_hot(N, 3.0),  # type: ignore[arg-type]  # wrong on purpose
        TypeError,
        "one_hot: num_classes must be an int, got 3.0",
    ),
    "choice of a size": (
        lambda: effx.random.choice(effx.random.key(0), 5, 2),
        ShapeError,
        "choice: shape must be a sequence of ints, got 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NUMPY)
def test_numpy_refuses(case: str) -> None:
    """Functions of effx.numpy, nn and random check sizes, axes and counts."""
    check_refusal(NUMPY[case])


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2"])
@pytest.mark.parametrize("axes", [(), (0,), (0, 1, 2), 0, None])
def test_transforms_of_two_axes_take_two(name: str, axes: Any) -> None:
    """fft2 and its kin are for two axes; others are for fftn."""
    check_refusal(
        (
            lambda: getattr(enp.fft, name)(CUBE, axes=axes),
            ShapeError,
            f"{name}: axes must be two axes, got {axes!r}",
        )
    )


def test_a_number_divides_into_sections_in_any_form() -> None:
    """NumPy's ints and arrays of rank 0 count sections as ints do."""
    for count in (3, np.int64(3), np.array(3), enp.array(3)):
        assert [x.tolist() for x in enp.split(V, count)] == [[0.0], [1.0], [2.0]]
    assert [x.tolist() for x in enp.split(V, enp.array([1]))] == [[0.0], [1.0, 2.0]]


# --- functions of effx.lax ---------------------------------------------------------------------------------

START = "start indices must be integer scalars, got f32[]~"
LAX: dict[str, Refusal] = {
    "dynamic_slice at a float": (
        lambda: lax.dynamic_slice(V, (0.0,), (1,)),
        DTypeError,
        f"dynamic_slice: {START}",
    ),
    "dynamic_update_slice at a float": (
        lambda: lax.dynamic_update_slice(V, V[:1], (0.0,)),
        DTypeError,
        f"dynamic_update_slice: {START}",
    ),
    "dynamic_slice at a bool": (
        lambda: lax.dynamic_slice(V, (np.True_,), (1,)),
        DTypeError,
        "dynamic_slice: start indices must be integer scalars, got bool[]",
    ),
    "dynamic_slice at indices of two dtypes": (
        lambda: lax.dynamic_slice(M, (np.int32(0), np.int8(0)), (1, 1)),
        DTypeError,
        "dynamic_slice: start indices must have one dtype, got i32, i8",
    ),
    "dynamic_update_slice at indices of two dtypes": (
        lambda: lax.dynamic_update_slice(M, M, (np.uint32(0), np.int32(0))),
        DTypeError,
        "dynamic_update_slice: start indices must have one dtype, got i32, u32",
    ),
    "top_k of more than there is": (
        lambda: lax.top_k(V, 4),
        ShapeError,
        "top_k: k must be from 0 to 3, the size of axis 0 of f32[3], got 4",
    ),
    "top_k of a float": (lambda: lax.top_k(V, 1.0), TypeError, "top_k: k must be an int, got 1.0"),  # type: ignore[arg-type]  # wrong on purpose
    "approx_max_k of None": (
        lambda: lax.approx_max_k(V, None),  # type: ignore[arg-type]  # wrong on purpose
        TypeError,
        "approx_max_k: k must be an int, got None",
    ),
    "index_in_dim": (
        lambda: lax.index_in_dim(V, 0.0),  # type: ignore[arg-type]  # wrong on purpose
        TypeError,
        "index_in_dim: index must be an int, got 0.0",
    ),
    "slice_in_dim": (
        lambda: lax.slice_in_dim(V, "a", 2),  # type: ignore[arg-type]  # wrong on purpose
        TypeError,
        "slice_in_dim: start_index must be an int, got 'a'",
    ),
    "integer_pow": (lambda: lax.integer_pow(V, 1.5), TypeError, "integer_pow: y must be an int, got 1.5"),  # type: ignore[arg-type]  # wrong on purpose
    "cumsum": (lambda: lax.cumsum(V, axis=None), TypeError, "cumsum: axis must be an int, got None"),  # type: ignore[arg-type]  # wrong on purpose
    "cumlogsumexp": (
        lambda: lax.cumlogsumexp(V, axis=0.0),  # type: ignore[arg-type]  # wrong on purpose
        TypeError,
        "cumlogsumexp: axis must be an int, got 0.0",
    ),
    "iota": (lambda: lax.iota(int, 2.0), TypeError, "iota: size must be an int, got 2.0"),  # type: ignore[arg-type]  # wrong on purpose
    "a stride of 0": (
        lambda: lax.reduce_window(V, 0.0, lax.add, (2,), (0,), "SAME"),
        ShapeError,
        "padtype_to_pads: strides must be at least 1, got (0,)",
    ),
    "switch": (
        lambda: lax.switch(0, as_any(same)),
        TransformError,
        f"switch: branches must be a sequence of functions, got {same!r}",
    ),
    "argmax": (lambda: lax.argmax(V, 0.0, np.int32), TypeError, "argmax: axis must be an int, got 0.0"),  # type: ignore[arg-type]  # wrong on purpose
    "sort": (lambda: lax.sort(V, dimension=0.0), TypeError, "sort: an axis must be an int, got 0.0"),  # type: ignore[call-overload]  # wrong on purpose
    "concatenate": (
        lambda: lax.concatenate([V, V], 0.0),  # type: ignore[arg-type]  # wrong on purpose
        TypeError,
        "concatenate: dimension must be an int, got 0.0",
    ),
    "reduce_precision": (
        lambda: lax.reduce_precision(V, 5.0, 2),  # type: ignore[arg-type]  # wrong on purpose
        TypeError,
        "reduce_precision: exponent_bits must be an int, got 5.0",
    ),
    "fft": (
        lambda: lax.fft(V + 0j, "FFT", (3.0,)),  # type: ignore[arg-type]  # wrong on purpose
        ShapeError,
        "fft: fft_lengths must be a sequence of ints, got (3.0,)",
    ),
    "broadcast_shapes": (
        lambda: lax.broadcast_shapes((-1,)),
        ShapeError,
        "broadcast_shapes: sizes must not be negative, got [-1]",
    ),
    "stop_gradient of a string": (
        lambda: lax.stop_gradient("a"),
        DTypeError,
        "stop_gradient: expected an array or a number, got 'a' of type str",
    ),
    "stop_gradient of a tree with a string": (
        lambda: lax.stop_gradient({"a": [1.0, b"b"]}),
        DTypeError,
        "stop_gradient: expected an array or a number, got b'b' of type bytes",
    ),
    "an int that the dtype does not hold": (
        lambda: lax.add(np.array([1], np.int8), 200),
        OverflowError,
        "add: python int 200 is out of bounds for i8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LAX)
def test_lax_refuses(case: str) -> None:
    """Functions of effx.lax check dtypes, indices and options."""
    check_refusal(LAX[case])


def test_starts_may_be_ints_beside_an_array() -> None:
    """Python's ints take the dtype of the other starts."""
    assert lax.dynamic_slice(M, (np.uint32(1), 0), (1, 1)).tolist() == [[3.0]]
    assert lax.dynamic_slice(M, (np.int8(1), np.int8(2)), (1, 1)).tolist() == [[5.0]]


def test_stop_gradient_takes_numbers_and_none() -> None:
    """Constants of any numeric class, and empty subtrees, stay what they are."""
    tree = {"a": 1.0, "b": None, "c": V, "d": [np.float32(2)]}
    assert lax.stop_gradient(tree) is not tree
    assert lax.stop_gradient(tree)["b"] is None
