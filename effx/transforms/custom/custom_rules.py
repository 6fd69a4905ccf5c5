"""Adapt users' derivative rules to lists of arrays: prepare their arguments, and check their results."""

from collections.abc import Callable, Mapping, Sequence
from typing import final

from effx import dtypes
from effx.array import Array
from effx.array.promotion import as_operand, convert, zeros
from effx.errors import DTypeError, ShapeError, TransformError, TreeError
from effx.ir.ops.custom import BackwardRule, JvpRule, VjpRule
from effx.ir.types import ArrayType
from effx.ir.values.typed import Typed
from effx.tracing.arguments import callable_name
from effx.transforms.autodiff.core import float0_zeros
from effx.transforms.custom.invocation import Invocation, type_name
from effx.tree.prefixes import flatten_up_to
from effx.tree.registry import PyTree, flatten


@final
class SymbolicZero(Typed):
    """A tangent or cotangent that is known to be zero, for rules with `symbolic_zeros`.

    Attributes:
        type: the type of the zeros that it replaces; float0 is the dtype of integers' tangents.

    >>> import effx, effx.numpy as enp
    >>> SymbolicZero(effx.typeof(enp.ones(3)))
    SymbolicZero(float32[3])
    """

    __slots__ = ("type",)

    def __init__(self, aval: ArrayType) -> None:
        self.type = aval

    @staticmethod
    def from_primal_value(val: PyTree) -> "SymbolicZero":
        """Returns the zero tangent of an array or a number.

        Raises:
            DTypeError: `val` is neither.

        >>> SymbolicZero.from_primal_value(1.5), SymbolicZero.from_primal_value(2)
        (SymbolicZero(float32[]), SymbolicZero(float0[]))
        """
        return SymbolicZero(as_operand(val).type.to_tangent_aval())

    @property
    def aval(self) -> ArrayType:
        """Its type."""
        return self.type

    @property
    def weak_type(self) -> bool:
        """Whether the zeros have a weak type."""
        return self.type.weak

    def __repr__(self) -> str:
        name = "float0" if self.dtype == dtypes.float0 else str(self.dtype)
        return f"SymbolicZero({name}[{','.join(map(str, self.shape))}])"


@final
class CustomVJPPrimal:
    """A leaf of the arguments of a `fwd` with `symbolic_zeros`.

    Attributes:
        value: the array.
        perturbed: whether it is differentiated by.

    >>> import effx
    >>> f = effx.custom_vjp(lambda x, y: x * y)
    >>> def fwd(x, y):
    ...     print(x.perturbed, y.perturbed)
    ...     return x.value * y.value, y.value
    >>> f.defvjp(fwd, lambda y, ct: (ct * y, None), symbolic_zeros=True)
    >>> print(effx.grad(f)(2.0, 3.0))
    True False
    3.0
    """

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Array, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal({self.value!r}, perturbed={self.perturbed})"


def custom_vjp_primal_tree_values(tree: PyTree) -> PyTree:
    """Returns the values in the arguments of a `fwd` with `symbolic_zeros`.

    Args:
        tree: a pytree whose leaves are `CustomVJPPrimal`.

    Raises:
        TransformError: a leaf is no `CustomVJPPrimal`.

    >>> custom_vjp_primal_tree_values({"a": CustomVJPPrimal(as_operand(1.5), perturbed=True)})
    {'a': Array(1.5, dtype=float32, weak_type=True)}
    """
    leaves, structure = flatten(tree)
    for x in leaves:
        if type(x) is not CustomVJPPrimal:
            raise TransformError(
                f"custom_vjp_primal_tree_values: leaves must be of type CustomVJPPrimal, got {x!r} of type "
                f"{type(x).__name__}"
            )
    return structure.unflatten([x.value for x in leaves])


def zero_tangent(t: ArrayType, symbolic: bool) -> PyTree:
    """Returns the zero tangent that a rule receives: symbolic or an array."""
    if symbolic:
        return SymbolicZero(t.to_tangent_aval())
    return zeros(t) if t.kind in "fc" else float0_zeros(t)


def zero_from_primal(val: PyTree, symbolic_zeros: bool = False) -> PyTree:
    """Returns the zero tangents of values.

    Args:
        val: a pytree of arrays and numbers.
        symbolic_zeros: True to get a `SymbolicZero` for each; otherwise zeros, NumPy arrays of float0 for integers.

    Raises:
        DTypeError: a leaf is neither.

    >>> print(zero_from_primal({"a": 1.5}), zero_from_primal([1], symbolic_zeros=True))
    {'a': Array(0., dtype=float32, weak_type=True)} [SymbolicZero(float0[])]
    """
    leaves, tree = flatten(val)
    return tree.unflatten([zero_tangent(as_operand(x).type, symbolic_zeros) for x in leaves])


