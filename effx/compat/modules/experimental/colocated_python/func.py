"""`jax.experimental.colocated_python.func`: orbax imports it, to put a function of its own there under Pathways."""
