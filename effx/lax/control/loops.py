"""Loops until a condition fails: `while_loop` and `fori_loop`."""

from collections.abc import Callable
from math import ceil, isqrt
from typing import TypeVar, overload

import numpy as np

from effx import dtypes, flags
from effx.array import Array, Box, Operand
from effx.array.promotion import as_operand, convert
from effx.errors import DTypeError, ShapeError, TransformError, TreeError
from effx.handlers.evaluate.interpreter import iterate
from effx.handlers.recursion.staging import align_constants, cache_on_program
from effx.handlers.sharding_types.axes_in_types import diverge_along
from effx.handlers.staging.stage import stage
from effx.ir.ops.checkpoint import Checkpoint
from effx.ir.ops.compare import Lt
from effx.ir.ops.control import Call, Cond, Scan, While
from effx.ir.program import Program
from effx.ir.types import INVARIANT, ArrayType
from effx.ir.values.scalars import scalar
from effx.lax.control.closures import (
    Leaf,
    LooseLeaf,
    LooseMany,
    LoosePair,
    LooseSingle,
    LooseTriple,
    array_types,
    arrays_of_first_carry,
    check_callable,
    check_next_carry,
    concrete_value,
    convert_to_types,
    flatten_to_arrays,
    infer_carry_types,
)
from effx.lax.control.scans import check_positive_int, unroll_count
from effx.lax.control.unchanged import perform_scan
from effx.tracing.arguments import callable_name, finalize_results
from effx.tracing.traces import FunctionTrace, Types, positional_tree, trace_cached
from effx.tree.mapping import treedef_is_leaf
from effx.tree.registry import PyTree, PyTreeDef, flatten

__all__ = ["fori_loop", "while_loop"]

C = TypeVar("C")
A = TypeVar("A")
Single = TypeVar("Single", bound=LooseSingle)
Pair = TypeVar("Pair", bound=LoosePair)
Triple = TypeVar("Triple", bound=LooseTriple)
List = TypeVar("List", bound=list[PyTree])
Dict = TypeVar("Dict", bound=dict[PyTree, PyTree])
Many = TypeVar("Many", bound=LooseMany)
Index = TypeVar("Index", bound=Array | complex)


