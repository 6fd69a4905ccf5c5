"""An exported function: what is in an artifact, and how it is called."""

from collections.abc import Callable
from typing import Any, Final, final

import attrs

from effx import dtypes, ports
from effx.array import Array
from effx.errors import BackendError, TransformError, TreeError
from effx.families.exported_call import ExportedCall
from effx.ir.sizes.solving import plan_solution
from effx.ir.types import ArrayType
from effx.lower.disk.artifacts import decode_artifact
from effx.lower.placement.meshes import Mesh
from effx.tracing.arguments import argument_path, as_arrays
from effx.transforms.autodiff.core import float0_zeros
from effx.transforms.custom.custom_derivatives import custom_vjp
from effx.tree.registry import PyTreeDef, flatten

__all__ = [
    "DisabledSafetyCheck", "Exported", "maximum_supported_calling_convention_version",
    "minimum_supported_calling_convention_version",
]  # fmt: skip

minimum_supported_calling_convention_version: Final = 9
"""The earliest convention of which `deserialize` takes modules."""
maximum_supported_calling_convention_version: Final = 10
"""The convention of what `export` writes, and the latest one of which `deserialize` takes modules."""


@final
@attrs.frozen
class DisabledSafetyCheck:
    """A check that `export`, or a call of what was exported, leaves out.

    >>> DisabledSafetyCheck.custom_call("my_kernel")
    DisabledSafetyCheck.custom_call('my_kernel')
    """

    _kind: str
    _target: str = ""

    @classmethod
    def platform(cls) -> "DisabledSafetyCheck":
        """That a module runs on a platform for which it was exported."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> "DisabledSafetyCheck":
        """That a foreign function is one of jaxlib's, which stay what they are for years.

        Args:
            target_name: the function's name.
        """
        return cls("custom_call", target_name)

    @classmethod
    def shape_assertions(cls) -> "DisabledSafetyCheck":
        """The module's own checks of sizes; those of `Exported.call` stay."""
        return cls("shape_assertions")

    def is_custom_call(self) -> str | None:
        """Returns the name of the foreign function that may be called; None for another check."""
        return self._target if self._kind == "custom_call" else None

    @property
    def kind(self) -> str:
        """`"platform"`, `"custom_call"` or `"shape_assertions"`."""
        return self._kind

    def __repr__(self) -> str:
        return (
            f"DisabledSafetyCheck.{self._kind}({self._target!r})"
            if self._target
            else f"DisabledSafetyCheck.{self._kind}()"
        )


