"""Users' derivative rules: `custom_jvp`, `custom_vjp`, `custom_gradient`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import (
    TYPE_CHECKING,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    final,
    overload,
)

from typing_extensions import TypeVarTuple, Unpack

from effx import dtypes
from effx.array import Array
from effx.array.promotion import as_operand
from effx.effects import current_frame
from effx.errors import RefGivenError, TransformError, UndefinedRuleError, check_function
from effx.handlers.staging.stage import run_program, stage
from effx.ir.ops.custom import CustomRules
from effx.ir.values.refs import ReferenceBase, has_refs
from effx.tracing.arguments import callable_name, flatten_output, function_signature
from effx.tracing.wrapping import update_wrapper
from effx.transforms.autodiff.core import float0_zeros
from effx.transforms.custom.custom_rules import (
    ForwardRule,
    ReverseRule,
    SymbolicZero,
    check_pair,
    zero_tangent,
)
from effx.transforms.custom.invocation import (
    Invocation,
    bind_positional_arguments,
    find_defining_method,
    nondiff_positions,
    perform_custom,
)
from effx.tree.mapping import map as tree_map
from effx.tree.partial import Partial
from effx.tree.registry import PyTree, flatten

if TYPE_CHECKING:
    from effx.tracing.signatures import Positional, PyTreeLike

__all__ = ["custom_gradient", "custom_jvp", "custom_vjp"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., PyTree])
A = TypeVar("A")
B = TypeVar("B")
D = TypeVar("D")
E = TypeVar("E")
Ts = TypeVarTuple("Ts")
# What a rule's argument may be: a pytree. At run time it is one of arrays, where the function's may be a number.
L1 = TypeVar("L1", bound="PyTreeLike")
L2 = TypeVar("L2", bound="PyTreeLike")
L3 = TypeVar("L3", bound="PyTreeLike")
Cotangents: TypeAlias = tuple[PyTree, ...] | list[PyTree]
"""What a backward rule returns: a cotangent for each argument."""
BackwardRuleOf: TypeAlias = (
    Callable[[S, R], Cotangents]
    | Callable[[PyTree, S, R], Cotangents]
    | Callable[[PyTree, PyTree, S, R], Cotangents]
    | Callable[[PyTree, PyTree, PyTree, S, R], Cotangents]
    | Callable[Concatenate[PyTree, PyTree, PyTree, PyTree, S, R, ...], Cotangents]
)
"""A backward rule by the types of residuals and result; it takes the arguments that are not differentiated by first."""


class _Custom(Generic[P, R]):
    """A function with derivative rules: the base of `custom_jvp` and `custom_vjp`.

    Attributes:
        fun: the function.
        nondiff_argnums: positions of the arguments that rules do not differentiate by.
    """

    transform_name = "custom"

    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        check_function(fun, what=self.transform_name)
        update_wrapper(self, fun)
        self.__name__ = callable_name(fun)
        self.fun = fun
        self.nondiff_argnums = nondiff_positions(
            self.transform_name,
            fun,
            _check_argnums(self.transform_name, nondiff_argnums),
            _check_argnames(self.transform_name, nondiff_argnames),
        )
        signature = function_signature(fun)
        parameters = () if signature is None else signature.parameters.values()
        self._by_name = any([p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters])
        self._forward: ForwardRule | None = None
        self._reverse: ReverseRule | None = None
        if isinstance(fun, _Custom):
            # One function with rules for both modes; each mode uses its own.
            if fun.nondiff_argnums != self.nondiff_argnums:
                raise TransformError(
                    f"{self.transform_name}: {fun.transform_name} of {self.__name__} has nondiff_argnums "
                    f"{fun.nondiff_argnums}, "
                    f"but {self.transform_name} has {self.nondiff_argnums}; they must be the same"
                )
            self._forward, self._reverse = fun._forward, fun._reverse
            self._inner: _Custom[P, R] | None = fun
            self.fun = fun.fun
        else:
            self._inner = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function; a handler that differentiates uses the rules."""
        forward, reverse = self._resolve_rules()
        if current_frame() is None and not kwargs and not self._by_name:
            return self.fun(*args, **kwargs)  # no handler uses the rules
        arguments = bind_positional_arguments(self.transform_name, self.fun, args, kwargs)
        call: Invocation | None = None
        try:
            call = Invocation(self.transform_name, self.fun, arguments, self.nondiff_argnums)
        except RefGivenError:
            if not has_refs(arguments):
                raise
        if call is None:
            return self._call_with_refs(forward, reverse, arguments)
        rules = CustomRules(
            self.transform_name,
            self.__name__,
            None if forward is None else forward.bind_call(call),
            None if reverse is None else reverse.bind_call(call),
            shares_results=reverse is not None and reverse.shares,
            details={
                **({} if reverse is None else reverse.details),
                **({} if forward is None else forward.details),
            },
        )
        result: R = perform_custom(call, rules)
        return result

    def _call_with_refs(
        self, forward: ForwardRule | None, reverse: ReverseRule | None, arguments: tuple[PyTree, ...]
    ) -> R:
        """Calls the function with rules that close over the references among the arguments."""
        from effx.transforms.refs.ref_arguments import (  # rare, and not loaded before
            close_over_refs,
            extract_refs,
            insert_refs,
        )

        inner, refs = extract_refs(arguments)
        residual_refs: list[ReferenceBase] = []

        def fwd(*args: PyTree) -> tuple[PyTree, PyTree]:
            assert reverse is not None
            result, residuals = check_pair(
                self.transform_name,
                reverse.fwd_name,
                "(result, residuals)",
                close_over_refs(reverse.fwd, refs)(*args),
            )
            residuals, residual_refs[:] = extract_refs(residuals)
            return result, residuals

        def bwd(*args: PyTree) -> PyTree:
            assert reverse is not None
            *nondiff, residuals, ct = args
            return reverse.bwd(*insert_refs(nondiff, refs), insert_refs(residuals, residual_refs), ct)

        wrapped = type(self)(close_over_refs(self.fun, refs), self.nondiff_argnums)
        if reverse is not None:
            fwd.__name__, bwd.__name__ = reverse.fwd_name, reverse.bwd_name
            wrapped._reverse = ReverseRule(fwd, bwd, reverse.symbolic, reverse.shares)
        if forward is not None:
            wrapped._forward = ForwardRule(close_over_refs(forward.rule, refs), forward.symbolic)
        call: Callable[..., R] = wrapped
        return call(*inner)

    if not TYPE_CHECKING:  # where it is a function with a batching rule inside that gets its rule

        def __getattr__(self, name: str) -> object:
            return find_defining_method(self, name)

    def __reaches__(self) -> dict[str, object]:
        """Returns the parts of the function that belong to its key on disk."""
        return {name: vars(self)[name] for name in _HASHED_FIELDS}

    def _resolve_rules(self) -> tuple[ForwardRule | None, ReverseRule | None]:
        """Returns the rules, including those that the inner function got later."""
        forward, reverse = self._forward, self._reverse
        if self._inner is not None:
            forward, reverse = forward or self._inner._forward, reverse or self._inner._reverse
        if forward is None and reverse is None:
            needed = "defjvp" if self.transform_name == "custom_jvp" else "defvjp"
            raise UndefinedRuleError(
                f"{self.transform_name}: {self.__name__} was called before its rule was defined with {needed}"
            )
        return forward, reverse

    # Usable as methods, as jitted functions are and jax's are not: `self` is a nondiff argument.
    @overload
    def __get__(self, instance: None, owner: object = None) -> "_Custom[P, R]": ...
    @overload
    def __get__(
        self: "_Custom[Concatenate[S, Q], R]", instance: S, owner: object = None
    ) -> Callable[Q, R]: ...
    def __get__(self, instance: object, owner: object = None) -> object:
        """Binds a method to its object, which must be among the nondiff arguments or a pytree."""
        function: Callable[..., R] = self
        return self if instance is None else partial(function, instance)

    @overload
    def defjvp(
        self: "Positional[A]",
        jvp: Callable[[tuple[PyTree], tuple[PyTree]], tuple[R, R]],
        symbolic_zeros: bool = False,
    ) -> Callable[[tuple[PyTree], tuple[PyTree]], tuple[R, R]]: ...
    @overload
    def defjvp(
        self: "Positional[A, B]",
        jvp: Callable[[tuple[PyTree, PyTree], tuple[PyTree, PyTree]], tuple[R, R]],
        symbolic_zeros: bool = False,
    ) -> Callable[[tuple[PyTree, PyTree], tuple[PyTree, PyTree]], tuple[R, R]]: ...
    @overload
    def defjvp(
        self: "Positional[A, B, D]",
        jvp: Callable[[tuple[PyTree, PyTree, PyTree], tuple[PyTree, PyTree, PyTree]], tuple[R, R]],
        symbolic_zeros: bool = False,
    ) -> Callable[[tuple[PyTree, PyTree, PyTree], tuple[PyTree, PyTree, PyTree]], tuple[R, R]]: ...
    @overload
    def defjvp(
        self: "Positional[A, B, D, E, Unpack[Ts]]",
        jvp: Callable[[tuple[PyTree, ...], tuple[PyTree, ...]], tuple[R, R]],
        symbolic_zeros: bool = False,
    ) -> Callable[[tuple[PyTree, ...], tuple[PyTree, ...]], tuple[R, R]]: ...
    @overload
    def defjvp(  # from here on with arguments that are not differentiated by
        self,
        jvp: Callable[[PyTree, tuple[PyTree, ...], tuple[PyTree, ...]], tuple[R, R]],
        symbolic_zeros: bool = False,
    ) -> Callable[[PyTree, tuple[PyTree, ...], tuple[PyTree, ...]], tuple[R, R]]: ...
    @overload
    def defjvp(
        self,
        jvp: Callable[[PyTree, PyTree, tuple[PyTree, ...], tuple[PyTree, ...]], tuple[R, R]],
        symbolic_zeros: bool = False,
    ) -> Callable[[PyTree, PyTree, tuple[PyTree, ...], tuple[PyTree, ...]], tuple[R, R]]: ...
    @overload
    def defjvp(
        self,
        jvp: Callable[[PyTree, PyTree, PyTree, tuple[PyTree, ...], tuple[PyTree, ...]], tuple[R, R]],
        symbolic_zeros: bool = False,
    ) -> Callable[[PyTree, PyTree, PyTree, tuple[PyTree, ...], tuple[PyTree, ...]], tuple[R, R]]: ...
    @overload
    def defjvp(
        self,
        jvp: Callable[Concatenate[PyTree, PyTree, PyTree, PyTree, PyTree, PyTree, Q], tuple[R, R]],
        symbolic_zeros: bool = False,
    ) -> Callable[Concatenate[PyTree, PyTree, PyTree, PyTree, PyTree, PyTree, Q], tuple[R, R]]: ...
    def defjvp(self, jvp: Callable[Q, tuple[R, R]], symbolic_zeros: bool = False) -> Callable[Q, tuple[R, R]]:
        """Sets the function's forward-mode rule, which serves reverse mode too if there is no reverse rule.

        Args:
            jvp: takes the nondiff arguments, then two tuples, of primals and of their tangents; returns a pair
                `(primal_out, tangent_out)` of equal structure, shapes and dtypes. Integers have tangents of
                dtype float0. The rule must be linear in the tangents.
            symbolic_zeros: True to get a `SymbolicZero` for tangents that are known to be zero, instead of zeros.

        Returns:
            The rule, so that this can be a decorator.
        """
        _check_rule(self.transform_name, "defjvp", jvp)
        self._forward = ForwardRule(jvp, symbolic_zeros)
        return jvp

    def defjvps(self, *jvps: Callable[..., PyTree] | None) -> None:
        """Sets the function's forward-mode rule as a sum of one rule for each argument.

        Args:
            jvps: each takes a tangent, the result and all primals, and returns the result's tangent; None for an
                argument that the result does not depend on.

        Raises:
            TransformError: the number of rules is not that of arguments, or the function has nondiff arguments.
        """
        if self.nondiff_argnums:
            raise TransformError(
                f"{self.transform_name}: defjvps of {self.__name__} cannot serve a function with nondiff_argnums; use defjvp"
            )
        for rule in jvps:
            if rule is not None:
                _check_rule(self.transform_name, "defjvps", rule)

        function: Callable[..., PyTree] = self

        def jvp(primals: tuple[PyTree, ...], tangents: tuple[PyTree, ...]) -> tuple[PyTree, PyTree]:
            if len(jvps) != len(primals):
                raise TransformError(
                    f"{self.transform_name}: defjvps of {self.__name__} got {len(jvps)} rules, but the function takes "
                    f"{len(primals)} arguments"
                )
            out = function(*primals)
            total: PyTree = None
            for rule, x, dx in zip(jvps, primals, tangents, strict=True):
                leaves, tree = flatten(dx)
                if rule is None or all([type(t) is SymbolicZero for t in leaves]):
                    continue
                tangent_leaves = [
                    zero_tangent(p.type, False) if type(t) is SymbolicZero else t
                    for t, p in zip(leaves, flatten(x)[0], strict=True)
                ]
                part = rule(tree.unflatten(tangent_leaves), out, *primals)
                total = part if total is None else tree_map(_add_tangents, total, part)
            return out, tree_map(
                lambda y: zero_tangent(as_operand(y).type, True), out
            ) if total is None else total

        jvp.__name__ = f"defjvps of {self.__name__}"
        count = _parameter_count(self.fun)
        if count is not None and count != len(jvps):
            raise TransformError(
                f"{self.transform_name}: defjvps of {self.__name__} got {len(jvps)} rules, but the function takes "
                f"{count} arguments"
            )
        self._forward = ForwardRule(jvp, True)

    @overload
    def defvjp(
        self: "Positional[Unpack[Ts]]",
        fwd: Callable[[Unpack[Ts]], tuple[R, S]],
        bwd: "BackwardRuleOf[S, R]",
        symbolic_zeros: Literal[False] = False,
        optimize_remat: bool = False,
        generic_batching: bool = False,
    ) -> None: ...
    @overload
    def defvjp(  # from here on for rules of arrays, where the function's arguments are annotated as numbers
        self: "Positional[A]",
        fwd: Callable[[L1], tuple[R, S]],
        bwd: "BackwardRuleOf[S, R]",
        symbolic_zeros: Literal[False] = False,
        optimize_remat: bool = False,
        generic_batching: bool = False,
    ) -> None: ...
    @overload
    def defvjp(
        self: "Positional[A, B]",
        fwd: Callable[[L1, L2], tuple[R, S]],
        bwd: "BackwardRuleOf[S, R]",
        symbolic_zeros: Literal[False] = False,
        optimize_remat: bool = False,
        generic_batching: bool = False,
    ) -> None: ...
    @overload
    def defvjp(
        self: "Positional[A, B, D]",
        fwd: Callable[[L1, L2, L3], tuple[R, S]],
        bwd: "BackwardRuleOf[S, R]",
        symbolic_zeros: Literal[False] = False,
        optimize_remat: bool = False,
        generic_batching: bool = False,
    ) -> None: ...
    @overload
    def defvjp(
        self: "Positional[A, B, D, E, Unpack[Ts]]",
        fwd: Callable[..., tuple[R, S]],
        bwd: "BackwardRuleOf[S, R]",
        symbolic_zeros: Literal[False] = False,
        optimize_remat: bool = False,
        generic_batching: bool = False,
    ) -> None: ...
    @overload
    def defvjp(  # cotangents of integers and symbolic zeros have other types than the results
        self,
        fwd: Callable[..., tuple[R, PyTree]],
        bwd: Callable[..., Cotangents],
        symbolic_zeros: Literal[True],
        optimize_remat: bool = False,
        generic_batching: bool = False,
    ) -> None: ...
    def defvjp(
        self,
        fwd: Callable[..., tuple[R, PyTree]],
        bwd: Callable[..., PyTree],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
        generic_batching: bool = False,
    ) -> None:
        """Sets the function's reverse-mode rules.

        Args:
            fwd: takes the function's arguments, returns `(result, residuals)`; residuals are any pytree.
            bwd: takes the nondiff arguments, the residuals, and a cotangent of the result's structure; returns
                a tuple with the cotangent of each other argument. None stands for zero, also for that of a
                whole argument or subtree, and for the cotangents of integers.
            symbolic_zeros: True to pass `fwd` each leaf of an argument as a `CustomVJPPrimal`, which says
                whether it is differentiated by, and `bwd` a `SymbolicZero` for cotangents that are zero.
            optimize_remat: without effect: compiled code computes no unused residuals.
            generic_batching: how `vmap` treats a result that all batch elements share. By default it gets a batch axis
                where it is differentiated, so that `out_axes=None` refuses it. True to keep it unbatched: `bwd` of the
                first batch element gets its cotangent, the others get zero; if `fwd` returns different values for the
                elements, the first is used. Without effect if there is a forward-mode rule too.
        """
        _check_rule(self.transform_name, "defvjp", fwd)
        _check_rule(self.transform_name, "defvjp", bwd)
        self._reverse = ReverseRule(fwd, bwd, symbolic_zeros, generic_batching)

    def defvjp_with_logs(
        self,
        fwd: Callable[..., tuple[R, PyTree]],
        bwd: Callable[..., tuple[Cotangents, dict[str, PyTree] | None]],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
        generic_batching: bool = False,
    ) -> None:
        """Sets the function's reverse-mode rules, of which the backward one also logs values.

        `f_vjp.with_logs(cotangent)` of `effx.vjp` gives them; without it they are dropped.

        Args:
            fwd, symbolic_zeros, optimize_remat, generic_batching: as for `defvjp`.
            bwd: as for `defvjp`, but returns a pair of the cotangents and of the logs: a dict from names to pytrees of
                arrays, or None.

        Raises:
            TransformError: in the backward pass, the rule returns no such pair.
        """
        _check_rule(self.transform_name, "defvjp_with_logs", fwd)
        _check_rule(self.transform_name, "defvjp_with_logs", bwd)
        self._reverse = ReverseRule(
            fwd,
            _log_in_backward(self.transform_name, callable_name(bwd), bwd),
            symbolic_zeros,
            generic_batching,
        )


