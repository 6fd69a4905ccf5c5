"""The basic derivative transformations: `jvp`, `linearize`, `vjp`, `linear_transpose`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, final, overload

import attrs
import numpy as np
from typing_extensions import TypeVarTuple, Unpack

from effx import dtypes, handlers
from effx.array import Array, HostArray
from effx.array.promotion import as_operand, convert, zeros
from effx.effects import call_in_transformation
from effx.errors import DTypeError, RefError, ShapeError, TransformError, TreeError, check_function
from effx.handlers.linear import LinearProgram
from effx.handlers.sharding_types.axes_in_types import tracked_axes, with_type_sharding
from effx.handlers.staging.stage import run_program
from effx.ir.ops.base import types_text
from effx.ir.ops.collective import PSumShared
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.passes.partial_sums import cotangent_type
from effx.ir.passes.pruning import drop_unneeded
from effx.ir.program import Program, Var
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.types import ArrayType, array_type
from effx.ir.values.array import AnyRank, Numeric
from effx.ir.values.refs import ReferenceBase, has_refs
from effx.tracing.arguments import (
    AuxiliaryData,
    FlatFunction,
    as_arrays,
    callable_name,
    finalize_result,
    function_origin,
    leaf_type,
)
from effx.transforms.autodiff.pullbacks import (
    PullbackInfo,
    flatten_flags,
    make_pullback,
    residual_sources,
    unflatten_flags,
)
from effx.transforms.maps.mapped_axes import parse_axis_names
from effx.tree.partial import Partial
from effx.tree.registry import PyTree, PyTreeDef, flatten

if TYPE_CHECKING:
    from effx.tracing.signatures import OfOperand, Pullback, Pushforward, ResidualPullback, Variadic

__all__ = ["jvp", "linear_transpose", "linearize", "vjp"]

R = TypeVar("R")
Aux = TypeVar("Aux")
Ts = TypeVarTuple("Ts")
Loose: TypeAlias = Numeric | AnyRank
"""Primals for a function's arrays: numbers, NumPy data, arrays of unknown rank."""


def float0_array(t: ArrayType) -> Array:
    """Returns the float0 tangent of an integer array, as an array in programs."""
    return BroadcastInDim(t.shape, ())(HostArray(False, array_type(dtypes.float0)))


def float0_zeros(t: ArrayType) -> PyTree:
    """Returns the float0 tangent of an integer array: a NumPy array of dtype float0."""
    if has_symbolic(t.shape):
        return float0_array(t)
    return np.zeros(t.shape, dtypes.float0)


def _check_tangent(
    function_name: str, t: ArrayType, value: PyTree, is_derivative: bool = True
) -> Array | None:
    """Checks one tangent or cotangent against its primal's type; float0, of integers, gives None for zero.

    Args:
        function_name: the transformation. t: the primal's type. value: the tangent or cotangent.
        is_derivative: False for a value of a linear function's own, which may be an integer.
    """
    word = "tangent" if function_name in ("jvp", "linearize") else "cotangent"
    if getattr(value, "dtype", None) == dtypes.float0:
        if t.kind in "fc":
            raise DTypeError(f"{function_name}: the {word} of {t!r} must have its dtype, got float0")
        return None
    tangent = as_operand(value, function_name)
    has_tangents = t.kind in "fc" or not is_derivative
    if not has_tangents and word == "cotangent" and tangent.type.shape == t.shape:
        return None  # what an integer result is multiplied by counts for nothing
    if not has_tangents:
        raise DTypeError(
            f"{function_name}: the {word} of {t!r} must have dtype float0, got {tangent.type!r}; "
            f"integers and booleans have no tangents"
        )
    if tangent.type.shape != t.shape:
        raise ShapeError(f"{function_name}: the {word} of {t!r} must have its shape, got {tangent.type!r}")
    if tangent.type.dtype != t.dtype and not (tangent.type.weak and tangent.type.kind in ("f", t.kind)):
        raise DTypeError(f"{function_name}: the {word} of {t!r} must have its dtype, got {tangent.type!r}")
    return convert(tangent, t.dtype, t.weak)