@overload
def while_loop(  # type: ignore[overload-overlap]  # tuples of unknown length: of one function both results are right
    cond_fun: Callable[[C], Operand], body_fun: Callable[[C], C], init_val: C, *, max_steps: int | None = None
) -> C: ...
@overload
def while_loop(  # from here on for functions of arrays called with numbers or NumPy arrays
    cond_fun: Callable[[PyTree], Operand],
    body_fun: Callable[[PyTree], Leaf],
    init_val: LooseLeaf,
    *,
    max_steps: int | None = None,
) -> Leaf: ...
@overload
def while_loop(
    cond_fun: Callable[[PyTree], Operand],
    body_fun: Callable[[PyTree], Single],
    init_val: LooseSingle,
    *,
    max_steps: int | None = None,
) -> Single: ...
@overload
def while_loop(
    cond_fun: Callable[[PyTree], Operand],
    body_fun: Callable[[PyTree], Pair],
    init_val: LoosePair,
    *,
    max_steps: int | None = None,
) -> Pair: ...
@overload
def while_loop(
    cond_fun: Callable[[PyTree], Operand],
    body_fun: Callable[[PyTree], Triple],
    init_val: LooseTriple,
    *,
    max_steps: int | None = None,
) -> Triple: ...
@overload
def while_loop(
    cond_fun: Callable[[PyTree], Operand],
    body_fun: Callable[[PyTree], Many],
    init_val: LooseMany,
    *,
    max_steps: int | None = None,
) -> Many: ...
@overload
def while_loop(
    cond_fun: Callable[[PyTree], Operand],
    body_fun: Callable[[tuple[A, ...]], tuple[A, ...]],
    init_val: tuple[PyTree, ...],
    *,
    max_steps: int | None = None,
) -> tuple[A, ...]: ...
@overload
def while_loop(
    cond_fun: Callable[[PyTree], Operand],
    body_fun: Callable[[PyTree], List],
    init_val: list[PyTree],
    *,
    max_steps: int | None = None,
) -> List: ...
@overload
def while_loop(
    cond_fun: Callable[[PyTree], Operand],
    body_fun: Callable[[PyTree], Dict],
    init_val: dict[PyTree, PyTree],
    *,
    max_steps: int | None = None,
) -> Dict: ...
def while_loop(
    cond_fun: Callable[[C], Operand],
    body_fun: Callable[[C], C],
    init_val: PyTree,
    *,
    max_steps: int | None = None,
) -> C:
    """Calls a function on its own result as long as a condition holds.

    In Python::

        val = init_val
        while cond_fun(val):
            val = body_fun(val)
        return val

    Forward mode works; reverse mode needs `max_steps`, because it stores residuals of each iteration. Under
    `vmap` with a batched condition the loop runs until all batch elements are done; those that are done keep
    their values.

    Args:
        cond_fun: takes the value, returns a `bool[]`.
        body_fun: takes the value, returns the next one, of the same structure, shapes and dtypes.
        init_val: the first value, a pytree of arrays. Python numbers in it take the dtypes that
            `body_fun` returns.
        max_steps: the largest number of iterations: the loop stops there even if the condition still holds.
            Iterations run in about sqrt(max_steps) chunks, and chunks after the end are skipped.

    Returns:
        The last value.

    Raises:
        ShapeError: the condition is no scalar, or the value changes its shape.
        DTypeError: the condition is not bool, or the value changes its dtype.
        TreeError: the condition is a tree, or the value changes its structure.
        TransformError: an argument is no function, or `max_steps` is below 1.
        NoRuleError: reverse mode without `max_steps`.

    >>> import effx
    >>> def halvings(x): return while_loop(lambda v: v[0] > 1., lambda v: (v[0] / 2, v[1] + 1), (x, 0))
    >>> print(*halvings(20.))
    0.625 5
    >>> print(effx.grad(lambda x: while_loop(lambda y: y < 10., lambda y: y * x, x, max_steps=9))(3.))
    27.0
    """
    check_callable("cond_fun", cond_fun)
    check_callable("body_fun", body_fun)
    bound = None if max_steps is None else check_positive_int("max_steps", max_steps)
    if flags.disable_jit.value:
        init_val = arrays_of_first_carry("init_val", init_val)
        first = as_operand(cond_fun(init_val))
        _check_test(callable_name(cond_fun), None, (first.type,))
        if concrete_value(first) is not None:
            val: C = _run_loop_in_python(cond_fun, body_fun, init_val, bound)
            return val
    carry, tree = flatten_to_arrays("init_val", init_val)
    inputs = positional_tree(tree)
    name = callable_name(body_fun)

    def stage_body(types: Types) -> tuple[FunctionTrace, PyTreeDef, Types]:
        body_trace = trace_cached("while_loop", body_fun, inputs, types)
        return body_trace, body_trace.out_tree, body_trace.out_types

    types, body = infer_carry_types(name, init_val, array_types(carry), stage_body)
    test = trace_cached("while_loop", cond_fun, inputs, types)
    _check_test(callable_name(cond_fun), test.out_tree, test.out_types)
    decided_along = INVARIANT
    while decided_along != test.out_types[0].vma:  # the carry varies where its end does
        decided_along = test.out_types[0].vma
        with diverge_along(test.out_types[0].vma):
            types, body = infer_carry_types(name, init_val, types, stage_body)
        test = trace_cached("while_loop", cond_fun, inputs, types)
    (condition, iteration), constants = align_constants([test, body])
    results = perform_while(condition, iteration, constants, convert_to_types(carry, types), bound)
    result: C = tree.unflatten(finalize_results(results))
    return result


def _check_test(name: str, tree: PyTreeDef | None, types: Types) -> None:
    if tree is not None and not treedef_is_leaf(tree):
        raise TreeError(f"while_loop: {name} must return one bool[], got the structure {tree}")
    (t,) = types
    if t.shape:
        raise ShapeError(f"while_loop: {name} must return one bool[], got {t!r}")
    if t.kind != "b":
        raise DTypeError(f"while_loop: {name} must return one bool[], got {t!r}")


def _run_loop_in_python(
    cond_fun: Callable[[C], Operand], body_fun: Callable[[C], C], init_val: C, bound: int | None
) -> C:
    """Runs the loop in Python, for debugging."""
    name = callable_name(body_fun)

    def step(i: int, val: C) -> tuple[C, None]:
        return check_next_carry(name, init_val, val, body_fun(val)), None

    return iterate(step, init_val, bound, condition=cond_fun)[0]


