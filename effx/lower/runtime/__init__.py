"""Compiling with XLA, running what it compiled, and what programs call while they run."""
