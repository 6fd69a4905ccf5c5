"""The operation that calls a foreign function, and its rules.

Such a function is known only by its declaration: it has no derivative and no meaning in NumPy.
"""

from collections.abc import Sequence
from typing import final

import attrs

from effx import dtypes
from effx.array import Array
from effx.effects import NO_EFFECTS, Effect
from effx.errors import DTypeError, NoRuleError, ShapeError, TransformError
from effx.families.batches import batch_in_one_call, missing_method_error, scan_over_batch
from effx.handling import (
    ArrayType,
    Atom,
    Body,
    Tangent,
    TupleOperation,
    Var,
    Vmap,
    emits,
    jvp_rule,
    reference_rule,
    vmap_rule,
)
from effx.ir.ops.host import FFI
from effx.ir.values.described import HostData
from effx.lower.text.foreign_calls import TYPED, custom_call_text, key_text, string_text

__all__ = ["ForeignCall", "Layout"]

Layout = tuple[int, ...] | None
"""The axes of an array in memory, the slowest first; None for row-major."""


# Attributes are MLIR's text: `1`, `1.0`, `True` and `np.float32(1)` are equal in Python and not to C++, and
# here they are different operations; NaN is equal to itself.
@final
@attrs.frozen
class ForeignCall(TupleOperation):
    """Calls a foreign function. StableHLO: custom_call.

    Attributes:
        target: the name under which the function is registered with XLA.
        out_types: the results'.
        attributes: names and values of its attributes, as MLIR's text.
        in_layouts, out_layouts: one for each array; () for row-major.
        aliases: pairs of an operand and the result that is written into its memory.
        has_side_effect: True where the call counts, not only its results.
        vmap_method: how the function is called for a batch; None to refuse batches.
        api_version: of the function's interface: 4 for the typed one; earlier ones pass memory and a string.
        legacy: that string.
    """

    target: str
    out_types: tuple[ArrayType, ...]
    attributes: tuple[tuple[str, str], ...] = ()
    in_layouts: tuple[Layout, ...] = ()
    out_layouts: tuple[Layout, ...] = ()
    aliases: tuple[tuple[int, int], ...] = ()
    has_side_effect: bool = False
    vmap_method: str | None = None
    api_version: int = TYPED
    legacy: str = ""

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """None for a function of its operands alone."""
        return frozenset({FFI}) if self.has_side_effect else NO_EFFECTS

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The declared types."""
        for t in (*types, *self.out_types):
            if dtypes.is_key(t.dtype):
                raise DTypeError(
                    f"ffi_call: {self.target} cannot take or give keys, got {t!r}; effx.random.key_data has their words"
                )
        _check_layouts(self.target, "input", self.in_layouts, types)
        _check_layouts(self.target, "output", self.out_layouts, self.out_types)
        for input_index, out in self.aliases:
            self._check_alias(input_index, out, types)
        return self.out_types

    def _check_alias(self, input_index: int, out: int, types: Sequence[ArrayType]) -> None:
        message = f"ffi_call: input_output_aliases of {self.target} has the pair {input_index}: {out}"
        if not (0 <= input_index < len(types) and 0 <= out < len(self.out_types)):
            raise ShapeError(
                f"{message}, but there are {len(types)} inputs and {len(self.out_types)} outputs"
            )
        a, b = types[input_index], self.out_types[out]
        if a.strong() != b.strong():
            raise ShapeError(f"{message}, whose types differ: the input is {a!r}, the output {b!r}")
        rows = tuple(range(a.ndim))
        layouts = [
            (x[i] if x else None) for x, i in ((self.in_layouts, input_index), (self.out_layouts, out))
        ]
        if (layouts[0] or rows) != (layouts[1] or rows):
            raise ShapeError(
                f"{message}, whose layouts differ: the input has {layouts[0] or rows}, the output {layouts[1] or rows}"
            )


def _check_layouts(target: str, side: str, layouts: Sequence[Layout], types: Sequence[ArrayType]) -> None:
    if not layouts:
        return
    if len(layouts) != len(types):
        raise ShapeError(f"ffi_call: {target} has {len(types)} {side}s, but {len(layouts)} {side} layouts")
    for i, (order, t) in enumerate(zip(layouts, types, strict=True)):
        if order is not None and sorted(order) != list(range(t.ndim)):
            raise ShapeError(
                f"ffi_call: the layout of {side} {i} of {target} must list the {t.ndim} axes of {t!r}, got {order}"
            )


@jvp_rule(ForeignCall)
def jvp_foreign_call(
    op: ForeignCall, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """A foreign function has no derivative."""
    raise TransformError(
        f"ffi_call: effx cannot differentiate the foreign function {op.target}; call it inside a function with a "
        f"derivative of its own (effx.custom_jvp, effx.custom_vjp), or on effx.lax.stop_gradient of its arguments"
    )


@vmap_rule(ForeignCall)
def batch_foreign_call(
    handler: Vmap, op: ForeignCall, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[tuple[Array, ...], tuple[int | None, ...]]:
    """One call for the batch, or a scan over it."""
    method, size = op.vmap_method, handler.size
    if method is None:
        raise missing_method_error("ffi_call", op.target)
    front = (0,) * len(op.out_types)
    if method in ("sequential", "sequential_unrolled"):
        unroll = max(size, 1) if method == "sequential_unrolled" else 1
        return scan_over_batch(handler, op, op.target, values, axes, unroll), front
    # An operand whose memory a result reuses gets the whole batch, whatever the method.
    operands = batch_in_one_call(
        handler, method, values, axes, always_batched=[input_index for input_index, _ in op.aliases]
    )
    grown = [
        x.type.ndim > v.type.ndim or a is not None for x, v, a in zip(operands, values, axes, strict=True)
    ]
    batch = attrs.evolve(
        op,
        out_types=tuple([t.with_shape((size, *t.shape)) for t in op.out_types]),
        in_layouts=tuple(
            [_add_batch_to_layout(x) if g else x for x, g in zip(op.in_layouts, grown, strict=False)]
        ),
        out_layouts=tuple([_add_batch_to_layout(x) for x in op.out_layouts]),
    )
    return batch(*operands), front


def _add_batch_to_layout(layout: Layout) -> Layout:
    """Returns a layout with the batch's axis, which is the slowest."""
    return None if layout is None else (0, *[axis + 1 for axis in layout])


@emits(ForeignCall)
def emit_foreign_call(
    body: Body, op: ForeignCall, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    entries = ", ".join([f"{key_text(name)} = {value}" for name, value in op.attributes])
    call = custom_call_text(
        op.target,
        [body.name(x) for x in inputs],
        [x.type for x in inputs],
        [v.type for v in outputs],
        in_layouts=[layout and layout[::-1] for layout in op.in_layouts] or None,
        out_layouts=[layout and layout[::-1] for layout in op.out_layouts] or None,
        has_side_effect=op.has_side_effect,
        aliases={out: input_index for input_index, out in op.aliases},
        api_version=op.api_version,
        config=f"{{{entries}}}" if op.api_version >= TYPED else string_text(op.legacy),
    )
    body.module.is_foreign = True
    return body.block(call, len(outputs))


@reference_rule(ForeignCall)
def oracle_foreign_call(op: ForeignCall, *values: HostData) -> tuple[HostData, ...]:
    """The NumPy oracle has no meaning for a foreign function, which only XLA can call."""
    raise NoRuleError(
        f"ffi_call: the reference has no meaning in NumPy for the foreign function {op.target}; "
        f"run the program without it"
    )
