"""Functions with batching of their own."""

from effx.transforms.custom.custom_batching import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]


def __dir__() -> list[str]:
    return sorted(__all__)
