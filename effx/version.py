"""The version of effx, also read by packaging."""

__version__ = "0.1.0"
