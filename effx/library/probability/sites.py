"""The two operations of probabilistic programs: `Sample` requests a value, `Given` has one.

A handler that chooses a value answers `Sample` by performing `Given`, the identity on the value. So outer
handlers see the value with its distribution: traces and densities have a rule for `Given` only, and need not
know which handler chose.

So NumPyro's order of handlers holds without its mutable messages.
"""

from typing import Any, cast, final

import attrs

import effx.numpy as enp
from effx import Array, tree
from effx.errors import ShapeError, TransformError
from effx.handling import (
    ArrayOperation,
    ArrayType,
    Label,
    array_type,
    jvp_rule,
    materialize,
    vmap_rule,
)
from effx.ir.values.array import Operand
from effx.library.probability.distributions import Distribution
from effx.library.visit_counts import is_name

__all__ = ["GIVEN", "SAMPLE", "Given", "Sample", "observe", "sample"]

SAMPLE = Label("sample")
GIVEN = Label("given", optional=True)


@final
@attrs.frozen
class Sample(ArrayOperation):
    """Requests a value of a distribution, whose parameters are the operands.

    Attributes:
        key: the site's name.
        structure: the distribution's, as a pytree.
    """

    key: str = attrs.field(validator=is_name)
    structure: tree.PyTreeDef
    effects = frozenset({SAMPLE})

    def infer(self, *types: ArrayType) -> ArrayType:
        """The draw's type."""
        kind = distribution(self.structure, [0] * len(types))
        shape = types[0].shape[: len(types[0].shape) - kind.event_axes]
        return array_type(enp.int32.dtype if kind.support == "label" else types[0].dtype, shape)


@final
@attrs.frozen
class Given(ArrayOperation):
    """The identity on a value that has a distribution. Operands: the value, a weight of its log density, parameters.

    Attributes:
        key: the site's name.
        structure: the distribution's, as a pytree.
        observed: True for data, False for a value that a handler chose.
    """

    key: str = attrs.field(validator=is_name)
    structure: tree.PyTreeDef
    observed: bool
    effects = frozenset({GIVEN})

    def infer(self, *types: ArrayType) -> ArrayType:
        """The value's type."""
        return types[0]

    def decompose(self, *operands: Any) -> Array:
        """The value."""
        result: Array = operands[0]
        return result


def distribution(structure: tree.PyTreeDef, parameters: Any) -> Distribution:
    """Rebuilds a distribution from its parameters, without their conversion."""
    return cast("Distribution", tree.unflatten(structure, parameters))


@jvp_rule(Sample)
def _(op: Sample, xs: tuple[Array, ...], dxs: tuple[Array | None, ...]) -> tuple[Array, None]:
    raise TransformError(
        f"sample: how {op.key!r} depends on its parameters is known once a value was chosen; differentiate outside of the "
        f"handler that chooses it, as in grad(seed(model, key))"
    )


@jvp_rule(Given)
def _(op: Given, xs: tuple[Array, ...], dxs: tuple[Array | None, ...]) -> tuple[Array, Array | None]:
    return op(*xs), dxs[0]


def batch_sample(
    handler: Any, op: Sample | Given, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[Array, int]:
    """The rule of `vmap`: the batch is one more axis of independent draws."""
    return op(*[materialize(handler, x, a) for x, a in zip(values, axes, strict=True)]), 0


vmap_rule(Sample)(batch_sample)
vmap_rule(Given)(batch_sample)


def sample(name: str, fn: Distribution, obs: Operand | None = None) -> Array:
    """Names a random value of a model.

    Under an inner `vmap`, batch elements draw separate values if the parameters are batched; else they share
    one.

    Args:
        name: of the site.
        fn: its distribution.
        obs: data, where the value was observed.

    Returns:
        The value that a handler chooses, or the data.

    Raises:
        TransformError: `fn` is no distribution, or the name no string.
        ShapeError: the data have another shape than draws, to which they do not broadcast.
        NoRuleError: no handler chooses a value.

    >>> from effx.library.probability import Normal
    >>> print(sample("y", Normal(0.0, 1.0), obs=2.0))
    2.0
    """
    if not isinstance(fn, Distribution):
        raise TransformError(f"sample: {name!r} needs a distribution, got {fn!r} of type {type(fn).__name__}")
    if obs is not None:
        return observe(name, fn, enp.asarray(obs))
    leaves, structure = tree.flatten(fn.expand(fn.shape))
    return Sample(name, structure)(*map(enp.asarray, leaves))


def observe(name: str, fn: Distribution, value: Array) -> Array:
    """Says that a value is data with a distribution."""
    shape = fn.shape
    try:
        full_shape = enp.broadcast_shapes(shape, value.shape)
    except ShapeError:
        full_shape = ()
    if full_shape != value.shape:
        raise ShapeError(f"sample: {name!r} has draws of shape {shape}, but the data are {value.type!r}")
    return perform_given(name, fn.expand(value.shape), value, observed=True)


def perform_given(name: str, fn: Distribution, value: Array, observed: bool) -> Array:
    """Performs `Given` with a weight of one."""
    parts, structure = tree.flatten(fn)
    leaves = [enp.asarray(x) for x in parts]
    return Given(name, structure, observed)(value, enp.ones(value.shape, leaves[0].dtype), *leaves)
