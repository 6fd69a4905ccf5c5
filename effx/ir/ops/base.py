"""The base classes of operations, the traits, and the checks of typing rules."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from effx.effects import Operation, Value
from effx.errors import DTypeError, NoRuleError, ProgramError, ShapeError
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.types import ArrayType, Shape, array_type
from effx.ir.values.array import Array, Operand


class ArrayOperation(Operation[Array]):
    """An operation with one array as its result.

    >>> import attrs, effx, effx.numpy as enp
    >>> from effx.handling import ArrayOperation, array_type
    >>> @attrs.frozen
    ... class Copies(ArrayOperation):
    ...     count: int
    ...     def infer(self, *types): return array_type(types[0].dtype, (self.count, *types[0].shape))
    ...     def decompose(self, x): return enp.stack([x] * self.count)
    >>> print(effx.jit(Copies(2))(enp.array([1.0, 2.0])))
    [[1. 2.]
     [1. 2.]]
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __call__(self, *operands: Value | Operand) -> Array: ...

    def infer(self, *types: ArrayType) -> ArrayType:
        """The typing rule: the result's type from the operands' types.

        Raises:
            ShapeError, DTypeError: the operands are invalid.
        """
        raise ProgramError(f"{self.name}: the operation has no typing rule; override infer")


class TupleOperation(Operation[tuple[Array, ...]]):
    """An operation with a tuple of arrays as its result.

    >>> import attrs, effx
    >>> from effx.handling import TupleOperation
    >>> @attrs.frozen
    ... class SumAndDifference(TupleOperation):
    ...     def infer(self, *types): return types
    ...     def decompose(self, x, y): return x + y, x - y
    >>> print(*effx.jit(SumAndDifference())(5.0, 3.0))
    8.0 2.0
    """

    __slots__ = ()
    multiple = True

    if TYPE_CHECKING:

        def __call__(self, *operands: Value | Operand) -> tuple[Array, ...]: ...

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The typing rule: the results' types from the operands' types."""
        raise ProgramError(f"{self.name}: the operation has no typing rule; override infer")


class Singleton:
    """Gives a parameter-free operation class one instance; a class with an `__init__` has many."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __new__(cls) -> Self: ...

    else:

        def __new__(cls, *parameters, **named):
            if cls.__init__ is not object.__init__:
                return super().__new__(cls)
            if parameters or named:
                raise TypeError(
                    f"{cls.__name__}() takes no parameters; those of an operation are attrs fields"
                )
            instance = cls.__dict__.get("_instance")
            if instance is None:
                instance = cls._instance = super().__new__(cls)
            return instance

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Linear(Operation[Array]):
    """Trait: linear in all operands together, so the tangent is the operation on the tangents.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling import Linear, places
    >>> program = effx.make_jaxpr(lambda x: enp.exp(x).sum() - x[0])(enp.ones(3))
    >>> sorted({place.op.name for place in places(program) if isinstance(place.op, Linear)})
    ['reduce_sum', 'reshape', 'slice', 'sub']
    """

    __slots__ = ()


class Structural(Operation[Array]):
    """Trait: moves or repeats elements without computing with them.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling import Structural, places
    >>> program = effx.make_jaxpr(lambda x: enp.sin(x).T.reshape(-1))(enp.ones((2, 3)))
    >>> [place.op.name for place in places(program) if isinstance(place.op, Structural)]
    ['transpose', 'reshape']
    """

    __slots__ = ()


class Rearranging(Operation[tuple[Array, ...]]):
    """Trait: gives the elements of its operands in an order that depends on them, without computing with them."""

    __slots__ = ()


class Monotone(Operation[Array]):
    """Trait: one operand, non-decreasing over the whole real line.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling import Monotone, places
    >>> program = effx.make_jaxpr(lambda x: enp.exp(x) + enp.sin(x))(1.0)
    >>> [place.op.name for place in places(program) if isinstance(place.op, Monotone)]
    ['exp']
    """

    __slots__ = ()


class PiecewiseConstant(Operation[Array]):
    """Trait: its derivative is zero wherever it has one, and so is its tangent.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling import PiecewiseConstant
    >>> from effx.handling.ops import Floor
    >>> issubclass(Floor, PiecewiseConstant), effx.grad(enp.floor)(1.5).tolist()
    (True, 0.0)
    """

    __slots__ = ()


