"""`jax.experimental.compilation_cache`: the disk cache of compiled programs."""
