"""`jax._src.distributed`: orbax reads this process's part in a group here."""

from typing import final

from effx.lower.jaxlib_names import DistributedRuntimeClient
from effx.lower.placement.processes import Group, current_group

__all__ = ["DistributedState", "global_state"]


@final
class DistributedState:
    """This process's part in the group that `jax.distributed.initialize` joined."""

    @property
    def client(self) -> DistributedRuntimeClient | None:
        """XLA's connection to the coordination service; None without a group."""
        group = _group()
        return None if group is None else group.client

    @property
    def process_id(self) -> int:
        """The number of this process; 0 without a group."""
        group = _group()
        return 0 if group is None else group.process_id

    @property
    def num_processes(self) -> int:
        """How many processes there are; 1 without a group."""
        group = _group()
        return 1 if group is None else group.num_processes

    @property
    def partition_index(self) -> int | None:
        """The part of the network that this process's devices belong to."""
        group = _group()
        return None if group is None else group.partition_index


def _group() -> Group | None:
    return current_group[0] if current_group else None


global_state = DistributedState()
