"""Differentiation: forward and reverse mode, gradients, Jacobians, checkpointing."""
