"""The interface that portable laws are stated against: transformations and a namespace of functions."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias, final

import attrs

from effx.laws.comparing import Data
from effx.tree.registry import PyTree

Leaf: TypeAlias = PyTree  # an array of the implementation; those of different ones have no type in common
Function = Callable[..., PyTree]
Axes = Sequence[int | None]


class Differentiate(Protocol):
    """Makes a function of one result into its gradient by some arguments."""

    def __call__(self, f: Function, argnums: tuple[int, ...]) -> Function: ...


class Batch(Protocol):
    """Makes a function into one of a batch."""

    def __call__(self, f: Function, in_axes: Axes, out_axes: int) -> Function: ...


class AttachJvp(Protocol):
    """Makes a function with `rule(primals, tangents) -> (y, dy)`."""

    def __call__(self, f: Function, rule: Function) -> Function: ...


class AttachVjp(Protocol):
    """Makes a function with `forward(*xs) -> (y, residuals)` and `backward(residuals, ct) -> cts`."""

    def __call__(self, f: Function, forward: Function, backward: Function) -> Function: ...


@final
@attrs.frozen(eq=False)
class Implementation:
    """What an implementation of functional transformations offers. None stands for what it has not.

    Attributes:
        name: as in `--against`.
        version: of the package.
        namespace: what `np`, `effx`, `enp`, `lax`, `nn`, `special`, `sl`, `signal`, `stats` and `image` are in the
            source of a program: control flow (`lax.scan`, `lax.cond`, `lax.switch`, `lax.while_loop`,
            `lax.fori_loop`, `lax.map`) and functions of arrays, with JAX's names.
        preamble: the first lines of a printed program.
        spell: from a program's source to the same with the implementation's own names.
        array_source: an array as source: `{data}` stands for nested lists, `{dtype}` for the dtype's name.
        asarray: from data of NumPy to an array.
        precision: a context in which 64-bit numbers are as they are, or become 32-bit ones.
        constructs: those of `effx.laws.CONSTRUCTS` that programs may use.
        one_way: those of them that have derivatives in forward mode only.
        partial: True if only part of the namespace is there: a program that does not run is no failure.
        refuses: says whether an error means that something is not offered, besides NotImplementedError.
        grad: `grad(f, argnums)`.
        value_and_grad: `value_and_grad(f, argnums)`.
        jvp: `jvp(f, primals, tangents) -> (y, dy)`.
        vjp: `vjp(f, *primals) -> (y, pullback)`; the pullback returns a tuple.
        vmap: `vmap(f, in_axes, out_axes)`.
        linearize: `linearize(f, *primals) -> (y, pushforward)`.
        jit: `jit(f)`.
        checkpoint: `checkpoint(f)`.
        custom_jvp: `custom_jvp(f, rule)`.
        custom_vjp: `custom_vjp(f, forward, backward)`.
        stop_gradient: `stop_gradient(x)`.
    """

    name: str
    version: str
    namespace: Mapping[str, PyTree] = attrs.field(repr=False)
    preamble: tuple[str, ...] = attrs.field(repr=False)
    spell: Callable[[str], str] = attrs.field(repr=False)
    array_source: str = attrs.field(repr=False)
    asarray: Callable[[Data], Leaf] = attrs.field(repr=False)
    precision: Callable[[bool], AbstractContextManager[object]] = attrs.field(repr=False)
    constructs: tuple[str, ...]
    one_way: tuple[str, ...]
    partial: bool
    refuses: Callable[[Exception], bool] = attrs.field(repr=False)
    grad: Differentiate = attrs.field(repr=False)
    value_and_grad: Differentiate = attrs.field(repr=False)
    jvp: Function = attrs.field(repr=False)
    vjp: Function = attrs.field(repr=False)
    vmap: Batch = attrs.field(repr=False)
    stop_gradient: Function = attrs.field(repr=False)
    linearize: Function | None = attrs.field(default=None, repr=False)
    jit: Callable[[Function], Function] | None = attrs.field(default=None, repr=False)
    checkpoint: Callable[[Function], Function] | None = attrs.field(default=None, repr=False)
    custom_jvp: AttachJvp | None = attrs.field(default=None, repr=False)
    custom_vjp: AttachVjp | None = attrs.field(default=None, repr=False)

    def print_array(self, x: Data) -> str:
        """Returns an array as source.

        >>> from effx.laws.portable.peers import of_effx
        >>> import numpy as np
        >>> of_effx().print_array(np.array([0.5, np.inf]))
        'np.array([0.5, np.inf], np.float64)'
        """
        data = repr(x.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
        text = self.array_source.format(data=data, dtype=x.dtype.name)
        return f"{text}.reshape({x.shape})" if x.ndim > 1 and not x.size else text

    def function(self, text: str) -> Function | None:
        """Returns the function that an expression over the namespace names; None where there is none.

        Args:
            text: the name, `enp.sin`, or an expression, `lambda x: enp.sinc(x)`.
        """
        try:
            found: PyTree = eval(text, dict(self.namespace))
        except (AttributeError, NameError):
            return None
        return found if callable(found) else None
