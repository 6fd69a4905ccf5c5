"""`jit`, the stages of its functions, and other ways to look at a staged function."""
