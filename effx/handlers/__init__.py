"""The handlers that effx ships, each written on the public interface of `effx.effects`.

Never: import jaxlib.
"""
