"""Removed: the import raises an error with the replacement, as the attribute of `effx.experimental` does."""

raise ImportError(
    f"{__name__} does not exist; use effx.pure_callback, effx.experimental.io_callback or effx.debug.callback"
)
