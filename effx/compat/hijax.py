"""`jax.experimental.hijax`: primitives that a library writes as a class, with their meaning and rules as methods.

One of arrays is a function with rules of its own for forward mode, reverse mode and batches, as `custom_jvp`,
`custom_vjp` and `custom_vmap` make them; handlers without a rule see its expansion. Types of a library's own have
values only where no handler is around: there a primitive is what it expands to, any Python object. Elsewhere effx's
values are arrays.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

from effx.array import Array
from effx.array.promotion import as_operand
from effx.compat.bound_rules import AxisData
from effx.compat.symbolic import Zero, instantiate_zeros, is_zero, zeros_like_aval
from effx.effects import current_frame
from effx.errors import NoRuleError, ShapeError, TransformError
from effx.ir.ops.custom import BackwardRule, BatchRule, CustomRules, JvpRule, VjpRule
from effx.ir.types import ArrayType
from effx.numpy import moveaxis
from effx.transforms.autodiff.core import linear_transpose
from effx.transforms.custom.invocation import Invocation, perform_custom
from effx.transforms.jit.make_jaxpr import typeof as type_of_array
from effx.transforms.jit.stages import ShapeDtypeStruct
from effx.tree.prefixes import flatten_up_to
from effx.tree.registry import PyTreeDef, flatten

__all__ = [
    "GradAccum", "HiPrim", "HiType", "NullAccum", "ValAccum", "jvp_from_lin", "register_hitype", "typeof", "vjp_from_jvp",
]  # fmt: skip


class HiType:
    """What types of a library's own derive from; see `register_hitype`."""


_types: dict[type, Callable[[Any], Any]] = {}


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], Any]) -> None:
    """Says of which type the values of a class are, for `jax.typeof`.

    Args:
        val_cls: the class. typeof_fn: gives the type of one of its values.
    """
    _types[val_cls] = typeof_fn


def typeof(x: Any) -> Any:
    """Returns the type of a value: of an array or number, or of a class that is registered by `register_hitype`.

    Raises:
        DTypeError: it is neither.

    >>> import effx.numpy as enp
    >>> typeof(enp.ones(3))
    f32[3]
    """
    entry = _types.get(type(x))
    return type_of_array(x) if entry is None else entry(x)


class GradAccum:
    """What `HiPrim.vjp_bwd` adds the cotangent of an operand to.

    Attributes:
        aval: the cotangent's type.
    """

    def __init__(self, aval: ArrayType) -> None:
        self.aval = aval


@final
class ValAccum(GradAccum):
    """One that keeps the sum."""

    def __init__(self, aval: ArrayType, val: Any = None) -> None:
        super().__init__(aval)
        self._sum = Zero(aval) if val is None else val

    def accum(self, x: Any) -> None:
        """Adds a cotangent."""
        if not is_zero(x):
            self._sum = x if isinstance(self._sum, Zero) else self._sum + x

    def freeze(self) -> Any:
        """Returns the sum, a `Zero` where there is none."""
        return self._sum


@final
class NullAccum(GradAccum):
    """An accumulator for an operand whose cotangent is not needed."""

    def accum(self, x: Any) -> None:
        """Forgets a cotangent."""


