"""Exporting: a jitted function as a StableHLO module for several platforms and for all sizes."""

from collections.abc import Callable, Sequence
from typing import Any

from effx import dtypes
from effx.array import Array
from effx.errors import BackendError, TransformError
from effx.export.exported import (
    DisabledSafetyCheck,
    Exported,
    argument_names,
    maximum_supported_calling_convention_version,
)
from effx.handlers.evaluate.lowering_passes import order_effects
from effx.handlers.staging.stage import run_program
from effx.ir.refs import RETURN_ADVICE
from effx.ir.sizes.solving import plan_solution
from effx.ir.types import ArrayType
from effx.lower.disk.artifacts import encode_artifact, list_custom_calls
from effx.lower.placement.backends import default_device, platform_of
from effx.lower.placement.concrete import to_concrete
from effx.lower.placement.parallel_maps import infer_partitioning
from effx.lower.runtime.executables import used_input_mask
from effx.lower.text.emit import PLATFORMS
from effx.lower.text.portable import portable_module
from effx.transforms.autodiff.core import float0_array, vjp
from effx.transforms.jit.function import Jitted
from effx.transforms.jit.jit import jit
from effx.transforms.jit.stages import ShapeDtypeStruct, Traced, shape_struct

__all__ = ["default_export_platform", "export"]

# Custom calls of jaxlib's own kernels and of StableHLO's passes, by the start of their names, and of XLA. They are stable
# for years.
_STABLE_STARTS = (
    "lapack_", "cusolver_", "hipsolver_", "cublas_", "hipblas_", "cusparse_", "hipsparse_", "cu_", "hip_",
    "stablehlo.", "mhlo.", "chlo.",
)  # fmt: skip
_STABLE = frozenset((
    "ApproxTopK", "Eigh", "LayoutConstraint", "LuDecomposition", "ProductOfElementaryHouseholderReflectors", "Qr",
    "annotate_device_placement", "shape_assertion",
))  # fmt: skip


def default_export_platform() -> str:
    """Returns the platform for which `export` exports if none is given: the one that computes here.

    >>> default_export_platform() in ("cpu", "cuda", "rocm", "tpu")
    True
    """
    return platform_of(default_device())


def export(
    fun_jit: object,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
) -> Callable[..., Exported]:
    """Returns a function that exports a jitted function for arguments of the types that it is given.

    Args:
        fun_jit: what `jit` gave.
        platforms: "cpu", "cuda", "rocm" and "tpu", or some of them, in one module; by default the one that computes
            here.
        disabled_checks: what is not checked.

    Returns:
        A function that takes arrays, or `ShapeDtypeStruct`s whose sizes may be symbolic, as the function takes
        its arguments.

    Raises:
        TransformError: the function is not what `jit` gives.
        BackendError: an unknown platform, a foreign function that is none of jaxlib's, callbacks, references, several
            devices.
        ShapeError: a dimension variable occurs in no size that determines its value.

    >>> import effx, effx.numpy as enp
    >>> b, n = effx.export.symbolic_shape("b, n")
    >>> exported = export(effx.jit(lambda x: enp.concatenate([x, x], 1)), platforms=["cpu", "cuda"])(
    ...     effx.ShapeDtypeStruct((b, n), enp.float32)
    ... )
    >>> exported.in_avals, exported.out_avals, exported.platforms
    ((f32[b,n],), (f32[b,2*n],), ('cpu', 'cuda'))
    """
    stage: Callable[..., Traced] | None = getattr(fun_jit, "trace", None)
    if stage is None:
        raise TransformError(f"export: the function must be what effx.jit gives, got {fun_jit!r}")
    if isinstance(platforms, str):
        raise TransformError(f"export: platforms must be a sequence of names, got the string {platforms!r}")
    platform_names = (default_export_platform(),) if platforms is None else tuple(platforms)
    if not platform_names:
        raise BackendError("export: platforms must name at least one platform")
    for p in platform_names:
        if p not in PLATFORMS:
            raise BackendError(f"export: platform must be one of {', '.join(PLATFORMS)}, got {p!r}")
    if len(set(platform_names)) != len(platform_names):
        raise BackendError(f"export: platforms must differ, got {platform_names}")

    def exporting(*args: Any, **kwargs: Any) -> Exported:
        return _export_traced(stage(*args, **kwargs), platform_names, tuple(disabled_checks))

    return exporting


