"""The operation that selects a branch by the platform that a program is compiled for."""

from typing import final

import attrs
import numpy as np

from effx import dtypes
from effx.handling import ArrayOperation, ArrayType, Atom, Body, Var, array_type, emits, reference_rule
from effx.ir.ops.base import check_arity
from effx.ir.ops.control import Platforms, find_platform_branch

__all__ = ["PlatformIndex"]


@final
@attrs.frozen
class PlatformIndex(ArrayOperation):
    """The index of the branch for the platform; in the NumPy oracle, for "cpu". StableHLO: constant.

    Attributes:
        platforms: the names of the platforms that each branch is for; none for the branch of all others.
    """

    platforms: Platforms

    def infer(self, *types: ArrayType) -> ArrayType:
        """An i32 scalar."""
        check_arity(self, types, 0)
        return array_type(dtypes.int32)


@emits(PlatformIndex)
def _(body: Body, op: PlatformIndex, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    return body.constant(find_platform_branch(op.platforms, body.module.platform), outputs[0].type)


@reference_rule(PlatformIndex)
def _(op: PlatformIndex) -> "np.ndarray[tuple[int, ...], np.dtype[np.int32]]":
    return np.asarray(find_platform_branch(op.platforms, "cpu"), np.int32)
