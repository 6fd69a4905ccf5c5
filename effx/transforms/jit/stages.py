"""The stages of a jitted function: `Traced`, `Lowered`, `Compiled`; and `ShapeDtypeStruct`, a shape without values."""

from collections.abc import Callable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    NoReturn,
    Self,
    TypedDict,
    Unpack,
    cast,
    final,
    overload,
)

import attrs
import numpy as np

from effx.array import Array, Box
from effx.dtypes import DType, DTypeLike, as_dtype, bool_
from effx.effects import Effect
from effx.errors import BackendError, ShapeError, TransformError, TreeError
from effx.handlers.evaluate.lowering_passes import order_effects
from effx.ir.program import Program
from effx.ir.refs import CellEffect
from effx.ir.sizes.dimensions import as_size
from effx.ir.types import ArrayType, ManualAxisType, Shape, array_type
from effx.lower.compile_options import CompilerOptions
from effx.lower.placement.assignment import Assignment
from effx.lower.placement.backends import default_device, platform_of
from effx.lower.placement.concrete import to_concrete
from effx.lower.placement.layouts import Layout
from effx.lower.placement.meshes import ambient_device
from effx.lower.placement.shardings import (
    Device,
    Format,
    Sharding,
    SingleDeviceSharding,
    format_of,
    layout_of_buffer,
    user_sharding,
)
from effx.lower.runtime.executables import Executable, cost_estimate, cost_estimate_of_text
from effx.lower.text.emit import PLATFORMS
from effx.lower.text.hlo import LoadedExecutable, XlaComputation, hlo_computation, hlo_text, mlir_module
from effx.lower.text.module import module_text
from effx.tracing.arguments import as_arrays, finalize_results, leaf_type
from effx.transforms.jit.donation import check_donated_once
from effx.transforms.jit.options import parse_compiler_options
from effx.transforms.refs.ref_arguments import RefArguments
from effx.tree.registry import PyTree, PyTreeDef, flatten, register_leaf

if TYPE_CHECKING:
    from effx.handlers.refs import DischargedProgram
    from effx.lower.text.hlo import Module


class StructChanges(TypedDict, total=False):
    """The attributes of a `ShapeDtypeStruct` that `update` can replace."""

    shape: Sequence[int]
    dtype: DTypeLike
    sharding: Sharding | Format | None
    weak_type: bool
    manual_axis_type: ManualAxisType | None


def _check_shape(shape: Sequence[int]) -> Shape:
    try:
        sizes = tuple([n if type(n) is int else as_size(n) for n in shape])
    except TypeError:
        raise ShapeError(f"ShapeDtypeStruct: shape must be a sequence of ints, got {shape!r}") from None
    if any([type(n) is int and n < 0 for n in sizes]):
        raise ShapeError(f"ShapeDtypeStruct: sizes must not be negative, got {shape!r}")
    return sizes


def _describe_dtype(dtype: DTypeLike) -> DType:
    """Returns the dtype of a struct, which may describe what is no array of effx's: bytes or objects of NumPy."""
    if isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic)):
        given = np.dtype(dtype)
        if given.kind in "OSUMm":
            return given
    return as_dtype(dtype)


