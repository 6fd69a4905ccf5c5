"""Mapping a function over an axis: `vmap`, `pmap`, `shard_map`."""
