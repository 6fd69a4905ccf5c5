"""Devices, processes, meshes, shardings, and the arrays that are placed so."""