@register_leaf
@final
class ShapeDtypeStruct:
    """A shape and dtype instead of an array, for staging without values.

    Attributes:
        shape: of the array.
        dtype: of the array; one of 64 bits becomes narrower where the struct is used, unless these are enabled.
        sharding: its sharding, which may be given as a Format with a layout; None if unspecified.
        layout: the layout that was asked for; None if unspecified.
        weak_type: whether its type is weak, as that of a Python number.
        manual_axis_type: how it differs along axes of surrounding `shard_map`s; None if unspecified.

    Raises:
        ShapeError: a size is no int, or negative.

    >>> import numpy as np
    >>> x = ShapeDtypeStruct((2, 3), np.float32)
    >>> x, x.update(dtype=np.int8)
    (ShapeDtypeStruct(shape=(2, 3), dtype=float32), ShapeDtypeStruct(shape=(2, 3), dtype=int8))
    """

    # No attrs class: tree libraries that flatten attrs classes (dm-tree) would flatten this one.
    __slots__ = ("dtype", "layout", "manual_axis_type", "shape", "sharding", "weak_type")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: DTypeLike,
        *,
        sharding: Sharding | Format | None = None,
        weak_type: bool = False,
        manual_axis_type: ManualAxisType | None = None,
    ) -> None:
        self.shape: Final[Shape] = _check_shape(shape)
        self.dtype: Final[DType] = _describe_dtype(dtype)
        self.sharding: Final = sharding.sharding if isinstance(sharding, Format) else sharding
        self.layout: Final = sharding.layout if isinstance(sharding, Format) else None
        if isinstance(self.layout, Layout):
            self.layout.check_rank("ShapeDtypeStruct", self.shape)
        self.weak_type: Final = weak_type
        self.manual_axis_type: Final = manual_axis_type

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):
            raise AttributeError(
                f"{name} of a ShapeDtypeStruct is set once; x.update({name}=...) makes another"
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name} of a ShapeDtypeStruct cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShapeDtypeStruct):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Shape, DType, Format, bool, ManualAxisType | None]:
        return self.shape, self.dtype, self.format, self.weak_type, self.manual_axis_type

    @property
    def format(self) -> Format:
        """Its layout and sharding."""
        return Format(self.layout, self.sharding)

    @property
    def _placement(self) -> Sharding | Format | None:
        """What was given as its sharding."""
        return self.sharding if self.layout is None else self.format

    @classmethod
    def like(cls, x: PyTree) -> Self:
        """Returns the description of an array, a number, or anything with `shape` and `dtype`.

        >>> ShapeDtypeStruct.like(1.5)
        ShapeDtypeStruct(shape=(), dtype=float32, weak_type=True)
        """
        t = leaf_type("ShapeDtypeStruct.like", x)
        if type(x) is ArrayType:
            return shape_struct(t)
        return cls(t.shape, t.dtype, sharding=getattr(x, "sharding", None), weak_type=t.weak)

    def update(self, **changes: Unpack[StructChanges]) -> Self:
        """Returns a copy with other values of the named attributes."""
        attributes: StructChanges = {
            "shape": self.shape,
            "dtype": self.dtype,
            "sharding": self._placement,
            "weak_type": self.weak_type,
            "manual_axis_type": self.manual_axis_type,
            **changes,
        }
        return type(self)(**attributes)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return array_type(bool_, self.shape).size

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len(x): a scalar has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        placement = self._placement
        sharding = "" if placement is None else f", sharding={placement!r}"
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{sharding}{weak})"


def shape_struct(t: ArrayType, sharding: Sharding | None = None) -> ShapeDtypeStruct:
    """Returns the public description of a type, with a requested sharding, or that in the type."""
    if sharding is None and t.explicit_sharding is not None:
        sharding = cast("Sharding", t.sharding)
    return ShapeDtypeStruct(
        t.shape,
        t.dtype,
        sharding=sharding,
        weak_type=t.weak,
        manual_axis_type=t.manual_axis_type if t.vma else None,
    )


@final
@register_leaf
@attrs.frozen
class ArgInfo:
    """The shape, dtype and donation of one array among the arguments of a stage.

    Attributes:
        shape, dtype: of the array.
        donated: whether its memory may be reused for results.

    >>> import effx, effx.numpy as enp
    >>> (x,), _ = effx.jit(enp.sum, donate_argnums=0).lower(enp.ones(3)).args_info
    >>> x.shape, x.donated
    ((3,), True)
    """

    shape: Shape
    dtype: DType
    donated: bool


Dialect = Literal["stablehlo", "hlo"]


@final
@attrs.frozen(eq=False)
class Signature:
    """The structures, types and donation of a staged function's arguments and results.

    Attributes:
        name: the function's name.
        in_tree, out_tree: the structures of the arguments `(args, kwargs)` and of the result.
        in_types, out_types: of the arrays in them.
        donated: for each array of the arguments whether its memory may be reused for results.
        out_shardings: the requested shardings of the result's arrays; () where none is requested.
    """

    name: str
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    donated: tuple[bool, ...]
    out_shardings: tuple[Sharding | None, ...] = ()


