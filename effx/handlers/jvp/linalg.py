"""Tangents of matrix products: the product rule."""

from effx.handlers.jvp.handler import partials
from effx.ir.ops.linalg import DotGeneral

partials(DotGeneral, lambda op, dx, x, y, z: op(dx, y), lambda op, dy, x, y, z: op(x, dy))
