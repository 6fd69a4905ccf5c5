from . import ops as ops
from effx.effects import (
    Effect,
    Frame,
    Handler,
    Label,
    Operation,
    decomposes,
    forward,
    handle,
    isolated,
    perform,
)
from effx.handlers.authoring.analysis import Backward, Forward, Place, places
from effx.handlers.authoring.boxing import BoxHandler
from effx.handlers.authoring.coverage import Coverage, coverage
from effx.handlers.authoring.decomposing import decompose
from effx.handlers.authoring.intercepting import InterceptHandler
from effx.handlers.jvp.handler import Tangent, tangent_of
from effx.handlers.jvp.handler import rule as jvp_rule
from effx.handlers.jvp.handler import rule as jvp_tuple_rule
from effx.handlers.authoring.masking import mask
from effx.handlers.oracle.handler import Reference
from effx.handlers.oracle.handler import rule as reference_rule
from effx.handlers.oracle.handler import rule as reference_tuple_rule
from effx.handlers.authoring.rule_handler import Default
from effx.handlers.authoring.site import Site
from effx.handlers.transpose.handler import Cotangent as Cotangent
from effx.handlers.transpose.handler import LinearOperand as LinearOperand
from effx.handlers.transpose.handler import rule as transpose_rule
from effx.handlers.transpose.handler import rule as transpose_tuple_rule
from effx.handlers.vmap.handler import Vmap, materialize
from effx.handlers.vmap.handler import rule as vmap_rule
from effx.handlers.vmap.handler import rule as vmap_tuple_rule
from effx.handlers.vmap.masking import masked_form as masked_form
from effx.ir.catalogue import operation_classes
from effx.ir.refs import RefAddUpdate, RefGet, RefNew, RefOperation, RefSet, RefSwap
from effx.ir.ops.base import (
    ArrayOperation,
    Binary,
    Elementwise,
    Linear,
    Monotone,
    PiecewiseConstant,
    Structural,
    TupleOperation,
    Unary,
)
from effx.ir.program import Atom, Equation, Literal, Program, Var
from effx.ir.types import ArrayType, array_type
from effx.lower.text.emit import Body, emits
from effx.lower.ffi import lapack_target, register_ffi_target
from effx.transforms.custom.named_functions import named_function

__all__ = [
    "ArrayOperation",
    "ArrayType",
    "Atom",
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
    "PiecewiseConstant",
    "Place",
    "Program",
    "RefAddUpdate",
    "RefGet",
    "RefNew",
    "RefOperation",
    "RefSet",
    "RefSwap",
    "Reference",
    "Site",
    "Structural",
    "Tangent",
    "TupleOperation",
    "Unary",
    "Var",
    "Vmap",
    "array_type",
    "coverage",
    "decompose",
    "decomposes",
    "emits",
    "forward",
    "handle",
    "isolated",
    "jvp_rule",
    "jvp_tuple_rule",
    "lapack_target",
    "mask",
    "masked_form",
    "materialize",
    "named_function",
    "operation_classes",
    "ops",
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