_KIND_NAMES = {"b": "boolean", "i": "integer", "f": "floating", "c": "complex", "V": "keys"}
_ONE_KIND_OF_INTEGERS = {"i": "signed integer", "u": "unsigned integer"}


def describe_kinds(kinds: str) -> str:
    """Returns in words what dtypes of some kinds are.

    >>> [describe_kinds(kinds) for kinds in ("f", "iu", "bi", "biuf")]
    ['floating', 'integer', 'boolean or signed integer', 'boolean, integer or floating']
    """
    if "i" in kinds and "u" in kinds:
        names = [_KIND_NAMES[k] for k in kinds if k != "u"]
    else:
        names = [_ONE_KIND_OF_INTEGERS.get(k) or _KIND_NAMES[k] for k in kinds]
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


class Elementwise(ArrayOperation):
    """Trait: works element by element. All shapes are equal, but rank-0 operands broadcast.

    What a class declares, the handlers read; a rule that is registered for the class comes before.

    Attributes:
        arity: number of operands.
        kinds: the dtype kinds it takes, letters of `ArrayType.kind`.
        domain: an interval for the operands in which the operation is real, smooth and away from branch cuts;
            tests and laws draw samples from it.
        stablehlo: the operation of StableHLO or CHLO that takes the same operands and gives the same result, such as
            "stablehlo.sine" and "chlo.asin"; "" if there is none.

    >>> import attrs, effx, effx.numpy as enp
    >>> from effx.handling import Elementwise
    >>> @attrs.frozen
    ... class MultiplyAdd(Elementwise):
    ...     arity, kinds = 3, "f"
    ...     def infer(self, *types): return types[0]
    ...     def decompose(self, x, y, z): return x * y + z
    >>> x = enp.array([1.0, 2.0])
    >>> print(effx.jit(MultiplyAdd())(x, x, x))
    [2. 6.]
    """

    __slots__ = ()
    arity: ClassVar[int] = 1
    kinds: ClassVar[str] = "biufc"
    domain: ClassVar[tuple[float, float]] = (-2.0, 2.0)
    stablehlo: ClassVar[str] = ""

    @property
    def reference(self) -> Callable[..., object] | None:
        """The NumPy function of the operands, of which floats have 64 bits; its values are rounded to the result's dtype.

        A class declares it as an attribute or as a method; None if there is none.
        """
        return None

    def tangent(self, dx: Array, x: Array, y: Array, /) -> Array:
        """The derivative of an operation of one operand: the result's tangent, from x, its tangent and y = op(x)."""
        raise NoRuleError(f"{self.name}: declares no tangent")


class Unary(Singleton, Elementwise):
    """An elementwise operation of one operand that keeps its type.

    >>> import effx
    >>> from effx.handling import Unary
    >>> class Cube(Unary):
    ...     __slots__ = ()
    ...     kinds = "f"
    ...     def decompose(self, x): return x * x * x
    >>> print(Cube()(2.0), effx.grad(Cube())(2.0))
    8.0 12.0
    """

    __slots__ = ()

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        if len(types) == 1 and types[0].kind in self.kinds:
            return types[0]
        return elementwise_type(self, types)


class Binary(Singleton, Elementwise):
    """An elementwise operation of two operands of one dtype that keeps it.

    >>> import effx
    >>> from effx.handling import Binary
    >>> class Mean(Binary):
    ...     __slots__ = ()
    ...     kinds = "f"
    ...     def decompose(self, x, y): return (x + y) / 2.0
    >>> print(Mean()(1.0, 4.0), effx.grad(Mean())(1.0, 4.0))
    2.5 0.5
    """

    __slots__ = ()
    arity = 2

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operands' common type; rank-0 operands broadcast."""
        if len(types) == 2 and types[0] is types[1] and types[0].kind in self.kinds:
            return types[0]
        return elementwise_type(self, types)

    def tangent_by_first(self, dx: Array, x: Array, y: Array, z: Array, /) -> Array:
        """The derivative by the first operand: the tangent of z = op(x, y) where x has one, and y has not."""
        raise NoRuleError(f"{self.name}: declares no tangent by the first operand")

    def tangent_by_second(self, dy: Array, x: Array, y: Array, z: Array, /) -> Array:
        """The derivative by the second operand; a class declares both."""
        raise NoRuleError(f"{self.name}: declares no tangent by the second operand")


