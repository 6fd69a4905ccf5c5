"""What programs tell XLA by JAX and effx does not pass on, since it changes no value."""

from effx.errors import warn_user

__all__ = ["warn_of_hint"]


def warn_of_hint(function_name: str, instead: str) -> None:
    """Warns at the user's line that a function has no effect on how effx's programs run.

    Args:
        function_name: by its name in JAX. instead: what effx does.
    """
    warn_user(f"{function_name} has no effect on effx: {instead}")