class HiPrim:
    """What primitives of a library's own derive from.

    Attributes:
        in_avals: the types of the arguments, a tuple of pytrees. out_aval: those of the result, a pytree.
        params: what else it takes, by name; they become attributes.
        effects: none.

    Raises:
        AttributeError: a subclass has not set one of the first three before it calls `__init__`.
        TransformError: it has effects, which in effx the class of an operation declares.
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Hashable]
    effects: frozenset[Any] = frozenset()

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(f"{type(self).__name__}: set self.{name} before HiPrim.__init__")
        if self.effects:
            raise TransformError(
                f"{type(self).__name__}: effx has effects by operation (effx.Operation, effx.Label)"
            )
        self.in_avals_flat, self.in_tree = flatten(self.in_avals)
        self.out_avals_flat, self.out_tree = flatten(self.out_aval)
        vars(self).update(self.params)
        self.check(*self.in_avals)

    def check(self, *arg_tys: Any) -> None:
        """Raises an error of the subclass's for types that do not fit; here none."""

    def expand(self, *args: Any) -> Any:
        """Performs the primitive by other operations."""
        raise self._lacks("expand", "to be performed")

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """Returns the result and its tangent; a tangent that is zero is a `Zero`."""
        raise self._lacks("jvp", "in forward mode")

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        """Returns the result and residuals for `linearized`; `nzs_in` marks the tangents that are not zero."""
        raise self._lacks("lin", "to be linearised")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """Returns the tangent of the result."""
        raise self._lacks("linearized", "to be linearised")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """Returns the result and residuals; `nzs_in` marks the operands that are differentiated."""
        raise self._lacks("vjp_fwd", "in reverse mode")

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """Returns the cotangents of the operands."""
        raise self._lacks("vjp_bwd_retval", "in reverse mode")

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> Any:
        """Adds the cotangents to those of the operands."""
        operand_cotangents = flatten_up_to(self.in_tree, self.vjp_bwd_retval(res, outgrad))
        for accum, ct in zip(flatten(arg_accums)[0], operand_cotangents, strict=True):
            if not is_zero(ct):
                accum.accum(ct)

    def batch(self, axis_data: AxisData, args: Any, dims: Any) -> Any:
        """Returns the results for a batch, and their batch axes.

        Args:
            axis_data: the batch's size; its name is None, which no collective takes.
            args: the operands. dims: their batch axes, 0 or None.
        """
        raise self._lacks("batch", "under vmap")

    def __call__(self, *args: Any) -> Any:
        """Performs the primitive.

        Raises:
            TransformError: an argument is not of its type; it is of a library's own where a handler is around; or there
                the class has a rule that effx does not support.
        """
        name = type(self).__name__
        leaves, tree = flatten(args)
        if tree != self.in_tree:
            raise TransformError(f"{name}: takes {self.in_tree}, got {tree}")
        known = current_frame() is None
        if not all([isinstance(t, ArrayType) for t in (*self.in_avals_flat, *self.out_avals_flat)]):
            if not known:
                raise TransformError(
                    f"{name}: values of types of a library's own (jax.experimental.hijax) are none of effx's under a "
                    f"transformation; write an operation or a handler (effx.handling)"
                )
            return self._expanded(*args)
        for x, t in zip(leaves, self.in_avals_flat, strict=True):
            self._fits("takes", as_operand(x, name).type, t)
        if known:
            return self._expanded(*args)
        odd = [n for n in _WITHOUT_PLACE if hasattr(type(self), n)]
        if odd:
            raise TransformError(f"{name}: effx has no place for the rule {odd[0]} of a HiPrim")
        call = Invocation("HiPrim", self._expanded, args, ())
        call.name = name
        return perform_custom(call, self._rules(call))

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple(self.params.items()), self.effects))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HiPrim) and type(self) is type(other) and self.params == other.params

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{' '.join([f'{k}={v!r}' for k, v in self.params.items()])}]"

    def _lacks(self, rule: str, where: str) -> NoRuleError:
        return NoRuleError(f"{type(self).__name__}: a HiPrim needs a method {rule} {where}")

    def _has(self, rule: str) -> bool:
        return getattr(type(self), rule) is not getattr(HiPrim, rule)

    def _fits(self, message_start: str, actual: ArrayType, expected: ArrayType) -> None:
        if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
            raise ShapeError(f"{type(self).__name__}: {message_start} {expected!r}, got {actual!r}")

    def _expanded(self, *args: Any) -> Any:
        return self._result("expand", self.expand(*args))

    def _result(self, rule: str, results: Any) -> Any:
        """Checks the structure and the types of a result."""
        leaves, tree = flatten(results)
        if tree != self.out_tree:
            raise TransformError(f"{type(self).__name__}: {rule} must give {self.out_tree}, got {tree}")
        for y, t in zip(leaves, self.out_avals_flat, strict=True):
            if isinstance(t, ArrayType):
                self._fits(f"{rule} must give", as_operand(y, type(self).__name__).type, t)
        return results

    # Rules, of flat lists of arrays

    def _rules(self, call: Invocation) -> CustomRules:
        forward = self._has("jvp") or self._has("lin")
        reverse = self._has("vjp_fwd") and type(self).vjp_fwd is not vjp_from_jvp[0]
        return CustomRules(
            "HiPrim",
            type(self).__name__,
            self._forward(call) if forward else None,
            self._reverse(call) if reverse else None,
            self._batched(call) if self._has("batch") else None,
        )

    def _forward(self, call: Invocation) -> JvpRule:
        rule = self.jvp if self._has("jvp") else lambda xs, dxs: jvp_from_lin(self, xs, dxs)

        def forward(
            constants: Sequence[Array], primals: Sequence[Array], tangents: Sequence[Array | None]
        ) -> tuple[list[Array], list[Array | None]]:
            moved = [_zero(x.type) if t is None else t for x, t in zip(primals, tangents, strict=True)]
            with call.substitute_constants(constants) as settled:
                out, dout = rule(self.in_tree.unflatten(primals), self.in_tree.unflatten(moved))
                ys = [settled(y) for y in call.flatten_outputs("jvp", out, "a result")]
                tangent_leaves = flatten_up_to(self.out_tree, dout)
                dys = [None if is_zero(t) else settled(as_operand(t, call.name)) for t in tangent_leaves]
            for dy, y in zip(dys, ys, strict=True):
                if dy is not None:
                    self._fits("jvp must give a tangent", dy.type, y.type)
            return ys, dys

        return forward

    def _reverse(self, call: Invocation) -> VjpRule:
        def fwd(
            constants: Sequence[Array], primals: Sequence[Array], perturbed: Sequence[bool]
        ) -> tuple[list[Array], list[Array], BackwardRule]:
            with call.substitute_constants(constants) as settled:
                nonzero = self.in_tree.unflatten(perturbed)
                out, residuals, *rest = self.vjp_fwd(nonzero, *self.in_tree.unflatten(primals))
                ys = [settled(y) for y in call.flatten_outputs("vjp_fwd", out, "a result")]
                residual_leaves, tree = flatten((residuals, *rest[1:]))
                residual_leaves = [settled(x) for x in residual_leaves]
            array_positions = [i for i, x in enumerate(residual_leaves) if isinstance(x, Array)]
            back = _Backward(self, call, list(residual_leaves), array_positions, tree, list(perturbed))
            return (
                ys,
                [*[residual_leaves[i] for i in array_positions], *call.backward_constants(constants)],
                back,
            )

        return fwd

    def _batched(self, call: Invocation) -> BatchRule:
        def batched(
            size: int, constants: Sequence[Array], values: Sequence[Array], flags: Sequence[bool]
        ) -> tuple[list[Array], list[bool]]:
            dims = self.in_tree.unflatten([0 if b else None for b in flags])
            with call.substitute_constants(constants) as settled:
                batched_results, axes = self.batch(AxisData(None, size), self.in_tree.unflatten(values), dims)
                ys = [
                    settled(as_operand(y, call.name)) for y in flatten_up_to(self.out_tree, batched_results)
                ]
            at = flatten_up_to(self.out_tree, axes)
            ys = [y if a is None else moveaxis(y, a, 0) for y, a in zip(ys, at, strict=True)]
            call.out_tree = self.out_tree
            for y, a, t in zip(ys, at, self.out_avals_flat, strict=True):
                self._fits("batch must give", y.type, t if a is None else t.with_shape((size, *t.shape)))
            return ys, [a is not None for a in at]

        return batched


