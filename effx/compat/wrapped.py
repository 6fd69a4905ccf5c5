"""Functions of flat arguments, wrapped by transformations that see arguments before and results after them."""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, final

import attrs

from effx.tree.registry import PyTreeDef, flatten

__all__ = [
    "DebugInfo",
    "StoreException",
    "WrappedFun",
    "debug_info",
    "flatten_fun",
    "flatten_fun_nokwargs",
    "transformation",
    "transformation2",
    "transformation_with_aux",
    "transformation_with_aux2",
    "wrap_init",
]


class StoreException(Exception):  # noqa: N818  # JAX's name
    """A transformation's auxiliary output was read before the function ran."""


@final
@attrs.frozen
class DebugInfo:
    """Whose function is traced, for errors.

    Attributes:
        traced_for: the transformation. func_src_info: the function's name and location.
        arg_names, result_paths: names of arguments and of results; None where they are not known.
    """

    traced_for: str
    func_src_info: str
    arg_names: Sequence[str] | None = None
    result_paths: Sequence[str] | None = None


@final
@attrs.frozen(eq=False)
class WrappedFun:
    """A function.

    Attributes:
        f: the function, transformations included. params: keyword arguments for it.
        debug_info: whose it is.
    """

    f: Callable[..., Any]
    params: dict[str, Any] = attrs.field(factory=dict)
    debug_info: DebugInfo | None = None

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "f")

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with all transformations."""
        return self.f(*args, **{**self.params, **kwargs})


def wrap_init(
    f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: DebugInfo | None = None
) -> WrappedFun:
    """Wraps a function, which nothing transforms yet.

    Args:
        f: the function. params: keyword arguments for it. debug_info: whose it is.
    """
    return WrappedFun(f, dict(params or {}), debug_info)


def debug_info(
    traced_for: str, fun: Callable[..., Any], args: Sequence[Any], kwargs: Any, **where: Any
) -> DebugInfo:
    """Returns the debug information of a traced function.

    Args:
        traced_for: the transformation. fun: the function.
        args, kwargs, where: those in which JAX finds the names of arguments; effx finds them where an error needs them.
    """
    code = getattr(fun, "__code__", None)
    source_location = "" if code is None else f" at {code.co_filename}:{code.co_firstlineno}"
    return DebugInfo(traced_for, f"{getattr(fun, '__name__', fun)}{source_location}")


_Body = Callable[..., Generator[Any, Any, Any]]


def _resume_generator(
    body: _Body, inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Runs a generator that yields arguments, is resumed with the result, and yields its own."""
    generator = body(*args, **kwargs)
    inner_args, inner_kwargs = next(generator)
    result = generator.send(inner(*inner_args, **inner_kwargs))
    generator.close()
    return result


def transformation(body: _Body) -> Callable[..., WrappedFun]:
    """Makes a transformation of a generator: `yield args, kwargs` gives the function's result; then `yield` its own.

    Returns:
        A function of a WrappedFun and the generator's first arguments.
    """

    def transform(fun: WrappedFun, *arguments: Any) -> WrappedFun:
        def transformed(*args: Any, **kwargs: Any) -> Any:
            return _resume_generator(partial(body, *arguments), fun.call_wrapped, args, kwargs)

        return WrappedFun(transformed, debug_info=fun.debug_info)

    return transform


def transformation2(body: Callable[..., Any]) -> Callable[..., WrappedFun]:
    """Makes a transformation of a function that takes the function to call before all else."""

    def transform(fun: WrappedFun, *arguments: Any) -> WrappedFun:
        return WrappedFun(partial(body, fun.call_wrapped, *arguments), debug_info=fun.debug_info)

    return transform


class _Store:
    """The auxiliary output of the last call."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def __call__(self) -> Any:
        """Returns it.

        Raises:
            StoreException: the function has not run.
        """
        if not self.kept:
            raise StoreException("the function has not run yet")
        return self.kept[-1]


def transformation_with_aux(body: _Body) -> Callable[..., tuple[WrappedFun, Callable[[], Any]]]:
    """As `transformation`; the generator yields a pair, whose second part is stored as the auxiliary output."""

    def transform(fun: WrappedFun, *arguments: Any) -> tuple[WrappedFun, Callable[[], Any]]:
        store = _Store()

        def transformed(*args: Any, **kwargs: Any) -> Any:
            result, aux = _resume_generator(partial(body, *arguments), fun.call_wrapped, args, kwargs)
            store.kept = [aux]
            return result

        return WrappedFun(transformed, debug_info=fun.debug_info), store

    return transform


def transformation_with_aux2(body: Callable[..., Any]) -> Callable[..., tuple[WrappedFun, Callable[[], Any]]]:
    """As `transformation2`; the function gets where to keep something by `store`, behind the function to call."""

    def transform(fun: WrappedFun, *arguments: Any) -> tuple[WrappedFun, Callable[[], Any]]:
        store = _OwnStore()
        return WrappedFun(
            partial(body, fun.call_wrapped, store, *arguments), debug_info=fun.debug_info
        ), store

    return transform


class _OwnStore(_Store):
    """Where a transformation keeps something by its own word."""

    def store(self, value: Any) -> None:
        """Keeps a value."""
        self.kept = [value]


def flatten_fun(fun: WrappedFun, in_tree: PyTreeDef) -> tuple[WrappedFun, Callable[[], PyTreeDef]]:
    """Returns a function of flat arguments with a flat result, and what gives the result's structure once it ran.

    Args:
        fun: takes and returns pytrees. in_tree: the structure of `(args, kwargs)`.
    """
    return _flatten_function(fun, lambda leaves: in_tree.unflatten(leaves))


def flatten_fun_nokwargs(fun: WrappedFun, in_tree: PyTreeDef) -> tuple[WrappedFun, Callable[[], PyTreeDef]]:
    """As `flatten_fun`, with the structure of `args` only."""
    return _flatten_function(fun, lambda leaves: (in_tree.unflatten(leaves), {}))


def _flatten_function(
    fun: WrappedFun, arguments: Callable[[Sequence[Any]], Any]
) -> tuple[WrappedFun, Callable[[], PyTreeDef]]:
    store = _Store()

    def flat(*leaves: Any) -> list[Any]:
        args, kwargs = arguments(leaves)
        results, tree = flatten(fun.call_wrapped(*args, **kwargs))
        store.kept = [tree]
        return list(results)

    return WrappedFun(flat, debug_info=fun.debug_info), store
