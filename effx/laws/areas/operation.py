"""Laws of single operations: those that `check_operation` runs, here on all classes that `operations` draws."""

from collections.abc import Callable
from itertools import product
from typing import cast

import numpy as np
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import dtypes
from effx.array import Array
from effx.effects import Operation
from effx.errors import EffxError
from effx.handlers.jvp import jvp
from effx.handlers.linearize import linearize
from effx.handlers.oracle import evaluate
from effx.handlers.staging.stage import run_program, stage
from effx.handlers.transpose import backward_pass
from effx.handlers.vmap import evaluate_batch
from effx.ir.checker import check_program
from effx.ir.ops import elementwise, reduce, shape
from effx.ir.ops.base import ArrayOperation, Elementwise, TupleOperation
from effx.ir.ops.checkpoint import CheckpointName, Offload, Unpinned
from effx.ir.ops.control import While
from effx.ir.ops.convert import Copy, StopGradient
from effx.ir.ops.custom import CustomCall
from effx.ir.ops.layout import ConstrainLayout
from effx.ir.ops.sharding import Constrain, Move, Release
from effx.ir.text import parse_program, print_program
from effx.ir.types import ArrayType, array_type
from effx.laws.areas.subjects import Points
from effx.laws.comparing import arrays, central_difference, comparable_data, directions, inner_product, same
from effx.laws.drawing import CONSTANT, WITHOUT_TANGENTS, AnyOperation, draw_operands
from effx.laws.operations import operations
from effx.laws.registry import NotApplicable, law

AREA = "operations"
EVERY, SMOOTH = operations(), operations(smooth=True)
# Relative to the largest element of a result; the reference rounds once, XLA after every step.
TOLERANCE = {
    dtypes.float16: 1e-2, dtypes.bfloat16: 6e-2, dtypes.float32: 3e-5, dtypes.complex64: 5e-5,
    dtypes.float64: 1e-11, dtypes.complex128: 1e-11,
}  # fmt: skip


MATRIX = array_type(dtypes.float64, (2, 3))


def _arity(op: AnyOperation) -> int:
    return op.arity if isinstance(op, Elementwise) else 1


def perform_to_list(op: AnyOperation, operands: Points) -> list[Array]:
    """Performs an operation; its results as a list."""
    result = op(*operands)
    return list(cast("tuple[Array, ...]", result)) if op.multiple else [cast("Array", result)]


def infer_types(op: AnyOperation, types: list[ArrayType]) -> list[ArrayType]:
    """Applies the typing rule."""
    if isinstance(op, TupleOperation):
        return list(op.infer(*types))
    assert isinstance(op, ArrayOperation), f"{op.name} is no operation on arrays"
    return [op.infer(*types)]


def close(got: list[Array], want: list[Array], looser: float = 1.0) -> None:
    """Compares within the tolerance of the dtype."""
    for a, b in zip(got, want, strict=True):
        same(a, b, TOLERANCE.get(a.type.dtype, 0.0) * looser)


def active_operands(operands: Points) -> list[int]:
    """Returns the indices of the operands that have tangents."""
    return [i for i, x in enumerate(operands) if x.type.kind in "fc"]


def fix_other_operands(
    op: AnyOperation, operands: Points, indices: list[int]
) -> Callable[[list[Array]], list[Array]]:
    """Returns the operation as a function of some operands, to the results that have tangents."""

    def function(xs: list[Array]) -> list[Array]:
        full = list(operands)
        for index, x in zip(indices, xs, strict=True):
            full[index] = x
        return [y for y in perform_to_list(op, full) if y.type.kind in "fc"]

    return function


def as_arguments(function: Callable[[list[Array]], list[Array]]) -> Callable[..., list[Array]]:
    """Returns a function of several arrays."""
    return lambda *xs: function(list(xs))


@law(AREA, "type(op(x)) = infer(type x)", EVERY, compiles=True, share=1.2)
def typing_rules_predict(op: AnyOperation, operands: Points) -> None:
    expected_types = infer_types(op, [x.type for x in operands])
    for y, t in zip(perform_to_list(op, operands), expected_types, strict=True):
        assert y.type is t, f"{op.name} gives {y.type!r}, its typing rule {t!r}"
        assert (np.asarray(y).shape, np.asarray(y).dtype) == (t.shape, t.dtype)


@law(AREA, "op(x) on XLA = op(x) on NumPy", EVERY, compiles=True, share=1.2)
def xla_is_numpy(op: AnyOperation, operands: Points) -> None:
    close(perform_to_list(op, operands), evaluate(lambda *xs: perform_to_list(op, xs), *operands))


