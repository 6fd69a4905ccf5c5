"""`jit(abstracted_axes=...)`: arrays are padded to a few sizes, so that there is one compilation for all sizes of a bucket.

The sizes of a bucket are those up to a power of two that are larger than the one before. The smallest bucket has all sizes
up to 8; where a program needs to know more of them, there are also buckets of 1, 2 and 4. Arguments are padded and results
cut on the host, where that needs no compilation. Sizes that are known anyway, as under handlers, are not padded.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
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
from effx.handlers.evaluate.debugging import debugging
from effx.ir.sizes.dimensions import SymbolicScope, has_symbolic, is_symbolic
from effx.ir.sizes.evaluation import substitute
from effx.ir.types import Shape
from effx.ir.values.array import HostData
from effx.ir.values.refs import has_refs
from effx.lower.placement.concrete import ConcreteArray, as_concrete, is_spread, put
from effx.lower.placement.transfer_guards import guarding
from effx.tracing.arguments import as_arrays, flatten_output, name_of
from effx.transforms.jit.abstracted_axes import AbstractedAxes, replaced, size_of
from effx.transforms.jit.function import Function, Jitted
from effx.transforms.jit.options import Options, counted
from effx.transforms.jit.stages import Lowered, Traced
from effx.tree.registry import PyTree, flatten, register_record

P = ParamSpec("P")
R = TypeVar("R")

SMALLEST: Final = 8
# The keyword by which a padded function gets the lengths; no parameter of a user's can have this name.
LENGTHS: Final = "lengths of abstracted_axes"


@register_record
@final
@attrs.frozen(eq=False)
class Lengths:
    """How many elements of padded arrays count.

    Attributes:
        values: by the names of sizes.
        smallest: the smallest bucket, where one of the names has a small one: all in larger buckets are larger than half of
            their padded sizes. As part of the structure, since programs depend on it.
    """

    values: Mapping[str, PyTree]
    smallest: int = attrs.field(metadata={"static": True})


def bucket(length: int, smallest: int = SMALLEST) -> int:
    """Returns the padded size for a length.

    >>> [bucket(n) for n in (1, 8, 9, 100)]
    [8, 8, 16, 128]
    """
    return max(smallest, 1 << (length - 1).bit_length())


@register_record
@final
@attrs.frozen(eq=False)
class Cut:
    """A padded result.

    Attributes:
        result: what the function returned, its arrays padded.
        shapes: what counts of them, sizes as text where they are symbolic. As part of the structure they are there for calls
            that run without Python too, and for programs that another process has left on disk.
    """

    result: PyTree
    shapes: tuple[tuple[int | str, ...], ...] = attrs.field(metadata={"static": True})


@final
class Bucketed(Generic[P, R]):
    """The Python side of a jitted function with sizes that vary.

    Attributes:
        fun: the user's function. options: what the user chose beside the names.
        axes: the names.
        exact: the function compiled for known sizes. padded: for those of buckets.
        smallest: the smallest bucket so far: 1 once a program needed to know more of its sizes.
    """

    def __init__(self, fun: Callable[P, R], options: Options, names: PyTree) -> None:
        self.fun, self.options, self.names = fun, options, names
        self.axes = AbstractedAxes("jit", name_of(fun), names)
        self.smallest = SMALLEST
        self.function = Function(fun, options)
        self.exact = self.function.public()
        self.padded: Jitted[..., Cut] = Function(_padded(fun, options, self.axes), options).public()

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """What has been compiled is left out."""
        return Bucketed, (self.fun, self.options, self.names)

    def public(self) -> Jitted[P, R]:
        """Returns the function that users call; this object must not refer to it, since a cycle would keep it."""

        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return self.call(*args, **kwargs)
            except Exception as error:
                hide_internal_frames(error)
                raise

        public: PyTree = update_wrapper(called, self.fun)
        public.trace, public.lower, public.eval_shape = self.trace, self.lower, self.eval_shape
        public.clear_cache, public._cache_size = self.clear_cache, self.cache_size
        return cast("Jitted[P, R]", public)

    def fixed(self, args: tuple[object, ...], kwargs: dict[str, object]) -> frozenset[int]:
        """Returns the numbers of static arguments, after the checks that a call of `jit` makes.

        Raises:
            TransformError: there is a keyword argument that is not static, or static ones are wrong.
        """
        _, named, _ = self.function.split(args, kwargs)
        self.axes.refuse_named(named)
        return frozenset(counted(self.options.static_argnums, len(args)))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function on arrays that are padded where their sizes have names."""
        fixed = self.fixed(args, kwargs)
        if has_refs((args, kwargs)):
            return self.exact(*args, **kwargs)
        dynamic = [x for i, x in enumerate(args) if i not in fixed]
        leaves, form = flatten(dynamic)
        arrays = as_arrays("jit", leaves, (dynamic, {}))
        given = self.axes.sizes(replaced(args, form.unflatten(arrays), fixed), fixed)
        lengths = given.values(least=0)
        if not lengths or not all(lengths.values()) or not may_pad(arrays):
            return self.exact(*args, **kwargs)

        padded_size: Callable[[int, tuple[tuple[str, int], ...]], int] = ports.padding.handler.padded_size

        def run(smallest: int) -> Cut:
            sizes = tuple([(name, bucket(n, smallest)) for name, n in lengths.items()])
            filled = [
                _filled(y, tuple([padded_size(n, sizes) if is_symbolic(n) else n for n in shape]))
                if has_symbolic(shape)
                else x
                for x, y, shape in zip(leaves, arrays, given.shapes, strict=True)
            ]
            small = smallest if min(lengths.values()) <= SMALLEST else SMALLEST
            counts = Lengths({name: np.int32(n) for name, n in lengths.items()}, small)
            try:
                return self.padded(
                    *replaced(args, form.unflatten(filled), fixed), **kwargs, **{LENGTHS: counts}
                )
            except (NoRuleError, InconclusiveDimensionOperation, ConcretizationError, ShapeError) as error:
                told = ", ".join([f"{name} = {size}" for name, size in sizes])
                error.add_note(
                    f"jit: abstracted_axes runs {self.axes.name} for many sizes at once, on arrays padded to {told}; a "
                    f"size without a name is known, and {self.axes.name} compiled for each of its values"
                )
                raise

        cut: Cut | None = None
        try:
            cut = run(self.smallest)
        except InconclusiveDimensionOperation:
            if min(lengths.values()) > self.smallest or self.smallest == 1:
                raise
        if cut is None:  # outside of the clause, so that its errors stand alone
            cut = run(1)
            self.smallest = 1
        results, out = flatten(cut.result)
        found: R = out.unflatten(
            [_cut(y, shape, lengths) for y, shape in zip(results, cut.shapes, strict=True)]
        )
        return found

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Traced:
        """Stages the function for all sizes that have names."""
        return self.function.trace(*self.axes.abstracted(args, self.fixed(args, kwargs)), **kwargs)

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Stages and lowers to StableHLO."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> PyTree:
        """Returns shapes and dtypes of the result without computing."""
        self.axes.sizes(args, self.fixed(args, kwargs)).values(least=0)
        return self.exact.eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """Forgets all programs of this function."""
        self.exact.clear_cache()
        self.padded.clear_cache()

    def cache_size(self) -> int:
        """Returns how many kinds of calls run without Python's help."""
        sizes: list[int] = [getattr(f, "_cache_size")() for f in (self.exact, self.padded)]  # noqa: B009  # JAX's name
        return sum(sizes)


