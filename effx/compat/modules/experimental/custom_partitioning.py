"""`jax.experimental.custom_partitioning`: functions with rules of their own for how XLA cuts them over devices."""

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import final

from effx.compat.hints import warn_of_hint
from effx.transforms.jit.jit import jit
from effx.tree.registry import PyTree

__all__ = ["custom_partitioning"]


@final
class custom_partitioning:  # JAX's name
    """A function that XLA's own partitioner cuts over devices: the values are the same, whatever the rules say.

    Args:
        fun: the function. static_argnums: positions of its static arguments.

    >>> import effx.numpy as enp
    >>> print(custom_partitioning(lambda x: 2 * x)(enp.arange(3)))
    [0 2 4]
    """

    def __init__(self, fun: Callable[..., PyTree], static_argnums: Sequence[int] = ()) -> None:
        self.fun = fun
        self.static_argnums = tuple(static_argnums)
        self._compiled = jit(fun, static_argnums=self.static_argnums)
        update_wrapper(self, fun)

    def def_partition(
        self,
        partition: Callable[..., PyTree] | None,
        infer_sharding_from_operands: Callable[..., PyTree] | None = None,
        propagate_user_sharding: Callable[..., PyTree] | None = None,
        decode_shardings: bool = True,
        sharding_rule: object = None,
        *,
        reduction_factors: Sequence[str] = (),
        need_replication_factors: Sequence[str] = (),
        permutation_factors: Sequence[str] = (),
        **factor_sizes: int,
    ) -> None:
        """Takes rules, which XLA does not get, and says so once.

        Args:
            partition, infer_sharding_from_operands, propagate_user_sharding, decode_shardings, sharding_rule: the rules.
            reduction_factors, need_replication_factors, permutation_factors, factor_sizes: of `sharding_rule`.
        """
        warn_of_hint("custom_partitioning", "XLA's partitioner cuts the function; shard_map says how by hand")

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Calls the function, compiled."""
        return self._compiled(*args, **kwargs)
