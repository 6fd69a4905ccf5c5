"""The base class for handlers that watch operations without boxing values: count, rewrite, collect, supply.

Such a handler either sees every operation, or only those that carry an effect that it `handles`. A rule
returns an operation's result, by `site.forward` or otherwise; operations without a rule are forwarded. The
programs that operations hold are staged again under the handler, with its state threaded and collected values
returned.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Self, cast, overload

from typing_extensions import TypeVar

from effx.array import Array
from effx.array.promotion import as_operand
from effx.effects import Frame, Operation
from effx.errors import TreeError
from effx.handlers.authoring.rule_handler import Default, ReturnClause, RuledHandler
from effx.handlers.authoring.rule_types import InterceptRule
from effx.handlers.authoring.site import Site
from effx.handlers.recursion.payloads import Rule, apply_typing_rule
from effx.handlers.vmap.handler import apply_over_batches, identity
from effx.ir.ops.custom import NamedCall
from effx.tree.registry import PyTree, flatten

R = TypeVar("R")
S = TypeVar("S", default=None)
A = TypeVar("A")
Out = TypeVar("Out")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - the literature's name
O1 = TypeVar("O1", bound=Operation[Any])
O2 = TypeVar("O2", bound=Operation[Any])
O3 = TypeVar("O3", bound=Operation[Any])


class InterceptHandler(RuledHandler[S], Generic[S]):
    """A handler of plain values, with a state of type `S`.

    Attributes:
        handles: effects that the handler takes. Empty: it sees every operation.
        default: what happens to operations without a rule.

    >>> import attrs, effx, effx.numpy as enp
    >>> from effx.handling.ops import Mul, Sin
    >>> @attrs.frozen
    ... class Count(InterceptHandler[effx.Array]):
    ...     def initial(self): return enp.int32(0)
    ...     def returns(self, result, frame): return result, frame.state
    >>> @Count.rule(Sin, Mul)
    ... def _(site, op, *operands):
    ...     site.state = site.state + 1
    ...     return site.forward()
    >>> loop = lambda x: effx.lax.fori_loop(0, 5, lambda i, y: enp.sin(y) * 2.0, x)
    >>> Count().run(effx.jit(loop), 1.0)[1]
    Array(10, dtype=int32)
    """

    default: Default = "forward"  # type: ignore[misc]  # a ClassVar, read on the class
    owns_boxes = False
    keeps_rules = True

    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        if "intercepts" not in cls.__dict__:
            cls.intercepts = not cls.handles
        cls.effects_only = not cls.intercepts

    @overload
    @classmethod
    def rule(cls, kind: type[O], /) -> InterceptRule[Site[Self, S, PyTree], O]: ...
    @overload
    @classmethod
    def rule(cls, kind: type[O], kind1: type[O1], /) -> InterceptRule[Site[Self, S, PyTree], O | O1]: ...
    @overload
    @classmethod
    def rule(
        cls, kind: type[O], kind1: type[O1], kind2: type[O2], /
    ) -> InterceptRule[Site[Self, S, PyTree], O | O1 | O2]: ...
    @overload
    @classmethod
    def rule(
        cls, kind: type[O], kind1: type[O1], kind2: type[O2], kind3: type[O3], /
    ) -> InterceptRule[Site[Self, S, PyTree], O | O1 | O2 | O3]: ...
    @overload
    @classmethod
    def rule(cls, *kinds: type[O]) -> InterceptRule[Site[Self, S, PyTree], O]: ...
    @classmethod
    def rule(cls, *kinds: type[Operation[Any]]) -> Any:
        """Registers `(site, op, *operands) -> result` for operation classes, base classes or traits."""
        return cls._rule_registrar(kinds, wants_site=True)

    def apply_rule(
        self, frame: Frame, rule: Rule, op: Operation[object], operands: tuple[Array, ...]
    ) -> tuple[PyTree, PyTree]:
        """Calls a rule with the site and the operands."""
        y = rule[0](Site(frame, op, operands), op, *operands)
        if op.multiple:
            types = apply_typing_rule(op, operands)
            self.check_count(op.name, y, len(types))
            return y, types
        return y if isinstance(y, Array) else self.boxed_result(frame, y, None, op.name), None

    def run(
        self: ReturnClause[Out], function: Callable[..., PyTree], /, *args: PyTree, **kwargs: PyTree
    ) -> Out:
        """Runs a function under the handler.

        Returns:
            The function's result, after `returns`.
        """
        handler = cast("InterceptHandler[PyTree]", self)
        handler.check_function(function)
        with handler.installed() as frame:
            result = function(*args, **kwargs)
        return self.returns(result, frame)

    def apply_function(
        self, frame: Frame, function: NamedCall, rule: Callable[..., Any], primals: Sequence[Array]
    ) -> tuple[Array, ...]:
        """Calls a rule instead of a named function."""
        out_tree, types = function.result()
        tree = out_tree

        def flat(arrays: list[Array]) -> list[Array]:
            nonlocal tree
            leaves, tree = flatten(rule(*function.in_tree.unflatten(arrays)))
            return [as_operand(y, self.name) for y in leaves]

        values = apply_over_batches(
            function.batches, flat, list(primals), [identity] * len(primals), identity
        )
        if tree != out_tree or not all([y.type.matches(t) for y, t in zip(values, types, strict=True)]):
            name = getattr(function.base, "__name__", "f")
            raise TreeError(
                f"{self.name}: the rule for {name} gives {tree} of {', '.join([repr(y.type) for y in values])}, "
                f"but the function gives {out_tree} of {', '.join(map(repr, types))}"
            )
        return tuple(values)
