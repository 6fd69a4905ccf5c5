"""Interpret operations that hold programs under any handler, by staging their programs again under it.

It is written once for all handlers. Boxes are flattened to the leaves of their payloads. The body is staged under
a new frame of the same handler, with boxes rebuilt from these leaves, and its results are flattened again. A loop's
carry is a fix-point; the results of branches are joined. A handler's author needs no code for it, and may override
the methods of `PayloadHandler`.

Never: depend on a particular handler.
"""

from effx.handlers.recursion import branches, calls, custom, loops, parallel, solve, while_loops
from effx.handlers.recursion.layout import ValueLayout, flatten_boxes, rebuild_boxes
from effx.handlers.recursion.payloads import PayloadHandler, recur, recursion
from effx.handlers.recursion.staging import stage_under

__all__ = [
    "PayloadHandler",
    "ValueLayout",
    "flatten_boxes",
    "rebuild_boxes",
    "recur",
    "recursion",
    "stage_under",
]
