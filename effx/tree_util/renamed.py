"""The functions of `effx.tree` that `jax.tree_util` has under other names."""

from effx import tree

__all__ = [
    "default_registry", "register_attrs", "tree_all", "tree_broadcast", "tree_flatten", "tree_flatten_with_path",
    "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_with_path", "tree_reduce", "tree_reduce_associative",
    "tree_structure", "tree_transpose", "tree_unflatten",
]  # fmt: skip

default_registry = tree.users
register_attrs = tree.register_record
tree_all = tree.all
tree_broadcast = tree.broadcast
tree_flatten = tree.flatten
tree_flatten_with_path = tree.flatten_with_path
tree_leaves = tree.leaves
tree_leaves_with_path = tree.leaves_with_path
tree_map = tree.map
tree_map_with_path = tree.map_with_path
tree_reduce = tree.reduce
tree_reduce_associative = tree.reduce_associative
tree_structure = tree.structure
tree_transpose = tree.transpose
tree_unflatten = tree.unflatten
