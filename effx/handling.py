"""What authors of handlers and operations need, from one place; frozen at 0.1.

The guide is docs/handlers.md. Everything else in effx that has no underscore may change between versions; what stands
here may not.

Never: define anything; these are names of things that live elsewhere.
"""

from effx.effects import Effect
from effx.effects import Frame
from effx.effects import Handler
from effx.effects import Label
from effx.effects import Operation
from effx.effects import decomposes
from effx.effects import forward
from effx.effects import handle
from effx.effects import perform
from effx.handlers.analysis import Backward
from effx.handlers.analysis import Forward
from effx.handlers.analysis import Place
from effx.handlers.analysis import places
from effx.handlers.boxing import BoxHandler
from effx.handlers.coverage import Coverage
from effx.handlers.coverage import coverage
from effx.handlers.coverage import operation_classes
from effx.handlers.decomposing import decompose
from effx.handlers.intercepting import InterceptHandler
from effx.handlers.jvp.handler import rule as jvp_rule
from effx.handlers.jvp.handler import tangent_of
from effx.handlers.jvp.handler import tuple_rule as jvp_tuple_rule
from effx.handlers.masking import mask
from effx.handlers.reference.handler import Reference
from effx.handlers.reference.handler import rule as reference_rule
from effx.handlers.reference.handler import tuple_rule as reference_tuple_rule
from effx.handlers.ruled import Default
from effx.handlers.sites import Site
from effx.handlers.transpose.handler import rule as transpose_rule
from effx.handlers.transpose.handler import tuple_rule as transpose_tuple_rule
from effx.handlers.vmap.handler import materialize
from effx.handlers.vmap.handler import rule as vmap_rule
from effx.handlers.vmap.handler import tuple_rule as vmap_tuple_rule
from effx.ir.ops.base import ArrayOperation
from effx.ir.ops.base import Binary
from effx.ir.ops.base import Elementwise
from effx.ir.ops.base import Linear
from effx.ir.ops.base import Monotone
from effx.ir.ops.base import Structural
from effx.ir.ops.base import TupleOperation
from effx.ir.ops.base import Unary
from effx.ir.program import Equation
from effx.ir.program import Literal
from effx.ir.program import Program
from effx.ir.program import Var
from effx.ir.types import ArrayType
from effx.ir.types import array_type
from effx.lower.emit import Body
from effx.lower.emit import emits
from effx.lower.ffi import register_ffi_target
from effx.transforms.named_functions import named_function

__all__ = [
    "ArrayOperation",
    "ArrayType",
    "Backward",
    "Binary",
    "Body",
    "BoxHandler",
    "Coverage",
    "Default",
    "Effect",
    "Elementwise",
    "Equation",
    "Forward",
    "Frame",
    "Handler",
    "InterceptHandler",
    "Label",
    "Linear",
    "Literal",
    "Monotone",
    "Operation",
    "Place",
    "Program",
    "Reference",
    "Site",
    "Structural",
    "TupleOperation",
    "Unary",
    "Var",
    "array_type",
    "coverage",
    "decompose",
    "decomposes",
    "emits",
    "forward",
    "handle",
    "jvp_rule",
    "jvp_tuple_rule",
    "mask",
    "materialize",
    "named_function",
    "operation_classes",
    "perform",
    "places",
    "reference_rule",
    "reference_tuple_rule",
    "register_ffi_target",
    "tangent_of",
    "transpose_rule",
    "transpose_tuple_rule",
    "vmap_rule",
    "vmap_tuple_rule",
]
