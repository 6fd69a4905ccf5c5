"""`Primitive`: an operation that a library defines."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol, TypeVar, cast

from effx.array import Array
from effx.array.promotion import as_operand
from effx.caching import kernel_caches
from effx.compat import (
    bound_rules as bound_rules,  # the handlers' rules for what is bound are registered there
)
from effx.compat.avals import OpaqueTraceState, resumed_state
from effx.compat.bound import Bound, Parameters, Rule, arrays_of, types_from
from effx.compat.lowering import has_lowering, lowered
from effx.effects import Effect
from effx.errors import NoRuleError, TransformError
from effx.handlers.evaluate.handler import compile_operation
from effx.ir.types import ArrayType
from effx.lower.placement.concrete import to_device_operand
from effx.tree.registry import PyTree
from effx.typing import ArrayLike

__all__ = ["Primitive", "apply_primitive"]

F = TypeVar("F", bound=Callable[..., PyTree])


class Evaluable(Protocol):
    """A program, as parameters of primitives have them."""

    def evaluate(self, consts: Sequence[Array], operands: Sequence[Array]) -> Sequence[Array]:
        """Returns the results for values of its constants and operands."""
        ...


class InterpretsPrimitives(Protocol):
    """A library's trace: `effx.compat.traces.Trace`."""

    def process_primitive(
        self, primitive: "Primitive", tracers: Sequence[ArrayLike], params: Mapping[str, object], /
    ) -> PyTree:
        """Interprets an operation."""


class Primitive:
    """A primitive that a library defines.

    Rules for derivatives, transposition, batching and lowering are in the tables of `jax.interpreters`. A missing
    rule is an error where it is needed. A handler that has no form for libraries' rules sees what the primitive is
    lowered to.

    Args:
        name: in programs and errors.

    Attributes:
        multiple_results: False; set it to True for a primitive that gives a sequence.
        call_primitive, map_primitive: False; effx has functions that are called or mapped as operations of its own.

    >>> import numpy as np
    >>> double_p = Primitive("double")
    >>> impl = double_p.def_impl(lambda x: 2 * np.asarray(x))
    >>> double_p.bind(np.float32(3))
    Array(6., dtype=float32)
    """

    call_primitive = False
    map_primitive = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.multiple_results = False
        self._impl: Rule | None = None
        self._abstract: Rule | None = None

    def __repr__(self) -> str:
        return self.name

    def def_impl(self, impl: F) -> F:
        """Says how known values are computed with: `impl(*arrays, **params)`. Returns it, as a decorator does."""
        self._impl = impl
        return impl

    def def_abstract_eval(self, abstract_eval: F) -> F:
        """Says what type the result has: `abstract_eval(*avals, **params)` gives something with shape and dtype.

        For `multiple_results` it gives a sequence. Returns the rule, as a decorator does.
        """
        self._abstract = abstract_eval
        return abstract_eval

    def def_effectful_abstract_eval(self, effectful_abstract_eval: F) -> F:
        """Says what type the result has, and which effects the primitive has, which must be none.

        Args:
            effectful_abstract_eval: returns a pair of the types, as for `def_abstract_eval`, and a set of effects.
        """

        def without(*avals: ArrayType, **params: object) -> PyTree:
            result_types, effects = effectful_abstract_eval(*avals, **params)
            if effects:
                raise TransformError(
                    f"{self.name}: the rule for abstract evaluation gives the effects {effects!r}; effx has effects by "
                    f"the class of an operation, so write one (effx.Operation, effx.Label)"
                )
            return result_types

        self._abstract = without
        return effectful_abstract_eval

    def bind(self, /, *args: PyTree, **params: object) -> PyTree:
        """Performs the primitive.

        Args:
            args: arrays and numbers. params: what else it takes; values that cannot be hashed are compared by identity.

        Returns:
            An array; a list of arrays for `multiple_results`.

        Raises:
            NoRuleError: what happens here needs a rule that the primitive has not.
        """
        ys = Bound(self, Parameters(params))(*[as_operand(x, self.name) for x in args])
        return list(ys) if self.multiple_results else ys[0]

    def bind_with_trace(
        self,
        trace: OpaqueTraceState | InterpretsPrimitives,
        args: Sequence[ArrayLike],
        avals: Sequence[ArrayType],
        params: Mapping[str, object],
        /,
    ) -> PyTree:
        """Performs the primitive under a trace: what `take_current_trace` gave, or one of a library's.

        Args:
            trace: the trace. args, params: as `bind` takes them. avals: not used; arrays have their types.
        """
        if isinstance(trace, OpaqueTraceState):
            with resumed_state(trace):
                return self.bind(*args, **params)
        return trace.process_primitive(self, args, params)

    def impl(self, /, *args: PyTree, **params: object) -> PyTree:
        """Calls the function of `def_impl`."""
        if self._impl is None:
            raise NoRuleError(
                f"{self.name}: the primitive has no function for known values; give it one with def_impl"
            )
        return self._impl(*args, **params)

    def abstract_eval(self, /, *avals: ArrayType, **params: object) -> tuple[PyTree, frozenset[Effect]]:
        """Returns the types of the results, and no effects."""
        result_types = self.types(avals, params)
        return list(result_types) if self.multiple_results else result_types[0], frozenset()

    def get_bind_params(self, params: Mapping[str, object]) -> dict[str, object]:
        """Returns what an equation's parameters are for `bind`: themselves."""
        return dict(params)

    def is_effectful(self, params: Mapping[str, object]) -> bool:
        """Says whether it has effects with these parameters: never."""
        return False

    def types(self, in_types: Sequence[ArrayType], params: Mapping[str, object]) -> tuple[ArrayType, ...]:
        """Returns the results' types."""
        return types_from(self, self._abstract, in_types, params)

    def run(self, operands: Sequence[Array], params: Mapping[str, object]) -> tuple[Array, ...]:
        """Computes the results of known operands: by `def_impl`, or as the primitive is lowered."""
        if self._impl is None and has_lowering(self):
            return _run_compiled(self, operands, params)
        return arrays_of(self, "impl", self.impl(*operands, **params))

    def lowered(
        self, operands: Sequence[Array], params: Mapping[str, object], platform: str | None
    ) -> tuple[Array, ...]:
        """Performs what the primitive is made of."""
        return lowered(self, operands, params, platform)

    def is_lowered(self) -> bool:
        """Says whether it has a lowering for any platform."""
        return has_lowering(self)


def apply_primitive(prim: Primitive, /, *args: PyTree, **params: object) -> PyTree:
    """Computes a primitive for known values as it is lowered, for `def_impl(partial(apply_primitive, p))`."""
    ys = _run_compiled(prim, [as_operand(x, prim.name) for x in args], params)
    return list(ys) if prim.multiple_results else ys[0]


def _run_compiled(
    prim: Primitive, operands: Sequence[Array], params: Mapping[str, object]
) -> tuple[Array, ...]:
    parameters = params if isinstance(params, Parameters) else Parameters(params)
    results = _kernel(Bound(prim, parameters))(*[to_device_operand(x) for x in operands])
    return cast("tuple[Array, ...]", results)


_kernel = lru_cache(maxsize=1024)(compile_operation)
kernel_caches.append(_kernel.cache_clear)