# Operations with the NumPy functions that they compute.
NAMED: tuple[tuple[AnyOperation, Callable[..., object]], ...] = (
    (elementwise.Sin(), np.sin),
    (elementwise.Add(), np.add),
    (elementwise.Mul(), np.multiply),
    (elementwise.Atan2(), np.arctan2),
    (elementwise.Max(), np.maximum),
    (reduce.ReduceSum((1,)), lambda x: np.sum(x, axis=1)),
    (reduce.CumSum(0), lambda x: np.cumsum(x, axis=0)),
    (shape.Transpose((1, 0)), np.transpose),
)


@law(
    AREA,
    "op(x) = reference(x), a NumPy function of the operands' data",
    st.sampled_from(NAMED).flatmap(
        lambda pair: st.tuples(
            st.just(pair[0]),
            st.integers(0, 99).map(
                lambda seed: draw_operands((MATRIX,) * _arity(pair[0]), ((-2.0, 2.0),), seed)
            ),
            st.just(pair[1]),
        )
    ),
    compiles=True,
)
def references_agree(op: AnyOperation, operands: Points, reference: Callable[..., object]) -> None:
    oracle_results = reference(*[np.asarray(x) for x in operands])
    want = list(oracle_results) if isinstance(oracle_results, tuple) else [oracle_results]
    for y, data in zip(perform_to_list(op, operands), want, strict=True):
        same(y, enp.asarray(np.asarray(data), y.dtype), TOLERANCE.get(y.type.dtype, 0.0))


@law(AREA, "jit op(x) = op(x)", EVERY, compiles=True, share=0.6)
def jitted_operations(op: AnyOperation, operands: Points) -> None:
    close(effx.jit(lambda *xs: perform_to_list(op, xs))(*operands), perform_to_list(op, operands))


@law(AREA, "parse(print(op x)) = op x, with the types and the effects", EVERY, share=1.2)
def printed_operations_parse(op: AnyOperation, operands: Points) -> None:
    program = check_program(
        stage(lambda xs: perform_to_list(op, xs), [x.type for x in operands], "law").program
    )
    if isinstance(op, CustomCall):
        return  # its rules are Python functions
    parsed = check_program(parse_program(print_program(program)))
    assert print_program(parsed) == print_program(program)
    assert (parsed.in_types, parsed.out_types, parsed.effects) == (
        program.in_types,
        program.out_types,
        program.effects,
    )
    same(run_program(parsed, operands), perform_to_list(op, operands), 0.0)


@law(
    AREA,
    "d op(x; v) = (op(x + h v) - op(x - h v)) / 2h + O(h^2), along all operands and along each",
    SMOOTH,
    share=2.0,
)
def operation_tangents_are_slopes(op: AnyOperation, operands: Points) -> None:
    indices = active_operands(operands)
    for chosen in [indices, *([[i] for i in indices] if len(indices) > 1 else [])]:
        function = fix_other_operands(op, operands, chosen)
        xs = [operands[i] for i in chosen]
        vs = directions(xs)
        ys, moved = jvp(function, xs, list(vs))
        slopes = central_difference(as_arguments(function), xs, vs, 1e-5)
        for y, d, want in zip(ys, moved, slopes, strict=True):
            got = np.zeros(y.shape) if d is None else comparable_data(d)
            assert d is None or d.type.matches(y.type), f"tangent {d.type!r} of {y.type!r}"
            size = max(1.0, float(np.abs(want).max(initial=0.0)))
            np.testing.assert_allclose(got, want, rtol=3e-6, atol=3e-6 * size)


@law(AREA, "linearize op(x)(v) = d op(x; v)", SMOOTH, share=1.2)
def operations_linearize(op: AnyOperation, operands: Points) -> None:
    indices = active_operands(operands)
    function, xs = fix_other_operands(op, operands, indices), [operands[i] for i in indices]
    vs = directions(xs)
    ys, linear, dependent = linearize(function, xs, [True] * len(xs))
    close(ys, function(xs))
    pushed = iter(run_program(check_program(linear.program), [*linear.residuals, *vs]))
    for d, is_dependent in zip(jvp(function, xs, list(vs))[1], dependent, strict=True):
        if is_dependent:
            other = next(pushed)
            same(other, enp.zeros_like(other) if d is None else d)


