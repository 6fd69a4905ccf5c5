"""Spell random keys of 16 bytes as their words, an array of keys `s` as u32 `[*s, 4]`.

XLA has no element of 16 bytes but complex numbers. A GPU's kernels get words out of these again and again, and a TPU
computes them of floats of 32 bits, so that bits are lost.
"""

from collections.abc import Callable, Sequence
from typing import cast

import attrs

from effx import dtypes
from effx.effects import Operation
from effx.ir.ops import compare, shape
from effx.ir.ops.checkpoint import CheckpointName, Unpinned
from effx.ir.ops.control import Calling, Cond, HigherOrder, Scan, While
from effx.ir.ops.convert import Bitcast, Copy, OptimizationBarrier, StopGradient
from effx.ir.ops.elementwise import Select
from effx.ir.ops.index import Gather, Scatter
from effx.ir.ops.reduce import ReduceAnd, ReduceOr
from effx.ir.passes.varying_axes import replace_programs
from effx.ir.program import Atom, Equation, Literal, Program, Var, effect_row
from effx.ir.types import ArrayType, array_type

_WORDS = 4


def is_wide_key(t: ArrayType) -> bool:
    """Returns whether a type is of keys of 16 bytes."""
    return dtypes.is_key(t.dtype) and t.dtype.itemsize == 4 * _WORDS


def spell_keys_in_words(program: Program) -> Program:
    """Returns a program in which keys of 16 bytes are words; its inputs and results are keys still.

    Operations that move keys move words, with a last axis more. Others get keys made of words.
    """
    if not _has_wide_keys(program):
        return program
    inner = _respell(program)
    inputs = tuple([Var(x.type) for x in program.inputs])
    outputs = tuple([Var(y.type) for y in program.outputs])
    start = [_read_words(x, y) for x, y in zip(inputs, inner.inputs, strict=True) if is_wide_key(x.type)]
    end = [
        Equation(Bitcast(y.type.dtype), (x,), (y,))
        for x, y in zip(inner.outputs, outputs, strict=True)
        if is_wide_key(y.type)
    ]
    return attrs.evolve(
        inner,
        inputs=tuple([x if is_wide_key(x.type) else y for x, y in zip(inputs, inner.inputs, strict=True)]),
        equations=(*start, *inner.equations, *end),
        outputs=tuple([y if is_wide_key(y.type) else x for x, y in zip(inner.outputs, outputs, strict=True)]),
        derived={},
    )


def _has_wide_keys(program: Program) -> bool:
    """Returns whether a program, or one that it holds, has keys of 16 bytes; cached."""
    known = program.derived.get("wide keys")
    if known is None:
        atoms: list[Atom] = [*program.inputs, *[y for e in program.equations for y in e.outputs]]
        known = program.derived["wide keys"] = any([is_wide_key(x.type) for x in atoms]) or any(
            [
                _has_wide_keys(p)
                for e in program.equations
                if isinstance(e.op, HigherOrder)
                for p in e.op.programs
            ]
        )
    return bool(known)


def _words_type(t: ArrayType) -> ArrayType:
    return array_type(dtypes.uint32, (*t.shape, _WORDS), False, t.vma)


def _read_words(keys: Atom, words: Var) -> Equation:
    return Equation(Bitcast(dtypes.uint32), (keys,), (words,))


def _respell(program: Program) -> Program:
    """Returns a program whose inputs and results are words where they were keys; cached."""
    known = program.derived.get("key words")
    if known is None:
        known = program.derived["key words"] = _Speller(program).run() if _has_wide_keys(program) else program
    return cast("Program", known)


