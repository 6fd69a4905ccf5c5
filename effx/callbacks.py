"""Call Python functions from running programs: `pure_callback`, `io_callback`; and wait for effects."""

from collections.abc import Callable

from effx import dtypes
from effx.array import Array
from effx.errors import BackendError, DTypeError, OptionError, check_function
from effx.families.batches import VmapMethod, check_method
from effx.families.callbacks.callback import Kind, PythonCallback
from effx.families.callbacks.function import HostFunction
from effx.ir.types import ArrayType, array_type
from effx.lower.placement.shardings import Device, SingleDeviceSharding
from effx.lower.runtime.callbacks import wait_for_effects
from effx.tracing.arguments import as_arrays, callable_name
from effx.tree.registry import PyTree, flatten

__all__ = ["VmapMethod", "effects_barrier", "io_callback", "pure_callback"]


def pure_callback(
    callback: Callable[..., PyTree],
    result_shape_dtypes: PyTree,
    *args: PyTree,
    sharding: SingleDeviceSharding | None = None,
    vmap_method: VmapMethod | None = None,
    **kwargs: PyTree,
) -> PyTree:
    """Calls a Python function whose results depend only on its arguments.

    Such a call may be dropped if its results are not used, and may happen more than once. An error that the
    function raises is raised unchanged by the call of the compiled function.

    Under vmap, `vmap_method` selects how the function is batched:

    - "sequential", "sequential_unrolled": it is called for each batch element, in order.
    - "expand_dims": it is called once, with a leading batch axis on all arrays, of size 1 for an argument that
      is equal for all elements. It returns results with the batch axis.
    - "broadcast_all": the same, but the axis has the batch size everywhere.
    - "legacy_vectorized": the same, but arguments that are equal for all elements have no batch axis.

    Args:
        callback: takes pytrees of arrays on a CPU, and returns a pytree of arrays or numbers. It may call
            functions of effx.
        result_shape_dtypes: a pytree of arrays or of objects with `shape` and `dtype`, like the function's result.
        args, kwargs: the function's arguments: pytrees of arrays and numbers.
        sharding: the CPU for the function's arguments; by default the first one.
        vmap_method: see above; without it vmap is an error.

    Returns:
        The function's result, as arrays.

    Raises:
        TransformError: an unknown `vmap_method`; `callback` is not callable; differentiation of the call.
        DTypeError: an argument or an entry of `result_shape_dtypes` is no array.
        TreeError, ShapeError, DTypeError: when called, the function's result differs from `result_shape_dtypes`.
        BackendError: the sharding is not a CPU's; the program is compiled for another platform.

    >>> import numpy as np, effx, effx.numpy as enp
    >>> @effx.jit
    ... def sinc(x):
    ...     return effx.pure_callback(np.sinc, effx.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="expand_dims")
    >>> sinc(enp.array([0.0, 0.5]))
    Array([1.        , 0.63661975], dtype=float32)
    """
    check_method("pure_callback", vmap_method)
    return _call(
        "pure_callback", "pure", callback, result_shape_dtypes, args, kwargs, sharding, False, vmap_method
    )


def io_callback(
    callback: Callable[..., PyTree],
    result_shape_dtypes: PyTree,
    *args: PyTree,
    sharding: SingleDeviceSharding | None = None,
    ordered: bool = False,
    **kwargs: PyTree,
) -> PyTree:
    """Calls a Python function with side effects, such as writing a file or drawing from a generator.

    Each call happens once, whether its results are used or not, also inside `checkpoint`. Under vmap the function is
    called for each batch element.

    Args:
        callback: takes pytrees of arrays on a CPU, and returns a pytree of arrays or numbers. It may call
            functions of effx.
        result_shape_dtypes: a pytree of arrays or of objects with `shape` and `dtype`, like the function's result; None
            for a function that returns None.
        args, kwargs: the function's arguments: pytrees of arrays and numbers.
        sharding: the CPU for the function's arguments; by default the first one.
        ordered: True to run the call in program order among all ordered calls. Otherwise only data dependencies
            determine the order. Ordered calls cannot be batched.

    Returns:
        The function's result, as arrays.

    Raises:
        TransformError: `callback` is not callable; differentiation of the call; vmap of an ordered one.
        DTypeError: an argument or an entry of `result_shape_dtypes` is no array.
        TreeError, ShapeError, DTypeError: when called, the function's result differs from `result_shape_dtypes`.
        BackendError: the sharding is not a CPU's; the program is compiled for another platform.

    >>> import effx, effx.numpy as enp
    >>> from effx.experimental import io_callback
    >>> seen = []
    >>> @effx.jit
    ... def f(n):
    ...     step = lambda i, x: (io_callback(lambda i: seen.append(int(i)), None, i, ordered=True), x * 2)[1]
    ...     return effx.lax.fori_loop(0, n, step, 1)
    >>> print(f(3), seen)
    8 [0, 1, 2]
    """
    return _call(
        "io_callback", "io", callback, result_shape_dtypes, args, kwargs, sharding, bool(ordered), None
    )


def effects_barrier() -> None:
    """Waits until the effects of all computations that have started have happened.

    Programs that call Python finish before their caller continues, so the wait matters only for computations
    of other threads.

    >>> effects_barrier()
    """
    wait_for_effects()


def _call(
    what: str,
    kind: Kind,
    callback: Callable[..., PyTree],
    declared: PyTree,
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
    sharding: object,
    ordered: bool,
    vmap_method: str | None,
) -> PyTree:
    check_function(callback, what=what)
    leaves, in_tree = flatten((args, kwargs))
    arrays = as_arrays(what, leaves, (args, kwargs))
    outs, out_tree = flatten(declared)

    def call(xs: list[Array]) -> PyTree:
        positional, named = in_tree.unflatten(xs)
        return callback(*positional, **named)

    function = HostFunction(
        what,
        callable_name(callback),
        call,
        tuple([x.type.strong() for x in arrays]),
        out_tree,
        _callback_device(what, sharding),
    )
    types = tuple([_declared_type(what, leaf) for leaf in outs])
    return out_tree.unflatten(
        PythonCallback(function, types, kind, ordered, vmap_method=vmap_method)(*arrays)
    )


def _declared_type(what: str, leaf: object) -> ArrayType:
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None:
        raise DTypeError(
            f"{what}: result_shape_dtypes must hold arrays or things with shape and dtype, got {leaf!r} of type "
            f"{type(leaf).__name__}"
        )
    native = dtypes.as_dtype(dtype)
    canonical = dtypes.narrow_described(native)
    if canonical != native:
        raise OptionError(
            f"{what}: result_shape_dtypes says {native.name}, but 64-bit types are off; say {canonical.name}, or enable "
            "them by effx.config.update('enable_x64', True) or EFFX_ENABLE_X64=1"
        )
    if dtypes.is_key(canonical):
        raise DTypeError(
            f"{what}: a Python function cannot give keys; let it give their words, for wrap_key_data"
        )
    if canonical == dtypes.float0:
        raise DTypeError(
            f"{what}: a Python function cannot give float0, which has no values; make it by numpy.zeros"
        )
    return array_type(canonical, tuple(map(int, shape)))


def _callback_device(what: str, sharding: object) -> Device | None:
    if sharding is None:
        return None
    if not isinstance(sharding, SingleDeviceSharding) or sharding.device.platform != "cpu":
        raise BackendError(f"{what}: sharding must be a SingleDeviceSharding of a CPU, got {sharding!r}")
    return sharding.device
