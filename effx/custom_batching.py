"""Functions with custom batching rules, named as in `jax.custom_batching`."""

from effx.transforms.custom.custom_batching import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]


def __dir__() -> list[str]:
    return sorted(__all__)
