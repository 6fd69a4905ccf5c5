"""Place an array of one value as another array of its shape is placed: an optimizer's state beside its parameters."""

from collections.abc import Callable

from effx.array import Array
from effx.array.promotion import convert
from effx.effects import current_frame
from effx.handlers.sharding_types.axes_in_types import cast_to_varying, with_sharding_like
from effx.ir.meshes import PartitionSpec
from effx.ir.types import ManualAxisType, Shape
from effx.lower.placement.concrete import ConcreteArray, device_put
from effx.lower.placement.shardings import NamedSharding, SingleDeviceSharding
from effx.transforms.placement.global_arrays import make_array_from_callback


def placement_of(like: object, shape: Shape) -> SingleDeviceSharding | NamedSharding | None:
    """Returns the sharding of an array that is committed to its devices, for one of a shape.

    None if it is no such array, or is cut and has another shape; and under a handler, which places what it records.
    """
    if type(like) is not ConcreteArray or not like.committed or current_frame() is not None:
        return None
    sharding = like.sharding
    if like.type.shape == shape:
        return sharding
    if isinstance(sharding, SingleDeviceSharding):
        return sharding
    return sharding.update(spec=PartitionSpec()) if sharding.is_fully_replicated else None


def fill_like(like: object, shape: Shape, fill: Callable[[Shape], Array]) -> Array:
    """Returns an array of one value, on the devices of another one of its shape that is committed to them.

    Args:
        like: the other array, or anything else, which has no devices.
        shape: of the result.
        fill: returns the array of a shape on the default device; of a cut array only one part is made.
    """
    sharding = placement_of(like, shape)
    if sharding is None:
        filled = fill(shape)
        if isinstance(like, Array):
            return with_sharding_like(cast_to_varying(filled, like.type.vma), like.type)
        manual = getattr(like, "manual_axis_type", None)
        return cast_to_varying(filled, manual.varying) if isinstance(manual, ManualAxisType) else filled
    if isinstance(sharding, SingleDeviceSharding) or sharding.spec.unreduced:
        return device_put(fill(shape), sharding)
    part = fill(sharding.shard_shape(shape))
    whole = make_array_from_callback(shape, sharding, lambda _: part)
    return convert(whole, part.type.dtype, part.type.weak)
