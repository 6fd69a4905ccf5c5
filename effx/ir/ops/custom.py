"""Operations with custom rules: a function, and its rules for differentiation and batching.

A rule works on flat lists of arrays. `CustomCall` holds the function as a program, so every handler that does
not use the rules sees a call. Forward mode turns a function with a reverse-mode rule only into
`CustomTangent`: its tangents, linear in the arguments' tangents, with only the transpose known.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Generic, TypeVar, final

import attrs

from effx.errors import ProgramError, TransformError
from effx.ir.ops.base import check_int, types_text
from effx.ir.ops.control import Calling, HigherOrder, Region, types_match
from effx.ir.ops.groups import split_into
from effx.ir.program import Program
from effx.ir.types import ArrayType
from effx.tree.registry import PyTreeDef

if TYPE_CHECKING:
    from effx.ir.values.array import Array

T = TypeVar("T")

# (constants, primals, tangents) -> (results, their tangents); None means a zero tangent
JvpRule = Callable[
    ["Sequence[Array]", "Sequence[Array]", "Sequence[Array | None]"],
    "tuple[list[Array], list[Array | None]]",
]
# (residuals, cotangents of the results) -> cotangents of the primals; None for zero
BackwardRule = Callable[["Sequence[Array]", "Sequence[Array | None]"], "Sequence[Array | None]"]
# (constants, primals, which of them have tangents) -> (results, residuals, backward rule)
VjpRule = Callable[
    ["Sequence[Array]", "Sequence[Array]", Sequence[bool]],
    "tuple[list[Array], list[Array], BackwardRule]",
]
# (size, constants, values, which of them have a leading batch axis) -> (results, which have one)
BatchRule = Callable[
    [int, "Sequence[Array]", "Sequence[Array]", Sequence[bool]], "tuple[list[Array], list[bool]]"
]


def as_identifier(name: str) -> str:
    """Converts a name to one word of a program's text."""
    return "".join([c if c.isalnum() else "_" for c in name]).strip("_") or "f"


@final
@attrs.frozen
class Batch:
    """One vmap of a function's calls.

    Attributes:
        size: the number of calls.
        axis_name: the name of the batch's axis; None for none.
        batched: for each argument whether it has a leading batch axis; each result has one.
        spmd_axes: the mesh axes that shard the batch where a program constrains shardings.
    """

    size: int
    axis_name: Hashable
    batched: tuple[bool, ...]
    spmd_axes: tuple[Hashable, ...] = ()


@final
@attrs.frozen(eq=False)
class NamedCall:
    """One call of a named function, for which handlers may have rules; equal only to itself.

    Attributes:
        base: the user's function, the key of handlers' rules.
        in_tree: the structure of the tuple of its arguments.
        result: returns the structure and the types of its result.
        batches: the vmaps of the call, outermost first.
    """

    base: object
    in_tree: PyTreeDef
    result: "Callable[[], tuple[PyTreeDef, Sequence[ArrayType]]]"
    batches: tuple[Batch, ...] = ()


@final
@attrs.frozen(eq=False, repr=False)
class CustomRules:
    """The rules of one function, each for the arguments after the constants; equal only to itself.

    Attributes:
        transform_name: the decorator that made the rules, for errors.
        name: the function's name.
        jvp: the rule for forward mode.
        vjp: the rule for reverse mode.
        batch: the rule for vmap.
        function: the named function, for which users' handlers may have rules.
        shares_results: whether a result that all batch elements share stays unbatched when `vjp` is batched; its
            cotangent is then the first element's.
        captured: how many of the leading constants are arrays that handlers within have, which the rules take as they are.
        operand_leaves: for a function under handlers with boxes: for each of the user's arguments where the leaves of its
            payload begin and end among the primals.
        details: names of the user's rules and options, for the text of programs.
    """

    transform_name: str
    name: str
    jvp: JvpRule | None = None
    vjp: VjpRule | None = None
    batch: BatchRule | None = None
    function: NamedCall | None = None
    shares_results: bool = False
    captured: int = 0
    operand_leaves: tuple[tuple[int, int], ...] = ()
    details: Mapping[str, object] = attrs.field(factory=dict)

    @property
    def has_rules(self) -> bool:
        """Whether there is a rule for derivatives or batches."""
        return self.jvp is not None or self.vjp is not None or self.batch is not None

    def select_results(self, live: Sequence[bool]) -> "CustomRules":
        """Returns the rules of the function that gives only these results."""
        jvp, vjp, batch = self.jvp, self.vjp, self.batch
        selected = attrs.evolve(self)
        if jvp is not None:

            def jvp_selected(
                constants: "Sequence[Array]", primals: "Sequence[Array]", tangents: "Sequence[Array | None]"
            ) -> "tuple[list[Array], list[Array | None]]":
                ys, dys = jvp(constants, primals, tangents)
                return list(compress(ys, live)), list(compress(dys, live))

            selected = attrs.evolve(selected, jvp=jvp_selected)
        if vjp is not None:

            def vjp_selected(
                constants: "Sequence[Array]", primals: "Sequence[Array]", perturbed: Sequence[bool]
            ) -> "tuple[list[Array], list[Array], BackwardRule]":
                ys, residuals, backward = vjp(constants, primals, perturbed)

                def backward_selected(
                    residuals: "Sequence[Array]", cts: "Sequence[Array | None]"
                ) -> "Sequence[Array | None]":
                    remaining = iter(cts)
                    return backward(residuals, [next(remaining) if is_live else None for is_live in live])

                return list(compress(ys, live)), residuals, backward_selected

            selected = attrs.evolve(selected, vjp=vjp_selected)
        if batch is not None:

            def batch_selected(
                size: int, constants: "Sequence[Array]", values: "Sequence[Array]", batched: Sequence[bool]
            ) -> "tuple[list[Array], list[bool]]":
                ys, are_batched = batch(size, constants, values, batched)
                return list(compress(ys, live)), list(compress(are_batched, live))

            selected = attrs.evolve(selected, batch=batch_selected)
        return selected

    def __repr__(self) -> str:
        kinds = [k for k in ("jvp", "vjp", "batch") if getattr(self, k) is not None]
        return f"<{'.'.join([*kinds, 'rules.of', as_identifier(self.name)])}>"