def check_arity(op: Operation[object], types: tuple[ArrayType, ...], arity: int) -> None:
    """Raises a ShapeError unless there are exactly `arity` operands."""
    if len(types) != arity:
        raise ShapeError(
            f"{op.name}: takes {arity} operand{'s' * (arity != 1)}, got {len(types)}: {types_text(types)}"
        )


def types_text(types: tuple[ArrayType, ...]) -> str:
    """Returns the types separated by commas."""
    return ", ".join(map(repr, types))


def check_kind(op: Operation[object], t: ArrayType, kinds: str, role: str = "operand") -> None:
    """Raises a DTypeError unless the type's dtype is of one of the kinds."""
    if t.kind not in kinds:
        raise DTypeError(f"{op.name}: {role} must be {describe_kinds(kinds)}, got {t!r}")


def elementwise_type(op: Elementwise, types: tuple[ArrayType, ...], offset: int = 0) -> ArrayType:
    """The typing rule of elementwise operations: one dtype, one shape, rank-0 operands broadcast.

    Args:
        op: for its name, arity and kinds.
        types: operand types.
        offset: the position of `types[0]` among the operands, for errors.
    """
    check_arity(op, types, op.arity - offset)
    first = types[0]
    check_kind(op, first, op.kinds)
    shape = first.shape
    weak = first.weak
    for position, t in enumerate(types[1:], 1 + offset):
        if t.dtype != first.dtype:
            raise DTypeError(
                f"{op.name}: operand dtypes differ: operand {offset} is {first!r}, operand {position} is {t!r}"
            )
        weak = weak and t.weak
        if t.shape != shape and t.shape:
            if shape:
                raise ShapeError(
                    f"{op.name}: operand shapes differ: {types_text(types)}; only rank-0 operands broadcast"
                )
            shape = t.shape
    return array_type(first.dtype, shape, weak)


def broadcast_shape(op: Operation[object], types: tuple[ArrayType, ...]) -> Shape:
    """Returns the one shape of operands that may differ in dtype; rank-0 operands broadcast."""
    shape: Shape = ()
    for t in types:
        if t.shape and t.shape != shape:
            if shape:
                raise ShapeError(
                    f"{op.name}: operand shapes differ: {types_text(types)}; only rank-0 operands broadcast"
                )
            shape = t.shape
    return shape


def check_axis(op: Operation[object], axis: int, t: ArrayType, role: str = "axis") -> None:
    """Raises a ShapeError unless `axis` is one of the type's, counted from 0."""
    if not 0 <= axis < t.ndim:
        raise ShapeError(f"{op.name}: {role} {axis} is out of range for {t!r}, which has {t.ndim} axes")


def check_axes(op: Operation[object], axes: tuple[int, ...], t: ArrayType, role: str = "axes") -> None:
    """Raises a ShapeError unless `axes` are distinct axes of the type."""
    for axis in axes:
        check_axis(op, axis, t, role)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{op.name}: {role} {axes} repeat an axis")


class NamedAttribute(Protocol):
    """The part of an attrs attribute that a validator reads."""

    @property
    def name(self) -> str:
        """The attribute's name."""
        ...


def check_int_tuple(instance: object, attribute: NamedAttribute, value: tuple[int, ...]) -> None:
    """An attrs validator: a tuple of ints; sizes may be symbolic."""
    if type(value) is not tuple or not all([type(v) is int or is_symbolic(v) for v in value]):
        raise TypeError(f"{type(instance).__name__}: {attribute.name} must be a tuple of ints, got {value!r}")


def check_int(instance: object, attribute: NamedAttribute, value: int) -> None:
    """An attrs validator: an int, and no bool; a size may be symbolic."""
    if type(value) is not int and not is_symbolic(value):
        raise TypeError(f"{type(instance).__name__}: {attribute.name} must be an int, got {value!r}")