def _check_tangent(function_name: str, where: str, x: PyTree, t: ArrayType, of: str) -> Array | None:
    """Returns a tangent from a rule's result, in its primal's dtype; None for zero.

    Raises:
        ShapeError, DTypeError: its shape or dtype does not match.
    """
    if x is None:
        return None
    if type(x) is SymbolicZero:
        if x.shape != t.shape:
            raise ShapeError(f"{function_name}: {where} is {x!r}, but {of} is {t!r}; their shapes must agree")
        return None
    if getattr(x, "dtype", None) == dtypes.float0:
        if t.kind in "fc":
            raise DTypeError(f"{function_name}: {where} has dtype float0, but {of} is {t!r}")
        return None
    try:
        tangent = as_operand(x, function_name)
    except DTypeError:
        raise DTypeError(
            f"{function_name}: {where} must be an array, got {x!r} of type {type(x).__name__}"
        ) from None
    if t.kind not in "fc":
        raise DTypeError(
            f"{function_name}: {where} is {tangent.type!r}, but {of} is {t!r}, whose derivative has dtype float0 or is None"
        )
    if tangent.type.shape != t.shape:
        raise ShapeError(
            f"{function_name}: {where} is {tangent.type!r}, but {of} is {t!r}; their shapes must agree"
        )
    if tangent.type.dtype != t.dtype and not tangent.type.weak:
        raise DTypeError(
            f"{function_name}: {where} is {tangent.type!r}, but {of} is {t!r}; their dtypes must agree"
        )
    return convert(tangent, t.dtype, t.weak)


def _convert_cotangent(ct: PyTree, t: ArrayType) -> PyTree:
    """Returns a cotangent in its primal's dtype, if that only changes its precision, as bf16 and f32 differ."""
    dtype = getattr(ct, "dtype", None)
    if not isinstance(ct, Array) or dtype == t.dtype:
        return ct
    is_narrower_kind = ct.type.kind in "biu" or (ct.type.kind, t.kind) in (("f", "f"), ("c", "c"), ("f", "c"))
    return convert(ct, t.dtype, t.weak) if is_narrower_kind else ct


def check_pair(function_name: str, rule: str, parts: str, result: object) -> tuple[PyTree, PyTree]:
    if not isinstance(result, tuple | list) or len(result) != 2:
        got = f"{len(result)} values" if isinstance(result, tuple | list) else type_name(result)
        raise TransformError(f"{function_name}: {rule} must return a pair {parts}, got {got}")
    return result[0], result[1]


@final
class ForwardRule:
    """A user's forward-mode rule."""

    def __init__(self, rule: Callable[..., PyTree], symbolic_zeros: bool) -> None:
        self.rule, self.symbolic = rule, symbolic_zeros
        self.name = callable_name(rule)
        self.details: Mapping[str, object] = {"jvp": self.name, "symbolic_zeros": symbolic_zeros}

    def __reaches__(self) -> dict[str, object]:
        """Returns the parts of the rule that belong to its key on disk."""
        return {"rule": self.rule, "symbolic": self.symbolic}

    def bind_call(self, call: Invocation) -> JvpRule:
        """Returns the rule for one call, as a function of lists of arrays."""

        def jvp(
            constants: Sequence[Array], primals: Sequence[Array], tangents: Sequence[Array | None]
        ) -> tuple[list[Array], list[Array | None]]:
            tangent_leaves = [
                zero_tangent(x.type, self.symbolic) if t is None else t
                for x, t in zip(primals, tangents, strict=True)
            ]
            with call.substitute_constants(constants) as substitute:
                result = self.rule(
                    *call.nondiff_arguments(constants),
                    call.in_tree.unflatten(primals),
                    call.in_tree.unflatten(tangent_leaves),
                )
                out, out_tangent = check_pair(
                    call.transform_name, self.name, "(primal_out, tangent_out)", result
                )
                ys = [substitute(y) for y in call.flatten_outputs(self.name, out, "primal_out")]
                leaves, tree = flatten(out_tangent)
                leaves = [substitute(t) for t in leaves]
            if tree != call.out_tree:
                raise TreeError(
                    f"{call.transform_name}: {self.name} gives a primal_out of structure {call.out_tree} and a "
                    "tangent_out of "
                    f"structure {tree}; they must be the same"
                )
            dys: list[Array | None] = []
            for i, (dy, y) in enumerate(zip(leaves, ys, strict=True)):
                path = call.result_path(i)
                dys.append(
                    _check_tangent(
                        call.transform_name,
                        f"tangent_out{path} of {self.name}",
                        dy,
                        y.type,
                        f"primal_out{path}",
                    )
                )
            return ys, dys

        return jvp


