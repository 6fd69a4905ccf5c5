"""Register and call foreign functions in C and C++, through XLA's foreign function interface."""

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Protocol, TypeVar, overload

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.effects import Operation
from effx.errors import BackendError, DTypeError
from effx.families.batches import VmapMethod, check_method
from effx.families.foreign import ForeignCall, Layout
from effx.handling import Atom, Body, Var
from effx.ir.types import ArrayType, array_type
from effx.ir.values.array import Operand
from effx.lazy import list_names
from effx.lower.ffi import (
    TypeRegistration,
    include_dir,
    pycapsule,
    register_ffi_target,
    register_ffi_target_as_batch_partitionable,
    register_ffi_type,
    register_ffi_type_id,
)
from effx.lower.text.foreign_calls import (
    TYPED,
    Attribute,
    attribute_text,
    custom_call_text,
    key_text,
    string_text,
)
from effx.tracing.arguments import as_arrays
from effx.transforms.jit.stages import ShapeDtypeStruct

__all__ = [
    "Attribute",
    "Result",
    "Shaped",
    "TypeRegistration",
    "build_ffi_lowering_function",
    "ffi_call",
    "ffi_lowering",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
    "register_ffi_type_id",
]
__dir__ = list_names(__all__)


class Shaped(Protocol):
    """An array, or another object with a shape and a dtype.

    >>> import effx, effx.numpy as enp
    >>> x: effx.ffi.Shaped = effx.ShapeDtypeStruct((2, 3), enp.float32)
    >>> x.shape, x.dtype
    ((2, 3), dtype('float32'))
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its axes."""

    @property
    def dtype(self) -> "np.dtype[np.generic]":
        """The dtype of its elements."""


# The class is a Shaped too, but not all type checkers see through the converters of its attributes.
Result = ShapeDtypeStruct | Shaped
"""The declared shape and dtype of a result."""

R = TypeVar("R", bound=Result)


@overload
def ffi_call(
    target_name: str,
    result_shape_dtypes: Result,
    *,
    has_side_effect: bool = False,
    vmap_method: VmapMethod | None = None,
    input_layouts: Sequence[Sequence[int] | None] | None = None,
    output_layouts: Sequence[int] | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = TYPED,
    legacy_backend_config: str | None = None,
) -> Callable[..., Array]: ...


@overload
def ffi_call(
    target_name: str,
    result_shape_dtypes: tuple[Result, ...],
    *,
    has_side_effect: bool = False,
    vmap_method: VmapMethod | None = None,
    input_layouts: Sequence[Sequence[int] | None] | None = None,
    output_layouts: Sequence[Sequence[int] | None] | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = TYPED,
    legacy_backend_config: str | None = None,
) -> Callable[..., tuple[Array, ...]]: ...


@overload
def ffi_call(
    target_name: str,
    result_shape_dtypes: list[R],
    *,
    has_side_effect: bool = False,
    vmap_method: VmapMethod | None = None,
    input_layouts: Sequence[Sequence[int] | None] | None = None,
    output_layouts: Sequence[Sequence[int] | None] | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = TYPED,
    legacy_backend_config: str | None = None,
) -> Callable[..., list[Array]]: ...


