"""Linearise a function of a list of arrays: forward mode on top of a recorder of operations on tangents."""

from collections.abc import Sequence

from effx.array import Array, Box
from effx.effects import current_scope, handle
from effx.flags import check_tracer_leaks
from effx.handlers.jvp.handler import Function, jvp
from effx.handlers.linear import LinearProgram, make_linear_recorder
from effx.handlers.staging.stage import Recorder
from effx.ir.program import Var


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
    record = make_linear_recorder([x.type for x in primals])
    with handle(record, origin) as frame:
        frame.state = Recorder(current_scope.get())
        inputs = [Var(x.type) for x, a in zip(primals, active, strict=True) if a]
        boxes = iter([Box(frame, var, var.type) for var in inputs])
        outputs, tangents = jvp(function, primals, [next(boxes) if a else None for a in active], origin)
        linear = record.finish(frame, inputs, [t for t in tangents if t is not None], "linear")
    active_outputs = [t is not None for t in tangents]
    if check_tracer_leaks.value:
        from effx.handlers.staging.leaks import check_leaks  # a search of all objects

        boxes, tangents = iter(()), []  # they would be found
        check_leaks(frame, "linearize", origin)
    return outputs, linear, active_outputs
