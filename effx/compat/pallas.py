"""Pallas kernels, interpreted: a loop over the grid that cuts blocks out of arrays and calls the kernel on references.

No kernel is compiled as one: `interpret=True` computes with XLA's operations, which is for tests and for CPUs.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from enum import Enum
from math import prod
from typing import final

import attrs

from effx import debug, lax
from effx import numpy as enp
from effx.array import Array
from effx.errors import CompatError
from effx.transforms.refs.ref import new_ref
from effx.tree.prefixes import broadcast_prefix
from effx.tree.registry import PyTree, flatten

__all__ = [
    "ANY", "HOST", "BlockSpec", "CompilerParams", "GridSpec", "MemoryRef", "MemorySpace", "cdiv", "debug_print", "loop",
    "multiple_of", "next_power_of_2", "no_block_spec", "num_programs", "pallas_call", "program_id", "when",
]  # fmt: skip


@final
@attrs.frozen
class MemoryRef:
    """The type of a kernel's scratch memory.

    Attributes:
        shape, dtype: of its elements.
    """

    shape: tuple[int, ...]
    dtype: PyTree


@final
class MemorySpace(Enum):
    """Where a kernel's memory is: all in one, where kernels are interpreted."""

    ANY = "any"
    HOST = "host"
    VMEM = "vmem"
    SMEM = "smem"

    def __call__(self, shape: Sequence[int], dtype: object) -> MemoryRef:
        """Returns the type of scratch memory."""
        return MemoryRef(tuple(shape), dtype)


ANY, HOST = MemorySpace.ANY, MemorySpace.HOST
no_block_spec = None


@final
@attrs.frozen
class BlockSpec:
    """How an array is cut into the blocks that a kernel sees.

    Attributes:
        block_shape: sizes of a block; None for the whole array. An axis of size None has one element and is not there for
            the kernel.
        index_map: gives the position of a block, counted in blocks, from the position in the grid; None for the first.
        pipeline_mode, memory_space: for compiled kernels.
    """

    block_shape: Sequence[int | None] | None = None
    index_map: Callable[..., PyTree] | None = None
    pipeline_mode: object = None
    memory_space: object = attrs.field(default=None, kw_only=True)


@final
@attrs.frozen
class GridSpec:
    """A grid, with the blocks of its operands and results, and the scratch memory of its kernel."""

    grid: int | Sequence[int] = ()
    in_specs: PyTree = None
    out_specs: PyTree = None
    scratch_shapes: Sequence[MemoryRef] = ()


@final
class CompilerParams:
    """Parameters for the compiler of kernels, which interpreted ones do not have."""

    def __init__(self, **params: object) -> None:
        self.params = params


_places: ContextVar[tuple[Sequence[PyTree], Sequence[int]]] = ContextVar("effx_pallas_places")


def _place_in_grid(function_name: str) -> tuple[Sequence[PyTree], Sequence[int]]:
    try:
        return _places.get()
    except LookupError:
        raise CompatError(f"{function_name}: there is a grid only inside a kernel of pallas_call") from None


def program_id(axis: int) -> PyTree:
    """Returns the kernel's position along an axis of the grid: i32[].

    Raises:
        CompatError: outside of a kernel.
    """
    return _place_in_grid("program_id")[0][axis]


def num_programs(axis: int) -> int:
    """Returns the size of an axis of the grid.

    Raises:
        CompatError: outside of a kernel.
    """
    return _place_in_grid("num_programs")[1][axis]


def when(condition: PyTree) -> Callable[[Callable[[], None]], None]:
    """Returns a decorator that runs a function without arguments, which writes references, where the condition holds."""

    def run(function: Callable[[], None]) -> None:
        if not isinstance(condition, bool):
            lax.cond(condition, function, lambda: None)
        elif condition:
            function()

    return run


def loop(
    lower: PyTree, upper: PyTree, *, step: int = 1, unroll: int | bool | None = None
) -> Callable[..., None]:
    """Returns a decorator that runs a function of the counter for each step.

    Args:
        lower, upper, step: the first counter, the end, and by how much it grows. unroll: as in `fori_loop`.
    """

    def run(body: Callable[[PyTree], None]) -> None:
        count = cdiv(upper - lower, step)
        lax.fori_loop(0, count, lambda i, _: body(lower + i * step), None, unroll=unroll)

    return run


