"""Lower a program to one XLA computation: for replicas and partitions on no particular devices, constants in its text.

Replicas run the computation on arguments of their own; their collectives go over the axes of an environment.
Partitions run it together, each on a part of the arguments, as XLA's partitioner decides.

With replicas collectives have no channels, and a parallel map inside takes its slices by hand.
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

import effx.lower.text.stablehlo  # noqa: F401  # registers the rules
from effx.effects import all_optional
from effx.errors import BackendError
from effx.ir.ops.collective import AxisEffect, AxisName
from effx.ir.program import Program
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.placement.parallel_maps import device_count
from effx.lower.text.emit import Axis, Module
from effx.lower.text.hlo import XlaComputation, hlo_computation
from effx.lower.text.module import array_literal_text, assemble_module_text, main_lines

PartitionCounts: TypeAlias = tuple[int, ...] | None
"""The number of parts of each axis of an array; None for an array that is replicated on all partitions."""


def computation(
    program: Program,
    constants: Sequence[ConcreteArray],
    platform: str,
    *,
    axes: Sequence[tuple[AxisName, int]] = (),
    donated: Sequence[bool] = (),
    in_parts: Sequence[PartitionCounts] = (),
    out_parts: Sequence[PartitionCounts] = (),
    tuple_args: bool = False,
) -> XlaComputation:
    """Returns a program as an XLA computation, before XLA optimises, whose result is a tuple.

    Args:
        program: its effect row names no axis but those of `axes`.
        constants: the values of its first inputs, which are no arguments of the computation.
        platform: "cpu", "cuda", "rocm" or "tpu".
        axes: names and sizes of the replicas' axes, outermost first.
        donated: for each argument whether its memory may be reused for a result.
        in_parts, out_parts: how arguments and results are partitioned; empty for one partition.
        tuple_args: True for one argument, a tuple of all.

    Raises:
        BackendError: the program leaves effects open, or XLA refuses it.
    """
    bound = frozenset([AxisEffect(name) for name, _ in axes])
    if not all_optional(program.effects - bound):
        raise BackendError(
            f"lower: {program.name} leaves effects open: {sorted(map(repr, program.effects - bound))}"
        )
    outer = math.prod([size for _, size in axes])
    replicas = outer * max(device_count(program), 1)
    stride, around = replicas, []
    for name, size in axes:
        stride //= size
        around.append(Axis(name, size, stride))
    module = Module(platform, replicas, axes=tuple(around))
    attributes = [_sharding(p) for p in in_parts] or [[] for _ in program.inputs[len(constants) :]]
    results = [_sharding(p) for p in out_parts]
    cuts = (in_parts, out_parts) if in_parts else None
    main = main_lines(
        module,
        program,
        attributes,
        results=results,
        donated=donated,
        cuts=cuts,
        constants=[array_literal_text(c) for c in constants],
    )
    name = f"xla_computation_{program.name}"
    text = assemble_module_text(module, name, main, replicas, partition_count([*in_parts, *out_parts]))
    return hlo_computation(text, tuple_args, return_tuple=True)


def partition_count(parts: Sequence[PartitionCounts]) -> int:
    """Returns the number of partitions; 1 where nothing is partitioned."""
    return max([math.prod(p) for p in parts if p is not None], default=1)


def _sharding(parts: PartitionCounts) -> list[str]:
    if parts is None:
        return ['mhlo.sharding = "{replicated}"']
    tiles = ",".join(map(str, parts))
    return [f'mhlo.sharding = "{{devices=[{tiles}]<=[{math.prod(parts)}]}}"']
