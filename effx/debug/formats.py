"""Format strings, checked before there are values."""

import re
from collections.abc import Collection
from string import Formatter

from effx.errors import FormatFieldError, TransformError

_FIRST = re.compile(r"[^.\[]*")


def check_format(function_name: str, fmt: str, count: int, names: Collection[str]) -> None:
    """Checks that a format string uses all arguments, and no others.

    Args:
        function_name: the function, for errors.
        fmt: as for `str.format`.
        count: the number of positional arguments.
        names: of the keyword arguments.

    Raises:
        FormatFieldError: it names an argument that is not there.
        TransformError: it leaves one out, or is no format string.
    """
    used: set[str | int] = set()
    automatic = 0

    def visit(text: str) -> None:
        nonlocal automatic
        for _, field, spec, conversion in Formatter().parse(text):
            if field is None:
                continue
            if conversion is not None and conversion not in tuple("rsa"):
                raise ValueError(f"unknown conversion !{conversion}")
            match = _FIRST.match(field)
            name = match[0] if match else ""
            if name and not name.isdecimal():
                if name.endswith("=") and name[:-1] in names:
                    raise ValueError(f"{{{field}}} is for f-strings; write {name}{{{name[:-1]}}}")
                if name not in names:
                    raise FormatFieldError(f"{function_name}: {{{field}}} names no argument, in {fmt!r}")
                used.add(name)
            else:
                number = int(name) if name else automatic
                automatic += not name
                if number >= count:
                    raise FormatFieldError(
                        f"{function_name}: {{{field}}} is argument {number}, of {count} positional ones, in {fmt!r}"
                    )
                used.add(number)
            visit(spec or "")

    try:
        visit(fmt)
    except FormatFieldError:  # under effx.compat it is a ValueError too
        raise
    except ValueError as error:
        raise TransformError(f"{function_name}: {error}, in {fmt!r}") from None
    unused = [i for i in range(count) if i not in used] + [repr(n) for n in names if n not in used]
    if unused:
        raise TransformError(
            f"{function_name}: {fmt!r} does not use argument{'s' * (len(unused) > 1)} {', '.join(map(str, unused))}; "
            "an f-string "
            f"would show tracers: write the names in braces, without f"
        )
