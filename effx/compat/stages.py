"""Private attributes of JAX's stages that programs read: of `ArgInfo` and `Compiled`."""

from typing import final

import attrs

from effx.ir.types import ArrayType, array_type
from effx.lower.text.hlo import LoadedExecutable
from effx.transforms.jit.stages import ArgInfo, Compiled

__all__ = ["add_private_attributes"]


@final
@attrs.frozen
class MeshExecutable:
    """What `compiled._executable` is in JAX.

    Attributes:
        in_avals, out_avals: the types of the arguments' and results' arrays. xla_executable: jaxlib's.
    """

    in_avals: tuple[ArrayType, ...]
    out_avals: tuple[ArrayType, ...]
    xla_executable: LoadedExecutable


@final
@attrs.frozen
class CompiledCallParams:
    """What `compiled._params` is in JAX.

    Attributes:
        const_args: arguments that hold closed-over arrays: none, a compiled function has them itself.
    """

    const_args: tuple[()] = ()


def _describe_executable(compiled: Compiled) -> MeshExecutable:
    signature = compiled.signature
    return MeshExecutable(signature.in_types, signature.out_types, compiled.runtime_executable())


def add_private_attributes() -> None:
    """Gives stages the private attributes that they have in JAX."""
    ArgInfo._aval = property(lambda info: array_type(info.dtype, info.shape))  # type: ignore[attr-defined]  # new
    Compiled._executable = property(_describe_executable)  # type: ignore[attr-defined]  # new
    Compiled._params = property(lambda compiled: CompiledCallParams())  # type: ignore[attr-defined]  # new
