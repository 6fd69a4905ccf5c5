"""`jax.extend`: what libraries that add to JAX use."""