def perform_while(
    condition: Program, iteration: Program, constants: list[Array], carry: list[Array], bound: int | None
) -> tuple[Array, ...]:
    """Performs a loop, in chunks if the number of iterations is bounded."""
    k = len(constants)
    if bound is None:
        return While(condition, iteration, k)(*constants, *carry)
    chunk = max(isqrt(bound), 1)
    chunks, rest = divmod(bound, chunk)
    (going,) = Call(condition, True)(*constants, *carry)
    # Scan the chunks; then one shorter chunk, for `bound` iterations in all.
    state = Scan(_make_chunk(condition, iteration, k, chunk), chunks, k, 1 + len(carry))(
        *constants, going, *carry
    )
    if rest:
        state = Call(_make_chunk(condition, iteration, k, rest), True)(*constants, *state)
    return state[1:]


def _make_guarded_iteration(condition: Program, iteration: Program, k: int) -> Program:
    """Returns an iteration of a loop that may have ended: (constants, running, carry) -> (running, carry)."""

    def take(arrays: list[Array]) -> list[Array]:
        constants = arrays[:k]
        after = Call(iteration, True)(*arrays)
        return [*Call(condition, True)(*constants, *after), *after]

    return _guard_iteration(iteration, "iteration", k, take, condition.out_types[0])


def _make_chunk(condition: Program, iteration: Program, k: int, length: int) -> Program:
    """Returns `length` iterations of a loop that may have ended, of the same form."""

    def make() -> Program:
        step = _make_guarded_iteration(condition, iteration, k)

        def iterations(arrays: list[Array]) -> list[Array]:
            true = scalar(True, dtypes.bool_, False)
            return list(Scan(step, length, k, len(arrays) - k + 1)(*arrays[:k], true, *arrays[k:]))

        # Reverse mode saves the carries between chunks and computes a chunk again: about 2 sqrt(max_steps)
        # carries at a time, not the residuals of all iterations.
        again = Checkpoint(
            stage(iterations, iteration.in_types, "iterations", "while_loop").program, None, False
        )

        def take(arrays: list[Array]) -> list[Array]:
            return list(again(*arrays))

        return _guard_iteration(iteration, "chunk", k, take, condition.out_types[0])

    return cache_on_program(iteration, ("chunk", condition, k, length), make)


def _guard_iteration(
    iteration: Program, name: str, k: int, take: Callable[[list[Array]], list[Array]], going: ArrayType
) -> Program:
    """Returns a program that runs `take` while the loop is running, and is the identity afterwards."""
    types = iteration.in_types
    carry = types[k:]

    def skip(arrays: list[Array]) -> list[Array]:
        return [scalar(False, dtypes.bool_, False), *arrays[k:]]

    with diverge_along(going.vma):
        branches = (
            stage(skip, types, "skip", "while_loop").program,
            stage(take, types, name, "while_loop").program,
        )

    def body(arrays: list[Array]) -> tuple[Array, ...]:
        constants, going, now = arrays[:k], arrays[k], arrays[k + 1 :]
        return Cond(branches)(convert(going, dtypes.int32), *constants, *now)

    return stage(body, (*types[:k], going, *carry), f"{name}_or_skip", "while_loop").program


