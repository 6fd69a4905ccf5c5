"""`abstracted_axes`: which sizes of a function's arguments have names, so that one program is for all their values."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, final

import attrs

from effx.errors import ShapeError, TransformError, TreeError
from effx.ir.sizes.dimensions import NO_CONSTRAINTS, SymbolicScope, is_symbolic
from effx.ir.sizes.shape_text import parse_size
from effx.ir.sizes.solving import solution_of, solve
from effx.ir.types import ArrayType, Shape
from effx.tracing.arguments import abstract, argument_path
from effx.transforms.jit.stages import ShapeDtypeStruct
from effx.tree.prefixes import broadcast_prefix
from effx.tree.registry import PyTree, flatten

size_of = lru_cache(parse_size)  # each call asks anew
KINDS: Final = "a dict {axis: name}, a tuple of names and None, None"


@final
@attrs.frozen(eq=False)
class NamedSizes:
    """The sizes of one call's arguments.

    Attributes:
        what: the transformation, for errors. name: the function's, for errors.
        args: the positional arguments that are not static. numbers: theirs among all.
        types: of their leaves.
        shapes: of their leaves, with symbolic sizes where they have names.
    """

    what: str
    name: str
    args: tuple[PyTree, ...]
    numbers: tuple[int, ...]
    types: tuple[ArrayType, ...]
    shapes: tuple[Shape, ...]

    def path(self, leaf: int) -> str:
        """Returns `argument 0['w'] of f` for a leaf."""
        return f"{argument_path((self.args, {}), leaf, list(map(str, self.numbers)))} of {self.name}"

    def values(self, least: int = 1) -> Mapping[str, int]:
        """Returns the values of the names, which must be at least `least`.

        Raises:
            ShapeError: two sizes give one name different values, or one is too small.
        """
        first: dict[int, tuple[int, int, int]] = {}
        for i, (shape, t) in enumerate(zip(self.shapes, self.types, strict=True)):
            for axis, (size, given) in enumerate(zip(shape, t.shape, strict=True)):
                if not is_symbolic(size):
                    continue
                j, other, before = first.setdefault(size, (i, axis, given))
                if before != given:
                    raise ShapeError(
                        f"{self.what}: {size} is {before} by {self.path(j)} axis {other}, and {given} by "
                        f"{self.path(i)} axis {axis}"
                    )
        plan = solution_of(self.what, self.shapes, self.path)
        return solve(self.what, plan, [t.shape for t in self.types], self.path, least)


@final
@attrs.frozen(eq=False)
class AbstractedAxes:
    """What a user said of the sizes of one function's arguments.

    Attributes:
        what: the transformation, for errors. name: the function's, for errors.
        names: a dict `{axis: name}`, a tuple of names and None, or None, for each positional argument or for the arrays in
            it; or one of these for all.
    """

    what: str
    name: str
    names: PyTree

    def sizes(
        self,
        args: Sequence[PyTree],
        fixed: Iterable[int] = (),
        scope: SymbolicScope = NO_CONSTRAINTS,
    ) -> NamedSizes:
        """Returns the sizes of a call's arguments.

        Args:
            args: all positional arguments: arrays, or things with shapes and dtypes. fixed: the numbers of static ones.
            scope: of the symbolic sizes.

        Raises:
            TransformError: what the user said is of another kind, names sizes of static arguments, or has more or fewer
                entries than there are arguments.
            TreeError: it is no prefix of the arguments.
            ShapeError: an axis is out of range.
        """
        static = frozenset(fixed)
        numbers = tuple([i for i in range(len(args)) if i not in static])
        dynamic = tuple([args[i] for i in numbers])
        types = tuple([abstract(self.what, x) for x in flatten(dynamic)[0]])
        given = NamedSizes(self.what, self.name, dynamic, numbers, types, ())
        said = self._said(dynamic, static)
        shapes = [self._shape(names, given, i, scope) for i, names in enumerate(said)]
        return NamedSizes(self.what, self.name, dynamic, numbers, types, tuple(shapes))

    def abstracted(self, args: tuple[PyTree, ...], fixed: Iterable[int] = ()) -> tuple[PyTree, ...]:
        """Returns positional arguments with a `ShapeDtypeStruct` of symbolic sizes for each array that has names.

        Raises:
            TransformError, TreeError, ShapeError: as `sizes`, and `NamedSizes.values`.
        """
        numbers = frozenset(fixed)
        found = self.sizes(args, numbers)
        found.values()
        leaves, form = flatten(found.args)
        structs = [
            x if shape == t.shape else ShapeDtypeStruct(shape, t.dtype, weak_type=t.weak)
            for x, t, shape in zip(leaves, found.types, found.shapes, strict=True)
        ]
        return replaced(args, form.unflatten(structs), numbers)

    def refuse_named(self, kwargs: Iterable[str]) -> None:
        """Refuses keyword arguments, which have no place in what the user said.

        Raises:
            TransformError: there are some.
        """
        found = list(kwargs)
        if found:
            raise TransformError(
                f"{self.what}: abstracted_axes is for positional arguments, and {self.name} got the keyword "
                f"argument{'s' * (len(found) > 1)} {', '.join(found)}; pass by position what is not static"
            )

    def _said(self, dynamic: tuple[PyTree, ...], static: frozenset[int]) -> list[PyTree]:
        """Returns what the user said for each leaf."""
        if _is_said(self.names):
            return [self.names] * len(flatten(dynamic)[0])
        if not isinstance(self.names, tuple | list):
            raise TransformError(
                f"{self.what}: abstracted_axes must be {KINDS}, or a tuple with an entry for each "
                f"argument, got {self.names!r}"
            )
        count = len(dynamic) + len(static)
        if len(self.names) != count:
            raise TransformError(
                f"{self.what}: abstracted_axes has {len(self.names)} entries, but {self.name} got {count} "
                f"positional arguments"
            )
        for i in sorted(static):
            if self.names[i] is not None:
                raise TransformError(
                    f"{self.what}: abstracted_axes must be None for a static argument, got {self.names[i]!r} for "
                    f"argument {i} of {self.name}"
                )
        entries = tuple([x for i, x in enumerate(self.names) if i not in static])
        try:
            return broadcast_prefix(entries, dynamic, is_leaf=_is_said)
        except TreeError as error:
            raise TreeError(
                f"{self.what}: abstracted_axes must be {KINDS}, or a pytree prefix of the arguments: {error.message}"
            ) from None

    def _shape(self, said: PyTree, given: NamedSizes, leaf: int, scope: SymbolicScope) -> Shape:
        t = given.types[leaf]
        if said is None:
            return t.shape
        if not isinstance(said, dict | tuple | list):
            raise TransformError(
                f"{self.what}: abstracted_axes must be {KINDS}, got {said!r} for {given.path(leaf)}"
            )
        found: dict[int, int] = {}
        for axis, text in said.items() if isinstance(said, dict) else enumerate(said):
            if text is None:
                continue
            if not isinstance(text, str):
                raise TransformError(
                    f"{self.what}: abstracted_axes names sizes by strings, got {text!r} of type "
                    f"{type(text).__name__} for axis {axis} of {given.path(leaf)}"
                )
            if not -t.ndim <= axis < t.ndim:
                raise ShapeError(
                    f"{self.what}: abstracted_axes names axis {axis} of {given.path(leaf)}, which is {t!r} with "
                    f"{t.ndim} axes"
                )
            try:
                size = size_of(text, scope)
            except ValueError as error:
                raise TransformError(
                    f"{self.what}: abstracted_axes has {text!r} for axis {axis} of {given.path(leaf)}: {error}"
                ) from None
            if found.setdefault(axis % t.ndim, size) != size:
                raise TransformError(
                    f"{self.what}: abstracted_axes has two names for axis {axis} of {given.path(leaf)}: {said!r}"
                )
        return tuple([found.get(i, n) for i, n in enumerate(t.shape)])


def replaced(args: Sequence[PyTree], dynamic: Iterable[PyTree], fixed: frozenset[int]) -> tuple[PyTree, ...]:
    """Returns positional arguments with others in place of those that are not static."""
    found = iter(dynamic)
    return tuple([x if i in fixed else next(found) for i, x in enumerate(args)])


def _is_said(x: object) -> bool:
    """Says whether something is for one array, or for all in one place; else it is a structure of such things."""
    if x is None:
        return True
    if type(x) is dict:
        return all([type(k) is int for k in x]) and not _holds_structures(list(x.values()))
    return (type(x) is tuple or type(x) is list) and not _holds_structures(list(x))


def _holds_structures(parts: Iterable[object]) -> bool:
    return any([isinstance(x, dict | tuple | list) for x in parts])