def jitted(fun: Callable[P, R], options: Options, names: PyTree) -> Jitted[P, R]:
    """Returns what `jit` gives for a function with sizes that vary.

    Raises:
        TransformError: arguments are donated.
    """
    if options.donate_argnums or options.donate_argnames:
        raise TransformError(
            f"jit: {name_of(fun)} has both donated arguments and abstracted_axes, for which arguments are copied "
            f"to padded arrays, so that no result could have their memory; leave out one of them"
        )
    return Bucketed(fun, options, names).public()


def _padded(fun: Callable[..., PyTree], options: Options, axes: AbstractedAxes) -> Callable[..., Cut]:
    """Returns the function of padded arrays, which takes the lengths by keyword."""

    def padded(*args: PyTree, **kwargs: PyTree) -> Cut:
        lengths: Lengths = kwargs.pop(LENGTHS)
        fixed = frozenset(counted(options.static_argnums, len(args)))
        known = axes.sizes(args, fixed)
        sizes = known.values()
        shapes = axes.sizes(args, fixed, _known_of(sizes, lengths.smallest)).shapes
        leaves, form = flatten(known.args)

        def of_leaves(xs: list[Array]) -> PyTree:
            result = fun(*replaced(args, form.unflatten(xs), fixed), **kwargs)
            found, structure = flatten_output("jit", axes.name, result)
            return structure.unflatten(found)

        arrays = as_arrays("jit", leaves, (known.args, {}))
        handler = ports.padding.handler.Padding(lengths.values, dict(sizes))
        results, out = ports.padding.functions.padded_call(of_leaves, arrays, shapes, handler)
        shown = [tuple([str(n) if is_symbolic(n) else n for n in y.shape]) for y in results]
        return Cut(out.unflatten([y.value for y in results]), tuple(shown))

    update_wrapper(padded, fun)
    padded.__name__ = name_of(fun)
    return padded


def _known_of(sizes: Mapping[str, int], smallest: int) -> SymbolicScope:
    """Returns what is known of the lengths in buckets."""
    known = [f"{name} <= {size}" for name, size in sizes.items()]
    known += [f"{name} >= {size // 2 + 1}" for name, size in sizes.items() if size > smallest]
    return SymbolicScope(known)


def may_pad(arrays: Sequence[Array]) -> bool:
    """Says whether these arrays may be padded, here and now.

    Under handlers sizes are known and stay what they are. Flags that look at values would find what lies beyond the lengths.
    """
    if current_frame() is not None or flags.disable_jit.value or debugging() or guarding():
        return False
    return all(
        [
            type(x) is HostArray or (type(x) is ConcreteArray and not x.is_deleted() and not is_spread(x))
            for x in arrays
        ]
    )


def _filled(x: Array, shape: Shape) -> Array:
    """Returns an array with zeros behind its elements, on the device where it lies."""
    if x.type.shape == shape:
        return as_concrete(x)  # C++ tells arrays on the host apart
    assert isinstance(x, ConcreteArray | HostArray)
    found = np.zeros(shape, x.type.dtype)
    found[tuple([slice(0, n) for n in x.type.shape])] = x.host("jit")
    return _put(found, x, shape)


def _cut(y: Array, shape: tuple[int | str, ...], lengths: Mapping[str, int]) -> Array:
    """Returns the elements of a padded array that count, on the device where it lies."""
    sizes = tuple([substitute(size_of(n), lengths) if isinstance(n, str) else n for n in shape])
    if sizes == y.type.shape:
        return y
    assert isinstance(y, ConcreteArray)
    return _put(np.array(y.host("jit")[tuple([slice(0, n) for n in sizes])]), y, sizes)


def _put(data: HostData, like: Array, shape: Shape) -> Array:
    data.flags.writeable = False  # nobody else has it, so that the device may take it as it is
    if isinstance(like, ConcreteArray):
        return put(data, like.type.with_shape(shape), like.device, like.committed)
    return put(data, like.type.with_shape(shape))
