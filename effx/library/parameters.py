"""Parameters created where they are used: `init` creates them, `apply` supplies them, as in Haiku.

A function requests a parameter by name, shape and initialiser. `transform` splits it into a function that
creates all parameters and one that runs with given ones. The name stack precedes a parameter's name. In a
scan each iteration creates its own, so layers are stacked; batch elements of a vmap share theirs.
"""

import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, final

import attrs

import effx
import effx.numpy as enp
from effx import Array, random
from effx.errors import ShapeError, TransformError, check_function
from effx.handling import ArrayOperation, ArrayType, Frame, InterceptHandler, Label, Site, array_type
from effx.ir.values.array import Operand
from effx.lazy import list_names
from effx.library.visit_counts import VisitCounts
from effx.library.wrapping import under
from effx.tree import PyTree

__all__ = ["Transformed", "param", "transform"]
__dir__ = list_names(__all__)

P = ParamSpec("P")
R = TypeVar("R")
Params = dict[str, Array]
PARAM = Label("param")


class ParameterInitializer(Protocol):
    """Creates a parameter: `effx.nn.initializers` has many."""

    def __call__(self, key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """Returns an array of the shape and dtype."""
        ...


@final
@attrs.frozen
class Param(ArrayOperation):
    """Asks for a parameter. No operands.

    Attributes:
        key: the parameter's name, without the name stack.
        type: of the parameter.
        init: creates it.
    """

    key: str
    type: ArrayType
    init: ParameterInitializer
    effects = frozenset({PARAM})

    def infer(self, *types: ArrayType) -> ArrayType:
        """The parameter's type."""
        return self.type


def param(name: str, shape: tuple[int, ...], init: ParameterInitializer, dtype: Any = "float32") -> Array:
    """Asks for a parameter.

    Args:
        name: of the parameter; the name stack precedes it.
        shape, dtype: of the parameter.
        init: `(key, shape, dtype) -> array`.

    Raises:
        NoRuleError: no handler supplies parameters; call the function through `transform`.
        TransformError: the name is no string, or the initialiser no function.

    >>> transform(lambda: param("w", (2,), effx.nn.initializers.ones)).apply({"w": [1.0, 2.0]})
    Array([1., 2.], dtype=float32)
    """
    if not (isinstance(name, str) and isinstance(shape, tuple | list) and callable(init)):  # type: ignore[redundant-expr]  # unchecked callers
        raise TransformError(
            f"param: expected a name, a shape and an initialiser, got {name!r}, {shape!r} and {init!r}"
        )
    return Param(name, array_type(enp.dtype(dtype), tuple(shape)), init)()


def full_name(site: Site[Any, Any], op: Param) -> str:
    """Returns a parameter's name after the name stack."""
    return f"{site.scope}/{op.key}" if site.scope else op.key


def look_up_parameter(site: Site[Any, Any], op: Param, name: str) -> Array | None:
    """Returns the parameter of this name that the program has requested before.

    Raises:
        ShapeError: it had another type.
    """
    result: Array | None = site.memory.get(name)
    if result is not None and not result.type.matches(op.type):
        raise ShapeError(f"param: {name!r} is {result.type!r} in one call and {op.type!r} in another")
    return result


@final
@attrs.frozen
class Init(InterceptHandler[Array]):
    """Creates parameters. The state is a key, split for each.

    Attributes:
        key: u32[2].
        asked: the requested parameters, by name.
    """

    key: Array
    asked: dict[str, Param] = attrs.field(factory=dict)
    handles = frozenset({PARAM})
    collects = True

    def initial(self) -> Array:
        """The first key."""
        return self.key

    def collect(self, frame: Frame, name: str, value: PyTree) -> None:
        """Stores a parameter.

        Raises:
            TransformError: two programs, of jit or a loop, each create one of this name.
        """
        if name in frame.collected:
            raise TransformError(
                f"param: {name!r} is made twice, in programs (of jit or a loop) that do not see each other; "
                f"put a named_scope around each use, or ask for it once outside and pass it in"
            )
        frame.collected[name] = value

    def missing(self, name: str, like: Array) -> Array:
        """Creates a parameter of a branch that is not taken, with its own key: it may be selected later."""
        op, key = self.asked[name], random.fold_in(self.key, zlib.crc32(name.encode()))
        rows = math.prod(like.shape[: like.ndim - op.type.ndim])
        by_row = effx.vmap(lambda k: create_parameter(name, op, k))(random.split(key, rows))
        return enp.reshape(by_row, like.shape)

    def merge_states(self, a: Array, b: Array) -> Array:
        """Refuses parameters that are created in a pmap.

        Raises:
            TransformError: always.
        """
        raise TransformError(
            "init: a pmap inside asks for parameters, which each replica would create; use vmap instead, "
            "and apply them by the pmap"
        )

    def returns(self, result: PyTree, frame: Frame) -> PyTree:
        """The parameters."""
        return frame.collected


@Init.rule(Param)
def _(site: Site[Init, Array], op: Param) -> Array:
    name = full_name(site, op)
    x = look_up_parameter(site, op, name)
    if x is None:
        site.handler.asked[name] = op
        site.state, key = random.split(site.state)
        x = site.memory[name] = create_parameter(name, op, key)
        site.collect(name, x)
    return x


def create_parameter(name: str, op: Param, key: Array) -> Array:
    """Creates a parameter.

    Raises:
        TransformError: the initialiser returns another type.
    """
    x = enp.asarray(op.init(key, op.type.shape, op.type.dtype))
    if x.shape != op.type.shape or (x.type.kind == "c") > (op.type.kind == "c"):
        raise TransformError(f"param: {name!r} shall be {op.type!r}, but init gives {x.type!r}")
    return x.astype(op.type.dtype)


@final
@attrs.frozen
class Apply(InterceptHandler[VisitCounts]):
    """Supplies parameters. The state counts visits, so that iteration i of a scan takes row i."""

    params: Mapping[str, Operand]
    handles = frozenset({PARAM})

    def initial(self) -> VisitCounts:
        """No visits."""
        return VisitCounts.of(self.params)

    def merge_states(self, a: VisitCounts, b: VisitCounts) -> VisitCounts:
        """The visits of replicas, which share parameters."""
        return a.join(b)


@Apply.rule(Param)
def _(site: Site[Apply, VisitCounts], op: Param) -> Array:
    name = full_name(site, op)
    if name not in site.handler.params:
        known = ", ".join(map(repr, site.handler.params)) or "none"
        raise TransformError(f"param: there is no parameter {name!r}; known are {known}")
    x = look_up_parameter(site, op, name)
    if x is None:
        x = site.memory[name] = site.state.row("param", name, site.handler.params[name], op.type)
        site.state = site.state.after(name)
    return x


@final
@attrs.frozen
class Transformed(Generic[P, R]):
    """A function with parameters, split in two.

    Attributes:
        fun: the function.

    >>> import effx
    >>> from effx.library.parameters import param, transform
    >>> model = transform(lambda x: param("w", (2,), effx.nn.initializers.ones) @ x)
    >>> x = effx.numpy.array([1.0, 2.0])
    >>> params = model.init(effx.random.key(0), x)
    >>> print(params["w"], model.apply(params, x), model.apply({"w": [0.0, 5.0]}, x))
    [1. 1.] 3.0 10.0
    """

    fun: Callable[P, R]

    def init(self, key: Operand, *args: P.args, **kwargs: P.kwargs) -> Params:
        """Creates the parameters that the function requests for these arguments.

        Args:
            key: u32[2].

        Returns:
            The parameters by name; those of a scan have its iterations as the first axis.

        Raises:
            TransformError: one is created twice, in two programs, or inside a pmap.
        """
        result: Params = under(Init(enp.asarray(key)), self.fun)(*args, **kwargs)
        return result

    def apply(self, params: Mapping[str, Operand], *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function with parameters.

        Args:
            params: by name. Others are ignored, so that a part of a model runs with the parameters of the
                whole.
            args, kwargs: the function's.

        Raises:
            TransformError: one is missing, or these are no parameters by name.
            ShapeError, DTypeError: one has another shape or kind.
        """
        if not isinstance(params, Mapping):
            raise TransformError(f"apply: expected parameters by name, got {params!r}")
        result: R = under(Apply(params), self.fun)(*args, **kwargs)
        return result


def transform(fun: Callable[P, R]) -> Transformed[P, R]:
    """Splits a function that requests parameters into `init` and `apply`.

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
    check_function(fun)
    return Transformed(fun)
