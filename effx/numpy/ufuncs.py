"""Universal functions: functions of numbers that also reduce, accumulate, and act at indices."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from effx import dtypes, lax
from effx.array import Array, arithmetic, indexing, reducing, shaping
from effx.array.indexing import iota_along_axis
from effx.array.promotion import as_operand, broadcast_to, convert, refuse_mixed_dtypes
from effx.array.reducing import refuse_out
from effx.array.shaping import normalize_axes, normalize_axis
from effx.errors import ShapeError, check_function
from effx.numpy.vectorizing import vectorize
from effx.tracing.wrapping import update_wrapper

if TYPE_CHECKING:
    from effx.array import Operand
    from effx.ir.values.array import Axis, Index

__all__ = ["frompyfunc", "ufunc"]

P = ParamSpec("P")
R = TypeVar("R")
Reduction = Callable[..., Array]


_REFUSED = ("out", "where")


def _signature_with_refused(func: Callable[..., Any]) -> tuple[inspect.Signature, tuple[str, ...]]:
    """The function's signature, with the parameters of NumPy's ufuncs that must be None, and these."""
    try:
        own = inspect.signature(func)
    except ValueError:  # a builtin without one
        own = inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])
    refused = tuple([name for name in _REFUSED if name not in own.parameters])
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=None)
        for name in refused
    ]
    own_parameters = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    return own.replace(parameters=[*own_parameters, *more]), refused


def _load_by_name(name: str) -> object:
    """Returns a function of effx.numpy, for pickle."""
    return getattr(sys.modules[__package__], name)


# It wraps the typed function, so that a call costs one frame more and type checkers see the same signature.
class ufunc(Generic[P, R]):
    """A function of numbers that is applied element by element, after its operands are broadcast.

    >>> import effx.numpy as enp
    >>> enp.add.reduce(enp.arange(4)).tolist(), enp.multiply.outer(enp.arange(2), enp.arange(3)).shape
    (6, (2, 3))
    """

    __name__: str

    def __init__(
        self,
        func: Callable[P, R],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[P, R] | None = None,
        reduce: Reduction | None = None,
        accumulate: Reduction | None = None,
        at: str | Reduction | None = None,
        reduceat: Reduction | None = None,
        associative: bool = False,
    ) -> None:
        """Makes one of a function of arrays that broadcasts.

        Args:
            func: the function.
            nin, nout: how many operands it takes, and how many results it has.
            name: by default the function's.
            nargs: how many operands a call takes; by default `nin`.
            identity: what changes nothing as one of two operands.
            call: a function that runs instead of `func` where arrays are combined.
            reduce, accumulate, reduceat: functions that do these, instead of those that are derived from the function:
                of an array and the keywords that are not left out (`axis`, and `keepdims` of reduce, or `indices` of
                reduceat).
            at: the name of the method of `x.at[]`, or a function of an array, indices and a second operand.
            associative: whether the order of applications does not matter.
        """
        update_wrapper(self, func)
        self.__name__ = name or str(getattr(func, "__name__", "ufunc"))
        self.func = func
        self._nin, self._nout, self._nargs, self._identity = nin, nout, nargs or nin, identity
        self._apply: Callable[..., Any] = call or func
        self._reduce, self._accumulate, self._at, self._associative = reduce, accumulate, at, associative
        self._reduceat, self._is_vectorized = reduceat, False
        self.__signature__, self._refused = _signature_with_refused(func)

    @property
    def _key(self) -> tuple[object, ...]:
        """What two functions that do the same have in common; one of `frompyfunc` is its Python function."""
        function = getattr(self.func, "__wrapped__", self.func) if self._is_vectorized else self.func
        return (
            function, self.__name__, self._nin, self._nout, self._nargs, self._identity, self._is_vectorized,
            self._reduce, self._accumulate, self._at, self._reduceat, self._associative,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is ufunc and self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __reaches__(self) -> dict[str, object]:
        """Returns the function's part of the key of a program on disk."""
        return {name: x for name, x in vars(self).items() if not name.startswith("__")}

    @property
    def nin(self) -> int:
        """How many operands it takes."""
        return self._nin

    @property
    def nout(self) -> int:
        """How many results it has."""
        return self._nout

    @property
    def nargs(self) -> int:
        """How many operands a call takes."""
        return self._nargs

    @property
    def identity(self) -> Any:
        """What changes nothing as one of two operands; None if nothing does."""
        return self._identity

    def __reduce__(self) -> str | tuple[object, ...]:
        """Those of effx.numpy pickle as names."""
        numpy = sys.modules[__package__]
        if getattr(numpy, self.__name__, None) is self:
            return _load_by_name, (self.__name__,)
        return object.__reduce_ex__(self, 2)

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function of each element.

        Raises:
            TypeError: `out` or `where`, which NumPy takes to write into an array.
        """
        if kwargs and not kwargs.keys().isdisjoint(self._refused):
            for refused_name in self._refused:
                if kwargs.pop(refused_name, None) is not None:
                    raise TypeError(
                        f"{self.__name__}: {refused_name} is not supported: arrays are immutable; use effx.numpy.where "
                        f"to choose between results"
                    )
        call: Callable[..., R] = self._apply
        return call(*args, **kwargs)

    def _binary(self, method: str) -> None:
        if (self.nin, self.nout) != (2, 1):
            raise TypeError(
                f"{self.__name__}.{method}: only for functions of two operands and one result; "
                f"{self.__name__} has {self.nin} and {self.nout}"
            )

    def _combined(self, x: Array, y: Array) -> Array:
        """The function of two accumulated values, in the dtype of the first."""
        return convert(as_operand(self._apply(x, y)), x.type.dtype)

    def _start(self, x: Array, dtype: Any) -> Array:
        """Converts to the dtype of the results, by default that of one application."""
        if dtype is not None:
            return convert(x, dtypes.canonicalize_requested(dtype))
        return convert(x, as_operand(self._apply(x[:0], x[:0])).type.dtype)

    def reduce(
        self,
        a: Operand,
        axis: Axis = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Array:
        """Combines the elements along axes, from the first to the last.

        Args:
            a: the array.
            axis: an axis or several; None for all.
            dtype: of the results; by default that of the function's.
            out: not supported.
            keepdims: True to keep the axes with size 1.
            initial: what to start with; by default the identity, or the first element.
            where: a mask of the elements to combine; it needs an identity or `initial`.

        Raises:
            TypeError: a function that is not of two operands and one result.
            ShapeError: no elements, or a mask, and nothing to start with.

        >>> import effx.numpy as enp
        >>> enp.subtract.reduce(enp.array([9, 2, 3])).tolist()
        4
        """
        self._binary("reduce")
        name = f"{self.__name__}.reduce"
        refuse_out(out)
        x = as_operand(a)
        axes = normalize_axes(axis, x.type)
        if self._reduce is not None and dtype is None and (where is None or self.identity is not None):
            if where is not None:
                chosen = broadcast_to(reducing.as_mask(where, x.type.ndim), x.type.shape)
                x = arithmetic.where(chosen, x, convert(as_operand(self.identity), x.type.dtype))
            if self.identity is not None or all([x.type.shape[i] for i in axes]):
                reduced = self._reduce(x, axis=axes, keepdims=keepdims)
                return reduced if initial is None else self._combined(reduced, as_operand(initial))
        remaining_axes = [i for i in range(x.type.ndim) if i not in axes]
        sizes = [x.type.shape[i] for i in remaining_axes]

        count = math.prod([x.type.shape[i] for i in axes])

        def in_front(y: Array) -> Array:
            return shaping.reshape(shaping.transpose(y, (*axes, *remaining_axes)), (count, *sizes))

        y = self._start(in_front(x), dtype)
        first = self.identity if initial is None else initial
        if first is None and (where is not None or not y.type.shape[0]):
            raise ShapeError(
                f"{name}: {x.type!r} over axes {axes} needs initial=: {self.__name__} has no identity"
            )
        mask = None
        if where is not None:
            mask = in_front(broadcast_to(reducing.as_mask(where), x.type.shape))
        if first is None:
            carry, y = y[0], y[1:]
        else:
            carry = broadcast_to(convert(as_operand(first), y.type.dtype), tuple(sizes))

        def step(value: Array, part: tuple[Array, Array | None]) -> tuple[Array, None]:
            element, chosen = part
            combined = self._combined(value, element)
            return (combined if chosen is None else arithmetic.where(chosen, combined, value)), None

        reduced = lax.scan(step, carry, (y, mask))[0]
        full = [1 if i in axes else n for i, n in enumerate(x.type.shape)]
        return shaping.reshape(reduced, full) if keepdims else reduced

    def accumulate(self, a: Operand, axis: int = 0, dtype: Any = None, out: None = None) -> Array:
        """Combines the elements along an axis, and keeps what each step gives.

        Args:
            a: the array.
            axis: along which axis.
            dtype: of the results.
            out: not supported.

        Raises:
            TypeError: a function that is not of two operands and one result.

        >>> import effx.numpy as enp
        >>> enp.add.accumulate(enp.array([1, 2, 3])).tolist()
        [1, 3, 6]
        """
        self._binary("accumulate")
        refuse_out(out)
        x = as_operand(a)
        along = normalize_axis(axis, x.type.ndim, x.type)
        if self._accumulate is not None and dtype is None:
            return self._accumulate(x, axis=along)
        y = self._start(shaping.moveaxis(x, along, 0), dtype)
        if self._associative or not y.type.shape[0]:
            accumulated = lax.associative_scan(self._combined, y)
        else:

            def step(value: Array, element: Array) -> tuple[Array, Array]:
                combined = self._combined(value, element)
                return combined, combined

            accumulated = shaping.concatenate([y[:1], lax.scan(step, y[0], y[1:])[1]], 0)
        return shaping.moveaxis(accumulated, 0, along)

    def reduceat(
        self, a: Operand, indices: Operand, axis: int = 0, dtype: Any = None, out: None = None
    ) -> Array:
        """Reduces the slices that start at indices: each ends where the next one starts, and holds its first
        element at least.

        Args:
            a: the array.
            indices: `[n]` integers; the last slice ends with the array.
            axis: along which axis.
            dtype: of the results.
            out: not supported.

        Returns:
            The reductions; the axis has size n.

        Raises:
            TypeError: a function that is not of two operands and one result.
            ShapeError: indices that are no vector.

        >>> import effx.numpy as enp
        >>> enp.add.reduceat(enp.arange(5), enp.array([0, 3])).tolist()
        [3, 7]
        """
        self._binary("reduceat")
        name = f"{self.__name__}.reduceat"
        refuse_out(out)
        x, starts = as_operand(a), as_operand(indices)
        if starts.type.ndim != 1 or starts.type.kind not in "iu":
            raise ShapeError(f"{name}: indices must be a vector of integers, got {starts.type!r}")
        along = normalize_axis(axis, x.type.ndim, x.type)
        if self._reduceat is not None and dtype is None:
            return self._reduceat(x, indices=starts, axis=along)
        y = self._start(shaping.moveaxis(x, along, 0), dtype)
        n, m = y.type.shape[0], starts.type.size
        if not m:
            return shaping.moveaxis(y[:0], 0, along)
        starts = convert(starts, dtypes.int32)
        ends = shaping.concatenate([starts[1:], broadcast_to(as_operand(n), (1,))], 0)
        form = (-1,) + (1,) * (y.type.ndim - 1)

        # One pass over the elements, for all slices at the same time, so that slices may overlap.
        def step(value: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
            element, index = part
            inside = shaping.reshape((index > starts) & (index < ends), form)
            return arithmetic.where(inside, self._combined(value, element), value), None

        firsts = indexing.take(y, starts, 0, "clip")
        reduced = lax.scan(step, firsts, (y, iota_along_axis((n,), 0)))[0]
        return shaping.moveaxis(reduced, 0, along)

    def at(self, a: Operand, indices: Index, b: Operand | None = None, /, *, inplace: bool = True) -> Array:
        """Applies the function at indices, at equal ones once for each.

        Args:
            a: the array.
            indices: as in `a[indices]`.
            b: the second operand, for a function of two; it broadcasts to the shape of `a[indices]`.
            inplace: must be False: arrays are immutable.

        Returns:
            The array with the results at the indices, in its dtype.

        Raises:
            TypeError: `inplace` is not False, or another number of operands.

        >>> import effx.numpy as enp
        >>> enp.add.at(enp.zeros(3), enp.array([0, 0, 2]), 1.0, inplace=False).tolist()
        [2.0, 0.0, 1.0]
        """
        name = f"{self.__name__}.at"
        if inplace:
            raise TypeError(
                f"{name}: arrays are immutable; pass inplace=False and use the array that is returned"
            )
        if (self.nin == 1) != (b is None) or self.nin > 2 or self.nout != 1:
            raise TypeError(f"{name}: {self.__name__} takes {self.nin} operands and has {self.nout} results")
        x = as_operand(a)
        if b is None:
            return x.at[indices].apply(lambda v: convert(as_operand(self._apply(v)), x.type.dtype))
        if self._at is not None:
            if callable(self._at):
                return self._at(x, indices, b)
            updated: Array = getattr(x.at[indices], self._at)(b)
            return updated
        # The index of each element that is addressed, one after the other.
        numbers = shaping.reshape(iota_along_axis((x.type.size,), 0), x.type.shape)[indices]
        others = shaping.reshape(broadcast_to(as_operand(b), numbers.type.shape), -1)

        def step(flat: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
            index, other = part
            return flat.at[index].set(self._combined(flat[index], other)), None

        flat, numbers = shaping.reshape(x, -1), shaping.reshape(numbers, -1)
        return shaping.reshape(lax.scan(step, flat, (numbers, others))[0], x.type.shape)

    def outer(self, A: Operand, B: Operand, /) -> Array:
        """Applies the function to all pairs of elements.

        Args:
            A: `[*shape_a]`.
            B: `[*shape_b]`.

        Returns:
            `[*shape_a, *shape_b]` results.

        Raises:
            TypeError: a function that is not of two operands.

        >>> import effx.numpy as enp
        >>> enp.add.outer(enp.array([1, 2]), enp.array([10, 20])).tolist()
        [[11, 21], [12, 22]]
        """
        if self.nin != 2:
            raise TypeError(f"{self.__name__}.outer: only for functions of two operands; it has {self.nin}")
        x, y = as_operand(A), as_operand(B)
        refuse_mixed_dtypes(x, y)
        ranks = (1,) * x.type.ndim, (1,) * y.type.ndim
        result: Array = self._apply(
            shaping.reshape(x, x.type.shape + ranks[1]), shaping.reshape(y, ranks[0] + y.type.shape)
        )
        return result


def make_ufunc(
    identity: Any = None,
    reduce: Reduction | None = None,
    accumulate: Reduction | None = None,
    at: str | None = None,
    associative: bool = True,
    nin: int = 2,
) -> Callable[[Callable[P, R]], ufunc[P, R]]:
    """Makes a universal function of a function of numbers.

    Args:
        identity: what changes nothing as one of two operands.
        reduce: the reduction with this function, of an array, axes and `keepdims`.
        accumulate: the cumulative reduction, of an array and an axis.
        at: the name of the method of `.at[]` that applies it.
        associative: False where the order of applications matters.
        nin: how many operands it takes.
    """

    def make(func: Callable[P, R]) -> ufunc[P, R]:
        return ufunc(
            func,
            nin,
            1,
            identity=identity,
            reduce=reduce,
            accumulate=accumulate,
            at=at,
            associative=associative,
        )

    return make


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc[..., Any]:
    """Makes a universal function of a function of numbers.

    Args:
        func: takes `nin` scalars and returns `nout`; it can be traced.
        nin, nout: the numbers of operands and results.
        identity: what changes nothing as one of two operands.

    Raises:
        TypeError: no function.
        ShapeError: numbers that are not positive.

    >>> import effx.numpy as enp
    >>> both = enp.frompyfunc(lambda x, y: 10 * x + y, 2, 1)
    >>> both.reduce(enp.array([1, 2, 3])).tolist(), both.outer(enp.array([1, 2]), 5).tolist()
    (123, [15, 25])
    """
    check_function(func)
    if nin < 1 or nout < 1:
        raise ShapeError(f"frompyfunc: takes at least one operand and result, got {nin} and {nout}")
    made = ufunc(vectorize(func), nin, nout, identity=identity)
    made._is_vectorized = True
    return made
