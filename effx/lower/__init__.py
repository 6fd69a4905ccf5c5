"""Lowering to StableHLO text and running on XLA: the only code that touches jaxlib.

Never: import a handler.
"""
