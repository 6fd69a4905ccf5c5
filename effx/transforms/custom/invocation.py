"""Call a function with users' rules: choose the handler that applies them, and pass arguments to the rules.

A rule is wanted only where an installed handler has a use for it. Without one, the function simply runs. A
handler with a use for it that owns an argument applies it at once, on values as concrete as they are, so
that rules may look at them. For all others the function is staged and performed as an operation that
carries the rules along.
"""

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import cast, final

import attrs

from effx.array import Array, Box
from effx.array.promotion import as_operand, convert
from effx.effects import Frame, current_frame, use_frame
from effx.errors import DTypeError, ShapeError, TransformError, TreeError
from effx.handlers.recursion import PayloadHandler
from effx.handlers.staging.compile_time_eval import EvaluateKnown
from effx.handlers.staging.renewal import substitute_boxes
from effx.ir.ops.custom import CustomCall, CustomRules
from effx.ir.types import ArrayType
from effx.tracing.arguments import (
    FlatFunction,
    callable_name,
    finalize_results,
    flatten_output,
    function_signature,
    leaf_path,
    normalize_parameter_numbers,
)
from effx.tracing.traces import trace
from effx.tree.mapping import flatten_with_path
from effx.tree.prefixes import keystr
from effx.tree.registry import PyTree, PyTreeDef, SequenceKey, flatten


def bind_positional_arguments(
    function_name: str, fun: Callable[..., object], args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
) -> tuple[PyTree, ...]:
    """Returns a call's arguments by position, with defaults in place.

    Raises:
        TransformError: a keyword argument is keyword-only.
    """
    signature = function_signature(fun)
    if signature is None:
        if kwargs:
            raise TransformError(
                f"{function_name}: {callable_name(fun)} has no signature, so its keyword arguments have no positions: "
                f"{', '.join(kwargs)}"
            )
        return args
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TransformError(f"{function_name}: {callable_name(fun)}: {error}") from None
    bound.apply_defaults()
    by_name = [
        name for name in bound.kwargs if name in kwargs
    ]  # the function itself knows the defaults of others
    if by_name:
        raise TransformError(
            f"{function_name}: rules take arguments by position, but these of {callable_name(fun)} are keyword-only: "
            f"{', '.join(by_name)}"
        )
    return bound.args


def nondiff_positions(
    function_name: str, fun: Callable[..., object], nums: Sequence[int], names: Sequence[str]
) -> tuple[int, ...]:
    """Returns the positions of arguments that rules do not differentiate by; negative ones count from the end.

    Raises:
        TransformError: there is no such argument.
    """
    signature = function_signature(fun)
    parameters = [] if signature is None else list(signature.parameters.values())
    fixed = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    open_end = signature is None or any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    if not open_end:
        nums = normalize_parameter_numbers(f"{function_name}: nondiff_argnums", fun, nums, len(fixed))
    positions = [*nums]
    for name in names:
        if name not in fixed:
            raise TransformError(
                f"{function_name}: nondiff_argnames names {name!r}, but {callable_name(fun)} has no such parameter"
            )
        positions.append(fixed.index(name))
    return tuple(sorted(set(positions)))


_DEFINING = frozenset({"def_vmap", "defjvp", "defjvps", "defvjp", "defvjp_with_logs"})


def find_defining_method(function: object, name: str) -> object:
    """Returns the method by which the function inside a function with rules of one kind gets rules of another kind.

    Raises:
        AttributeError: the name is no such method's, or the function inside has none.
    """
    inner = vars(function).get("fun")
    if name in _DEFINING and inner is not None:
        return getattr(inner, name)
    raise AttributeError(f"{type(function).__name__!r} object has no attribute {name!r}")


def type_name(x: object) -> str:
    """Returns the class name of a rule's result."""
    return "Array" if isinstance(x, Array) else type(x).__name__


