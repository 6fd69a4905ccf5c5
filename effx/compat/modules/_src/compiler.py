"""`jax._src.compiler`: chex imports it, to put functions of its own there under which nothing compiles."""
