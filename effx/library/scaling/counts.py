"""Arithmetic and memory traffic of single instructions of a compiled program."""

import math
import re

import numpy as np

from effx.library.scaling.hlo import ArrayShape, Computation, HloModule, Instruction

__all__ = ["flops_of", "given_by", "traffic_of"]

# Instructions that move nothing, or call a computation whose instructions are counted.
FREE = frozenset(
    {
        "add-dependency",
        "after-all",
        "async-start",
        "async-update",
        "bitcast",
        "call",
        "conditional",
        "constant",
        "domain",
        "get-tuple-element",
        "opt-barrier",
        "parameter",
        "partition-id",
        "replica-id",
        "rng-get-and-update-state",
        "tuple",
        "while",
    }
)
# Instructions that read a part of their first operand, as large as their result.
READS_A_PART = frozenset({"dynamic-slice", "slice", "gather"})
PASSES = frozenset({"bitcast", "get-tuple-element"})
# In a fusion, of what these give only those elements are computed that are read.
KEEPS_PLACES = frozenset({"convert", "copy", "negate", "pad", "reshape", "reverse", "transpose"})


def flops_of(c: Computation, i: Instruction) -> float:
    """Counts the multiplications and additions of a product or convolution; 0 for other instructions."""
    if i.opcode == "dot":
        (x,) = c.instructions[i.operands[0]].shapes
        contracted = math.prod([x.dims[a] for a in i.numbers("lhs_contracting_dims")])
        return 2.0 * math.prod(i.shapes[0].dims) * contracted * _array_shapes(x)
    return _convolution(c, i) if i.opcode == "convolution" else 0.0


def _array_shapes(x: ArrayShape) -> int:
    return 4 if x.dtype.startswith("c") else 1


def _convolution(c: Computation, i: Instruction) -> float:
    """Counts only terms inside of the image: TPUs run products as convolutions, of which most are padding."""
    x, w = [c.instructions[name].shapes[0] for name in i.operands]
    lhs, rhs, out = re.split(r"_|->", i.attributes["dim_labels"])
    result = i.shapes[0].dims
    total = 2.0 * result[out.index("b")] * result[out.index("f")] * w.dims[rhs.index("i")] * _array_shapes(x)
    window = dict(re.findall(r"(\w+)=(\S+)", i.attributes.get("window", "{}").strip("{}")))
    for d in sorted([label for label in lhs if label.isdigit()]):
        size, steps, taps = x.dims[lhs.index(d)], result[out.index(d)], w.dims[rhs.index(d)]

        def of(name: str, default: str, k: int = int(d)) -> str:
            return window[name].split("x")[k] if name in window else default

        low = int(of("pad", "0_0").split("_")[0])
        apart = int(of("lhs_dilate", "1"))
        stride, between = int(of("stride", "1")), int(of("rhs_dilate", "1"))
        at = np.arange(steps)[:, None] * stride - low + np.arange(taps) * between
        total *= int(np.sum((at >= 0) & (at <= (size - 1) * apart) & (at % apart == 0)))
    return total


def given_by(i: Instruction) -> tuple[ArrayShape, ...]:
    """Returns what an instruction writes: of one that starts a transfer not the operands that it hands on."""
    if i.opcode == "copy-start":
        return i.shapes[:1]
    if i.opcode in ("all-gather-start", "collective-permute-start"):
        return i.shapes[len(i.operands) : 2 * len(i.operands)]
    return i.shapes


def _main_memory_bytes(shapes: "tuple[ArrayShape, ...]") -> int:
    """Returns the bytes in main memory."""
    return sum([s.bytes for s in shapes if not s.space])


