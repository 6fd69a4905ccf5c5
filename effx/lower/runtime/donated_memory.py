"""Find the donated arguments of a compiled program whose memory XLA does not reuse."""

import re
from collections.abc import Sequence

from effx.lower.runtime.executables import Executable

_ALIASES = re.compile(r"input_output_alias=\{ (.*?) \}[,\n]")
_PARAMETER = re.compile(r": \((\d+), \{")


def find_unused_donations(executable: Executable, donated: Sequence[bool]) -> list[int]:
    """Returns the numbers of the donated inputs whose memory no result reuses.

    XLA decides, whatever was requested: an `i32[2, 2]` may reuse the memory of a `f32[4]`. Inputs that are not passed,
    since the program does not read them, and those without elements are left out.

    Args:
        executable: compiled with `donated`.
        donated: for each input after the constants; False for those beyond its end.
    """
    passed = [i for i, keep in enumerate(executable.kept_mask) if keep]
    donated_inputs = [i for i in passed if i < len(donated) and donated[i] and executable.in_types[i].size]
    sizes = [executable.in_types[i].size * executable.in_types[i].dtype.itemsize for i in donated_inputs]
    stats = executable.loaded.get_compiled_memory_stats()
    if len(executable.devices) == 1 and stats.alias_size_in_bytes == sum(sizes):
        return []  # without writing the text, which may be long
    # effx requests pairs of one type and leaves the rest to XLA, so XLA's choice is read from the
    # compiled module.
    header = executable.loaded.hlo_modules()[0].to_string().partition("\n")[0] + "\n"
    match = _ALIASES.search(header)
    aliased_inputs = {int(n) for n in _PARAMETER.findall(match.group(1))} if match else set()
    hidden = len(executable.in_shardings) - len(
        passed
    )  # constants, of which there are none for the devices of a topology
    parameters = {i: hidden + n for n, i in enumerate(passed)}
    return [i for i in donated_inputs if parameters[i] not in aliased_inputs]
