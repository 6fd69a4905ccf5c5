"""Compare, before their first run, the programs in which processes exchange data: XLA does not check that they are one.

A collective of processes that run different programs waits for ever, or gives meaningless numbers. A program is
compared once: processes that later make the same calls in another order, or not as often, are not detected. Programs
without collectives are not compared, since a process may well run one that the others do not.

gloo adds up any data: two processes with other shapes got sums of nothing, or none. The comparison is
before the run and not when compiling, because one process alone may compile and look; only at the first run
of a text, so that C++'s calls are left alone.
"""

import hashlib
import json
import logging
import re
import threading
from collections.abc import Sequence

from jaxlib import _jax

from effx.errors import ProcessMismatchError
from effx.ir.types import ArrayType
from effx.lower.placement.processes import Group, current_group
from effx.lower.placement.shardings import Device

__all__ = ["check_agreement"]

# Source locations may differ: process 0 may call the program in another line, or have another path.
LOCATIONS = re.compile(r" loc\(#loc\d+\)|^#loc\d+ = .*$", re.MULTILINE)
# The collectives that XLA's partitioner puts into a program; all-reduce-start and the like too.
COLLECTIVE = re.compile(
    r" (all-reduce|all-gather|all-to-all|reduce-scatter|ragged-all-to-all|collective-\w+|send|recv)[\w-]*\("
)
PATIENCE = 30.0  # seconds of waiting before it is logged
WAITING = "%s: waits for the other processes that have its devices, which must run it too: %s"
_log = logging.getLogger("effx")
_lock = threading.Lock()


def check_agreement(
    name: str,
    text: str,
    loaded: _jax.LoadedExecutable,
    devices: tuple[Device, ...],
    in_types: Sequence[ArrayType],
    out_types: Sequence[ArrayType],
) -> None:
    """Waits, before a program with collectives first runs, until all processes with its devices are about to run it.

    Args:
        name: of the program.
        text: the module that was compiled.
        loaded: XLA's executable.
        devices: those it runs on, in order.
        in_types, out_types: of all arguments and results, for the error.

    Raises:
        ProcessMismatchError: another process is about to run another program.
        DistributedError: another process has failed, or has ended.
    """
    group, run_key = current_group[0], (hash(text), devices)
    if run_key in group.agreed:
        return
    members = sorted({d.process_index for d in devices})
    if len(members) > 1 and COLLECTIVE.search(loaded.hlo_modules()[0].to_string()):
        fingerprint = json.dumps([LOCATIONS.sub("", text), [d.id for d in devices]])
        digest = hashlib.sha256(fingerprint.encode()).hexdigest()
        with _lock:
            if digest not in group.agreed:
                inputs_text, outputs_text = [", ".join(map(repr, types)) for types in (in_types, out_types)]
                timer = threading.Timer(PATIENCE, _log.warning, (WAITING, name, members))
                timer.daemon = True
                timer.start()
                try:
                    _compare_with_processes(
                        group,
                        name,
                        members,
                        [
                            digest,
                            f"{name}({_shorten_types(inputs_text)}) -> ({_shorten_types(outputs_text)})",
                        ],
                    )
                finally:
                    timer.cancel()
                group.agreed.add(digest)
    group.agreed.add(run_key)


def _compare_with_processes(group: Group, name: str, members: list[int], own_program: list[str]) -> None:
    """Compares the next program of some processes: all send theirs to the first, which answers with the outcome."""
    number = group.programs[tuple(members)] = group.programs.get(tuple(members), 0) + 1
    group_id = hashlib.sha256(json.dumps(members).encode()).hexdigest()[:16]
    prefix, previous_prefix = f"effx/programs/{group_id}/{number}", f"effx/programs/{group_id}/{number - 1}"
    first, *other_members = members
    if group.process_id != first:
        group.put(f"{prefix}/{group.process_id}", json.dumps(own_program).encode())
        mismatch = group.get(name, f"{prefix}/found", first).decode()
    else:
        mismatch = ""
        for k in other_members:
            digest, description = json.loads(group.get(name, f"{prefix}/{k}", k))
            if digest != own_program[0] and not mismatch:
                other_description = (
                    description
                    if description != own_program[1]
                    else "another program of this name and these types"
                )
                mismatch = (
                    f"the processes run different programs: process {first} {own_program[1]}, "
                    f"process {k} {other_description}"
                )
        group.put(f"{prefix}/found", mismatch.encode())
        # A process that is here has read the outcome of the previous comparison.
        group.delete(previous_prefix)
    if mismatch:
        raise ProcessMismatchError(f"{name}: {mismatch}")


def _shorten_types(types: str) -> str:
    return types if len(types) <= 100 else f"{types[:90].rpartition(', ')[0]}, ..."
