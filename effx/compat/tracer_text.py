"""The text of values inside of transformations, as JAX prints them: `JitTracer(float32[3])`."""

from effx.array import Box
from effx.handlers.jvp.handler import Dual
from effx.handlers.linear.recorder import LinearRecorder
from effx.handlers.staging.stage import Stage
from effx.handlers.vmap.handler import Batched

__all__ = ["tracer_text"]


def tracer_text(x: Box) -> str:
    """Returns what the value prints, with the values that the transformation made it of.

    >>> import effx, effx.numpy as enp
    >>> def f(x):
    ...     print(tracer_text(x))
    ...     return x * 2
    >>> _ = effx.jit(f)(enp.ones(3))
    JitTracer(float32[3])
    >>> _ = effx.vmap(f)(enp.ones((2, 3)))
    VmapTracer(aval=float32[3], batched=float32[2,3])
    """
    aval, handler, payload = x.type.long_text(), x.frame.handler, x.payload
    if isinstance(handler, Stage):
        return f"JitTracer({aval})"
    match payload:
        case Batched(value=value):
            return f"VmapTracer(aval={aval}, batched={value.type.long_text()})"
        case Dual(primal=primal, tangent=tangent):
            if isinstance(tangent, Box) and isinstance(tangent.frame.handler, LinearRecorder):
                return f"GradTracer(primal={_text(primal)}, typeof(tangent)={tangent.type.strong()!r})"
            return f"JVPTracer(primal={_text(primal)}, tangent={_text(tangent)})"
    return f"Traced<{aval}>with<{handler.describe()}>"


def _text(x: object) -> str:
    return tracer_text(x) if isinstance(x, Box) else str(x)
