"""The expressions of portable laws, in families: each runs with all its options on all its shapes.

Expressions take arrays `x0`, `x1`, … and give a real array; the names are those of `Implementation.namespace`.
"""

from collections.abc import Sequence

from effx.laws.portable.cases import Family
from effx.laws.portable.families.elementwise import ELEMENTWISE
from effx.laws.portable.families.loops import LOOPS
from effx.laws.portable.families.moves import MOVES
from effx.laws.portable.families.products import PRODUCTS
from effx.laws.portable.families.reductions import REDUCTIONS

FAMILIES: Sequence[Family] = (*ELEMENTWISE, *REDUCTIONS, *MOVES, *PRODUCTS, *LOOPS)
