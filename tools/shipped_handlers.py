"""Writes the table of shipped handlers, `docs/tables/handlers.md`: what each module does, and its lines of code.

python -m tools.shipped_handlers        rewrites the page
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "effx" / "library"
PAGE = ROOT / "docs" / "tables" / "handlers.md"
HEAD = """# The handlers that effx ships

This page is written by `python -m tools.shipped_handlers`, and a test fails when it is stale. Each handler is a module of
`effx.library` that imports only public names and has no rule for control flow. Lines are lines of code, without blank
lines, comments and docstrings.

"""
SILENT = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
    | {tokenize.ENDMARKER}
)


def code_lines(source: str) -> int:
    """Counts the lines of a module that hold code: none that are blank, a comment, or part of a docstring.

    >>> code_lines('''\"\"\"Text.\"\"\"\\n\\nx = [  # a list\\n    1,\\n]\\n# end\\n''')
    3
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            text = node.body[0]
            lines.difference_update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return len(lines)


def summary(source: str) -> str:
    """Returns the first sentence of a module's docstring, without its stop.

    >>> summary('\"\"\"Counts: all of it.\\n\\nMore.\\n\"\"\"')
    'Counts: all of it'
    """
    text = ast.get_docstring(ast.parse(source)) or ""
    return " ".join(text.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")


def modules() -> dict[str, Path]:
    """Lists the library's modules by name, without the library itself."""
    paths: dict[str, Path] = {}
    for path in sorted(LIBRARY.rglob("*.py")):
        parts = path.relative_to(LIBRARY).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            paths[name] = path
    return dict(sorted(paths.items()))


def render() -> str:
    """Returns the page."""
    rows = ["| module | what it does | lines |", "|---|---|---|"]
    for name, path in modules().items():
        source = path.read_text(encoding="utf-8")
        rows.append(f"| `{name}` | {summary(source).replace('|', chr(92) + '|')} | {code_lines(source)} |")
    return HEAD + "\n".join(rows) + "\n"


def main() -> None:
    """Writes the page."""
    PAGE.write_text(render(), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
