"""What XLA made of donated memory: which arguments of a compiled program give theirs to a result, and which do not."""

import re
from collections.abc import Sequence

from effx.lower.runtime.executables import Executable

_ALIASES = re.compile(r"input_output_alias=\{ (.*?) \}[,\n]")
_PARAMETER = re.compile(r": \((\d+), \{")


def find_unused_donations(executable: Executable, donated: Sequence[bool]) -> list[int]:
    """Returns the numbers of the inputs whose donated memory no result takes.

    XLA decides, not what was asked of it: the memory of a `f32[4]` may take an `i32[2, 2]`. Inputs that are not passed,
    since the program does not read them, and those without elements are not among them.

    Args:
        executable: compiled with `donated`.
        donated: for each input behind the constants; False where it ends.
    """
    passed = [i for i, keep in enumerate(executable.kept) if keep]
    donated_inputs = [i for i in passed if i < len(donated) and donated[i] and executable.in_types[i].size]
    sizes = [executable.in_types[i].size * executable.in_types[i].dtype.itemsize for i in donated_inputs]
    stats = executable.loaded.get_compiled_memory_stats()
    if len(executable.devices) == 1 and stats.alias_size_in_bytes == sum(sizes):
        return []  # so that the text, which may be long, is rarely written
    # effx asks XLA for pairs of one type and leaves the rest to it, so what XLA chose is read from the
    # compiled module.
    header = executable.loaded.hlo_modules()[0].to_string().partition("\n")[0] + "\n"
    match = _ALIASES.search(header)
    aliased_inputs = {int(n) for n in _PARAMETER.findall(match.group(1))} if match else set()
    hidden = len(executable.in_shardings) - len(
        passed
    )  # of constants, which are not there where the devices are not
    parameters = {i: hidden + n for n, i in enumerate(passed)}
    return [i for i in donated_inputs if parameters[i] not in aliased_inputs]