@final
class Invocation(FlatFunction):
    """One call of a function with rules: a function of the boxes and primals, with the arguments for the rules.

    Attributes:
        args: all arguments.
        nondiff: positions of the arguments that rules do not differentiate by.
        primals: the leaves of the other arguments.
        in_tree: the structure of the tuple of other arguments.
        boxes: the boxes among the leaves of the nondiff arguments: constants of the operation.
        captured: the arrays that the function closes over, once it is staged: the operation's first constants.
        out_tree: set once the function or a rule has run.
        out_types: the types of the result, once the function has been staged.
    """

    def __init__(
        self,
        transform_name: str,
        fun: Callable[..., object],
        args: tuple[PyTree, ...],
        nondiff: tuple[int, ...],
    ) -> None:
        self.args = args
        count = len(args)
        for n in nondiff:
            if not -count <= n < count:
                raise TransformError(
                    f"{transform_name}: nondiff_argnums names argument {n}, but {callable_name(fun)} got {count} "
                    "positional arguments"
                )
        self.nondiff = tuple(sorted({n % count for n in nondiff}))
        self.active = tuple([i for i in range(count) if i not in self.nondiff])
        leaves, in_tree = flatten(tuple([args[i] for i in self.active]))
        super().__init__(transform_name, fun, in_tree)
        self.primals = [self._as_operand(leaf, i) for i, leaf in enumerate(leaves)]
        # Only boxes: a rule may read anything else, a function, a number, a concrete array.
        self._nondiff_values = tuple([args[i] for i in self.nondiff])
        fixed, self._nondiff_tree = flatten(self._nondiff_values)
        self._nondiff_leaves = fixed
        self._boxed = [i for i, x in enumerate(fixed) if type(x) is Box]
        self.boxes: list[Array] = [fixed[i] for i in self._boxed]
        self.captured: tuple[Array, ...] = ()
        self.out_types: Sequence[ArrayType] | None = None

    def _as_operand(self, leaf: PyTree, index: int) -> Array:
        if isinstance(leaf, Array):
            return leaf
        try:
            return as_operand(leaf, self.transform_name)
        except DTypeError:
            raise DTypeError(
                f"{self.transform_name}: argument {self.primal_path(index)} of {self.name} must be an array, a "
                "number, or a pytree "
                f"of them, got {leaf!r} of type {type(leaf).__name__}; name arguments of other kinds in nondiff_argnums"
            ) from None

    def primal_path(self, leaf: int) -> str:
        """Returns `0['w']` for a leaf of the arguments that are differentiated."""
        leaves = list(range(self.in_tree.num_leaves))
        path = flatten_with_path(self.in_tree.unflatten(leaves))[0][leaf][0]
        first = cast("SequenceKey", path[0])
        return f"{self.active[first.idx]}{keystr(path[1:])}"

    def nondiff_arguments(self, constants: Sequence[Array]) -> tuple[PyTree, ...]:
        """Returns the nondiff arguments, with their boxes replaced by the operation's last constants."""
        if not self._boxed:
            return self._nondiff_values
        leaves = list(self._nondiff_leaves)
        for i, x in zip(self._boxed, constants[len(constants) - len(self._boxed) :], strict=True):
            leaves[i] = x
        result: tuple[PyTree, ...] = self._nondiff_tree.unflatten(leaves)
        return result

    def substitute_constants(
        self, constants: Sequence[Array]
    ) -> AbstractContextManager[Callable[[PyTree], PyTree]]:
        """Substitutes the operation's constants for closed-over boxes while a rule runs."""
        n = len(constants) - len(self._boxed)
        return substitute_boxes(self.captured[:n], constants[:n])

    def backward_constants(self, constants: Sequence[Array]) -> list[Array]:
        """Returns the constants that a backward rule needs in addition to its residuals."""
        n = len(constants) - len(self._boxed)
        return [x for i, x in enumerate(constants) if i >= n or type(self.captured[i]) is Box]

    def restore_constants(self, needed: Sequence[Array]) -> list[Array]:
        """The inverse of `backward_constants`; other constants keep their captured values."""
        remaining = iter(needed)
        n = len(self.captured) if len(needed) > len(self._boxed) else 0
        captured = [next(remaining) if type(x) is Box else x for x in self.captured[:n]]
        return [*captured, *remaining]

    def release(self) -> None:
        """Drops the arguments of this call: programs that refer to the rules may live much longer."""
        self.args, self.primals, self.boxes = (), [], []
        for i in self._boxed:
            self._nondiff_leaves[i] = None
        if self._boxed:
            self._nondiff_values = ()

    def all_arguments(self, constants: Sequence[Array], leaves: Sequence[PyTree]) -> list[PyTree]:
        """Returns all arguments, with `leaves` as the differentiated ones."""
        args: list[PyTree] = [None] * (len(self.nondiff) + len(self.active))
        for i, value in zip(self.nondiff, self.nondiff_arguments(constants), strict=True):
            args[i] = value
        for i, value in zip(self.active, self.in_tree.unflatten(leaves), strict=True):
            args[i] = value
        return args

    def __call__(self, arrays: list[Array]) -> list[Array]:
        """Calls the function on the arrays of boxes and primals."""
        n = len(self._boxed)
        return self.flatten_result(self.fun(*self.all_arguments(arrays[:n], arrays[n:])))

    def check_result_tree(self, rule: str, part: str, tree: PyTreeDef) -> None:
        """Checks the structure of a rule's result against that of the function's result, if it is known.

        Raises:
            TreeError: they differ.
        """
        known = getattr(self, "out_tree", tree)
        if tree != known:
            raise TreeError(
                f"{self.transform_name}: {rule} gives {part} of structure {tree}, but {self.name} gives {known}"
            )
        self.out_tree = tree

    def infer_result(self, types: Sequence[ArrayType]) -> None:
        """Stages the function for the types of its boxes and primals, to know the structure and types of its result."""
        self.out_types = trace(self, types).out_types

    def flatten_outputs(self, rule: str, result: PyTree, part: str) -> list[Array]:
        """Flattens a rule's value for the function's result.

        Raises:
            TreeError, ShapeError, DTypeError: it differs from the function's own result.
        """
        ys, tree = flatten_output(self.transform_name, rule, result)
        self.check_result_tree(rule, part, tree)
        if self.out_types is None:
            return ys
        for i, (y, t) in enumerate(zip(ys, self.out_types, strict=True)):
            if not y.type.matches(t) and not (y.type.weak and y.type.shape == t.shape):
                kind = ShapeError if y.type.shape != t.shape else DTypeError
                raise kind(
                    f"{self.transform_name}: {rule} gives {part}{self.result_path(i)} of type {y.type!r}, "
                    f"but {self.name} gives {t!r}"
                )
        return [convert(y, t.dtype, t.weak) for y, t in zip(ys, self.out_types, strict=True)]

    def result_path(self, leaf: int) -> str:
        """Returns `[0]['w']` for a leaf of the result; "" if the result is one array."""
        return leaf_path(self.out_tree.unflatten(range(self.out_tree.num_leaves)), leaf)


