"""Text that stands on one line where it fits, and else on several: groups, breaks, and indentation.

Laid out by a pass that looks at each group once: on one line if its text, breaks as spaces, fits into what is left.
"""

from typing import TypeAlias, final

import attrs

__all__ = ["Break", "Document", "Group", "Indented", "join", "lay_out"]


@final
@attrs.frozen
class Break:
    """A new line, or this text where the group around it stands on one line."""

    text: str = " "


@final
@attrs.frozen(eq=False)
class Indented:
    """Text whose new lines begin further to the right."""

    columns: int
    content: "Document"


@final
@attrs.frozen(eq=False)
class Group:
    """Text that stands on one line if it fits; never where `is_long`.

    Attributes:
        width: how long it is on one line.
    """

    content: "Document"
    is_long: bool = False
    width: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "width", float("inf") if self.is_long else _width(self.content))


Document: TypeAlias = "str | Break | Indented | Group | tuple[Document, ...]"


def _width(document: Document) -> float:
    match document:
        case str():
            return len(document)
        case Break(text=text):
            return len(text)
        case Indented(content=content):
            return _width(content)
        case Group(width=width):
            return width
    return sum([_width(part) for part in document])


def join(separator: Document, parts: list[Document]) -> Document:
    """Returns the parts with the separator between them.

    >>> lay_out(Group(join((",", Break()), ["a", "b"])), 80)
    'a, b'
    """
    result: list[Document] = []
    for part in parts:
        result += [separator, part] if result else [part]
    return tuple(result)


def lay_out(document: Document, columns: int) -> str:
    r"""Returns the text of a document in lines of so many columns, as far as it can be broken.

    >>> lay_out(Group(("[", Indented(2, (Break(""), "first", Break(), "second")), Break(""), "]")), 10)
    '[\n  first\n  second\n]'
    """
    text: list[str] = []
    column = 0
    remaining: list[tuple[int, bool, Document]] = [(0, False, document)]
    while remaining:
        indentation, is_flat, part = remaining.pop()
        match part:
            case str():
                text.append(part)
                column += len(part)
            case Break(text=space):
                text.append(space if is_flat else "\n" + " " * indentation)
                column = column + len(space) if is_flat else indentation
            case Indented(columns=more, content=content):
                remaining.append((indentation + more, is_flat, content))
            case Group(content=content, width=width):
                remaining.append((indentation, is_flat or column + width <= columns, content))
            case _:
                remaining.extend([(indentation, is_flat, x) for x in reversed(part)])
    return "".join(text)