class _Speller:
    """Rewrites the equations of one program.

    Attributes:
        words: what stands for each variable that is a key.
        equations: those written so far.
        current: the equation that is rewritten.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.words: dict[Var, Var] = {}
        self.equations: list[Equation] = []
        self.current: Equation | None = None

    def run(self) -> Program:
        """Returns the program."""
        inputs = tuple([self.name_words(x) if is_wide_key(x.type) else x for x in self.program.inputs])
        for e in self.program.equations:
            self.current = e
            self.rewrite(e)
        return attrs.evolve(
            self.program,
            inputs=inputs,
            equations=tuple(self.equations),
            outputs=tuple(map(self.read, self.program.outputs)),
            effects=effect_row(self.equations),
            derived={},
        )

    def name_words(self, key: Var) -> Var:
        """Returns a new variable for the words of a key."""
        self.words[key] = words = Var(_words_type(key.type))
        return words

    def name_results(self, e: Equation) -> list[Var]:
        """Returns the results of an equation, new variables for keys."""
        return [self.name_words(y) if is_wide_key(y.type) else y for y in e.outputs]

    def read(self, x: Atom) -> Atom:
        """Returns the words of a key; anything else as it is."""
        return self.words.get(x, x) if type(x) is Var else x

    def add(self, op: Operation[object], inputs: Sequence[Atom], outputs: Sequence[Var]) -> None:
        """Adds an equation in place of the current one."""
        assert self.current is not None
        self.equations.append(attrs.evolve(self.current, op=op, inputs=tuple(inputs), outputs=tuple(outputs)))

    def spread(self, x: Atom, t: ArrayType) -> Atom:
        """Returns what stands for an operand, repeated to a type with the axis of words."""
        words = self.read(x)
        if words.type.shape == t.shape:
            return words
        ndim = x.type.ndim
        dims = tuple(range(ndim)) if words is x else (*range(ndim), t.ndim - 1)
        y = Var(array_type(words.type.dtype, t.shape, False, words.type.vma))
        self.add(shape.BroadcastInDim(t.shape, dims), (words,), (y,))
        return y

    def rewrite(self, e: Equation) -> None:
        """Writes an equation for words."""
        op = e.op
        if isinstance(op, HigherOrder) and not isinstance(op, (Calling, Cond, Scan, While)):
            # It may say more of its operands than their types.
            self.make_keys(e, replace_programs(op, {p: spell_keys_in_words(p) for p in op.programs}))
        elif isinstance(op, HigherOrder):
            op = replace_programs(op, {p: _respell(p) for p in op.programs})
            self.add(op, list(map(self.read, e.inputs)), self.name_results(e))
        elif not any([is_wide_key(x.type) for x in (*e.inputs, *e.outputs)]):
            self.equations.append(e)
        elif isinstance(op, Bitcast):
            # Both sides are u32 with the words as the last axis.
            if is_wide_key(e.outputs[0].type):
                self.words[e.outputs[0]] = cast("Var", e.inputs[0])
            else:
                self.add(Copy(), (self.read(e.inputs[0]),), e.outputs)
        elif type(op) in _MOVES:
            changed, more = _MOVES[type(op)](op, e)
            self.add(changed, [*map(self.read, e.inputs), *more], self.name_results(e))
        elif isinstance(op, Select):
            words = self.name_words(e.outputs[0])
            which = e.inputs[0] if not e.inputs[0].type.shape else self.spread(e.inputs[0], words.type)
            self.add(op, [which, *[self.spread(x, words.type) for x in e.inputs[1:]]], (words,))
        elif isinstance(op, (compare.Eq, compare.Ne)):
            out = e.outputs[0].type
            wide = _words_type(out)
            each = Var(array_type(out.dtype, wide.shape, False, out.vma))
            self.add(op, [self.spread(x, wide) for x in e.inputs], (each,))
            join = ReduceAnd if isinstance(op, compare.Eq) else ReduceOr
            self.add(join((out.ndim,)), (each,), e.outputs)
        else:
            self.make_keys(e, op)

    def make_keys(self, e: Equation, op: Operation[object]) -> None:
        """Writes an equation of keys, which are made of words."""
        operands: list[Atom] = []
        for x in e.inputs:
            if is_wide_key(x.type):
                key = Var(x.type)
                self.add(Bitcast(x.type.dtype), (self.read(x),), (key,))
                operands.append(key)
            else:
                operands.append(x)
        self.add(op, operands, e.outputs)
        for y in e.outputs:
            if is_wide_key(y.type):
                self.add(Bitcast(dtypes.uint32), (y,), (self.name_words(y),))


Move = Callable[[Operation[object], Equation], tuple[Operation[object], Sequence[Atom]]]


def _keep(op: Operation[object], e: Equation) -> tuple[Operation[object], Sequence[Atom]]:
    return op, ()


def _reshape(op: Operation[object], e: Equation) -> tuple[Operation[object], Sequence[Atom]]:
    return shape.Reshape((*e.outputs[0].type.shape, _WORDS)), ()


def _broadcast(op: Operation[object], e: Equation) -> tuple[Operation[object], Sequence[Atom]]:
    assert isinstance(op, shape.BroadcastInDim)
    return shape.BroadcastInDim((*op.shape, _WORDS), (*op.dims, len(op.shape))), ()


def _transpose(op: Operation[object], e: Equation) -> tuple[Operation[object], Sequence[Atom]]:
    assert isinstance(op, shape.Transpose)
    return shape.Transpose((*op.perm, len(op.perm))), ()


def _slice(op: Operation[object], e: Equation) -> tuple[Operation[object], Sequence[Atom]]:
    assert isinstance(op, shape.Slice)
    return shape.Slice((*op.start, 0), (*op.limit, _WORDS), (*op.strides, 1)), ()


def _first_word(starts: Sequence[Atom]) -> tuple[Literal]:
    dtype = starts[0].type.dtype if starts else dtypes.int32
    return (Literal(0, array_type(dtype)),)


def _slice_at(op: Operation[object], e: Equation) -> tuple[Operation[object], Sequence[Atom]]:
    assert isinstance(op, shape.DynamicSlice)
    return shape.DynamicSlice((*op.sizes, _WORDS)), _first_word(e.inputs[1:])


def _update_at(op: Operation[object], e: Equation) -> tuple[Operation[object], Sequence[Atom]]:
    return op, _first_word(e.inputs[2:])


def _gather(op: Operation[object], e: Equation) -> tuple[Operation[object], Sequence[Atom]]:
    assert isinstance(op, Gather)
    offset_dims = (*op.offset_dims, e.outputs[0].type.ndim)
    return attrs.evolve(op, offset_dims=offset_dims, slice_sizes=(*op.slice_sizes, _WORDS)), ()


def _scatter(op: Operation[object], e: Equation) -> tuple[Operation[object], Sequence[Atom]]:
    assert isinstance(op, Scatter)
    return attrs.evolve(op, window_dims=(*op.window_dims, e.inputs[2].type.ndim)), ()


_MOVES: dict[type[Operation[object]], Move] = {
    **dict.fromkeys(
        (shape.Reverse, shape.Concatenate, StopGradient, Copy, OptimizationBarrier, CheckpointName, Unpinned),
        _keep,
    ),
    shape.Reshape: _reshape,
    shape.BroadcastInDim: _broadcast,
    shape.Transpose: _transpose,
    shape.Slice: _slice,
    shape.DynamicSlice: _slice_at,
    shape.DynamicUpdateSlice: _update_at,
    Gather: _gather,
    Scatter: _scatter,
}
