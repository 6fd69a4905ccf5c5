"""`named_function`: functions that handlers may have rules for."""

from collections.abc import Callable, Sequence
from typing import Generic, ParamSpec, TypeVar, final

from effx.errors import check_function
from effx.handlers.authoring.rule_handler import NamedFunction
from effx.ir.ops.custom import CustomRules, NamedCall
from effx.ir.types import ArrayType
from effx.tracing.arguments import callable_name
from effx.tracing.wrapping import update_wrapper
from effx.transforms.custom.invocation import Invocation, bind_positional_arguments, perform_custom
from effx.tree.registry import PyTreeDef

P = ParamSpec("P")
R = TypeVar("R")


@final
class named_function(NamedFunction, Generic[P, R]):
    """A function that handlers may have rules for; every other handler enters its body.

    Args:
        fun: takes pytrees of arrays, by position or by keyword but not keyword-only; returns a pytree of arrays.

    Raises:
        TransformError: `fun` is not callable.

    >>> import attrs, effx, effx.numpy as enp
    >>> from effx.handling import InterceptHandler
    >>> @named_function
    ... def step(x): return enp.where(x > 0, 1.0, 0.0)
    >>> @attrs.frozen
    ... class Smooth(InterceptHandler[None]): ...
    >>> @Smooth.function_rule(step)
    ... def _(x): return 1.0 / (1.0 + enp.exp(-4.0 * x))
    >>> f = effx.jit(lambda x: step(x) * 2.0)
    >>> print(f(0.0), Smooth().run(f, 0.0))
    0.0 1.0
    """

    __name__: str

    def __init__(self, fun: Callable[P, R]) -> None:
        check_function(fun, what="named_function")
        self.fun = fun
        update_wrapper(self, fun)
        self.__name__ = callable_name(fun)

    def __repr__(self) -> str:
        return f"<named_function {self.__name__}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function, or the rule of an installed handler for it."""
        transform_name = "named_function"
        call = Invocation(
            transform_name, self.fun, bind_positional_arguments(transform_name, self.fun, args, kwargs), ()
        )

        def result() -> tuple[PyTreeDef, Sequence[ArrayType]]:
            assert call.out_types is not None
            return call.out_tree, call.out_types

        named = NamedCall(self, call.in_tree, result)
        outputs: R = perform_custom(call, CustomRules(transform_name, self.__name__, function=named))
        return outputs
