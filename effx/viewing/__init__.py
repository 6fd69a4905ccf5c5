"""Programs to look at: an interactive page, and a graph for Graphviz.

`Program.to_html`, `Program.to_dot` and notebooks come here.
"""

from effx.viewing.graphs import graph
from effx.viewing.pages import frame, page

__all__ = ["frame", "graph", "page"]
