"""`jax.experimental`: effx's, and what libraries import from there besides."""
