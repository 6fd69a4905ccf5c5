"""Record names of JAX's that were requested and are missing, each with the requesting line, for `report`.

A name without JAX's behaviour is left out: the error is clearer than a stand-in that fails
later.
"""

import sys
from typing import final

import attrs

__all__ = ["Missing", "MissingReport", "asked", "report"]


@final
@attrs.frozen
class Missing:
    """A name that is not there.

    Attributes:
        name: in full, as `jax.lax.foo`.
        file, line: the line that requested it.

    >>> from effx.compat import Missing
    >>> Missing("jax.lax.foo", "model.py", 12).name
    'jax.lax.foo'
    """

    name: str
    file: str
    line: int


@final
@attrs.frozen
class MissingReport:
    """The missing names, in the order of their requests.

    Attributes:
        missing: each name and line once.

    >>> from effx.compat import Missing, MissingReport
    >>> print(MissingReport((Missing("jax.lax.foo", "model.py", 12),)))
    effx.compat: asked for, and not there:
      jax.lax.foo                              model.py:12
    """

    missing: tuple[Missing, ...]

    def __str__(self) -> str:
        if not self.missing:
            return "effx.compat: nothing is missing that was asked for"
        lines = [f"  {m.name:40} {m.file}:{m.line}" for m in self.missing]
        return "\n".join(["effx.compat: asked for, and not there:", *lines])


_found: dict[Missing, None] = {}


def report() -> MissingReport:
    """Returns the names of `jax` that this process requested and effx does not have.

    A name on it need not be an error: libraries look for names of several versions of JAX.

    >>> import effx
    >>> print(effx.compat.report())
    effx.compat: nothing is missing that was asked for
    """
    return MissingReport(tuple(_found))


def asked(name: str) -> Missing:
    """Records that a name is missing, and returns the requesting line."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_machinery(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    result = Missing(name, frame.f_code.co_filename, frame.f_lineno)
    _found[result] = None
    return result


def _is_machinery(module: str) -> bool:
    return module.startswith(("effx.compat.", "importlib")) or module == "importlib"
