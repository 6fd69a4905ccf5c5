"""`jax._src.random`, below which quax asks for the default generator."""