def ffi_call(
    target_name: str,
    result_shape_dtypes: Result | tuple[Result, ...] | list[R],
    *,
    has_side_effect: bool = False,
    vmap_method: VmapMethod | None = None,
    input_layouts: Sequence[Sequence[int] | None] | None = None,
    output_layouts: Sequence[int] | Sequence[Sequence[int] | None] | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = TYPED,
    legacy_backend_config: str | None = None,
) -> Callable[..., Array] | Callable[..., tuple[Array, ...]] | Callable[..., list[Array]]:
    """Returns a function that calls a foreign function.

    It takes arrays by position, and attributes by name: constants that are compiled into the call.
    An attribute is a bool, a string, a number (Python's have 64 bits; a NumPy scalar has its own width), a NumPy array,
    a sequence of ints or of floats, or a dict of such.

    A layout lists the axes of an array in memory, the slowest first: None or `(0, 1)` is a matrix row by row,
    `(1, 0)` column by column. XLA converts the operands to their layouts before the call.

    Under vmap, `vmap_method` selects how the foreign function is batched:

    - "sequential": it is called for each batch element, in a loop; "sequential_unrolled": in an unrolled one.
    - "expand_dims": it is called once, with a leading batch axis on all arrays, of size 1 for an operand that
      is equal for all elements. It returns results with the batch axis.
    - "broadcast_all": the same, but the axis has the batch size everywhere.
    - "legacy_vectorized": the same, but operands that are equal for all elements have no batch axis.

    The batch axis is the slowest in layouts, and an operand aliased to a result always has the whole batch.

    Args:
        target_name: the registered name of the foreign function (`register_ffi_target`).
        result_shape_dtypes: an object with `shape` and `dtype` for the result, or a tuple or list of them. Dtypes of
            64 bits become 32 bits if `enable_x64` is off.
        has_side_effect: True if each call counts, whether its results are used or not.
        vmap_method: see above; without it vmap is an error.
        input_layouts: one for each operand; None for row by row.
        output_layouts: one for each result; for a single result its layout.
        input_output_aliases: operands by index, each with the result that is written into its memory. If the
            operand is needed later, XLA copies it first.
        custom_call_api_version: 4 for XLA's typed interface; 1, 2 or 3 for functions of memory and a string.
        legacy_backend_config: that string.

    Returns:
        A function of arrays and attributes. It returns an array, or a tuple or list of arrays like `result_shape_dtypes`.

    Raises:
        TransformError: an unknown `vmap_method`; when called, differentiation, or vmap without a method.
        DTypeError: a result has no shape and dtype; when called, an operand is no array.
        ShapeError: when called, layouts or aliases do not match the arrays.
        BackendError: the version is unknown, or takes no such string; when called, an attribute is invalid, or XLA knows
            no such function.

    >>> import effx, effx.numpy as enp, numpy as np
    >>> target = effx.handling.lapack_target("potrf", effx.dtypes.float32)
    >>> def cholesky(a):
    ...     call = effx.ffi.ffi_call(
    ...         target, (effx.ShapeDtypeStruct(a.shape, a.dtype), effx.ShapeDtypeStruct(a.shape[:-2], enp.int32)),
    ...         input_layouts=[(1, 0)], output_layouts=[(1, 0), None], vmap_method="broadcast_all")
    ...     return enp.tril(call(a, uplo=np.uint8(ord("L")))[0])
    >>> print(effx.jit(cholesky)(enp.array([[4., 2.], [2., 5.]])))
    [[2. 0.]
     [1. 2.]]
    """
    what = "ffi_call"
    check_method(what, vmap_method)
    untyped_name: object = target_name
    if not isinstance(untyped_name, str):
        raise BackendError(f"{what}: target_name must be a string, got {target_name!r}")
    has_several = isinstance(result_shape_dtypes, tuple | list)
    results = result_shape_dtypes if isinstance(result_shape_dtypes, tuple | list) else [result_shape_dtypes]
    version = _check_version(what, custom_call_api_version, legacy_backend_config)
    out_layouts = output_layouts if has_several or output_layouts is None else [output_layouts]
    op = ForeignCall(
        target_name,
        tuple([_declared_type(what, i, result) for i, result in enumerate(results)]),
        in_layouts=_as_layouts(what, "input_layouts", input_layouts),
        out_layouts=_as_layouts(what, "output_layouts", out_layouts),
        aliases=tuple(sorted([(index(i), index(o)) for i, o in (input_output_aliases or {}).items()])),
        has_side_effect=bool(has_side_effect),
        vmap_method=vmap_method,
        api_version=version,
        legacy=legacy_backend_config or "",
    )

    def call(*args: Operand, **attributes: Attribute) -> Array | tuple[Array, ...] | list[Array]:
        if attributes and version < TYPED:
            raise BackendError(
                f"{what}: {target_name} has custom_call_api_version={version}, which has no attributes; "
                f"legacy_backend_config is the string that it is given"
            )
        arrays = as_arrays(what, args, (args, {}))
        texts = tuple([(name, attribute_text(name, v, what)) for name, v in sorted(attributes.items())])
        outputs = attrs.evolve(op, attributes=texts)(*arrays)
        return (
            outputs[0]
            if not has_several
            else outputs
            if isinstance(result_shape_dtypes, tuple)
            else list(outputs)
        )

    return call  # type: ignore[return-value]  # the overloads say which


