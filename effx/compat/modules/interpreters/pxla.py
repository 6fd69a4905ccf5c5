"""`jax.interpreters.pxla`: nothing of it is in effx; released libraries import it for names that they ask for rarely."""
