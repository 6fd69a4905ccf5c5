"""Automatic differentiation: forward and reverse mode, gradients, Jacobians, checkpointing."""