@attrs.frozen
class _Owner:
    """The frame that handles a call, and whether it may apply a rule at once."""

    frame: Frame
    applies: bool


def _find_owner(rules: CustomRules, operands: Sequence[Array]) -> _Owner | None:
    """Returns the frame that handles a call; None if no handler uses the rules."""
    frame = current_frame()
    if frame is None:
        return None
    if not any(
        [
            f.intercepts or (isinstance(f.handler, PayloadHandler) and f.handler.uses(rules))
            for f in frame.outward()
        ]
    ):
        return None
    for f in frame.outward():
        if type(f.handler) is EvaluateKnown and all([x.frame is None for x in operands]):
            return None  # the function runs past all handlers further out
        if f.intercepts:
            return _Owner(f, False)
        if any([x.frame is f for x in operands]):
            # The function may close over boxes of inner frames, which must handle the call first.
            return _Owner(f, f is frame and isinstance(f.handler, PayloadHandler) and f.handler.uses(rules))
    return None


def perform_custom(call: Invocation, rules: CustomRules) -> PyTree:
    """Calls a function with rules under the current handlers."""
    owner = _find_owner(rules, [*call.boxes, *call.primals])
    if owner is None:
        return call.fun(*call.args)
    handler = owner.frame.handler
    # A named function is staged first: its rule's results are boxed by the types of its own.
    if owner.applies and rules.function is None and isinstance(handler, PayloadHandler):
        with use_frame(owner.frame.outer):
            outputs = handler.apply_custom(owner.frame, rules, call.boxes, call.primals)
        if outputs is not None:
            call.release()
            return call.out_tree.unflatten(finalize_results(outputs))
    staged = trace(call, [x.type for x in (*call.boxes, *call.primals)])
    call.captured, call.out_types = staged.captured, staged.out_types
    constants = (*staged.captured, *call.boxes)
    outputs = CustomCall(staged.program, rules, len(constants))(*constants, *call.primals)
    call.release()
    return call.out_tree.unflatten(finalize_results(outputs))
