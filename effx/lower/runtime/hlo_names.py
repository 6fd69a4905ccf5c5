"""Read from a profile the scope and source line of each XLA instruction in the user's function.

On a CPU the events of a profile have the names of compiled instructions, such as `wrapped_tanh`. Their scopes and lines
are in the HLO of the module, which the profile holds as a protocol buffer inside its own. Only a
few fields of both are needed, so they are read from the wire format: a message is a sequence of numbered fields, and
numbers and kinds do not change. (Google, "Protocol Buffers: Encoding"; xplane.proto, hlo.proto, xla_data.proto of XLA.)
"""

from collections.abc import Iterator
from typing import final

import attrs

from effx.errors import ProgramError

__all__ = ["Origin", "instruction_origins"]

# Message.field, as the .proto files number them.
SPACE_PLANE = 1
PLANE_NAME, PLANE_LINE, PLANE_EVENTS, PLANE_STATS = 2, 3, 4, 5
LINE_EVENT = 4
EVENT_STATS = 4
ENTRY_VALUE = 2
METADATA_ID, METADATA_NAME, METADATA_STAT = 1, 2, 5
STAT_ID, STAT_UNSIGNED, STAT_SIGNED, STAT_BYTES = 1, 3, 4, 6
HLO_MODULE = 1
MODULE_NAME, MODULE_COMPUTATION, MODULE_ID, MODULE_FRAMES = 1, 3, 5, 17
COMPUTATION_INSTRUCTION = 2
INSTRUCTION_NAME, INSTRUCTION_METADATA = 1, 7
META_OP, META_FILE, META_LINE, META_FRAME = 2, 3, 4, 15
FRAMES_FILE, FRAMES_LOCATION, FRAMES_FRAME = 1, 3, 4
LOCATION_FILE, LOCATION_LINE = 1, 3
FRAME_LOCATION = 1


@final
@attrs.frozen
class Origin:
    """The origin of an instruction in the user's function.

    Attributes:
        name: scopes and operation, such as `layer1/tanh`; of a fusion those of its result.
        source: the user's line, such as `/home/me/train.py:12`, or "".
    """

    name: str
    source: str


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yields the number and value of each field of a message; of fixed-size numbers the bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + size > len(data):
            raise ValueError("a field is longer than its message")
        yield number, data[at : at + size]
        at += size


def _messages(data: memoryview, number: int) -> list[memoryview]:
    return [value for n, value in _fields(data) if n == number and isinstance(value, memoryview)]


def _text_field(data: memoryview, number: int) -> str:
    texts = _messages(data, number)
    return bytes(texts[-1]).decode(errors="replace") if texts else ""


def _number_field(data: memoryview, number: int) -> int:
    return next((value for n, value in _fields(data) if n == number and isinstance(value, int)), 0)


def _frame_locations(frames: memoryview) -> list[str]:
    """Returns `file:line` for each stack frame of a module; they are counted from 1."""
    files = ["", *[bytes(f).decode(errors="replace") for f in _messages(frames, FRAMES_FILE)]]
    located = [""]
    for location in _messages(frames, FRAMES_LOCATION):
        file = files[_number_field(location, LOCATION_FILE)]
        # effx writes "-" for what has no line of the user's.
        located.append(f"{file}:{_number_field(location, LOCATION_LINE)}" if file not in ("", "-") else "")
    return ["", *[located[_number_field(f, FRAME_LOCATION)] for f in _messages(frames, FRAMES_FRAME)]]


def _read_instructions(module: memoryview) -> dict[str, Origin]:
    frame_locations = [
        line for frames in _messages(module, MODULE_FRAMES) for line in _frame_locations(frames)
    ] or [""]
    instructions = {}
    for computation in _messages(module, MODULE_COMPUTATION):
        for instruction in _messages(computation, COMPUTATION_INSTRUCTION):
            for meta in _messages(instruction, INSTRUCTION_METADATA):
                file = _text_field(meta, META_FILE)
                source = frame_locations[_number_field(meta, META_FRAME)]
                if not source and file not in ("", "-"):
                    source = f"{file}:{_number_field(meta, META_LINE)}"
                name = _text_field(meta, META_OP)
                if name:
                    instructions[_text_field(instruction, INSTRUCTION_NAME)] = Origin(name, source)
    return instructions


def _read_run_ids(plane: memoryview) -> dict[int, int]:
    """Returns for each run of a plane the number of its program."""
    kinds = [m for entry in _messages(plane, PLANE_STATS) for m in _messages(entry, ENTRY_VALUE)]
    metadata_names = {_number_field(m, METADATA_ID): _text_field(m, METADATA_NAME) for m in kinds}
    run_ids = {}
    for line in _messages(plane, PLANE_LINE):
        for event in _messages(line, LINE_EVENT):
            known: dict[str, int] = {}
            for stat in _messages(event, EVENT_STATS):
                kind = metadata_names.get(_number_field(stat, STAT_ID), "")
                if kind in ("run_id", "program_id"):
                    known[kind] = _number_field(stat, STAT_UNSIGNED) or _number_field(stat, STAT_SIGNED)
            if len(known) == 2:
                run = known["run_id"]
                run_ids[run - 2**64 if run >= 2**63 else run] = known["program_id"]
    return run_ids


def _read_modules(plane: memoryview) -> dict[int, dict[str, Origin]]:
    """Returns the instructions of each program whose HLO a plane holds."""
    modules = {}
    for entry in _messages(plane, PLANE_EVENTS):
        stats = [s for e in _messages(entry, ENTRY_VALUE) for s in _messages(e, METADATA_STAT)]
        for hlo in [b for s in stats for b in _messages(s, STAT_BYTES)]:
            for module in _messages(hlo, HLO_MODULE):
                modules[_number_field(module, MODULE_ID)] = _read_instructions(module)
    return modules


def instruction_origins(profile: bytes) -> dict[int, dict[str, Origin]]:
    """Returns for each run of a compiled function, by `run_id`, the origins of its instructions, by their names.

    Args:
        profile: a serialised XSpace.

    Raises:
        ProgramError: it is none.
    """
    modules: dict[int, dict[str, Origin]] = {}
    runs: dict[int, int] = {}
    try:
        for plane in _messages(memoryview(profile), SPACE_PLANE):
            if _text_field(plane, PLANE_NAME) == "/host:metadata":
                modules.update(_read_modules(plane))
            else:
                runs.update(_read_run_ids(plane))
    except (IndexError, ValueError) as error:
        raise ProgramError(f"profile: the data are no serialised XSpace: {error}") from error
    return {run: modules[program] for run, program in runs.items() if program in modules}
