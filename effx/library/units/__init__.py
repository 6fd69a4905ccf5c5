"""Units of measure: a function runs on quantities, and units that do not match are an error.

Units are static: they are part of the structure of values, checked at trace time, without cost at run time. A
literal zero has any unit, so that a sum may start at 0.0; so have infinities and NaN.

Units of one dimension are not converted: metres and feet differ.
"""

from collections.abc import Callable

from effx.errors import check_function
from effx.lazy import list_names
from effx.library.units import matrices  # its rules
from effx.library.units.handler import Quantity, Units, quantity
from effx.library.units.unit import Unit, UnitError
from effx.library.wrapping import under
from effx.tree import PyTree

__all__ = ["Quantity", "Unit", "UnitError", "quantity", "with_units"]
__dir__ = list_names(__all__)


def with_units(fun: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Returns a function of quantities.

    Args:
        fun: of pytrees of arrays.

    Returns:
        The function; arrays among its arguments are plain numbers, all arrays of its result are quantities.

    Raises:
        UnitError: when called, units do not match.

    >>> import effx, effx.numpy as enp
    >>> fall = effx.jit(lambda g, t: 0.5 * g * t**2)
    >>> print(with_units(fall)(quantity(10.0, "m/s^2"), quantity(2.0, "s")))
    20.0 m
    >>> with_units(lambda a, b: a + b)(quantity(1.0, "m"), quantity(1.0, "s"))
    Traceback (most recent call last):
    ...
    effx.library.units.unit.UnitError: add: units differ: m, s
    ...
    """
    check_function(fun)
    return under(Units(), fun)
