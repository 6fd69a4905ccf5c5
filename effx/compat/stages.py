"""Attributes of JAX's stages and derivatives in JAX's form: views of programs, and private ones that programs read."""

from typing import final

import attrs

from effx.array import Array, Box
from effx.compat.jaxprs import close_program
from effx.compat.modules.extend.random import implementation_of
from effx.dtypes import is_key
from effx.ir.types import ArrayType, array_type
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.text.hlo import LoadedExecutable, print_as_mlir
from effx.random.keys import key_data
from effx.transforms.autodiff.core import RecordedPushforward
from effx.transforms.jit.stages import ArgInfo, Compiled, Dialect, Lowered, Traced

__all__ = ["add_attributes"]


@final
@attrs.frozen
class MeshExecutable:
    """What `compiled._executable` is in JAX.

    Attributes:
        in_avals: the types of the arguments' arrays that it takes. out_avals: those of the results'.
        xla_executable: jaxlib's.
        _kept_var_idx: which of the arguments' arrays it takes.
    """

    in_avals: tuple[ArrayType, ...]
    out_avals: tuple[ArrayType, ...]
    xla_executable: LoadedExecutable
    _kept_var_idx: frozenset[int]


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
    indices = [i for i, is_kept in enumerate(compiled.executable.kept_mask) if is_kept]
    types = tuple([signature.in_types[i] for i in indices if i < len(signature.in_types)])
    executable = compiled.runtime_executable()
    return MeshExecutable(types, signature.out_types, executable, frozenset(indices))


def _words_of_keys(keys: ConcreteArray) -> Array:
    if not is_key(keys.type.dtype):
        raise AttributeError(f"{type(keys).__name__!r} object has no attribute '_base_array'")
    return key_data(keys)


_text_of_effx = Lowered.as_text


def _print_as_mlir(lowered: Lowered, dialect: Dialect | None = None, *, debug_info: bool = False) -> str:
    """Returns the program's text in the form in which MLIR prints it, which readers of JAX's match."""
    text = _text_of_effx(lowered, dialect, debug_info=debug_info)
    return print_as_mlir(text, debug_info) if dialect in (None, "stablehlo") else text


def add_attributes() -> None:
    """Gives stages, recorded derivatives and arrays of keys the attributes that they have in JAX."""
    ConcreteArray._impl = property(implementation_of)  # type: ignore[attr-defined]  # new
    ConcreteArray._base_array = property(_words_of_keys)  # type: ignore[attr-defined]  # new
    Lowered.as_text = _print_as_mlir  # type: ignore[method-assign,assignment]  # the same program
    Traced.jaxpr = property(lambda traced: close_program(traced.program))  # type: ignore[method-assign,assignment]  # a view
    # A hijax primitive of arrays is an operation of its own here, so that there is nothing to lower.
    Traced.lojax = property(lambda traced: traced)  # type: ignore[attr-defined]  # new
    RecordedPushforward.args = property(lambda push: (close_program(push.derivative.program),))  # type: ignore[attr-defined]  # new
    ArgInfo._aval = property(lambda info: array_type(info.dtype, info.shape))  # type: ignore[attr-defined]  # new
    Box.mat = property(lambda box: box.type.mat)  # type: ignore[attr-defined]  # new
    Compiled._executable = property(_describe_executable)  # type: ignore[attr-defined]  # new
    Compiled._params = property(lambda compiled: CompiledCallParams())  # type: ignore[attr-defined]  # new
