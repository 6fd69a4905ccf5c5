"""Protocols that tell type checkers the signatures of transformed functions (`grad(f)`, `vmap(f)`).

A transformation keeps the function's signature in `P` and `R`. Where the transformed one differs (vmap adds an
axis, a gradient has the argument's type), the overloads of `__call__` say so, and look at the function
through its `__wrapped__`. The last overload of each serves every other function.

Never: exist at run time but as names; functions are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeAlias, final, overload

from typing_extensions import TypeVar, TypeVarTuple, Unpack

from effx.array import Array, Operand, Scalar
from effx.ir.values.array import HostData, Numeric
from effx.ir.values.holding import OfOperand as OfOperand
from effx.ir.values.parameters import F, M, N
from effx.tree.registry import PyTree

P = ParamSpec("P")
Q = ParamSpec("Q")
A = TypeVar("A")
B = TypeVar("B")
A_contra = TypeVar("A_contra", contravariant=True)
B_contra = TypeVar("B_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
R_contra = TypeVar("R_contra", contravariant=True)
Ts = TypeVarTuple("Ts")
K_co = TypeVar("K_co", covariant=True)  # the numbers of arguments; object where unknown
Aux_co = TypeVar("Aux_co", covariant=True)
Size = TypeVar("Size", default=Any)
# Dtypes of arguments and results; sizes of axes.
X = TypeVar("X", default=Any)
Y = TypeVar("Y", default=Any)
Z = TypeVar("Z", default=Any)
V = TypeVar("V", default=Any)
W = TypeVar("W", default=Any)
Xs = TypeVarTuple("Xs", default=Unpack[tuple[Any, ...]])
Ys = TypeVarTuple("Ys", default=Unpack[tuple[Any, ...]])
Zs = TypeVarTuple("Zs", default=Unpack[tuple[Any, ...]])
Vs = TypeVarTuple("Vs", default=Unpack[tuple[Any, ...]])
Ws = TypeVarTuple("Ws", default=Unpack[tuple[Any, ...]])

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from effx.tree.mapping import AttrsRecord

    Record: TypeAlias = DataclassInstance | AttrsRecord


class TreeNode(Protocol):
    """An object of a class that flattens itself, as `tree_util.register_pytree_node_class` registers it."""

    def tree_flatten(self) -> tuple[PyTree, PyTree]:
        """Returns the children and what is static."""
        ...


Container: TypeAlias = "tuple[PyTree, ...] | list[PyTree] | Mapping[Any, PyTree] | Record | TreeNode"
"""What checkers can tell for a tree that is no leaf. A text is none."""
PyTreeLike: TypeAlias = "Operand | Container | None"
ScalarResult = Scalar | bool | int | float | complex
"""What a function that `grad` takes may return: an array without axes, or a number."""


@final
class Unnameable:
    """A type that no function names: a function that takes it takes any argument, and its result type is unknown."""


@final
class NoFunction:
    """A function that nobody has, for the first overload of a transformation.

    mypy reads `partial(transformation, option=1)` by the first overload, whatever the options: by that of `NoFunction` the
    function that is decorated keeps no signature; by another one it would take no arguments.
    """

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree: ...


class Variadic(Protocol[R_co]):
    """A function of any number of arguments."""

    def __call__(self, *args: Array) -> R_co: ...


class WithFirst(Protocol[A_contra, Q, R_co]):
    """A function whose first argument is separated from the others."""

    @property
    def __wrapped__(self) -> Callable[Concatenate[A_contra, Q], R_co]: ...


class WithTwo(Protocol[A_contra, B_contra, Q, R_co]):
    """A function whose first two arguments are separated from the others."""

    @property
    def __wrapped__(self) -> Callable[Concatenate[A_contra, B_contra, Q], R_co]: ...


class WithThree(Protocol[A_contra, B_contra, C_contra, Q, R_co]):
    """A function whose first three arguments are separated from the others."""

    @property
    def __wrapped__(self) -> Callable[Concatenate[A_contra, B_contra, C_contra, Q], R_co]: ...


class Unary1(Protocol[A_contra, R_co]):
    """A function of one argument."""

    @property
    def __wrapped__(self) -> Callable[[A_contra], R_co]: ...


class Of2(Protocol[A_contra, B_contra, R_co]):
    """A function of two arguments."""

    @property
    def __wrapped__(self) -> Callable[[A_contra, B_contra], R_co]: ...


class Of3(Protocol[A_contra, B_contra, C_contra, R_co]):
    """A function of three arguments."""

    @property
    def __wrapped__(self) -> Callable[[A_contra, B_contra, C_contra], R_co]: ...


class Positional(Protocol[*Ts]):
    """A function with derivative rules, by its arguments."""

    @property
    def fun(self) -> Callable[[*Ts], object]: ...


class ByFirst(Protocol[A_contra, Q]):
    """A gradient by the first argument."""

    @property
    def __wrapped__(self) -> Callable[Concatenate[A_contra, Q], object]: ...
    @property
    def argnums(self) -> Literal[0]: ...


class BySecond(Protocol[A_contra, B_contra, Q]):
    """A gradient by the second argument."""

    @property
    def __wrapped__(self) -> Callable[Concatenate[A_contra, B_contra, Q], object]: ...
    @property
    def argnums(self) -> Literal[1]: ...


class ByBoth(Protocol[A_contra, B_contra, Q]):
    """A gradient by the first two arguments."""

    @property
    def __wrapped__(self) -> Callable[Concatenate[A_contra, B_contra, Q], object]: ...
    @property
    def argnums(self) -> tuple[Literal[0], Literal[1]]: ...


class Gradient(Protocol[P, K_co]):
    """The type of `grad(f)`: it returns an argument's type, or an array where `f` takes a Python number."""

    @property
    def __wrapped__(self) -> Callable[P, object]: ...
    @property
    def argnums(self) -> K_co: ...

    @overload
    def __call__(self: ByFirst[Unnameable, Q], *args: P.args, **kwargs: P.kwargs) -> PyTree: ...
    @overload
    def __call__(self: ByFirst[float, Q], x: Operand, /, *args: Q.args, **kwargs: Q.kwargs) -> Array: ...
    @overload
    def __call__(self: ByFirst[A, Q], x: A, /, *args: Q.args, **kwargs: Q.kwargs) -> A: ...
    @overload
    def __call__(self: BySecond[A, Unnameable, Q], *args: P.args, **kwargs: P.kwargs) -> PyTree: ...
    @overload
    def __call__(
        self: BySecond[A, float, Q], x: A, y: Operand, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> Array: ...
    @overload
    def __call__(self: BySecond[A, B, Q], x: A, y: B, /, *args: Q.args, **kwargs: Q.kwargs) -> B: ...
    @overload
    def __call__(self: ByBoth[Unnameable, Unnameable, Q], *args: P.args, **kwargs: P.kwargs) -> PyTree: ...
    @overload
    def __call__(
        self: ByBoth[float, float, Q], x: Operand, y: Operand, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[Array, Array]: ...
    @overload
    def __call__(self: ByBoth[A, B, Q], x: A, y: B, /, *args: Q.args, **kwargs: Q.kwargs) -> tuple[A, B]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> PyTree: ...


class GradientAndAux(Protocol[P, Aux_co, K_co]):
    """The type of `grad(f, has_aux=True)`."""

    @property
    def __wrapped__(self) -> Callable[P, tuple[object, Aux_co]]: ...
    @property
    def argnums(self) -> K_co: ...

    @overload
    def __call__(
        self: ByFirst[Unnameable, Q], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[PyTree, Aux_co]: ...
    @overload
    def __call__(
        self: ByFirst[float, Q], x: Operand, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[Array, Aux_co]: ...
    @overload
    def __call__(self: ByFirst[A, Q], x: A, /, *args: Q.args, **kwargs: Q.kwargs) -> tuple[A, Aux_co]: ...
    @overload
    def __call__(
        self: BySecond[A, Unnameable, Q], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[PyTree, Aux_co]: ...
    @overload
    def __call__(
        self: BySecond[A, float, Q], x: A, y: Operand, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[Array, Aux_co]: ...
    @overload
    def __call__(
        self: BySecond[A, B, Q], x: A, y: B, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[B, Aux_co]: ...
    @overload
    def __call__(
        self: ByBoth[Unnameable, Unnameable, Q], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[PyTree, Aux_co]: ...
    @overload
    def __call__(
        self: ByBoth[float, float, Q], x: Operand, y: Operand, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[tuple[Array, Array], Aux_co]: ...
    @overload
    def __call__(
        self: ByBoth[A, B, Q], x: A, y: B, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[tuple[A, B], Aux_co]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[PyTree, Aux_co]: ...


class ValueAndGradient(Protocol[P, R_co, K_co]):
    """The type of `value_and_grad(f)`: the value (with has_aux the pair that `f` returns) and the gradient."""

    @property
    def __wrapped__(self) -> Callable[P, R_co]: ...
    @property
    def argnums(self) -> K_co: ...

    @overload
    def __call__(self: ByFirst[Unnameable, Q], *args: P.args, **kwargs: P.kwargs) -> tuple[R_co, PyTree]: ...
    @overload
    def __call__(
        self: ByFirst[float, Q], x: Operand, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[R_co, Array]: ...
    @overload
    def __call__(self: ByFirst[A, Q], x: A, /, *args: Q.args, **kwargs: Q.kwargs) -> tuple[R_co, A]: ...
    @overload
    def __call__(
        self: BySecond[A, Unnameable, Q], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[R_co, PyTree]: ...
    @overload
    def __call__(
        self: BySecond[A, float, Q], x: A, y: Operand, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[R_co, Array]: ...
    @overload
    def __call__(
        self: BySecond[A, B, Q], x: A, y: B, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[R_co, B]: ...
    @overload
    def __call__(
        self: ByBoth[Unnameable, Unnameable, Q], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[R_co, PyTree]: ...
    @overload
    def __call__(
        self: ByBoth[float, float, Q], x: Operand, y: Operand, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[R_co, tuple[Array, Array]]: ...
    @overload
    def __call__(
        self: ByBoth[A, B, Q], x: A, y: B, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[R_co, tuple[A, B]]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[R_co, PyTree]: ...


class JacobianOf(Protocol[P, R_co]):
    """The type of `jacfwd(f)` and `jacrev(f)`: the result's axes come before the argument's."""

    @property
    def __wrapped__(self) -> Callable[P, R_co]: ...

    @overload
    def __call__(self: WithFirst[Unnameable, Q, object], *args: P.args, **kwargs: P.kwargs) -> PyTree: ...
    @overload
    def __call__(self: Unary1[Array[F, *Xs], Scalar[F]], x: Array[F, *Xs], /) -> Array[F, *Xs]: ...
    @overload
    def __call__(self: Unary1[Scalar[F], Array[F, *Ys]], x: Scalar[F], /) -> Array[F, *Ys]: ...
    @overload
    def __call__(self: Unary1[Array[F, N], Array[F, M]], x: Array[F, N], /) -> Array[F, M, N]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> PyTree: ...


class HessianOf(Protocol[P, R_co]):
    """The type of `hessian(f)`: the result's axes come before the argument's, twice."""

    @property
    def __wrapped__(self) -> Callable[P, R_co]: ...

    @overload
    def __call__(self: WithFirst[Unnameable, Q, object], *args: P.args, **kwargs: P.kwargs) -> PyTree: ...
    @overload
    def __call__(self: Unary1[Scalar[F], Array[F, *Ys]], x: Scalar[F], /) -> Array[F, *Ys]: ...
    @overload
    def __call__(self: Unary1[Array[F, N], Scalar[F]], x: Array[F, N], /) -> Array[F, N, N]: ...
    @overload
    def __call__(self: Unary1[Array[F, N], Array[F, M]], x: Array[F, N], /) -> Array[F, M, N, N]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> PyTree: ...


class BatchedFunction(Protocol[P, R_co]):
    """The type of `vmap(f)`: arguments and results have one more leading axis."""

    if TYPE_CHECKING:  # without it every overloaded function, `grad(f)` too, would match a BatchedFunction

        def _is_batched(self) -> None: ...

    @property
    def __wrapped__(self) -> Callable[P, R_co]: ...

    @overload
    def __call__(self: WithFirst[Unnameable, Q, object], *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self: WithTwo[A, Unnameable, Q, object], *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self: WithThree[A, B, Unnameable, Q, object], *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(
        self: Unary1[Array[X, *Xs], Array[V, *Vs]], x: Array[X, Size, *Xs] | HostData, /
    ) -> Array[V, Size, *Vs]: ...
    @overload
    def __call__(  # a repetition: pyright uses this overload where the function is passed on
        self: BatchedFunction[[Array[X, *Xs]], Array[V, *Vs]], x: Array[X, Size, *Xs] | HostData, /
    ) -> Array[V, Size, *Vs]: ...
    @overload
    def __call__(
        self: Unary1[Array[X, *Xs], tuple[Array[V, *Vs], Array[W, *Ws]]], x: Array[X, Size, *Xs] | HostData, /
    ) -> tuple[Array[V, Size, *Vs], Array[W, Size, *Ws]]: ...
    @overload
    def __call__(
        self: Of2[Array[X, *Xs], Array[Y, *Ys], Array[V, *Vs]],
        x: Array[X, Size, *Xs] | HostData,
        y: Array[Y, Size, *Ys] | HostData,
        /,
    ) -> Array[V, Size, *Vs]: ...
    @overload
    def __call__(
        self: Of2[Array[X, *Xs], Array[Y, *Ys], tuple[Array[V, *Vs], Array[W, *Ws]]],
        x: Array[X, Size, *Xs] | HostData,
        y: Array[Y, Size, *Ys] | HostData,
        /,
    ) -> tuple[Array[V, Size, *Vs], Array[W, Size, *Ws]]: ...
    @overload
    def __call__(
        self: Of3[Array[X, *Xs], Array[Y, *Ys], Array[Z, *Zs], Array[V, *Vs]],
        x: Array[X, Size, *Xs] | HostData,
        y: Array[Y, Size, *Ys] | HostData,
        z: Array[Z, Size, *Zs] | HostData,
        /,
    ) -> Array[V, Size, *Vs]: ...
    @overload
    def __call__(
        self: Of3[Array[X, *Xs], Array[Y, *Ys], Array[Z, *Zs], tuple[Array[V, *Vs], Array[W, *Ws]]],
        x: Array[X, Size, *Xs] | HostData,
        y: Array[Y, Size, *Ys] | HostData,
        z: Array[Z, Size, *Zs] | HostData,
        /,
    ) -> tuple[Array[V, Size, *Vs], Array[W, Size, *Ws]]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class MappedFunction(Protocol[P, R_co]):
    """The type of `vmap(f, in_axes=...)`: shapes are unknown."""

    @property
    def __wrapped__(self) -> Callable[P, R_co]: ...

    @overload
    def __call__(self: WithFirst[Unnameable, Q, object], *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self: WithTwo[A, Unnameable, Q, object], *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self: WithThree[A, B, Unnameable, Q, object], *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(
        self: Unary1[Array[X, *Xs], Array[V, *Vs]], x: Array[X, *tuple[Any, ...]] | Numeric, /
    ) -> Array[V, *tuple[Any, ...]]: ...
    @overload
    def __call__(
        self: Of2[Array[X, *Xs], Array[Y, *Ys], Array[V, *Vs]],
        x: Array[X, *tuple[Any, ...]] | Numeric,
        y: Array[Y, *tuple[Any, ...]] | Numeric,
        /,
    ) -> Array[V, *tuple[Any, ...]]: ...
    @overload
    def __call__(
        self: Of3[Array[X, *Xs], Array[Y, *Ys], Array[Z, *Zs], Array[V, *Vs]],
        x: Array[X, *tuple[Any, ...]] | Numeric,
        y: Array[Y, *tuple[Any, ...]] | Numeric,
        z: Array[Z, *tuple[Any, ...]] | Numeric,
        /,
    ) -> Array[V, *tuple[Any, ...]]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class Pushforward(Protocol[R_co, *Ts]):
    """The derivative from `linearize(f, x)`: from tangents of the arguments' types, or numbers, to one of the result's."""

    out_nzs: PyTree

    @overload
    def __call__(self, *tangents: Unpack[Ts]) -> R_co: ...
    @overload
    def __call__(self, *tangents: Numeric) -> R_co: ...


class Pullback(Protocol[R_contra, *Ts]):
    """The type of `linear_transpose(f, x)`: a cotangent of the result's type to a tuple of the arguments' types.

    A number is accepted for an array of rank 0.
    """

    @overload
    def __call__(self, cotangent: R_contra, /) -> tuple[Unpack[Ts]]: ...
    @overload
    def __call__(self: Pullback[Scalar, *Ts], cotangent: Numeric, /) -> tuple[Unpack[Ts]]: ...
    @overload
    def __call__(
        self: Pullback[tuple[Scalar, Scalar], *Ts], cotangent: tuple[Operand, Operand], /
    ) -> tuple[Unpack[Ts]]: ...


class ResidualPullback(Pullback[R_contra, *Ts], Protocol[R_contra, *Ts]):
    """The pullback from `vjp(f, x)`: see `effx.ad.VJP`."""

    args_res: list[PyTree]
    opaque_residuals: list[Array]

    @property
    def out_nzs(self) -> PyTree:
        """For each array of the result, whether it depends on a differentiated primal."""
        ...

    @property
    def with_logs(self) -> LoggingPullback[R_contra, *Ts]:
        """This pullback, giving a pair of the cotangents and of what rules log."""
        ...

    def with_refs(self, *maybe_ct_refs: PyTree) -> Callable[[R_contra], tuple[PyTree, ...]]:
        """Returns this pullback with a destination for each cotangent."""
        ...


class LoggingPullback(Protocol[R_contra, *Ts]):
    """`f_vjp.with_logs` of a pullback."""

    def __call__(self, cotangent: R_contra, /) -> tuple[tuple[*Ts], dict[str, PyTree]]:
        """Applies the transpose."""
        ...

    def with_refs(
        self, *maybe_ct_refs: PyTree
    ) -> Callable[[R_contra], tuple[tuple[PyTree, ...], dict[str, PyTree]]]:
        """Returns this pullback with a destination for each cotangent."""
        ...
