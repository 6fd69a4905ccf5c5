from effx.export.exported import (
    DisabledSafetyCheck as DisabledSafetyCheck,
    Exported as Exported,
    maximum_supported_calling_convention_version as maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version as minimum_supported_calling_convention_version,
)
from effx.export.exporting import default_export_platform as default_export_platform, export as export
from effx.export.nodes import (
    register_namedtuple_serialization as register_namedtuple_serialization,
    register_pytree_node_serialization as register_pytree_node_serialization,
)
from effx.export.reading import deserialize as deserialize
from effx.export.shapes import (
    is_symbolic_dim as is_symbolic_dim,
    symbolic_args_specs as symbolic_args_specs,
    symbolic_dim_bounds as symbolic_dim_bounds,
)
from effx.ir.sizes.dimensions import SymbolicScope as SymbolicScope
from effx.ir.sizes.shape_text import symbolic_shape as symbolic_shape