@attrs.frozen(eq=False)
class CompilationStage:
    """A stage of a function.

    Attributes:
        signature: of its arguments and results.
    """

    signature: Signature

    def __copy__(self) -> Self:
        """Returns the stage itself: stages do not change."""
        return self

    def __deepcopy__(self, copies: dict[int, object]) -> Self:
        """Returns the stage itself: stages do not change."""
        return self

    def __reduce__(self) -> NoReturn:
        raise TransformError(
            f"pickle: {type(self).__name__} of {self.signature.name} belongs to this process; pickle the function, or use "
            f"effx.experimental.serialize_executable for compiled code"
        )

    @property
    def in_tree(self) -> PyTreeDef:
        """The structure of the arguments `(args, kwargs)`."""
        return self.signature.in_tree

    @property
    def out_tree(self) -> PyTreeDef:
        """The structure of the result."""
        return self.signature.out_tree

    @property
    def in_avals(self) -> PyTree:
        """The types of the arrays in the structure of the arguments `(args, kwargs)`."""
        return self.in_tree.unflatten(self.signature.in_types)

    @property
    def out_avals(self) -> PyTree:
        """The types of the arrays in the structure of the result."""
        return self.out_tree.unflatten(self.signature.out_types)

    @property
    def args_info(self) -> PyTree:
        """Shapes, dtypes and donation in the structure of the arguments `(args, kwargs)`."""
        leaves = zip(self.signature.in_types, self.signature.donated, strict=True)
        return self.in_tree.unflatten([ArgInfo(t.shape, t.dtype, donated) for t, donated in leaves])

    @property
    def out_info(self) -> PyTree:
        """Shapes and dtypes in the structure of the result, with the shardings that `out_shardings` requests."""
        out_types = self.signature.out_types
        shardings = self.signature.out_shardings or (None,) * len(out_types)
        return self.out_tree.unflatten(list(map(shape_struct, out_types, shardings)))

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The numbers of the donated arrays among all arrays of the arguments."""
        return tuple([i for i, donated in enumerate(self.signature.donated) if donated])


@final
@attrs.frozen(eq=False)
class Traced(CompilationStage):
    """A function staged for one signature of arguments.

    Attributes:
        program: the staged program; its first inputs are the values that the function closes over.
        captured: these values.
        lent: if arguments are references, the signature of the staged function of their contents, which
            returns the pair (result, contents).

    >>> import effx, effx.numpy as enp
    >>> traced = effx.jit(enp.sum).trace(enp.ones(3))
    >>> traced.fun_name, traced.out_info.shape, [equation.op.name for equation in traced.jaxpr.equations]
    ('sum', (), ['reduce_sum'])
    """

    program: Program
    captured: tuple[Array, ...]
    _assign: Callable[[Program, Sequence[Array], Device], Assignment]
    _compile: Callable[[Program, Sequence[Array], Assignment, CompilerOptions], Executable]
    _device: Device | None
    lent: Signature | None = None

    @property
    def jaxpr(self) -> Program:
        """The program, under the name that JAX users know."""
        return self.program

    @property
    def effects(self) -> frozenset[Effect]:
        """The effects that no handler inside the function handles."""
        return self.program.effects

    @property
    def fun_name(self) -> str:
        """The function's name."""
        return self.signature.name

    @property
    def of_contents(self) -> "DischargedProgram | None":
        """The program as a function of the contents of closed-over references; None if there are none."""
        if not any([isinstance(effect, CellEffect) for effect in self.program.effects]):
            return None
        from effx.handlers.refs import discharge_program  # not loaded before it is needed

        return discharge_program(self.program)

    @property
    def pure(self) -> tuple[Program, tuple[Array, ...]]:
        """The program as it is compiled, and the values of its first inputs."""
        contents = self.of_contents
        if contents is None:
            return self.program, self.captured
        return contents.staged.program, (*contents.staged.captured, *self.captured)

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> "Lowered":
        """Lowers the program to StableHLO.

        Args:
            lowering_platforms: one of "cpu", "cuda", "rocm", "tpu", to read the text for a platform that
                need not be there; None for the one that the function runs on, or that the AbstractMesh in force is of.

        Raises:
            BackendError: an unknown platform, or more than one.
        """
        device = self._device or default_device()
        # Arguments may be placed on a topology of another platform.
        platform = platform_of(device if lowering_platforms else self._assign(*self.pure, device).device)
        described = ambient_device.value
        default = platform if described is None else described.platform
        platforms = (default,) if lowering_platforms is None else tuple(lowering_platforms)
        for p in platforms:
            if p not in PLATFORMS:
                raise BackendError(f"lower: platform must be one of {', '.join(PLATFORMS)}, got {p!r}")
        if len(platforms) != 1:
            raise BackendError(
                f"lower: one module is for one platform, got {platforms}; lower for each in turn"
            )
        return Lowered(self.signature, self, platforms[0], device if platforms[0] == platform else None)


