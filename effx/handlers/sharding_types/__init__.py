"""What types say of mesh axes: along which values vary, and which shard them."""
