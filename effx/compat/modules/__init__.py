"""Names of JAX that effx has under other names or in another form: of `jax` itself here, those of `jax.X` in X."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from effx.compat.config import config
from effx.compat.hijax import typeof
from effx.compat.jaxprs import make_jaxpr
from effx.compat.names import VERSION, VERSION_INFO
from effx.compat.shapes import eval_shape
from effx.compat.vmappable import vmap
from effx.ir.meshes import AxisType, MeshAxisName
from effx.lower.placement.meshes import Mesh
from effx.lower.placement.shardings import Device
from effx.tracing.arguments import callable_name
from effx.tracing.name_scopes import named_scope
from effx.tracing.wrapping import wraps
from effx.transforms.placement.meshes import make_mesh as mesh_of
from effx.transforms.placement.processes import print_environment_info as describe_environment
from effx.tree.registry import PyTree

__all__ = [
    "__version__",
    "__version_info__",
    "config",
    "eval_shape",
    "make_jaxpr",
    "make_mesh",
    "named_call",
    "print_environment_info",
    "typeof",
    "vmap",
]

__version__ = VERSION
__version_info__ = VERSION_INFO


def named_call(fun: Callable[..., Any] | None = None, *, name: str | None = None) -> Callable[..., Any]:
    """Returns a function whose operations have its name among their scopes.

    It is `effx.named_scope` around a call. `effx.named_call` makes a program of its own of the function, which
    functions that keep values for later, as haiku's do, may not be.

    Args:
        fun: the function; None for a decorator. name: by default the function's.
    """
    if fun is None:
        return partial(named_call, name=name)
    scope = callable_name(fun) if name is None else name
    inner = fun

    @wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(scope):
            return inner(*args, **kwargs)

    return named


def print_environment_info(return_string: bool = False) -> str | None:
    """Prints the information a bug report needs: JAX's names and versions first, as JAX has them, then effx's lines.

    Args:
        return_string: True to return the text and print nothing.

    >>> print(print_environment_info(return_string=True).splitlines()[0])
    jax:    0.12.0
    """
    lines = str(describe_environment(return_string=True)).splitlines()
    versions = [f"{name + ':':7} {text}" for name, _, text in [line.partition(": ") for line in lines[1:3]]]
    text = "\n".join([f"jax:    {VERSION}", *versions, *lines])
    if return_string:
        return text
    print(text)  # noqa: T201  # the point
    return None


def make_mesh(
    axis_sizes: Sequence[int],
    axis_names: "str | Sequence[MeshAxisName]",
    axis_types: "AxisType | Sequence[AxisType] | None" = None,
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """`effx.make_mesh`, whose axes are Explicit by default.

    Args:
        axis_sizes, axis_names, axis_types, devices: as for `effx.make_mesh`.

    >>> make_mesh((1,), ("data",)).axis_types
    (Explicit,)
    """
    return mesh_of(
        axis_sizes, axis_names, AxisType.Explicit if axis_types is None else axis_types, devices=devices
    )
