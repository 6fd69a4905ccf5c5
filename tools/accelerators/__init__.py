"""Compiles functions for accelerators that need not be present, beside JAX: `make test-accelerators`."""
