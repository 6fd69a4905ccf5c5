"""Meshes, shardings, devices and processes: the public functions."""