def build_ffi_lowering_function(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Sequence[int] | None] | None = None,
    result_layouts: Sequence[Sequence[int] | None] | None = None,
    backend_config: Mapping[str, Attribute] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    has_side_effect: bool = False,
    api_version: int = TYPED,
    operand_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., tuple[str, ...]]:
    """Returns a function that emits the call of a foreign function, for the StableHLO rule of a user's operation.

    It is called with the `Body`, the operands, the results' variables, and attributes by name, and returns the names of the
    results.

    Args:
        call_target_name: the registered name of the foreign function.
        operand_layouts, result_layouts: for each array its axes, the *fastest* first; None for row by row.
        backend_config: attributes for all calls; a string for versions below 4.
        skip_ffi_layout_processing: True to leave layouts to XLA.
        has_side_effect: True to keep the call if nothing uses its results.
        api_version: 4 for XLA's typed interface; 1, 2 or 3 for functions of memory and a string.
        operand_output_aliases: operands by index, each with the result that is written into its memory.

    Raises:
        BackendError: layouts are both given and left to XLA; the version is unknown, or does not take the configuration.

    >>> import attrs, effx, effx.numpy as enp, numpy as np
    >>> from effx.handling import TupleOperation, emits, lapack_target
    >>> @attrs.frozen
    ... class Factor(TupleOperation):
    ...     lower: bool = True
    ...     def infer(self, a):
    ...         return a, a.with_shape(()).with_dtype(effx.dtypes.int32)
    >>> target = lapack_target("potrf", effx.dtypes.float32)
    >>> call = effx.ffi.build_ffi_lowering_function(target, operand_output_aliases={0: 0})
    >>> @emits(Factor)
    ... def rule(body, op, inputs, outputs):
    ...     return call(body, inputs, outputs, uplo=np.uint8(ord("U" if op.lower else "L")))
    >>> print(enp.tril(Factor()(enp.array([[4., 2.], [2., 5.]]))[0]))
    [[2. 0.]
     [1. 2.]]
    """
    what = "build_ffi_lowering_function"
    if skip_ffi_layout_processing and (operand_layouts is not None or result_layouts is not None):
        raise BackendError(f"{what}: skip_ffi_layout_processing leaves layouts to XLA; give none")
    legacy = backend_config if isinstance(backend_config, str) else None
    version = _check_version(what, api_version, legacy)
    fixed = {} if backend_config is None or isinstance(backend_config, str) else dict(backend_config)
    if fixed and version < TYPED:
        raise BackendError(f"{what}: with api_version={version} backend_config must be a string, got {fixed}")

    def write(
        body: Body, inputs: Sequence[Atom], outputs: Sequence[Var], **attributes: Attribute
    ) -> tuple[str, ...]:
        if attributes and version < TYPED:
            raise BackendError(
                f"{what}: {call_target_name} has api_version={version}, which has no attributes"
            )
        entries = sorted({**fixed, **attributes}.items())
        texts = [f"{key_text(name)} = {attribute_text(name, v, what)}" for name, v in entries]
        text = custom_call_text(
            call_target_name,
            [body.name(x) for x in inputs],
            [x.type for x in inputs],
            [v.type for v in outputs],
            in_layouts=operand_layouts,
            out_layouts=result_layouts,
            has_side_effect=has_side_effect,
            aliases={out: given for given, out in (operand_output_aliases or {}).items()},
            api_version=version,
            config=f"{{{', '.join(texts)}}}" if version >= TYPED else string_text(legacy or ""),
            laid_out=not skip_ffi_layout_processing,
        )
        return body.block(text, len(outputs))

    return write


