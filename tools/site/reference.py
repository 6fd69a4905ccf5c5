"""Write the pages of the API reference: one for each namespace, or for each group of names of a large one.

The pages list names; Sphinx's autodoc fills in signatures and docstrings from the imported objects, since many functions
are declared by one statement and namespaces load their modules on first use, which no reader of sources would follow.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import get_origin

from sphinx.ext.napoleon import GoogleDocstring

from effx.flag_kinds import Flag, FlagGroup
from effx.lazy import find_homes
from tools.site.namespaces import SECTIONS, Group, Namespace, first_sentence, load_namespace

# A namespace with more names, in several groups, has a page for each group, so that no page takes a browser seconds.
NAMES_ON_ONE_PAGE = 60


def write_reference(folder: Path) -> None:
    """Writes all pages anew.

    Args:
        folder: what was there before is removed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    described: dict[int, str] = {}
    index = [
        *title("API reference", "="),
        "Every public name, with its signature, and examples that ran.",
        "",
    ]
    for section, names in SECTIONS.items():
        index += [*title(section, "-"), *toctree(names)]
        rows: list[tuple[str, str]] = []
        for name in names:
            namespace = load_namespace(name)
            write_namespace(folder, namespace, described)
            rows.append((f":doc:`{name}`", first_sentence(inspect.getdoc(namespace.module) or "")))
        index += table(rows)
    (folder / "index.rst").write_text("\n".join(index) + "\n", encoding="utf-8")


def write_namespace(folder: Path, namespace: Namespace, described: dict[int, str]) -> None:
    """Writes the pages of a namespace, and of the modules that only it lists.

    Args:
        folder: where they go.
        namespace: the namespace.
        described: the full names of the classes that have an entry, by identity; those of this one are added.
    """
    lines = [*title(namespace.name, "="), f".. py:module:: {namespace.name}", ""]
    lines += [*docstring_as_rst(inspect.getdoc(namespace.module) or "").splitlines(), ""]
    pages: list[str] = []
    for group in namespace.groups:
        entries = list(describe_names(namespace, group, described))
        if namespace.count <= NAMES_ON_ONE_PAGE or not group.title:
            lines += [*group_head(namespace, group), *entries]
            continue
        page = f"{namespace.name}.{re.sub('[^a-z0-9]+', '-', group.title.lower())}"
        pages.append(page)
        text = [*title(f"{group.title} ({namespace.name})", "="), as_rst(group.summary), ""]
        text += [f".. py:currentmodule:: {namespace.name}", "", *summary_table(namespace, group), *entries]
        (folder / f"{page}.rst").write_text("\n".join(text) + "\n", encoding="utf-8")
        lines += group_head(namespace, group)
    for name in namespace.submodules:
        pages.append(name)
        write_namespace(folder, load_namespace(name), described)
    lines += toctree(pages)
    (folder / f"{namespace.name}.rst").write_text("\n".join(lines) + "\n", encoding="utf-8")


def group_head(namespace: Namespace, group: Group) -> list[str]:
    """Returns the heading of a group and the table of its names."""
    lines = title(group.title, "-") if group.title else []
    return [*lines, *([as_rst(group.summary), ""] if group.summary else []), *summary_table(namespace, group)]


def summary_table(namespace: Namespace, group: Group) -> list[str]:
    """Returns a table of a group's names, each with the first sentence about it; none for one name or two."""
    if len(group.names) < 3:
        return []
    rows: list[tuple[str, str]] = []
    for name in group.names:
        sentence = describe(getattr(namespace.module, name)) or first_sentence(
            data_docstring(namespace, name)
        )
        rows.append((f":py:obj:`~{namespace.name}.{name}`", sentence))
    return table(rows)


def describe(value: object) -> str:
    """Returns the first sentence of an object's docstring; "" for one whose docstring is that of its class."""
    text = "" if get_origin(value) is not None else inspect.getdoc(value) or ""
    return first_sentence(text) if text != inspect.getdoc(type(value)) else ""


def describe_names(namespace: Namespace, group: Group, described: dict[int, str]) -> Iterator[str]:
    """Yields the directives that describe each name; a class is described once, by its first name."""
    for name in group.names:
        value = getattr(namespace.module, name)
        full = f"{namespace.name}.{name}"
        origin = getattr(value, "__module__", None) or ""
        if inspect.isclass(value) and id(value) in described:
            yield from (
                f".. py:class:: {name}",
                "   :no-index:",
                "",
                f"   The class :py:obj:`{described[id(value)]}`.",
            )
        elif inspect.isclass(value) and not origin.startswith("effx"):
            yield from (f".. py:class:: {name}", "", f"   The class ``{origin}.{value.__qualname__}``.")
        elif inspect.isclass(value):
            described[id(value)] = full
            yield f".. autoclass:: {full}"
            yield "   :no-members:" if issubclass(value, BaseException) else "   :members:"
        elif inspect.isroutine(value) and not origin.startswith("effx"):
            owner = origin or "Python"
            yield from (
                f".. py:function:: {name}(...)",
                "",
                f"   The function ``{value.__qualname__}`` of {owner}.",
            )
        elif inspect.isroutine(value) or is_function_object(value):
            yield f".. autofunction:: {full}"
        else:
            yield from (
                f".. py:data:: {name}",
                "",
                *indent(convert_sections(data_docstring(namespace, name))),
            )
        yield ""


