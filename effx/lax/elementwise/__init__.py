"""Elementwise operations by theme."""