def _flatten_primals_and_tangents(
    function_name: str, primals: PyTree, tangents: PyTree
) -> tuple[list[Array], list[Array | None], PyTreeDef]:
    leaves, tree = flatten(primals)
    tangent_leaves, tangent_tree = flatten(tangents)
    if tree != tangent_tree:
        raise TreeError(
            f"{function_name}: primals and tangents differ in structure: {tree} and {tangent_tree}"
        )
    arrays = as_arrays(function_name, leaves, (primals, {}))
    return (
        arrays,
        [_check_tangent(function_name, x.type, t) for x, t in zip(arrays, tangent_leaves, strict=True)],
        tree,
    )


@final
class FunctionWithAuxiliary(FlatFunction):
    """A user's function of positional arguments whose result may be a pair `(result, aux)`.

    Attributes:
        in_tree: the structure of the tuple of arguments.
        has_aux: whether the result is such a pair; then the arrays of aux follow the result's. `out_tree`
            is the structure of the differentiated result.
        extra: the auxiliary data.
    """

    __slots__ = ("extra", "has_aux")
    extra: AuxiliaryData

    def __init__(
        self, transform_name: str, fun: Callable[..., PyTree], in_tree: PyTreeDef, has_aux: bool
    ) -> None:
        super().__init__(transform_name, fun, in_tree)
        self.has_aux = has_aux

    def __call__(self, arrays: list[Array]) -> list[Array]:
        """Calls the user's function, and checks that it returns a pair if `has_aux`."""
        result = self.fun(*self.in_tree.unflatten(arrays))
        if not self.has_aux:
            return self.flatten_result(result)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TransformError(
                f"{self.transform_name}: with has_aux=True {self.name} must return a pair (result, aux), "
                f"got {type(result).__name__}"
            )
        outputs = self.flatten_result(result[0])
        self.extra = AuxiliaryData(self.transform_name, self.name, result[1])
        return [*outputs, *self.extra.arrays]

    def rebuild_result(self, values: Sequence[PyTree]) -> Any:
        """Rebuilds the differentiated result from the leading values."""
        tree = self.out_tree
        return tree.unflatten([finalize_result(v) for v in values[: tree.num_leaves]])

    def rebuild_auxiliary(self, values: Sequence[PyTree]) -> Any:
        """Rebuilds the auxiliary data from the trailing values."""
        return self.extra.rebuild(values[self.out_tree.num_leaves :])