@overload
def fori_loop(  # type: ignore[overload-overlap]  # tuples of unknown length: of one function both results are right
    lower: Operand,
    upper: Operand,
    body_fun: Callable[[Array, C], C],
    init_val: C,
    *,
    unroll: int | bool | None = None,
    max_steps: int | None = None,
) -> C: ...
@overload
def fori_loop(  # type: ignore[overload-overlap]  # tuples of unknown length: of one function both results are right
    # for bodies whose index is annotated as a number
    lower: Operand,
    upper: Operand,
    body_fun: Callable[[Index, C], C],
    init_val: C,
    *,
    unroll: int | bool | None = None,
    max_steps: int | None = None,
) -> C: ...
@overload
def fori_loop(  # from here on for functions of arrays called with numbers or NumPy arrays
    lower: Operand,
    upper: Operand,
    body_fun: Callable[[Index, PyTree], Leaf],
    init_val: LooseLeaf,
    *,
    unroll: int | bool | None = None,
    max_steps: int | None = None,
) -> Leaf: ...
@overload
def fori_loop(
    lower: Operand,
    upper: Operand,
    body_fun: Callable[[Index, PyTree], Single],
    init_val: LooseSingle,
    *,
    unroll: int | bool | None = None,
    max_steps: int | None = None,
) -> Single: ...
@overload
def fori_loop(
    lower: Operand,
    upper: Operand,
    body_fun: Callable[[Index, PyTree], Pair],
    init_val: LoosePair,
    *,
    unroll: int | bool | None = None,
    max_steps: int | None = None,
) -> Pair: ...
@overload
def fori_loop(
    lower: Operand,
    upper: Operand,
    body_fun: Callable[[Index, PyTree], Triple],
    init_val: LooseTriple,
    *,
    unroll: int | bool | None = None,
    max_steps: int | None = None,
) -> Triple: ...
@overload
def fori_loop(
    lower: Operand,
    upper: Operand,
    body_fun: Callable[[Index, PyTree], Many],
    init_val: LooseMany,
    *,
    unroll: int | bool | None = None,
    max_steps: int | None = None,
) -> Many: ...
@overload
def fori_loop(
    lower: Operand,
    upper: Operand,
    body_fun: Callable[[Index, tuple[A, ...]], tuple[A, ...]],
    init_val: tuple[PyTree, ...],
    *,
    unroll: int | bool | None = None,
    max_steps: int | None = None,
) -> tuple[A, ...]: ...
@overload
def fori_loop(
    lower: Operand,
    upper: Operand,
    body_fun: Callable[[Index, PyTree], List],
    init_val: list[PyTree],
    *,
    unroll: int | bool | None = None,
    max_steps: int | None = None,
) -> List: ...
@overload
def fori_loop(
    lower: Operand,
    upper: Operand,
    body_fun: Callable[[Index, PyTree], Dict],
    init_val: dict[PyTree, PyTree],
    *,
    unroll: int | bool | None = None,
    max_steps: int | None = None,
) -> Dict: ...
def fori_loop(  # type: ignore[misc]  # whose index is an array
    lower: Operand,
    upper: Operand,
    body_fun: Callable[[Array, C], C],
    init_val: PyTree,
    *,
    unroll: int | bool | None = None,
    max_steps: int | None = None,
) -> C:
    """Calls a function for each integer from `lower` to `upper`, which is excluded; of floats, in steps of 1.

    In Python::

        val = init_val
        for i in range(lower, upper):
            val = body_fun(i, val)
        return val

    With concrete bounds it is a `scan`, which reverse mode supports; otherwise a `while_loop`, which needs
    `max_steps` for reverse mode.

    Args:
        lower: the first integer, or float.
        upper: the end, of the same dtype.
        body_fun: takes the index and the value. The index is a scalar of the bounds' dtype, and as weak as
            `lower`; with concrete bounds, like a Python int. Returns the next value, of the same structure,
            shapes and dtypes. May close over arrays.
        init_val: the first value, a pytree of arrays. Python numbers in it take the dtypes that
            `body_fun` returns.
        unroll: how many steps one iteration of the compiled loop runs, or True for all; for concrete bounds.
        max_steps: the largest number of iterations, if a bound is traced; see `while_loop`.

    Returns:
        The last value.

    Raises:
        ShapeError: a bound is no scalar, or the value changes its shape.
        DTypeError: bounds are no integers or floats, or differ in dtype, or the value changes its dtype.
        TreeError: the value changes its structure.
        TransformError: `unroll` or `max_steps` is below 1, `unroll` is given for traced bounds, or `body_fun`
            is no function.

    >>> import effx
    >>> print(fori_loop(1, 6, lambda i, product: product * i, 1))
    120
    >>> print(effx.grad(lambda x: fori_loop(0, 3, lambda i, y: y * x, 1.))(2.))
    12.0
    """
    check_callable("body_fun", body_fun)
    first, last = _promote_bounds(lower, upper)
    bound = None if max_steps is None else check_positive_int("max_steps", max_steps)
    start, end = concrete_value(first), concrete_value(last)
    length: int | None = None
    counter: int | float = 0
    if start is not None and end is not None:
        counter = float(start) if first.type.kind == "f" else int(start)
        length = _count_steps(start, end)
        if isinstance(counter, int):
            first = _first_counter(range(counter, int(end)), first)
    if unroll is not None and length is None:
        raise TransformError("fori_loop: unroll needs bounds that are known when the loop is staged")
    name = callable_name(body_fun)
    if length is not None and flags.disable_jit.value:

        def step(i: int, val: C) -> tuple[C, None]:
            number = scalar(counter + i, first.type.dtype, first.type.weak)
            return check_next_carry(name, init_val, val, body_fun(number, val)), None

        val: C = arrays_of_first_carry("init_val", init_val)
        return iterate(step, val, length)[0]
    carry, tree = flatten_to_arrays("init_val", init_val)
    inputs = positional_tree(leaf_structure, tree)
    # Where batch elements have bounds of their own, some end while others go on.
    i_type = first.type if length is not None else first.type.with_vma(first.type.vma | last.type.vma)

    def stage_body(types: Types) -> tuple[FunctionTrace, PyTreeDef, Types]:
        body_trace = trace_cached("fori_loop", body_fun, inputs, (i_type, *types))
        return body_trace, body_trace.out_tree, body_trace.out_types

    with diverge_along(i_type.vma):
        types, body = infer_carry_types(name, init_val, array_types(carry), stage_body)
    constants, values = list(body.captured), convert_to_types(carry, types)
    if length is not None:
        unrolling = unroll_count(1 if unroll is None else unroll, length)
        counting = _add_counter_to_body(body.program, len(constants))
        results = perform_scan(
            Scan(counting, length, len(constants), 1 + len(values), False, unrolling),
            [*constants, first, *values],
        )
        result: C = tree.unflatten(finalize_results(results[1:]))
        return result
    # The upper bound is a constant of the loop, before the body's own.
    condition, iteration = _counter_loop_programs(body.program, len(constants))
    results = perform_while(condition, iteration, [last, *constants], [first, *values], bound)
    last_val: C = tree.unflatten(finalize_results(results[1:]))
    return last_val


