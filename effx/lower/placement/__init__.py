"""Devices, processes, meshes, shardings, memories, and arrays on devices."""
