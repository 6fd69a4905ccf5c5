"""`jax.experimental`."""

__all__: list[str] = []
