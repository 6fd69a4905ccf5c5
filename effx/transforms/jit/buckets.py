"""`jit(abstracted_axes=...)`: pad arrays to a few sizes, so that one compilation serves all sizes of a bucket.

The sizes of a bucket are those up to a power of two that are larger than the one before. The smallest bucket has all sizes
up to 8; where a program needs to know more of them, there are also buckets of 1, 2 and 4. Arguments are padded and results
sliced on the host, where that needs no compilation. Sizes that are known anyway, as under handlers, are not padded.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, ParamSpec, TypeVar, cast, final

import attrs
import numpy as np

from effx import flags, ports
from effx.array import Array, HostArray
from effx.effects import current_frame
from effx.errors import (
    ConcretizationError,
    InconclusiveDimensionOperation,
    NoRuleError,
    ShapeError,
    TransformError,
    hide_internal_frames,
)
from effx.handlers.evaluate.debugging import is_debugging
from effx.ir.sizes.dimensions import SymbolicScope, has_symbolic, is_symbolic
from effx.ir.sizes.evaluation import substitute
from effx.ir.types import Shape
from effx.ir.values.array import HostData
from effx.ir.values.refs import has_refs
from effx.lower.placement.concrete import ConcreteArray, is_on_several_devices, place_on_device, to_concrete
from effx.lower.placement.transfer_guards import has_active_guards
from effx.tracing.arguments import as_arrays, callable_name, flatten_output
from effx.tracing.wrapping import update_wrapper
from effx.transforms.jit.abstracted_axes import AbstractedAxes, parse_size_cached, replace_dynamic_arguments
from effx.transforms.jit.function import Function, Jitted
from effx.transforms.jit.options import Options, valid_argument_numbers
from effx.transforms.jit.stages import Lowered, Traced
from effx.tree.registry import PyTree, flatten, register_record

P = ParamSpec("P")
R = TypeVar("R")

SMALLEST_BUCKET: Final = 8
# The keyword argument that passes the lengths to a padded function; no user's parameter can have this name.
LENGTHS_KEYWORD: Final = "lengths of abstracted_axes"


@register_record
@final
@attrs.frozen(eq=False)
class Lengths:
    """The lengths of padded arrays: how many of their elements are valid.

    Attributes:
        values: the lengths by the names of sizes.
        smallest: the smallest bucket, where one of the lengths is in it: lengths in larger buckets exceed half of
            their padded sizes. It is part of the pytree structure, since programs depend on it.
    """

    values: Mapping[str, PyTree]
    smallest: int = attrs.field(metadata={"static": True})


def bucket_size(length: int, smallest: int = SMALLEST_BUCKET) -> int:
    """Returns the padded size for a length.

    >>> [bucket_size(n) for n in (1, 8, 9, 100)]
    [8, 8, 16, 128]
    """
    return max(smallest, 1 << (length - 1).bit_length())


@register_record
@final
@attrs.frozen(eq=False)
class PaddedResult:
    """A padded result.

    Attributes:
        result: the function's result, its arrays padded.
        shapes: the arrays' valid shapes, with symbolic sizes as text. They are part of the pytree structure, so that calls
            that run without Python have them too, and programs that another process stored on disk.
    """

    result: PyTree
    shapes: tuple[tuple[int | str, ...], ...] = attrs.field(metadata={"static": True})


@final
class BucketedFunction(Generic[P, R]):
    """The Python side of a jitted function with named sizes.

    Attributes:
        fun: the user's function. options: its other options.
        axes: its `abstracted_axes`.
        exact: the function compiled for known sizes. padded: the function compiled for the sizes of buckets.
        smallest: the smallest bucket so far: 1 once a program needed tighter bounds on its sizes.
    """

    def __init__(self, fun: Callable[P, R], options: Options, names: PyTree) -> None:
        self.fun, self.options, self.names = fun, options, names
        self.axes = AbstractedAxes("jit", callable_name(fun), names)
        self.smallest = SMALLEST_BUCKET
        self.function = Function(fun, options)
        self.exact = self.function.make_jitted()
        self.padded: Jitted[..., PaddedResult] = Function(
            _make_padded_function(fun, options, self.axes), options
        ).make_jitted()

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Pickles the function without its compiled programs."""
        return BucketedFunction, (self.fun, self.options, self.names)

    def make_jitted(self) -> Jitted[P, R]:
        """Returns the function that users call; this object must not refer to it: a cycle would keep it alive."""

        def call_bucketed(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return self.call(*args, **kwargs)
            except Exception as error:
                hide_internal_frames(error)
                raise

        public: PyTree = update_wrapper(call_bucketed, self.fun)
        public.trace, public.lower, public.eval_shape = self.trace, self.lower, self.eval_shape
        public.clear_cache, public._cache_size = self.clear_cache, self.cache_size
        return cast("Jitted[P, R]", public)

    def static_numbers(self, args: tuple[object, ...], kwargs: dict[str, object]) -> frozenset[int]:
        """Returns the positions of static arguments, after the checks that a call of `jit` makes.

        Raises:
            TransformError: there is a keyword argument that is not static, or static ones are wrong.
        """
        _, named, _ = self.function.split_static_arguments(args, kwargs)
        self.axes.refuse_keywords(named)
        return frozenset(valid_argument_numbers(self.options.static_argnums, len(args)))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function, with arrays padded along named axes."""
        static = self.static_numbers(args, kwargs)
        if has_refs((args, kwargs)):
            return self.exact(*args, **kwargs)
        dynamic = [x for i, x in enumerate(args) if i not in static]
        leaves, form = flatten(dynamic)
        arrays = as_arrays("jit", leaves, (dynamic, {}))
        argument_sizes = self.axes.argument_sizes(
            replace_dynamic_arguments(args, form.unflatten(arrays), static), static
        )
        lengths = argument_sizes.solve_names(least=0)
        if not lengths or not all(lengths.values()) or not can_pad(arrays):
            return self.exact(*args, **kwargs)

        padded_size: Callable[[int, tuple[tuple[str, int], ...]], int] = ports.padding.handler.padded_size

        def run_padded(smallest: int) -> PaddedResult:
            sizes = tuple([(name, bucket_size(n, smallest)) for name, n in lengths.items()])
            padded = [
                _pad_array(y, tuple([padded_size(n, sizes) if is_symbolic(n) else n for n in shape]))
                if has_symbolic(shape)
                else x
                for x, y, shape in zip(leaves, arrays, argument_sizes.shapes, strict=True)
            ]
            small = smallest if min(lengths.values()) <= SMALLEST_BUCKET else SMALLEST_BUCKET
            counts = Lengths({name: np.int32(n) for name, n in lengths.items()}, small)
            try:
                return self.padded(
                    *replace_dynamic_arguments(args, form.unflatten(padded), static),
                    **kwargs,
                    **{LENGTHS_KEYWORD: counts},
                )
            except (NoRuleError, InconclusiveDimensionOperation, ConcretizationError, ShapeError) as error:
                size_text = ", ".join([f"{name} = {size}" for name, size in sizes])
                error.add_note(
                    f"jit: abstracted_axes runs {self.axes.name} for many sizes at once, on arrays padded to {size_text}; a "
                    f"size without a name is known, and {self.axes.name} compiled for each of its values"
                )
                raise

        padded_result: PaddedResult | None = None
        try:
            padded_result = run_padded(self.smallest)
        except InconclusiveDimensionOperation:
            if min(lengths.values()) > self.smallest or self.smallest == 1:
                raise
        if padded_result is None:  # outside of the except clause, so that its errors are not chained
            padded_result = run_padded(1)
            self.smallest = 1
        results, out = flatten(padded_result.result)
        result: R = out.unflatten(
            [_unpad_array(y, shape, lengths) for y, shape in zip(results, padded_result.shapes, strict=True)]
        )
        return result

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Traced:
        """Stages the function for symbolic sizes on the named axes."""
        return self.function.trace(
            *self.axes.abstract_arguments(args, self.static_numbers(args, kwargs)), **kwargs
        )

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Stages and lowers to StableHLO."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> PyTree:
        """Returns shapes and dtypes of the result without computing."""
        self.axes.argument_sizes(args, self.static_numbers(args, kwargs)).solve_names(least=0)
        return self.exact.eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """Drops all programs of this function."""
        self.exact.clear_cache()
        self.padded.clear_cache()

    def cache_size(self) -> int:
        """Returns the number of call signatures that run in C++ alone."""
        sizes: list[int] = [getattr(f, "_cache_size")() for f in (self.exact, self.padded)]  # noqa: B009  # JAX's name
        return sum(sizes)


def jit_bucketed(fun: Callable[P, R], options: Options, names: PyTree) -> Jitted[P, R]:
    """Returns the jitted function for `jit(abstracted_axes=...)`.

    Raises:
        TransformError: arguments are donated.
    """
    if options.donate_argnums or options.donate_argnames:
        raise TransformError(
            f"jit: {callable_name(fun)} has both donated arguments and abstracted_axes, for which arguments are copied "
            f"to padded arrays, so that no result could have their memory; leave out one of them"
        )
    return BucketedFunction(fun, options, names).make_jitted()


def _make_padded_function(
    fun: Callable[..., PyTree], options: Options, axes: AbstractedAxes
) -> Callable[..., PaddedResult]:
    """Returns the function of padded arrays, which takes the lengths as a keyword argument."""

    def call_padded(*args: PyTree, **kwargs: PyTree) -> PaddedResult:
        lengths: Lengths = kwargs.pop(LENGTHS_KEYWORD)
        fixed = frozenset(valid_argument_numbers(options.static_argnums, len(args)))
        argument_sizes = axes.argument_sizes(args, fixed)
        sizes = argument_sizes.solve_names()
        shapes = axes.argument_sizes(args, fixed, _bucket_constraints(sizes, lengths.smallest)).shapes
        leaves, form = flatten(argument_sizes.args)

        def call_with_leaves(xs: list[Array]) -> PyTree:
            result = fun(*replace_dynamic_arguments(args, form.unflatten(xs), fixed), **kwargs)
            outputs, structure = flatten_output("jit", axes.name, result)
            return structure.unflatten(outputs)

        arrays = as_arrays("jit", leaves, (argument_sizes.args, {}))
        handler = ports.padding.handler.Padding(lengths.values, dict(sizes))
        results, out = ports.padding.functions.padded_call(call_with_leaves, arrays, shapes, handler)
        shown = [tuple([str(n) if is_symbolic(n) else n for n in y.shape]) for y in results]
        return PaddedResult(out.unflatten([y.value for y in results]), tuple(shown))

    update_wrapper(call_padded, fun)
    call_padded.__name__ = callable_name(fun)
    return call_padded


def _bucket_constraints(sizes: Mapping[str, int], smallest: int) -> SymbolicScope:
    """Returns a scope with the bounds of the lengths in their buckets."""
    known = [f"{name} <= {size}" for name, size in sizes.items()]
    known += [f"{name} >= {size // 2 + 1}" for name, size in sizes.items() if size > smallest]
    return SymbolicScope(known)


def can_pad(arrays: Sequence[Array]) -> bool:
    """Returns whether these arrays may be padded under the current handlers and flags.

    Under handlers sizes are known, and are not padded. Flags that check values would check the padding too.
    """
    if current_frame() is not None or flags.disable_jit.value or is_debugging() or has_active_guards():
        return False
    return all(
        [
            type(x) is HostArray
            or (type(x) is ConcreteArray and not x.is_deleted() and not is_on_several_devices(x))
            for x in arrays
        ]
    )


def _pad_array(x: Array, shape: Shape) -> Array:
    """Returns an array padded with zeros, on its device."""
    if x.type.shape == shape:
        return to_concrete(x)  # C++ distinguishes arrays on the host
    assert isinstance(x, ConcreteArray | HostArray)
    padded = np.zeros(shape, x.type.dtype)
    padded[tuple([slice(0, n) for n in x.type.shape])] = x.host("jit")
    return _put_like(padded, x, shape)


def _unpad_array(y: Array, shape: tuple[int | str, ...], lengths: Mapping[str, int]) -> Array:
    """Returns the valid elements of a padded array, on its device."""
    sizes = tuple([substitute(parse_size_cached(n), lengths) if isinstance(n, str) else n for n in shape])
    if sizes == y.type.shape:
        return y
    assert isinstance(y, ConcreteArray)
    return _put_like(np.array(y.host("jit")[tuple([slice(0, n) for n in sizes])]), y, sizes)


def _put_like(data: HostData, like: Array, shape: Shape) -> Array:
    data.flags.writeable = False  # nothing else refers to it, so the device may use it without a copy
    if isinstance(like, ConcreteArray):
        return place_on_device(data, like.type.with_shape(shape), like.device, like.committed)
    return place_on_device(data, like.type.with_shape(shape))
