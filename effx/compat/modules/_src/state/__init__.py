"""`jax._src.state`."""
