"""Compile with XLA, run its executables, dispatch in C++, and call back into Python."""
