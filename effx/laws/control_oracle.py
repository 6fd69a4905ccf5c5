"""Control flow as plain Python: the oracle of loops, branches and calls.

`python_form(f)` is the function `f` with `lax.scan`, `lax.cond` and their like replaced by Python loops and
`if`, and `effx.jit`, `effx.checkpoint` and `effx.vmap` by calls, by replacing the modules `lax` and `effx`
among its globals. It shares nothing with the interpreters of effx, which it is compared with.
"""

from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import cast, final

import effx
from effx import lax, tree
from effx.errors import TransformError
from effx.laws.programs import NAMESPACE, TypedProgram
from effx.tree.registry import PyTree

Function = Callable[..., PyTree]


def _scan(
    functions: PyTree,
    f: Function,
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
) -> PyTree:
    steps = tree.leaves(xs)[0].shape[0] if length is None else length
    carry, ys = init, [None] * steps
    for i in reversed(range(steps)) if reverse else range(steps):
        carry, ys[i] = f(carry, tree.map(lambda x, i=i: x[i], xs))
    return carry, tree.map(lambda *rows: functions.stack(rows), *ys)


def _cond(predicate: PyTree, yes: Function, no: Function, *operands: PyTree) -> PyTree:
    return yes(*operands) if predicate else no(*operands)


def _switch(index: PyTree, branches: Sequence[Function], *operands: PyTree) -> PyTree:
    return branches[min(max(int(index), 0), len(branches) - 1)](*operands)


def _while(more: Function, body: Function, state: PyTree, max_steps: int | None = None) -> PyTree:
    iterations = 0
    while more(state) and (max_steps is None or iterations < max_steps):
        state, iterations = body(state), iterations + 1
    return state


def _fori(functions: PyTree, low: int, high: int, body: Function, state: PyTree) -> PyTree:
    for i in range(low, high):
        state = body(functions.int32(i), state)
    return state


def _map(functions: PyTree, f: Function, xs: PyTree) -> PyTree:
    rows = [f(tree.map(lambda x, i=i: x[i], xs)) for i in range(tree.leaves(xs)[0].shape[0])]
    return tree.map(lambda *ys: functions.stack(ys), *rows)


def _call(f: Function) -> Function:
    return f


@final
class ReplacedNames:
    """A module with some names replaced."""

    def __init__(self, module: object, **others: object) -> None:
        self._module = module
        self.__dict__.update(others)

    def __getattr__(self, name: str) -> object:
        return getattr(self._module, name)


def replace_control(control: object, transformations: object, functions: object) -> dict[str, object]:
    """Returns the modules `lax` and `effx` with control flow and calls in Python.

    Args:
        control: the module `lax`, of effx or of another implementation.
        transformations: the module `effx`.
        functions: the module that has `stack` and `int32`.
    """
    loop_over_rows = partial(_map, functions)
    plain_lax = ReplacedNames(
        control,
        scan=partial(_scan, functions),
        cond=_cond,
        switch=_switch,
        while_loop=_while,
        fori_loop=partial(_fori, functions),
        map=loop_over_rows,
    )
    plain_effx = ReplacedNames(
        transformations, jit=_call, checkpoint=_call, vmap=lambda f: partial(loop_over_rows, f)
    )
    return {"lax": plain_lax, "effx": plain_effx}


def python_form(f: Function) -> Function:
    """Returns a function with its control flow and calls in Python.

    Args:
        f: a function of a module that names `lax` or `effx`, or one that `programs` drew.

    Raises:
        TransformError: `f` is neither.

    >>> from effx import lax
    >>> def f(x):
    ...     return lax.fori_loop(0, 3, lambda i, v: v * 2.0, x)
    >>> python_form(f)(1.5)
    12.0
    """
    others = replace_control(lax, effx, effx.numpy)
    if isinstance(f, TypedProgram):
        return f.compiled(NAMESPACE | others)
    if not isinstance(f, FunctionType):
        raise TransformError(f"python_form: takes a Python function, got {f!r}")
    return cast(
        "Function",
        FunctionType(f.__code__, f.__globals__ | others, f.__name__, f.__defaults__, f.__closure__),
    )