def cdiv(a: PyTree, b: PyTree) -> PyTree:
    """Returns the quotient, rounded up.

    >>> cdiv(7, 2)
    4
    """
    return (a + (b - 1)) // b


def next_power_of_2(x: int) -> int:
    """Returns the least power of two that is not less.

    Raises:
        CompatError: the number is negative.

    >>> next_power_of_2(5)
    8
    """
    if x < 0:
        raise CompatError(f"next_power_of_2: the number must not be negative, got {x}")
    return 1 << max(x - 1, 0).bit_length()


def multiple_of(x: PyTree, values: Sequence[int] | int) -> PyTree:
    """Returns the value.

    Args:
        x: the value. values: what it is a multiple of, for compiled kernels.
    """
    return x


debug_print = debug.print


@final
@attrs.frozen
class _Blocks:
    """How one array is cut.

    Attributes:
        shape: of the array. sizes: of a block. dropped: for each axis whether the kernel does not see it.
        index_map: gives a block's position.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    dropped: tuple[bool, ...]
    index_map: Callable[..., PyTree] | None

    @staticmethod
    def of(spec: BlockSpec | None, shape: tuple[int, ...]) -> "_Blocks":
        """Returns the blocks of an array.

        Raises:
            CompatError: the spec has not an integer or None for each axis.
        """
        sizes = shape if spec is None or spec.block_shape is None else tuple(spec.block_shape)
        if len(sizes) != len(shape) or not all([n is None or isinstance(n, int) for n in sizes]):
            raise CompatError(
                f"pallas_call: block_shape must have an int or None for each axis of {shape}, got {sizes}"
            )
        return _Blocks(
            shape,
            tuple([1 if n is None else n for n in sizes]),
            tuple([n is None for n in sizes]),
            None if spec is None else spec.index_map,
        )

    def pad(self, x: Array) -> Array:
        """Returns the array with zeros behind, so that the blocks at its end are whole."""
        return enp.pad(x, [(0, -n % max(k, 1)) for n, k in zip(self.shape, self.sizes, strict=True)])

    def crop(self, x: Array) -> Array:
        """Returns the array without the zeros behind."""
        return x[tuple([slice(n) for n in self.shape])]

    def start(self, position: Sequence[PyTree]) -> list[PyTree]:
        """Returns where the block for a position in the grid starts."""
        if self.index_map is None:
            return [0] * len(self.shape)
        indices = self.index_map(*position)
        indices = indices if isinstance(indices, tuple | list) else (indices,)
        return [i * n for i, n in zip(indices, self.sizes, strict=True)]

    def cut(self, x: Array, position: Sequence[PyTree]) -> Array:
        """Returns a block, without the axes that the kernel does not see."""
        block = lax.dynamic_slice(x, self.start(position), self.sizes)
        return lax.squeeze(block, [i for i, is_dropped in enumerate(self.dropped) if is_dropped])

    def put(self, x: Array, block: Array, position: Sequence[PyTree]) -> Array:
        """Returns the array with a block written."""
        return lax.dynamic_update_slice(x, enp.reshape(block, self.sizes), self.start(position))


def pallas_call(
    kernel: Callable[..., None],
    out_shape: PyTree,
    *,
    grid_spec: GridSpec | None = None,
    grid: int | Sequence[int] = (),
    in_specs: PyTree = None,
    out_specs: PyTree = None,
    scratch_shapes: Sequence[MemoryRef] = (),
    input_output_aliases: Mapping[int, int] | None = None,
    debug: bool = False,
    interpret: object = False,
    name: str | None = None,
    compiler_params: object = None,
    cost_estimate: object = None,
    metadata: Mapping[str, str] | None = None,
) -> Callable[..., PyTree]:
    """Returns a function of arrays that runs a kernel at each position of a grid, one after the other.

    Args:
        kernel: takes references to blocks of operands, to blocks of results and to scratch memory: the trees of operands
            with references as leaves, each entry of a tuple or list of results, and each of the scratch memory.
        out_shape: shapes and dtypes of the results.
        grid_spec: instead of the four that follow.
        grid, in_specs, out_specs, scratch_shapes: the sizes of the grid, how operands and results are cut (None for
            whole arrays), and the types of scratch memory, which starts as zeros.
        input_output_aliases: operands whose elements results have at first, by position: `{operand: result}`. Others
            start as zeros.
        interpret: True to compute with XLA's operations; what it says else is for JAX's interpreters.
        debug, name, compiler_params, cost_estimate, metadata: for compiled kernels.

    Raises:
        CompatError: `grid_spec` and parts of it are given; at the call, the kernel is to be compiled, or an operand and the
            result that it is to share memory with are of different types.

    >>> import numpy as np
    >>> def add_one(x_ref, y_ref):
    ...     y_ref[...] = x_ref[...] + 1
    >>> spec = BlockSpec((2,), lambda i: (i,))
    >>> shape = np.zeros(6, np.float32)
    >>> print(pallas_call(add_one, shape, grid=3, in_specs=[spec], out_specs=spec, interpret=True)(enp.arange(6.0)))
    [1. 2. 3. 4. 5. 6.]
    """
    if grid_spec is not None and (
        grid != () or in_specs is not None or out_specs is not None or scratch_shapes
    ):
        raise CompatError(
            "pallas_call: give grid_spec, or grid, in_specs, out_specs and scratch_shapes, not both"
        )
    spec = GridSpec(grid, in_specs, out_specs, scratch_shapes) if grid_spec is None else grid_spec
    sizes = (spec.grid,) if isinstance(spec.grid, int) else tuple(spec.grid)

    def call(*args: PyTree) -> PyTree:
        if not interpret:
            raise CompatError(
                "pallas_call: effx compiles no kernels of Pallas; interpret=True computes with XLA's operations"
            )
        leaves = [enp.asarray(x) for x in flatten(args)[0]]
        in_tree, (results, out_tree) = flatten(args)[1], flatten(out_shape)
        in_blocks = _blocks_of_each(spec.in_specs, args, [x.shape for x in leaves])
        out_blocks = _blocks_of_each(spec.out_specs, out_shape, [tuple(y.shape) for y in results])
        operands = [b.pad(x) for b, x in zip(in_blocks, leaves, strict=True)]
        starts = [enp.zeros(y.shape, y.dtype) for y in results]
        for source, target in (input_output_aliases or {}).items():
            x, y = leaves[source], starts[target]
            if (x.shape, x.dtype) != (y.shape, y.dtype):
                raise CompatError(
                    f"pallas_call: input_output_aliases: operand {source} is {x.type!r}, and result {target} {y.type!r}"
                )
            starts[target] = x
        padded = [b.pad(y) for b, y in zip(out_blocks, starts, strict=True)]
        scratch = [enp.zeros(m.shape, m.dtype) for m in spec.scratch_shapes]

        def run_program(n: PyTree, carry: list[Array]) -> list[Array]:
            position = [n // prod(sizes[axis + 1 :]) % size for axis, size in enumerate(sizes)]
            written, memory = carry[: len(padded)], carry[len(padded) :]
            read_refs = [new_ref(b.cut(x, position)) for b, x in zip(in_blocks, operands, strict=True)]
            written_refs = [new_ref(b.cut(y, position)) for b, y in zip(out_blocks, written, strict=True)]
            scratch_refs = [new_ref(m) for m in memory]
            token = _places.set((position, sizes))
            try:
                written_tree = out_tree.unflatten(written_refs)
                entries = written_tree if isinstance(out_shape, tuple | list) else (written_tree,)
                kernel(*in_tree.unflatten(read_refs), *entries, *scratch_refs)
            finally:
                _places.reset(token)
            blocks = zip(out_blocks, written, written_refs, strict=True)
            return [*[b.put(y, r[...], position) for b, y, r in blocks], *[r[...] for r in scratch_refs]]

        carry: list[Array] = lax.fori_loop(0, prod(sizes), run_program, [*padded, *scratch])
        written = carry[: len(padded)]
        return out_tree.unflatten([b.crop(y) for b, y in zip(out_blocks, written, strict=True)])

    return call


def _blocks_of_each(specs: PyTree, tree: PyTree, shapes: Sequence[tuple[int, ...]]) -> list[_Blocks]:
    """Returns the blocks of all arrays of a tree, of which the specs are a prefix."""
    if specs is None:
        return [_Blocks.of(None, shape) for shape in shapes]
    if isinstance(specs, list) and isinstance(tree, tuple):
        specs = tuple(specs)
    each = broadcast_prefix(specs, tree, is_leaf=lambda s: s is None or isinstance(s, BlockSpec))
    return [_Blocks.of(spec, shape) for spec, shape in zip(each, shapes, strict=True)]