@final
@attrs.frozen(eq=False)
class Lowered(CompilationStage):
    """A function lowered to StableHLO.

    Attributes:
        traced: the staged function.
        platform: the platform it is lowered for.

    >>> import effx
    >>> lowered = effx.jit(lambda x: x * 2.0).lower(1.0)
    >>> "stablehlo.multiply" in lowered.as_text()
    True
    >>> print(lowered.compile()(3.0))
    6.0
    """

    traced: Traced
    platform: str
    _device: Device | None

    def as_text(self, dialect: Dialect | None = None, *, debug_info: bool = False) -> str:
        """Returns the program's text.

        Args:
            dialect: "stablehlo", by default, or "hlo" for XLA's HLO before optimisation.
            debug_info: True for a source location on each line.

        Raises:
            BackendError: another dialect.
        """
        if dialect == "hlo":
            return hlo_text(self._text(debug_info, parts_in_place=debug_info), debug_info)
        if dialect in (None, "stablehlo"):
            return self._text(debug_info)
        raise BackendError(f"as_text: dialect must be 'stablehlo' or 'hlo', got {dialect!r}")

    @overload
    def compiler_ir(self, dialect: Literal["hlo"]) -> XlaComputation: ...
    @overload
    def compiler_ir(self, dialect: Literal["stablehlo"] | None = None) -> "Module": ...
    def compiler_ir(self, dialect: Dialect | None = None) -> "Module | XlaComputation":
        """Returns the program as a jaxlib object: an MLIR module, or an `XlaComputation` for the dialect "hlo".

        Raises:
            BackendError: another dialect.
        """
        if dialect == "hlo":
            return hlo_computation(self._text(True))
        if dialect in (None, "stablehlo"):
            return mlir_module(self._text(True))
        raise BackendError(f"compiler_ir: dialect must be 'stablehlo' or 'hlo', got {dialect!r}")

    def _text(self, debug_info: bool, parts_in_place: bool = False) -> str:
        program, captured = self.traced.pure
        flags = [False] * len(captured) + list(self.signature.donated)
        assignment = self.traced._assign(program, captured, self._device or default_device())
        return module_text(
            order_effects(program),
            self.platform,
            flags,
            debug_info=debug_info,
            partitioning=assignment.partitioning(program),
            memories=assignment.memories(program),
            layouts=assignment.nondefault_layouts(program),
            parts_in_place=parts_in_place,
        )

    def compile(self, compiler_options: "Mapping[str, str | bool | int | float] | None" = None) -> "Compiled":
        """Compiles with XLA.

        Args:
            compiler_options: XLA compiler options by name, beside those of `jit`.

        Raises:
            BackendError: the module is for another platform than the one that runs here, or XLA knows no such option.
        """
        if self._device is None:
            raise BackendError(
                f"compile: the module is for {self.platform}, which is not the platform that runs here"
            )
        chosen = parse_compiler_options("compile", compiler_options)
        traced = self.traced
        assignment = traced._assign(*traced.pure, self._device)
        executable = traced._compile(*traced.pure, assignment, chosen)
        return Compiled(self.signature, executable, traced.lent, traced.of_contents)

    def cost_analysis(self) -> dict[str, float]:
        """Returns XLA's estimate of costs, "flops", "bytes accessed" and more, of the program before XLA optimises it.

        Nothing is compiled. What `compile().cost_analysis()` estimates is what XLA made of the program.

        Raises:
            BackendError: XLA refuses the program.

        >>> import effx, effx.numpy as enp
        >>> effx.jit(lambda x: x @ x).lower(enp.ones((8, 8))).cost_analysis()["flops"]
        1024.0
        """
        return cost_estimate_of_text(self._text(False))


