"""`jax._src.tree_util`: flax asks here which classes are nodes, orbax for a function of `jax.tree_util`."""

from effx.tree_util import flatten_one_level, is_tree_node

__all__ = ["_registry", "flatten_one_level"]


class _Registry:
    """The classes whose instances are nodes: what JAX has in a dict is asked for here."""

    def __contains__(self, cls: object) -> bool:
        return isinstance(cls, type) and is_tree_node(cls)


_registry = _Registry()
