"""`make_jaxpr` (also `stage`) and `eval_shape`: programs and shapes of users' functions.

Never: run what was staged.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec

import attrs

from effx.array import Array
from effx.handlers.stage import stage as stage_flat
from effx.ir.program import Program
from effx.transforms.arguments import abstract, argument_numbers, flatten_output, name_of, origin_of
from effx.transforms.stages import shape_of
from effx.tree.registry import PyTree, PyTreeDef, flatten

__all__ = ["eval_shape", "make_jaxpr", "stage"]

P = ParamSpec("P")


def _stage(
    what: str,
    fun: Callable[..., Any],
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
    static: tuple[int, ...],
) -> tuple[Program, PyTreeDef]:
    dynamic = [a for i, a in enumerate(args) if i not in static]
    leaves, tree = flatten((dynamic, kwargs))
    types = [abstract(what, x) for x in leaves]
    out_tree: PyTreeDef | None = None
    name = name_of(fun)

    def body(arrays: list[Array]) -> Sequence[Array]:
        nonlocal out_tree
        inner, inner_kwargs = tree.unflatten(arrays)
        all_args: list[PyTree] = list(inner)
        for i in static:
            all_args.insert(i, args[i])
        results, out_tree = flatten_output(what, name, fun(*all_args, **inner_kwargs))
        return results

    staged = stage_flat(body, types, name, what, origin_of(fun))
    assert out_tree is not None
    return attrs.evolve(staged.program, constants=staged.captured, derived={}), out_tree


def make_jaxpr(
    fun: Callable[P, Any], static_argnums: "int | Iterable[int]" = (), return_shape: bool = False
) -> Callable[P, Any]:
    """Returns a function that stages `fun` and gives its program.

    Args:
        fun: takes and returns pytrees of arrays.
        static_argnums: positional arguments that are part of the program.
        return_shape: True to get a pair of the program and the result's shapes and dtypes.

    Returns:
        A function of arguments, or of things with their shapes and dtypes, giving an
        `effx.ir.Program`. Arrays that `fun` closes over are the program's first inputs; their
        values are its `constants`.

    >>> import effx, effx.numpy as enp
    >>> print(effx.make_jaxpr(lambda x: enp.sin(enp.cos(x)))(3.0))
    <lambda>(a: f32[]~) {
      b: f32[]~ = cos a
      c: f32[]~ = sin b
      return c
    }
    """

    @wraps(fun)
    def staged(*args: P.args, **kwargs: P.kwargs) -> Any:
        places = argument_numbers("make_jaxpr", static_argnums, len(args))
        program, out_tree = _stage("make_jaxpr", fun, args, kwargs, tuple(sorted(places)))
        if not return_shape:
            return program
        return program, out_tree.unflatten([shape_of(t) for t in program.out_types])

    return staged


stage = make_jaxpr


def eval_shape(fun: Callable[..., Any], *args: PyTree, **kwargs: PyTree) -> Any:
    """Computes shapes and dtypes of `fun(*args, **kwargs)` without computing values.

    Args:
        fun: takes and returns pytrees of arrays.
        args, kwargs: arrays, or anything with `shape` and `dtype`.

    Returns:
        The result's structure with a `ShapeDtypeStruct` for each array.

    Raises:
        ShapeError, DTypeError: as `fun` itself would.

    >>> import effx, effx.numpy as enp
    >>> effx.eval_shape(enp.dot, effx.ShapeDtypeStruct((2000, 3000), "float32"), effx.ShapeDtypeStruct((3000, 5), "float32"))
    ShapeDtypeStruct(shape=(2000, 5), dtype=float32)
    """
    program, out_tree = _stage("eval_shape", fun, args, kwargs, ())
    return out_tree.unflatten([shape_of(t) for t in program.out_types])
