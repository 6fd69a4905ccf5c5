"""`jax.extend.backend`: the clients of platforms, which are jaxlib's."""

from effx.lower.jaxlib_names import Client
from effx.lower.placement.backends import client, started_platforms
from effx.lower.placement.backends import default_device as get_default_device

__all__ = ["backends", "get_backend", "get_default_device"]


def get_backend(platform: str | None = None) -> Client:
    """Returns the client of a platform, which starts the first time.

    Args:
        platform: "cpu", "gpu" and so on; None for the one that programs run on.

    Raises:
        BackendError: the platform is not there.

    >>> get_backend("cpu").platform
    'cpu'
    """
    return client(platform)


def backends() -> dict[str, Client]:
    """Returns the clients that have started, by platform; the one that programs run on is started.

    >>> get_default_device().platform in backends()
    True
    """
    client()
    return {name: client(name) for name in started_platforms()}
