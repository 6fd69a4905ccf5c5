"""`jax.interpreters`: the tables of rules of primitives."""
