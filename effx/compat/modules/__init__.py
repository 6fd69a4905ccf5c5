"""What effx has under other names than JAX, or in another form: names of `jax` itself here, those of `jax.X` in X."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from effx.compat.config import config
from effx.compat.jaxprs import make_jaxpr
from effx.compat.names import VERSION, VERSION_INFO
from effx.compat.shapes import eval_shape
from effx.transforms.arguments import name_of
from effx.transforms.naming import named_scope

__all__ = ["__version__", "__version_info__", "config", "eval_shape", "make_jaxpr", "named_call"]

__version__ = VERSION
__version_info__ = VERSION_INFO


def named_call(fun: Callable[..., Any] | None = None, *, name: str | None = None) -> Callable[..., Any]:
    """Returns a function whose operations have its name among their scopes.

    It is `effx.named_scope` around a call. `effx.named_call` makes a program of its own of the function, which functions
    that keep values for later, as haiku's do, may not be.

    Args:
        fun: the function; None for a decorator. name: by default the function's.
    """
    if fun is None:
        return partial(named_call, name=name)
    scope = name_of(fun) if name is None else name
    inner = fun

    @wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(scope):
            return inner(*args, **kwargs)

    return named
