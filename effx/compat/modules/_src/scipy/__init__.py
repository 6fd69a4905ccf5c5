"""`jax._src.scipy`, below which libraries ask for names of their own."""
