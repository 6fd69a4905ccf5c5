"""effx, JAX, PyTorch and NumPy on the same calls: `python -m benchmarks.across_libraries`."""
