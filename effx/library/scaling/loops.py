"""Count the iterations of a compiled loop.

Some backends write the number down. Where none is, it follows from a condition `i < limit`, where `i` starts at a
constant and grows by one, and the limit is a constant: the form in which scans and loops of a known length are
compiled.
"""

import math
import re

from effx.library.scaling.hlo import Computation, HloModule, Instruction

__all__ = ["trip_count"]

# What gives its first operand on.
SAME = ("copy", "bitcast", "convert", "reshape", "opt-barrier")
KNOWN = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
LESS = {"LT": 0, "LE": 1}


def trip_count(module: HloModule, around: Computation, loop: Instruction) -> int | None:
    """Returns how often a loop's body runs; None where the text does not say.

    Args:
        module: the program.
        around: the computation with the loop.
        loop: the `while` instruction.
    """
    known = KNOWN.search(loop.attributes.get("backend_config", ""))
    if known is not None:
        return int(known[1])
    (condition,) = [module.computations[c] for c in loop.called("condition")]
    (body,) = [module.computations[c] for c in loop.called("body")]
    test = _resolve_copies(condition, condition.root)
    if test is None or test.opcode != "compare" or test.attributes.get("direction") not in LESS:
        return None
    counter, limit = [_resolve_copies(condition, x) for x in test.operands]
    if counter is None or counter.opcode != "get-tuple-element":
        return None
    (k,) = counter.numbers("index")
    stop = _loop_limit(module, around, loop, body, limit)
    start = _constant_number(_tuple_element(around, loop.operands[0], k))
    step = _carry_increment(body, k)
    if stop is None or start is None or step is None:
        return None
    return max(math.ceil((stop + LESS[test.attributes["direction"]] - start) / step), 0)


def _resolve_copies(c: Computation, name: str) -> Instruction | None:
    """Returns the instruction whose value a name has, past those that only pass it on."""
    entry = c.instructions.get(name)
    while entry is not None and entry.opcode in SAME:
        entry = c.instructions.get(entry.operands[0])
    return entry


def _tuple_element(c: Computation, name: str, k: int) -> Instruction | None:
    """Returns the instruction that gives the k-th element of a tuple."""
    producer = _resolve_copies(c, name)
    return (
        _resolve_copies(c, producer.operands[k])
        if producer is not None and producer.opcode == "tuple"
        else None
    )


def _constant_number(i: Instruction | None) -> int | None:
    if i is None or i.opcode != "constant" or not re.fullmatch(r"-?\d+", i.literal):
        return None
    return int(i.literal)


def _loop_limit(
    module: HloModule, around: Computation, loop: Instruction, body: Computation, limit: Instruction | None
) -> int | None:
    """Returns the limit: a constant, or one that the loop carries along unchanged."""
    if limit is None or limit.opcode != "get-tuple-element":
        return _constant_number(limit)
    (k,) = limit.numbers("index")
    passed = _tuple_element(body, body.root, k)
    if passed is None or passed.opcode != "get-tuple-element" or passed.numbers("index") != (k,):
        return None
    return _constant_number(_tuple_element(around, loop.operands[0], k))


def _carry_increment(body: Computation, k: int) -> int | None:
    """Returns by how much the k-th carried value grows in an iteration."""
    added = _tuple_element(body, body.root, k)
    if added is None or added.opcode != "add":
        return None
    x, y = [_resolve_copies(body, operand) for operand in added.operands]
    if x is not None and _constant_number(x) is not None:
        x, y = y, x
    if x is None or x.opcode != "get-tuple-element" or x.numbers("index") != (k,):
        return None
    step = _constant_number(y)
    return step if step is not None and step > 0 else None
