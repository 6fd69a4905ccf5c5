"""`jax.experimental.compilation_cache.compilation_cache`: the directory of compiled programs, by functions."""

from effx.compat.config import config

__all__ = ["reset_cache", "set_cache_dir"]


def set_cache_dir(path: str) -> None:
    """Keeps compiled programs in a directory: the setting `jax_compilation_cache_dir`, effx's `cache_dir`."""
    config.update("jax_compilation_cache_dir", path)


def reset_cache() -> None:
    """Nothing is left to do: each compilation follows the directory that is set then."""