def ffi_lowering(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Sequence[int] | None] | None = None,
    result_layouts: Sequence[Sequence[int] | None] | None = None,
    backend_config: Mapping[str, Attribute] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    has_side_effect: bool = False,
    api_version: int = TYPED,
    operand_output_aliases: Mapping[int, int] | None = None,
) -> Callable[[Body, Operation[object], tuple[Atom, ...], tuple[Var, ...]], tuple[str, ...]]:
    """Returns the StableHLO rule of an operation that is a foreign function, for `effx.handling.emits`.

    The operation's fields are the foreign function's attributes.

    Args:
        call_target_name: the registered name of the foreign function.
        operand_layouts, result_layouts, backend_config, skip_ffi_layout_processing: see `build_ffi_lowering_function`.
        has_side_effect, api_version, operand_output_aliases: see `build_ffi_lowering_function`.

    >>> import attrs, effx, effx.numpy as enp, numpy as np
    >>> from effx.handling import TupleOperation, emits, lapack_target
    >>> @attrs.frozen
    ... class Potrf(TupleOperation):
    ...     uplo: np.uint8
    ...     def infer(self, a):
    ...         return a, a.with_shape(()).with_dtype(effx.dtypes.int32)
    >>> rule = emits(Potrf)(effx.ffi.ffi_lowering(lapack_target("potrf", effx.dtypes.float32)))
    >>> print(enp.triu(Potrf(np.uint8(ord("L")))(enp.array([[4., 2.], [2., 5.]]))[0]))
    [[2. 1.]
     [0. 2.]]
    """
    write = build_ffi_lowering_function(
        call_target_name,
        operand_layouts=operand_layouts,
        result_layouts=result_layouts,
        backend_config=backend_config,
        skip_ffi_layout_processing=skip_ffi_layout_processing,
        has_side_effect=has_side_effect,
        api_version=api_version,
        operand_output_aliases=operand_output_aliases,
    )

    def rule(
        body: Body, op: Operation[object], inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
    ) -> tuple[str, ...]:
        fields = getattr(type(op), "__attrs_attrs__", ())
        return write(body, inputs, outputs, **{f.name: getattr(op, f.name) for f in fields})

    return rule


def _check_version(what: str, version: int, legacy: str | None) -> int:
    if version not in (1, 2, 3, TYPED):
        raise BackendError(f"{what}: the version of a custom call must be 1, 2, 3 or 4, got {version!r}")
    if legacy is not None and version >= TYPED:
        raise BackendError(
            f"{what}: only custom calls of version 1, 2 and 3 are given a string; this one takes attributes, got {legacy!r}"
        )
    return int(version)


def _declared_type(what: str, position: int, result: object) -> ArrayType:
    shape, dtype = getattr(result, "shape", None), getattr(result, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None:
        raise DTypeError(
            f"{what}: result_shape_dtypes must be one thing with shape and dtype or a tuple or list of such, "
            f"got {result!r} of type {type(result).__name__} for result {position}"
        )
    return array_type(dtypes.canonicalize(np.dtype(dtype)), tuple(map(int, shape)))


def _as_layouts(what: str, name: str, layouts: Sequence[object] | None) -> tuple[Layout, ...]:
    parsed: list[Layout] = []
    for layout in layouts or ():
        if layout is not None and not (
            isinstance(layout, Sequence) and all([isinstance(axis, int | np.integer) for axis in layout])
        ):
            raise BackendError(f"{what}: {name} must hold sequences of axes, or None, got {layout!r}")
        parsed.append(None if layout is None else tuple([int(axis) for axis in layout]))
    return tuple(parsed)
