"""Meshes, shardings and devices, as users see them."""
