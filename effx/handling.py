"""What authors of handlers and operations need, from one place; frozen at 0.1.

The guide is docs/handlers.md. Everything else in effx that has no underscore may change between versions; what stands
here may not.

Never: define anything; these are names of things that live elsewhere.
"""

from effx.effects import Frame as Frame
from effx.effects import Handler as Handler
from effx.effects import Label as Label
from effx.effects import Operation as Operation
from effx.effects import decomposes as decomposes
from effx.effects import forward as forward
from effx.effects import handle as handle
from effx.effects import perform as perform
from effx.handlers.analysis import Backward as Backward
from effx.handlers.analysis import Forward as Forward
from effx.handlers.analysis import Place as Place
from effx.handlers.analysis import places as places
from effx.handlers.boxing import BoxHandler as BoxHandler
from effx.handlers.coverage import Coverage as Coverage
from effx.handlers.coverage import coverage as coverage
from effx.handlers.coverage import operation_classes as operation_classes
from effx.handlers.decomposing import decompose as decompose
from effx.handlers.intercepting import InterceptHandler as InterceptHandler
from effx.handlers.jvp.handler import rule as jvp_rule
from effx.handlers.jvp.handler import tangent_of as tangent_of
from effx.handlers.jvp.handler import tuple_rule as jvp_tuple_rule
from effx.handlers.masking import mask as mask
from effx.handlers.reference.handler import Reference as Reference
from effx.handlers.reference.handler import rule as reference_rule
from effx.handlers.reference.handler import tuple_rule as reference_tuple_rule
from effx.handlers.sites import Site as Site
from effx.handlers.transpose.handler import rule as transpose_rule
from effx.handlers.transpose.handler import tuple_rule as transpose_tuple_rule
from effx.handlers.vmap.handler import materialize as materialize
from effx.handlers.vmap.handler import rule as vmap_rule
from effx.handlers.vmap.handler import tuple_rule as vmap_tuple_rule
from effx.ir.ops.base import ArrayOperation as ArrayOperation
from effx.ir.ops.base import Binary as Binary
from effx.ir.ops.base import Elementwise as Elementwise
from effx.ir.ops.base import Linear as Linear
from effx.ir.ops.base import Monotone as Monotone
from effx.ir.ops.base import Structural as Structural
from effx.ir.ops.base import TupleOperation as TupleOperation
from effx.ir.ops.base import Unary as Unary
from effx.ir.program import Equation as Equation
from effx.ir.program import Literal as Literal
from effx.ir.program import Program as Program
from effx.ir.program import Var as Var
from effx.ir.types import ArrayType as ArrayType
from effx.ir.types import array_type as array_type
from effx.lower.emit import Body as Body
from effx.lower.emit import emits as emits
from effx.lower.ffi import register_ffi_target as register_ffi_target
from effx.transforms.named_functions import named_function as named_function
