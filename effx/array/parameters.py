"""Type variables for dtypes and sizes, which annotations of arrays share.

Those of a kind stand for the classes of `effx.array.scalars`. All default to Any: what is not known is not
checked.

Never: hold anything that exists at run time only.
"""

from typing import Any

from typing_extensions import TypeVar, TypeVarTuple, Unpack

from effx import dtypes

__all__ = ["DT", "D", "Dims", "F", "Fl", "I", "K", "M", "N", "R", "Rest"]

DT = TypeVar("DT", default=Any)
Dims = TypeVarTuple("Dims", default=Unpack[tuple[Any, ...]])
Rest = TypeVarTuple("Rest", default=Unpack[tuple[Any, ...]])
D = TypeVar("D", bound=dtypes.Narrow, default=Any)
F = TypeVar("F", bound=dtypes.Inexact, default=Any)
R = TypeVar("R", bound=dtypes.Real, default=Any)
Fl = TypeVar("Fl", bound=dtypes.Floating, default=Any)
I = TypeVar("I", bound=dtypes.Integer, default=Any)  # noqa: E741 - integers, beside F for floats
K = TypeVar("K", default=Any)
M = TypeVar("M", default=Any)
N = TypeVar("N", default=Any)
