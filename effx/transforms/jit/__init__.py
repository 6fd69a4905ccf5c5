"""`jit`, what it shows of its stages, and other ways to look at a staged function."""
