"""Configuration of Sphinx for the documentation site.

Sphinx rather than MkDocs: its autodoc documents the imported objects, and effx declares many functions by one statement
each and loads namespaces on first use, which static readers do not see; notebooks run while the site is built (MyST-NB), and
a cell that fails fails the build.
"""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from effx.array import Operand  # noqa: E402
from effx.dtypes import DTypeLike  # noqa: E402
from effx.version import __version__  # noqa: E402
from tools.site.reference import docstring_as_rst, write_reference  # noqa: E402

project = "effx"
author = "The effx authors"
copyright = "2026, the effx authors"  # noqa: A001  Sphinx's name
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
root_doc = "index"

# Pages
# No formulas in TeX: MathJax would be loaded from another host, and a reader's computer may have no network.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_url_schemes = ["http", "https", "mailto"]
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "docs" / "_build" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
# ref.python: a word of a docstring, such as `shape`, may be the name of several attributes; it is no link then.
suppress_warnings = ["mystnb.unknown_mime_type", "ref.python"]
pygments_style = "friendly"
pygments_dark_style = "native"

# The reference
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

# Unions as signatures show them, with the names that they have in effx.typing.
ALIASES = {
    stringify_annotation(Operand, "smart"): "~effx.typing.ArrayLike",
    stringify_annotation(DTypeLike, "smart"): "~effx.typing.DTypeLike",
}

# The look
html_theme = "furo"
html_title = f"effx {release}"
html_favicon = html_logo = "static/effx.svg"
html_static_path = ["static"]
html_css_files = ["effx.css"]
html_show_sourcelink = False
html_copy_source = False


def trim_code_blocks(app: Sphinx, page: str, source: list[str]) -> None:
    """Removes the empty line before the end of a block, by which doctest knows where an output ends."""
    source[0] = re.sub(r"(^```python\n.*?)\n+(^```$)", r"\1\n\2", source[0], flags=re.DOTALL | re.MULTILINE)


def name_type_aliases(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """Writes the name of a union of types that has one, such as `ArrayLike`, in a signature."""

    def shorten(text: str | None) -> str | None:
        for union, alias in ALIASES.items():
            text = text.replace(union, alias) if text is not None else None
        return text

    return shorten(signature), shorten(result)


def convert_docstring(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Converts a docstring to reStructuredText, before napoleon reads its sections."""
    lines[:] = docstring_as_rst("\n".join(lines)).splitlines()


def setup(app: Sphinx) -> None:
    """Has the pages of the reference written before Sphinx looks for pages."""
    write_reference(Path(app.srcdir) / "reference")
    app.connect("source-read", trim_code_blocks)
    app.connect("autodoc-process-signature", name_type_aliases)
    app.connect("autodoc-process-docstring", convert_docstring, priority=100)
