"""`jax.experimental.multihost_utils`: what effx's lacks."""

from effx.distributed import is_initialized
from effx.errors import DistributedError

__all__ = ["reached_preemption_sync_point"]


def reached_preemption_sync_point(step_id: int) -> bool:
    """Says whether this is the step at which all processes save because one will be preempted: never for one process.

    Args:
        step_id: the step.

    Raises:
        DistributedError: there are several processes. As in JAX where `jax_enable_preemption_service` is off: XLA's
            service takes SIGTERM for itself, and effx leaves that to the program.

    >>> reached_preemption_sync_point(3)
    False
    """
    if is_initialized():
        raise DistributedError(
            f"reached_preemption_sync_point: effx runs no preemption service, which step {step_id} would ask"
        )
    return False
