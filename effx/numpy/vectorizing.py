"""`vectorize`: functions of core dimensions become functions that broadcast over all dimensions before them."""

import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import cast

from effx.array import Array
from effx.array.promotion import as_operand, broadcast_shapes, check_rank_promotion
from effx.array.shaping import reshape
from effx.errors import ShapeError, TransformError, check_function
from effx.tracing.arguments import callable_name
from effx.tracing.wrapping import wraps
from effx.transforms.maps.vmap import vmap
from effx.tree.registry import PyTree

__all__ = ["vectorize"]

Core = tuple[str, ...]

_NAME = r"\w+"
_CORE = rf"\((?:{_NAME}(?:,{_NAME})*,?)?\)"
_SIGNATURE = re.compile(rf"^{_CORE}(?:,{_CORE})*->{_CORE}(?:,{_CORE})*$")


def _parse_signature(signature: str) -> tuple[list[Core], list[Core]]:
    text = re.sub(r"\s+", "", signature)
    if not _SIGNATURE.match(text):
        raise TransformError(f"vectorize: the signature must look like '(n,m),(m)->(n)', got {signature!r}")
    ins, outs = [
        [tuple(re.findall(_NAME, core)) for core in re.findall(_CORE, side)] for side in text.split("->")
    ]
    return ins, outs


def vectorize(
    pyfunc: Callable[..., PyTree] | None = None,
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., PyTree]:
    """Makes a function of core dimensions broadcast over leading ones, as NumPy's generalised ufuncs do.

    Args:
        pyfunc: of arrays with the core dimensions, scalars without a signature; then results may have any dimensions.
            Without it, `vectorize(...)` is a decorator.
        excluded: positions and names of arguments that are passed unchanged. Without a signature, so is None.
        signature: core dimensions of arguments and results, such as `"(n,m),(m)->(n)"`; the sizes of
            equal names agree.

    Returns:
        A function of arrays of shape `[*batch, *core]`, whose batches broadcast; keyword arguments are passed
        unchanged.

    Raises:
        ShapeError: an argument has too few dimensions, core sizes differ, or batches do not broadcast, or differ in
            rank while `numpy_rank_promotion` is "raise".
        TransformError: the signature is malformed, or its number of arguments or results does not fit.

    >>> import effx.numpy as enp
    >>> @enp.vectorize(signature="(n,m),(m)->(n)")
    ... def matrix_vector_product(matrix, vector):
    ...     return matrix @ vector
    >>> matrix_vector_product(enp.ones((2, 3)), enp.ones((4, 3))).shape
    (4, 2)
    """
    if pyfunc is None:
        return partial(vectorize, excluded=excluded, signature=signature)
    check_function(pyfunc)
    for item in excluded:
        if type(item) is not str and (type(item) is not int or item < 0):
            raise TransformError(f"vectorize: excluded must hold positions from 0 and names, got {item!r}")
    cores = None if signature is None else _parse_signature(signature)
    about = (
        f"on vectorized function with excluded={set(excluded) or 'frozenset()'} and signature={signature!r}"
    )
    name = callable_name(pyfunc)

    @wraps(pyfunc)
    def vectorized(*args: PyTree, **kwargs: PyTree) -> PyTree:
        absent = [i for i, x in enumerate(args) if x is None and i not in excluded]
        if absent and cores is not None:
            raise ShapeError(
                f"vectorize: argument {absent[0]} of {name} is None, and has no core dimensions {about}"
            )
        argument_indices = [i for i in range(len(args)) if i not in excluded and i not in absent]
        arrays = [as_operand(args[i]) for i in argument_indices]
        ins: Sequence[Core] = [()] * len(argument_indices) if cores is None else cores[0]
        if len(ins) != len(argument_indices):
            raise TransformError(
                f"vectorize: the signature {signature!r} has {len(ins)} arguments, "
                f"{name} got {len(argument_indices)} that are not excluded"
            )
        sizes: dict[str, int] = {}
        batches: list[tuple[int, ...]] = []
        for x, core in zip(arrays, ins, strict=True):
            shape, n = x.type.shape, len(core)
            if len(shape) < n:
                raise ShapeError(
                    f"vectorize: input with shape {shape} does not have enough dimensions for all core "
                    f"dimensions {core} {about}"
                )
            batches.append(shape[: len(shape) - n])
            _bind_core_sizes(sizes, core, shape[len(shape) - n :], f"input with shape {shape}", about)
        check_rank_promotion([len(batch) for batch in batches], arrays)
        batch = broadcast_shapes(*batches) if batches else ()

        def core_function(*elements: Array) -> PyTree:
            inner = list(args)
            for i, x in zip(argument_indices, elements, strict=True):
                inner[i] = x
            result = pyfunc(*inner, **kwargs)
            _check_results(result, None if cores is None else cores[1], dict(sizes), about)
            return result

        # A batch axis of size 1 is dropped, so that the vmap at that level does not map the array.
        mapped: Callable[..., PyTree] = core_function
        ndim = len(batch)
        array_levels: list[list[int]] = []
        for k, (x, own) in enumerate(zip(arrays, batches, strict=True)):
            levels = [
                ndim - len(own) + i for i, n in enumerate(own) if n != 1 or batch[ndim - len(own) + i] == 1
            ]
            core_shape = x.type.shape[len(own) :]
            arrays[k] = reshape(x, (*[batch[i] for i in levels], *core_shape))
            array_levels.append(levels)
        for level in reversed(range(ndim)):
            axes = tuple([0 if level in levels else None for levels in array_levels])
            mapped = vmap(mapped, in_axes=axes, axis_size=batch[level])
        return mapped(*arrays)

    return vectorized


def _bind_core_sizes(sizes: dict[str, int], core: Core, shape: Sequence[int], value: str, about: str) -> None:
    for label, size in zip(core, shape, strict=True):
        known = sizes.setdefault(label, size)
        if known != size:
            raise ShapeError(f"vectorize: {value} has {label}={size}, which elsewhere is {known} {about}")


def _check_results(result: PyTree, outs: Sequence[Core] | None, sizes: dict[str, int], about: str) -> None:
    several = isinstance(result, tuple)
    results = list(result) if several else [result]
    if outs is None:  # results may have dimensions of their own
        return
    if len(outs) != len(results) or (len(outs) > 1 and not several):
        raise TransformError(f"vectorize: expected {len(outs)} results, got {len(results)} {about}")
    for y, core in zip(results, outs, strict=True):
        shape = as_operand(cast("Array", y)).type.shape
        if len(shape) != len(core):
            raise ShapeError(
                f"vectorize: result with shape {shape} does not have the core dimensions {core} {about}"
            )
        _bind_core_sizes(sizes, core, shape, f"result with shape {shape}", about)
