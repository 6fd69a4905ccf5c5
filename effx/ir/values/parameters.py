"""Type variables for dtypes and sizes in annotations of arrays, and the base class of named sizes.

Those of a kind stand for the dtype classes of `effx.ir.values.array`. All default to Any: unknown is unchecked. It is
`Any` itself everywhere, never an alias of it: mypy sees no ambiguity in an alias, and takes the first
overload that an unknown array matches.
"""

from typing import Any

from typing_extensions import TypeVar, TypeVarTuple, Unpack

from effx import dtypes

DT = TypeVar("DT", default=Any)
Dims = TypeVarTuple("Dims", default=Unpack[tuple[Any, ...]])
Rest = TypeVarTuple("Rest", default=Unpack[tuple[Any, ...]])
D = TypeVar("D", bound=dtypes.Narrow, default=Any)
F = TypeVar("F", bound=dtypes.Inexact, default=Any)
Nu = TypeVar("Nu", bound=dtypes.Integer | dtypes.Inexact, default=Any)
R = TypeVar("R", bound=dtypes.Real, default=Any)
Fl = TypeVar("Fl", bound=dtypes.Floating, default=Any)
I = TypeVar("I", bound=dtypes.Integer, default=Any)  # noqa: E741 - integers, beside F for floats
K = TypeVar("K", default=Any)
M = TypeVar("M", default=Any)
N = TypeVar("N", default=Any)
S1 = TypeVar("S1", bound="Size")
S2 = TypeVar("S2", bound="Size")
S3 = TypeVar("S3", bound="Size")


class Size(int):
    """A size with a name, for annotations: `class Batch(effx.Size): ...`, and `Batch(32)` where one is made.

    >>> class Batch(Size): ...
    >>> import effx.numpy as enp
    >>> enp.zeros((Batch(2), Batch(2)), enp.float32).shape
    (2, 2)
    """