@final
@attrs.frozen
class CustomCall(Calling):
    """A function with custom rules. StableHLO: func.call.

    Attributes:
        rules: the rules that handlers may use instead of the program.
        constants: the number of leading closed-over operands, which the rules do not differentiate or batch.
        record: the number of leading results of which the rules know nothing: the state and the collected values of a
            handler within. They are differentiated and batched as those of a call.
    """

    rules: CustomRules
    constants: int = attrs.field(default=0, validator=check_int)
    record: int = attrs.field(default=0, validator=check_int)

    def split_operands(self, operands: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
        """Splits the operands, or data of each, into constants and the function's arguments."""
        constants, primals = split_into(operands, self.constants)
        return constants, primals


@final
@attrs.frozen(eq=False, repr=False)
class CustomBackward:
    """The backward rule of a function; equal only to itself.

    Attributes:
        transform_name, name: as in the rules that it comes from.
        function: from residuals and cotangents of the results to cotangents of the primals.
    """

    transform_name: str
    name: str
    function: BackwardRule

    def __repr__(self) -> str:
        return f"<backward.rule.of.{as_identifier(self.name)}>"

    def no_forward_mode(self) -> TransformError:
        """Returns the error for forward mode of a function with a reverse-mode rule only."""
        return TransformError(
            f"{self.transform_name}: can't apply forward-mode autodiff (jvp, jacfwd, hessian) to {self.name}, which has "
            f"only rules for reverse mode; give it a rule for forward mode too, as custom_vjp(custom_jvp(f)) has"
        )


@final
@attrs.frozen
class TangentOperands(Generic[T]):
    """The operands of a `CustomTangent`, or data of each.

    Attributes:
        residuals: what the backward rule knows.
        known: what the program takes besides the tangents.
        tangents: the operation is linear in these.
    """

    residuals: tuple[T, ...]
    known: tuple[T, ...]
    tangents: tuple[T, ...]

    @property
    def nonlinear(self) -> tuple[T, ...]:
        """All but the tangents: what the operation need not be linear in."""
        return (*self.residuals, *self.known)

    @property
    def of_program(self) -> tuple[T, ...]:
        """What the program takes."""
        return (*self.known, *self.tangents)


@final
@attrs.frozen
class CustomTangent(HigherOrder):
    """The tangents of a function with a backward rule, or a linear function with a custom transpose.
    StableHLO: func.call, if at all.

    Operands: residuals, other operands of the program, and tangents, in which the operation is linear.

    Attributes:
        backward: the transpose, from residuals and the results' cotangents to the tangents' cotangents.
        out_types: the results' types.
        residuals: the number of residuals.
        known: the number of operands before the tangents.
        program: from the operands after the residuals to the results; None without a forward-mode rule:
            the operation can only be transposed.
    """

    backward: CustomBackward
    out_types: tuple[ArrayType, ...]
    residuals: int = attrs.field(validator=check_int)
    known: int = attrs.field(validator=check_int)
    program: Program | None = None

    @property
    def programs(self) -> tuple[Program, ...]:
        """The program for forward mode, if there is one."""
        return () if self.program is None else (self.program,)

    @property
    def regions(self) -> tuple[Region, ...]:
        """The program for forward mode, which does not take the residuals."""
        return () if self.program is None else (Region(program=self.program, skipped=self.residuals),)

    def group_operands(self, operands: Sequence[T]) -> TangentOperands[T]:
        """Returns the operands, or data of each, in groups."""
        residuals, known, tangents = split_into(operands, self.residuals, self.known - self.residuals)
        return TangentOperands(tuple(residuals), tuple(known), tuple(tangents))

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The results' types."""
        program_types = self.group_operands(types).of_program
        if self.program is not None and not types_match(program_types, self.program.in_types):
            raise ProgramError(
                f"custom_tangent: {self.program.name} takes ({types_text(self.program.in_types)}), "
                f"got ({types_text(program_types)})"
            )
        return self.out_types