# Other methods that a HiPrim may have in JAX, called by a trace of JAX's.
_WITHOUT_PLACE = ("transpose", "staging", "remat", "dce", "physicalize")


@final
class _Backward:
    """The way back of one call: from residuals and the result's cotangents to those of the operands."""

    def __init__(
        self,
        prim: HiPrim,
        call: Invocation,
        residual_leaves: list[Any],
        array_positions: list[int],
        tree: PyTreeDef,
        perturbed: list[bool],
    ) -> None:
        self.prim, self.call, self.places, self.tree, self.perturbed = (
            prim,
            call,
            array_positions,
            tree,
            perturbed,
        )
        self.kept = [None if i in array_positions else x for i, x in enumerate(residual_leaves)]

    def __call__(self, residuals: Sequence[Array], cts: Sequence[Array | None]) -> Sequence[Array | None]:
        prim, known = self.prim, list(self.kept)
        for i, x in zip(self.places, residuals[: len(self.places)], strict=True):
            known[i] = x
        types = [t.to_tangent_aval() for t in prim.out_avals_flat]
        ct = prim.out_tree.unflatten(
            [zeros_like_aval(t) if g is None else g for g, t in zip(cts, types, strict=True)]
        )
        accums = [
            (ValAccum if p else NullAccum)(t.to_tangent_aval())
            for p, t in zip(self.perturbed, prim.in_avals_flat, strict=True)
        ]
        with self.call.substitute_constants(
            self.call.restore_constants(residuals[len(self.places) :])
        ) as settled:
            log = prim.vjp_bwd(*self.tree.unflatten(known), ct, *prim.in_tree.unflatten(accums))
            results: list[Any] = [a.freeze() if isinstance(a, ValAccum) else None for a in accums]
            if log:
                raise TransformError(f"{self.call.name}: effx has no place for what vjp_bwd logs")
            return [None if is_zero(g) else settled(as_operand(g, self.call.name)) for g in results]


