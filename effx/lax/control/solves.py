"""Implicitly defined functions: `custom_linear_solve` and `custom_root`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from effx import handlers
from effx.array import Array
from effx.array.promotion import zeros
from effx.errors import NoRuleError, TreeError, name_user_call
from effx.handlers.recursion.staging import align_constants
from effx.handlers.staging.stage import run_program, stage
from effx.ir.ops.control import Call
from effx.ir.ops.solve import LinearSolve, Root
from effx.ir.program import Program, Staged
from effx.lax.control.closures import (
    array_types,
    check_callable,
    check_inexact,
    check_matches,
    convert_to_types,
    flatten_to_arrays,
)
from effx.tracing.arguments import callable_name
from effx.tracing.traces import FunctionTrace, Types, positional_tree, trace_cached
from effx.transforms.autodiff.core import linear_transpose
from effx.tree.mapping import treedef_children, treedef_is_leaf
from effx.tree.registry import PyTree, PyTreeDef

__all__ = ["custom_linear_solve", "custom_root"]

X = TypeVar("X")

Function = Callable[[X], X]
Solver = Callable[[Function[X], X], PyTree]


def custom_linear_solve(
    matvec: Function[X],
    b: X,
    solve: Solver[X],
    transpose_solve: Solver[X] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> PyTree:
    """Solves A x = b by a solver that is not differentiated: the derivative solves a linear system too. A x =
    b implies A dx = db - dA x. So derivatives of any order, with respect to b and the values that `matvec`
    closes over, call the same solver, and reverse mode that of the transposed system.

    Args:
        matvec: x to A x, a linear function between pytrees like b. May close over arrays.
        b: a pytree of floating or complex arrays.
        solve: called with `matvec` and b, returns x.
        transpose_solve: called with y to A^T y (without conjugation) and c, returns the y with A^T y = c.
        symmetric: True promises that A^T = A; then `solve` solves the transposed system too.
        has_aux: True if the solvers return pairs `(x, aux)`; `aux` is not differentiated.

    Returns:
        x, a pytree like b; with has_aux the pair `(x, aux)`.

    Raises:
        TreeError: `matvec` or a solver returns another structure than b's.
        ShapeError, DTypeError: arrays of other types than b's, or b is an integer.
        TransformError: an argument is no function.
        NoRuleError: reverse mode without a solver of the transposed system.

    >>> import effx, effx.numpy as enp
    >>> def solve(d, b): return custom_linear_solve(lambda x: d * x, b, lambda matvec, b: b / d, symmetric=True)
    >>> d, b = enp.array([1., 2.]), enp.array([3., 4.])
    >>> solve(d, b), effx.grad(lambda d: solve(d, b).sum())(d)
    (Array([3., 2.], dtype=float32), Array([-3., -1.], dtype=float32))
    """
    check_callable("matvec", matvec)
    check_callable("solve", solve)
    if transpose_solve is not None:
        check_callable("transpose_solve", transpose_solve)
    arrays, tree = flatten_to_arrays("b", b)
    check_inexact("b", b, array_types(arrays))
    types = tuple([x.type.strong() for x in arrays])
    inputs = positional_tree(tree)
    linear = trace_cached("custom_linear_solve", matvec, inputs, types)
    check_matches(callable_name(matvec), "b", tree, types, linear.out_tree, linear.out_types)
    solver = trace_cached("custom_linear_solve", partial(solve, matvec), inputs, types)
    _check_solution(callable_name(solve), "b", tree, types, solver, has_aux)
    parts = [linear, solver]
    if transpose_solve is not None:

        def transposed(y: X) -> X:
            result: X = linear_transpose(matvec, tree.unflatten(types))(y)[0]
            return result

        back = trace_cached(
            "custom_linear_solve",
            partial(transpose_solve, matvec if symmetric else transposed),
            inputs,
            types,
        )
        _check_solution(callable_name(transpose_solve), "b", tree, types, back, has_aux)
        parts.append(back)
    programs, constants = align_constants(parts)
    if transpose_solve is None and symmetric:
        programs.append(programs[1])
    op = LinearSolve(
        programs[0],
        programs[1],
        programs[0] if symmetric else None,
        programs[2] if len(programs) > 2 else None,
        len(constants),
    )
    return solver.out_tree.unflatten(op(*constants, *convert_to_types(arrays, types)))


def custom_root(
    f: Function[X],
    initial_guess: X,
    solve: Solver[X],
    tangent_solve: Solver[X],
    has_aux: bool = False,
) -> PyTree:
    """Finds x with f(x) = 0 by a solver that is not differentiated; the implicit function theorem gives the
    derivative. Where f closes over a, f(a, x) = 0 implies f_x dx = -f_a da, so derivatives of any order call
    `tangent_solve`. The derivative with respect to the guess is zero.

    Args:
        f: between pytrees like the guess; its derivative at the root must be invertible. May close over arrays.
        initial_guess: a pytree of floating or complex arrays.
        solve: called with f and the guess, returns the root.
        tangent_solve: called with a linear function g, the derivative of f at the root or its transpose, and
            y like the guess; returns the x with g(x) = y. For a scalar `lambda g, y: y / g(1.0)`, for a short
            vector `lambda g, y: enp.linalg.solve(effx.jacobian(g)(y), y)`.
        has_aux: True if `solve` returns a pair `(root, aux)`; `aux` is not differentiated.

    Returns:
        The root, a pytree like the guess; with has_aux the pair `(root, aux)`.

    Raises:
        TreeError: f or a solver returns another structure than the guess's.
        ShapeError, DTypeError: arrays of other types than the guess's, or the guess is an integer.
        TransformError: an argument is no function.
        NoRuleError: reverse mode where the derivative of f cannot be transposed.

    >>> import effx
    >>> from effx import lax
    >>> def sqrt(a):
    ...     def solve(f, x): return lax.fori_loop(0, 9, lambda i, x: x - f(x) / (2. * x), x)
    ...     return custom_root(lambda x: x * x - a, 1. + a, solve, lambda g, y: y / g(1.0))
    >>> print(f"{sqrt(2.):.6f} {effx.grad(sqrt)(2.):.6f} {effx.grad(effx.grad(sqrt))(2.):.6f}")
    1.414214 0.353553 -0.088388
    """
    for name, function in (("f", f), ("solve", solve), ("tangent_solve", tangent_solve)):
        check_callable(name, function)
    arrays, tree = flatten_to_arrays("initial_guess", initial_guess)
    check_inexact("initial_guess", initial_guess, array_types(arrays))
    types = tuple([x.type.strong() for x in arrays])
    inputs = positional_tree(tree)
    residual_trace = trace_cached("custom_root", f, inputs, types)
    check_matches(
        callable_name(f),
        "initial_guess",
        tree,
        types,
        residual_trace.out_tree,
        residual_trace.out_types,
    )
    solver = trace_cached("custom_root", partial(solve, f), inputs, types)
    _check_solution(callable_name(solve), "initial_guess", tree, types, solver, has_aux)
    (residual, solving), constants = align_constants([residual_trace, solver])
    k = len(constants)
    matvec, tangent, back = _stage_tangent_solve(residual, k, tree, types, tangent_solve)
    parts = [Staged(residual, ()), Staged(solving, ()), Staged(matvec, ()), tangent]
    # The closed-over values of tangent_solve come before those of f and solve.
    programs, more = align_constants([*parts, *([] if back is None else [back])])
    transposed = programs[4] if len(programs) > 4 else None
    op = Root(programs[0], programs[1], programs[2], programs[3], transposed, len(more) + k)
    return solver.out_tree.unflatten(op(*more, *constants, *convert_to_types(arrays, types)))


def _stage_tangent_solve(
    residual: Program, k: int, tree: PyTreeDef, types: Types, tangent_solve: Solver[PyTree]
) -> tuple[Program, Staged, Staged | None]:
    """Stages f'(x) v and the solvers of its system and of the transposed system, from constants, x and v."""
    n, name = len(types), callable_name(tangent_solve)
    inputs = (*residual.in_types, *types)

    def at(arrays: Sequence[Array]) -> Callable[[list[Array]], Sequence[Array]]:
        return lambda x: Call(residual, True)(*arrays[:k], *x)

    def matvec(arrays: list[Array]) -> list[Array]:
        tangents = handlers.jvp.jvp(at(arrays), arrays[k : k + n], arrays[k + n :])[1]
        return [zeros(t.strong()) if dy is None else dy for dy, t in zip(tangents, types, strict=True)]

    def solved(arrays: list[Array], forward: bool) -> list[Array]:
        # Linearised once, so that a solver that applies g often does not evaluate f each time.
        _, linear, dependent = handlers.linearize.linearize(at(arrays), arrays[k : k + n], (True,) * n)

        def g(v: PyTree) -> PyTree:
            argument_arrays, v_tree = flatten_to_arrays("the argument of g", v)
            check_matches(
                name,
                "initial_guess",
                tree,
                types,
                v_tree,
                array_types(argument_arrays),
                "must call g with",
            )
            moved = convert_to_types(argument_arrays, types)
            if forward:
                results = iter(run_program(linear.program, [*linear.residuals, *moved]))
                items: list[Array | None] = [next(results) if d else None for d in dependent]
            else:
                cts = [ct for ct, d in zip(moved, dependent, strict=True) if d]
                items = handlers.transpose.backward_pass(linear.program, linear.residuals, cts)
            return tree.unflatten(
                [zeros(t.strong()) if y is None else y for y, t in zip(items, types, strict=True)]
            )

        result = tangent_solve(g, tree.unflatten(arrays[k + n :]))
        leaves, out_tree = flatten_to_arrays(f"the result of {name}", result)
        check_matches(name, "initial_guess", tree, types, out_tree, array_types(leaves))
        return convert_to_types(leaves, types)

    tangent = stage(lambda arrays: solved(arrays, True), inputs, name, "custom_root")
    try:
        back: Staged | None = stage(lambda arrays: solved(arrays, False), inputs, name, "custom_root")
    except NoRuleError:
        back = None  # f's derivative cannot be transposed: only forward mode works
    return stage(matvec, inputs, "tangent", "custom_root").program, tangent, back


def _check_solution(
    name: str,
    like: str,
    tree: PyTreeDef,
    types: Types,
    solver: FunctionTrace,
    has_aux: bool,
) -> None:
    """Checks a solver's result."""
    out_tree = solver.out_tree
    if has_aux:
        children = [] if treedef_is_leaf(out_tree) else treedef_children(out_tree)
        if len(children) != 2:
            raise TreeError(
                f"{name_user_call()}: with has_aux {name} must return a pair (x, aux), got {out_tree}"
            )
        out_tree = children[0]
    out_types = solver.out_types[: out_tree.num_leaves] if has_aux else solver.out_types
    check_matches(name, like, tree, types, out_tree, out_types)
