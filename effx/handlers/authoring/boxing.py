"""The base class for transformations whose values carry payloads: payload type, rules, and a default.

A subclass defines the payload (`P`), the payload of a plain value (`lift`), and operations on payloads
(`@MyHandler.rule(Add)`). Calls, control flow, jit, grad and vmap need no rules.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, ClassVar, Generic, Self, Union, cast, get_args, get_origin, overload

import numpy as np
from typing_extensions import TypeVar

from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.effects import Frame, Operation
from effx.errors import EscapedBoxError, PayloadError, TransformError, TreeError, describe_rule
from effx.handlers.authoring.payload_checks import (
    PayloadOfType,
    broadcast_payload,
    check_payload,
    lifted_types,
    repeat_numbers,
)
from effx.handlers.authoring.rule_handler import Default, ReturnClause, RuledHandler
from effx.handlers.authoring.rule_types import PayloadRule, SitePayloadRule
from effx.handlers.authoring.site import Site
from effx.handlers.recursion.payloads import Rule, apply_typing_rule
from effx.handlers.vmap.handler import apply_over_batches, identity
from effx.ir.ops.base import Elementwise
from effx.ir.ops.custom import NamedCall
from effx.ir.types import ArrayType
from effx.ir.values.array import Operand
from effx.tree.prefixes import flatten_up_to
from effx.tree.registry import PyTree, flatten

__all__ = ["BoxHandler", "Default"]

R = TypeVar("R")
P = TypeVar("P")
S = TypeVar("S", default=None)
Out = TypeVar("Out")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - the literature's name
O1 = TypeVar("O1", bound=Operation[Any])
O2 = TypeVar("O2", bound=Operation[Any])
O3 = TypeVar("O3", bound=Operation[Any])


class BoxHandler(RuledHandler[S], Generic[P, S]):
    """A transformation whose boxes carry payloads of type `P`, a pytree of arrays; its state is of type `S`.

    Subclasses are frozen, hashable values (`attrs.frozen` gives both), so that handled programs are cached.

    Attributes:
        default: what happens to operations without a rule.
        payload_type: the class of payloads, as in the base `BoxHandler[Bounds]`; a union if there are several.

    >>> import attrs, effx
    >>> from effx.handling.ops import Add, Mul
    >>> @attrs.frozen
    ... class Sign:
    ...     positive: effx.Array
    >>> @attrs.frozen
    ... class Signs(BoxHandler[Sign]):
    ...     def lift(self, x): return Sign(x > 0)
    >>> @Signs.rule(Mul)
    ... def _(op, x, y): return Sign(x.positive == y.positive)
    >>> Signs().run(lambda x: x * x * -3.0, Sign(effx.device_put(False)), like=1.0).positive
    Array(False, dtype=bool)
    """

    payload_type: ClassVar[type[Any] | UnionType] = object
    # As the subclass writes it; a TypeVar until a subclass substitutes it.
    _payload_form: ClassVar[Any] = P  # type: ignore[misc]  # the TypeVar as a value
    # True where an array is itself a payload, so that no result of a rule is plain.
    _carries_arrays: ClassVar[bool] = False

    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        for base in cls.__dict__.get("__orig_bases__", ()):
            origin = get_origin(base)
            if isinstance(origin, type) and issubclass(origin, BoxHandler):
                # `from __future__ import annotations` leaves bases alone, so this is the class itself.
                arguments_by_parameter = dict(zip(origin.__parameters__, get_args(base), strict=False))  # type: ignore[attr-defined]  # of a generic class
                cls._payload_form = arguments_by_parameter.get(origin._payload_form, origin._payload_form)
                cls.payload_type = _runtime_class(cls._payload_form) or cls.payload_type
        kind = cls.payload_type
        cls._carries_arrays = isinstance(kind, type) and issubclass(kind, Array)

    @overload
    @classmethod
    def rule(cls, kind: type[O], /) -> PayloadRule[O, P]: ...
    @overload
    @classmethod
    def rule(cls, kind: type[O], kind1: type[O1], /) -> PayloadRule[O | O1, P]: ...
    @overload
    @classmethod
    def rule(cls, kind: type[O], kind1: type[O1], kind2: type[O2], /) -> PayloadRule[O | O1 | O2, P]: ...
    @overload
    @classmethod
    def rule(
        cls, kind: type[O], kind1: type[O1], kind2: type[O2], kind3: type[O3], /
    ) -> PayloadRule[O | O1 | O2 | O3, P]: ...
    @overload
    @classmethod
    def rule(cls, *kinds: type[O]) -> PayloadRule[O, P]: ...
    @classmethod
    def rule(cls, *kinds: type[Operation[Any]]) -> Any:
        """Registers `(op, *payloads) -> payload` for operation classes, base classes or traits.

        For an operation with several results the rule returns a tuple of payloads. A result that
        is a plain array stays unboxed. The most specific rule is used; a subclass's rule comes
        before its base's.
        """
        return cls._rule_registrar(kinds, wants_site=False)

    @overload
    @classmethod
    def site_rule(cls, kind: type[O], /) -> SitePayloadRule[Site[Self, S, PyTree], O, P]: ...
    @overload
    @classmethod
    def site_rule(
        cls, kind: type[O], kind1: type[O1], /
    ) -> SitePayloadRule[Site[Self, S, PyTree], O | O1, P]: ...
    @overload
    @classmethod
    def site_rule(cls, *kinds: type[O]) -> SitePayloadRule[Site[Self, S, PyTree], O, P]: ...
    @classmethod
    def site_rule(cls, *kinds: type[Operation[Any]]) -> Any:
        """Registers `(site, op, *payloads) -> payload`: a rule that needs the site, or has a state."""
        return cls._rule_registrar(kinds, wants_site=True)

    @abstractmethod
    def lift(self, x: Array) -> P:
        """Returns the payload of a plain value."""
        return cast("P", super().lift(x))

    def make_payload(self, x: Array) -> P:
        """Returns what `lift` gives for a plain value, after a check of its class."""
        payload = self.lift(x)
        if self._carries_arrays and not isinstance(payload, Array):
            payload = cast("P", as_operand(cast("Operand", payload), self.name))
        if not isinstance(payload, self.payload_type):
            raise PayloadError(
                f"{self.name}: lift of the plain value {x.type!r} must give {self._describe_payload(payload)}"
            )
        return payload

    def type_of(self, payload: P) -> ArrayType:
        """Returns the type of the array that a payload stands for; by default that of its first leaf."""
        leaves = flatten(payload)[0]
        if not leaves:
            raise TransformError(
                f"{self.name}: a payload without arrays does not say what it stands for; pass like="
            )
        return as_operand(leaves[0], self.name).type

    def apply_rule(
        self, frame: Frame, rule: Rule, op: Operation[object], operands: tuple[Array, ...]
    ) -> tuple[PyTree, PyTree]:
        """Calls a rule with payloads."""
        function, wants_site = rule
        payloads = self._operand_payloads(frame, op, operands)
        values = [payload for payload, _ in payloads]
        y = function(Site(frame, op, operands), op, *values) if wants_site else function(op, *values)
        types = apply_typing_rule(op, operands)
        if not op.multiple:
            return self._fit_payload(frame, op.name, function, y, types, payloads), types
        self.check_count(op.name, y, len(types))
        return [
            self._fit_payload(frame, op.name, function, part, t, payloads)
            for part, t in zip(y, types, strict=True)
        ], types

    def _operand_payloads(
        self, frame: Frame, op: Operation[object], operands: tuple[Array, ...]
    ) -> list[PayloadOfType]:
        """Returns the operands' payloads as rules get them, each with the type of what it stands for.

        Elementwise operations take operands of rank 0 with others. If the payload of one had axes of its own, a rule would
        align these with the other operands' axes, so it is repeated to their shape first.
        """
        payloads = [(x.payload if x.frame is frame else self.make_payload(x), x.type) for x in operands]  # type: ignore[attr-defined]  # a value with a frame is a Box
        if len(operands) == 1 or not isinstance(op, Elementwise):
            return payloads
        shapes = [t.shape for _, t in payloads]
        if all([shape == shapes[0] for shape in shapes]):
            return payloads
        shape = max(shapes, key=len)
        for i, (payload, t) in enumerate(payloads):
            if not t.shape:
                wide = t.with_shape(shape)
                repeated = broadcast_payload(frame, self.make_payload, payload, t, shape)
                payloads[i] = (repeated, t if repeated is payload else wide)
        return payloads

    def _convert_number(self, y: PyTree) -> PyTree:
        """Returns an array for a number or a NumPy array, if payloads are arrays."""
        if self._carries_arrays and isinstance(y, int | float | complex | np.ndarray | np.generic):
            return as_operand(y, self.name)
        return y

    def _fit_payload(
        self,
        frame: Frame,
        what: str,
        rule: object,
        y: PyTree,
        t: ArrayType,
        operands: Sequence[PayloadOfType],
    ) -> PyTree:
        """Returns what a rule gives for a result of type `t`, after a check, with arrays for numbers."""
        if type(y) is not self.payload_type:
            y = self._convert_number(y)
            if not self._is_payload(y):
                return y  # a plain array, or else refused by `boxed_result`
        for x in flatten(y)[0]:
            if not isinstance(x, Array) or x.type is not t:
                break
        else:
            return y  # nearly all; the rest costs 10 us
        lifted = lifted_types(frame, self.make_payload, t)
        if lifted is None or not lifted.describes(y):
            return y
        name = f"{self.name}: the rule for {what} ({describe_rule(rule)})"
        y = repeat_numbers(y, t, lifted, name)
        check_payload(y, t, lifted, operands, name)
        return y

    def box_covering_payload(self, frame: Frame, method: str, payload: PyTree, t: ArrayType) -> Array:
        """Boxes what `join` or `grow` gives, with arrays for numbers.

        Leaves are not compared with `lift`'s as those of rules are: bounds that cover both of two values may well be one
        number for all elements, or floats around integers.
        """
        if payload is None and not isinstance(None, self.payload_type):
            raise PayloadError(f"{self.name}: {method} must give {self._describe_payload(payload)}")
        if not all([isinstance(x, Array) for x in flatten(payload)[0]]):
            lifted = lifted_types(frame, self.make_payload, t)
            if lifted is not None and lifted.describes(payload):
                payload = repeat_numbers(payload, t, lifted, f"{self.name}: {method}")
        return Box(frame, payload, t)

    def _describe_payload(self, y: object) -> str:
        """Returns what is expected in the place of `y`, for errors."""
        return (
            f"a payload of type {getattr(self.payload_type, '__name__', self.payload_type)}, got {y!r} of type "
            f"{type(y).__name__}"
        )

    def boxed_result(self, frame: Frame, y: PyTree, t: ArrayType, what: str = "") -> Array:
        """Boxes a rule's result of type `t`; a plain array stays plain."""
        if type(y) is self.payload_type:
            return Box(frame, y, t)
        if isinstance(y, Array) and not self._carries_arrays:
            if y.type is not t and not y.type.matches(t):
                raise PayloadError(
                    f"{self.name}: the rule for {what} gives a plain array {y.type!r}, but the result is {t!r}"
                )
            return y
        if y is None or not isinstance(y, self.payload_type):
            raise PayloadError(
                f"{self.name}: the rule for {what} must give an array or {self._describe_payload(y)}"
            )
        return Box(frame, y, t)

    def forwards(self, op: Operation[object], operands: tuple[Array, ...]) -> bool:
        """Returns whether `default` has an operation without a rule performed on plain values.

        Integers and bools, such as the results of comparisons, carry no payload by nature; a float or complex number
        without one would be wrong silently.
        """
        if self.default != "forward":
            return self.default == "drop"
        types = apply_typing_rule(op, operands)
        return all([t.kind in "biu" for t in (types if op.multiple else (types,))])

    def forward(self, frame: Frame, op: Operation[R], operands: tuple[Array, ...]) -> R:
        """Performs an operation outward on the plain values of its operands."""
        return op(*[self.plain(cast("Box", x).payload) if x.frame is frame else x for x in operands])

    def plain(self, payload: P) -> Array:
        """Returns the plain value of a payload, for `default = "forward"` and `"drop"`."""
        plain = self.primal(payload)
        if plain is None:
            raise TransformError(f"{self.name}: default = {self.default!r} needs a method primal(payload)")
        return plain

    def box(self, frame: Frame, payload: P, like: Array) -> Array:
        """Returns a box of a frame of this handler, with a payload and the type of the array `like`. `run`
        does this; it is needed after opening a frame by hand (`with handler.installed() as frame`).

        >>> import effx
        >>> from effx.library.intervals import Interval, Intervals
        >>> bounds = Intervals()
        >>> with bounds.installed() as frame:
        ...     x = bounds.box(frame, Interval(effx.device_put(0.0), effx.device_put(2.0)), effx.device_put(1.0))
        ...     high = bounds.payload(frame, x * x + 1.0).high
        >>> round(float(high), 3)
        5.0
        """
        return Box(frame, payload, like.type)

    def payload(self, frame: Frame, x: Array) -> P:
        """Returns the payload of a value under a frame of this handler; a plain value is lifted.

        Raises:
            EscapedBoxError: the value belongs to a handler that has ended.
        """
        if type(x) is Box:
            if x.frame is frame:
                return cast("P", x.payload)
            if not x.frame.live:
                raise EscapedBoxError(
                    f"payload: a value {x.type!r} belongs to {x.frame.handler.describe()}, which has ended"
                )
        return self.make_payload(x)

    def run(
        self: ReturnClause[Out],
        function: Callable[..., PyTree],
        /,
        *args: PyTree,
        like: PyTree = None,
        **keywords: PyTree,
    ) -> Out:
        """Runs a function on payloads.

        Args:
            function: takes and returns pytrees of arrays.
            args: the arguments, with payloads for arrays that carry one; other arrays stay plain.
            like: arrays or numbers with the types that the function sees, one for each payload; one for all, or
                a tuple, in the order of the arguments and then of the keywords' names. By default the types are those of
                `type_of`.
            keywords: the function's keywords, as `args`. One that is called `like` needs a function around it.

        Returns:
            The function's result with payloads for its arrays, plain ones lifted, after `returns`.
        """
        handler = cast("BoxHandler[P, PyTree]", self)
        handler.check_function(function)
        is_payload = handler._is_payload
        # The arguments are a tuple and a dict; payloads may be, too.
        arguments = (args, keywords)
        containers = (id(arguments), id(args), id(keywords))
        leaves, tree = flatten(arguments, is_leaf=lambda x: id(x) not in containers and is_payload(x))
        payload_indices = [i for i, x in enumerate(leaves) if is_payload(x)]
        examples: Sequence[Operand | None]
        if like is None:
            examples = [None] * len(payload_indices)
        else:
            examples = like if isinstance(like, tuple) else (like,) * len(payload_indices)
        if len(examples) != len(payload_indices):
            raise TransformError(
                f"{handler.name}: run got {len(payload_indices)} payloads, but like has {len(examples)} entries"
            )
        with handler.installed() as frame:
            for i, example in zip(payload_indices, examples, strict=True):
                leaves[i] = handler._convert_leaves(leaves[i])
                t = handler.type_of(leaves[i]) if example is None else as_operand(example, handler.name).type
                leaves[i] = Box(frame, leaves[i], t)
            boxed_args, boxed_keywords = tree.unflatten(leaves)
            results, out_tree = flatten(function(*boxed_args, **boxed_keywords))
            payloads = out_tree.unflatten(
                [
                    handler._convert_leaves(handler.payload(frame, as_operand(y, handler.name)))
                    for y in results
                ]
            )
        return self.returns(payloads, frame)

    def _convert_leaves(self, payload: PyTree) -> PyTree:
        """Returns a payload with arrays for the numbers and NumPy arrays in it."""
        parts, tree = flatten(payload)
        if all([isinstance(x, Array) for x in parts]):
            return payload
        return tree.unflatten([as_operand(x, self.name) for x in parts])

    def _is_payload(self, x: object) -> bool:
        if self.payload_type is not object:
            return isinstance(x, self.payload_type)
        # Without a payload class: any pytree of arrays that is no Python container.
        parts = flatten(x)[0]
        return (
            x is not None
            and not isinstance(x, tuple | list | dict)
            and not (len(parts) == 1 and parts[0] is x)
        )

    def apply_function(
        self, frame: Frame, function: NamedCall, rule: Callable[..., Any], primals: Sequence[Array]
    ) -> tuple[Array, ...]:
        """Applies a rule for a named function to payloads."""
        boxed = [x.frame is frame for x in primals]
        out_tree, types = function.result()
        name = getattr(function.base, "__name__", "f")
        # The rule sees one element of the batches.
        batch_ranks = [sum([batch.batched[i] for batch in function.batches]) for i in range(len(primals))]
        element_types = [t.with_shape(t.shape[len(function.batches) :]) for t in types]

        def flat(payloads: list[PyTree]) -> list[PyTree]:
            carried = [
                x if b else self.make_payload(cast("Array", x)) for x, b in zip(payloads, boxed, strict=True)
            ]
            operands = [
                (payload, x.type.with_shape(x.type.shape[k:]))
                for payload, x, k in zip(carried, primals, batch_ranks, strict=True)
            ]
            result = rule(*function.in_tree.unflatten(carried))
            try:
                result_leaves = list(map(self._convert_number, flatten_up_to(out_tree, result)))
            except TreeError:
                result_leaves = [None]
            if not all([isinstance(y, Array) or self._is_payload(y) for y in result_leaves]):
                raise TreeError(
                    f"{self.name}: the rule for {name} gives a result of structure "
                    f"{flatten(result, is_leaf=self._is_payload)[1]}, but the function gives {out_tree}"
                )
            return [
                self._fit_payload(frame, name, rule, y, t, operands)
                for y, t in zip(result_leaves, element_types, strict=True)
            ]

        def stack(y: PyTree) -> PyTree:
            return y if isinstance(y, Array) and not self._carries_arrays else self.stack(y)

        stacked = apply_over_batches(
            function.batches,
            flat,
            [cast("Box", x).payload if b else x for x, b in zip(primals, boxed, strict=True)],
            [self.unstack if b else identity for b in boxed],
            stack,
        )
        return tuple([self.boxed_result(frame, y, t, name) for y, t in zip(stacked, types, strict=True)])


def _runtime_class(kind: object) -> type[Any] | UnionType | None:
    """Returns the class of a type annotation's values, for `isinstance`; None if there is none."""
    if get_origin(kind) in (Union, UnionType):
        parts = [_runtime_class(part) for part in get_args(kind)]
        return None if None in parts else reduce(or_, parts)
    kind = get_origin(kind) or kind
    return kind if isinstance(kind, type) else None