def _log_in_backward(function_name: str, rule: str, bwd: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Returns a rule that logs the second part of what `bwd` returns, and returns the first."""

    def bwd_with_logs(*args: PyTree) -> PyTree:
        from effx.transforms.autodiff.backward_logs import log_backward  # rare, and not loaded before

        return log_backward(function_name, rule, bwd(*args))

    bwd_with_logs.__name__ = rule
    return bwd_with_logs


_HASHED_FIELDS = ("fun", "nondiff_argnums", "_by_name", "_forward", "_reverse", "_inner")


def _check_rule(function_name: str, method: str, rule: object) -> None:
    if not callable(rule):
        raise TransformError(
            f"{function_name}: {method} takes functions, got {rule!r} of type {type(rule).__name__}"
        )


def _check_argnums(function_name: str, nums: object) -> tuple[int, ...]:
    numbers = tuple(nums) if isinstance(nums, Sequence) else (nums,)
    if not all([isinstance(n, int) for n in numbers]):
        raise TransformError(
            f"{function_name}: nondiff_argnums must be an int or a sequence of ints, got {nums!r}"
        )
    return numbers


def _check_argnames(function_name: str, names: object) -> tuple[str, ...]:
    strings = (
        (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else (names,)
    )
    if not all([isinstance(n, str) for n in strings]):
        raise TransformError(
            f"{function_name}: nondiff_argnames must be a string or a sequence of strings, got {names!r}"
        )
    return strings


def _parameter_count(fun: Callable[..., object]) -> int | None:
    """Returns the number of a function's arguments; None if it is variable."""
    signature = function_signature(fun)
    if signature is None:
        return None
    parameters = signature.parameters.values()
    if any([p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY) for p in parameters]):
        return None
    return len(parameters)