def _zero(t: ArrayType) -> Zero:
    return Zero(t.to_tangent_aval())


def jvp_from_lin(self: HiPrim, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Forward mode by `lin` and `linearized`: `jvp = jvp_from_lin` in a class of primitives."""
    nonzero = [not is_zero(t) for t in flatten_up_to(self.in_tree, tangents)]
    out, residuals, *rest = self.lin(self.in_tree.unflatten(nonzero), *primals)
    return out, self.linearized(residuals, *rest[1:], *tangents)


def _fwd_from_jvp(self: HiPrim, nzs_in: Any, /, *primals: Any) -> tuple[Any, Any]:
    return self(*primals), (primals, nzs_in)


def _bwd_from_jvp(self: HiPrim, res: Any, outgrad: Any, /) -> Any:
    primals, nzs_in = res
    nonzero = flatten(nzs_in)[0]

    def tangents(*tangent_operands: Any) -> list[Any]:
        rest = iter(tangent_operands)
        all_of_them = [
            next(rest) if n else _zero(t) for n, t in zip(nonzero, self.in_avals_flat, strict=True)
        ]
        tangent_leaves = flatten_up_to(
            self.out_tree, self.jvp(primals, self.in_tree.unflatten(all_of_them))[1]
        )
        return [instantiate_zeros(t) for t in tangent_leaves]

    types = [
        ShapeDtypeStruct(t.shape, t.dtype) for t, n in zip(self.in_avals_flat, nonzero, strict=True) if n
    ]
    cts = iter(linear_transpose(tangents, *types)(flatten_up_to(self.out_tree, outgrad)))
    return self.in_tree.unflatten(
        [next(cts) if n else _zero(t) for n, t in zip(nonzero, self.in_avals_flat, strict=True)]
    )


vjp_from_jvp = (_fwd_from_jvp, _bwd_from_jvp)
"""Reverse mode by `jvp`: `vjp_fwd, vjp_bwd_retval = vjp_from_jvp` in a class of primitives."""