@overload
def jvp(
    fun: OfOperand,
    primals: tuple[Numeric] | list[Numeric],
    tangents: tuple[PyTree] | list[PyTree],
    has_aux: Literal[False] = False,
) -> tuple[Array, Array]: ...
@overload
def jvp(
    fun: Callable[[Unpack[Ts]], R],
    primals: tuple[Unpack[Ts]],
    tangents: tuple[Unpack[Ts]],
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...
@overload
def jvp(  # from here on numbers, NumPy data, and arguments whose number is unknown
    fun: Callable[[PyTree], R],
    primals: tuple[Loose],
    tangents: Sequence[PyTree],
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[[PyTree, PyTree], R],
    primals: tuple[Loose, Loose],
    tangents: Sequence[PyTree],
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[[PyTree, PyTree, PyTree], R],
    primals: tuple[Loose, Loose, Loose],
    tangents: Sequence[PyTree],
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[..., R],
    primals: tuple[Loose, Loose, Loose, Loose, Unpack[tuple[Loose, ...]]] | list[PyTree],
    tangents: Sequence[PyTree],
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Variadic[R],
    primals: Sequence[PyTree],
    tangents: Sequence[PyTree],
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[[Unpack[Ts]], tuple[R, Aux]],
    primals: tuple[Unpack[Ts]],
    tangents: tuple[Unpack[Ts]],
    has_aux: Literal[True],
) -> tuple[R, R, Aux]: ...
def jvp(
    fun: Callable[..., PyTree], primals: Sequence[PyTree], tangents: Sequence[PyTree], has_aux: bool = False
) -> tuple[PyTree, ...]:
    """Evaluates a function together with its derivative along tangents: forward mode.

    Args:
        fun: takes the primals as positional arguments.
        primals: a tuple or list, the point of evaluation.
        tangents: of the same structure, shapes and dtypes; float0 for integers.
        has_aux: whether `fun` returns a pair whose second part, a pytree of anything, is not differentiated.

    Returns:
        `(result, tangent)`, with has_aux `(result, tangent, aux)`. Integer results have tangents
        of dtype float0.

    Raises:
        TreeError, ShapeError, DTypeError: primals and tangents do not match.
        RefError: a primal is a mutable reference and its tangent is not, or the reverse.

    >>> import effx, effx.numpy as enp
    >>> y, dy = effx.jvp(enp.sin, (0.1,), (0.2,))
    >>> print(f"{y:.6f} {dy:.6f}")
    0.099833 0.199001
    """
    check_function(fun)
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TransformError(
            f"jvp: primals and tangents must be tuples or lists of arguments, "
            f"got {type(primals).__name__} and {type(tangents).__name__}"
        )
    if has_refs(tuple(primals)):
        return _jvp_with_refs(fun, tuple(primals), tuple(tangents), has_aux)
    arrays, tangent_arrays, tree = _flatten_primals_and_tangents("jvp", tuple(primals), tuple(tangents))
    flat = FunctionWithAuxiliary("jvp", fun, tree, has_aux)
    function = partial(call_in_transformation, "jvp", flat)
    outputs, out_tangents = handlers.jvp.jvp(function, arrays, tangent_arrays, function_origin(fun))
    results = flat.rebuild_result(outputs)
    derivative = flat.rebuild_result(
        [_tangent_result(y, t) for y, t in zip(outputs, out_tangents, strict=True)]
    )
    return (results, derivative, flat.rebuild_auxiliary(outputs)) if has_aux else (results, derivative)


def _jvp_with_refs(
    fun: Callable[..., PyTree], primals: tuple[PyTree, ...], tangents: tuple[PyTree, ...], has_aux: bool
) -> tuple[PyTree, ...]:
    """Evaluates the derivative along references' contents; tangent references receive the tangents at the end."""
    from effx.transforms.refs.ref_arguments import (  # rare, and not loaded before
        RefArguments,
        functionalize_refs,
    )

    name = callable_name(fun)
    borrowed = functionalize_refs(fun, always_return=True, has_aux=has_aux)
    tangent_refs = RefArguments("jvp", name, tangents, {})
    primal_refs = RefArguments("jvp", name, primals, {})
    if tangent_refs.leaf_indices != primal_refs.leaf_indices:
        raise RefError(
            f"jvp: a primal of {name} that is a Ref needs a tangent that is one, and no other primal does"
        )

    def jvp_along(*directions: PyTree) -> tuple[PyTree, list[PyTree]]:
        def jvp_at(*contents: PyTree) -> tuple[PyTree, list[PyTree]]:
            untyped: Callable[..., tuple[PyTree, ...]] = jvp  # its result depends on has_aux
            (result, finals), (derivative, final_tangents), *aux = untyped(
                borrowed, contents, directions, has_aux
            )
            return ((result, derivative, *aux), final_tangents), finals

        results, final_tangents = primal_refs.call_with_contents(jvp_at)
        return results, final_tangents

    outputs: tuple[PyTree, ...] = tangent_refs.call_with_contents(jvp_along)
    return outputs


def _tangent_result(y: Array, t: Array | None) -> PyTree:
    if y.type.kind not in "fc":
        return float0_zeros(y.type)
    return zeros(y.type) if t is None else t


@final
@attrs.frozen(eq=False)
class FunctionType:
    """The structures and types of a function's arguments and result.

    Attributes:
        in_tree, out_tree: the structures of the arguments and the result.
        in_types, out_types: the types of their leaves.
    """

    in_tree: PyTreeDef
    in_types: tuple[ArrayType, ...]
    out_tree: PyTreeDef
    out_types: tuple[ArrayType, ...]


@final
@attrs.frozen(eq=False)
class RecordedDerivative:
    """A function's derivative at a point, or a linear function, as a linear program.

    Attributes:
        program: takes residuals, then the tangents of inputs, in which it is linear; returns those of dependent results.
        type: the function's.
        dependent: for each result whether it depends on the inputs.
        perturbed: for each input whether it may have a tangent.
    """

    program: Program
    type: FunctionType
    dependent: tuple[bool, ...]
    perturbed: tuple[bool, ...]


@final
@attrs.frozen(eq=False)
class RecordedPushforward:
    """A recorded derivative as a function of residuals and tangents."""

    derivative: RecordedDerivative

    def __call__(self, residuals: tuple[Array, ...], *tangents: PyTree) -> Any:
        """Applies the derivative."""
        derivative, function = self.derivative, self.derivative.type
        leaves, tree = flatten(tangents)
        if tree != function.in_tree:
            raise TreeError(
                f"linearize: the structure of the tangents is {tree}, that of the primals {function.in_tree}"
            )
        checked = [_check_tangent("linearize", t, x) for t, x in zip(function.in_types, leaves, strict=True)]
        active = [
            zeros(t) if m is None else m
            for t, m, is_perturbed in zip(function.in_types, checked, derivative.perturbed, strict=True)
            if is_perturbed and t.kind in "fc"
        ]
        results = iter(run_program(derivative.program, [*residuals, *active]))
        return function.out_tree.unflatten(
            [
                float0_zeros(t)
                if t.kind not in "fc"
                else finalize_result(next(results) if is_dependent else zeros(t))
                for t, is_dependent in zip(function.out_types, derivative.dependent, strict=True)
            ]
        )


@final
@attrs.frozen(eq=False)
class RecordedPullback:
    """A recorded derivative's transpose as a function of residuals and cotangents.

    Attributes:
        transform_name: the transformation, for errors.
        derivative: what is transposed.
        is_derivative: whether its program maps tangents, which integers do not have; else it is the function itself.
    """

    transform_name: str
    derivative: RecordedDerivative
    is_derivative: bool = True

    def __call__(self, residuals: tuple[Array, ...], cotangent: PyTree) -> Any:
        """Applies the transpose."""
        derivative, function = self.derivative, self.derivative.type
        leaves, tree = flatten(cotangent)
        if tree != function.out_tree:
            raise TreeError(
                f"{self.transform_name}: the structure of the cotangent is {tree}, that of the result {function.out_tree}"
            )
        out_cts = [
            _check_tangent(self.transform_name, t, ct, self.is_derivative)
            for t, ct in zip(function.out_types, leaves, strict=True)
        ]
        pull_back = partial(handlers.transpose.pull_back, derivative.program, residuals)
        dependent_cts = list(compress(out_cts, derivative.dependent))
        in_cts = iter(call_in_transformation("transpose", pull_back, dependent_cts))
        results: list[PyTree] = []
        for t, is_perturbed in zip(function.in_types, derivative.perturbed, strict=True):
            if t.kind not in "fc" and self.is_derivative:
                results.append(float0_zeros(t))
                continue
            ct = next(in_cts) if is_perturbed else None
            if ct is None:
                ct = with_type_sharding(zeros(t), cotangent_type(t).explicit_sharding)
            results.append(finalize_result(ct))
        return function.in_tree.unflatten(results)


@final
@attrs.frozen(eq=False)
class SummedPullback:
    """A pullback that sums, over named axes, the cotangents of values that do not vary along them.

    Attributes:
        pull: the pullback at each index.
        axes: the axes' names.
    """

    pull: RecordedPullback
    axes: tuple[Hashable, ...]

    def __call__(self, residuals: tuple[Array, ...], primals: tuple[Array, ...], cotangent: PyTree) -> PyTree:
        """Applies the transpose, and sums the cotangents over the axes."""
        leaves, tree = flatten(self.pull(residuals, cotangent))
        return tree.unflatten(
            [self.sum_over_shared_axes(ct, x) for ct, x in zip(leaves, primals, strict=True)]
        )

    def sum_over_shared_axes(self, ct: PyTree, x: Array) -> PyTree:
        """Returns the sum of one cotangent over the axes along which its primal does not vary."""
        if x.type.kind in "fc":
            for axis in self.axes:
                if axis not in tracked_axes.value:  # where types show varying axes, it is summed already
                    ct = PSumShared(axis)(ct, x)
        return ct


def _drop_auxiliary_outputs(linear: LinearProgram, dependent: Sequence[bool], count: int) -> LinearProgram:
    """Drops the outputs of auxiliary data."""
    n = sum(dependent[:count])
    if n == len(linear.program.outputs):
        return linear
    return LinearProgram(
        attrs.evolve(linear.program, outputs=linear.program.outputs[:n], derived={}), linear.residuals
    )


@overload
def linearize(
    fun: Callable[[Unpack[Ts]], R],
    *primals: Unpack[Ts],
    has_aux: Literal[False] = False,
    in_nzs: PyTree = None,
) -> tuple[R, Pushforward[R, Unpack[Ts]]]: ...
@overload
def linearize(
    fun: Callable[[Unpack[Ts]], tuple[R, Aux]],
    *primals: Unpack[Ts],
    has_aux: Literal[True],
    in_nzs: PyTree = None,
) -> tuple[R, Pushforward[R, Unpack[Ts]], Aux]: ...
def linearize(
    fun: Callable[[Unpack[Ts]], PyTree], *primals: Unpack[Ts], has_aux: bool = False, in_nzs: PyTree = None
) -> tuple[PyTree, ...]:
    """Evaluates a function, and returns its derivative at that point as a function of tangents.

    Each evaluation of the derivative costs only its linear part.

    Args:
        fun: takes the primals as positional arguments.
        primals: the point of linearisation.
        has_aux: whether `fun` returns a pair whose second part, a pytree of anything, is not differentiated.
        in_nzs: a pytree of bools, False for primals that are not differentiated by: their tangents count as zero.
            A prefix of the primals, in which tuples may replace other containers; None for all True.

    Returns:
        `(result, f_jvp)`, with has_aux `(result, f_jvp, aux)`; `f_jvp(*tangents)` returns the
        derivative along tangents. It is a pytree, so that jit can return it. `f_jvp.out_nzs`, which jit drops,
        says for each array of the result whether it depends on a primal that is differentiated by.

    Raises:
        TransformError, TreeError: `in_nzs` is no such pytree.

    >>> import effx, effx.numpy as enp
    >>> y, f_jvp = effx.linearize(lambda x: 3. * enp.sin(x) + enp.cos(x / 2.), 2.)
    >>> print(f"{y:.4f} {f_jvp(3.):.4f} {f_jvp(4.):.4f}")
    3.2682 -5.0075 -6.6767
    """
    check_function(fun)
    leaves, tree = flatten(primals)
    arrays = as_arrays("linearize", leaves, (primals, {}))
    perturbed = flatten_flags("linearize", "in_nzs", True if in_nzs is None else in_nzs, tree)
    recording = record_derivative("linearize", fun, arrays, tree, perturbed, has_aux)
    program = drop_unneeded(
        recording.derivative.program, final=False
    )  # what is unneeded may lack a forward rule
    push = RecordedPushforward(attrs.evolve(recording.derivative, program=program))
    f_jvp = Partial(push, recording.residuals)
    vars(f_jvp)["out_nzs"] = unflatten_flags(push.derivative.type.out_tree, push.derivative.dependent)
    return recording.return_with(f_jvp)


def types_of(arrays: Sequence[Array]) -> tuple[ArrayType, ...]:
    """Returns the arrays' types."""
    return tuple([x.type for x in arrays])


@overload
def vjp(
    fun: Callable[[Unpack[Ts]], R],
    *primals: Unpack[Ts],
    has_aux: Literal[False] = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
    saveable_args: PyTree = True,
    in_nzs: PyTree = None,
) -> tuple[R, ResidualPullback[R, Unpack[Ts]]]: ...
@overload
def vjp(
    fun: Callable[[Unpack[Ts]], tuple[R, Aux]],
    *primals: Unpack[Ts],
    has_aux: Literal[True],
    reduce_axes: Hashable | Sequence[Hashable] = (),
    saveable_args: PyTree = True,
    in_nzs: PyTree = None,
) -> tuple[R, ResidualPullback[R, Unpack[Ts]], Aux]: ...
def vjp(
    fun: Callable[[Unpack[Ts]], PyTree],
    *primals: Unpack[Ts],
    has_aux: bool = False,
    reduce_axes: Hashable | Sequence[Hashable] = (),
    saveable_args: PyTree = True,
    in_nzs: PyTree = None,
) -> tuple[PyTree, ...]:
    """Evaluates a function, and returns the transpose of its derivative: reverse mode.

    Args:
        fun: takes the primals as positional arguments.
        primals: the point of differentiation.
        has_aux: whether `fun` returns a pair whose second part, a pytree of anything, is not differentiated.
        reduce_axes: names of axes of surrounding vmaps or pmaps. The cotangent of a primal that does not vary
            along such an axis is the sum along it; without this, one for each index.
        saveable_args: a pytree of bools, a prefix of the primals in which tuples may replace other containers. For
            False `f_vjp.args_res` has `NotSaveable()` in place of a primal that the backward pass needs: put it back
            before the call.
        in_nzs: the same, None for all True. A primal for which it is False is not differentiated by, and its
            cotangent is zero. `f_vjp.out_nzs` says for each array of the result whether it depends on one that is.

    Returns:
        `(result, f_vjp)`, with has_aux `(result, f_vjp, aux)`; `f_vjp(cotangent)` takes a
        cotangent of the result's structure and returns a tuple with one for each primal. It is a
        pytree, so that jit can return it, and a `VJP`: `f_vjp.with_refs(...)` adds cotangents to mutable
        references, `args_res` and `opaque_residuals` are its residuals. Integer primals have cotangents of
        dtype float0. For a primal that is a mutable reference, the derivative is by its contents.

    Raises:
        TransformError, TreeError: `saveable_args` or `in_nzs` is no such pytree.

    >>> import effx, effx.numpy as enp
    >>> y, f_vjp = effx.vjp(lambda x, y: (enp.sin(x), enp.cos(y)), 0.5, 1.0)
    >>> xbar, ybar = f_vjp((0.7, 0.3))
    >>> print(f"{xbar:.6f} {ybar:.6f}")
    0.614308 -0.252441
    """
    check_function(fun)
    leaves, tree = flatten(primals)
    axes = parse_axis_names("vjp", reduce_axes)
    is_ref = [isinstance(x, ReferenceBase) for x in leaves]
    saveable = flatten_flags("vjp", "saveable_args", saveable_args, tree)
    perturbed = flatten_flags("vjp", "in_nzs", True if in_nzs is None else in_nzs, tree)
    if not any(is_ref):
        arrays = as_arrays("vjp", leaves, (primals, {}))
        return _vjp(
            fun,
            tree,
            arrays,
            has_aux,
            axes,
            public_tree=tree,
            is_ref=is_ref,
            saveable=saveable,
            perturbed=perturbed,
        )

    from effx.transforms.refs.ref_arguments import (  # rare, and not loaded before
        RefArguments,
        functionalize_refs,
    )

    # References' contents are among the primals, and their final contents among the results.
    def vjp_of_contents(*args: PyTree) -> tuple[tuple[PyTree, ...], list[PyTree]]:
        contents, inner = flatten(args)
        arrays = as_arrays("vjp", contents, (args, {}))
        borrowed = functionalize_refs(fun, always_return=True, has_aux=has_aux)
        (result, finals), *others = _vjp(
            borrowed,
            inner,
            arrays,
            has_aux,
            axes,
            public_tree=tree,
            is_ref=is_ref,
            saveable=saveable,
            perturbed=perturbed,
        )
        return (result, *others), finals

    results: tuple[PyTree, ...] = RefArguments("vjp", callable_name(fun), primals, {}).call_with_contents(
        vjp_of_contents
    )
    return results


def _vjp(
    fun: Callable[..., PyTree],
    tree: PyTreeDef,
    arrays: list[Array],
    has_aux: bool,
    axes: tuple[Hashable, ...],
    *,
    public_tree: PyTreeDef,
    is_ref: Sequence[bool],
    saveable: Sequence[bool],
    perturbed: Sequence[bool],
) -> tuple[PyTree, ...]:
    recording = record_derivative("vjp", fun, arrays, tree, perturbed, has_aux)
    pull, function = RecordedPullback("vjp", recording.derivative), recording.derivative.type
    info = PullbackInfo(
        name=recording.flat.name,
        apply=SummedPullback(pull, axes) if axes else pull,
        needs_primals=bool(axes),
        residual_sources=residual_sources(arrays, recording.residuals),
        in_types=function.in_types,
        in_tree=public_tree,
        is_ref=tuple(is_ref),
        out_tree=function.out_tree,
        dependent=recording.derivative.dependent,
    )
    return recording.return_with(make_pullback(info, arrays, recording.residuals, saveable))


@final
@attrs.frozen(eq=False)
class Recording:
    """What a call of a function and the recording of its derivative gave.

    Attributes:
        flat: the function.
        outputs: the arrays of its result, and of auxiliary data.
        derivative: of the result.
        residuals: what the derivative's program takes first.
    """

    flat: FunctionWithAuxiliary
    outputs: list[Array]
    derivative: RecordedDerivative
    residuals: tuple[Array, ...]

    def return_with(self, derivative: PyTree) -> tuple[PyTree, ...]:
        """Returns the result, a form of the derivative, and auxiliary data if there are some."""
        results = self.flat.rebuild_result(self.outputs), derivative
        return (*results, self.flat.rebuild_auxiliary(self.outputs)) if self.flat.has_aux else results


def record_derivative(
    function_name: str,
    fun: Callable[..., object],
    arrays: list[Array],
    tree: PyTreeDef,
    perturbed: Sequence[bool],
    has_aux: bool,
) -> Recording:
    """Calls a function and records its derivative by the floating arguments that are perturbed."""
    flat = FunctionWithAuxiliary(function_name, fun, tree, has_aux)
    active = [is_perturbed and x.type.kind in "fc" for is_perturbed, x in zip(perturbed, arrays, strict=True)]
    outputs, linear, dependent = handlers.linearize.linearize(
        partial(call_in_transformation, "jvp", flat), arrays, active, function_origin(fun)
    )
    n = flat.out_tree.num_leaves
    linear = _drop_auxiliary_outputs(linear, dependent, n)
    function_type = FunctionType(tree, types_of(arrays), flat.out_tree, types_of(outputs[:n]))
    derivative = RecordedDerivative(linear.program, function_type, tuple(dependent[:n]), tuple(perturbed))
    return Recording(flat, outputs, derivative, linear.residuals)


@overload
def linear_transpose(fun: Callable[[Unpack[Ts]], R], *primals: Unpack[Ts]) -> Pullback[R, Unpack[Ts]]: ...
@overload
def linear_transpose(fun: Callable[[PyTree], R], x: PyTree, /) -> Callable[[R], PyTree]: ...
@overload
def linear_transpose(
    fun: Callable[[PyTree, PyTree], R], x: PyTree, y: PyTree, /
) -> Callable[[R], PyTree]: ...
@overload
def linear_transpose(
    fun: Callable[..., R], x: PyTree, y: PyTree, z: PyTree, /, *primals: PyTree
) -> Callable[[R], PyTree]: ...
def linear_transpose(  # type: ignore[misc]  # mypy does not match Unpack[Ts] with PyTree
    fun: Callable[..., PyTree], *primals: PyTree
) -> PyTree:
    """Transposes a function that the caller promises to be linear.

    Nothing is evaluated: only shapes and dtypes of the primals are read.

    Args:
        fun: linear in its arguments.
        primals: arrays, or anything with `shape` and `dtype`.

    Returns:
        A function from a cotangent of the result's structure to a tuple with one for each primal.

    Raises:
        NoRuleError: `fun` is not linear.
        DTypeError: some primals and results are integers, and others are not; a bool.

    >>> import effx
    >>> f_transpose = effx.linear_transpose(lambda x, y: 0.5 * x - 0.5 * y, 0., 0.)
    >>> f_transpose(1.0)
    (Array(0.5, dtype=float32, weak_type=True), Array(-0.5, dtype=float32, weak_type=True))
    """
    check_function(fun)
    leaves, tree = flatten(primals)
    types = [leaf_type("linear_transpose", x) for x in leaves]
    flat = FunctionWithAuxiliary("linear_transpose", fun, tree, False)
    results: list[Array] = []

    def function(arrays: list[Array]) -> list[Array]:
        results[:] = flat(arrays)
        return results

    linear, dependent = handlers.linear.record_linear(function, [Var(t) for t in types])
    kinds = {t.kind for t in (*types, *types_of(results))}
    if not (kinds <= {"f", "c"} or kinds <= {"i", "u"}):
        raise DTypeError(
            f"linear_transpose: all primals and results must be floating or complex, or all integers, got "
            f"({types_text(tuple(types))}) -> ({types_text(types_of(results))})"
        )
    function_type = FunctionType(tree, tuple(types), flat.out_tree, types_of(results))
    derivative = RecordedDerivative(linear.program, function_type, tuple(dependent), (True,) * len(types))
    pull = RecordedPullback("linear_transpose", derivative, is_derivative=False)
    return Partial(pull, linear.residuals)