def _add_tangents(x: PyTree, y: PyTree) -> PyTree:
    return x if getattr(y, "dtype", None) == dtypes.float0 else x + y


@final
class custom_jvp(_Custom[P, R]):
    """A function with a forward-mode rule of its own, used wherever it is differentiated.

    Args:
        fun: the function, of pytrees of arrays.
        nondiff_argnums, nondiff_argnames: arguments that are not differentiated by, of any type: the
            rule gets them first.

    Raises:
        TransformError: `fun` is not callable, or has no such argument; on a call, no rule has been defined.

    >>> import effx, effx.numpy as enp
    >>> @effx.custom_jvp
    ... def log1pexp(x):
    ...     return enp.log(1. + enp.exp(x))
    >>> @log1pexp.defjvp
    ... def log1pexp_jvp(primals, tangents):
    ...     (x,), (dx,) = primals, tangents
    ...     return log1pexp(x), (1. - 1. / (1. + enp.exp(x))) * dx
    >>> print(effx.grad(log1pexp)(100.))
    1.0
    """

    transform_name = "custom_jvp"

    @property
    def jvp(self) -> Callable[..., PyTree] | None:
        """The rule set by `defjvp` or `defjvps`; None before that."""
        return None if self._forward is None else self._forward.rule

    @property
    def symbolic_zeros(self) -> bool:
        """Whether `jvp` gets a `SymbolicZero` for tangents that are known to be zero."""
        return self._forward is not None and self._forward.symbolic


