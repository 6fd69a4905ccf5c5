"""Place an array of one value as another array of its shape is placed: an optimizer's state beside its parameters."""

from collections.abc import Callable

from effx.array import Array
from effx.array.promotion import convert
from effx.effects import current_frame
from effx.handlers.sharding_types.axes_in_types import cast_to_varying, with_sharding_like
from effx.ir.types import ManualAxisType, Shape
from effx.lower.placement.concrete import ConcreteArray, device_put
from effx.lower.placement.shardings import NamedSharding, SingleDeviceSharding
from effx.transforms.placement.global_arrays import make_array_from_callback


def placement_of(like: object, shape: Shape) -> SingleDeviceSharding | NamedSharding | None:
    """Returns the sharding of an array that is committed to its devices; None if it has another shape or is no such array.

    None under a handler too, which places what it records.
    """
    if type(like) is not ConcreteArray or like.type.shape != shape or current_frame() is not None:
        return None
    return like.sharding if like.committed else None


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
    if isinstance(sharding, SingleDeviceSharding):
        return device_put(fill(shape), sharding)
    part = fill(sharding.shard_shape(shape))
    whole = make_array_from_callback(shape, sharding, lambda _: part)
    return convert(whole, part.type.dtype, part.type.weak)
