"""`jax._src.lax`, below which libraries ask for names of their own."""
