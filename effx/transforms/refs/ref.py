"""Mutable references: `new_ref`, `Ref`, and functions to read and write them."""

from __future__ import annotations

from collections.abc import Iterator
from operator import index as as_int
from typing import TYPE_CHECKING, Any, Literal, cast, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.promotion import as_operand, broadcast_to, convert, zeros
from effx.effects import Frame, current_frame
from effx.errors import BackendError, DTypeError, IndexingError, RefError, ShapeError, current_source
from effx.handlers.refs import home_for_new_cell, indexed_type, read_at, write_at
from effx.ir.ops.convert import StopGradient
from effx.ir.refs import (
    Cell,
    EncodedIndex,
    IndexOperand,
    IndexPart,
    IndexSlice,
    RefAddUpdate,
    RefGet,
    RefNew,
    RefSet,
    RefSwap,
)
from effx.ir.types import ArrayType, Shape
from effx.ir.values.array import Index
from effx.ir.values.refs import ReferenceBase
from effx.tracing.arguments import finalize_result, leaf_type

if TYPE_CHECKING:
    from effx.ir.values.array import Operand as Value
    from effx.tree.registry import PyTree

__all__ = [
    "AbstractRef",
    "Ref",
    "addupdate",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "set",
    "swap",
]

Kind = Literal["no_grad_no_remat"]


