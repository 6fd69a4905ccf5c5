"""Named operations that a compiler may replace: `composite`."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from effx.errors import TransformError
from effx.families.composite import Composite, attribute_text
from effx.lax.control.closures import array_types, check_callable, flatten_to_arrays
from effx.tracing.traces import call_tree, trace_cached
from effx.tracing.wrapping import wraps

__all__ = ["composite"]

P = ParamSpec("P")
R = TypeVar("R")


def composite(decomposition: Callable[P, R], name: str, version: int = 0) -> Callable[P, R]:
    """Returns a function that a compiler may replace by its own of the same name; where it has none, the
    decomposition runs.

    The result is one operation of the program. Derivatives, `vmap` and other handlers go into the decomposition.

    Args:
        decomposition: takes pytrees of arrays by position, and the operation's attributes by keyword: numbers, strings,
            dtypes, NumPy arrays, sequences and mappings of these. One that is None is no attribute. Arrays
            that it closes over are the first operands of the operation.
        name: the operation's name, with a namespace.
        version: the version of the name's meaning.

    Returns:
        A function of the same arguments.

    Raises:
        TransformError: the decomposition is no function, or has an effect; or an attribute is of another class.

    >>> from functools import partial
    >>> import effx, effx.numpy as enp
    >>> @partial(composite, name="my.scaled")
    ... def scaled(x, /, *, by): return x * by
    >>> float(scaled(2.0, by=3.0))
    6.0
    >>> 'stablehlo.composite "my.scaled"' in effx.jit(lambda x: scaled(x, by=3.0)).lower(2.0).as_text()
    True
    """
    check_callable("decomposition", decomposition)

    @wraps(decomposition)
    def function(*args: P.args, **kwargs: P.kwargs) -> R:
        attribute_values = {key: value for key, value in kwargs.items() if value is not None}
        attributes = tuple(
            [(key, attribute_text(key, value)) for key, value in sorted(attribute_values.items())]
        )
        arrays, tree = flatten_to_arrays("arguments", args)
        form = (attributes, tuple([(key, type(value), repr(value)) for key, value in sorted(kwargs.items())]))
        trace = trace_cached(
            "composite",
            decomposition,
            call_tree(tree),
            array_types(arrays),
            static_key=form,
            arguments=lambda attribute_values: (attribute_values[0], kwargs),
        )
        if trace.program.effects:
            row = ", ".join(map(repr, sorted(trace.program.effects, key=repr)))
            raise TransformError(
                f"composite: {name} performs effects, which no compiler replaces: {row}; call the function itself"
            )
        op = Composite(trace.program, name, version, attributes)
        result: R = trace.out_tree.unflatten(op(*trace.captured, *arrays))
        return result

    return function
