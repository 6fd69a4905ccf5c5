"""`check_tracer_leaks`: find values that outlive the transformation of the function that made them."""

import gc
from types import FrameType

from effx.array import Box
from effx.effects import Frame
from effx.errors import EscapedBoxError


def check_leaks(frame: Frame, transform_name: str, origin: str) -> None:
    """Raises an error if values of an ended handler are still referred to.

    Args:
        frame: the handler's frame. transform_name: the transformation, for errors. origin: the user's function.

    Raises:
        EscapedBoxError: there are such values; it names the first, where it was made, and what holds it.
    """
    gc.collect()
    leaked = [x for x in gc.get_objects() if type(x) is Box and x.frame is frame]
    if not leaked:
        return
    first = leaked[0]
    holders = [h for h in gc.get_referrers(first) if h is not leaked and not isinstance(h, FrameType)]
    kinds = sorted({type(h).__name__ for h in holders}) or ["a variable of a running function"]
    message = (
        f"{transform_name}: {origin or 'the function'} leaked {len(leaked)} value{'s' * (len(leaked) > 1)}: "
        f"{first.type!r} is held by {', '.join(kinds)} after the transformation has ended"
    )
    del leaked, first, holders
    raise EscapedBoxError(message)
