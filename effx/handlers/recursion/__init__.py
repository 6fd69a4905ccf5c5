"""Handlers inside programs: an operation that holds programs is staged again under the handler.

Written once for every handler: boxes are flattened into the leaves of their payloads, the body is staged with
boxes of a new frame of the same handler rebuilt from these leaves, and the results are flattened again. A
loop's carry is a fix-point; branches' results are joined. A handler's author need not write anything for it,
and may override the methods of `PayloadHandler`.

Never: know a particular handler.
"""

from effx.handlers.recursion import branches, calls, custom, loops, parallel, solve
from effx.handlers.recursion.layout import Layout, flatten_boxes, rebuild_boxes
from effx.handlers.recursion.payloads import PayloadHandler
from effx.handlers.recursion.staging import recur, recursion, stage_under

__all__ = [
    "Layout",
    "PayloadHandler",
    "branches",
    "calls",
    "custom",
    "flatten_boxes",
    "loops",
    "parallel",
    "rebuild_boxes",
    "recur",
    "recursion",
    "solve",
    "stage_under",
]
