"""The mapped axis of each array under `vmap` and `pmap`, its size, and axis names."""

from collections.abc import Hashable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias, final

import attrs

from effx.array import Array
from effx.array.promotion import as_operand
from effx.errors import ShapeError, TransformError, TreeError
from effx.ir.sizes.dimensions import as_size
from effx.tracing.arguments import argument_path
from effx.tree.prefixes import broadcast_prefix
from effx.tree.registry import PyTree, flatten

AxisTree = Any
"""An int, None, or a pytree prefix of them; its leaves are axes."""

if TYPE_CHECKING:
    from effx.tracing.signatures import Container

    InAxes: TypeAlias = int | tuple[AxisTree, ...] | list[AxisTree] | None
    OutAxes: TypeAlias = int | Container | None
else:  # what is wrong at run time has an error of its own
    InAxes = OutAxes = AxisTree
"""`in_axes`: of all arguments, or of each; `out_axes`: of all results, or a prefix of their tree."""


@final
@attrs.frozen(eq=False)
class MappedAxes:
    """The `in_axes`, `out_axes` and `axis_size` of one mapped function.

    Attributes:
        transform_name: the transformation, for errors. name: the function's, for errors.
        in_axes, out_axes: the mapped axis of arguments and results.
        axis_size: the mapped axis's size, if the user gave it.
    """

    transform_name: str
    name: str
    in_axes: AxisTree
    out_axes: AxisTree
    axis_size: int | None

    def find_mapped_inputs(
        self, leaves: Sequence[PyTree], args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> tuple[list[int], list[Array], list[int], int]:
        """Finds the mapped leaves of a call.

        Returns:
            Their indices among all leaves, their arrays, the mapped axes, counted from 0, and the axes' size.

        Raises:
            TreeError: `in_axes` is no prefix of the arguments.
            ShapeError: an axis is out of range, or sizes differ.
            TransformError: there are too few arguments, an axis is no int, or nothing is mapped and no size is
                given.
        """
        if isinstance(self.in_axes, tuple) and len(self.in_axes) != len(args):
            raise TransformError(
                f"{self.transform_name}: in_axes has {len(self.in_axes)} entries, but {self.name} got {len(args)} "
                f"positional arguments"
            )
        leaf_axes = self.input_axes(args, kwargs)
        indices: list[int] = []
        arrays: list[Array] = []
        axes: list[int] = []
        for i, (leaf, axis) in enumerate(zip(leaves, leaf_axes, strict=True)):
            if axis is None:
                continue
            x = as_operand(leaf, self.transform_name)
            ndim = x.type.ndim
            if not -ndim <= axis < ndim:
                problem = (
                    f"{x.type!r} with {ndim} axes"
                    if ndim
                    else f"a scalar {x.type!r}; use in_axes=None for it"
                )
                raise ShapeError(
                    f"{self.transform_name}: in_axes asks for axis {axis} of {argument_path((args, kwargs), i)} of "
                    f"{self.name}, which is {problem}"
                )
            indices.append(i)
            arrays.append(x)
            axes.append(axis % ndim)
        sizes = [x.type.shape[axis] for x, axis in zip(arrays, axes, strict=True)]
        if not sizes and self.axis_size is None:
            raise TransformError(
                f"{self.transform_name}: no argument of {self.name} is mapped; give axis_size, or an axis in in_axes for at "
                f"least one"
            )
        size = sizes[0] if self.axis_size is None else self._check_size(self.axis_size)
        if any([n != size for n in sizes]):
            parts = [
                f"{argument_path((args, kwargs), i)} {x.type!r} axis {axis} is {n}"
                for i, x, axis, n in zip(indices, arrays, axes, sizes, strict=True)
            ]
            size_note = "" if self.axis_size is None else f", axis_size is {self.axis_size}"
            raise ShapeError(
                f"{self.transform_name}: sizes of the mapped axes of {self.name} differ: {', '.join(parts)}{size_note}"
            )
        return indices, arrays, axes, size

    def _check_size(self, axis_size: int) -> int:
        try:
            return as_size(axis_size)
        except TypeError:
            raise TransformError(
                f"{self.transform_name}: axis_size must be an int, got {axis_size!r}"
            ) from None

    def input_axes(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> list[int | None]:
        """Returns the axis in `in_axes` for each leaf of a call's arguments; keyword arguments are mapped over axis 0.

        Raises:
            TreeError, TransformError: as `inputs`.
        """
        return [*self._broadcast_axes("in_axes", args), *[0] * len(flatten(kwargs)[0])]

    def output_axes(self, result: PyTree) -> list[int | None]:
        """Returns the axis in `out_axes` for each leaf of a result.

        Raises:
            TreeError: `out_axes` is no prefix of the result.
            TransformError: an axis is no int.
        """
        return self._broadcast_axes("out_axes", result)

    def normalize_out_axis(self, axis: int, ndim: int) -> int:
        """Returns an axis in `out_axes`, counted from 0, of a result with `ndim` axes, the mapped one among them.

        Raises:
            ShapeError: the axis is out of range.
        """
        if not -ndim <= axis < ndim:
            raise ShapeError(
                f"{self.transform_name}: out_axes asks for axis {axis} of a result of {self.name} with {ndim} axes"
            )
        return axis % ndim

    def _broadcast_axes(self, which: str, full: PyTree) -> list[int | None]:
        try:
            entries = broadcast_prefix(getattr(self, which), full, is_leaf=_is_none)
        except TreeError as error:
            raise TreeError(
                f"{self.transform_name}: {which} must be an int, None, or a pytree prefix of the "
                f"{'arguments' if which == 'in_axes' else 'results'}: {error.message}"
            ) from None
        axes: list[int | None] = []
        for axis in entries:
            if axis is None or type(axis) is int:
                axes.append(axis)
                continue
            try:
                if isinstance(axis, bool):
                    raise TypeError
                axes.append(index(axis))
            except TypeError:
                raise TransformError(
                    f"{self.transform_name}: {which} must hold ints and None, got {axis!r}"
                ) from None
        return axes


def _is_none(x: object) -> bool:
    return x is None


def make_mapped_axes(
    transform_name: str, name: str, in_axes: AxisTree, out_axes: AxisTree, axis_size: int | None
) -> MappedAxes:
    """Checks the user's axes and returns them.

    Raises:
        TransformError: `in_axes` has a wrong type.
    """
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, bool) or not (in_axes is None or isinstance(in_axes, int | tuple)):
        raise TransformError(
            f"{transform_name}: in_axes must be an int, None, or a tuple with an entry for each argument, got {in_axes!r}"
        )
    return MappedAxes(transform_name, name, in_axes, out_axes, axis_size)


def parse_axis_names(transform_name: str, names: Hashable | Sequence[Hashable]) -> tuple[Hashable, ...]:
    """Returns the names in `reduce_axes`.

    Raises:
        TransformError: a name is not hashable.
    """
    parsed: tuple[Hashable, ...] = tuple(names) if isinstance(names, tuple | list) else (names,)
    for name in parsed:
        try:
            hash(name)
        except TypeError:
            raise TransformError(
                f"{transform_name}: reduce_axes must hold names of axes, got {name!r}"
            ) from None
    return parsed


def check_hashable(transform_name: str, axis_name: object) -> None:
    """Checks the name that a map gives its axis.

    Raises:
        TransformError: it is not hashable.
    """
    try:
        hash(axis_name)
    except TypeError:
        raise TransformError(f"{transform_name}: axis_name must be hashable, got {axis_name!r}") from None
