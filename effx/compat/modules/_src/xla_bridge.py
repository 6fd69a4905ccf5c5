"""`jax._src.xla_bridge`: chex checks here whether a platform is in use."""

from effx.lower.placement.backends import client, started_platforms


def __getattr__(name: str) -> object:
    if name == "_backends":
        return {platform: client(platform) for platform in started_platforms()}
    raise AttributeError(name)
