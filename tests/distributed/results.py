"""What is left of a process."""

from __future__ import annotations

from typing import final

import attrs


@final
@attrs.frozen
class Ended:
    """How a process ended: its status, what it printed, and its errors."""

    status: int
    out: str
    error: str

    @property
    def last(self) -> str:
        """The last error's text, without the line of the user's that effx adds."""
        lines = [line for line in self.error.splitlines() if line.startswith(("effx", "ValueError"))]
        return lines[-1] if lines else self.error
