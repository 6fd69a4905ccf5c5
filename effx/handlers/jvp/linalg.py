"""Tangents of matrix products: the product rule."""

from effx.handlers.jvp.handler import register_partial_derivatives
from effx.ir.ops.linalg import DotGeneral

register_partial_derivatives(DotGeneral, lambda op, dx, x, y, z: op(dx, y), lambda op, dy, x, y, z: op(x, dy))
