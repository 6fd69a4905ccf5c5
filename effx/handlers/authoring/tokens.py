"""Handlers of callbacks' effects: one orders them by a token, its state, which the framework threads through all
control flow; one drops debugging.
"""

from typing import final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, HostArray
from effx.errors import BackendError
from effx.handlers.authoring.intercepting import InterceptHandler
from effx.handlers.authoring.site import Site
from effx.handlers.staging.stage import run_program, stage
from effx.ir.ops.host import DEBUG, ORDERED, ORDERED_DEBUG, Hosted
from effx.ir.program import Program
from effx.ir.types import array_type
from effx.tree.registry import PyTree


@final
@attrs.frozen
class ThreadToken(InterceptHandler[Array]):
    """Passes each ordered effect the token of the previous one."""

    handles = ORDERED

    def initial(self) -> Array:
        """The first token."""
        return HostArray(np.zeros((), np.int32), array_type(dtypes.int32))

    def merge_states(self, a: PyTree, b: PyTree) -> PyTree:
        """Refuses replicas.

        Raises:
            BackendError: always: devices run at the same time.
        """
        raise BackendError(
            "pmap: the devices run at the same time, so there is no order for their effects; use ordered=False"
        )


@ThreadToken.rule(Hosted)
def _(site: Site[ThreadToken, Array], op: Hosted, *operands: Array) -> tuple[Array, ...]:
    site.state, *results = op.with_token()(site.state, *operands)
    return tuple(results)


@final
@attrs.frozen
class DropDebugging(InterceptHandler[None]):
    """Drops debugging effects."""

    handles = frozenset({DEBUG, ORDERED_DEBUG})


@DropDebugging.rule(Hosted)
def _(site: Site[DropDebugging, None], op: Hosted, *operands: Array) -> tuple[Array, ...]:
    return ()


def drop_debugging(program: Program) -> Program:
    """Returns the program without its debugging effects."""
    staged = stage(lambda xs: DropDebugging().run(run_program, program, xs), program.in_types, program.name)
    assert not staged.captured
    return staged.program


def thread_token(program: Program) -> Program:
    """Returns the program with a token threaded through its ordered effects."""
    staged = stage(lambda xs: ThreadToken().run(run_program, program, xs), program.in_types, program.name)
    assert not staged.captured
    return staged.program
