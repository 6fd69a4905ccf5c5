"""Pytrees: flatten and unflatten nested structures, and map over their leaves.

A tree is a leaf or a node with trees as children. Nodes are None (empty), lists, tuples, named tuples,
dicts (by sorted keys), `OrderedDict`, `defaultdict`, attrs classes, and registered types. A dataclass is one
once it is registered.

Never: touch a registry other than through `effx.tree.registry`.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
