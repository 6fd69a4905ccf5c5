"""What `jit` shows of its stages: `Traced`, `Lowered`, `Compiled`, and shapes without values."""

from collections.abc import Callable, Sequence
from typing import Any, final

import attrs

from effx.array import Array
from effx.dtypes import DType, canonicalize
from effx.errors import BackendError, ShapeError, TreeError
from effx.ir.program import Program
from effx.ir.types import ArrayType, Shape, array_type
from effx.lower.backends import default_device, platform_of
from effx.lower.concrete import as_concrete
from effx.lower.emit import PLATFORMS
from effx.lower.module import module_text
from effx.lower.sharding import Device
from effx.lower.xla import Executable
from effx.transforms.arguments import as_arrays
from effx.tree.registry import PyTree, PyTreeDef, flatten, register_leaf


def _as_shape(shape: Sequence[int]) -> Shape:
    return tuple(shape)


@register_leaf
@final
@attrs.frozen
class ShapeDtypeStruct:
    """A shape and dtype instead of an array, for staging without values.

    >>> import numpy as np
    >>> ShapeDtypeStruct((2, 3), np.float32)
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    shape: Shape = attrs.field(converter=_as_shape)
    dtype: DType = attrs.field(converter=canonicalize)
    weak_type: bool = attrs.field(default=False, kw_only=True)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return array_type(self.dtype, self.shape).size

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len(x): a scalar has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{', weak_type=True' if self.weak_type else ''})"


def shape_of(t: ArrayType) -> ShapeDtypeStruct:
    """Returns the public description of a type."""
    return ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak)


@final
@attrs.frozen(eq=False)
class Traced:
    """A function staged for one kind of arguments.

    Attributes:
        program: its first inputs are for the values that the function closed over.
        captured: these values.
        in_tree, out_tree: the structures of the arguments `(args, kwargs)` and of the result.
        name: the function's name.
    """

    program: Program
    captured: tuple[Array, ...]
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    name: str
    _compile: Callable[[Device], Executable]
    _donated: tuple[bool, ...]
    _keep_unused: bool
    _device: Device | None

    @property
    def jaxpr(self) -> Program:
        """The program, under the name that JAX users know."""
        return self.program

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes in the structure of the result."""
        return self.out_tree.unflatten([shape_of(t) for t in self.program.out_types])

    def lower(self, platforms: Sequence[str] | None = None) -> "Lowered":
        """Lowers to StableHLO.

        Args:
            platforms: one of "cpu", "cuda", "rocm", "tpu", to read the text for a platform that
                need not be there; None for the one that the function runs on.

        Raises:
            BackendError: an unknown platform, or more than one.
        """
        device = self._device or default_device()
        here = platform_of(device)
        wanted = (here,) if platforms is None else tuple(platforms)
        for p in wanted:
            if p not in PLATFORMS:
                raise BackendError(f"lower: platform must be one of {', '.join(PLATFORMS)}, got {p!r}")
        if len(wanted) != 1:
            raise BackendError(f"lower: one module is for one platform, got {wanted}; lower for each in turn")
        return Lowered(self, wanted[0], device if wanted[0] == here else None)


@attrs.frozen(eq=False)
class OfTraced:
    """A later stage of a traced function.

    Attributes:
        traced: the function.
    """

    traced: Traced

    @property
    def in_tree(self) -> PyTreeDef:
        """The structure of the arguments `(args, kwargs)`."""
        return self.traced.in_tree

    @property
    def out_tree(self) -> PyTreeDef:
        """The structure of the result."""
        return self.traced.out_tree


@final
@attrs.frozen(eq=False)
class Lowered(OfTraced):
    """A function lowered to StableHLO.

    Attributes:
        platform: for which platform.
    """

    platform: str
    _device: Device | None

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes in the structure of the result."""
        return self.traced.out_info

    def as_text(self, debug_info: bool = False) -> str:
        """Returns the StableHLO text; with `debug_info` each line says where it came from."""
        t = self.traced
        flags = [False] * len(t.captured) + list(t._donated)
        return module_text(t.program, self.platform, flags, debug_info)

    def compile(self) -> "Compiled":
        """Compiles with XLA.

        Raises:
            BackendError: the text is for a platform that is not the one here.
        """
        if self._device is None:
            raise BackendError(
                f"compile: the module is for {self.platform}, which is not the platform that runs here"
            )
        return Compiled(self.traced, self.traced._compile(self._device))

    def cost_analysis(self) -> dict[str, float]:
        """Returns XLA's estimate of the compiled program's costs."""
        return self.compile().cost_analysis()


@final
@attrs.frozen(eq=False)
class Compiled(OfTraced):
    """A compiled function, callable with arguments of exactly the types it was compiled for."""

    executable: Executable

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> Any:
        """Runs the program on the dynamic arguments.

        Raises:
            TreeError, ShapeError: the arguments are not of the types it was compiled for.
        """
        leaves, tree = flatten((args, kwargs))
        if tree != self.traced.in_tree:
            raise TreeError(
                f"{self.traced.name}: compiled for arguments of structure {self.traced.in_tree}, got {tree}"
            )
        arrays = [as_concrete(x) for x in as_arrays("jit", leaves, (args, kwargs))]
        expected = self.executable.in_types
        for i, (x, t) in enumerate(zip(arrays, expected, strict=True)):
            if not x.type.matches(t):
                raise ShapeError(f"{self.traced.name}: compiled for {t!r} as argument {i}, got {x.type!r}")
        for x in arrays:
            x._check_alive(self.traced.name)
        return self.traced.out_tree.unflatten(self.executable.run(arrays))

    def as_text(self) -> str:
        """Returns the optimised HLO text."""
        return "\n\n".join([m.to_string() for m in self.executable.loaded.hlo_modules()])

    def cost_analysis(self) -> dict[str, Any]:
        """Returns XLA's estimate of costs: "flops", "bytes accessed" and more."""
        return dict(self.executable.loaded.cost_analysis())

    def memory_analysis(self) -> Any:
        """Returns the sizes in bytes of arguments, outputs, temporaries and code."""
        return self.executable.loaded.get_compiled_memory_stats()
