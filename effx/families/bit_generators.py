"""XLA's own generators: random bits from a key and a counter, and numbers from a state that XLA holds."""

from typing import final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.indexing import getitem
from effx.array.shaping import moveaxis, stack
from effx.dtypes import DType
from effx.effects import Effect
from effx.errors import DTypeError, ShapeError
from effx.handling import (
    ArrayOperation,
    ArrayType,
    Atom,
    Body,
    Tangent,
    TupleOperation,
    Var,
    Vmap,
    array_type,
    emits,
    jvp_rule,
    reference_rule,
    vmap_rule,
)
from effx.ir.ops.base import check_arity, check_kind, types_text
from effx.ir.passes.sharding_propagation import DimensionShardings, OperandShardings, sharding_rule
from effx.ir.types import Shape
from effx.ir.values.described import HostData as Data

__all__ = ["RngBitGenerator", "RngUniform"]


Axis = int | None
STATES = (array_type(dtypes.uint32, (4,)), array_type(dtypes.uint64, (2,)))
ALGORITHMS = ("DEFAULT", "THREE_FRY", "PHILOX")
BIT_DTYPES = (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)


@final
@attrs.frozen
class RngBitGenerator(TupleOperation):
    """Random bits from a state, and the next state. StableHLO: rng_bit_generator.

    The operand is the state, u32[4] or u64[2]: a key of 64 bits, then a counter. A batch shares the generator
    of its first element, which draws for all elements: XLA has no batched form of it.

    Attributes:
        shape: of the bits.
        dtype: an unsigned integer dtype of 8 to 64 bits.
        algorithm: which generator: "PHILOX", "THREE_FRY", or "DEFAULT" for the platform's choice.
    """

    shape: Shape
    dtype: DType
    algorithm: str = attrs.field(default="DEFAULT", validator=attrs.validators.in_(ALGORITHMS))

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The state's type, and the bits' type."""
        check_arity(self, types, 1)
        if types[0].strong() not in STATES:
            raise DTypeError(
                f"rng_bit_generator: the state must be u32[4] or u64[2], got {types_text(types)}"
            )
        if self.dtype not in BIT_DTYPES:
            raise DTypeError(
                f"rng_bit_generator: the dtype must be an unsigned integer of 8 to 64 bits, got {self.dtype}"
            )
        return types[0], array_type(self.dtype, self.shape)


@jvp_rule(RngBitGenerator)
def drop_tangents(
    op: RngBitGenerator, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """Bits have no tangents."""
    return op(*primals), (None, None)


@vmap_rule(RngBitGenerator)
def batch_by_first_state(
    handler: Vmap, op: RngBitGenerator, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[tuple[Array, ...], tuple[Axis, ...]]:
    """The generator of the first batch element draws for all of them, and advances; the others' states stay."""
    (axis,) = axes
    assert axis is not None
    states = moveaxis(values[0], axis, 0)
    state, bits = attrs.evolve(op, shape=(handler.size, *op.shape))(getitem(states, 0))
    return (states.at[0].set(state), bits), (0, 0)


