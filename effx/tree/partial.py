"""`Partial`: a function with some arguments bound, as a tree whose leaves are those arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Final, Generic, ParamSpec, TypeVar

from effx.tree.registry import FlattenedIndexKey, PyTree, register_node

P = ParamSpec("P")
R = TypeVar("R")


class _OpaqueFunction(Generic[P, R]):
    """Keeps functools from merging one partial into another; equal to its function, and to others of it."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return self.function is (other.function if isinstance(other, _OpaqueFunction) else other)

    def __hash__(self) -> int:
        return hash(id(self.function))

    def __repr__(self) -> str:
        return repr(self.function)


class Partial(functools.partial[R]):
    """`functools.partial` as a tree: the bound arguments are children, the function is structure.

    >>> import effx.tree
    >>> effx.tree.map(lambda x: x * 2, Partial(max, 3))(4)
    6
    """

    def __new__(cls, func: Callable[..., R], /, *args: PyTree, **keywords: PyTree) -> Partial[R]:
        if isinstance(func, functools.partial) and not isinstance(func, Partial):
            func = _OpaqueFunction(func)
        return super().__new__(cls, func, *args, **keywords)


_KEYS: Final = (FlattenedIndexKey(0), FlattenedIndexKey(1))


def _flatten_partial(partial: Partial[R]) -> tuple[tuple[PyTree, PyTree], Callable[..., R]]:
    return (partial.args, partial.keywords), partial.func


def _flatten_partial_with_keys(
    partial: Partial[R],
) -> tuple[Iterable[tuple[object, PyTree]], Callable[..., R]]:
    return ((_KEYS[0], partial.args), (_KEYS[1], partial.keywords)), partial.func


def _unflatten_partial(func: Callable[..., R], children: tuple[PyTree, PyTree]) -> Partial[R]:
    args, keywords = children
    return Partial(func, *args, **keywords)


register_node(Partial, _flatten_partial, _unflatten_partial, _flatten_partial_with_keys)
