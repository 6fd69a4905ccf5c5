"""Parameters made where they are used: `init` makes them, `apply` supplies them, in the way of Haiku.

A function asks for a parameter by name, shape and initialiser. `transform` splits it into a function that makes all parameters
and one that runs with given ones. Names get the surrounding `named_scope`s in front. In a scan each step
makes its own, so that layers stack.

Never: hold a parameter.
"""

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, final

import attrs

import effx.numpy as enp
from effx import Array, random
from effx.array.values import Operand
from effx.errors import TransformError
from effx.handling import ArrayOperation, ArrayType, Frame, InterceptHandler, Label, Site, array_type
from effx.library.turns import Turns

__all__ = ["Transformed", "param", "transform"]

P = ParamSpec("P")
R = TypeVar("R")
Params = dict[str, Array]
PARAM = Label("param")


class Initializer(Protocol):
    """Makes a parameter: `effx.nn.initializers` has many."""

    def __call__(self, key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """Returns an array of the shape and dtype."""
        ...


@final
@attrs.frozen
class Param(ArrayOperation):
    """Wants a parameter. No operands.

    Attributes:
        key: the parameter's name, without scopes.
        type: of the parameter.
        init: makes it.
    """

    key: str
    type: ArrayType
    init: Initializer
    effects = frozenset({PARAM})

    def infer(self, *types: ArrayType) -> ArrayType:
        """The parameter's type."""
        return self.type


def param(name: str, shape: tuple[int, ...], init: Initializer, dtype: Any = "float32") -> Array:
    """Asks for a parameter.

    Args:
        name: of the parameter; the surrounding named scopes come in front.
        shape, dtype: of the parameter.
        init: `(key, shape, dtype) -> array`.

    Raises:
        NoRuleError: no handler supplies parameters; call the function through `transform`.
    """
    return Param(name, array_type(enp.dtype(dtype), tuple(shape)), init)()


def full_name(site: Site[Any, Any], op: Param) -> str:
    """Returns a parameter's name with its scopes in front."""
    return f"{site.scope}/{op.key}" if site.scope else op.key


@final
@attrs.frozen
class Init(InterceptHandler[Array]):
    """Makes parameters. The state is a key, split for each."""

    key: Array
    handles = frozenset({PARAM})
    collects = True

    def initial(self) -> Array:
        """The first key."""
        return self.key

    def collect(self, frame: Frame, name: str, value: Any) -> None:
        """Keeps a parameter.

        Raises:
            TransformError: two programs, of jit or a loop, have each made one of this name.
        """
        if name in frame.collected:
            raise TransformError(
                f"param: {name!r} is made twice, in programs (of jit or a loop) that do not see each other; "
                f"put a named_scope around each use, or ask for it once outside and pass it in"
            )
        frame.collected[name] = value

    def returns(self, result: Any, frame: Frame) -> Any:
        """The parameters."""
        return frame.collected


@Init.rule(Param)
def _(site: Site[Init, Array], op: Param) -> Array:
    name = full_name(site, op)
    if name in site.frame.collected:
        shared: Array = site.memory[name]
        return shared
    site.state, key = random.split(site.state)
    x = enp.asarray(op.init(key, op.type.shape, op.type.dtype), op.type.dtype)
    if x.shape != op.type.shape:
        raise TransformError(f"param: {name!r} shall be {op.type!r}, but init gives {x.type!r}")
    site.memory[name] = x
    site.collect(name, x)
    return x


@final
@attrs.frozen
class Apply(InterceptHandler[Turns]):
    """Supplies parameters. The state counts visits, so that steps of a scan take rows in turn."""

    params: Params
    handles = frozenset({PARAM})

    def initial(self) -> Turns:
        """No visits."""
        return Turns.of(self.params)


@Apply.rule(Param)
def _(site: Site[Apply, Turns], op: Param) -> Array:
    name = full_name(site, op)
    if name not in site.handler.params:
        known = ", ".join(map(repr, site.handler.params)) or "none"
        raise TransformError(f"param: there is no parameter {name!r}; known are {known}")
    if name not in site.memory:
        site.memory[name] = site.state.row("param", name, site.handler.params[name], op.type)
        site.state = site.state.after(name)
    x: Array = site.memory[name]
    return x


@final
@attrs.frozen
class Transformed(Generic[P, R]):
    """A function with parameters, split in two.

    Attributes:
        fun: the function.
    """

    fun: Callable[P, R]

    def init(self, key: Operand, *args: P.args, **kwargs: P.kwargs) -> Params:
        """Makes the parameters that the function asks for on these arguments.

        Args:
            key: u32[2].

        Returns:
            The parameters by name.
        """
        found: Params = Init(enp.asarray(key)).run(self.fun, *args, **kwargs)
        return found

    def apply(self, params: Params, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function with parameters.

        Raises:
            TransformError: one is missing.
            ShapeError: one has another shape than the function asks for.
        """
        found: R = Apply(params).run(self.fun, *args, **kwargs)
        return found


def transform(fun: Callable[P, R]) -> Transformed[P, R]:
    """Splits a function that asks for parameters into `init` and `apply`.

    >>> import effx
    >>> import effx.numpy as enp
    >>> def linear(x, n):
    ...     w = param("w", (x.shape[-1], n), effx.nn.initializers.ones)
    ...     return x @ w + param("b", (n,), effx.nn.initializers.zeros)
    >>> @effx.jit
    ... def net(x):
    ...     with effx.named_scope("hidden"):
    ...         h = effx.nn.relu(linear(x, 3))
    ...     return linear(h, 1)
    >>> model, x = transform(net), enp.ones((2, 4))
    >>> params = model.init(effx.random.key(0), x)
    >>> {name: w.shape for name, w in params.items()}
    {'hidden/w': (4, 3), 'hidden/b': (3,), 'w': (3, 1), 'b': (1,)}
    >>> print(effx.jit(model.apply)(params, x).ravel())
    [12. 12.]
    """
    return Transformed(fun)
