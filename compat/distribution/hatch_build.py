"""Puts the metadata of a distribution `jax` into the wheel.

Its folder bears the local version `+effx`: an installed JAX of the same number keeps its own, whatever comes first and
whatever is uninstalled. There is no RECORD in it, and INSTALLER names this distribution: pip then refuses to
uninstall or replace "jax" alone, and says who installed it. The files belong to effx-jax-compat, and go with it.
"""

import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

METADATA = """\
Metadata-Version: 2.1
Name: jax
Version: {version}
Summary: No JAX: effx stands in for it (installed by effx-jax-compat)
Requires-Python: >=3.11
Provides-Extra: cpu
"""


class JaxMetadata(BuildHookInterface):
    """Adds `jax-X+effx.dist-info` to what a wheel installs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Writes the files, and names their places in the wheel."""
        number = self.metadata.version
        inside = f"effx_jax_compat-{number}.data/purelib/jax-{number}+effx.dist-info"
        self.files = tempfile.TemporaryDirectory()
        for name, text in [("METADATA", METADATA.format(version=number)), ("INSTALLER", "effx-jax-compat\n")]:
            path = Path(self.files.name, name)
            path.write_text(text, encoding="utf-8")
            build_data["force_include"][str(path)] = f"{inside}/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes what `initialize` wrote."""
        self.files.cleanup()