@final
@attrs.frozen(eq=False)
class Compiled(CompilationStage):
    """A compiled function, callable with arguments of exactly the types it was compiled for.

    Attributes:
        executable: the compiled program.
        lent: as in `Traced`.
        contents: the program as a function of the contents of closed-over references; None if there are none.

    >>> import effx
    >>> compiled = effx.jit(lambda x: x * 2.0).lower(1.0).compile()
    >>> print(compiled(3.0))
    6.0
    """

    executable: Executable
    lent: Signature | None = None
    contents: "DischargedProgram | None" = None

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> Any:
        """Runs the program on the dynamic arguments. References are read and written as in a call of the function.

        Raises:
            TreeError, ShapeError: the arguments are not of the types it was compiled for.
            TransformError: an argument is a value of a transformation.
            DonatedArrayError: an array is deleted, or is donated and passed as another argument too.
        """
        if self.lent is None:
            return self._run(self.signature, args, kwargs)
        from effx.transforms.refs.ref_arguments import (
            call_compiled_with_refs,  # not loaded before it is needed
        )

        run, lent = self._run, self.lent
        trees = self.in_tree, lent.in_tree
        return call_compiled_with_refs(
            self.signature.name, trees, lambda *a, **named: run(lent, a, named), args, kwargs
        )

    def _run(self, signature: Signature, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> Any:
        leaves, tree = flatten((args, kwargs))
        if tree != signature.in_tree:
            raise TreeError(
                f"{self.signature.name}: compiled for arguments of structure {self.in_tree}, got {tree}"
            )
        operands = as_arrays("jit", leaves, (args, kwargs))
        for x in operands:
            if isinstance(x, Box):
                raise TransformError(
                    f"{self.signature.name}: compiled code cannot be transformed, but an argument is a value of "
                    f"{x.frame.handler.describe()}; transform the function, and compile the result"
                )
        if self.contents is not None:
            operands += self.contents.read()
        arrays = [to_concrete(x) for x in operands]
        expected = self.executable.in_types
        for i, (x, t) in enumerate(zip(arrays, expected, strict=True)):
            if not x.type.matches(t):
                raise ShapeError(f"{self.signature.name}: compiled for {t!r} as argument {i}, got {x.type!r}")
        for x in arrays:
            x._check_alive(self.signature.name)
        try:
            results = self.executable.run(arrays)
        except BackendError as error:
            if "INVALID_ARGUMENT" in str(error):  # XLA does not say which array it is
                donated = [*signature.donated, *[False] * (len(arrays) - len(signature.donated))]
                check_donated_once(("jit", signature.name), self.executable.kept_mask, donated, arrays)
            raise
        if self.contents is not None:
            count = len(signature.out_types)
            self.contents.write(results[count:])
            results = results[:count]
        return signature.out_tree.unflatten(finalize_results(results))

    @property
    def input_shardings(self) -> PyTree:
        """The required shardings of the arguments, in their structure `(args, kwargs)`."""
        formats = self._argument_formats()
        return self.in_tree.unflatten([f.sharding for f in formats])

    @property
    def output_shardings(self) -> PyTree:
        """The shardings of the result's arrays, in its structure."""
        shardings = list(map(user_sharding, self.executable.out_shardings))
        return self.out_tree.unflatten(shardings[: len(self.signature.out_types)])

    @property
    def input_formats(self) -> PyTree:
        """The required shardings of the arguments and their layouts, in their structure `(args, kwargs)`."""
        return self.in_tree.unflatten(self._argument_formats())

    @property
    def output_formats(self) -> PyTree:
        """The shardings and layouts of the result's arrays, in its structure."""
        pairs = zip(self.executable.out_shardings, self.signature.out_types, strict=False)
        formats = [format_of(user_sharding(s), layout_of_buffer(s), t) for s, t in pairs]
        return self.out_tree.unflatten(formats)

    def _argument_formats(self) -> list[Format]:
        formats: list[Format] = []
        for place, t in zip(self.executable.locations, self.signature.in_types, strict=False):
            sharding = SingleDeviceSharding(place) if isinstance(place, Device) else place
            formats.append(sharding if isinstance(sharding, Format) else format_of(sharding, None, t))
        return formats

    def as_text(self) -> str:
        """Returns the optimised HLO text."""
        return "\n\n".join([m.to_string() for m in self.executable.loaded.hlo_modules()])

    def cost_analysis(self) -> dict[str, Any]:
        """Returns XLA's estimate of costs: "flops", "bytes accessed" and more.

        Raises:
            BackendError: XLA has none, as for CPUs that are not present; `effx.library.scaling.plan` counts by itself.
        """
        return dict(cost_estimate(self.executable))

    def memory_analysis(self) -> Any:
        """Returns the sizes in bytes of arguments, outputs, temporaries and code."""
        return self.executable.loaded.get_compiled_memory_stats()

    def runtime_executable(self) -> LoadedExecutable:
        """Returns jaxlib's loaded executable.

        Raises:
            BackendError: it was compiled for devices that are not present.
        """
        return self.executable.runnable()


def trace_with_refs(lending: RefArguments, trace: Callable[..., Traced], tree: PyTreeDef) -> Traced:
    """Stages a function for arguments with references.

    Args:
        lending: the references in the arguments.
        trace: stages the function of contents, as `functionalize_refs` returns it.
        tree: the structure of the dynamic arguments `(args, kwargs)`, in which references are leaves.

    Raises:
        RefError: the function uses one of the references in an unsupported way.
    """

    def trace_contents(*args: PyTree, **kwargs: PyTree) -> tuple[Traced, list[None]]:
        return trace(*args, **kwargs), [None] * len(lending.refs)

    inner: Traced = lending.call_with_contents(trace_contents, writes_back=False)
    contents_signature = inner.signature
    out_tree = contents_signature.out_tree.children()[0]  # the result's, of the pair (result, contents)
    signature = attrs.evolve(
        contents_signature,
        in_tree=tree,
        out_tree=out_tree,
        out_types=contents_signature.out_types[: out_tree.num_leaves],
    )
    return attrs.evolve(inner, signature=signature, lent=contents_signature)
