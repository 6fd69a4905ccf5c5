"""Plan a program on many devices: memory, collectives and time, read from the compiled program.

`plan` reads a compiled function: XLA's own account of memory, and the partitioned program, which is that of one device.
The devices need not be there: `effx.experimental.topologies` describes them.

Source of the roofline: Williams, Waterman and Patterson, "Roofline", 2009, with one more roof for each mesh axis.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, final

import attrs

from effx import tree
from effx.errors import BackendError, ShardingError, TransformError
from effx.lazy import list_names, old_names
from effx.library.cost import format_number
from effx.library.scaling.collectives import axes_of_groups, groups_of, sent
from effx.library.scaling.counts import flops_of, given_by, traffic_of
from effx.library.scaling.hlo import read
from effx.library.scaling.walking import Performed, kind_of, performed
from effx.sharding import Mesh, NamedSharding
from effx.stages import Compiled

__all__ = ["CollectiveCost", "Hardware", "Memory", "Plan", "plan"]
__dir__ = list_names(__all__)
if not TYPE_CHECKING:
    __getattr__ = old_names(__name__, {"Collective": "CollectiveCost"})

Axes = tuple[str, ...]


def _link_bandwidths(bandwidths: "float | Mapping[str, float]") -> "float | Mapping[str, float]":
    return dict(bandwidths) if isinstance(bandwidths, Mapping) else bandwidths


@final
@attrs.frozen
class Hardware:
    """What one device can do.

    Attributes:
        name: what it is called.
        flops: arithmetic operations a second, in products of the dtype that is used.
        bandwidth: bytes a second from and to its memory.
        memory: bytes.
        links: bytes a second that it sends to others: along each mesh axis, by name, or along any.

    Raises:
        TransformError: a number is not positive.

    >>> Hardware("TPU v5e", flops=197e12, bandwidth=819e9, memory=16e9, links=100e9).flops
    197000000000000.0
    """

    name: str
    flops: float
    bandwidth: float
    memory: float
    links: float | Mapping[str, float] = attrs.field(converter=_link_bandwidths)

    def __attrs_post_init__(self) -> None:
        links = self.links if isinstance(self.links, Mapping) else {"links": self.links}
        numbers = {"flops": self.flops, "bandwidth": self.bandwidth, "memory": self.memory, **links}
        for name, x in numbers.items():
            if not isinstance(x, int | float) or not x > 0:  # type: ignore[redundant-expr]  # unchecked callers
                raise TransformError(f"Hardware: {name} must be a number greater than 0, got {x!r}")

    def link(self, axes: Axes) -> float:
        """Returns how many bytes a second a device sends in a group along mesh axes: as along the slowest of them.

        Raises:
            ShardingError: an axis has no bandwidth.
        """
        if not isinstance(self.links, Mapping):
            return self.links
        unknown = [a for a in axes if a not in self.links]
        if unknown or not axes:
            raise ShardingError(
                f"plan: {self.name} says nothing of links along {unknown[0] if unknown else 'unnamed axes'!r}; it has "
                f"{', '.join(map(repr, self.links))}"
            )
        return min([self.links[a] for a in axes])


@final
@attrs.frozen
class Memory:
    """Bytes on each device, as XLA accounts for them.

    Attributes:
        arguments, results: of input and output arrays.
        shared: of results that take the memory of donated arguments.
        temporaries: of all that is between.
        code: of the program.

    >>> import effx, effx.numpy as enp
    >>> from effx.library.scaling import Hardware, plan
    >>> compiled = effx.jit(lambda x: x + 1.0).lower(enp.ones(256)).compile()
    >>> memory = plan(compiled, Hardware("a chip", flops=1e14, bandwidth=1e12, memory=1e10, links=1e11)).memory
    >>> memory.arguments, memory.results
    (1024, 1024)
    """

    arguments: int
    results: int
    shared: int
    temporaries: int
    code: int

    @property
    def total(self) -> int:
        """All of it, at once."""
        return self.arguments + self.results - self.shared + self.temporaries + self.code


@final
@attrs.frozen
class CollectiveCost:
    """Collectives of one kind along the same mesh axes.

    Attributes:
        kind: such as `all-reduce`.
        axes: the mesh axes along which the devices of a group differ.
        devices: how many are in a group; of permutations two, the sender and the receiver.
        count: how many are performed, in loops as often as they run.
        bytes: how many bytes each device sends, in all.

    >>> from effx.library.scaling import CollectiveCost
    >>> CollectiveCost("all-reduce", ("data",), devices=4, count=2.0, bytes=3072.0).bytes
    3072.0
    """

    kind: str
    axes: Axes
    devices: int
    count: float
    bytes: float


@final
@attrs.frozen
class Plan:
    """What each device of a mesh does in one run of a program; prints as a table.

    Attributes:
        name: of the function.
        mesh: names and sizes of the mesh's axes.
        hardware: what the times are for.
        memory: bytes on each device.
        flops: arithmetic operations in products and convolutions; what else there is, memory bounds.
        traffic: bytes read from and written to main memory.
        collectives: what is exchanged, the most bytes first.
        unbounded: whether there are loops of unknown length, which count as one iteration.
        opaque: the custom calls in it, whose arithmetic is not counted.

    >>> import effx, effx.numpy as enp
    >>> from effx.library.scaling import Hardware, plan
    >>> compiled = effx.jit(lambda x: x @ x).lower(enp.ones((10, 10))).compile()
    >>> result = plan(compiled, Hardware("a chip", flops=1e14, bandwidth=1e12, memory=1e10, links=1e11))
    >>> result.flops, result.collectives, result.bound
    (2000.0, (), 'memory')
    """

    name: str
    mesh: tuple[tuple[str, int], ...]
    hardware: Hardware
    memory: Memory
    flops: float
    traffic: float
    collectives: tuple[CollectiveCost, ...]
    unbounded: bool
    opaque: tuple[str, ...]

    @property
    def compute_seconds(self) -> float:
        """The least time for the arithmetic."""
        return self.flops / self.hardware.flops

    @property
    def memory_seconds(self) -> float:
        """The least time for the traffic to and from memory."""
        return self.traffic / self.hardware.bandwidth

    @property
    def link_seconds(self) -> dict[Axes, float]:
        """The least time for what is sent along each set of mesh axes."""
        entries: dict[Axes, float] = {}
        for c in self.collectives:
            entries[c.axes] = entries.get(c.axes, 0.0) + c.bytes / self.hardware.link(c.axes)
        return entries

    @property
    def communication_seconds(self) -> float:
        """The least time for all that is sent, one collective after the other."""
        return sum(self.link_seconds.values())

    @property
    def seconds(self) -> float:
        """A lower bound of the time of a run, in which arithmetic, memory and links work side by side."""
        return max(self.compute_seconds, self.memory_seconds, self.communication_seconds)

    @property
    def serial_seconds(self) -> float:
        """The time if each waits for the others."""
        return self.compute_seconds + self.memory_seconds + self.communication_seconds

    @property
    def bound(self) -> str:
        """What takes the longest: "compute", "memory" or "communication"."""
        times = {
            "compute": self.compute_seconds,
            "memory": self.memory_seconds,
            "communication": self.communication_seconds,
        }
        return max(times, key=times.__getitem__)

    @property
    def fits(self) -> bool:
        """Whether the memory is enough."""
        return self.memory.total <= self.hardware.memory

    def __str__(self) -> str:
        m, h = self.memory, self.hardware
        mesh = " x ".join([f"{n} {size}" for n, size in self.mesh]) or "one device"
        parts = (
            ("arguments", m.arguments),
            ("results", m.results - m.shared),
            ("temporaries", m.temporaries),
            ("code", m.code),
        )
        fits = "fits" if self.fits else "does not fit"
        lines = [
            f"{self.name} on {mesh} of {h.name}, for each device",
            "",
            f"memory {format_number(m.total)}B of {format_number(h.memory)}B, {fits}: "
            + ", ".join([f"{name} {format_number(n)}B" for name, n in parts]),
            "",
            f"{'collective':<22} {'along':<16} {'group':>5} {'count':>8} {'sent':>9} {'time':>9}",
        ]
        for c in self.collectives:
            time = c.bytes / h.link(c.axes)
            along = ", ".join(c.axes) or "?"
            lines.append(
                f"{c.kind:<22} {along:<16} {c.devices:>5} {format_number(c.count):>8} {format_number(c.bytes):>8}B "
                f"{_seconds(time):>9}"
            )
        if not self.collectives:
            lines.append("none")
        rows = (
            ("compute", f"{format_number(self.flops)}flop", self.compute_seconds),
            ("memory", f"{format_number(self.traffic)}B", self.memory_seconds),
            (
                "communication",
                f"{format_number(sum([c.bytes for c in self.collectives]))}B",
                self.communication_seconds,
            ),
        )
        lines += ["", *[f"{name:<14} {amount:>10} {_seconds(time):>9}" for name, amount, time in rows]]
        lines.append(f"at least {_seconds(self.seconds)} a run, bound by {self.bound}")
        if self.unbounded:
            lines.append("loops of unknown length count as one iteration")
        return "\n".join(lines)


def _seconds(x: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if x >= size:
            return f"{x / size:.3g} {unit}"
    return f"{x / 1e-9:.3g} ns"


def plan(compiled: Compiled, hardware: Hardware, mesh: Mesh | None = None) -> Plan:
    """Says what each device does in one run of a compiled function, and how long that takes at least.

    The program is read as XLA compiled it for the platform of its devices, so that a CPU's is particular to CPUs:
    bfloat16 is computed with and sent as float32, and gradients are summed whole before each device takes its part.

    Args:
        compiled: as `jit(f).lower(x).compile()` gives it; the devices need not be there.
        hardware: what a device can do.
        mesh: the mesh whose axes name the collectives; by default that of the arguments or results.

    Returns:
        XLA's account of memory; products, traffic and collectives counted in its text, loops as often as they run.
        Bytes of collectives are those of `effx.library.scaling.collectives`.

    Raises:
        TransformError: `compiled` is no compiled function, or `hardware` no Hardware.
        ShardingError: the mesh has another number of devices, or the hardware has no links along one of its axes.
        BackendError: XLA does not say how much memory the program takes.

    >>> import effx
    >>> from effx.experimental import topologies
    >>> from effx.sharding import NamedSharding, PartitionSpec as P
    >>> mesh = topologies.make_mesh(topologies.get_topology_desc("16", "cpu"), (16,), ("model",))
    >>> def struct(*spec):
    ...     return effx.ShapeDtypeStruct((1024, 1024), "float32", sharding=NamedSharding(mesh, P(*spec)))
    >>> product = effx.jit(lambda x, y: x @ y, out_shardings=NamedSharding(mesh, P()))
    >>> compiled = product.lower(struct(None, "model"), struct("model")).compile()
    >>> found = plan(compiled, Hardware("a chip", flops=1e14, bandwidth=1e12, memory=1e10, links=1e11))
    >>> [(c.kind, c.axes, c.count, c.bytes / 1024**2) for c in found.collectives]
    [('all-reduce', ('model',), 1.0, 7.5)]
    >>> found.flops == 2 * 1024**3 / 16, found.memory.arguments, found.bound
    (True, 524288, 'communication')
    """
    if not isinstance(compiled, Compiled):
        raise TransformError(
            f"plan: expected what jit(f).lower(x).compile() gives, got {compiled!r} of type {type(compiled).__name__}"
        )
    if not isinstance(hardware, Hardware):
        raise TransformError(f"plan: hardware must be a Hardware, got {hardware!r}")
    text = compiled.as_text()
    count = _partitions(text)
    target_mesh = mesh if mesh is not None else _mesh_of_compiled(compiled)
    if target_mesh is not None and target_mesh.size != count:
        raise ShardingError(
            f"plan: the mesh {target_mesh!r} has {target_mesh.size} devices, but the program runs on {count}"
        )
    module = read(text)
    flops = traffic = 0.0
    collectives: dict[tuple[str, Axes, int], CollectiveCost] = {}
    opaque: set[str] = set()
    unbounded = False
    for p in performed(module):
        i = p.instruction
        unbounded = unbounded or p.unbounded
        flops += p.times * flops_of(p.computation, i)
        if not p.fused:
            traffic += p.times * traffic_of(module, p.computation, i)
        if i.opcode == "custom-call":
            opaque.add(i.attributes.get("custom_call_target", "?").strip('"'))
        kind = kind_of(p)
        if kind is not None and p.times:
            one = _collective(p, kind, count, target_mesh)
            if one.devices > 1:
                key = (kind, one.axes, one.devices)
                before = collectives.get(key, attrs.evolve(one, count=0.0, bytes=0.0))
                collectives[key] = attrs.evolve(
                    before, count=before.count + one.count, bytes=before.bytes + one.bytes
                )
                traffic += _chain_traffic(p)
    result = Plan(
        name=compiled.signature.name,
        mesh=() if target_mesh is None else tuple([(str(n), size) for n, size in target_mesh.shape_tuple]),
        hardware=hardware,
        memory=_memory(compiled),
        flops=flops,
        traffic=traffic,
        collectives=tuple(sorted(collectives.values(), key=lambda c: (-c.bytes, c.kind, c.axes))),
        unbounded=unbounded,
        opaque=tuple(sorted(opaque)),
    )
    for c in result.collectives:
        hardware.link(c.axes)
    return result


def _partitions(text: str) -> int:
    head = text.partition("\n")[0]
    match = re.search(r"num_partitions=(\d+)", head)
    return int(match[1]) if match else 1


def _mesh_of_compiled(compiled: Compiled) -> Mesh | None:
    for sharding in tree.leaves((compiled.input_shardings, compiled.output_shardings)):
        if isinstance(sharding, NamedSharding):
            return sharding.device_mesh
    return None


def _memory(compiled: Compiled) -> Memory:
    stats = compiled.memory_analysis()
    if stats is None:
        raise BackendError(f"plan: XLA does not say how much memory {compiled.signature.name} takes")
    return Memory(
        arguments=stats.argument_size_in_bytes,
        results=stats.output_size_in_bytes,
        shared=stats.alias_size_in_bytes,
        temporaries=stats.temp_size_in_bytes,
        code=stats.generated_code_size_in_bytes,
    )


def _collective(p: Performed, kind: str, count: int, mesh: Mesh | None) -> CollectiveCost:
    i = p.instruction
    groups = groups_of(i, count)
    n = max([len(g) for g in groups], default=1)
    before = sum([s.bytes for name in i.operands for s in p.computation.instructions[name].shapes])
    after = sum([s.bytes for s in given_by(i)])
    axes: Axes = ()
    if mesh is not None:
        axes = tuple([str(mesh.axis_names[a]) for a in axes_of_groups(groups, mesh.axis_sizes)])
    return CollectiveCost(kind, axes, n, p.times, p.times * sent(kind, n, before, after))


def _chain_traffic(p: Performed) -> float:
    """Returns the traffic of a transfer in steps, which the fusions that it is part of leave out."""
    i = p.instruction
    if not p.fused or "chain_id" not in i.attributes.get("frontend_attributes", ""):
        return 0.0
    operands = [s for name in i.operands for s in p.computation.instructions[name].shapes]
    return p.times * sum([s.bytes for s in (*operands, *i.shapes) if not s.space])
