"""Differentiating functions of lists of arrays: forward, linearised, and backward.

Never: see a pytree; the public transforms flatten.
"""

from collections.abc import Callable, Sequence

from effx.array import Array, Box
from effx.effects import current_scope, handle
from effx.handlers import transpose
from effx.handlers.jvp import JVP, Dual
from effx.handlers.linear import LinearProgram, Record
from effx.handlers.stage import Recorder
from effx.ir.program import Var

__all__ = ["Function", "jvp", "linearize", "pull_back", "record_linear"]

Function = Callable[[list[Array]], Sequence[Array]]


def jvp(
    function: Function, primals: Sequence[Array], tangents: Sequence[Array | None], origin: str = ""
) -> tuple[list[Array], list[Array | None]]:
    """Evaluates a function together with its derivative along tangents; None is a zero tangent."""
    with handle(JVP(), origin) as frame:
        results = function(
            [
                x if t is None else Box(frame, Dual(x, t), x.type)
                for x, t in zip(primals, tangents, strict=True)
            ]
        )
        outputs: list[Array] = []
        moved: list[Array | None] = []
        for y in results:
            if type(y) is Box and y.frame is frame:
                dual: Dual = y.payload
                outputs.append(dual.primal)
                moved.append(dual.tangent)
            else:
                outputs.append(y)
                moved.append(None)
    return outputs, moved


def linearize(
    function: Function, primals: Sequence[Array], active: Sequence[bool], origin: str = ""
) -> tuple[list[Array], LinearProgram, list[bool]]:
    """Evaluates a function and records its derivative.

    Args:
        function: the function to linearise. primals: the point. active: for each primal whether to
            differentiate with respect to it.
        origin: the user's function, for errors.

    Returns:
        The results; the derivative as a program linear in the active primals' tangents, with the
        outputs that have a tangent; and which of the results these are.
    """
    record = Record()
    with handle(record, origin) as frame:
        frame.state = Recorder(current_scope.get())
        inputs = [Var(x.type) for x, a in zip(primals, active, strict=True) if a]
        boxes = iter([Box(frame, var, var.type) for var in inputs])
        outputs, moved = jvp(function, primals, [next(boxes) if a else None for a in active], origin)
        linear = record.finish(frame, inputs, [t for t in moved if t is not None], "linear")
    return outputs, linear, [t is not None for t in moved]


def record_linear(function: Function, inputs: Sequence[Var]) -> tuple[LinearProgram, list[bool]]:
    """Records a function that is linear already.

    Returns:
        The program, with the outputs that depend on the inputs, and which of the results these are.
    """
    record = Record()
    with handle(record) as frame:
        frame.state = Recorder(current_scope.get())
        results = function([Box(frame, var, var.type) for var in inputs])
        dependent = [type(y) is Box and y.frame is frame for y in results]
        kept = [y for y, d in zip(results, dependent, strict=True) if d]
        return record.finish(frame, inputs, kept, "linear"), dependent


def pull_back(linear: LinearProgram, cotangents: Sequence[Array | None]) -> list[Array | None]:
    """Applies the transpose of a linear program."""
    return transpose.backward(linear.program, linear.residuals, cotangents)
