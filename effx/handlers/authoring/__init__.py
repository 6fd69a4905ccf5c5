"""Base classes and tools for authors of handlers; `effx.handling` exports them."""
