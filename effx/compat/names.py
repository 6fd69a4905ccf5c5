"""The version of JAX that effx replaces."""

__all__ = ["VERSION", "VERSION_INFO"]

VERSION = "0.12.0"
"""The version whose names, parameters and values effx follows, and that libraries read."""

VERSION_INFO = tuple([int(part) for part in VERSION.split(".")])
"""The version as numbers."""