def _export_traced(
    traced: Traced, platforms: tuple[str, ...], disabled: tuple[DisabledSafetyCheck, ...]
) -> Exported:
    signature = traced.signature
    if traced.lent is not None or traced.of_contents is not None:
        raise BackendError(f"export: {signature.name} takes or closes over a Ref; {RETURN_ADVICE}")
    types = tuple([t.strong() for t in signature.in_types])
    names = argument_names(signature.in_tree, len(types))
    solution = plan_solution("export", [t.shape for t in types], lambda i: names[i])
    program = order_effects(traced.program)
    if infer_partitioning(program) is not None:
        raise BackendError(
            f"export: {signature.name} runs on several devices; effx exports functions for one"
        )
    count = len(traced.captured)
    used = used_input_mask(program)[count:]
    # A size that determines a dimension variable is needed even where nothing reads the array.
    solving_arrays = {step.location.array for step in solution.steps}
    kept_mask = [u or i in solving_arrays for i, u in enumerate(used)]
    text = portable_module(
        program, [to_concrete(x) for x in traced.captured], platforms, solution, lambda i: names[i], kept_mask
    )
    artifact = encode_artifact(text)
    allowed = {check.is_custom_call() for check in disabled}
    strange = [
        name
        for name in list_custom_calls(text)
        if not name.startswith(_STABLE_STARTS) and name not in _STABLE and name not in allowed
    ]
    if strange:
        raise BackendError(
            f"export: {signature.name} calls the foreign function {strange[0]}, which another version, or another "
            f"process, may not have; to export it all the same, give "
            f"disabled_checks=[DisabledSafetyCheck.custom_call({strange[0]!r})]"
        )
    out_types = tuple([t.strong() for t in signature.out_types])

    def make_vjp() -> Exported:
        return _export_vjp(traced, types, out_types, platforms, disabled)

    return Exported(
        signature.name,
        signature.in_tree,
        types,
        signature.out_tree,
        out_types,
        1,
        platforms,
        disabled,
        artifact,
        maximum_supported_calling_convention_version,
        tuple([i for i, keep in enumerate(kept_mask) if keep]),
        True,
        make_vjp,
    )


def _export_vjp(
    traced: Traced,
    in_types: tuple[ArrayType, ...],
    out_types: tuple[ArrayType, ...],
    platforms: tuple[str, ...],
    disabled: tuple[DisabledSafetyCheck, ...],
) -> Exported:
    """Exports the function of arguments and cotangents that gives the arguments' cotangents."""
    n = len(in_types)
    captured, program = traced.captured, traced.program

    def function(*arrays: Array) -> tuple[Array, ...]:
        def flat(*primals: Array) -> list[Array]:
            return run_program(program, [*captured, *primals])

        _, back = vjp(flat, *arrays[:n])
        cotangents: tuple[object, ...] = back(list(arrays[n:]))
        return tuple(
            [
                x if isinstance(x, Array) else float0_array(t)
                for x, t in zip(cotangents, in_types, strict=True)
            ]
        )

    function.__name__ = f"{traced.signature.name}_vjp"
    cotangents = [ShapeDtypeStruct(t.shape, dtypes.tangent_dtype(t.dtype)) for t in out_types]
    specs = [*[shape_struct(t) for t in in_types], *cotangents]
    return _export_traced(_trace(jit(function), specs), platforms, disabled)


def _trace(function: Jitted[..., Any], specs: Sequence[ShapeDtypeStruct]) -> Traced:
    return function.trace(*specs)
