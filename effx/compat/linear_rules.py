"""Ways in which libraries write rules for derivatives: by the operand, and of primitives that are linear."""

from collections.abc import Sequence
from typing import NoReturn

from effx.array import Array
from effx.array.promotion import as_operand
from effx.compat.bound import Rule, arrays_of
from effx.compat.bound_rules import primitive_jvps, primitive_transposes
from effx.compat.defined import Primitive
from effx.compat.symbolic import (
    UndefinedPrimal,
    Zero,
    instantiate_zeros,
    is_undefined_primal,
    is_zero,
)
from effx.errors import CompatError, TransformError
from effx.tree.registry import PyTree

__all__ = [
    "add_tangents",
    "backward_pass",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "get_primitive_transpose",
    "linearize",
]


def add_tangents(x: "Array | Zero", y: "Array | Zero") -> "Array | Zero":
    """Returns the sum of two tangents, each possibly a `Zero`."""
    if isinstance(x, Zero):
        return y
    return x if isinstance(y, Zero) else x + y


def get_primitive_transpose(p: Primitive) -> Rule:
    """Returns the rule for transposition of a primitive.

    Raises:
        KeyError: it has none.
    """
    return primitive_transposes[p]


def deflinear(primitive: Primitive, transpose_rule: Rule) -> None:
    """Says that a primitive is linear in all operands together.

    Args:
        primitive: the primitive. transpose_rule: `(ct, **params) -> cotangents`, one for each operand.
    """
    deflinear2(primitive, lambda ct, /, *operands, **params: transpose_rule(ct, **params))


def deflinear2(primitive: Primitive, transpose_rule: Rule) -> None:
    """Says that a primitive is linear in all operands together.

    Args:
        primitive: the primitive.
        transpose_rule: `(ct, *operands, **params) -> cotangents`, where what is linear is an `UndefinedPrimal`.
    """

    def pushed(primals: Sequence[Array], tangents: Sequence[PyTree], /, **params: object) -> PyTree:
        y = primitive.bind(*primals, **params)
        if all([is_zero(t) for t in tangents]):
            return y, _zeros(primitive, y)
        return y, primitive.bind(*[instantiate_zeros(t) for t in tangents], **params)

    def pulled(ct: PyTree, /, *operands: PyTree, **params: object) -> PyTree:
        if all([is_zero(c) for c in (ct if primitive.multiple_results else [ct])]):
            return [None] * len(operands)
        return transpose_rule(ct, *operands, **params)

    primitive_jvps[primitive] = pushed
    primitive_transposes[primitive] = pulled


def _zeros(primitive: Primitive, y: PyTree) -> PyTree:
    results = [Zero(a.type.to_tangent_aval()) for a in arrays_of(primitive, "jvp", y)]
    return results if primitive.multiple_results else results[0]


def defjvp(primitive: Primitive, *jvprules: Rule | None) -> None:
    """Gives a primitive of one result a derivative, operand by operand.

    Args:
        primitive: the primitive.
        jvprules: for each operand `(tangent, *primals, **params) -> tangent of the result`; None for one that has none.

    Raises:
        TransformError: the primitive has several results.
    """
    defjvp2(primitive, *[None if rule is None else _without_result(rule) for rule in jvprules])


def _without_result(rule: Rule) -> Rule:
    return lambda g, y, /, *primals, **params: rule(g, *primals, **params)


def defjvp2(primitive: Primitive, *jvprules: Rule | None) -> None:
    """Gives a primitive of one result a derivative, operand by operand.

    Args:
        primitive: the primitive.
        jvprules: as for `defjvp`, but each takes the result in front of the primals.

    Raises:
        TransformError: the primitive has several results.
    """
    if primitive.multiple_results:
        raise TransformError(
            f"defjvp: {primitive.name} has several results; write its rule into jax.interpreters.ad.primitive_jvps"
        )

    def pushed(primals: Sequence[Array], tangents: Sequence[PyTree], /, **params: object) -> PyTree:
        if len(jvprules) != len(primals):
            raise TransformError(
                f"defjvp: {primitive.name} has rules for {len(jvprules)} operands, got {len(primals)}"
            )
        y = as_operand(primitive.bind(*primals, **params), primitive.name)
        dy: Array | Zero = Zero(y.type.to_tangent_aval())
        for rule, t in zip(jvprules, tangents, strict=True):
            if rule is not None and not is_zero(t):
                dy = add_tangents(dy, rule(t, y, *primals, **params))
        return y, dy

    primitive_jvps[primitive] = pushed


def defbilinear(prim: Primitive, lhs_rule: Rule, rhs_rule: Rule) -> None:
    """Says that a primitive is linear in each of two operands.

    Args:
        prim: the primitive.
        lhs_rule: `(ct, x, y, **params) -> cotangent of x`, where x is an `UndefinedPrimal`. rhs_rule: the same for y.
    """
    defjvp(
        prim,
        lambda g, x, y, /, **params: prim.bind(g, y, **params),
        lambda g, x, y, /, **params: prim.bind(x, g, **params),
    )

    def pulled(
        ct: PyTree, x: "Array | UndefinedPrimal", y: "Array | UndefinedPrimal", **params: object
    ) -> PyTree:
        if is_undefined_primal(x) and is_undefined_primal(y):
            raise TransformError(
                f"defbilinear: {prim.name} is transposed in both operands, and is linear in each alone"
            )
        if is_undefined_primal(x):
            return [lhs_rule(ct, x, y, **params), None]
        return [None, rhs_rule(ct, x, y, **params)]

    primitive_transposes[prim] = pulled


def linearize(*args: object, **kwargs: object) -> NoReturn:
    """Raises a CompatError: JAX's function is of its own trees and traces.

    Raises:
        CompatError: always.
    """
    raise CompatError("jax.interpreters.ad.linearize: takes values that only JAX has; use jax.linearize")


def backward_pass(*args: object, **kwargs: object) -> NoReturn:
    """Raises a CompatError: JAX's function is of its own trees and traces.

    Raises:
        CompatError: always.
    """
    raise CompatError(
        "jax.interpreters.ad.backward_pass: takes values that only JAX has; use jax.linear_transpose"
    )
