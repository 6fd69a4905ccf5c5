"""The exception hierarchy: every error that effx raises on purpose derives from `EffxError`.

Never: import another effx module.
"""

__all__ = ["DTypeError", "EffxError", "ShapeError"]


class EffxError(Exception):
    """Base class of all errors that effx raises on purpose."""


class ShapeError(EffxError, ValueError):
    """Shapes, axes or sizes do not fit together."""


class DTypeError(EffxError, TypeError):
    """A dtype is unsupported, or dtypes do not fit together."""
