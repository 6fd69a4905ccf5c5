from effx.ir.meshes import (
    AbstractDevice as AbstractDevice,
    AbstractMesh as AbstractMesh,
    AxisType as AxisType,
    PartitionSpec as PartitionSpec,
)
from effx.ir.types import ManualAxisType as ManualAxisType
from effx.lower.placement.meshes import Mesh as Mesh
from effx.lower.placement.shardings import (
    NamedSharding as NamedSharding,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
    make_single_device_sharding as make_single_device_sharding,
)
from effx.transforms.maps.explicit_axes import auto_axes as auto_axes, explicit_axes as explicit_axes
from effx.transforms.placement.meshes import (
    get_abstract_mesh as get_abstract_mesh,
    get_mesh as get_mesh,
    reshard as reshard,
    set_mesh as set_mesh,
    use_abstract_mesh as use_abstract_mesh,
)
from effx.transforms.maps.shard_map import Infer as Infer