@final
@attrs.frozen(repr=False)
class AbstractRef:
    """The type of a reference.

    Attributes:
        inner_aval: the type of its contents.
        memory_space: None: contents are in the memory of arrays.
        kind: the `kind` of `new_ref`.

    >>> import effx, effx.numpy as enp
    >>> t = effx.typeof(effx.new_ref(enp.zeros(3)))
    >>> t, t.shape
    (Ref{f32[3]}, (3,))
    """

    inner_aval: ArrayType
    memory_space: None = None
    kind: Kind | None = None

    @property
    def shape(self) -> Shape:
        """The shape of its contents."""
        return self.inner_aval.shape

    @property
    def dtype(self) -> dtypes.DType:
        """The dtype of its contents."""
        return self.inner_aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes of its contents."""
        return self.inner_aval.ndim

    @property
    def size(self) -> int:
        """The number of elements of its contents."""
        return self.inner_aval.size

    def __repr__(self) -> str:
        return f"Ref{{{self.inner_aval}}}"


class _RefOrView(ReferenceBase):
    """A reference or a view of one: read and written by index."""

    __slots__ = ("_cell", "_path")
    _cell: Cell
    _path: tuple[Index, ...]  # the indices of `.at`, from the outermost

    @property
    def type(self) -> ArrayType:  # type: ignore[override]  # an attribute in the base
        """The type of the contents there."""
        return _type_at(self._cell, self._path)

    @property
    def aval(self) -> AbstractRef:
        """The type of the reference."""
        return AbstractRef(self.type, None, "no_grad_no_remat" if self._cell.stops_gradient else None)

    @property
    def at(self) -> At:
        """Views of parts: writing to `ref.at[2:5]` writes to the ref."""
        return At(self)

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError(f"len(ref): a Ref {self.type!r} has no axes, and so no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return iter([self[i] for i in range(len(self))])

    def __bool__(self) -> bool:
        raise RefError(f"bool(ref): a Ref {self.type!r} has no truth value; read it with ref[...]")

    if not TYPE_CHECKING:  # for type checkers a reference does not convert to an array

        def __array__(self, dtype=None, copy=None):
            raise RefError(f"numpy.asarray(ref): a Ref {self.type!r} is no array; read it with ref[...]")

    def __getitem__(self, index: Index) -> Array:
        path = (*self._path, *_index_path(index))
        cell = self._cell
        if current_frame() is cell.home_frame and not cell.end_reason:
            assert cell.content is not None
            return cast("Array", finalize_result(read_at(cell.content, path)))
        encoding = encode_index(path)
        if encoding is None:
            return read_at(self._read_all(), path)
        encoded_index, arrays = encoding
        (result,) = RefGet(cell, encoded_index, _indexed_type(cell, encoded_index, arrays))(*arrays)
        return cast("Array", finalize_result(result))

    def __setitem__(self, index: Index, value: Value) -> None:
        self._write(index, value, "set")

    def addupdate(self, x: Value, idx: Index = ()) -> None:
        """Adds to the elements at an index; repeated indices are all added.

        Args:
            x: the value to add, broadcast to the elements.
            idx: an index as for arrays; () for the whole.
        """
        self._write(idx, x, "add")

    def _read_all(self) -> Array:
        (content,) = RefGet(self._cell, (), self._cell.type)()
        return content

    def _write(self, index: Index, value: Value, combiner: Literal["set", "add"]) -> None:
        cell = self._cell
        path = (*self._path, *_index_path(index))
        x = _convert_element(cell, as_operand(value, "ref"))
        if current_frame() is cell.home_frame and not cell.end_reason:
            assert cell.content is not None
            if not path:
                x = broadcast_to(x, cell.type.shape)
            cell.content = write_at(cell.content, path, x, combiner)
            return
        encoding = encode_index(path)
        if encoding is None:
            RefSet(cell, (), cell.type)(write_at(self._read_all(), path, x, combiner))
            return
        encoded_index, arrays = encoding
        part = _indexed_type(cell, encoded_index, arrays)
        operation = RefSet if combiner == "set" else RefAddUpdate
        operation(cell, encoded_index, part)(broadcast_to(x, part.shape), *arrays)

    def _swap(self, index: Index, value: Value) -> Array:
        cell = self._cell
        path = (*self._path, *_index_path(index))
        encoding = encode_index(path)
        if (current_frame() is cell.home_frame and not cell.end_reason) or encoding is None:
            previous = self[index]
            self[index] = value
            return previous
        encoded_index, arrays = encoding
        part = _indexed_type(cell, encoded_index, arrays)
        x = broadcast_to(_convert_element(cell, as_operand(value, "ref")), part.shape)
        (result,) = RefSwap(cell, encoded_index, part)(x, *arrays)
        return result


@final
class Ref(_RefOrView):
    """A mutable reference to an array: `new_ref` makes one.

    `ref[i]` reads and `ref[i] = x` writes, with all indices of arrays; `ref[...]` is the whole. Functions under
    `jit`, loops and branches may close over a ref or take it as an argument; their writes are visible afterwards.

    >>> import effx, effx.numpy as enp
    >>> total = effx.new_ref(enp.zeros(3))
    >>> @effx.jit
    ... def add(x):
    ...     total[...] += x
    >>> add(enp.ones(3))
    >>> add(enp.arange(3.0))
    >>> total
    Ref([1., 2., 3.], dtype=float32)
    """

    __slots__ = ()

    def __init__(self, cell: Cell) -> None:
        self._cell, self._path = cell, ()

    @property
    def type(self) -> ArrayType:  # type: ignore[override]  # as in the base
        """The type of its contents."""
        return self._cell.type

    @property
    def sharding(self) -> Any:
        """The sharding of its contents over devices."""
        return self[...].sharding

    @property
    def format(self) -> Any:
        """The layout of its contents in memory, and their sharding."""
        return self[...].format

    @property
    def committed(self) -> bool:
        """Whether its contents are committed to their device."""
        return self[...].committed

    def __reduce__(self) -> tuple[object, ...]:
        return make_ref, (
            self[...],
            self._cell.stops_gradient,
        )  # a copy is another reference, with the present contents

    def unsafe_buffer_pointer(self) -> int:
        """Returns the device address of its contents, valid until the next write."""
        return self[...].unsafe_buffer_pointer()

    def __repr__(self) -> str:
        content = self._cell.content
        if self._cell.end_reason or content is None or content.frame is not None:
            return repr(self._cell)
        lines = repr(finalize_result(content)).replace("Array(", "Ref(", 1).splitlines()
        return "\n".join([line if i == 0 else line[2:] for i, line in enumerate(lines)])


@final
class View(_RefOrView):
    """A part of a reference's contents: `ref.at[index]`."""

    __slots__ = ()

    def __init__(self, cell: Cell, path: tuple[Index, ...]) -> None:
        self._cell, self._path = cell, path

    def __repr__(self) -> str:
        return f"{self._cell!r}{''.join([f'.at[{part!r}]' for part in self._path])}"


@final
@attrs.frozen
class At:
    """`ref.at`: indexing gives a view.

    Attributes:
        target: the reference or view.
    """

    target: _RefOrView

    def __getitem__(self, index: Index) -> View:
        view = View(self.target._cell, (*self.target._path, *_index_path(index)))
        view.type  # noqa: B018 - refuses a bad index here
        return view


def _index_path(index: Index) -> tuple[Index, ...]:
    """Returns an empty path for the whole, otherwise a path of one index."""
    single = index[0] if type(index) is tuple and len(index) == 1 else index
    return () if single is Ellipsis or (type(index) is tuple and not index) else (index,)


