"""`jax._src`: the handful of private names that released libraries import."""
