"""`jax._src.tree_util`: flax reads here which classes are nodes, orbax imports a function of `jax.tree_util`."""

from effx.tree_util import flatten_one_level, is_tree_node

__all__ = ["_registry", "flatten_one_level"]


class _Registry:
    """The classes whose instances are nodes, looked up here instead of in a dict as in JAX."""

    def __contains__(self, cls: object) -> bool:
        return isinstance(cls, type) and is_tree_node(cls)


_registry = _Registry()