@law(AREA, "<ct, d op(x) v> = <d op(x)^T ct, v>", SMOOTH, share=2.0)
def operations_transpose(op: AnyOperation, operands: Points) -> None:
    if isinstance(op, While):
        return  # its residuals cannot be stored
    indices = active_operands(operands)
    for chosen in [indices, *([[i] for i in indices] if len(indices) > 1 else [])]:
        function, xs = fix_other_operands(op, operands, chosen), [operands[i] for i in chosen]
        vs = directions(xs)
        _, linear, _ = linearize(function, xs, [True] * len(xs))
        pushed = run_program(linear.program, [*linear.residuals, *vs])
        cts = directions(pushed, 3)
        back = backward_pass(linear.program, linear.residuals, cts)
        for x, ct in zip(xs, back, strict=True):
            assert ct is None or ct.type.matches(x.type), f"cotangent {ct.type!r} of {x.type!r}"
        left = inner_product(cts, pushed)
        right = inner_product(
            [enp.zeros_like(x) if ct is None else ct for x, ct in zip(xs, back, strict=True)], vs
        )
        size = max(1.0, *[float(np.abs(comparable_data(y)).sum()) for y in pushed]) if pushed else 1.0
        assert abs(left - right) <= 1e-9 * size, (left, right)


@law(
    AREA,
    "batch op(xs)[m] = op(xs[m]), for every choice of batched operands and indices of their axes",
    EVERY,
    share=1.2,
)
def operations_batch(op: AnyOperation, operands: Points) -> None:
    elements = [tuple(operands), tuple([enp.flip(x, 0) if x.type.ndim else x for x in operands])]
    for chosen in product([False, True], repeat=len(operands)):
        if not any(chosen):
            continue
        for last in (False, True):
            axes = [
                None if not c else x.type.ndim if last else 0 for c, x in zip(chosen, operands, strict=True)
            ]
            stacked = [
                x if axis is None else enp.stack([m[i] for m in elements], axis)
                for i, (x, axis) in enumerate(zip(operands, axes, strict=True))
            ]
            got, out_axes = evaluate_batch(lambda xs: perform_to_list(op, xs), stacked, axes, 2)
            for m in range(2):
                element = [elements[m][i] if c else operands[i] for i, c in enumerate(chosen)]
                for y, out_axis, want in zip(got, out_axes, perform_to_list(op, element), strict=True):
                    part = y if out_axis is None else enp.take(y, m, out_axis)
                    same(part, want, TOLERANCE.get(want.type.dtype, 0.0))


@law(
    AREA, "op keeps tangents' dtypes: type(d op(x; v)) = type(op(x)), in narrow dtypes too", EVERY, share=0.6
)
def tangents_keep_dtypes(op: AnyOperation, operands: Points) -> None:
    constant = CONSTANT.get(type(op), frozenset())
    indices = [i for i in active_operands(operands) if i not in constant]
    if isinstance(op, WITHOUT_TANGENTS):
        raise NotApplicable("the operation has no tangents")
    if not indices:
        return
    function, xs = fix_other_operands(op, operands, indices), [operands[i] for i in indices]
    ones = arrays([np.ones(x.shape) for x in xs], xs)
    ys, moved = jvp(function, xs, list(ones))
    for y, d in zip(ys, moved, strict=True):
        assert d is None or d.type.matches(y.type), f"tangent {d.type!r} of {y.type!r}"


def wrong_types(types: list[ArrayType]) -> list[list[ArrayType]]:
    """Lists types of operands that may be invalid: one too few, one too many, another kind or shape."""
    extra = array_type(dtypes.float32, (7, 5))
    items = [[*types, extra], types[:-1], [*types, *types]]
    for i, t in enumerate(types):
        others = [t.with_shape(s) for s in ((*t.shape, 5), (7, *t.shape[1:]), ())]
        others += [t.with_dtype(d) for d in (dtypes.bool_, dtypes.int8, dtypes.float16, dtypes.complex64)]
        items += [[*types[:i], other, *types[i + 1 :]] for other in others]
    return items


@law(AREA, "op of invalid operands raises an EffxError", EVERY, share=1.2)
def misfits_are_errors(op: AnyOperation, operands: Points) -> None:
    for types in wrong_types([x.type for x in operands]):
        try:
            for t in infer_types(op, types):
                assert isinstance(t, ArrayType)
        except EffxError as error:
            message = error.message
        else:
            continue
        assert message[:1].islower(), message
        assert ": " in message, message


@law(AREA, "a decomposition means what the operation means: decompose(op x) = op x", EVERY, share=0.6)
def decompositions_keep_values(op: AnyOperation, operands: Points) -> None:
    if not type(op).can_decompose():
        return
    decomposed = op.decompose(*operands)
    parts = list(cast("tuple[Array, ...]", decomposed)) if op.multiple else [cast("Array", decomposed)]
    close(parts, perform_to_list(op, operands), 4.0)


@law(
    AREA,
    "an identity gives its operand",
    operations(
        CheckpointName, Unpinned, Offload, Constrain, ConstrainLayout, Move, Release, Copy, StopGradient
    ),
)
def identities_are_identities(op: Operation[Array], operands: Points) -> None:
    same(op(*operands), operands[0], 0.0)
