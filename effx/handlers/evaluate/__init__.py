"""The outermost handler: it runs operations on XLA, or by NumPy the first times."""