@emits(RngBitGenerator)
def emit_rng_bit_generator(
    body: Body, op: RngBitGenerator, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    state, (state_type, bits_type) = body.name(inputs[0]), [v.type for v in outputs]
    wide, pairs = STATES[1].mlir, array_type(dtypes.uint32, (2, 2)).mlir
    narrow = state_type.dtype == dtypes.uint32
    if narrow:
        state = body.line(f"stablehlo.reshape {state} : ({state_type.mlir}) -> {pairs}")
        state = body.line(f"stablehlo.bitcast_convert {state} : ({pairs}) -> {wide}")
    result = body.line(
        f"stablehlo.rng_bit_generator {state}, algorithm = {op.algorithm} : ({wide}) -> ({wide}, {bits_type.mlir})",
        2,
    )
    after = f"{result}#0"
    if narrow:
        after = body.line(f"stablehlo.bitcast_convert {after} : ({wide}) -> {pairs}")
        after = body.line(f"stablehlo.reshape {after} : ({pairs}) -> {state_type.mlir}")
    return after, f"{result}#1"


_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def _counters(key: int, counter: int, count: int) -> tuple[Data, Data]:
    """The low and high words of consecutive 64-bit counters."""
    with np.errstate(over="ignore"):
        numbers = np.uint64(counter) + np.arange(count, dtype=np.uint64)
    return numbers & _WORD, numbers >> _HALF


def _philox(key: int, counter: int, count: int) -> Data:
    """Blocks u64[count, 4] of 32-bit words: Philox-4x32 with ten rounds. Source: Salmon and others, SC 2011."""
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    low, high = _counters(key, counter, count)
    x = [low, high, np.full_like(low, k0), np.full_like(low, k1)]
    for _ in range(10):
        p, q = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [
            (q >> _HALF) ^ x[1] ^ np.uint64(k0),
            q & _WORD,
            (p >> _HALF) ^ x[3] ^ np.uint64(k1),
            p & _WORD,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(x, -1)


def _threefry(key: int, counter: int, count: int) -> Data:
    """Blocks u64[count, 2] of 32-bit words: Threefry-2x32 with twenty rounds. Source: as above."""
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    keys = (k0, k1, k0 ^ k1 ^ 0x1BD11BDA)
    x, y = _counters(key, counter, count)
    x, y = (x + np.uint64(k0)) & _WORD, (y + np.uint64(k1)) & _WORD
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = (x + y) & _WORD
            y = (((y << np.uint64(turn)) & _WORD) | (y >> np.uint64(32 - turn))) ^ x
        x = (x + np.uint64(keys[(group + 1) % 3])) & _WORD
        y = (y + np.uint64(keys[(group + 2) % 3]) + np.uint64(group + 1)) & _WORD
    return np.stack([x, y], -1)


@reference_rule(RngBitGenerator)
def oracle_rng_bit_generator(op: RngBitGenerator, state: Data) -> tuple[Data, Data]:
    """The two ciphers, in XLA's order of words; the default one is Philox, as on CPUs."""
    key, counter = [int(w) for w in np.ascontiguousarray(state).view(np.uint64)]
    fry = op.algorithm == "THREE_FRY"
    size, words = int(np.prod(op.shape)), 2 if fry else 4
    each = 2 if op.dtype == dtypes.uint64 else 1
    blocks = -(-size * each // words)
    random_words = (_threefry if fry else _philox)(key, counter, blocks)
    if each == 2:
        pairs = random_words.reshape(-1, 2)
        bits = (pairs[:, 0] | pairs[:, 1] << _HALF)[:size].reshape(op.shape)
    else:
        even = next((i for i, n in enumerate(op.shape) if n % 2 == 0), None) if fry and size else None
        if even is None:
            bits = random_words.reshape(-1)[:size].reshape(op.shape)
        else:
            # The two words of a block are adjacent along the first axis of an even size.
            halved = (*op.shape[:even], op.shape[even] // 2, *op.shape[even + 1 :])
            bits = np.moveaxis(random_words.reshape(*halved, 2), -1, even + 1).reshape(op.shape)
    after = np.asarray([key, (counter + blocks) % 2**64], np.uint64)
    return after.view(state.dtype), bits.astype(op.dtype)


@final
class DrawEffect(Effect):
    """Each draw from XLA's own state counts: none is removed, and no two are merged."""

    __slots__ = ()

    @property
    def optional(self) -> bool:
        """True: XLA holds the state."""
        return True

    def __repr__(self) -> str:
        return "drawing"


DRAW_EFFECTS: frozenset[Effect] = frozenset({DrawEffect()})


@final
@attrs.frozen
class RngUniform(ArrayOperation):
    """Numbers that are uniform between two bounds, from a state that XLA holds. StableHLO: rng.

    Attributes:
        shape: of the numbers.
    """

    shape: Shape
    effects = DRAW_EFFECTS

    def infer(self, *types: ArrayType) -> ArrayType:
        """The shape, with the bounds' dtype."""
        check_arity(self, types, 2)
        for t in types:
            check_kind(self, t, "iuf", "a bound")
        low, high = types
        if low.dtype != high.dtype:
            raise DTypeError(f"rng_uniform: the bounds must have one dtype, got {types_text(types)}")
        if low.shape or high.shape:
            raise ShapeError(f"rng_uniform: the bounds must be scalars, got {types_text(types)}")
        return array_type(low.dtype, self.shape)


@sharding_rule(RngBitGenerator, RngUniform)
def replicate_generator(op: object, shardings: OperandShardings) -> list[DimensionShardings]:
    """The result is replicated: one generator draws all of it."""
    return [((),) * t.ndim for t in shardings.results]


@jvp_rule(RngUniform)
def jvp_rng_uniform(
    op: RngUniform, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    """A draw is a constant."""
    return op(*primals), None


@vmap_rule(RngUniform)
def batch_rng_uniform(
    handler: Vmap, op: RngUniform, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    """A draw for each batch element."""
    bounds = [v if a is None else moveaxis(v, a, 0) for v, a in zip(values, axes, strict=True)]
    draws = [
        op(*[b if a is None else getitem(b, i) for b, a in zip(bounds, axes, strict=True)])
        for i in range(handler.size)
    ]
    return stack(draws), 0


@emits(RngUniform)
def emit_rng_uniform(body: Body, op: RngUniform, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    t, bound, where = outputs[0].type, inputs[0].type.mlir, f"tensor<{len(op.shape)}xi64>"
    sizes = (
        body.line(f"stablehlo.constant dense<{list(op.shape)}> : {where}")
        if op.shape
        else body.line(f"stablehlo.constant dense<> : {where}")
    )
    low, high = [body.name(a) for a in inputs]
    return body.line(
        f"stablehlo.rng {low}, {high}, {sizes}, distribution = UNIFORM : ({bound}, {bound}, {where}) -> {t.mlir}"
    )


@reference_rule(RngUniform)
def oracle_rng_uniform(op: RngUniform, low: Data, high: Data) -> Data:
    """NumPy's generator, from the system's entropy."""
    rng = np.random.default_rng()
    if dtypes.is_integer(low.dtype):
        return rng.integers(int(low), int(high), op.shape).astype(low.dtype)
    return np.asarray(rng.uniform(float(low), float(high), op.shape)).astype(low.dtype)
