"""`abstracted_axes`: names for sizes of a function's arguments, so that one program serves all their values."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, final

import attrs

from effx.errors import ShapeError, TransformError, TreeError
from effx.ir.sizes.dimensions import NO_CONSTRAINTS, SymbolicScope, is_symbolic
from effx.ir.sizes.shape_text import parse_size
from effx.ir.sizes.solving import plan_solution, solve
from effx.ir.types import ArrayType, Shape
from effx.tracing.arguments import argument_path, leaf_type
from effx.transforms.jit.stages import ShapeDtypeStruct
from effx.tree.prefixes import broadcast_prefix
from effx.tree.registry import PyTree, flatten

parse_size_cached = lru_cache(parse_size)  # each call parses the same texts
KINDS: Final = "a dict {axis: name}, a tuple of names and None, None"


@final
@attrs.frozen(eq=False)
class ArgumentSizes:
    """The sizes of one call's arguments.

    Attributes:
        transform_name: the transformation, for errors. name: the function's, for errors.
        args: the positional arguments that are not static. numbers: their positions among all arguments.
        types: the leaves' types.
        shapes: the leaves' shapes, with symbolic sizes for named axes.
    """

    transform_name: str
    name: str
    args: tuple[PyTree, ...]
    numbers: tuple[int, ...]
    types: tuple[ArrayType, ...]
    shapes: tuple[Shape, ...]

    def path(self, leaf: int) -> str:
        """Returns `argument 0['w'] of f` for a leaf."""
        return f"{argument_path((self.args, {}), leaf, list(map(str, self.numbers)))} of {self.name}"

    def solve_names(self, least: int = 1) -> Mapping[str, int]:
        """Returns the value of each name; each must be at least `least`.

        Raises:
            ShapeError: two sizes give one name different values, or one is too small.
        """
        first: dict[int, tuple[int, int, int]] = {}
        for i, (shape, t) in enumerate(zip(self.shapes, self.types, strict=True)):
            for axis, (size, actual) in enumerate(zip(shape, t.shape, strict=True)):
                if not is_symbolic(size):
                    continue
                j, other, previous = first.setdefault(size, (i, axis, actual))
                if previous != actual:
                    raise ShapeError(
                        f"{self.transform_name}: {size} is {previous} by {self.path(j)} axis {other}, and {actual} by "
                        f"{self.path(i)} axis {axis}"
                    )
        plan = plan_solution(self.transform_name, self.shapes, self.path)
        return solve(self.transform_name, plan, [t.shape for t in self.types], self.path, least)


@final
@attrs.frozen(eq=False)
class AbstractedAxes:
    """The `abstracted_axes` option of one function.

    Attributes:
        transform_name: the transformation, for errors. name: the function's, for errors.
        names: a dict `{axis: name}`, a tuple of names and None, or None, for each positional argument or for the arrays in
            it; or one of these for all.
    """

    transform_name: str
    name: str
    names: PyTree

    def argument_sizes(
        self,
        args: Sequence[PyTree],
        fixed: Iterable[int] = (),
        scope: SymbolicScope = NO_CONSTRAINTS,
    ) -> ArgumentSizes:
        """Returns the sizes of a call's arguments.

        Args:
            args: all positional arguments: arrays, or objects with shapes and dtypes. fixed: the numbers of static ones.
            scope: the scope of the symbolic sizes.

        Raises:
            TransformError: `abstracted_axes` has a wrong type, names sizes of static arguments, or has more or fewer
                entries than there are arguments.
            TreeError: `abstracted_axes` is no prefix of the arguments.
            ShapeError: an axis is out of range.
        """
        static = frozenset(fixed)
        numbers = tuple([i for i in range(len(args)) if i not in static])
        dynamic = tuple([args[i] for i in numbers])
        types = tuple([leaf_type(self.transform_name, x) for x in flatten(dynamic)[0]])
        unnamed = ArgumentSizes(self.transform_name, self.name, dynamic, numbers, types, ())
        entries = self._leaf_entries(dynamic, static)
        shapes = [self._symbolic_shape(names, unnamed, i, scope) for i, names in enumerate(entries)]
        return ArgumentSizes(self.transform_name, self.name, dynamic, numbers, types, tuple(shapes))

    def abstract_arguments(self, args: tuple[PyTree, ...], fixed: Iterable[int] = ()) -> tuple[PyTree, ...]:
        """Returns positional arguments with a `ShapeDtypeStruct` of symbolic sizes for each array that has names.

        Raises:
            TransformError, TreeError, ShapeError: as `sizes`, and `ArgumentSizes.solve_names`.
        """
        numbers = frozenset(fixed)
        sizes = self.argument_sizes(args, numbers)
        sizes.solve_names()
        leaves, form = flatten(sizes.args)
        structs = [
            x if shape == t.shape else ShapeDtypeStruct(shape, t.dtype, weak_type=t.weak)
            for x, t, shape in zip(leaves, sizes.types, sizes.shapes, strict=True)
        ]
        return replace_dynamic_arguments(args, form.unflatten(structs), numbers)

    def refuse_keywords(self, kwargs: Iterable[str]) -> None:
        """Refuses keyword arguments: `abstracted_axes` has no entries for them.

        Raises:
            TransformError: there are some.
        """
        keywords = list(kwargs)
        if keywords:
            raise TransformError(
                f"{self.transform_name}: abstracted_axes is for positional arguments, and {self.name} got the keyword "
                f"argument{'s' * (len(keywords) > 1)} {', '.join(keywords)}; pass by position what is not static"
            )

    def _leaf_entries(self, dynamic: tuple[PyTree, ...], static: frozenset[int]) -> list[PyTree]:
        """Returns the `abstracted_axes` entry of each leaf."""
        if _is_axis_entry(self.names):
            return [self.names] * len(flatten(dynamic)[0])
        if not isinstance(self.names, tuple | list):
            raise TransformError(
                f"{self.transform_name}: abstracted_axes must be {KINDS}, or a tuple with an entry for each "
                f"argument, got {self.names!r}"
            )
        count = len(dynamic) + len(static)
        if len(self.names) != count:
            raise TransformError(
                f"{self.transform_name}: abstracted_axes has {len(self.names)} entries, but {self.name} got {count} "
                f"positional arguments"
            )
        for i in sorted(static):
            if self.names[i] is not None:
                raise TransformError(
                    f"{self.transform_name}: abstracted_axes must be None for a static argument, got {self.names[i]!r} for "
                    f"argument {i} of {self.name}"
                )
        entries = tuple([x for i, x in enumerate(self.names) if i not in static])
        try:
            return broadcast_prefix(entries, dynamic, is_leaf=_is_axis_entry)
        except TreeError as error:
            raise TreeError(
                f"{self.transform_name}: abstracted_axes must be {KINDS}, or a pytree prefix of the arguments: "
                f"{error.message}"
            ) from None

    def _symbolic_shape(self, entry: PyTree, sizes: ArgumentSizes, leaf: int, scope: SymbolicScope) -> Shape:
        t = sizes.types[leaf]
        if entry is None:
            return t.shape
        if not isinstance(entry, dict | tuple | list):
            raise TransformError(
                f"{self.transform_name}: abstracted_axes must be {KINDS}, got {entry!r} for {sizes.path(leaf)}"
            )
        named: dict[int, int] = {}
        for axis, text in entry.items() if isinstance(entry, dict) else enumerate(entry):
            if text is None:
                continue
            if not isinstance(text, str):
                raise TransformError(
                    f"{self.transform_name}: abstracted_axes names sizes by strings, got {text!r} of type "
                    f"{type(text).__name__} for axis {axis} of {sizes.path(leaf)}"
                )
            if not -t.ndim <= axis < t.ndim:
                raise ShapeError(
                    f"{self.transform_name}: abstracted_axes names axis {axis} of {sizes.path(leaf)}, which is {t!r} with "
                    f"{t.ndim} axes"
                )
            try:
                size = parse_size_cached(text, scope)
            except ValueError as error:
                raise TransformError(
                    f"{self.transform_name}: abstracted_axes has {text!r} for axis {axis} of {sizes.path(leaf)}: {error}"
                ) from None
            if named.setdefault(axis % t.ndim, size) != size:
                raise TransformError(
                    f"{self.transform_name}: abstracted_axes has two names for axis {axis} of {sizes.path(leaf)}: {entry!r}"
                )
        return tuple([named.get(i, n) for i, n in enumerate(t.shape)])


def replace_dynamic_arguments(
    args: Sequence[PyTree], dynamic: Iterable[PyTree], fixed: frozenset[int]
) -> tuple[PyTree, ...]:
    """Returns the positional arguments with the dynamic ones replaced."""
    values = iter(dynamic)
    return tuple([x if i in fixed else next(values) for i, x in enumerate(args)])


def _is_axis_entry(x: object) -> bool:
    """Returns whether a value is an entry for one array; otherwise it is a pytree of entries."""
    if x is None:
        return True
    if type(x) is dict:
        return all([type(k) is int for k in x]) and not _holds_structures(list(x.values()))
    return (type(x) is tuple or type(x) is list) and not _holds_structures(list(x))


def _holds_structures(parts: Iterable[object]) -> bool:
    return any([isinstance(x, dict | tuple | list) for x in parts])
