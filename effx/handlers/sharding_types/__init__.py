"""Mesh axes in types: the axes along which values vary, and the Explicit axes that shard them."""
