"""`jax.experimental.compute_on`: where a function computes. In effx a program computes where its arrays are."""

from collections.abc import Callable, Mapping
from functools import partial

from effx.compat.hints import warn_of_hint
from effx.errors import CompatError
from effx.tracing.wrapping import wraps
from effx.transforms.jit.jit import jit
from effx.tree.registry import PyTree

__all__ = ["compute_on"]

_KINDS = ("device", "device_host", "tpu_sparsecore")


def compute_on(
    f: Callable[..., PyTree] | None = None,
    *,
    compute_type: str,
    out_memory_spaces: PyTree = None,
    compiler_options: Mapping[str, object] | None = None,
) -> Callable[..., PyTree]:
    """Returns the function, compiled: it gives the same values wherever it computes.

    Args:
        f: the function; None for a decorator.
        compute_type: "device", "device_host", "tpu_sparsecore" or "gpu_stream:n". Other than "device" it is a hint that
            effx does not pass on, and says so once.
        out_memory_spaces: where results would be; the same.
        compiler_options: for the part of a chip that `compute_type` names; the same.

    Raises:
        CompatError: there is no such type of computation.

    >>> print(compute_on(lambda x: 2 * x, compute_type="device", out_memory_spaces=None)(3.0))
    6.0
    """
    if compute_type not in _KINDS and not compute_type.startswith("gpu_stream:"):
        raise CompatError(
            f"compute_on: compute_type must be one of {', '.join(_KINDS)} or gpu_stream:n, got {compute_type!r}"
        )
    if f is None:
        return partial(
            compute_on,
            compute_type=compute_type,
            out_memory_spaces=out_memory_spaces,
            compiler_options=compiler_options,
        )
    if compute_type != "device" or compiler_options is not None:
        warn_of_hint("compute_on", "functions compute where their arrays are")
    return wraps(f)(jit(f))
