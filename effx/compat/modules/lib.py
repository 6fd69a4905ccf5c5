"""`jax.lib`: programs import it; it has no names, as in JAX."""

__all__: list[str] = []