def convert_sections(docstring: str) -> str:
    """Returns a docstring as reStructuredText, with its sections (`Args:` and others) as fields."""
    return str(GoogleDocstring(docstring_as_rst(docstring)))


def indent(text: str) -> list[str]:
    """Returns the lines of a text as the content of a directive."""
    return [f"   {line}" if line else "" for line in text.splitlines()]


def data_docstring(namespace: Namespace, name: str) -> str:
    """Returns the text about a value: the string behind its assignment, or that of the object, or its type and value."""
    value = getattr(namespace.module, name)
    if isinstance(value, Flag | FlagGroup):
        return value.doc
    module, attribute = namespace.module, name
    if Path(module.__file__ or "").with_suffix(".pyi").is_file():
        home, attribute = find_homes(namespace.name)[name]
        module = importlib.import_module(home)
    for statement, following in pairwise(ast.parse(inspect.getsource(module)).body):
        match statement, following:
            case (
                (ast.Assign(targets=[ast.Name(id=target)]) | ast.AnnAssign(target=ast.Name(id=target))),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if target == attribute:
                return inspect.cleandoc(text)
    if describe(value):
        return inspect.getdoc(value) or ""
    # Addresses, and the order of sets, differ from one build to the next.
    shown = "" if isinstance(value, frozenset | set) else repr(value)
    is_shown = 0 < len(shown) < 80 and " at 0x" not in shown
    return f"Of type `{type(value).__name__}`" + (f": `{shown}`." if is_shown else ".")


def is_function_object(value: object) -> bool:
    """Returns whether an object is called as a function and documented as one, such as a ufunc."""
    return (
        get_origin(value) is None and callable(value) and hasattr(value, "__name__") and describe(value) != ""
    )


def title(text: str, underline: str) -> list[str]:
    """Returns a heading."""
    return [text, underline * len(text), ""]


def table(rows: list[tuple[str, str]]) -> list[str]:
    """Returns a table of links, each with a sentence of a docstring."""
    lines = [".. list-table::", "   :widths: 30 70", ""]
    for link, sentence in rows:
        lines += [f"   * - {link}", f"     - {as_rst(sentence)}"]
    return [*lines, ""]


def toctree(pages: list[str] | tuple[str, ...]) -> list[str]:
    """Returns a table of contents that the navigation shows, and the page does not."""
    return [".. toctree::", "   :hidden:", "", *[f"   {page}" for page in pages], ""] if pages else []


# Docstrings are written as Markdown: `code` is in single backticks, and `*` or `_` is no markup.

CODE = re.compile(r"(``.+?``|`[^`\n]+(?:\n[^`\n]+)?`)")
NAME = re.compile(r"^[A-Za-z_][\w.]*$")


def as_rst(text: str) -> str:
    """Returns a text of a docstring as reStructuredText: code is literal, a name is a link, and nothing else is markup.

    >>> as_rst("`effx.jit` of *args: `x + 1`")
    ':py:obj:`effx.jit` of \\\\*args: ``x + 1``'
    """
    parts = CODE.split(text)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = re.sub(r"([*|\\])|(?<=\w)(_)(?!\w)", r"\\\1\2", part)
        elif not part.startswith("``"):
            code = " ".join(part[1:-1].split())
            parts[i] = f":py:obj:`{code}`" if NAME.match(code) else f"``{code}``"
        # Markup ends at a space or at punctuation.
        if i % 2 == 1 and i + 1 < len(parts) and re.match(r"\w", parts[i + 1]):
            parts[i] += "\\ "
    return "".join(parts)


def docstring_as_rst(text: str) -> str:
    """Returns a docstring as reStructuredText; its doctests stay as they are."""
    blocks = re.split(r"(\n\s*\n)", text)
    for i, block in enumerate(blocks):
        lines = block.splitlines()
        start = next((k for k, line in enumerate(lines) if line.lstrip().startswith(">>>")), len(lines))
        head, example = "\n".join(lines[:start]), "\n".join(lines[start:])
        if head.strip():
            head = as_rst(head)
            blocks[i] = f"{head}\n\n{example}" if example else head
    return "".join(blocks)
