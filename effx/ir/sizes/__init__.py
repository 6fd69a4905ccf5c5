"""Symbolic sizes: polynomials of dimension variables, their bounds, and solving for them."""
