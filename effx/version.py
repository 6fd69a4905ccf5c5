"""The version of effx, which packaging reads too."""

__version__ = "0.1.0"
