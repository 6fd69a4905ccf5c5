"""Writes the table of shipped handlers into `docs/handlers.md`: what each module does, and its lines of code.

python -m tools.shipped_handlers        rewrites that part of the page
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "effx" / "library"
PAGE = ROOT / "docs" / "handlers.md"
START, END = "<!-- shipped: start -->", "<!-- shipped: end -->"
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
    found: dict[str, Path] = {}
    for path in sorted(LIBRARY.rglob("*.py")):
        parts = path.relative_to(LIBRARY).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            found[name] = path
    return dict(sorted(found.items()))


def render() -> str:
    """Returns the table."""
    rows = ["| module | what it does | lines |", "|---|---|---|"]
    for name, path in modules().items():
        source = path.read_text(encoding="utf-8")
        rows.append(f"| `{name}` | {summary(source).replace('|', chr(92) + '|')} | {code_lines(source)} |")
    return "\n".join(rows)


def written() -> str:
    """Returns the page with the table in its place.

    Raises:
        ValueError: the page does not say where.
    """
    page = PAGE.read_text(encoding="utf-8")
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"{PAGE.name}: there is no {START} with {END} behind it")
    return f"{before}{START}\n{render()}\n{END}{after}"


def main() -> None:
    """Writes the page."""
    PAGE.write_text(written(), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