def _convert_element(cell: Cell, x: Array) -> Array:
    """Converts a value to the cell's dtype for writing; stops its gradient if the cell does.

    Raises:
        DTypeError: the conversion would lose information.
    """
    t = cell.type
    if cell.stops_gradient:
        x = StopGradient()(x)
    if x.type.dtype == t.dtype and not x.type.weak:
        return x
    if dtypes.promote(t.dtype, False, x.type.dtype, x.type.weak)[0] != t.dtype:
        raise DTypeError(
            f"ref: a value {x.type!r} does not go into a Ref {t!r} without loss; convert it with astype"
        )
    return convert(x, t.dtype)


def encode_index(path: tuple[Index, ...]) -> tuple[EncodedIndex, list[Array]] | None:
    """Returns an index in the form of operations, and the arrays in it; None if it contains a mask.

    Raises:
        IndexingError: an entry is no index.
    """
    arrays: list[Array] = []
    encoded_path: list[tuple[IndexPart, ...]] = []
    for index in path:
        if isinstance(index, list):
            return None  # indexing the array raises the error
        parts: list[IndexPart] = []
        for part in index if isinstance(index, tuple) else (index,):
            if part is None or part is Ellipsis or type(part) is int:
                parts.append(part)
            elif isinstance(part, slice):
                parts.append(IndexSlice(*[_bound(part, n) for n in (part.start, part.stop, part.step)]))
            elif isinstance(part, bool | np.bool_):
                return None
            elif isinstance(part, Array | np.ndarray | list | tuple):
                array = part if isinstance(part, Array) else as_operand(np.asarray(part))
                if array.type.kind not in "iu":
                    return None  # a mask, or an index that arrays refuse
                arrays.append(array)
                parts.append(IndexOperand())
            else:
                parts.append(_as_whole_number(part))
        encoded_path.append(tuple(parts))
    return tuple(encoded_path), arrays


def _bound(part: slice, n: object) -> int | None:
    return None if n is None else _as_whole_number(n, part)


def _as_whole_number(n: object, part: object = None) -> int:
    try:
        return as_int(n)  # type: ignore[arg-type]  # raises for a non-integer
    except TypeError:
        raise IndexingError(
            f"ref: an index must be an int, slice, None, Ellipsis or array, got {n if part is None else part!r}"
        ) from None


def _indexed_type(cell: Cell, encoded_index: EncodedIndex, arrays: list[Array]) -> ArrayType:
    return (
        indexed_type(cell.type, encoded_index, tuple([x.type for x in arrays]))
        if encoded_index
        else cell.type
    )


def _type_at(cell: Cell, path: tuple[Index, ...]) -> ArrayType:
    encoding = encode_index(path)
    if encoding is None:
        return read_at(zeros(cell.type), path).type
    return _indexed_type(cell, *encoding)


def make_ref(x: Array, stops_gradient: bool = False) -> Ref:
    """Returns a new reference to an array, which belongs to the current handlers."""
    home = home_for_new_cell()
    cell = Cell(x.type.strong(), home, current_source(), stops_gradient)
    x = _convert_element(cell, x)
    if current_frame() is home:
        cell.content = x
    else:
        RefNew(cell, (), cell.type)(x)
    return Ref(cell)


def new_ref(
    init_val: Value, *, memory_space: None = None, kind: Kind | None = None, pin: bool = False
) -> Ref:
    """Makes a mutable reference.

    Args:
        init_val: the initial contents, `T[*shape]`.
        memory_space: None; no other memory is supported.
        kind: None, or "no_grad_no_remat" for a ref without derivatives: written values lose their tangents.
        pin: False; contents are not pinned.

    Returns:
        The reference. It is valid only in the function that makes it: `jit` and other transformations refuse to
        return it.

    Raises:
        DTypeError: `init_val` is neither an array nor a number.
        BackendError: a memory space, or pin=True.

    >>> import effx, effx.numpy as enp
    >>> ref = new_ref(enp.arange(3))
    >>> ref[1] += 10
    >>> ref
    Ref([ 0, 11,  2], dtype=int32)
    """
    _check_memory("new_ref", memory_space, pin)
    if kind not in (None, "no_grad_no_remat"):
        raise RefError(f"new_ref: kind must be None or 'no_grad_no_remat', got {kind!r}")
    return make_ref(cast("Array", finalize_result(as_operand(init_val))), kind is not None)


