"""Make errors of callbacks catchable by programs for JAX: their own class, and `jax.errors.JaxRuntimeError` too.

In JAX such an error is of XLA's class, and its text names the class that was raised. Libraries go by both. Its traceback
is logged.
"""

import logging
from contextlib import suppress

from effx.errors import BackendError, EffxError

__all__ = ["log_as_runtime_error"]

_logger = logging.getLogger("jax._src.callback")


def log_as_runtime_error(called_function: str, error: BaseException) -> BaseException:
    """Logs the error of a callback, and returns it as a runtime error."""
    if called_function in ("pure_callback", "io_callback") and isinstance(error, Exception):
        _logger.error("jax.%s failed", called_function, exc_info=error)
    return as_runtime_error(error)


def as_runtime_error(error: BaseException) -> BaseException:
    """Returns an error of the same class, arguments and attributes that is a `BackendError` too.

    The error itself where it is one already, ends the process, or is of a class that takes no second one.
    """
    if isinstance(error, Exception) and not isinstance(error, BackendError):
        with suppress(Exception):  # a user's class need not allow it
            kind = type(error)
            body = {
                "__module__": kind.__module__,
                "__qualname__": kind.__qualname__,
                "__str__": BackendError.__str__,
            }
            # Under the hook a BackendError is a ValueError itself: what it derives from stands behind it.
            bases = (BackendError,) if issubclass(BackendError, kind) else (kind, BackendError)
            both: type[BackendError] = type(kind.__name__, bases, body)
            # Without the class's own __init__, which may take other arguments.
            error_arguments = error.__reduce__()[1]
            instance = both.__new__(both, *error_arguments)
            if isinstance(instance, OSError):
                OSError.__init__(instance, *error_arguments)
            instance.args = error.args
            # A failed check of effx's has the text that the check was given.
            text = error.message if isinstance(error, EffxError) else f"{kind.__name__}: {error}"
            vars(instance).update(
                {"at": None, "is_placed": False, "handlers": "", **vars(error), "message": text}
            )
            instance.__cause__, instance.__context__ = error.__cause__, error.__context__
            instance.__suppress_context__ = error.__suppress_context__
            return instance.with_traceback(error.__traceback__)
    return error
