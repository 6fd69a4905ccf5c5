"""The differences between effx and JAX, on one list of expressions; see `python -m tools.differences --help`."""