leaf_structure = flatten(0)[1]


def _promote_bounds(lower: Operand, upper: Operand) -> tuple[Array, Array]:
    """Returns the bounds in one dtype; a Python int takes the other's."""
    bounds = [as_operand(lower), as_operand(upper)]
    for name, x in zip(("lower", "upper"), bounds, strict=True):
        if x.type.shape:
            raise ShapeError(f"fori_loop: {name} must be a scalar, got {x.type!r}")
        if x.type.kind not in "iuf":
            raise DTypeError(f"fori_loop: {name} must be an integer or a float, got {x.type!r}")
    first, last = bounds
    if first.type is not last.type and (first.type.kind == "f") == (last.type.kind == "f"):
        strong = last.type if first.type.weak else first.type
        bounds = [
            convert(x, strong.dtype) if x.type.weak and x.type.dtype != strong.dtype else x for x in bounds
        ]
        first, last = bounds
    if first.type.dtype != last.type.dtype:
        raise DTypeError(
            f"fori_loop: lower and upper must have the same dtype, got {first.type!r} and {last.type!r}"
        )
    return first, last


def _count_steps(start: Array, end: Array) -> int:
    """Returns how many numbers there are from a start to an end, which is excluded, in steps of 1."""
    if start.type.kind in "iu":
        return max(int(end) - int(start), 0)
    return max(ceil(float(end) - float(start)), 0)


def _first_counter(steps: range, first: Array) -> Array:
    """Returns the first index of a loop with concrete bounds: weak if its dtype can hold the last one."""
    dtype, weak = dtypes.scalar_dtype(int)
    info = np.iinfo(dtype)
    fits = info.min <= min(steps.start, steps.stop) and max(steps.start, steps.stop) <= info.max
    return scalar(steps.start, dtype, weak) if fits and type(first) is not Box else first


def _add_counter_to_body(program: Program, k: int) -> Program:
    """Returns the body with the counter in the carry: from constants, i and values to i + 1 and values."""

    def body(arrays: list[Array]) -> list[Array]:
        i = arrays[k]
        return [i + scalar(1, i.type.dtype, i.type.weak), *Call(program, True)(*arrays)]

    return cache_on_program(
        program, "counting", lambda: stage(body, program.in_types, program.name, "fori_loop").program
    )


def _counter_loop_programs(program: Program, k: int) -> tuple[Program, Program]:
    """Returns condition and body of the loop, with the upper bound as the first constant."""

    def make() -> tuple[Program, Program]:
        types = (program.in_types[k], *program.in_types)
        counting = _add_counter_to_body(program, k)
        condition = stage(lambda a: [Lt()(a[1 + k], a[0])], types, "until", "fori_loop").program
        iteration = stage(
            lambda a: list(Call(counting, True)(*a[1:])), types, program.name, "fori_loop"
        ).program
        return condition, iteration

    return cache_on_program(program, "until", make)
