"""The training step of `examples/plan_7b.py`, compiled by either library for 256 chips of a TPU v5e.

The example's module is loaded a second time, with the library's names in the places of effx's, so that both compile one
source.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any, TypedDict

import numpy as np

from effx.experimental import topologies
from effx.library.scaling.collectives import groups_of, sent
from effx.library.scaling.counts import given_by
from effx.library.scaling.hlo import read
from effx.library.scaling.walking import kind_of, performed
from examples.plan_7b import Sizes

__all__ = ["NAME", "Exchange", "compile_training_step", "count_collectives", "count_memory"]

NAME = "training step of 7 billion parameters"
TOPOLOGY, MESH, AXES = "v5e:16x16", (64, 4), ("data", "model")


class Exchange(TypedDict):
    """The collectives of one kind in one run: how many each chip takes part in, and how many bytes it sends."""

    count: float
    bytes: float


def load_example(library: str) -> ModuleType:
    """Returns the module of the example, as a program of effx or of jax."""
    spec = importlib.util.find_spec("examples.plan_7b")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def load(part: str) -> Any:
        return importlib.import_module(f"{library}.{part}")

    api, sharding = importlib.import_module(library), load("sharding")
    names = {
        "effx": api,
        "enp": load("numpy"),
        "lax": load("lax"),
        "nn": load("nn"),
        "topologies": load("experimental.topologies"),
        "ShapeDtypeStruct": api.ShapeDtypeStruct,
        "NamedSharding": sharding.NamedSharding,
        "P": sharding.PartitionSpec,
        "SPECS": {name: sharding.PartitionSpec(*spec) for name, spec in vars(module)["SPECS"].items()},
    }
    missing = [name for name in names if name not in vars(module)]
    assert not missing, f"examples/plan_7b.py has no longer {', '.join(missing)}"
    vars(module).update(names)
    return module


def compile_training_step(
    library: str, topology: str = TOPOLOGY, platform: str = "tpu", sizes: Sizes | None = None
) -> Any:
    """Returns the compiled step, as the library gives it; by default of Llama 2 7B's sizes.

    effx places the mesh on the torus for both: JAX's `make_mesh` cuts no axis of it in two.
    """
    example: Any = load_example(library)
    placed = topologies.make_mesh(topologies.get_topology_desc(topology, platform), MESH, AXES)
    devices = {
        device.id: device for device in example.topologies.get_topology_desc(topology, platform).devices
    }
    array = np.array([devices[device.id] for device in np.ravel(placed.devices)]).reshape(MESH)
    mesh = importlib.import_module(f"{library}.sharding").Mesh(array, AXES)
    return example.compiled(Sizes() if sizes is None else sizes, mesh)


def count_memory(stats: Any) -> int:
    """Returns the bytes that a program takes on each chip, by XLA's account."""
    return int(
        stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        - stats.alias_size_in_bytes
        + stats.temp_size_in_bytes
        + stats.generated_code_size_in_bytes
    )


def count_collectives(text: str, devices: int) -> dict[str, Exchange]:
    """Counts what chips exchange in HLO's text of a program, loops as often as they run.

    Args:
        text: the partitioned program.
        devices: how many run it.
    """
    found: dict[str, Exchange] = {}
    for p in performed(read(text)):
        kind = kind_of(p)
        if kind is None or not p.times:
            continue
        i = p.instruction
        group = max([len(g) for g in groups_of(i, devices)], default=1)
        if group == 1:
            continue
        before = sum([s.bytes for name in i.operands for s in p.computation.instructions[name].shapes])
        after = sum([s.bytes for s in given_by(i)])
        all_of_kind = found.setdefault(kind, {"count": 0.0, "bytes": 0.0})
        all_of_kind["count"] += p.times
        all_of_kind["bytes"] += p.times * sent(kind, group, before, after)
    return dict(sorted(found.items()))