def empty_ref(ty: PyTree, memory_space: None = None, pin: bool = False) -> Ref:
    """Makes a mutable reference without initial contents; effx fills it with zeros.

    Args:
        ty: an object with `shape` and `dtype`.
        memory_space: None. pin: False.

    >>> import effx
    >>> empty_ref(effx.ShapeDtypeStruct((2,), "float32"))
    Ref([0., 0.], dtype=float32)
    """
    _check_memory("empty_ref", memory_space, pin)
    return make_ref(cast("Array", finalize_result(zeros(leaf_type("empty_ref", ty).strong()))))


def _check_memory(function_name: str, memory_space: object, pin: bool) -> None:
    if memory_space is not None:
        raise BackendError(f"{function_name}: memory_space must be None, got {memory_space!r}")
    if pin:
        raise BackendError(f"{function_name}: contents are arrays, which XLA places; leave out pin=True")


def freeze(ref: Ref) -> Array:
    """Returns a ref's contents, and ends the ref: any later use is an error.

    Raises:
        RefError: the ref was made outside of the function that is staged, or is one of its arguments.

    >>> import effx, effx.numpy as enp
    >>> ref = new_ref(enp.arange(3))
    >>> freeze(ref)
    Array([0, 1, 2], dtype=int32)
    """
    _check_can_end("freeze", ref)
    content = ref[...]
    ref._cell.end_reason = "the ref was frozen; it cannot be used any more"
    return content


def free_ref(ref: Ref) -> None:
    """Ends a ref: any later use is an error, and its contents can be freed.

    Raises:
        RefError: the ref was made outside of the function that is staged, or is one of its arguments.

    >>> import effx
    >>> free_ref(new_ref(1.0))
    """
    _check_can_end("free_ref", ref)
    ref._cell.end_reason = "the ref was freed; it cannot be used any more"
    ref._cell.content = None


def _check_can_end(function_name: str, ref: Ref) -> None:
    _check_ref(function_name, ref)
    cell = ref._cell
    frame: Frame | None = current_frame()
    while frame is not None and frame is not cell.home_frame:
        if frame.handler.only_records:
            raise RefError(
                f"{function_name}: {cell!r} was made outside of the function that {frame.handler.describe()} stages, "
                f"which may run again; call {function_name} where it was made"
            )
        frame = frame.outer
    if cell.is_lent:
        raise RefError(
            f"{function_name}: {cell!r} is an argument, and its caller has it; call {function_name} there"
        )
    if cell.end_reason:
        raise RefError(f"{cell!r}: {cell.end_reason}")


def _check_ref(function_name: str, ref: object, kind: type[_RefOrView] = Ref) -> None:
    if not isinstance(ref, kind):
        raise RefError(f"{function_name}: expected a Ref, got {ref!r} of type {type(ref).__name__}")


def get(ref: Ref | View, idx: Index = None) -> Array:
    """Returns `ref[idx]`; without an index the whole contents.

    >>> import effx, effx.numpy as enp
    >>> get(new_ref(enp.arange(5)), slice(1, 3))
    Array([1, 2], dtype=int32)
    """
    _check_ref("get", ref, _RefOrView)
    return ref[() if idx is None else idx]


def set(ref: Ref | View, idx: Index | None, value: Value) -> None:
    """Does `ref[idx] = value`; index None means the whole.

    >>> import effx, effx.numpy as enp
    >>> ref = new_ref(enp.zeros(3))
    >>> set(ref, 1, 10.0)
    >>> ref
    Ref([ 0., 10.,  0.], dtype=float32)
    """
    _check_ref("set", ref, _RefOrView)
    ref[() if idx is None else idx] = value


def swap(ref: Ref | View, idx: Index | None, value: Value) -> Array:
    """Writes `value` at an index, and returns the previous value; index None means the whole.

    >>> import effx, effx.numpy as enp
    >>> ref = new_ref(enp.arange(5))
    >>> swap(ref, 3, 10)
    Array(3, dtype=int32)
    >>> ref
    Ref([ 0,  1,  2, 10,  4], dtype=int32)
    """
    _check_ref("swap", ref, _RefOrView)
    return ref._swap(() if idx is None else idx, value)


def addupdate(ref: Ref | View, idx: Index | None, x: Value) -> None:
    """Adds to the elements at an index; index None means the whole. Repeated indices are all added.

    >>> import effx, effx.numpy as enp
    >>> ref = new_ref(enp.arange(3))
    >>> addupdate(ref, enp.array([1, 1]), 10)
    >>> ref
    Ref([ 0, 21,  2], dtype=int32)
    """
    _check_ref("addupdate", ref, _RefOrView)
    ref.addupdate(x, () if idx is None else idx)
