"""Mutable references, and references as arguments of transformed functions."""