@final
@attrs.frozen(eq=False)
class Exported:
    """A function as a StableHLO module.

    Attributes:
        fun_name: the function's name.
        in_tree: the structure of `(args, kwargs)`.
        in_avals: the types of the arrays in it; sizes may be symbolic.
        out_tree: the structure of the result.
        out_avals: the types of the arrays in it.
        nr_devices: on how many devices it runs.
        platforms: for which platforms it is.
        disabled_safety_checks: what is not checked.
        mlir_module_serialized: the module as a portable artifact.
        calling_convention_version: how it is called; see `docs/export.md`.
        module_kept_var_idx: which arrays the module takes.
        uses_global_constants: whether the platform, or dimension variables, are arguments inside of the module.

    >>> import effx, effx.numpy as enp
    >>> from effx import export
    >>> exported = export.export(effx.jit(lambda x: x * 2.0))(enp.ones(3))
    >>> exported.in_avals, exported.out_avals
    ((f32[3],), (f32[3],))
    >>> print(exported.call(enp.ones(3)))
    [2. 2. 2.]
    """

    fun_name: str
    in_tree: PyTreeDef
    in_avals: tuple[ArrayType, ...]
    out_tree: PyTreeDef
    out_avals: tuple[ArrayType, ...]
    nr_devices: int
    platforms: tuple[str, ...]
    disabled_safety_checks: tuple[DisabledSafetyCheck, ...]
    mlir_module_serialized: bytes = attrs.field(repr=lambda data: f"<{len(data)} bytes>")
    calling_convention_version: int
    module_kept_var_idx: tuple[int, ...]
    uses_global_constants: bool
    _make_vjp: Callable[[], "Exported"] | None = attrs.field(repr=False)
    # The vjp, and the function that `call` runs, once they are needed.
    _vjps: "list[Exported]" = attrs.field(init=False, repr=False, factory=list)
    _functions: list[Callable[..., tuple[Array, ...]]] = attrs.field(init=False, repr=False, factory=list)

    @property
    def ordered_effects(self) -> tuple[()]:
        """None: what has effects is not exported."""
        return ()

    @property
    def unordered_effects(self) -> tuple[()]:
        """None: what has effects is not exported."""
        return ()

    @property
    def in_shardings_hlo(self) -> tuple[None, ...]:
        """The sharding of each array; None on one device."""
        return (None,) * len(self.in_avals)

    @property
    def out_shardings_hlo(self) -> tuple[None, ...]:
        """The sharding of each array of the result; None on one device."""
        return (None,) * len(self.out_avals)

    def in_shardings_jax(self, mesh: Mesh | None = None) -> tuple[None, ...]:
        """Returns the sharding of each array over a mesh; None, for the module runs on one device."""
        return self.in_shardings_hlo

    def out_shardings_jax(self, mesh: Mesh) -> tuple[None, ...]:
        """Returns the sharding of each array of the result over a mesh; None, for the module runs on one device."""
        return self.out_shardings_hlo

    def mlir_module(self) -> str:
        """Returns the module's text."""
        return decode_artifact(self.mlir_module_serialized)

    def has_vjp(self) -> bool:
        """Says whether `vjp` gives the function of the reverse pass."""
        return self._make_vjp is not None

    def vjp(self) -> "Exported":
        """Returns the exported vector-Jacobian product.

        It takes all arrays of the arguments, and then the cotangents of all arrays of the result; it gives the
        cotangents of the arguments' arrays, as two flat lists.

        Raises:
            TransformError: no vjp was exported along.
        """
        if self._make_vjp is None:
            raise TransformError(
                f"exported function {self.fun_name}: no vjp was exported along; serialize it with vjp_order=1, "
                f"or a larger one for higher derivatives"
            )
        if not self._vjps:
            self._vjps.append(self._make_vjp())
        return self._vjps[0]

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """Returns the function as bytes, in the format of `jax.export`.

        Args:
            vjp_order: how many times the function can be differentiated in reverse mode when it is read again.

        Raises:
            TransformError: `vjp_order` is negative, or a vjp is requested that was not exported.
            TreeError: the arguments or results have nodes without registered serialization.

        >>> import effx, effx.numpy as enp
        >>> exported = effx.export.export(effx.jit(enp.sin))(effx.ShapeDtypeStruct((3,), enp.float32))
        >>> effx.export.deserialize(exported.serialize()).in_avals
        (f32[3],)
        """
        if type(vjp_order) is not int or vjp_order < 0:
            raise TransformError(f"serialize: vjp_order must be an int of at least 0, got {vjp_order!r}")
        output: bytearray = ports.export.writing.written(self, vjp_order)
        return output

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function.

        It can be called inside `jit`, under `vmap` (one element after the other), and differentiated in reverse mode if
        a vjp was exported along.

        Raises:
            TreeError: the arguments have another structure.
            ShapeError: an array's dtype or shape does not fit; the error names it, and the dimension variable.
            BackendError: the function was exported for other platforms.

        >>> import effx, effx.numpy as enp
        >>> spec = effx.ShapeDtypeStruct(effx.export.symbolic_shape("n"), enp.float32)
        >>> exported = effx.export.export(effx.jit(lambda x: x / x.shape[0]))(spec)
        >>> exported.call(enp.ones(4))
        Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
        """
        leaves, tree = flatten((args, kwargs))
        if tree != self.in_tree:
            raise TreeError(
                f"exported function {self.fun_name}: the arguments must have the structure {self.in_tree}, got {tree}"
            )
        arrays = [
            # A number takes the dtype that the function was exported with, if it can hold it.
            x.astype(t.dtype) if x.type.weak and dtypes.result_type(x, t.dtype) == t.dtype else x
            for x, t in zip(
                as_arrays(f"exported function {self.fun_name}", leaves, (args, kwargs)),
                self.in_avals,
                strict=True,
            )
        ]
        array_operands = [x for x in arrays if x.type.dtype != dtypes.float0]
        results = iter(_differentiable_function(self)(*array_operands))
        all_results = [float0_zeros(t) if t.dtype == dtypes.float0 else next(results) for t in self.out_avals]
        return self.out_tree.unflatten(all_results)


def argument_names(in_tree: PyTreeDef, count: int) -> tuple[str, ...]:
    """Returns what errors call the arrays among arguments."""
    tree = in_tree.unflatten(list(range(count)))
    return tuple([argument_path(tree, i) for i in range(count)])


def _make_operation(exported: Exported) -> ExportedCall:
    function_name = f"exported function {exported.fun_name}"
    if exported.nr_devices != 1:
        raise BackendError(
            f"{function_name}: runs on {exported.nr_devices} devices; effx calls those for one"
        )
    names = argument_names(exported.in_tree, len(exported.in_avals))
    array_indices = [i for i, t in enumerate(exported.in_avals) if t.dtype != dtypes.float0]
    types = tuple([exported.in_avals[i] for i in array_indices])
    solution = plan_solution(function_name, [t.shape for t in types], lambda i: names[array_indices[i]])
    off = {check.kind for check in exported.disabled_safety_checks}
    return ExportedCall(
        exported.fun_name,
        exported.mlir_module_serialized,
        exported.platforms,
        types,
        exported.out_avals,
        tuple(
            [
                array_indices.index(i) if i in array_indices else exported.in_avals[i]
                for i in exported.module_kept_var_idx
            ]
        ),
        solution,
        tuple([names[i] for i in array_indices]),
        "platform" not in off,
        "shape_assertions" not in off,
    )


def _differentiable_function(exported: Exported) -> Callable[..., tuple[Array, ...]]:
    """Returns the function of the arrays that have bytes, made once; its derivative is the exported vjp."""
    if not exported._functions:
        exported._functions.append(_make_differentiable(exported))
    return exported._functions[0]


def _make_differentiable(exported: Exported) -> Callable[..., tuple[Array, ...]]:
    operation = _make_operation(exported)

    def function(*arrays: Array) -> tuple[Array, ...]:
        return operation(*arrays)

    function.__name__ = exported.fun_name
    if not exported.has_vjp():
        return function
    wrapped = custom_vjp(function)

    def forward(*arrays: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        return wrapped(*arrays), arrays

    def backward(arrays: tuple[Array, ...], cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        array_cotangents = [ct for ct in cotangents if isinstance(ct, Array) and ct.dtype != dtypes.float0]
        cotangent_iterator = iter(_differentiable_function(exported.vjp())(*arrays, *array_cotangents))
        return tuple(
            [
                float0_zeros(x.type)
                if dtypes.tangent_dtype(x.type.dtype) == dtypes.float0
                else next(cotangent_iterator)
                for x in arrays
            ]
        )

    wrapped.defvjp(forward, backward)
    return wrapped
