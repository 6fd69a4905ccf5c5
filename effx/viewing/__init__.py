"""Views of programs: an interactive page, a graph for Graphviz, and text in colours.

`Program.to_html`, `Program.to_dot`, `Program.pretty_print` and notebooks call these.

They are a layer above the library, because they show costs, so `Program` reaches them by a port.
"""

from effx.viewing.graphs import graph
from effx.viewing.pages import frame, page
from effx.viewing.terminals import text

__all__ = ["frame", "graph", "page", "text"]
