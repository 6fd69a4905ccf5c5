"""Tokens: values without elements that order what depends on them."""

from typing import final

from effx import numpy as enp
from effx.array import Array
from effx.errors import DTypeError
from effx.lax import optimization_barrier
from effx.tree.registry import PyTree, register_node

__all__ = ["Token", "after_all", "create_token", "join_tokens"]


@final
class Token:
    """A value without elements, which functions take and return as they do arrays."""

    __slots__ = ("_buf",)

    def __init__(self, buf: Array) -> None:
        self._buf = buf

    def __repr__(self) -> str:
        return "Token"

    def block_until_ready(self) -> None:
        """Waits until what the token depends on has run."""
        self._buf.block_until_ready()


def create_token(_: PyTree = None) -> Token:
    """Returns a token that depends on nothing.

    >>> import effx
    >>> effx.jit(lambda x, token: (x + 1, token))(1, create_token())
    (Array(2, dtype=int32, weak_type=True), Token)
    """
    return Token(join_tokens())


def after_all(*operands: Token) -> Token:
    """Returns a token that depends on all of these.

    Raises:
        DTypeError: one is no token.

    >>> after_all(create_token(), create_token())
    Token
    """
    for x in operands:
        if not isinstance(x, Token):
            raise DTypeError(f"after_all: expected tokens, got {x!r} of type {type(x).__name__}")
    return Token(join_tokens(*[x._buf for x in operands]))


def join_tokens(*arrays: Array) -> Array:
    """Returns the array without elements of a token that depends on those of others, or on nothing."""
    return optimization_barrier(arrays)[0] if arrays else enp.zeros(0, bool)


register_node(Token, lambda token: ((token._buf,), None), lambda _, children: Token(children[0]))
