"""`jax._src.xla_bridge`: chex asks here whether a platform is in use."""

from effx.lower.placement.backends import client, started


def __getattr__(name: str) -> object:
    if name == "_backends":
        return {platform: client(platform) for platform in started()}
    raise AttributeError(name)
