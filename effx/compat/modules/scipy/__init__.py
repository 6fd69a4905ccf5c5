"""`jax.scipy`, below which is what it has and effx has not."""
