"""Users' batching rules: `custom_vmap`, `sequential_vmap`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar, final

from effx.array import Array
from effx.errors import ShapeError, TransformError, TreeError, UndefinedRuleError, check_function
from effx.ir.ops.control import Scan
from effx.ir.ops.custom import CustomRules
from effx.tracing.arguments import PartialLeafFunction, callable_name, flatten_output
from effx.tracing.traces import trace
from effx.tracing.wrapping import update_wrapper
from effx.transforms.custom.invocation import (
    Invocation,
    bind_positional_arguments,
    find_defining_method,
    perform_custom,
    type_name,
)
from effx.tree.registry import PyTree, flatten

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., PyTree])


@final
class custom_vmap(Generic[P, R]):
    """A function with a batching rule of its own.

    Differentiation goes through the function, and through the rule under vmap.

    Args:
        fun: the function, of pytrees of arrays.

    Raises:
        TransformError: `fun` is no function; on a call, no rule has been defined.

    >>> import effx, effx.numpy as enp
    >>> @effx.custom_batching.custom_vmap
    ... def f(x):
    ...     return enp.sin(x)
    >>> @f.def_vmap
    ... def f_vmap(axis_size, in_batched, x):
    ...     return enp.cos(x), in_batched[0]
    >>> print(f(0.), effx.vmap(f)(enp.zeros(2)))
    0.0 [1. 1.]
    """

    def __init__(self, fun: Callable[P, R]) -> None:
        check_function(fun)
        update_wrapper(self, fun)
        self.__name__ = callable_name(fun)
        self.fun = fun
        self.vmap_rule: Callable[..., PyTree] | None = None

    if not TYPE_CHECKING:  # where it is a function with derivative rules inside that gets its rules

        def __getattr__(self, name: str) -> object:
            return find_defining_method(self, name)

    def __reaches__(self) -> dict[str, object]:
        """Returns the parts of the function that belong to its key on disk."""
        return {"fun": self.fun, "vmap_rule": self.vmap_rule}

    def def_vmap(self, vmap_rule: F) -> F:
        """Sets the function's batching rule.

        Args:
            vmap_rule: takes the batch size, a list of bools that says for each argument, in its structure, which
                leaves have a leading batch axis, and the arguments; returns `(result, out_batched)`, where
                out_batched says the same for the result, as a pytree prefix.

        Returns:
            The rule, so that this can be a decorator.
        """
        if not callable(vmap_rule):
            raise TransformError(
                f"custom_vmap: def_vmap takes a function, got {vmap_rule!r} of type {type(vmap_rule).__name__}"
            )
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function; vmap uses the rule."""
        rule = self.vmap_rule
        if rule is None:
            raise UndefinedRuleError(
                f"custom_vmap: {self.__name__} was called before its rule was defined with def_vmap"
            )
        call = Invocation(
            "custom_vmap", self.fun, bind_positional_arguments("custom_vmap", self.fun, args, kwargs), ()
        )

        def apply_vmap_rule(
            size: int, constants: Sequence[Array], values: Sequence[Array], batched: Sequence[bool]
        ) -> tuple[list[Array], list[bool]]:
            if call.out_types is None:
                types = [x.type for x in values]
                call.infer_result(
                    [t.with_shape(t.shape[1:]) if b else t for t, b in zip(types, batched, strict=True)]
                )
            flags = list(call.in_tree.unflatten(batched))
            with call.substitute_constants(constants) as substitute:
                result = rule(size, flags, *call.in_tree.unflatten(values))
                ys, out_flags = _check_outputs(call, callable_name(rule), size, result)
                return [substitute(y) for y in ys], out_flags

        result: R = perform_custom(call, CustomRules("custom_vmap", self.__name__, batch=apply_vmap_rule))
        return result


def _check_outputs(call: Invocation, name: str, size: int, result: PyTree) -> tuple[list[Array], list[bool]]:
    """Flattens and checks a batching rule's result.

    Raises:
        TransformError, TreeError, ShapeError: it is no such pair, or does not match the function.
    """
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise TransformError(
            f"custom_vmap: {name} must return a pair (result, out_batched), got {type_name(result)}"
        )
    out, out_batched = result
    ys, tree = flatten_output("custom_vmap", name, out)
    call.check_result_tree(name, "a result", tree)
    flags = [out_batched] * len(ys) if isinstance(out_batched, bool) else flatten(out_batched)[0]
    if not isinstance(out_batched, bool) and (
        flatten(out_batched)[1] != tree or not all([isinstance(b, bool) for b in flags])
    ):
        raise TreeError(
            f"custom_vmap: {name} must give out_batched as bools in the structure of the result, {tree}, got {out_batched!r}"
        )
    for i, (y, b) in enumerate(zip(ys, flags, strict=True)):
        t = y.type
        if b and (not t.shape or t.shape[0] != size):
            raise ShapeError(
                f"custom_vmap: {name} gives result{call.result_path(i)} of type {t!r}, marked as batched; "
                f"expected a leading axis of {size}"
            )
        assert call.out_types is not None
        expected = call.out_types[i]
        if (t.shape[1:] if b else t.shape) != expected.shape or t.dtype != expected.dtype:
            raise ShapeError(
                f"custom_vmap: {name} gives result{call.result_path(i)} of type {t!r}, marked as "
                f"{'batched' if b else 'not batched'}, but {call.name} gives {expected!r}"
            )
    return ys, flags


def sequential_vmap(f: Callable[P, R]) -> custom_vmap[P, R]:
    """Makes `vmap` loop over the batch, for functions that need much memory or cannot be batched.

    Args:
        f: the function, of pytrees of arrays.

    Returns:
        The function; under vmap it is a scan over the batch.

    >>> import effx, effx.numpy as enp
    >>> f = effx.custom_batching.sequential_vmap(lambda x: enp.sum(x) ** 2)
    >>> print(effx.vmap(f)(enp.arange(6.).reshape(3, 2)))
    [ 1. 25. 81.]
    """
    function = custom_vmap(f)
    by_position: Callable[..., PyTree] = function

    def map_sequentially(size: int, in_batched: list[PyTree], *args: PyTree) -> tuple[PyTree, PyTree]:
        leaves, tree = flatten((args, {}))
        flags = flatten(tuple(in_batched))[0]
        # The inputs of the scan: constants first.
        order = sorted(range(len(leaves)), key=lambda i: flags[i])
        unbatched_count = len(leaves) - sum(flags)
        inputs = [leaves[i] for i in order]
        types = [x.type for x in inputs[:unbatched_count]] + [
            x.type.with_shape(x.type.shape[1:]) for x in inputs[unbatched_count:]
        ]
        # The function with its rule, so that nested vmaps become nested loops.
        element = PartialLeafFunction("sequential_vmap", by_position, tree, leaves, order, function.__name__)
        body = trace(element, types)
        results = Scan(body.program, size, len(body.captured) + unbatched_count)(*body.captured, *inputs)
        return body.out_tree.unflatten(results), True

    function.def_vmap(map_sequentially)
    return function