def traffic_of(module: HloModule, c: Computation, i: Instruction) -> int:
    """Returns the bytes of main memory that an instruction reads and writes; a fusion counts as one.

    Of an array that is sliced, or updated in place, the part counts.
    """
    if i.opcode in FREE or i.opcode.endswith("-done"):
        return 0
    if i.opcode == "fusion":
        (body,) = [module.computations[name] for name in i.called("calls")]
        return _fusion_traffic(module, body, c, i)
    operands = [c.instructions[name].shapes for name in i.operands]
    if i.opcode in READS_A_PART:
        part = i.shapes if not operands[0][0].space else ()
        return (
            _main_memory_bytes(part)
            + _main_memory_bytes(i.shapes)
            + sum(map(_main_memory_bytes, operands[1:]))
        )
    if i.opcode == "dynamic-update-slice":
        return 0 if i.shapes[0].space else 2 * operands[1][0].bytes
    if i.opcode == "scatter":
        return 2 * _main_memory_bytes(operands[-1]) + sum(map(_main_memory_bytes, operands[1:-1]))
    return sum(map(_main_memory_bytes, operands)) + _main_memory_bytes(given_by(i))


def _fusion_traffic(module: HloModule, body: Computation, c: Computation, i: Instruction) -> int:
    total = 0
    # The memory space of an operand is in its definition.
    for parameter, name in zip(body.parameters(), i.operands, strict=True):
        shapes = c.instructions[name].shapes
        total_bytes = _main_memory_bytes(shapes)
        if total_bytes:
            total += min(
                _elements_read(module, body, parameter, False)
                * shapes[0].bytes
                // max(_total_bytes(shapes[:1]), 1),
                total_bytes,
            )
    result = body.result
    written = [body.instructions[x] for x in result.operands] if result.opcode == "tuple" else [result]
    result_shapes = i.shapes if len(i.shapes) == len(written) else result.shapes
    for x, shape in zip(written, result_shapes, strict=False):
        if not shape.space:
            total += _bytes_written(module, body, x)
    return total


def _total_bytes(shapes: "tuple[ArrayShape, ...]") -> int:
    return sum([math.prod(s.dims) for s in shapes])


def _elements_read(module: HloModule, body: Computation, x: Instruction, changed: bool) -> int:
    """Returns how many elements a fusion reads of an array, all of them if one user reads all.

    Args:
        module, body: the program, and the fusion.
        x: the array, or what was made of it element by element.
        changed: whether something was: an update of that is not in place.
    """
    if x.name == body.root:
        return _total_bytes(x.shapes) if changed else 0
    total = 0
    for u in body.users()[x.name]:
        if u.opcode in PASSES or u.opcode in KEEPS_PLACES:
            total += _elements_read(module, body, u, changed or u.opcode not in PASSES)
        elif u.opcode in READS_A_PART and u.operands[0] == x.name:
            total += _total_bytes(u.shapes)
        elif u.opcode == "fusion":
            (inner,) = [module.computations[name] for name in u.called("calls")]
            for parameter, name in zip(inner.parameters(), u.operands, strict=True):
                if name == x.name:
                    total += _elements_read(module, inner, parameter, changed)
        elif not changed and (
            _only_passes_on(u) or (u.opcode == "dynamic-update-slice" and u.operands[0] == x.name)
        ):
            continue
        else:
            return _total_bytes(x.shapes)
    return total


def _only_passes_on(u: Instruction) -> bool:
    """Says whether a user reads nothing: the result, or a step of a transfer that is counted by itself."""
    return u.opcode == "tuple" or "chain_id" in u.attributes.get("frontend_attributes", "")


def _bytes_written(module: HloModule, body: Computation, x: Instruction) -> int:
    """Returns how many bytes a fusion writes of one result."""
    producer = x
    while producer.opcode in PASSES:
        producer = body.instructions[producer.operands[0]]
    if producer.opcode == "fusion" and len(producer.shapes) == 1:
        (inner,) = [module.computations[name] for name in producer.called("calls")]
        return _bytes_written(module, inner, inner.result)
    if producer.opcode == "dynamic-update-slice":
        return body.instructions[producer.operands[1]].shapes[0].bytes
    if producer.opcode == "parameter" or _only_passes_on(producer):
        return 0
    return sum([s.bytes for s in x.shapes])
