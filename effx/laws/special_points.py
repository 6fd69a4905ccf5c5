"""Operands at which rules go wrong: equal elements, zeros and whole numbers, infinities.

What is drawn from a domain is generic. These are the others, as far as an operation is defined there.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from effx.array import Array
from effx.ir.ops.base import Elementwise, PiecewiseConstant
from effx.ir.ops.elementwise import Sign
from effx.laws.comparing import Data, comparable_data, leaves
from effx.laws.drawing import AnyOperation
from effx.laws.instances import Instance
from effx.laws.samples import sample_of
from effx.numpy import asarray

Operands = tuple[Array, ...]
STEPS = (0.0, 1.0, -1.0, 0.5, 2.0, -0.5)
STEPPED = (
    PiecewiseConstant,
    Sign,
)  # no slope is infinite at their steps, so that derivatives are defined there too
INFINITE = (np.inf, -np.inf)


def smooth_points(instance: Instance) -> list[Operands]:
    """Returns operands in an operation's domain: two generic points, one with equal elements, one with zeros."""
    generic = instance.operands(0)
    results = [generic, instance.operands(1)]
    if _may_repeat(instance):
        results.append(tuple([_repeat(x) for x in generic]))
        equal = _equal_operands(instance, generic)
        results += [equal] if equal is not None else []
    zeroed = [_set_zeros(x) if _contains_zero(instance, i) else x for i, x in enumerate(generic)]
    if any([a is not b for a, b in zip(zeroed, generic, strict=True)]):
        results.append(tuple(zeroed))
    return [*results, *rough_points(instance)] if isinstance(instance.op, STEPPED) else results


def finite_points(instance: Instance) -> list[Operands]:
    """Returns all points of an instance without infinities."""
    smooth = smooth_points(instance)
    return smooth if isinstance(instance.op, STEPPED) else [*smooth, *rough_points(instance)]


def rough_points(instance: Instance) -> list[Operands]:
    """Returns operands outside of a smooth domain: zeros of elementwise operations, whole numbers and halves."""
    if not _has_edges(instance):
        return []
    return [xs for xs in _fill(instance, STEPS) if xs is not None]


def infinite_points(instance: Instance) -> list[Operands]:
    """Returns operands with infinities, where the results are defined."""
    if not isinstance(instance.op, Elementwise):
        if not _may_repeat(instance):
            return []  # matrices, say, that must be regular
        return [xs for value in INFINITE if (xs := _replace_first(instance, value)) is not None]
    return [xs for xs in _fill(instance, INFINITE) if xs is not None] if _has_edges(instance) else []


def is_undefined(results: Sequence[Array]) -> bool:
    """Says whether a result has NaN."""
    return any([bool(np.isnan(comparable_data(y)).any()) for y in results if y.type.kind in "fc"])


def _has_edges(instance: Instance) -> bool:
    """Says whether an elementwise operation takes zeros, whole numbers and infinities, by its sample."""
    return isinstance(instance.op, Elementwise) and sample_of(type(instance.op)).edges


def _may_repeat(instance: Instance) -> bool:
    """Says whether operands with equal elements are in the domain: of elementwise operations, or from intervals."""
    return isinstance(instance.op, Elementwise) or not any(
        [callable(instance.domain_of(i)) for i, t in enumerate(instance.types) if t.kind in "fc"]
    )


def _repeat(x: Array) -> Array:
    """Returns an array whose elements are two of its own, in an order that repeats both."""
    data = np.asarray(x)
    if data.size < 3:
        return x
    flat = data.ravel()
    which = np.resize([0, 1, 1, 0, 0], flat.shape)
    return asarray(flat[which].reshape(data.shape), x.dtype)


def _equal_operands(instance: Instance, generic: Operands) -> Operands | None:
    """Returns operands of which those of one type and domain are equal; None if there are none."""
    results = list(generic)
    for i in range(1, len(generic)):
        if instance.types[i] == instance.types[0] and instance.domain_of(i) is instance.domain_of(0):
            results[i] = results[0]
    return None if all([a is b for a, b in zip(results, generic, strict=True)]) else tuple(results)


def _contains_zero(instance: Instance, index: int) -> bool:
    """Says whether zero is inside the domain of an operand."""
    domain = instance.domain_of(index)
    return not callable(domain) and domain[0] < 0.0 < domain[1] and instance.types[index].kind in "fc"


def _set_zeros(x: Array) -> Array:
    """Returns an array with zeros for every second element."""
    data = np.asarray(x).copy()
    data.reshape(-1)[::2] = 0
    return asarray(data, x.dtype)


def _fill(instance: Instance, values: Sequence[float]) -> Iterator[Operands | None]:
    """Yields operands with these values for elements, generic ones where the result would be undefined."""
    generic = instance.operands(0)
    floats = [i for i, t in enumerate(instance.types) if t.kind == "f" and t.size]
    for i in floats:
        data = np.asarray(generic[i])
        if data.ndim:
            filled = list(generic)
            filled[i] = asarray(np.resize(values, data.shape), generic[i].dtype)
            yield _defined_operands(instance, filled, generic)
        else:
            for value in values:
                yield _defined_operands(
                    instance, [*generic[:i], asarray(value, generic[i].dtype), *generic[i + 1 :]], generic
                )
    if len(floats) > 1 and all([instance.types[i].ndim for i in floats]):
        shifted = list(generic)
        for i in floats:
            shape = generic[i].shape
            shifted[i] = asarray(np.resize(np.roll(values, i * (len(values) // 2)), shape), generic[i].dtype)
        yield _defined_operands(instance, shifted, generic)


def _replace_first(instance: Instance, value: float) -> Operands | None:
    """Returns operands with a value for the first element of the first array of floats, if the result is defined."""
    generic = instance.operands(0)
    for i, t in enumerate(instance.types):
        if t.kind == "f" and t.size:
            data = np.asarray(generic[i]).copy()
            data.reshape(-1)[0] = value
            changed = [*generic[:i], asarray(data, t.dtype), *generic[i + 1 :]]
            return _defined_operands(instance, changed, generic)
    return None


def results_of(op: AnyOperation, operands: Sequence[Array]) -> list[Array]:
    """Performs an operation and returns its results as a list."""
    return leaves(op(*operands))


def _defined_operands(instance: Instance, changed: Sequence[Array], generic: Operands) -> Operands | None:
    """Returns the changed operands, generic elements again where a result is NaN; None if nothing remains changed."""
    results = results_of(instance.op, changed)
    if not is_undefined(results):
        return tuple(changed)
    if not isinstance(instance.op, Elementwise) or len(results) != 1:
        return None
    undefined = np.isnan(comparable_data(results[0]))
    restored: list[Array] = []
    for x, y in zip(changed, generic, strict=True):
        data: Data = np.asarray(x)
        keep = (
            x if data.shape != undefined.shape else asarray(np.where(undefined, np.asarray(y), data), x.dtype)
        )
        restored.append(keep)
    if undefined.all() or is_undefined(results_of(instance.op, restored)):
        return None
    return tuple(restored)