@final
class custom_vjp(_Custom[P, R]):
    """A function with reverse-mode rules of its own.

    Forward mode through it is an error, unless it has a forward rule too: `custom_vjp(custom_jvp(f))` has both,
    and each mode uses its own.

    Args:
        fun: the function, of pytrees of arrays.
        nondiff_argnums, nondiff_argnames: arguments that are not differentiated by, of any type.

    Raises:
        TransformError: `fun` is not callable, or has no such argument; on a call, no rules have been defined.

    >>> import effx
    >>> @effx.custom_vjp
    ... def clip_gradient(limit, x):
    ...     return x
    >>> def fwd(limit, x):
    ...     return x, limit
    >>> def bwd(limit, ct):
    ...     return None, enp.clip(ct, -limit, limit)
    >>> import effx.numpy as enp
    >>> clip_gradient.defvjp(fwd, bwd)
    >>> print(effx.grad(lambda x: clip_gradient(0.75, x) ** 3)(2.))
    0.75
    """

    transform_name = "custom_vjp"


@overload
def custom_gradient(
    fun: Callable[P, tuple[R, Callable[[R], PyTree]]], *, with_logs: bool = False
) -> Callable[P, R]: ...
@overload
def custom_gradient(
    fun: None = None, *, with_logs: bool = False
) -> Callable[[Callable[P, tuple[R, Callable[[R], PyTree]]]], Callable[P, R]]: ...
def custom_gradient(
    fun: Callable[..., PyTree] | None = None, *, with_logs: bool = False
) -> Callable[..., PyTree]:
    """Makes a differentiable function from one that also returns its pullback.

    Args:
        fun: returns a pair of its value and a function from a cotangent of the value to the cotangents of the
            arguments: a tuple, or the cotangent alone for one argument. None for a decorator.
        with_logs: True if that function returns a pair of the cotangents and of logs, as the backward rule of
            `custom_vjp.defvjp_with_logs` does.

    Returns:
        The function, returning the value alone. It supports reverse mode only.

    Raises:
        TransformError: `fun` is not callable, or does not return such a pair.

    >>> import effx
    >>> @effx.custom_gradient
    ... def f(x):
    ...     return x ** 2, lambda g: (g * x,)
    >>> print(f(3.), effx.grad(f)(3.))
    9.0 3.0
    """
    if fun is None:
        return partial(custom_gradient, with_logs=with_logs)
    check_function(fun)
    name = callable_name(fun)
    by_position = fun

    def call_value(*args: PyTree, **kwargs: PyTree) -> PyTree:
        return check_pair("custom_gradient", name, "(value, vjp_fun)", fun(*args, **kwargs))[0]

    def call_forward(*args: PyTree) -> tuple[PyTree, PyTree]:
        result, vjp_fun = check_pair("custom_gradient", name, "(value, vjp_fun)", by_position(*args))
        leaves, tree = flatten_output("custom_gradient", name, result)
        floating = [i for i, y in enumerate(leaves) if y.type.kind in "fc"]
        flat_cts: list[PyTree] = []
        backward_rule = (
            _log_in_backward("custom_gradient", f"the vjp_fun of {name}", vjp_fun) if with_logs else vjp_fun
        )

        def body(arrays: list[Array]) -> list[Array]:
            cts: list[PyTree] = [float0_zeros(y.type) for y in leaves]
            for i, ct in zip(floating, arrays, strict=True):
                cts[i] = ct
            result_cts = backward_rule(tree.unflatten(cts))
            flat_cts[:] = flatten(
                tuple(result_cts) if isinstance(result_cts, tuple | list) else (result_cts,)
            )
            return [x for x in flat_cts[0] if isinstance(x, Array)]

        staged = stage(body, [leaves[i].type for i in floating], f"{name}_vjp", "custom_gradient")
        rest, structure = flat_cts

        def backward(captured: Sequence[Array], ct: PyTree) -> PyTree:
            cts = flatten(ct)[0]
            arrays = iter(run_program(staged.program, [*captured, *[cts[i] for i in floating]]))
            return structure.unflatten([next(arrays) if isinstance(x, Array) else x for x in rest])

        # The residuals are the values that vjp_fun closes over.
        return result, Partial(backward, staged.captured)

    update_wrapper(call_value, fun)
    call_forward.__name__ = name
    wrapped: custom_vjp[..., PyTree] = custom_vjp(call_value)

    def apply_vjp(backward: Callable[[PyTree], PyTree], ct: PyTree) -> PyTree:
        return backward(ct)

    apply_vjp.__name__ = f"the vjp_fun of {name}"
    wrapped.defvjp(call_forward, apply_vjp)
    return wrapped