@final
class ReverseRule:
    """A user's pair of reverse-mode rules."""

    def __init__(
        self, fwd: Callable[..., PyTree], bwd: Callable[..., PyTree], symbolic_zeros: bool, shares: bool
    ) -> None:
        self.fwd, self.bwd, self.symbolic, self.shares = fwd, bwd, symbolic_zeros, shares
        self.fwd_name, self.bwd_name = callable_name(fwd), callable_name(bwd)
        self.details: Mapping[str, object] = {
            "fwd": self.fwd_name, "bwd": self.bwd_name, "symbolic_zeros": symbolic_zeros,
        }  # fmt: skip

    def __reaches__(self) -> dict[str, object]:
        """Returns the parts of the rules that belong to their key on disk."""
        return {"fwd": self.fwd, "bwd": self.bwd, "symbolic": self.symbolic, "shares": self.shares}

    def bind_call(self, call: Invocation) -> VjpRule:
        """Returns the rules for one call, as functions of lists of arrays."""

        def vjp(
            constants: Sequence[Array], primals: Sequence[Array], perturbed: Sequence[bool]
        ) -> tuple[list[Array], list[Array], BackwardRule]:
            fwd_primals: Sequence[PyTree] = primals
            if self.symbolic:
                fwd_primals = [CustomVJPPrimal(x, p) for x, p in zip(primals, perturbed, strict=True)]
            with call.substitute_constants(constants) as substitute:
                result = self.fwd(*call.all_arguments(constants, fwd_primals))
                out, residual_tree = check_pair(
                    call.transform_name, self.fwd_name, "(primal_out, residuals)", result
                )
                ys = [substitute(y) for y in call.flatten_outputs(self.fwd_name, out, "primal_out")]
                leaves, tree = flatten(residual_tree)
                leaves = [substitute(x) for x in leaves]
            indices = [i for i, x in enumerate(leaves) if isinstance(x, Array)]
            boxes = call.backward_constants(constants)
            types = [y.type for y in ys]
            in_types = [x.type for x in primals]

            def backward(residuals: Sequence[Array], cts: Sequence[Array | None]) -> Sequence[Array | None]:
                known = list(leaves)
                for i, x in zip(indices, residuals[: len(indices)], strict=True):
                    known[i] = x
                ct = call.out_tree.unflatten(
                    [
                        zero_tangent(t, self.symbolic) if g is None else g
                        for g, t in zip(cts, types, strict=True)
                    ]
                )
                constants = call.restore_constants(residuals[len(indices) :])
                with call.substitute_constants(constants) as substitute:
                    result = self.bwd(*call.nondiff_arguments(constants), tree.unflatten(known), ct)
                    return [
                        x if x is None else substitute(x)
                        for x in self.flatten_cotangents(call, result, in_types)
                    ]

            residuals = [leaves[i] for i in indices]
            for i in indices:
                leaves[i] = None
            return ys, [*residuals, *boxes], backward

        return vjp

    def flatten_cotangents(
        self, call: Invocation, result: PyTree, types: Sequence[ArrayType]
    ) -> list[Array | None]:
        """Flattens and checks the backward rule's result; None means zero, also for whole subtrees."""
        transform_name, count = call.transform_name, len(call.active)
        if not isinstance(result, tuple | list):
            raise TreeError(
                f"{transform_name}: {self.bwd_name} must return a tuple with one cotangent for each of the {count} "
                f"differentiable arguments of {call.name}, got {type_name(result)}"
            )
        if len(result) != count:
            raise TreeError(
                f"{transform_name}: {self.bwd_name} must return one cotangent for each of the {count} "
                f"differentiable arguments of {call.name}, got {len(result)}"
            )
        leaves, tree = flatten(tuple(result))
        if tree != call.in_tree:
            leaves = self._expand_prefix(call, tuple(result), len(types))
        cts: list[Array | None] = []
        for i, (ct, t) in enumerate(zip(leaves, types, strict=True)):
            # The path is computed for errors only.
            if ct is None or (isinstance(ct, Array) and ct.type is t):
                cts.append(ct)
            elif t.kind not in "fc":
                cts.append(None)  # an argument without a derivative, whatever the rule gives
            else:
                where = f"the cotangent of argument {call.primal_path(i)} that {self.bwd_name} gives"
                cotangent = _convert_cotangent(ct, t)
                cts.append(
                    _check_tangent(transform_name, where, cotangent, t, f"the argument of {call.name}")
                )
        return cts

    def _expand_prefix(self, call: Invocation, result: tuple[PyTree, ...], count: int) -> list[PyTree]:
        """Flattens cotangents in which None stands for the zeros of a subtree, and an array for a subtree of one leaf."""
        leaves, tree = flatten(result, lambda x: x is None)
        expanded: list[PyTree] = []
        fits = True
        try:
            # Any leaf will do for the arguments'.
            parts = flatten_up_to(tree, call.in_tree.unflatten([0] * count))
        except TreeError:
            parts, fits = [], False
        for leaf, part in zip(leaves, parts, strict=False):
            below = flatten(part)[0]
            fits = fits and (leaf is None or len(below) == 1)
            expanded += [leaf] * len(below)
        if not fits:
            raise TreeError(
                f"{call.transform_name}: {self.bwd_name} gives cotangents of structure {flatten(result)[1]}, but the "
                f"differentiable arguments of {call.name} have the structure {call.in_tree}"
            )
        return expanded
